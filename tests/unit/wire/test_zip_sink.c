/* Goal: what is packed piece by piece unpacks to the same bytes, whatever the pieces, the codec and its level, within the ceiling and in bounded memory (S5.16, S5.17); each allocation
 * may fail.
 * Method: drawn bytes put in drawn pieces, unpacked all at once; the ceiling moved to the last byte; the allocator's count looked at after each piece. */
#include "wire/zip_sink.h"

#include <string.h>

#include "base/prng.h"
#include "base/torture.h"
#include "wire/zip.h"

#define CODECS (CODEC_ZSTD + 1)
#define SKIP 61
#define MIB ((size_t)1 << 20)

static struct arena arena;
static void start(void) { arena_init(&arena, NULL, 512 << 20); }
static void finish(void) { arena_done(&arena); }

/* Text-like: some runs, some repeats, some noise. */
static uint8_t *mixed(struct prng *rng, size_t n) {
    uint8_t *p = malloc(n + 1);
    for (size_t at = 0; at < n;) {
        size_t take = 1 + (size_t)prng_below(rng, 300);
        take = take < n - at ? take : n - at;
        if (at > 1000 && prng_below(rng, 2) == 0) {
            memcpy(p + at, p + at - 700, take < 700 ? take : 700);
            take = take < 700 ? take : 700;
        } else {
            prng_bytes(rng, p + at, take);
        }
        at += take;
    }
    return p;
}

static err put_pieces(struct zip_sink *s, struct prng *rng, span in, size_t piece_max) {
    err e = ERR_OK;
    while (e == ERR_OK && in.n > 0) {
        size_t n = 1 + (size_t)prng_below(rng, piece_max);
        n = n < in.n ? n : in.n;
        e = zip_sink_put(s, span_of(in.p, n));
        in = span_of(in.p + n, in.n - n);
    }
    return e == ERR_OK ? zip_sink_finish(s) : e;
}

static void same(enum batch_codec codec, const struct zip_sink *s, span in) {
    span out;
    ck_assert_int_eq(zip_unpack(codec, span_of(s->p + SKIP, s->n - SKIP), in.n + 1, &arena, &out), ERR_OK);
    ck_assert_uint_eq(out.n, in.n);
    ck_assert_int_eq(memcmp(out.p, in.p, in.n), 0);
}

static const int levels[CODECS][5] = {{0}, {-1, 1, 9, 6, 3}, {0}, {9, 1, 3, 12, 17}, {3, 1, 22, -5, -131072}};

START_TEST(S5_16_S5_17_pieces_at_every_level) {
    enum batch_codec codec = (enum batch_codec)_i;
    struct prng rng;
    prng_seed(&rng, 99 + (uint64_t)_i);
    static const size_t sizes[] = {0, 1, 100, 32767, 32768, 32769, 65536, 65537, 300000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes * 5; i++) {
        size_t n = sizes[i / 5];
        uint8_t *p = mixed(&rng, n);
        struct zip_sink s;
        ck_assert_int_eq(zip_sink_init(&s, codec, levels[codec][i % 5], SKIP, SIZE_MAX / 4), ERR_OK);
        ck_assert_int_eq(put_pieces(&s, &rng, span_of(p, n), i % 2 == 0 ? 100000 : 5000), ERR_OK);
        if (codec == CODEC_NONE) {
            ck_assert_uint_eq(s.n, SKIP + n);
            ck_assert_int_eq(memcmp(s.p + SKIP, p, n), 0);
        } else {
            same(codec, &s, span_of(p, n));
        }
        zip_sink_done(&s);
        zip_sink_done(&s);                         /* twice is harmless */
        free(p);
        finish();
        start();
    }
}
END_TEST

/* Higher levels pack better: the level arrives at the library. */
START_TEST(levels_matter) {
    static const struct {
        enum batch_codec codec;
        int low, high;
    } pairs[] = {{CODEC_GZIP, 1, 9}, {CODEC_LZ4, ZIP_LEVEL_LZ4, 12}, {CODEC_ZSTD, -50, 19}};
    struct prng rng;
    prng_seed(&rng, 3);
    uint8_t *p = mixed(&rng, 400000);
    for (size_t i = 0; i < 400000; i++) {
        p[i] &= 15;
    }
    for (size_t i = 0; i < 3; i++) {
        size_t n[2];
        for (int k = 0; k < 2; k++) {
            struct zip_sink s;
            ck_assert_int_eq(zip_sink_init(&s, pairs[i].codec, k == 0 ? pairs[i].low : pairs[i].high, 0, MIB), ERR_OK);
            ck_assert_int_eq(put_pieces(&s, &rng, span_of(p, 400000), 50000), ERR_OK);
            n[k] = s.n;
            zip_sink_done(&s);
        }
        ck_assert_uint_lt(n[1], n[0]);
    }
    free(p);
}
END_TEST

START_TEST(the_ceiling_holds_to_the_byte) {
    enum batch_codec codec = (enum batch_codec)_i;
    struct prng rng;
    prng_seed(&rng, 5);
    uint8_t *p = mixed(&rng, 200000);
    struct zip_sink s;
    ck_assert_int_eq(zip_sink_init(&s, codec, zip_sink_level(codec), SKIP, MIB), ERR_OK);
    ck_assert_int_eq(put_pieces(&s, &rng, span_of(p, 200000), 200000), ERR_OK);
    size_t n = s.n;
    zip_sink_done(&s);
    for (size_t max = n - 1; max <= n; max++) {
        ck_assert_int_eq(zip_sink_init(&s, codec, zip_sink_level(codec), SKIP, max), ERR_OK);
        ck_assert_int_eq(put_pieces(&s, &rng, span_of(p, 200000), 200000), max == n ? ERR_OK : ERR_LIMIT);
        zip_sink_done(&s);
    }
    free(p);
}
END_TEST

/* Whatever goes in: what the header promises. */
START_TEST(T55_memory_is_bounded) {
    enum batch_codec codec = (enum batch_codec)_i;
    static const size_t extra[CODECS] = {0, 300 << 10, 128 << 10, 900 << 10, 32 << 20};
    struct prng rng;
    prng_seed(&rng, 7);
    uint8_t *p = mixed(&rng, 3 * MIB);
    static const int worst[CODECS] = {0, 9, 0, 12, 22};
    struct zip_sink s;
    size_t live = mem_live(MEM_ARENA);
    ck_assert_int_eq(zip_sink_init(&s, codec, worst[codec], SKIP, MIB), ERR_OK);
    err e = ERR_OK;
    for (size_t at = 0; e == ERR_OK && at < 3 * MIB; at += 64 << 10) {
        e = zip_sink_put(&s, span_of(p + at, 64 << 10));
        ck_assert_uint_le(mem_live(MEM_ARENA) - live, 2 * MIB + (400 << 10) + extra[codec]);
    }
    ck_assert_int_eq(e, ERR_LIMIT);                /* 3 MiB, half of it noise, are more than one */
    zip_sink_done(&s);
    ck_assert_uint_eq(mem_live(MEM_ARENA), live);
    free(p);
}
END_TEST

static enum batch_codec torn;
static void scenario(void) {
    static uint8_t bytes[100000];
    struct zip_sink s;
    err e = zip_sink_init(&s, torn, zip_sink_level(torn), SKIP, MIB);
    if (e == ERR_OK) {
        for (int i = 0; i < 3 && e == ERR_OK; i++) {
            e = zip_sink_put(&s, span_of(bytes, sizeof bytes));
        }
        e = e == ERR_OK ? zip_sink_finish(&s) : e;
        zip_sink_done(&s);
    }
    ck_assert(e == ERR_OK || e == ERR_NOMEM);
}

START_TEST(every_allocation_may_fail) {
    torn = (enum batch_codec)_i;
    ck_assert_uint_gt(torture(scenario), 1);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("zip_sink");
    tcase_add_checked_fixture(tc, start, finish);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, S5_16_S5_17_pieces_at_every_level, CODEC_NONE, CODECS);
    tcase_add_test(tc, levels_matter);
    tcase_add_loop_test(tc, the_ceiling_holds_to_the_byte, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, T55_memory_is_bounded, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, every_allocation_may_fail, CODEC_NONE, CODECS);
    return run_suite("zip_sink", tc);
}
