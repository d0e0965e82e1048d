/* Record batches: as a producer's and as a log's. Input: a batch, whose CRC is made right here,
 * since no fuzzer guesses one.
 *
 * Holds: what is accepted from a producer walks to its end with as many records as it says, if
 * it is not compressed; a compressed one walks or is refused, within the ceiling; walking never
 * leaves the bytes. T53, T54, T55. */
#include <string.h>

#include "base/be.h"
#include "base/crc.h"
#include "base/mem.h"
#include "fuzz.h"
#include "wire/record.h"

#define ARENA_BYTES ((size_t)16 << 20)
#define UNZIP_BYTES_MAX ((size_t)1 << 20)

static int32_t walk(span batch, struct record_walk *w, struct arena *a) {
    int32_t n = 0;
    struct record r;
    if (record_walk_init(w, batch, a, UNZIP_BYTES_MAX)) {
        return -1;
    }
    must((size_t)(w->end - w->p) <= UNZIP_BYTES_MAX || batch_codec(&w->head) == CODEC_NONE);
    while (record_walk_next(w, &r)) {
        span at = r.headers, name, value;
        while (record_header_next(&at, &name, &value)) {
            must(!span_is_null(name));
        }
        n++;
    }
    return n;
}

static void judge(span batch, struct arena *a) {
    struct batch_head h;
    struct batch_facts f;
    const char *text = NULL;
    err e = batch_check_facts(batch, &h, &f, &text);
    must((e == ERR_OK) == (text == NULL));
    struct record_walk w;
    int32_t n = walk(batch, &w, a);
    if (e == ERR_OK && batch_codec(&h) == CODEC_NONE) {
        must(n == h.count && !w.bad && w.p == w.end);
        must(f.walked && f.min_ts_ms <= f.max_ts_ms);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct arena a;
    arena_init(&a, NULL, ARENA_BYTES);
    uint8_t *p = mem_alloc(MEM_TEST, n);
    must(p != NULL);
    memcpy(p, data, n);
    if (n >= BATCH_HEAD_BYTES) {
        be32_put(p + 17, crc32c(p + 21, n - 21));
    }
    judge(span_of(p, n), &a);
    mem_free(p);
    arena_done(&a);
    return 0;
}
