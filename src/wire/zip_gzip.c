/* gzip (RFC 1952) through zlib; several members in a row are one stream.
 *
 * Happy path: inflate into what the caller gives until the last member ends where the input ends.
 * Failure modes: CORRUPT on checksums and cut streams.
 * Runs on: any. */
#include <zlib.h>

#include "base/mem.h"
#include "zip_codec.h"

#define GZIP_WINDOW_BITS (15 + 16)       /* 16: a gzip header, not a zlib one */
#define GZIP_MEM_LEVEL 8

static void *zip_alloc(void *u, unsigned items, unsigned size) {
    return zip_stream_alloc(u, (size_t)items * size);
}

static z_stream from_span(span in) {
    return (z_stream){.zalloc = zip_alloc, .zfree = zip_stream_release, .next_in = (Bytef *)(uintptr_t)in.p, .avail_in = (unsigned)in.n};
}

static err gzip_open(struct zip_stream *z) {
    z_stream *s = mem_alloc(MEM_ARENA, sizeof *s);
    if (!s) {
        return ERR_NOMEM;
    }
    *s = from_span(z->in);
    if (inflateInit2(s, GZIP_WINDOW_BITS) != Z_OK) {
        mem_free(s);
        return ERR_NOMEM;
    }
    z->state = s;
    return ERR_OK;
}

static err gzip_read(struct zip_stream *z, uint8_t *p, size_t n, size_t *ret_n) {
    z_stream *s = z->state;
    s->next_out = p;
    s->avail_out = (unsigned)n;
    while (s->avail_out > 0 && !z->ended) {
        int rc = inflate(s, Z_NO_FLUSH);
        if (rc == Z_STREAM_END && s->avail_in == 0) {
            z->ended = true;
        } else if (rc == Z_STREAM_END) {
            rc = inflateReset(s);
        }
        if (rc != Z_OK && rc != Z_STREAM_END) {  /* Z_BUF_ERROR: the input ended early */
            return rc == Z_MEM_ERROR ? ERR_NOMEM : ERR_CORRUPT;
        }
    }
    *ret_n = n - s->avail_out;
    return ERR_OK;
}

static void gzip_close(struct zip_stream *z) {
    inflateEnd(z->state);
    mem_free(z->state);
}

const struct zip_codec zip_gzip_codec = {gzip_open, gzip_read, gzip_close};

err zip_gzip_pack(span in, struct arena *a, span *ret_out) {
    z_stream z = from_span(in);
    if (in.n > INT32_MAX) {
        return ERR_LIMIT;
    }
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW_BITS, GZIP_MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
        return ERR_NOMEM;
    }
    size_t bound = deflateBound(&z, in.n);
    uint8_t *p = arena_alloc(a, bound);
    z.next_out = p;
    z.avail_out = (unsigned)bound;
    bool ok = p && deflate(&z, Z_FINISH) == Z_STREAM_END;
    deflateEnd(&z);
    if (!ok) {
        return ERR_NOMEM;
    }
    *ret_out = span_of(p, bound - z.avail_out);
    return ERR_OK;
}
