/* zstd; several frames in a row are one stream.
 *
 * Happy path: decompress into what the caller gives until the last frame ends where the input ends.
 * The library keeps the frame's window.
 * Failure modes: a frame that wants a window above 2^LIMIT_ZSTD_WINDOW_LOG bytes is LIMIT before
 * that memory is taken (T55); CORRUPT on the rest.
 * Runs on: any. */
#define ZSTD_STATIC_LINKING_ONLY         /* our allocator: exported, if not for ever the same */
#include <zstd.h>
#include <zstd_errors.h>

#include "base/limits.h"
#include "zip_codec.h"

static err error_of(size_t rc) {
    switch (ZSTD_getErrorCode(rc)) {
    case ZSTD_error_frameParameter_windowTooLarge:
        return ERR_LIMIT;
    case ZSTD_error_memory_allocation:
        return ERR_NOMEM;
    default:
        return ERR_CORRUPT;
    }
}

static void zstd_close(struct zip_stream *z) {
    (void)ZSTD_freeDCtx(z->state);               /* always 0 */
}

static err zstd_open(struct zip_stream *z) {
    ZSTD_customMem mem = {.customAlloc = zip_stream_alloc, .customFree = zip_stream_release};
    z->state = ZSTD_createDCtx_advanced(mem);
    if (!z->state || ZSTD_isError(ZSTD_DCtx_setParameter(z->state, ZSTD_d_windowLogMax, LIMIT_ZSTD_WINDOW_LOG))) {
        zstd_close(z);
        return ERR_NOMEM;
    }
    return ERR_OK;
}

static err zstd_read(struct zip_stream *z, uint8_t *p, size_t n, size_t *ret_n) {
    ZSTD_outBuffer to = {p, n, 0};
    while (to.pos < to.size && !z->ended) {
        ZSTD_inBuffer from = {z->in.p, z->in.n, 0};
        size_t was = to.pos;
        size_t more = ZSTD_decompressStream(z->state, &to, &from);       /* 0 at the end of a frame */
        if (ZSTD_isError(more)) {
            return error_of(more);
        }
        if (more != 0 && from.pos == 0 && to.pos == was) {       /* the input ended early */
            return ERR_CORRUPT;
        }
        z->in = span_of(z->in.p + from.pos, z->in.n - from.pos);
        z->ended = more == 0 && z->in.n == 0;
    }
    *ret_n = to.pos;
    return ERR_OK;
}

const struct zip_codec zip_zstd_codec = {zstd_open, zstd_read, zstd_close};

/* ---- packing ---- */

#define ZSTD_PACK_WINDOW ((size_t)1 << 20)         /* as much as most batches have; what the highest levels cost in memory follows from it */

/* The parameters that the level has for inputs of one window, so that high levels do not ask for tables of hundreds of megabytes. */
static bool set_level(ZSTD_CCtx *c, int level) {
    ZSTD_compressionParameters p = ZSTD_getCParams(level, ZSTD_PACK_WINDOW, 0);
    const struct {
        ZSTD_cParameter key;
        int value;
    } set[] = {
        {ZSTD_c_compressionLevel, level},          {ZSTD_c_windowLog, (int)p.windowLog}, {ZSTD_c_hashLog, (int)p.hashLog},
        {ZSTD_c_chainLog, (int)p.chainLog},        {ZSTD_c_searchLog, (int)p.searchLog}, {ZSTD_c_minMatch, (int)p.minMatch},
        {ZSTD_c_targetLength, (int)p.targetLength}, {ZSTD_c_strategy, (int)p.strategy},
    };
    for (size_t i = 0; i < sizeof set / sizeof *set; i++) {
        if (ZSTD_isError(ZSTD_CCtx_setParameter(c, set[i].key, set[i].value))) {
            return false;
        }
    }
    return true;
}

static void pack_close(struct zip_sink *s) {
    (void)ZSTD_freeCCtx(s->state);               /* always 0 */
}

static err pack_open(struct zip_sink *s, int level) {
    ZSTD_customMem mem = {.customAlloc = zip_stream_alloc, .customFree = zip_stream_release};
    s->state = ZSTD_createCCtx_advanced(mem);
    if (!s->state || !set_level(s->state, level)) {
        pack_close(s);
        return ERR_NOMEM;
    }
    return ERR_OK;
}

static err pack_run(struct zip_sink *s, span bytes, ZSTD_EndDirective how) {
    ZSTD_inBuffer in = {bytes.p, bytes.n, 0};
    for (;;) {
        err e = zip_sink_room(s, 1);
        if (e) {
            return e;
        }
        ZSTD_outBuffer out = {s->p, s->cap, s->n};
        size_t left = ZSTD_compressStream2(s->state, &out, &in, how);
        s->n = out.pos;
        if (ZSTD_isError(left)) {
            return ERR_NOMEM;
        }
        if (how == ZSTD_e_end ? left == 0 : in.pos == in.size) {
            return ERR_OK;
        }
    }
}

static err pack_put(struct zip_sink *s, span bytes) { return pack_run(s, bytes, ZSTD_e_continue); }

static err pack_finish(struct zip_sink *s) { return pack_run(s, span_of("", 0), ZSTD_e_end); }

const struct zip_packer zip_zstd_packer = {pack_open, pack_put, pack_finish, pack_close};
