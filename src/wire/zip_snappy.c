/* snappy, in its two dresses: one raw block (librdkafka), or the framing of xerial's Java library
 * (a 16-byte head, then blocks each behind its int32 length), which is what we write.
 *
 * Happy path: every block says its unpacked length up front. All at once: the sizes are added up
 * first, and one allocation is exact. As a stream: block by block, since a block is the smallest
 * thing that the library unpacks.
 * Failure modes: a length that this many packed bytes cannot yield is CORRUPT before anything is
 * allocated (T55); a sum above the ceiling is LIMIT, and so is, in a stream, a block above
 * LIMIT_SNAPPY_BLOCK_BYTES.
 * Runs on: any. */
#include <snappy-c.h>
#include <string.h>

#include "base/be.h"
#include "base/limits.h"
#include "base/mem.h"
#include "zip_codec.h"

#define SNAPPY_RATIO_MAX 32              /* three bytes say 64 at most; a little slack */
#define SNAPPY_RATIO_SLACK 16
#define XERIAL_HEAD_BYTES 16
#define XERIAL_BLOCK_BYTES ((size_t)32 << 10)

static const uint8_t xerial_head[XERIAL_HEAD_BYTES] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1};

static bool is_xerial(span in) {
    return in.n >= XERIAL_HEAD_BYTES && memcmp(in.p, xerial_head, 8) == 0;
}

/* Next block off the front of *rest: all of it when raw. */
static bool next_block(span *rest, bool xerial, span *ret_block) {
    if (!xerial) {
        *ret_block = *rest;
        *rest = span_of(rest->p + rest->n, 0);
        return true;
    }
    if (rest->n < 4 || be32_get(rest->p) > rest->n - 4) {
        return false;
    }
    size_t n = be32_get(rest->p);
    *ret_block = span_of(rest->p + 4, n);
    *rest = span_of(rest->p + 4 + n, rest->n - 4 - n);
    return true;
}

static bool claimed_bytes(span block, size_t *ret_n) {
    return snappy_uncompressed_length((const char *)block.p, block.n, ret_n) == SNAPPY_OK &&
           *ret_n <= block.n * SNAPPY_RATIO_MAX + SNAPPY_RATIO_SLACK;
}

static err total_bytes(span rest, bool xerial, size_t max, size_t *ret_n) {
    size_t total = 0;
    while (rest.n > 0) {
        span block;
        size_t n;
        if (!next_block(&rest, xerial, &block) || !claimed_bytes(block, &n)) {
            return ERR_CORRUPT;
        }
        if (n > max - total) {
            return ERR_LIMIT;
        }
        total += n;
    }
    *ret_n = total;
    return ERR_OK;
}

err zip_snappy_unpack(span in, size_t max, struct arena *a, span *ret_out) {
    bool xerial = is_xerial(in);
    span rest = xerial ? span_of(in.p + XERIAL_HEAD_BYTES, in.n - XERIAL_HEAD_BYTES) : in;
    size_t total;
    err e = total_bytes(rest, xerial, max, &total);
    if (e) {
        return e;
    }
    uint8_t *p = arena_alloc(a, total);
    if (!p) {
        return ERR_NOMEM;
    }
    size_t at = 0;
    for (span block; rest.n > 0 && next_block(&rest, xerial, &block);) {
        size_t n = total - at;
        if (snappy_uncompress((const char *)block.p, block.n, (char *)p + at, &n) != SNAPPY_OK) {
            return ERR_CORRUPT;
        }
        at += n;
    }
    *ret_out = span_of(p, at);
    return ERR_OK;
}

/* A stream's state: the block that is being handed out. */
struct snappy_block {
    uint8_t *p;
    size_t at, n, cap;
    bool xerial;
};

static err snappy_open(struct zip_stream *z) {
    struct snappy_block *b = mem_zalloc(MEM_ARENA, sizeof *b);
    if (!b) {
        return ERR_NOMEM;
    }
    b->xerial = is_xerial(z->in);
    if (b->xerial) {
        z->in = span_of(z->in.p + XERIAL_HEAD_BYTES, z->in.n - XERIAL_HEAD_BYTES);
    }
    z->state = b;
    return ERR_OK;
}

static bool block_grow(struct snappy_block *b, size_t n) {
    if (b->p && n <= b->cap) {
        return true;
    }
    mem_free(b->p);
    b->p = mem_alloc(MEM_ARENA, n);
    b->cap = b->p ? n : 0;
    return b->p != NULL;
}

/* Unpack the next block, or note the end. */
static err block_next(struct zip_stream *z, struct snappy_block *b) {
    if (z->in.n == 0) {
        z->ended = true;
        return ERR_OK;
    }
    span packed;
    size_t n;
    if (!next_block(&z->in, b->xerial, &packed) || !claimed_bytes(packed, &n)) {
        return ERR_CORRUPT;
    }
    if (n > z->max || n > LIMIT_SNAPPY_BLOCK_BYTES) {
        return ERR_LIMIT;
    }
    if (!block_grow(b, n)) {
        return ERR_NOMEM;
    }
    b->at = 0;
    b->n = n;
    return snappy_uncompress((const char *)packed.p, packed.n, (char *)b->p, &b->n) == SNAPPY_OK ? ERR_OK : ERR_CORRUPT;
}

static err snappy_read(struct zip_stream *z, uint8_t *p, size_t n, size_t *ret_n) {
    struct snappy_block *b = z->state;
    size_t done = 0;
    while (done < n && !z->ended) {
        size_t take = b->n - b->at < n - done ? b->n - b->at : n - done;
        if (take > 0) {
            memcpy(p + done, b->p + b->at, take);
            b->at += take;
            done += take;
        } else {
            err e = block_next(z, b);
            if (e) {
                return e;
            }
        }
    }
    *ret_n = done;
    return ERR_OK;
}

static void snappy_close(struct zip_stream *z) {
    struct snappy_block *b = z->state;
    mem_free(b->p);
    mem_free(b);
}

const struct zip_codec zip_snappy_codec = {snappy_open, snappy_read, snappy_close};

/* ---- packing ---- */

/* What is put in until it fills a block. */
struct snappy_gather {
    size_t n;
    uint8_t p[XERIAL_BLOCK_BYTES];
};

static err pack_open(struct zip_sink *s, int level) {
    (void)level;
    struct snappy_gather *g = mem_alloc(MEM_ARENA, sizeof *g);
    err e = g ? zip_sink_room(s, XERIAL_HEAD_BYTES) : ERR_NOMEM;
    if (e) {
        mem_free(g);
        return e;
    }
    g->n = 0;
    s->state = g;
    memcpy(s->p + s->n, xerial_head, XERIAL_HEAD_BYTES);
    s->n += XERIAL_HEAD_BYTES;
    return ERR_OK;
}

static err pack_block(struct zip_sink *s, struct snappy_gather *g) {
    size_t n = snappy_max_compressed_length(g->n);
    err e = zip_sink_room(s, 4 + n);
    if (e) {
        return e;
    }
    if (snappy_compress((const char *)g->p, g->n, (char *)s->p + s->n + 4, &n) != SNAPPY_OK) {
        return ERR_NOMEM;
    }
    be32_put(s->p + s->n, (uint32_t)n);
    s->n += 4 + n;
    g->n = 0;
    return ERR_OK;
}

static err pack_put(struct zip_sink *s, span bytes) {
    struct snappy_gather *g = s->state;
    err e = ERR_OK;
    while (!e && bytes.n > 0) {
        size_t n = bytes.n < sizeof g->p - g->n ? bytes.n : sizeof g->p - g->n;
        memcpy(g->p + g->n, bytes.p, n);
        g->n += n;
        bytes = span_of(bytes.p + n, bytes.n - n);
        e = g->n == sizeof g->p ? pack_block(s, g) : ERR_OK;
    }
    return e;
}

static err pack_finish(struct zip_sink *s) {
    struct snappy_gather *g = s->state;
    return g->n > 0 ? pack_block(s, g) : ERR_OK;
}

static void pack_close(struct zip_sink *s) { mem_free(s->state); }

const struct zip_packer zip_snappy_packer = {pack_open, pack_put, pack_finish, pack_close};
