/* The codecs of a record batch, by number, all at once.
 *
 * Happy path: packing is one call down. Unpacking streams into a growing buffer, which is copied
 * into the arena once its size is known; snappy knows it before.
 * Failure modes: a number that names no codec is CORRUPT, and so is nothing at all: every codec's
 * empty stream has bytes.
 * Runs on: any. */
#include "wire/zip.h"

#include "zip_codec.h"
#include "zip_out.h"

static err unpack_all(struct zip_stream *z, struct zip_out *o) {
    while (!z->ended) {
        err e = zip_out_more(o);
        if (e) {
            return e;
        }
        size_t got;
        e = zip_stream_read(z, o->p + o->n, o->cap - o->n, &got);
        if (e) {
            return e;
        }
        o->n += got;
    }
    return ERR_OK;
}

static err unpack(enum batch_codec codec, span in, size_t max, struct zip_out *o) {
    struct zip_stream z;
    err e = zip_stream_init(&z, codec, in, max);
    if (e) {
        return e;
    }
    e = unpack_all(&z, o);
    zip_stream_done(&z);
    return e;
}

err zip_unpack(enum batch_codec codec, span in, size_t max, struct arena *a, span *ret_out) {
    if (codec == CODEC_NONE) {
        *ret_out = in;
        return ERR_OK;
    }
    if (codec == CODEC_SNAPPY && in.n > 0) {
        return zip_snappy_unpack(in, max, a, ret_out);
    }
    struct zip_out o;
    zip_out_init(&o, in.n, max);
    err e = unpack(codec, in, max, &o);
    if (e) {
        zip_out_done(&o);
        return e;
    }
    return zip_out_take(&o, a, ret_out);
}

err zip_pack(enum batch_codec codec, span in, struct arena *a, span *ret_out) {
    switch (codec) {
    case CODEC_NONE:
        *ret_out = in;
        return ERR_OK;
    case CODEC_GZIP:
        return zip_gzip_pack(in, a, ret_out);
    case CODEC_SNAPPY:
        return zip_snappy_pack(in, a, ret_out);
    case CODEC_LZ4:
        return zip_lz4_pack(in, a, ret_out);
    case CODEC_ZSTD:
        return zip_zstd_pack(in, a, ret_out);
    }
    return ERR_BAD_REQUEST;
}
