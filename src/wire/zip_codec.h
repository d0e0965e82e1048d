/* What each codec is to zip_stream.c. Private to the room. */
#pragma once

#include "wire/zip.h"
#include "wire/zip_sink.h"
#include "wire/zip_stream.h"

struct zip_codec {
    err (*open)(struct zip_stream *z);             /* z->in is set: make z->state. NOMEM */
    /* Fill p with n bytes (1 .. INT32_MAX); fewer only together with z->ended, which is set when nothing more can come. CORRUPT, LIMIT, NOMEM. */
    err (*read)(struct zip_stream *z, uint8_t *p, size_t n, size_t *ret_n);
    void (*close)(struct zip_stream *z);
};
extern const struct zip_codec zip_gzip_codec, zip_snappy_codec, zip_lz4_codec, zip_zstd_codec;

/* mem_alloc and mem_free as libraries want them; u is not used. */
void *zip_stream_alloc(void *u, size_t n);
void zip_stream_release(void *u, void *p);

/* Its blocks tell their sizes, so that unpacking all at once needs no growing buffer. As zip_unpack. */
err zip_snappy_unpack(span in, size_t max, struct arena *a, span *ret_out);

/* What each codec is to zip_sink.c. */
struct zip_packer {
    err (*open)(struct zip_sink *s, int level);    /* s->p, n, max are set: make s->state. NOMEM */
    err (*put)(struct zip_sink *s, span bytes);    /* write behind s->n. LIMIT, NOMEM */
    err (*finish)(struct zip_sink *s);
    void (*close)(struct zip_sink *s);
};
extern const struct zip_packer zip_gzip_packer, zip_snappy_packer, zip_lz4_packer, zip_zstd_packer;
/* Make room for at least so many bytes behind s->n. LIMIT when s->n passed the ceiling already, NOMEM. */
err zip_sink_room(struct zip_sink *s, size_t least);
