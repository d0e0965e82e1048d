/* The codecs of a record batch, by number.
 *
 * Happy path: one call down.
 * Failure modes: a number that names no codec is CORRUPT, and so is nothing at all: every codec's
 * empty stream has bytes.
 * Runs on: any. */
#include "wire/zip.h"

#include "zip_codec.h"

err zip_unpack(enum batch_codec codec, span in, size_t max, struct arena *a, span *ret_out) {
    if (in.n == 0 && codec != CODEC_NONE) {
        return ERR_CORRUPT;
    }
    switch (codec) {
    case CODEC_NONE:
        *ret_out = in;
        return ERR_OK;
    case CODEC_GZIP:
        return zip_gzip_unpack(in, max, a, ret_out);
    case CODEC_SNAPPY:
        return zip_snappy_unpack(in, max, a, ret_out);
    case CODEC_LZ4:
        return zip_lz4_unpack(in, max, a, ret_out);
    case CODEC_ZSTD:
        return zip_zstd_unpack(in, max, a, ret_out);
    }
    return ERR_CORRUPT;
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
