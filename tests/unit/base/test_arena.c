/* Goal: memory of one request: aligned, disjoint, bounded, given back whole, and none newly allocated in steady state. Method: random
 * sizes filled with a pattern, ceilings, torture. */
#include "base/arena.h"

#include <string.h>

#include "base/must.h"
#include "base/prng.h"
#include "torture.h"

START_TEST(blocks_are_aligned_and_disjoint) {
    enum { N = 3000 };
    static uint8_t *p[N];
    static size_t n[N];
    struct prng r;
    prng_seed(&r, 21);
    struct arena_pool pool;
    struct arena a;
    arena_pool_init(&pool, 1 << 20);
    arena_init(&a, &pool, SIZE_MAX);
    for (int i = 0; i < N; i++) {
        n[i] = prng_below(&r, prng_chance(&r, 1, 50) ? 60000 : 300);
        p[i] = arena_alloc(&a, n[i]);
        ck_assert_ptr_nonnull(p[i]);
        ck_assert_uint_eq((uintptr_t)p[i] % 8, 0);
        memset(p[i], i, n[i]);
    }
    for (int i = 0; i < N; i++) {
        for (size_t k = 0; k < n[i]; k++) {
            must(p[i][k] == (uint8_t)i);
        }
    }
    ck_assert_uint_ge(mem_live(MEM_ARENA), a.total);
    arena_done(&a);
    ck_assert_uint_le(mem_live(MEM_ARENA), pool.kept_bytes_max);
    ck_assert_uint_eq(mem_live(MEM_ARENA), pool.kept_bytes);
    arena_pool_done(&pool);
    ck_assert_uint_eq(mem_live_all(), 0);
}
END_TEST

START_TEST(steady_state_allocates_nothing) {
    struct arena_pool pool;
    arena_pool_init(&pool, 1 << 20);
    uint64_t before = 0;
    for (int round = 0; round < 10; round++) {
        struct arena a;
        arena_init(&a, &pool, 1 << 20);
        for (int i = 0; i < 1000; i++) {
            ck_assert_ptr_nonnull(arena_alloc(&a, 100));
        }
        arena_done(&a);
        if (round == 0) {
            before = mem_calls();
        }
    }
    ck_assert_uint_eq(mem_calls(), before);
    arena_pool_done(&pool);
}
END_TEST

START_TEST(small_request_takes_one_small_block) {
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    ck_assert_ptr_nonnull(arena_alloc(&a, 1000));
    ck_assert_ptr_nonnull(arena_alloc(&a, 900));
    ck_assert_uint_le(a.total, 2048);
    arena_done(&a);
}
END_TEST

START_TEST(refuses_above_its_ceiling) {
    static const size_t ceilings[] = {0, 8, 16, 24, 100, 2047, 2048, 5000, 100000};
    for (size_t i = 0; i < sizeof ceilings / sizeof *ceilings; i++) {
        struct arena a;
        arena_init(&a, NULL, ceilings[i]);
        size_t got = 0;
        while (arena_alloc(&a, 8)) {
            got += 8;
            ck_assert_uint_le(a.total, ceilings[i]);
        }
        ck_assert_uint_le(got, ceilings[i]);
        if (ceilings[i] >= 24) {
            ck_assert_uint_ge(got + 16, ceilings[i] / 2);      /* the ceiling is usable, not lost to block sizes */
        }
        ck_assert_ptr_null(arena_alloc(&a, SIZE_MAX));
        ck_assert_ptr_null(arena_alloc(&a, SIZE_MAX - 7));
        arena_done(&a);
        ck_assert_uint_eq(a.total, 0);
        ck_assert_uint_eq(mem_live_all(), 0);
    }
}
END_TEST

START_TEST(large_pieces_leave_the_block_in_use) {
    struct arena a;
    arena_init(&a, NULL, SIZE_MAX);
    uint8_t *before = arena_alloc(&a, 8);
    ck_assert_ptr_nonnull(arena_alloc(&a, 200000));
    ck_assert_ptr_eq(arena_alloc(&a, 8), before + 8);
    arena_done(&a);
}
END_TEST

START_TEST(copies_and_texts) {
    struct arena a;
    arena_init(&a, NULL, SIZE_MAX);
    span s = arena_copy(&a, SPAN_LIT("bytes"));
    ck_assert(span_eq_str(s, "bytes"));
    ck_assert(span_is_null(arena_copy(&a, SPAN_NULL)));
    span empty = arena_copy(&a, SPAN_LIT(""));
    ck_assert(!span_is_null(empty) && empty.n == 0);             /* S2.12: empty stays apart from null */
    ck_assert_str_eq(arena_str(&a, SPAN_LIT("text")), "text");
    ck_assert_str_eq(arena_str(&a, SPAN_NULL), "");
    ck_assert_str_eq(arena_printf(&a, "%s-%d", "topic", 7), "topic-7");
    ck_assert_uint_eq(strlen(arena_printf(&a, "%5000d", 1)), 5000);
    uint8_t *z = arena_zalloc(&a, 100);
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_eq(z[i], 0);
    }
    ck_assert_ptr_nonnull(arena_alloc(&a, 0));
    ck_assert_ptr_ne(arena_alloc(&a, 0), arena_alloc(&a, 0));
    ck_assert_ptr_null(arena_str(&a, span_of("x", SIZE_MAX)));
    arena_done(&a);
}
END_TEST

static void use_all_calls(void) {
    struct arena_pool pool;
    struct arena a;
    arena_pool_init(&pool, 4096);
    arena_init(&a, &pool, SIZE_MAX);
    static uint8_t big[50000];
    char *p = arena_printf(&a, "%d", 12345);
    ck_assert(!p || strcmp(p, "12345") == 0);
    span s = arena_copy(&a, span_of(big, sizeof big));
    ck_assert(span_is_null(s) || s.n == sizeof big);
    for (int i = 0; i < 100; i++) {
        uint8_t *z = arena_zalloc(&a, 1000);
        ck_assert(!z || z[999] == 0);
    }
    ck_assert_ptr_nonnull(arena_alloc(&a, 500));                  /* one failure does not spoil the arena */
    arena_done(&a);
    arena_pool_done(&pool);
}

START_TEST(failures_leave_the_arena_usable) {
    ck_assert_uint_gt(torture(use_all_calls), 5);
}
END_TEST

int main(void) {
    return RUN("arena", blocks_are_aligned_and_disjoint, steady_state_allocates_nothing, small_request_takes_one_small_block,
               refuses_above_its_ceiling, large_pieces_leave_the_block_in_use, copies_and_texts, failures_leave_the_arena_usable);
}
