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

/* ---- packing ---- */

#define LZ4_PIECE_BYTES ((size_t)64 << 10)
#define LZ4_FAST 0
#define LZ4_HIGH_MIN 3                   /* below, the library packs fast */

/* As Kafka's clients have it: the default level means the fast method, any other the thorough one. */
static LZ4F_preferences_t prefs_of(int level) {
    int high = level < LZ4_HIGH_MIN ? LZ4_HIGH_MIN : level;
    return (LZ4F_preferences_t){.frameInfo = {.blockSizeID = LZ4F_max64KB, .blockMode = LZ4F_blockIndependent},
                                .compressionLevel = level == ZIP_LEVEL_LZ4 ? LZ4_FAST : high};
}

static err wrote(struct zip_sink *s, size_t rc) {
    if (LZ4F_isError(rc)) {
        return ERR_NOMEM;
    }
    s->n += rc;
    return ERR_OK;
}

static void pack_close(struct zip_sink *s) {
    (void)LZ4F_freeCompressionContext(s->state);         /* cannot fail but for nonsense */
}

static err pack_open(struct zip_sink *s, int level) {
    LZ4F_CustomMem mem = {.customAlloc = zip_stream_alloc, .customFree = zip_stream_release};
    LZ4F_preferences_t prefs = prefs_of(level);
    s->state = LZ4F_createCompressionContext_advanced(mem, LZ4F_VERSION);
    if (!s->state) {
        return ERR_NOMEM;
    }
    err e = zip_sink_room(s, LZ4F_HEADER_SIZE_MAX);
    e = e ? e : wrote(s, LZ4F_compressBegin(s->state, s->p + s->n, s->cap - s->n, &prefs));
    if (e) {
        pack_close(s);
    }
    return e;
}

static err pack_put(struct zip_sink *s, span bytes) {
    err e = ERR_OK;
    while (!e && bytes.n > 0) {
        size_t n = bytes.n < LZ4_PIECE_BYTES ? bytes.n : LZ4_PIECE_BYTES;
        e = zip_sink_room(s, LZ4F_compressBound(LZ4_PIECE_BYTES, NULL));
        e = e ? e : wrote(s, LZ4F_compressUpdate(s->state, s->p + s->n, s->cap - s->n, bytes.p, n, NULL));
        bytes = span_of(bytes.p + n, bytes.n - n);
    }
    return e;
}

static err pack_finish(struct zip_sink *s) {
    err e = zip_sink_room(s, LZ4F_compressBound(LZ4_PIECE_BYTES, NULL));
    return e ? e : wrote(s, LZ4F_compressEnd(s->state, s->p + s->n, s->cap - s->n, NULL));
}

const struct zip_packer zip_lz4_packer = {pack_open, pack_put, pack_finish, pack_close};
