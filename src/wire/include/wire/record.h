/* Records inside a batch: walk and build. Quiet; any thread. */
#pragma once

#include "wire/batch.h"

struct record {
    off64 offset;                      /* absolute */
    ms ts_ms;                          /* as a reader sees it: max timestamp for LogAppendTime batches */
    span key, value;                   /* null allowed */
    span headers;                      /* undecoded: count and pairs; record_header_next walks it */
    int32_t headers_n;
    int32_t delta;                     /* offset delta */
};

struct record_walk {
    struct batch_head head;
    const uint8_t *p, *end;            /* records, unpacked */
    int32_t left;
    bool bad;                          /* nonsense was met: "no such record", never damage */
};

/* Start at the first record of a whole batch. Compressed ones are unpacked into a (at most unzip_max bytes: LIMIT else). CORRUPT when the
 * compressed bytes are nonsense; NOMEM. */
err record_walk_init(struct record_walk *w, span batch, struct arena *a, size_t unzip_max);
/* False at the end or on nonsense (then w->bad). */
bool record_walk_next(struct record_walk *w, struct record *ret_r);
/* *at starts as r->headers; false at the end or on nonsense. */
bool record_header_next(span *at, span *ret_name, span *ret_value);

/* Build a batch in memory. Usage: init, add…, finish. */
struct record_header {
    span name, value;
};
struct record_build {
    struct arena *arena;
    uint8_t *p;
    size_t n, cap;
    enum batch_codec codec;
    int64_t base_ts_ms, max_ts_ms;
    int32_t count;
    int64_t producer_id;
    int16_t producer_epoch;
    int32_t base_sequence;
    int16_t attributes;                /* extra bits: transactional, control */
    bool bad;
};
void record_build_init(struct record_build *b, struct arena *a, enum batch_codec codec);
void record_build_add(struct record_build *b, ms ts_ms, span key, span value, const struct record_header *headers, size_t headers_n);
/* The whole batch with base offset 0 and a correct CRC, in the arena. NOMEM, or BAD_REQUEST without records. */
err record_build_finish(struct record_build *b, span *ret_batch);
