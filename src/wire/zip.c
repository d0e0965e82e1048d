/* The codecs of a record batch, by number, all at once.
 *
 * Happy path: packing is one piece put into a sink. Unpacking streams into a growing buffer, which is copied
 * into the arena once its size is known; snappy knows it before.
 * Failure modes: a number that names no codec is CORRUPT, and so is nothing at all: every codec's
 * empty stream has bytes.
 * Runs on: any. */
#include "wire/zip.h"

#include <string.h>

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
    struct zip_sink s;
    if (codec == CODEC_NONE) {
        *ret_out = in;
        return ERR_OK;
    }
    err e = zip_sink_init(&s, codec, zip_sink_level(codec), 0, INT32_MAX);
    if (e) {
        return e;
    }
    e = zip_sink_put(&s, in);
    e = e ? e : zip_sink_finish(&s);
    uint8_t *p = e ? NULL : arena_alloc(a, s.n);
    if (p) {
        memcpy(p, s.p, s.n);
        *ret_out = span_of(p, s.n);
    }
    zip_sink_done(&s);
    return e ? e : p ? ERR_OK : ERR_NOMEM;
}
