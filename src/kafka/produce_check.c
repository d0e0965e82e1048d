/* Is a batch fit for its topic?
 *
 * Happy path: header and CRC, and the walk over uncompressed records (batch_check_facts), say all there is to say. Compressed records are looked at one by
 * one on compacted topics, whose records need keys (S5.15), and on topics with timestamp limits of their own (S5.14); then count, offset deltas and the
 * largest timestamp are checked on the way (S5.10, S5.11). Elsewhere the header is trusted.
 * Failure modes: records at fault are listed by index, the first of them at least up to list_max; a record has one fault, the key before the time. Any
 * fault of time makes the whole 32, otherwise it is 87. A bomb stops at its ceiling (T55).
 * Runs on: home shard. */
#include "produce_check.h"

#include "base/limits.h"
#include "wire/record_scan.h"
#include "wire/zip.h"

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
    f->now = shard_wall(ck->rq->sh);
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
    ck->errors = f->n > 0 ? rq_array(ck->rq, (size_t)f->n, sizeof *ck->errors) : NULL;
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

static err look_inside(struct produce_check *ck) {
    struct record_scan s;
    struct faults f;
    err e = record_scan_init(&s, ck->bytes, zip_bytes_max((size_t)ck->conf->max_message_bytes));
    if (e != ERR_OK) {
        return e;
    }
    faults_init(&f, ck);
    ck->facts = (struct batch_facts){.walked = true, .min_ts_ms = INT64_MAX, .max_ts_ms = INT64_MIN, .keyless = -1};
    e = see_all(ck, &f, &s);
    record_scan_done(&s);
    if (e != ERR_OK || !f.any) {
        return e;
    }
    faults_list(&f, ck);
    ck->why = f.late != NULL ? f.late : keyless_text;
    return f.late != NULL ? ERR_BAD_TIMESTAMP : ERR_BAD_RECORD;
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

static err check_head(struct produce_check *ck) {
    if (ck->head.bytes > (size_t)ck->conf->max_message_bytes) {
        ck->why = "the batch is larger than the topic's max.message.bytes";      /* S5.8, BR-052 */
        return ERR_BATCH_TOO_LARGE;
    }
    if (batch_codec(&ck->head) == CODEC_ZSTD && ck->rq->version < 7) {
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
    const char *late = bad_time(conf, shard_wall(ck->rq->sh), ck->facts.max_ts_ms);
    if (own_limits(conf) || (conf->cleanup_compact && (!ck->facts.walked || ck->facts.keyless >= 0)) || (ck->facts.walked && late != NULL)) {
        return look_inside(ck);
    }
    ck->why = late;
    return late != NULL ? ERR_BAD_TIMESTAMP : ERR_OK;
}

err produce_check_batch(struct produce_check *ck) {
    if (ck->bytes.n == 0) {
        ck->why = "a partition needs exactly one batch";                 /* S5.2, S5.26 */
        return ERR_BAD_RECORD;
    }
    err e = batch_check_facts(ck->bytes, &ck->head, &ck->facts, &ck->why);
    e = e == ERR_OK ? check_head(ck) : e;
    return e == ERR_OK ? check_records(ck) : e;
}
