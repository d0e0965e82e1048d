/* The codecs. Input: codec, then packed bytes. Holds: what comes out is within the ceiling, and
 * what was unpacked packs and unpacks to the same. T55. */
#include <string.h>

#include "fuzz.h"
#include "wire/zip.h"

#define ARENA_BYTES ((size_t)16 << 20)
#define UNZIP_BYTES_MAX ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 1) {
        return -1;
    }
    enum batch_codec codec = (enum batch_codec)(CODEC_GZIP + data[0] % CODEC_ZSTD);
    struct arena a;
    arena_init(&a, NULL, ARENA_BYTES);
    span out, packed, again;
    if (zip_unpack(codec, span_of(data + 1, n - 1), UNZIP_BYTES_MAX, &a, &out) == ERR_OK) {
        must(out.n <= UNZIP_BYTES_MAX);
        must(zip_pack(codec, out, &a, &packed) == ERR_OK);
        must(zip_unpack(codec, packed, out.n, &a, &again) == ERR_OK);
        must(again.n == out.n && memcmp(again.p, out.p, out.n) == 0);
    }
    arena_done(&a);
    return 0;
}
