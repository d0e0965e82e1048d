/* Unpacking piece by piece, the look at records on top of it, and packing anew what passes by (what Produce does with compression.type). Input: codec, seed of the
 * pieces' sizes, then packed bytes.
 *
 * Holds: the pieces make up what unpacking at once gives, or both fail; what a scan of those bytes sees is what walking sees; a scan
 * that ends well saw as many records as it should, and what went into another codec on the way unpacks to the same. S5.16, T54, T55. */
#include <string.h>

#include "base/mem.h"
#include "base/prng.h"
#include "fuzz.h"
#include "wire/record.h"
#include "wire/record_scan.h"
#include "wire/zip.h"
#include "wire/zip_sink.h"

#define ARENA_BYTES ((size_t)16 << 20)
#define UNZIP_BYTES_MAX ((size_t)1 << 20)

/* All of it in pieces: the err, and what came out in the arena. */
static err stream(enum batch_codec codec, span in, struct prng *rng, struct arena *a, span *ret_out) {
    struct zip_stream z;
    err e = zip_stream_init(&z, codec, in, UNZIP_BYTES_MAX);
    if (e != ERR_OK) {
        return e;
    }
    uint8_t *p = arena_alloc(a, UNZIP_BYTES_MAX);
    must(p != NULL);
    while (e == ERR_OK && !z.ended) {
        size_t n = 1 + (size_t)prng_below(rng, prng_chance(rng, 1, 4) ? 100000 : 300), at = z.out, got;
        uint8_t *piece = mem_alloc(MEM_TEST, n);             /* its own block, so that a sanitizer sees its end */
        must(piece != NULL);
        e = zip_stream_read(&z, piece, n, &got);
        if (e == ERR_OK) {
            must(got == n || z.ended);
            must(z.out <= UNZIP_BYTES_MAX);
            memcpy(p + at, piece, got);
        }
        mem_free(piece);
    }
    *ret_out = span_of(p, z.out);
    zip_stream_done(&z);
    return e;
}

static void same_records(span batch, struct arena *a) {
    struct record_walk w;
    struct record r;
    struct record_scan s;
    struct record_seen seen;
    err walked = record_walk_init(&w, batch, a, UNZIP_BYTES_MAX);
    if (record_scan_init(&s, batch, UNZIP_BYTES_MAX) != ERR_OK) {
        must(walked != ERR_OK);
        return;
    }
    while (record_scan_next(&s, &seen)) {
        if (walked == ERR_OK) {
            must(record_walk_next(&w, &r));
            must(r.offset == seen.offset && r.ts_ms == seen.ts_ms && r.headers_n == seen.headers_n);
            must(span_is_null(r.key) == (seen.key_bytes < 0) && r.key.n == (size_t)(seen.key_bytes < 0 ? 0 : seen.key_bytes));
            must(span_is_null(r.value) == (seen.value_bytes < 0) && r.value.n == (size_t)(seen.value_bytes < 0 ? 0 : seen.value_bytes));
        }
    }
    must((s.err == ERR_OK) == (s.why == NULL));
    if (s.err == ERR_OK) {
        must(walked == ERR_OK && !w.bad && w.p == w.end);
        must(s.n == (s.head.count > 0 ? s.head.count : 0));
    }
    record_scan_done(&s);
}

static err into_sink(void *u, span piece) { return zip_sink_put(u, piece); }

/* whole: what the records unpack to, where they do. */
static void packed_anew(span batch, enum batch_codec to, int level, span whole, struct arena *a) {
    struct record_scan s;
    struct record_seen seen;
    struct zip_sink sink;
    span again;
    if (record_scan_init(&s, batch, UNZIP_BYTES_MAX) != ERR_OK) {
        return;
    }
    must(zip_sink_init(&sink, to, level, BATCH_HEAD_BYTES, 2 * UNZIP_BYTES_MAX) == ERR_OK);
    must(record_scan_tap(&s, into_sink, &sink) == ERR_OK);
    while (record_scan_next(&s, &seen)) {
    }
    if (s.err == ERR_OK) {
        must(zip_sink_finish(&sink) == ERR_OK);
        must(sink.n >= BATCH_HEAD_BYTES);
        must(zip_unpack(to, span_of(sink.p + BATCH_HEAD_BYTES, sink.n - BATCH_HEAD_BYTES), UNZIP_BYTES_MAX, a, &again) == ERR_OK);
        must(span_eq(again, whole));
    }
    zip_sink_done(&sink);
    record_scan_done(&s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 2) {
        return -1;
    }
    enum batch_codec codec = (enum batch_codec)(CODEC_GZIP + data[0] % CODEC_ZSTD);
    struct prng rng;
    struct arena a;
    span in = span_of(data + 2, n - 2), whole, pieces;
    prng_seed(&rng, data[1]);
    arena_init(&a, NULL, ARENA_BYTES);
    err at_once = zip_unpack(codec, in, UNZIP_BYTES_MAX, &a, &whole);
    err piecewise = stream(codec, in, &rng, &a, &pieces);
    must((at_once == ERR_OK) == (piecewise == ERR_OK));
    must(at_once != ERR_OK || span_eq(whole, pieces));
    uint8_t *p = arena_alloc(&a, BATCH_HEAD_BYTES + in.n);
    must(p != NULL);
    memcpy(p + BATCH_HEAD_BYTES, in.p, in.n);
    batch_head_put(p, &(struct batch_head){.length = (int32_t)(BATCH_HEAD_BYTES + in.n) - BATCH_OVERHEAD_BYTES, .attributes = (int16_t)codec,
                                           .last_offset_delta = data[1] & 7, .count = (data[1] & 7) + 1});
    same_records(span_of(p, BATCH_HEAD_BYTES + in.n), &a);
    packed_anew(span_of(p, BATCH_HEAD_BYTES + in.n), (enum batch_codec)(data[1] % (CODEC_ZSTD + 1)), 1 + data[1] % 9, at_once == ERR_OK ? whole : SPAN_NULL, &a);
    arena_done(&a);
    return 0;
}
