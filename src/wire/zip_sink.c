/* Packing piece by piece: what the codecs have in common, and the one that does not pack.
 *
 * Happy path: the codec writes behind what is there, into a buffer that doubles.
 * Failure modes: more than the ceiling is LIMIT. The buffer may be larger than that by one step of a codec, since the libraries want room for the worst before they
 * write less.
 * Runs on: any. */
#include "wire/zip_sink.h"

#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "zip_codec.h"

#define SINK_BYTES ((size_t)4 << 10)

int zip_sink_level(enum batch_codec codec) {
    return codec == CODEC_LZ4 ? ZIP_LEVEL_LZ4 : codec == CODEC_ZSTD ? ZIP_LEVEL_ZSTD : ZIP_LEVEL_GZIP;
}

err zip_sink_room(struct zip_sink *s, size_t least) {
    if (s->n > s->max) {
        return ERR_LIMIT;
    }
    if (s->cap - s->n >= least) {
        return ERR_OK;
    }
    size_t want = s->cap * 2 > s->n + least ? s->cap * 2 : s->n + least;
    size_t most = s->max + 1 + least;
    want = want < most ? want : most;
    uint8_t *p = mem_realloc(MEM_ARENA, s->p, want);
    if (p == NULL) {
        return ERR_NOMEM;
    }
    s->p = p;
    s->cap = want;
    return ERR_OK;
}

/* ---- no codec ---- */

static err plain_open(struct zip_sink *s, int level) {
    (void)s, (void)level;
    return ERR_OK;
}

static err plain_put(struct zip_sink *s, span bytes) {
    if (s->n + bytes.n > s->max) {
        return ERR_LIMIT;
    }
    err e = zip_sink_room(s, bytes.n);
    if (e == ERR_OK && bytes.n > 0) {
        memcpy(s->p + s->n, bytes.p, bytes.n);
        s->n += bytes.n;
    }
    return e;
}

static err plain_finish(struct zip_sink *s) {
    (void)s;
    return ERR_OK;
}

static void plain_close(struct zip_sink *s) { (void)s; }

static const struct zip_packer plain_packer = {plain_open, plain_put, plain_finish, plain_close};
static const struct zip_packer *const packers[] = {&plain_packer, &zip_gzip_packer, &zip_snappy_packer, &zip_lz4_packer, &zip_zstd_packer};
static_assert(sizeof packers / sizeof *packers == CODEC_ZSTD + 1, "one each");

/* ---- all ---- */

err zip_sink_init(struct zip_sink *s, enum batch_codec codec, int level, size_t skip, size_t max) {
    must(codec <= CODEC_ZSTD);
    struct zip_sink made = {.packer = packers[codec], .cap = skip + SINK_BYTES, .n = skip, .max = max};
    made.p = mem_alloc(MEM_ARENA, made.cap);
    err e = made.p == NULL ? ERR_NOMEM : made.packer->open(&made, level);
    if (e != ERR_OK) {
        mem_free(made.p);
        return e;
    }
    *s = made;
    return ERR_OK;
}

err zip_sink_put(struct zip_sink *s, span bytes) { return s->packer->put(s, bytes); }

err zip_sink_finish(struct zip_sink *s) {
    err e = s->packer->finish(s);
    return e == ERR_OK && s->n > s->max ? ERR_LIMIT : e;
}

void zip_sink_done(struct zip_sink *s) {
    if (s->packer != NULL) {
        s->packer->close(s);
    }
    mem_free(s->p);
    *s = (struct zip_sink){0};
}
