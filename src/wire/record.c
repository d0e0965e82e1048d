/* Records inside a batch: walk and build.
 *
 * Happy path: walk_init finds (or unpacks) the records, walk_next hands out one after the other
 * with spans into them. Building writes records behind room left for the header, and finish fills
 * the header in.
 * Failure modes: nonsense ends a walk early with `bad`, for readers to take as "no such record";
 * building goes bad when the arena does.
 * Runs on: any. */
#include "wire/record.h"

#include <string.h>

#include "base/varint.h"
#include "record_raw.h"
#include "wire/zip.h"

#define RECORD_BUILD_BYTES 512           /* first buffer of a batch being built */

err record_walk_init(struct record_walk *w, span batch, struct arena *a, size_t unzip_max) {
    struct record_walk walk = {.bad = false};
    err e = batch_head_get(batch, &walk.head);
    if (e) {
        return e;
    }
    span records = span_of(batch.p + BATCH_HEAD_BYTES, walk.head.bytes - BATCH_HEAD_BYTES);
    e = zip_unpack(batch_codec(&walk.head), records, unzip_max, a, &records);
    if (e) {
        return e;
    }
    walk.p = records.p;
    walk.end = records.p + records.n;
    walk.left = walk.head.count;
    *w = walk;
    return ERR_OK;
}

bool record_walk_next(struct record_walk *w, struct record *ret_r) {
    if (w->left <= 0 || w->bad) {
        return false;
    }
    struct record_raw raw;
    if (!record_raw_get(&w->p, w->end, &raw) || raw.delta < 0 || raw.delta > w->head.last_offset_delta) {
        w->bad = true;
        return false;
    }
    w->left--;
    bool append_time = w->head.attributes & BATCH_ATTR_LOG_APPEND_TIME;
    *ret_r = (struct record){
        .offset = (off64)((uint64_t)w->head.base_offset + (uint64_t)raw.delta),
        .ts_ms = append_time ? w->head.max_ts_ms : record_raw_ts(&raw, w->head.base_ts_ms),
        .key = raw.key,
        .value = raw.value,
        .headers = raw.headers,
        .headers_n = raw.headers_n,
        .delta = raw.delta,
    };
    return true;
}

/* A length and so many bytes off the front of *at; -1 gives null. */
static bool header_part(span *at, span *ret) {
    int32_t n;
    size_t used = varint_get_i32(at->p, at->n, &n);
    if (used == 0 || n < -1 || (n > 0 && (size_t)n > at->n - used)) {
        return false;
    }
    size_t bytes = n > 0 ? (size_t)n : 0;
    *ret = n < 0 ? SPAN_NULL : span_of(at->p + used, bytes);
    *at = span_of(at->p + used + bytes, at->n - used - bytes);
    return true;
}

bool record_header_next(span *at, span *ret_name, span *ret_value) {
    span rest = *at, name, value;
    if (rest.n == 0 || !header_part(&rest, &name) || span_is_null(name) || !header_part(&rest, &value)) {
        return false;
    }
    *at = rest;
    *ret_name = name;
    *ret_value = value;
    return true;
}

void record_build_init(struct record_build *b, struct arena *a, enum batch_codec codec) {
    *b = (struct record_build){.arena = a, .codec = codec, .producer_id = -1, .producer_epoch = -1, .base_sequence = -1};
}

/* Room for n more bytes. */
static bool reserve(struct record_build *b, size_t n) {
    if (b->bad || n > INT32_MAX) {
        b->bad = true;
        return false;
    }
    if (b->n + n <= b->cap) {
        return true;
    }
    size_t cap = b->cap ? b->cap : RECORD_BUILD_BYTES;
    while (cap < b->n + n) {
        cap *= 2;
    }
    uint8_t *p = cap <= INT32_MAX ? arena_alloc(b->arena, cap) : NULL;
    if (!p) {
        b->bad = true;
        return false;
    }
    if (b->n > 0) {
        memcpy(p, b->p, b->n);
    }
    b->p = p;
    b->cap = cap;
    return true;
}

static size_t span_bytes(span s) {
    return span_is_null(s) ? varint_len_i32(-1) : varint_len_i32((int32_t)s.n) + s.n;
}

static void put_i32(struct record_build *b, int32_t v) {
    b->n += varint_put_i32(b->p + b->n, v);
}

static void put_span(struct record_build *b, span s) {
    put_i32(b, span_is_null(s) ? -1 : (int32_t)s.n);
    if (s.n > 0) {
        memcpy(b->p + b->n, s.p, s.n);
        b->n += s.n;
    }
}

void record_build_add(struct record_build *b, ms ts_ms, span key, span value, const struct record_header *headers, size_t headers_n) {
    if (b->count == 0) {
        b->base_ts_ms = b->max_ts_ms = ts_ms;
        b->n = reserve(b, BATCH_HEAD_BYTES) ? BATCH_HEAD_BYTES : 0;
    }
    int64_t ts_delta = (int64_t)((uint64_t)ts_ms - (uint64_t)b->base_ts_ms);
    size_t body = 1 + varint_len_i64(ts_delta) + varint_len_i32(b->count) + span_bytes(key) + span_bytes(value) +
                  varint_len_i32((int32_t)headers_n);
    for (size_t i = 0; i < headers_n; i++) {
        body += span_bytes(headers[i].name) + span_bytes(headers[i].value);
    }
    if (!reserve(b, VARINT_MAX + body) || b->count == INT32_MAX) {
        b->bad = true;
        return;
    }
    put_i32(b, (int32_t)body);
    b->p[b->n++] = 0;
    b->n += varint_put_i64(b->p + b->n, ts_delta);
    put_i32(b, b->count);
    put_span(b, key);
    put_span(b, value);
    put_i32(b, (int32_t)headers_n);
    for (size_t i = 0; i < headers_n; i++) {
        put_span(b, headers[i].name);
        put_span(b, headers[i].value);
    }
    b->max_ts_ms = ts_ms > b->max_ts_ms ? ts_ms : b->max_ts_ms;
    b->count++;
}

/* Replace the records by their packed form. */
static err pack(struct record_build *b) {
    span packed;
    err e = zip_pack(b->codec, span_of(b->p + BATCH_HEAD_BYTES, b->n - BATCH_HEAD_BYTES), b->arena, &packed);
    if (e || b->codec == CODEC_NONE) {
        return e;
    }
    uint8_t *p = arena_alloc(b->arena, BATCH_HEAD_BYTES + packed.n);
    if (!p) {
        return ERR_NOMEM;
    }
    memcpy(p + BATCH_HEAD_BYTES, packed.p, packed.n);
    b->p = p;
    b->n = b->cap = BATCH_HEAD_BYTES + packed.n;
    return ERR_OK;
}

err record_build_finish(struct record_build *b, span *ret_batch) {
    if (b->bad) {
        return ERR_NOMEM;
    }
    if (b->count == 0) {
        return ERR_BAD_REQUEST;
    }
    err e = pack(b);
    if (e) {
        return e;
    }
    batch_head_put(b->p, &(struct batch_head){
        .length = (int32_t)(b->n - BATCH_OVERHEAD_BYTES),
        .leader_epoch = -1,
        .attributes = (int16_t)(b->attributes | (int16_t)b->codec),
        .last_offset_delta = b->count - 1,
        .base_ts_ms = b->base_ts_ms,
        .max_ts_ms = b->max_ts_ms,
        .producer_id = b->producer_id,
        .producer_epoch = b->producer_epoch,
        .base_sequence = b->base_sequence,
        .count = b->count,
    });
    *ret_batch = span_of(b->p, b->n);
    return ERR_OK;
}
