/* Packing piece by piece, under a ceiling, into a buffer of its own. Memory beside the output, whatever goes in: gzip 270 KiB, snappy two blocks of 32 KiB, lz4 600 KiB,
 * zstd 30 MiB at its highest level and 2 MiB at the default. Quiet; any thread, one at a time.
 *
 * Usage: init, put…, finish, take p[0, n), done. */
#pragma once

#include "wire/batch.h"

/* The levels that Kafka's settings have as defaults; a codec without levels takes any. */
#define ZIP_LEVEL_GZIP (-1)
#define ZIP_LEVEL_LZ4 9
#define ZIP_LEVEL_ZSTD 3

struct zip_packer;

struct zip_sink {
    const struct zip_packer *packer;
    void *state;                       /* the codec's */
    uint8_t *p;                        /* the output, room for what shall stand before it included */
    size_t n, cap, max;
};

/* Level of a codec where nobody set one. */
int zip_sink_level(enum batch_codec codec);
/* The first `skip` bytes of the output are the caller's to fill; max counts them. Levels are those of compression.<codec>.level. NOMEM; needs no done when it fails. */
err zip_sink_init(struct zip_sink *s, enum batch_codec codec, int level, size_t skip, size_t max);
/* LIMIT when the output passed max, NOMEM. Nothing may follow but done. */
err zip_sink_put(struct zip_sink *s, span bytes);
err zip_sink_finish(struct zip_sink *s);
void zip_sink_done(struct zip_sink *s);            /* frees the output */
