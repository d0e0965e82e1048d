/* The four codecs as Kafka uses them: gzip, snappy (raw and xerial-framed; written xerial-framed as Java reads), lz4 frame, zstd. Every
 * reader has a byte ceiling: a bomb costs at most `max` bytes and gives LIMIT (T55). Whoever needs no more than a look at each byte reads
 * piece by piece: zip_stream.h. Quiet; any thread. */
#pragma once

#include "base/limits.h"
#include "wire/batch.h"

/* How many bytes a batch may unpack to where message_bytes is the largest that a batch of its topic, or this very batch, has when packed. */
static inline size_t zip_bytes_max(size_t message_bytes) {
    return message_bytes * 10 > LIMIT_UNZIP_BYTES_MIN ? message_bytes * 10 : LIMIT_UNZIP_BYTES_MIN;
}

/* Unpack into the arena. CORRUPT on nonsense, LIMIT above max, NOMEM. CODEC_NONE returns `in` itself. */
err zip_unpack(enum batch_codec codec, span in, size_t max, struct arena *a, span *ret_out);
err zip_pack(enum batch_codec codec, span in, struct arena *a, span *ret_out);
