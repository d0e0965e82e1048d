#pragma once
/* batch.h: Kafka record batches (magic 2): a template that is stamped per send, and a walk over what comes back. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BATCH_HEAD = 61, /* bytes before the first record */
    BATCH_AT_LENGTH = 8,
    BATCH_AT_EPOCH = 12,
    BATCH_AT_MAGIC = 16,
    BATCH_AT_CRC = 17,
    BATCH_AT_ATTRIBUTES = 21, /* the CRC covers from here to the end */
    BATCH_AT_LAST_DELTA = 23,
    BATCH_AT_PRODUCER = 43,
    BATCH_AT_PRODUCER_EPOCH = 51,
    BATCH_AT_SEQUENCE = 53,
    BATCH_AT_COUNT = 57,
    BATCH_PREFIX_MAX = 112, /* head, first record's head, stamp */
    BATCH_VALUE_MIN = 16,   /* stamp and mark */
};

/* One pre-encoded batch: bytes[0..prefix) is copied and patched per send, bytes[prefix..size) shared by all sends. */
struct batch_template {
    uint8_t *bytes;
    size_t size, prefix;
    uint32_t records;
    uint32_t body_crc;  /* CRC register of the shared part, started from 0 */
    uint32_t shift[32]; /* what the shared part's length does to each bit of the register before it */
};

/* Who sends: -1, -1, -1 unless idempotent. */
struct batch_producer {
    int64_t id;
    int16_t epoch;
    int32_t sequence;
};

/* Builds a batch of `records` records whose values have `value_bytes` bytes of noise from `seed`. Dies on nonsense. */
void batch_template_init(struct batch_template *t, uint32_t records, size_t value_bytes, uint64_t seed);
void batch_template_done(struct batch_template *t);

/* Writes the prefix with producer and stamp (nanoseconds) patched in and the CRC set; returns the batch's CRC.
 * `ret_prefix` holds BATCH_PREFIX_MAX bytes. The cost does not depend on the batch's size. */
uint32_t batch_stamp(const struct batch_template *t, const struct batch_producer *who, uint64_t stamp,
                     uint8_t *ret_prefix);

uint32_t batch_crc32c(const uint8_t *p, size_t n);

struct batch_view {
    const uint8_t *p;
    size_t size;
    int64_t base_offset;
    uint32_t crc;
    int32_t last_delta, records;
    bool crc_ok;
};

/* Cuts the first whole batch off [p, p + n). False when fewer bytes than a whole batch are left, or on nonsense
 * (then *ret_bad is true). */
bool batch_next(const uint8_t *p, size_t n, struct batch_view *ret_batch, bool *ret_bad);

/* The stamp in the batch's first record; 0 if this batch was not stamped by batch_stamp. */
uint64_t batch_stamp_of(const struct batch_view *b);
