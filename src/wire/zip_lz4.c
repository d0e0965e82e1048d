/* lz4 frames. Written with independent blocks of 64 KiB and without content size, which every Java
 * client reads.
 *
 * Happy path: decompress into a growing buffer until the end mark, which must be where the input
 * ends.
 * Failure modes: LIMIT above the ceiling; CORRUPT on anything the library refuses, a cut frame, or
 * bytes behind it.
 * Runs on: any. */
#include <lz4frame.h>

#include "zip_codec.h"
#include "zip_out.h"

static err decode_all(LZ4F_dctx *d, span in, struct zip_out *o) {
    size_t more = 1;                             /* 0 when the frame is complete */
    while (more != 0) {
        err e = zip_out_more(o);
        if (e) {
            return e;
        }
        size_t out_n = o->cap - o->n, in_n = in.n;
        more = LZ4F_decompress(d, o->p + o->n, &out_n, in.p, &in_n, NULL);
        if (LZ4F_isError(more) || (more != 0 && out_n == 0 && in_n == 0)) {
            return ERR_CORRUPT;
        }
        o->n += out_n;
        in = span_of(in.p + in_n, in.n - in_n);
    }
    return in.n == 0 ? ERR_OK : ERR_CORRUPT;
}

err zip_lz4_unpack(span in, size_t max, struct arena *a, span *ret_out) {
    LZ4F_dctx *d;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&d, LZ4F_VERSION))) {
        return ERR_NOMEM;
    }
    struct zip_out o;
    zip_out_init(&o, in.n, max);
    err e = decode_all(d, in, &o);
    (void)LZ4F_freeDecompressionContext(d);      /* says which stage it was in, which nobody wants to know */
    if (e) {
        zip_out_done(&o);
        return e;
    }
    return zip_out_take(&o, a, ret_out);
}

err zip_lz4_pack(span in, struct arena *a, span *ret_out) {
    LZ4F_preferences_t prefs = {.frameInfo = {.blockSizeID = LZ4F_max64KB, .blockMode = LZ4F_blockIndependent}};
    size_t bound = LZ4F_compressFrameBound(in.n, &prefs);
    uint8_t *p = arena_alloc(a, bound);
    if (!p) {
        return ERR_NOMEM;
    }
    size_t n = LZ4F_compressFrame(p, bound, in.p, in.n, &prefs);
    if (LZ4F_isError(n)) {
        return ERR_NOMEM;
    }
    *ret_out = span_of(p, n);
    return ERR_OK;
}
