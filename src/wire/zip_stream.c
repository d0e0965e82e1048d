/* Unpacking piece by piece: what the four codecs have in common.
 *
 * Happy path: the codec fills the caller's buffer; here the sum is held against the ceiling.
 * Failure modes: the ceiling may be passed by one byte, which is how a stream that ends exactly
 * there is told from one that goes on; an error stays.
 * Runs on: any. */
#include "wire/zip_stream.h"

#include "base/mem.h"
#include "zip_codec.h"

static const struct zip_codec *const codecs[] = {NULL, &zip_gzip_codec, &zip_snappy_codec, &zip_lz4_codec, &zip_zstd_codec};
static_assert(sizeof codecs / sizeof *codecs == CODEC_ZSTD + 1, "one each");

err zip_stream_init(struct zip_stream *z, enum batch_codec codec, span in, size_t max) {
    if (codec <= CODEC_NONE || codec > CODEC_ZSTD || in.n == 0) {        /* every codec's empty stream has bytes */
        return ERR_CORRUPT;
    }
    if (in.n > INT32_MAX) {
        return ERR_LIMIT;
    }
    struct zip_stream made = {.codec = codecs[codec], .in = in, .max = max < INT32_MAX ? max : INT32_MAX - 1};
    err e = made.codec->open(&made);
    if (e == ERR_OK) {
        *z = made;
    }
    return e;
}

err zip_stream_read(struct zip_stream *z, uint8_t *p, size_t n, size_t *ret_n) {
    size_t got = 0;
    if (z->err == ERR_OK && !z->ended) {
        size_t left = z->max - z->out;
        z->err = z->codec->read(z, p, n <= left ? n : left + 1, &got);
        if (z->err == ERR_OK && got > left) {
            z->err = ERR_LIMIT;
        }
    }
    if (z->err != ERR_OK) {
        return z->err;
    }
    z->out += got;
    *ret_n = got;
    return ERR_OK;
}

void zip_stream_done(struct zip_stream *z) {
    if (z->codec != NULL) {
        z->codec->close(z);
    }
    *z = (struct zip_stream){0};
}

void *zip_stream_alloc(void *u, size_t n) {
    (void)u;
    return mem_alloc(MEM_ARENA, n);
}

void zip_stream_release(void *u, void *p) {
    (void)u;
    mem_free(p);
}
