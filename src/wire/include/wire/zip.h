/* The four codecs as Kafka uses them: gzip, snappy (raw and xerial-framed; written xerial-framed as Java reads), lz4 frame, zstd. Every
 * reader has a byte ceiling: a bomb costs at most `max` bytes and gives LIMIT (T55). Quiet; any thread. */
#pragma once

#include "wire/batch.h"

/* Unpack into the arena. CORRUPT on nonsense, LIMIT above max, NOMEM. CODEC_NONE returns `in` itself. */
err zip_unpack(enum batch_codec codec, span in, size_t max, struct arena *a, span *ret_out);
err zip_pack(enum batch_codec codec, span in, struct arena *a, span *ret_out);
