/* Record batch v2: header, checks, stamps.
 *
 * Happy path of a produce: batch_check_facts reads the 61 bytes, compares the CRC, holds the header
 * against the rules for producers and, if nothing is compressed, against the records one by one;
 * later the owner stamps offset and epoch, which lie outside the CRC.
 * Failure modes: TORN (fewer bytes than the length says: a log's tail), CORRUPT (impossible length,
 * other magic, CRC), BAD_RECORD (intact, but breaks a rule). Nothing is believed that the bytes do
 * not bear out: lengths are compared with what is left before they are used.
 * Runs on: any. */
#include "wire/batch.h"

#include "base/be.h"
#include "base/crc.h"
#include "base/must.h"
#include "record_raw.h"
#include "wire/record.h"

enum {
    AT_BASE_OFFSET = 0, AT_LENGTH = 8, AT_LEADER_EPOCH = 12, AT_MAGIC = 16, AT_CRC = 17, AT_ATTRIBUTES = 21, AT_LAST_DELTA = 23,
    AT_BASE_TS = 27, AT_MAX_TS = 35, AT_PRODUCER_ID = 43, AT_PRODUCER_EPOCH = 51, AT_BASE_SEQUENCE = 53, AT_COUNT = 57
};
static_assert(AT_COUNT + 4 == BATCH_HEAD_BYTES, "the records follow the count");

#define BATCH_MAGIC 2

int32_t batch_last_sequence(const struct batch_head *h) {
    return batch_sequence_add(h->base_sequence, h->last_offset_delta);
}

int32_t batch_sequence_add(int32_t sequence, int32_t n) {
    int64_t sum = (int64_t)sequence + n;
    return sum > INT32_MAX ? (int32_t)(sum - INT32_MAX - 1) : (int32_t)sum;
}

err batch_peek(span b, struct batch_head *ret_h) {
    if (b.n < BATCH_HEAD_BYTES) {
        return ERR_TORN;
    }
    int32_t length = (int32_t)be32_get(b.p + AT_LENGTH);
    if (b.p[AT_MAGIC] != BATCH_MAGIC || length < BATCH_HEAD_BYTES - BATCH_OVERHEAD_BYTES) {
        return ERR_CORRUPT;
    }
    *ret_h = (struct batch_head){
        .base_offset = (int64_t)be64_get(b.p + AT_BASE_OFFSET),
        .length = length,
        .leader_epoch = (int32_t)be32_get(b.p + AT_LEADER_EPOCH),
        .crc = be32_get(b.p + AT_CRC),
        .attributes = (int16_t)be16_get(b.p + AT_ATTRIBUTES),
        .last_offset_delta = (int32_t)be32_get(b.p + AT_LAST_DELTA),
        .base_ts_ms = (int64_t)be64_get(b.p + AT_BASE_TS),
        .max_ts_ms = (int64_t)be64_get(b.p + AT_MAX_TS),
        .producer_id = (int64_t)be64_get(b.p + AT_PRODUCER_ID),
        .producer_epoch = (int16_t)be16_get(b.p + AT_PRODUCER_EPOCH),
        .base_sequence = (int32_t)be32_get(b.p + AT_BASE_SEQUENCE),
        .count = (int32_t)be32_get(b.p + AT_COUNT),
        .bytes = (size_t)length + BATCH_OVERHEAD_BYTES,
    };
    return ERR_OK;
}

err batch_head_get(span b, struct batch_head *ret_h) {
    struct batch_head h;
    err e = batch_peek(b, &h);
    if (e) {
        return e;
    }
    if (h.bytes > b.n) {
        return ERR_TORN;
    }
    *ret_h = h;
    return ERR_OK;
}

static uint32_t crc_of(const uint8_t *batch, size_t n) {
    return crc32c(batch + AT_ATTRIBUTES, n - AT_ATTRIBUTES);
}

bool batch_crc_ok(span batch) {
    return batch.n >= BATCH_HEAD_BYTES && crc_of(batch.p, batch.n) == be32_get(batch.p + AT_CRC);
}

/* Is b exactly one intact batch of our magic? */
static err check_whole(span b, struct batch_head *ret_h, const char **ret_text) {
    if (b.n == 0) {
        *ret_text = "no record batch";                             /* S5.26, null included */
        return ERR_BAD_RECORD;
    }
    if (b.n > AT_MAGIC && b.p[AT_MAGIC] != BATCH_MAGIC) {          /* every older format has its magic in the same place */
        *ret_text = "magic is not 2";
        return ERR_BAD_RECORD;
    }
    if (b.n < BATCH_HEAD_BYTES) {
        *ret_text = "batch shorter than its header";
        return ERR_CORRUPT;
    }
    if (batch_peek(b, ret_h) || ret_h->bytes > b.n) {
        *ret_text = "batch length does not fit its bytes";
        return ERR_CORRUPT;
    }
    if (ret_h->bytes < b.n) {
        *ret_text = "more than one batch";
        return ERR_BAD_RECORD;
    }
    if (!batch_crc_ok(b)) {
        *ret_text = "CRC differs";
        return ERR_CORRUPT;
    }
    return ERR_OK;
}

/* The first rule for producers that h breaks, or NULL. */
static const char *broken_rule(const struct batch_head *h) {
    if (h->base_offset != 0) {
        return "base offset is not 0";
    }
    if (h->attributes & BATCH_ATTR_CONTROL) {
        return "control batch from a client";
    }
    if (batch_codec(h) > CODEC_ZSTD) {
        return "unknown compression codec";
    }
    if (h->count <= 0) {
        return "record count is not positive";
    }
    if (h->last_offset_delta != h->count - 1) {
        return "record count differs from the last offset delta";
    }
    if (h->producer_id >= 0 && h->base_sequence < 0) {
        return "producer id without a sequence";
    }
    return NULL;
}

/* Record number n against its place; what is wrong with it, or NULL. */
static const char *bad_record(const struct record_raw *r, int32_t n) {
    if (r->delta != n) {
        return "offset deltas are not 0, 1, 2 and so on";
    }
    span at = r->headers, name, value;
    for (int32_t i = 0; i < r->headers_n; i++) {
        if (!record_header_next(&at, &name, &value)) {
            return "malformed record headers";
        }
    }
    return at.n > 0 ? "bytes behind the last header" : NULL;
}

static void note(struct batch_facts *f, const struct batch_head *h, const struct record_raw *r) {
    int64_t ts = record_raw_ts(r, h->base_ts_ms);
    f->min_ts_ms = ts < f->min_ts_ms ? ts : f->min_ts_ms;
    f->max_ts_ms = ts > f->max_ts_ms ? ts : f->max_ts_ms;
    if (span_is_null(r->key) && f->keyless < 0) {
        f->keyless = r->delta;
    }
}

err batch_check_records(span records, const struct batch_head *h, struct batch_facts *ret_facts, const char **ret_text) {
    struct batch_facts facts = {.walked = true, .min_ts_ms = INT64_MAX, .max_ts_ms = INT64_MIN, .keyless = -1};
    const uint8_t *p = records.p, *end = p + records.n;
    for (int32_t n = 0; n < h->count; n++) {
        struct record_raw r;
        const char *text = record_raw_get(&p, end, &r) ? bad_record(&r, n) : p == end ? "fewer records than counted" : "malformed record";
        if (text) {
            *ret_text = text;
            return ERR_BAD_RECORD;
        }
        note(&facts, h, &r);
    }
    if (p != end) {
        *ret_text = "bytes behind the last record";
        return ERR_BAD_RECORD;
    }
    *ret_facts = facts;
    return ERR_OK;
}

err batch_check_facts(span b, struct batch_head *ret_h, struct batch_facts *ret_facts, const char **ret_text) {
    struct batch_head h;
    err e = check_whole(b, &h, ret_text);
    if (e) {
        return e;
    }
    const char *rule = broken_rule(&h);
    if (rule) {
        *ret_text = rule;
        return ERR_BAD_RECORD;
    }
    struct batch_facts facts = {.min_ts_ms = h.base_ts_ms, .max_ts_ms = h.max_ts_ms, .keyless = -1};
    if (batch_codec(&h) == CODEC_NONE) {
        e = batch_check_records(span_of(b.p + BATCH_HEAD_BYTES, b.n - BATCH_HEAD_BYTES), &h, &facts, ret_text);
        if (e) {
            return e;
        }
    }
    *ret_h = h;
    *ret_facts = facts;
    return ERR_OK;
}

err batch_check_produced(span b, struct batch_head *ret_h, const char **ret_text) {
    struct batch_facts facts;
    return batch_check_facts(b, ret_h, &facts, ret_text);
}

void batch_stamp(uint8_t *batch, int64_t base_offset, int32_t leader_epoch) {
    be64_put(batch + AT_BASE_OFFSET, (uint64_t)base_offset);
    be32_put(batch + AT_LEADER_EPOCH, (uint32_t)leader_epoch);
}

void batch_stamp_append_time(uint8_t *batch, size_t n, int64_t now_ms) {
    be16_put(batch + AT_ATTRIBUTES, be16_get(batch + AT_ATTRIBUTES) | BATCH_ATTR_LOG_APPEND_TIME);
    batch_stamp_max_ts(batch, n, now_ms);
}

void batch_stamp_max_ts(uint8_t *batch, size_t n, int64_t max_ts_ms) {
    must(n >= BATCH_HEAD_BYTES);
    be64_put(batch + AT_MAX_TS, (uint64_t)max_ts_ms);
    be32_put(batch + AT_CRC, crc_of(batch, n));
}

void batch_head_put(uint8_t *batch, const struct batch_head *h) {
    be64_put(batch + AT_BASE_OFFSET, (uint64_t)h->base_offset);
    be32_put(batch + AT_LENGTH, (uint32_t)h->length);
    be32_put(batch + AT_LEADER_EPOCH, (uint32_t)h->leader_epoch);
    batch[AT_MAGIC] = BATCH_MAGIC;
    be16_put(batch + AT_ATTRIBUTES, (uint16_t)h->attributes);
    be32_put(batch + AT_LAST_DELTA, (uint32_t)h->last_offset_delta);
    be64_put(batch + AT_BASE_TS, (uint64_t)h->base_ts_ms);
    be64_put(batch + AT_MAX_TS, (uint64_t)h->max_ts_ms);
    be64_put(batch + AT_PRODUCER_ID, (uint64_t)h->producer_id);
    be16_put(batch + AT_PRODUCER_EPOCH, (uint16_t)h->producer_epoch);
    be32_put(batch + AT_BASE_SEQUENCE, (uint32_t)h->base_sequence);
    be32_put(batch + AT_COUNT, (uint32_t)h->count);
    be32_put(batch + AT_CRC, crc_of(batch, (size_t)h->length + BATCH_OVERHEAD_BYTES));
}
