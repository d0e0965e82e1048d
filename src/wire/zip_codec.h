/* What each codec is to zip.c and zip_stream.c. Private to the room. */
#pragma once

#include "wire/zip.h"
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

/* As zip_pack. */
err zip_gzip_pack(span in, struct arena *a, span *ret_out);
err zip_snappy_pack(span in, struct arena *a, span *ret_out);
err zip_lz4_pack(span in, struct arena *a, span *ret_out);
err zip_zstd_pack(span in, struct arena *a, span *ret_out);
