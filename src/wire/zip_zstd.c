/* zstd; several frames in a row are one stream.
 *
 * Happy path: decompress into a growing buffer until the last frame ends where the input ends.
 * Failure modes: a frame that wants a window above 2^LIMIT_ZSTD_WINDOW_LOG bytes is LIMIT before
 * that memory is taken (T55), and so is output above the ceiling; CORRUPT on the rest.
 * Runs on: any. */
#include <zstd.h>
#include <zstd_errors.h>

#include "base/limits.h"
#include "zip_codec.h"
#include "zip_out.h"

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

static err decode_all(ZSTD_DCtx *d, span in, struct zip_out *o) {
    ZSTD_inBuffer from = {in.p, in.n, 0};
    size_t more = 1;                             /* 0 at the end of a frame */
    while (more != 0 || from.pos < from.size) {
        err e = zip_out_more(o);
        if (e) {
            return e;
        }
        size_t was = from.pos;
        ZSTD_outBuffer to = {o->p, o->cap, o->n};
        more = ZSTD_decompressStream(d, &to, &from);
        if (ZSTD_isError(more)) {
            return error_of(more);
        }
        if (more != 0 && from.pos == was && to.pos == o->n) {      /* the input ended early */
            return ERR_CORRUPT;
        }
        o->n = to.pos;
    }
    return ERR_OK;
}

err zip_zstd_unpack(span in, size_t max, struct arena *a, span *ret_out) {
    ZSTD_DCtx *d = ZSTD_createDCtx();
    if (!d || ZSTD_isError(ZSTD_DCtx_setParameter(d, ZSTD_d_windowLogMax, LIMIT_ZSTD_WINDOW_LOG))) {
        (void)ZSTD_freeDCtx(d);                  /* always 0 */
        return ERR_NOMEM;
    }
    struct zip_out o;
    zip_out_init(&o, in.n, max);
    err e = decode_all(d, in, &o);
    (void)ZSTD_freeDCtx(d);                      /* always 0 */
    if (e) {
        zip_out_done(&o);
        return e;
    }
    return zip_out_take(&o, a, ret_out);
}

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
