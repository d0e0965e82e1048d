/* Record batch v2 (magic 2): the one format on the wire, in memory and on disk (D1). Parsing a header, checking it, stamping it in
 * place, building one. Quiet; any thread.
 *
 *  0 base offset i64 | 8 length i32 (bytes after this field) | 12 partition leader epoch i32 | 16 magic i8 | 17 crc u32 (of 21..end)
 * 21 attributes i16 | 23 last offset delta i32 | 27 base timestamp i64 | 35 max timestamp i64 | 43 producer id i64
 * 51 producer epoch i16 | 53 base sequence i32 | 57 record count i32 | 61 records */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/span.h"

#define BATCH_HEAD_BYTES 61
#define BATCH_OVERHEAD_BYTES 12        /* base offset and length: what `length` does not count */

enum batch_codec { CODEC_NONE = 0, CODEC_GZIP = 1, CODEC_SNAPPY = 2, CODEC_LZ4 = 3, CODEC_ZSTD = 4 };

#define BATCH_ATTR_CODEC 0x07
#define BATCH_ATTR_LOG_APPEND_TIME 0x08
#define BATCH_ATTR_TRANSACTIONAL 0x10
#define BATCH_ATTR_CONTROL 0x20
#define BATCH_ATTR_DELETE_HORIZON 0x40

struct batch_head {
    int64_t base_offset;
    int32_t length;
    int32_t leader_epoch;
    uint32_t crc;
    int16_t attributes;
    int32_t last_offset_delta;
    int64_t base_ts_ms, max_ts_ms;
    int64_t producer_id;               /* -1: not idempotent, whatever epoch and sequence hold (S5.6) */
    int16_t producer_epoch;
    int32_t base_sequence;
    int32_t count;
    size_t bytes;                      /* whole batch, header included: length + 12 */
};

static inline enum batch_codec batch_codec(const struct batch_head *h) { return (enum batch_codec)(h->attributes & BATCH_ATTR_CODEC); }
static inline int64_t batch_last_offset(const struct batch_head *h) { return h->base_offset + h->last_offset_delta; }
/* Last sequence of the batch, with the wrap of S6.4. */
int32_t batch_last_sequence(const struct batch_head *h);
/* sequence + n (n >= 0) with that wrap. */
int32_t batch_sequence_add(int32_t sequence, int32_t n);

/* Read the header at the front of b. TORN when b holds less than the header or than the length says; CORRUPT when length is impossible or
 * magic is not 2. The CRC is not looked at. With b.n between 61 and the whole batch use batch_peek. */
err batch_head_get(span b, struct batch_head *ret_h);
/* Like batch_head_get but needs only the 61 header bytes (the body may be outside b). */
err batch_peek(span b, struct batch_head *ret_h);
bool batch_crc_ok(span batch);         /* batch.n is exactly the whole batch */
/* Write the header in front of records already in place (h->bytes is not used, h->crc is computed). */
void batch_head_put(uint8_t *batch, const struct batch_head *h);

/* What a producer may send (S5.4, 5.5, 5.7): exactly one batch in b, CRC, counts, no control bit, base offset 0, sequence rules; records of
 * uncompressed batches are walked (lengths, varints, offset deltas 0,1,2…). Compressed ones: header trusted. CORRUPT or BAD_RECORD;
 * *ret_text (static storage) says what, on failure only. */
err batch_check_produced(span b, struct batch_head *ret_h, const char **ret_text);

/* What a walk over the records found, for the rules that only some topics have. */
struct batch_facts {
    bool walked;                       /* false: compressed, the rest is the header's word */
    int64_t min_ts_ms, max_ts_ms;      /* over the records' own timestamps (S5.11, S5.14); base and max of the header when not walked */
    int32_t keyless;                   /* index of the first record without a key (S5.15), -1 for none */
};
/* batch_check_produced that also tells the facts. */
err batch_check_facts(span b, struct batch_head *ret_h, struct batch_facts *ret_facts, const char **ret_text);
/* Walk unpacked records (zip_unpack of what follows the header) against h: exactly h->count of them and nothing behind (S5.10). BAD_RECORD. */
err batch_check_records(span records, const struct batch_head *h, struct batch_facts *ret_facts, const char **ret_text);

/* Owner's stamp, in place: base offset and leader epoch lie outside the CRC. */
void batch_stamp(uint8_t *batch, int64_t base_offset, int32_t leader_epoch);
/* LogAppendTime (S5.12): sets bit 3 and max timestamp, recomputes the CRC. */
void batch_stamp_append_time(uint8_t *batch, size_t n, int64_t now_ms);
/* Set max timestamp (S5.11) and recompute the CRC. */
void batch_stamp_max_ts(uint8_t *batch, size_t n, int64_t max_ts_ms);
