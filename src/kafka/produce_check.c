/* Is a batch fit for its topic, and how is it stored?
 *
 * Happy path: header and CRC, and the walk over uncompressed records (batch_check_facts), say all there is to say. Compressed records are looked at one by
 * one on compacted topics, whose records need keys (S5.15), and on topics with timestamp limits of their own (S5.14); then count, offset deltas and the
 * largest timestamp are checked on the way (S5.10, S5.11). Elsewhere the header is trusted. Where compression.type names another codec than the batch has, the same walk
 * feeds the unpacked bytes, as they are, to that codec (S5.16): offsets, times and everything of the producer stay, the head gets codec, length and CRC.
 * Failure modes: records at fault are listed by index, the first of them at least up to list_max; a record has one fault, the key before the time. Any
 * fault of time makes the whole 32, otherwise it is 87. A bomb stops at its ceiling (T55). Packed anew, a batch may be larger than max.message.bytes: 10, as if it had come so.
 * Runs on: home shard, or its worker. */
#include "produce_check.h"

#include "base/limits.h"
#include "wire/record_scan.h"
#include "wire/zip.h"

#define CHECK_BYTES_PER_TURN ((size_t)4 << 20)   /* a batch above this is not gone through in a turn */
#define AFTER_MAX_DEFAULT ((ms)3600 * 1000)      /* message.timestamp.after.max.ms where nobody set it */

static const char keyless_text[] = "a compacted topic needs a key in every record";
static const char marked_text[] = "a producer's batch may not carry broker time (LogAppendTime) on a CreateTime topic";

/* The records at fault. */
struct faults {
    ms now;
    bool any;
    const char *late;                  /* the first fault of time, or NULL */
    int32_t n;                         /* listed */
    struct {
        int32_t index;
        const char *text;
    } v[LIMIT_RECORD_ERRORS];
};

static void faults_init(struct faults *f, const struct produce_check *ck) {
    f->now = ck->now;
    f->any = false;
    f->late = NULL;
    f->n = 0;
}

static void faults_add(struct faults *f, const struct produce_check *ck, int32_t index, const char *text) {
    f->any = true;
    if (f->n < LIMIT_RECORD_ERRORS && f->n < ck->list_max) {
        f->v[f->n].index = index;
        f->v[f->n].text = text;
        f->n++;
    }
}

/* Move the list into the answer; without memory there is none. */
static void faults_list(const struct faults *f, struct produce_check *ck) {
    ck->errors = f->n > 0 ? arena_zalloc(ck->arena, (size_t)f->n * sizeof *ck->errors) : NULL;
    ck->errors_n = ck->errors != NULL ? f->n : 0;
    for (int32_t i = 0; i < ck->errors_n; i++) {
        k_produce_resp_topic_part_record_error_init(&ck->errors[i]);
        ck->errors[i].batch_index = f->v[i].index;
        ck->errors[i].message = span_str(f->v[i].text);
    }
}

/* S5.14: what is wrong with this time, or NULL. */
static const char *bad_time(const struct topicconf *conf, ms now, ms ts) {
    if (conf->ts_type != TS_CREATE_TIME || ts == -1) {
        return NULL;
    }
    uint64_t apart = ts > now ? (uint64_t)ts - (uint64_t)now : (uint64_t)now - (uint64_t)ts;
    if (ts > now && conf->ts_after_max != INT64_MAX && apart > (uint64_t)conf->ts_after_max) {
        return "a record's timestamp is further ahead than message.timestamp.after.max.ms allows";
    }
    if (ts < now && conf->ts_before_max != INT64_MAX && apart > (uint64_t)conf->ts_before_max) {
        return "a record's timestamp is older than message.timestamp.before.max.ms allows";
    }
    return NULL;
}

/* Limits of time that the header alone cannot answer for. */
static bool own_limits(const struct topicconf *conf) {
    return conf->ts_type == TS_CREATE_TIME &&
           (conf->ts_before_max != INT64_MAX || (conf->ts_after_max != INT64_MAX && conf->ts_after_max != AFTER_MAX_DEFAULT));
}

/* ---- record by record ---- */

static void see(struct produce_check *ck, struct faults *f, const struct record_seen *r) {
    struct batch_facts *facts = &ck->facts;
    const char *late = bad_time(ck->conf, f->now, r->ts_ms);
    facts->min_ts_ms = r->ts_ms < facts->min_ts_ms ? r->ts_ms : facts->min_ts_ms;
    facts->max_ts_ms = r->ts_ms > facts->max_ts_ms ? r->ts_ms : facts->max_ts_ms;
    if (r->key_bytes < 0 && facts->keyless < 0) {
        facts->keyless = r->delta;
    }
    if (ck->conf->cleanup_compact && r->key_bytes < 0) {
        faults_add(f, ck, r->delta, keyless_text);
    } else if (late != NULL) {
        f->late = f->late != NULL ? f->late : late;
        faults_add(f, ck, r->delta, late);
    }
}

static err see_all(struct produce_check *ck, struct faults *f, struct record_scan *s) {
    struct record_seen r;
    while (record_scan_next(s, &r)) {
        if (r.delta != s->n - 1) {
            ck->why = "offset deltas are not 0, 1, 2 and so on";
            return ERR_BAD_RECORD;
        }
        see(ck, f, &r);
    }
    ck->why = s->why;
    return s->err == ERR_LIMIT ? ERR_BAD_RECORD : s->err;
}

static err check_tap(void *u, span piece) {
    struct produce_check *ck = u;
    if (ck->stop != NULL && atomic_load_explicit(ck->stop, memory_order_relaxed)) {
        return ERR_CANCELLED;
    }
    err e = ck->packed.p != NULL ? zip_sink_put(&ck->packed, piece) : ERR_OK;
    return e == ERR_LIMIT ? ERR_BATCH_TOO_LARGE : e;
}

static err look_at_all(struct produce_check *ck, struct record_scan *s) {
    struct faults f;
    err e = record_scan_tap(s, check_tap, ck);
    if (e != ERR_OK) {
        ck->why = e == ERR_BATCH_TOO_LARGE ? "the batch is larger than the topic's max.message.bytes once it is packed as compression.type says" : NULL;
        return e;
    }
    faults_init(&f, ck);
    ck->facts = (struct batch_facts){.walked = true, .min_ts_ms = INT64_MAX, .max_ts_ms = INT64_MIN, .keyless = -1};
    e = see_all(ck, &f, s);
    if (e != ERR_OK || !f.any) {
        return e;
    }
    faults_list(&f, ck);
    ck->why = f.late != NULL ? f.late : keyless_text;
    return f.late != NULL ? ERR_BAD_TIMESTAMP : ERR_BAD_RECORD;
}

static err look_inside(struct produce_check *ck) {
    struct record_scan s;
    err e = record_scan_init(&s, ck->bytes, zip_bytes_max((size_t)ck->conf->max_message_bytes));
    if (e != ERR_OK) {
        return e;
    }
    e = look_at_all(ck, &s);
    record_scan_done(&s);
    return e;
}

/* ---- another codec ---- */

static int level_of(const struct topicconf *conf) {
    return conf->codec == CODEC_GZIP ? conf->gzip_level : conf->codec == CODEC_LZ4 ? conf->lz4_level : conf->zstd_level;
}

static bool is_to_be_packed(const struct topicconf *conf, const struct batch_head *h) { return conf->codec >= 0 && conf->codec != (int8_t)batch_codec(h); }

/* The head that goes with the new bytes. */
static err pack_end(struct produce_check *ck) {
    struct zip_sink *z = &ck->packed;
    err e = zip_sink_finish(z);
    if (e != ERR_OK) {
        ck->why = e == ERR_LIMIT ? "the batch is larger than the topic's max.message.bytes once it is packed as compression.type says" : NULL;
        return e == ERR_LIMIT ? ERR_BATCH_TOO_LARGE : e;
    }
    ck->head.attributes = (int16_t)((ck->head.attributes & ~BATCH_ATTR_CODEC) | ck->conf->codec);
    ck->head.length = (int32_t)(z->n - BATCH_OVERHEAD_BYTES);
    ck->head.bytes = z->n;
    if (ck->conf->ts_type == TS_CREATE_TIME) {
        ck->head.max_ts_ms = ck->facts.max_ts_ms;  /* S5.11 */
    }
    batch_head_put(z->p, &ck->head);
    ck->bytes = span_of(z->p, z->n);
    return ERR_OK;
}

static err pack_anew(struct produce_check *ck) {
    err e = zip_sink_init(&ck->packed, (enum batch_codec)ck->conf->codec, level_of(ck->conf), BATCH_HEAD_BYTES, (size_t)ck->conf->max_message_bytes);
    if (e != ERR_OK) {
        ck->packed = (struct zip_sink){0};
        return e;
    }
    e = look_inside(ck);
    e = e == ERR_OK ? pack_end(ck) : e;
    if (e != ERR_OK) {
        zip_sink_done(&ck->packed);
    }
    return e;
}

/* ---- the batch ---- */

/* S5.13: every record of the batch is at fault. */
static err check_mark(struct produce_check *ck) {
    if (ck->conf->ts_type != TS_CREATE_TIME || (ck->head.attributes & BATCH_ATTR_LOG_APPEND_TIME) == 0) {
        return ERR_OK;
    }
    struct faults f;
    faults_init(&f, ck);
    for (int32_t i = 0; i < ck->head.count && i < LIMIT_RECORD_ERRORS; i++) {
        faults_add(&f, ck, i, marked_text);
    }
    faults_list(&f, ck);
    ck->why = marked_text;
    return ERR_BAD_TIMESTAMP;
}

/* Before its bytes are gone through. */
static err check_size(struct produce_check *ck) {
    if (ck->bytes.n > (size_t)ck->conf->max_message_bytes && batch_peek(ck->bytes, &ck->head) == ERR_OK && ck->head.bytes == ck->bytes.n) {
        ck->why = "the batch is larger than the topic's max.message.bytes";      /* S5.8, BR-052 */
        return ERR_BATCH_TOO_LARGE;
    }
    return ERR_OK;
}

static err check_head(struct produce_check *ck) {
    if (batch_codec(&ck->head) == CODEC_ZSTD && ck->version < 7) {
        ck->why = "zstd needs Produce version 7";                        /* S5.3 */
        return ERR_BAD_CODEC;
    }
    if ((ck->head.attributes & BATCH_ATTR_TRANSACTIONAL) != 0) {
        ck->why = "transactions are not served yet";
        return ERR_TXN_STATE;
    }
    return check_mark(ck);
}

/* The rules about single records, by the facts where they suffice. */
static err check_records(struct produce_check *ck) {
    const struct topicconf *conf = ck->conf;
    if (is_to_be_packed(conf, &ck->head)) {
        return pack_anew(ck);
    }
    const char *late = bad_time(conf, ck->now, ck->facts.max_ts_ms);
    if (own_limits(conf) || (conf->cleanup_compact && (!ck->facts.walked || ck->facts.keyless >= 0)) || (ck->facts.walked && late != NULL)) {
        return look_inside(ck);
    }
    ck->why = late;
    return late != NULL ? ERR_BAD_TIMESTAMP : ERR_OK;
}

bool produce_check_is_heavy(const struct produce_check *ck) {
    const struct topicconf *conf = ck->conf;
    struct batch_head h;
    if (batch_peek(ck->bytes, &h) != ERR_OK || h.bytes != ck->bytes.n || h.bytes > (size_t)conf->max_message_bytes) {
        return false;                              /* refused at once, at most after its CRC */
    }
    bool inside = batch_codec(&h) != CODEC_NONE && (own_limits(conf) || conf->cleanup_compact);
    return inside || is_to_be_packed(conf, &h) || h.bytes > CHECK_BYTES_PER_TURN;
}

size_t produce_check_packed_max(const struct produce_check *ck) {
    struct batch_head h;
    if (batch_peek(ck->bytes, &h) != ERR_OK || !is_to_be_packed(ck->conf, &h)) {
        return 0;
    }
    size_t most = (size_t)ck->conf->max_message_bytes, grown = ck->bytes.n + ck->bytes.n / 4 + 4096;       /* no codec makes more of what it cannot pack */
    return batch_codec(&h) == CODEC_NONE && grown < most ? grown : most;
}

err produce_check_batch(struct produce_check *ck) {
    if (ck->bytes.n == 0) {
        ck->why = "a partition needs exactly one batch";                 /* S5.2, S5.26 */
        return ERR_BAD_RECORD;
    }
    err e = check_size(ck);
    e = e == ERR_OK ? batch_check_facts(ck->bytes, &ck->head, &ck->facts, &ck->why) : e;
    e = e == ERR_OK ? check_head(ck) : e;
    return e == ERR_OK ? check_records(ck) : e;
}
