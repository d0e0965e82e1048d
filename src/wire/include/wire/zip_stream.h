/* Unpacking piece by piece, in bounded memory whatever the packed bytes say: gzip 41 KiB, lz4 twice its block (8.2 MiB at most), zstd its
 * window (2^LIMIT_ZSTD_WINDOW_LOG bytes at most) and a block, snappy one block (LIMIT_SNAPPY_BLOCK_BYTES at most). Quiet; any thread, one at a time.
 *
 * Usage: init, read until `ended` or an error, done. */
#pragma once

#include "wire/batch.h"

struct zip_codec;

struct zip_stream {
    const struct zip_codec *codec;
    void *state;                       /* the codec's */
    span in;                           /* packed bytes not taken yet; borrowed */
    size_t out, max;                   /* bytes unpacked so far; ceiling of that */
    bool ended;                        /* the last byte was handed out, and the packed bytes are sound to their end */
    err err;                           /* once something failed, every read fails */
};

/* One of the four codecs (CODEC_NONE has nothing to unpack: CORRUPT, as numbers that name no codec are). max is cut to 2^31 - 2. NOMEM. Needs no done
 * when it fails. */
err zip_stream_init(struct zip_stream *z, enum batch_codec codec, span in, size_t max);
/* Put the next n bytes (n > 0) at p; fewer only at the end, none once it has ended. CORRUPT on nonsense, LIMIT when more than max came out or one
 * step would need more memory than is given to it, NOMEM. After an error p may hold anything. */
err zip_stream_read(struct zip_stream *z, uint8_t *p, size_t n, size_t *ret_n);
void zip_stream_done(struct zip_stream *z);
