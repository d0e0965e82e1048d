/* Bombs, made by the libraries themselves: 256 MiB of zeros, with the largest blocks and windows that are read (T55). */
#pragma once

#include <check.h>
#include <lz4frame.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

#include "base/be.h"
#include "base/limits.h"
#include "wire/batch.h"

#define BOMB_BYTES ((size_t)256 << 20)           /* four times the ceiling */
#define BOMB_PIECE ((size_t)1 << 20)

struct sink {
    uint8_t *p;
    size_t n, cap;
};

static inline void room(struct sink *s, size_t n) {
    while (s->cap - s->n < n) {
        s->cap = s->cap ? s->cap * 2 : BOMB_PIECE;
        s->p = realloc(s->p, s->cap);
    }
}

static inline void bomb_gzip(struct sink *s, const uint8_t *zeros) {
    z_stream z = {0};
    ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, 31, 9, Z_DEFAULT_STRATEGY), Z_OK);
    for (size_t done = 0; done <= BOMB_BYTES; done += BOMB_PIECE) {
        room(s, BOMB_PIECE);
        z.next_in = (Bytef *)(uintptr_t)zeros;
        z.avail_in = done < BOMB_BYTES ? BOMB_PIECE : 0;
        z.next_out = s->p + s->n;
        z.avail_out = BOMB_PIECE;
        deflate(&z, done < BOMB_BYTES ? Z_NO_FLUSH : Z_FINISH);
        s->n += BOMB_PIECE - z.avail_out;
    }
    deflateEnd(&z);
}

static inline void bomb_zstd(struct sink *s, const uint8_t *zeros) {
    ZSTD_CCtx *c = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, LIMIT_ZSTD_WINDOW_LOG);
    for (size_t done = 0; done <= BOMB_BYTES; done += BOMB_PIECE) {
        room(s, BOMB_PIECE);
        ZSTD_inBuffer in = {zeros, done < BOMB_BYTES ? BOMB_PIECE : 0, 0};
        ZSTD_outBuffer out = {s->p, s->cap, s->n};
        ck_assert(!ZSTD_isError(ZSTD_compressStream2(c, &out, &in, done < BOMB_BYTES ? ZSTD_e_continue : ZSTD_e_end)));
        s->n = out.pos;
    }
    ZSTD_freeCCtx(c);
}

static inline void bomb_lz4(struct sink *s, const uint8_t *zeros) {
    LZ4F_cctx *c;
    LZ4F_preferences_t prefs = {.frameInfo = {.blockSizeID = LZ4F_max4MB, .blockMode = LZ4F_blockLinked}};
    LZ4F_createCompressionContext(&c, LZ4F_VERSION);
    room(s, BOMB_PIECE);
    s->n = LZ4F_compressBegin(c, s->p, s->cap, &prefs);
    for (size_t done = 0; done < BOMB_BYTES; done += BOMB_PIECE) {
        room(s, LZ4F_compressBound(BOMB_PIECE, &prefs));
        s->n += LZ4F_compressUpdate(c, s->p + s->n, s->cap - s->n, zeros, BOMB_PIECE, NULL);
    }
    room(s, LZ4F_compressBound(0, &prefs));
    s->n += LZ4F_compressEnd(c, s->p + s->n, s->cap - s->n, NULL);
    LZ4F_freeCompressionContext(c);
}

/* Honest blocks of 1 MiB in the framing of xerial: each allowed, their sum not. */
static inline void bomb_snappy(struct sink *s, const uint8_t *zeros) {
    room(s, 2 * BOMB_PIECE);
    memcpy(s->p, "\x82SNAPPY\0\0\0\0\1\0\0\0\1", 16);
    s->n = 16;
    for (size_t done = 0; done < BOMB_BYTES; done += BOMB_PIECE) {
        room(s, 2 * BOMB_PIECE);
        size_t n = s->cap - s->n - 4;
        ck_assert_int_eq(snappy_compress((const char *)zeros, BOMB_PIECE, (char *)s->p + s->n + 4, &n), SNAPPY_OK);
        be32_put(s->p + s->n, (uint32_t)n);
        s->n += 4 + n;
    }
}

/* The caller frees p. */
static inline struct sink bomb_make(enum batch_codec codec) {
    static void (*const makers[])(struct sink *, const uint8_t *) = {NULL, bomb_gzip, bomb_snappy, bomb_lz4, bomb_zstd};
    uint8_t *zeros = calloc(1, BOMB_PIECE);
    struct sink bomb = {0};
    makers[codec](&bomb, zeros);
    free(zeros);
    ck_assert_uint_lt(bomb.n * 15, BOMB_BYTES);
    return bomb;
}
