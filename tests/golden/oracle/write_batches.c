/* Goal: the Java client reads what our builder and codecs write (D1, S5.16, S5.17). Method: per codec, small and large batches of drawn
 * records; ReadBatches.java draws the same numbers and compares every record.
 * usage: write_batches OUT        one file of [u32 length][batch]... */
#include <stdio.h>

#include "base/be.h"
#include "wire/record.h"

#define ARENA_BYTES ((size_t)256 << 20)

/* The generator of java.util.Random-free tests: both sides can write it in one line. */
static uint32_t next(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static span draw(uint32_t *state, struct arena *a, uint32_t max) {
    uint32_t kind = next(state) % 8;
    if (kind == 0) {
        return SPAN_NULL;
    }
    uint32_t n = kind == 1 ? 0 : next(state) % max;
    uint8_t *p = arena_alloc(a, n);
    uint8_t same = (uint8_t)next(state);
    for (uint32_t i = 0; i < n; i++) {
        p[i] = kind < 5 ? same : (uint8_t)next(state);           /* half of them can be compressed */
    }
    return span_of(p, n);
}

static bool write_one(FILE *f, enum batch_codec codec, uint32_t records, uint32_t value_max) {
    struct arena a;
    arena_init(&a, NULL, ARENA_BYTES);
    uint32_t state = 7 + records;
    struct record_build b;
    record_build_init(&b, &a, codec);
    b.producer_id = 5;
    b.producer_epoch = 1;
    b.base_sequence = 0;
    for (uint32_t i = 0; i < records; i++) {
        struct record_header h = {SPAN_LIT("name"), draw(&state, &a, 20)};
        span key = draw(&state, &a, 50), value = draw(&state, &a, value_max);
        record_build_add(&b, 1700000000000 + (ms)(next(&state) % 1000), key, value, &h, 1);
    }
    span batch;
    bool ok = record_build_finish(&b, &batch) == ERR_OK;
    uint8_t length[4];
    if (ok) {
        be32_put(length, (uint32_t)batch.n);
        ok = fwrite(length, 1, 4, f) == 4 && fwrite(batch.p, 1, batch.n, f) == batch.n;
    }
    arena_done(&a);
    return ok;
}

int main(int argc, char **argv) {
    FILE *f = argc == 2 ? fopen(argv[1], "wb") : NULL;
    bool ok = f != NULL;
    for (int codec = CODEC_NONE; ok && codec <= CODEC_ZSTD; codec++) {
        ok = write_one(f, (enum batch_codec)codec, 1, 10) && write_one(f, (enum batch_codec)codec, 50, 300) &&
             write_one(f, (enum batch_codec)codec, 2000, 3000);
    }
    return ok && fclose(f) == 0 ? 0 : 1;
}
