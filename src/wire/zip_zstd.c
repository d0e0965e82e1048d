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

#define ZSTD_LEVEL 3

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

err zip_zstd_pack(span in, struct arena *a, span *ret_out) {
    size_t bound = ZSTD_compressBound(in.n);
    uint8_t *p = arena_alloc(a, bound);
    if (!p) {
        return ERR_NOMEM;
    }
    size_t n = ZSTD_compress(p, bound, in.p, in.n, ZSTD_LEVEL);
    if (ZSTD_isError(n)) {
        return ERR_NOMEM;
    }
    *ret_out = span_of(p, n);
    return ERR_OK;
}
