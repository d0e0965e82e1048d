/* gzip (RFC 1952) through zlib; several members in a row are one stream.
 *
 * Happy path: inflate into a growing buffer until the last member ends where the input ends.
 * Failure modes: LIMIT as soon as the output passes the ceiling, whatever the stream still
 * promises; CORRUPT on checksums and cut streams.
 * Runs on: any. */
#include <zlib.h>

#include "base/mem.h"
#include "zip_codec.h"
#include "zip_out.h"

#define GZIP_WINDOW_BITS (15 + 16)       /* 16: a gzip header, not a zlib one */
#define GZIP_MEM_LEVEL 8

static void *zip_alloc(void *u, unsigned items, unsigned size) {
    (void)u;
    return mem_alloc(MEM_ARENA, (size_t)items * size);
}

static void zip_release(void *u, void *p) {
    (void)u;
    mem_free(p);
}

static err inflate_all(z_stream *z, struct zip_out *o) {
    for (;;) {
        err e = zip_out_more(o);
        if (e) {
            return e;
        }
        z->next_out = o->p + o->n;
        z->avail_out = (unsigned)(o->cap - o->n);
        int rc = inflate(z, Z_NO_FLUSH);
        o->n = o->cap - z->avail_out;
        if (rc == Z_STREAM_END && z->avail_in == 0) {
            return ERR_OK;
        }
        if (rc == Z_STREAM_END) {
            rc = inflateReset(z);
        }
        if (rc != Z_OK) {                        /* Z_BUF_ERROR: the input ended early */
            return rc == Z_MEM_ERROR ? ERR_NOMEM : ERR_CORRUPT;
        }
    }
}

err zip_gzip_unpack(span in, size_t max, struct arena *a, span *ret_out) {
    z_stream z = {.zalloc = zip_alloc, .zfree = zip_release, .next_in = (Bytef *)(uintptr_t)in.p, .avail_in = (unsigned)in.n};
    if (in.n > INT32_MAX || max >= INT32_MAX) {
        return ERR_LIMIT;
    }
    if (inflateInit2(&z, GZIP_WINDOW_BITS) != Z_OK) {
        return ERR_NOMEM;
    }
    struct zip_out o;
    zip_out_init(&o, in.n, max);
    err e = inflate_all(&z, &o);
    inflateEnd(&z);
    if (e) {
        zip_out_done(&o);
        return e;
    }
    return zip_out_take(&o, a, ret_out);
}

err zip_gzip_pack(span in, struct arena *a, span *ret_out) {
    z_stream z = {.zalloc = zip_alloc, .zfree = zip_release, .next_in = (Bytef *)(uintptr_t)in.p, .avail_in = (unsigned)in.n};
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
