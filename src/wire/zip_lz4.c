/* lz4 frames. Written with independent blocks of 64 KiB and without content size, which every Java
 * client reads.
 *
 * Happy path: decompress into what the caller gives until the end mark, which must be where the
 * input ends. The library keeps a block, and the 64 KiB before it where blocks are linked.
 * Failure modes: CORRUPT on anything the library refuses, a cut frame, or bytes behind it.
 * Runs on: any. */
#define LZ4F_STATIC_LINKING_ONLY         /* our allocator: exported, if not for ever the same */
#include <lz4frame.h>

#include "zip_codec.h"

static err error_of(size_t rc) {
    return LZ4F_getErrorCode(rc) == LZ4F_ERROR_allocation_failed ? ERR_NOMEM : ERR_CORRUPT;
}

static err lz4_open(struct zip_stream *z) {
    LZ4F_CustomMem mem = {.customAlloc = zip_stream_alloc, .customFree = zip_stream_release};
    z->state = LZ4F_createDecompressionContext_advanced(mem, LZ4F_VERSION);
    return z->state ? ERR_OK : ERR_NOMEM;
}

static err lz4_read(struct zip_stream *z, uint8_t *p, size_t n, size_t *ret_n) {
    size_t done = 0;
    while (done < n && !z->ended) {
        size_t out_n = n - done, in_n = z->in.n;
        size_t more = LZ4F_decompress(z->state, p + done, &out_n, z->in.p, &in_n, NULL);       /* 0 when the frame is complete */
        if (LZ4F_isError(more)) {
            return error_of(more);
        }
        done += out_n;
        z->in = span_of(z->in.p + in_n, z->in.n - in_n);
        if (more == 0 ? z->in.n > 0 : out_n == 0 && in_n == 0) {
            return ERR_CORRUPT;
        }
        z->ended = more == 0;
    }
    *ret_n = done;
    return ERR_OK;
}

static void lz4_close(struct zip_stream *z) {
    (void)LZ4F_freeDecompressionContext(z->state);       /* says which stage it was in, which nobody wants to know */
}

const struct zip_codec zip_lz4_codec = {lz4_open, lz4_read, lz4_close};

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
