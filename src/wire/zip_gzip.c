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

/* ---- packing ---- */

static err pack_open(struct zip_sink *s, int level) {
    z_stream *z = mem_alloc(MEM_ARENA, sizeof *z);
    if (!z) {
        return ERR_NOMEM;
    }
    *z = from_span(SPAN_NULL);
    if (deflateInit2(z, level, Z_DEFLATED, GZIP_WINDOW_BITS, GZIP_MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
        mem_free(z);
        return ERR_NOMEM;
    }
    s->state = z;
    return ERR_OK;
}

/* Take all of the input, and with Z_FINISH write all that is left. */
static err pack_run(struct zip_sink *s, int how) {
    z_stream *z = s->state;
    for (;;) {
        err e = zip_sink_room(s, 1);
        if (e) {
            return e;
        }
        size_t room = s->cap - s->n;
        z->next_out = s->p + s->n;
        z->avail_out = room < INT32_MAX ? (unsigned)room : INT32_MAX;
        int rc = deflate(z, how);
        s->n = (size_t)(z->next_out - s->p);
        if (rc == Z_STREAM_END || (how == Z_NO_FLUSH && z->avail_in == 0 && z->avail_out > 0)) {
            return ERR_OK;
        }
        if (rc != Z_OK && rc != Z_BUF_ERROR) {
            return ERR_NOMEM;
        }
    }
}

static err pack_put(struct zip_sink *s, span bytes) {
    z_stream *z = s->state;
    if (bytes.n > INT32_MAX) {
        return ERR_LIMIT;
    }
    z->next_in = (Bytef *)(uintptr_t)bytes.p;
    z->avail_in = (unsigned)bytes.n;
    return bytes.n > 0 ? pack_run(s, Z_NO_FLUSH) : ERR_OK;
}

static err pack_finish(struct zip_sink *s) { return pack_run(s, Z_FINISH); }

static void pack_close(struct zip_sink *s) {
    deflateEnd(s->state);
    mem_free(s->state);
}

const struct zip_packer zip_gzip_packer = {pack_open, pack_put, pack_finish, pack_close};
