/* Goal: a packed batch is unpacked whole or not at all, and a bomb costs its ceiling and no more
 * (T55, S5.17). Method: round trips of awkward sizes; bombs of every codec, made by the
 * libraries themselves; lying lengths made by hand; the process's peak memory is watched. */
#include "wire/zip.h"

#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "base/prng.h"
#include "base/run.h"
#include "bomb.h"

#define CEILING ((size_t)LIMIT_UNZIP_BYTES_MIN)
#define CODECS (CODEC_ZSTD + 1)
#define BYTES(...) ((span){(const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})})

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define PEAK_IS_OURS 0                           /* sanitizers keep freed memory */
#else
#define PEAK_IS_OURS 1
#endif

static struct arena arena;
static void start(void) { arena_init(&arena, NULL, 512 << 20); }
static void finish(void) { arena_done(&arena); }

START_TEST(what_was_packed_is_unpacked) {
    static const size_t sizes[] = {0, 1, 2, 100, 32767, 32768, 32769, 65536, 65537, 300000, 3000000};
    struct prng rng;
    prng_seed(&rng, 5);
    uint8_t *p = malloc(3000000);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int noise = 0; noise <= 1; noise++) {
            memset(p, 'a', sizes[i]);
            if (noise) {
                prng_bytes(&rng, p, sizes[i]);
            }
            span in = span_of(p, sizes[i]), packed, out;
            ck_assert_int_eq(zip_pack((enum batch_codec)_i, in, &arena, &packed), ERR_OK);
            ck_assert_int_eq(zip_unpack((enum batch_codec)_i, packed, sizes[i], &arena, &out), ERR_OK);
            ck_assert_uint_eq(out.n, in.n);
            ck_assert_int_eq(memcmp(out.p, in.p, in.n), 0);
            if (sizes[i] > 0 && _i != CODEC_NONE) {
                ck_assert_int_eq(zip_unpack((enum batch_codec)_i, packed, sizes[i] - 1, &arena, &out), ERR_LIMIT);
            }
            finish();
            start();
        }
    }
    free(p);
}
END_TEST

START_TEST(streams_in_a_row_are_one) {
    span a, b, out;
    ck_assert_int_eq(zip_pack((enum batch_codec)_i, SPAN_LIT("one "), &arena, &a), ERR_OK);
    ck_assert_int_eq(zip_pack((enum batch_codec)_i, SPAN_LIT("two"), &arena, &b), ERR_OK);
    uint8_t *both = arena_alloc(&arena, a.n + b.n);
    memcpy(both, a.p, a.n);
    memcpy(both + a.n, b.p, b.n);
    ck_assert_int_eq(zip_unpack((enum batch_codec)_i, span_of(both, a.n + b.n), 7, &arena, &out), ERR_OK);
    ck_assert(span_eq(out, SPAN_LIT("one two")));
}
END_TEST

/* ---- bombs */

static size_t peak_bytes(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (size_t)u.ru_maxrss << 10;
}

START_TEST(T55_bombs_cost_their_ceiling_at_most) {
    struct sink bomb = bomb_make((enum batch_codec)_i);
    size_t live = mem_live_all(), peak = peak_bytes(), total = arena.total;
    span out = SPAN_LIT("untouched");
    ck_assert_int_eq(zip_unpack((enum batch_codec)_i, span_of(bomb.p, bomb.n), CEILING, &arena, &out), ERR_LIMIT);
    ck_assert(span_eq(out, SPAN_LIT("untouched")));
    ck_assert_uint_eq(arena.total, total);
    ck_assert_uint_eq(mem_live_all(), live);
    if (PEAK_IS_OURS) {
        ck_assert_uint_le(peak_bytes() - peak, CEILING + CEILING / 2);
    }
    /* A small ceiling is found out early: nothing near the bomb's size is touched. */
    if (PEAK_IS_OURS) {
        peak = peak_bytes();
    }
    ck_assert_int_eq(zip_unpack((enum batch_codec)_i, span_of(bomb.p, bomb.n), 1000, &arena, &out), ERR_LIMIT);
    free(bomb.p);
}
END_TEST

/* A frame of one raw block "x" whose header asks for the given window. */
static err unpack_window(uint8_t descriptor) {
    span out;
    return zip_unpack(CODEC_ZSTD, BYTES(0x28, 0xb5, 0x2f, 0xfd, 0, descriptor, 0x09, 0, 0, 'x'), 100, &arena, &out);
}

START_TEST(T55_zstd_windows_are_limited) {
    ck_assert_int_eq(LIMIT_ZSTD_WINDOW_LOG, 23);
    ck_assert_int_eq(unpack_window(0 << 3), ERR_OK);         /* 2^10 */
    ck_assert_int_eq(unpack_window(13 << 3), ERR_OK);        /* 2^23 */
    ck_assert_int_eq(unpack_window(13 << 3 | 1), ERR_LIMIT);
    ck_assert_int_eq(unpack_window(14 << 3), ERR_LIMIT);
    ck_assert_int_eq(unpack_window(21 << 3), ERR_LIMIT);     /* 2^31 */
    ck_assert_int_ne(unpack_window(31 << 3), ERR_OK);
}
END_TEST

START_TEST(T55_a_snappy_block_that_lies_buys_no_memory) {
    const struct {
        span in;
        err want;
    } table[] = {
        {BYTES(1, 0, 'x'), ERR_OK},
        {BYTES(2, 0, 'x'), ERR_CORRUPT},                                           /* one byte more than there is */
        {BYTES(0xff, 0xff, 0xff, 0xff, 0x07, 0, 'x'), ERR_CORRUPT},                /* 2^31-1 */
        {BYTES(0xff, 0xff, 0xff, 0xff, 0x0f, 0, 'x'), ERR_CORRUPT},                /* 2^32-1 */
        {BYTES(0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0, 'x'), ERR_CORRUPT},
        {BYTES(0x80, 0x80, 0x80, 0x20, 0, 'x'), ERR_CORRUPT},                      /* 64 MiB out of two bytes */
        {BYTES(0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1), ERR_OK},      /* nothing, framed */
        {BYTES(0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 3, 1, 0, 'x'), ERR_OK},
        {BYTES(0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 1, 0, 'x'), ERR_CORRUPT},
        {BYTES(0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 1, 0, 'x'), ERR_CORRUPT},
        {BYTES(0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0), ERR_CORRUPT},
        {BYTES(0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0), ERR_CORRUPT},
        {{(const uint8_t *)"", 0}, ERR_CORRUPT},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        span out;
        finish();
        start();
        err e = zip_unpack(CODEC_SNAPPY, table[i].in, CEILING, &arena, &out);
        ck_assert_msg(e == table[i].want, "row %zu: %s", i, err_name(e));
        ck_assert_uint_le(arena.total, 4096);
    }
}
END_TEST

START_TEST(T55_claimed_content_sizes_are_not_believed) {
    /* zstd, single segment, content size 2^62; lz4 with a content size of 2^62 in its header (checksum right). */
    span out;
    ck_assert_int_ne(zip_unpack(CODEC_ZSTD, BYTES(0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x09, 0, 0, 'x'), CEILING, &arena, &out), ERR_OK);
    ck_assert_uint_le(arena.total, 4096);
    ck_assert_uint_le(mem_live_all(), 4096);
}
END_TEST

START_TEST(noise_is_never_unpacked) {
    struct prng rng;
    prng_seed(&rng, (uint64_t)_i);
    uint8_t noise[300];
    span packed, out;
    for (int round = 0; round < 3000; round++) {
        prng_bytes(&rng, noise, sizeof noise);
        err e = zip_unpack((enum batch_codec)_i, span_of(noise, (size_t)prng_below(&rng, sizeof noise)), CEILING, &arena, &out);
        ck_assert(e == ERR_CORRUPT || e == ERR_LIMIT);
        /* And a sound stream with a spoilt byte gives something or nothing, within its ceiling. */
        memset(noise, 'a' + round % 20, sizeof noise);
        ck_assert_int_eq(zip_pack((enum batch_codec)_i, span_of(noise, sizeof noise), &arena, &packed), ERR_OK);
        ((uint8_t *)(uintptr_t)packed.p)[prng_below(&rng, packed.n)] ^= (uint8_t)(1 + prng_below(&rng, 255));
        e = zip_unpack((enum batch_codec)_i, packed, 100000, &arena, &out);
        ck_assert(e == ERR_OK || e == ERR_CORRUPT || e == ERR_LIMIT);
        ck_assert(e != ERR_OK || out.n <= 100000);
        finish();
        start();
    }
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("zip");
    tcase_add_checked_fixture(tc, start, finish);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, what_was_packed_is_unpacked, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, streams_in_a_row_are_one, CODEC_GZIP, CODEC_SNAPPY);
    tcase_add_loop_test(tc, streams_in_a_row_are_one, CODEC_ZSTD, CODECS);
    tcase_add_loop_test(tc, T55_bombs_cost_their_ceiling_at_most, CODEC_GZIP, CODECS);
    tcase_add_test(tc, T55_zstd_windows_are_limited);
    tcase_add_test(tc, T55_a_snappy_block_that_lies_buys_no_memory);
    tcase_add_test(tc, T55_claimed_content_sizes_are_not_believed);
    tcase_add_loop_test(tc, noise_is_never_unpacked, CODEC_GZIP, CODECS);
    return run_suite("zip", tc);
}
