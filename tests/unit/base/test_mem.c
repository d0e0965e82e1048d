/* Goal: every byte is counted by tag, budgeted, failable; a tracked heap drops whole; the hot path's proof works. Method: direct calls,
 * random operations against a twin that knows each block's size, two threads. */
#include "base/mem.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/must.h"
#include "base/prng.h"
#include "torture.h"

START_TEST(aligned_counted_and_given_back) {
    static const size_t sizes[] = {0, 1, 15, 16, 17, 255, 4096, 1 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t before = mem_live(MEM_TEST);
        uint8_t *p = mem_alloc(MEM_TEST, sizes[i]);
        uint8_t *z = mem_zalloc(MEM_TEST, sizes[i]);
        ck_assert_ptr_nonnull(p);
        ck_assert_ptr_nonnull(z);
        ck_assert_ptr_ne(p, z);
        ck_assert_uint_eq((uintptr_t)p % 16, 0);
        ck_assert_uint_eq((uintptr_t)z % 16, 0);
        ck_assert_uint_eq(mem_live(MEM_TEST), before + 2 * sizes[i]);
        memset(p, 0xff, sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++) {
            must(z[k] == 0);
        }
        mem_free(p);
        mem_free(z);
        ck_assert_uint_eq(mem_live(MEM_TEST), before);
    }
    mem_free(NULL);
}
END_TEST

START_TEST(realloc_keeps_bytes_and_moves_the_tag) {
    uint8_t *p = mem_realloc(MEM_TEST, NULL, 10);
    ck_assert_ptr_nonnull(p);
    memcpy(p, "0123456789", 10);
    p = mem_realloc(MEM_MISC, p, 100000);
    ck_assert_ptr_nonnull(p);
    ck_assert_mem_eq(p, "0123456789", 10);
    ck_assert_uint_eq(mem_live(MEM_TEST), 0);
    ck_assert_uint_eq(mem_live(MEM_MISC), 100000);
    p = mem_realloc(MEM_MISC, p, 4);
    ck_assert_mem_eq(p, "0123", 4);
    mem_fail_nth(1);
    ck_assert_ptr_null(mem_realloc(MEM_TEST, p, 50));
    ck_assert_mem_eq(p, "0123", 4);             /* the old block is untouched */
    ck_assert_uint_eq(mem_live(MEM_MISC), 4);
    mem_free(p);
    char *s = mem_strdup(MEM_TEST, "name");
    ck_assert_str_eq(s, "name");
    ck_assert_uint_eq(mem_live_all(), 5);
    mem_free(s);
}
END_TEST

START_TEST(absurd_sizes_are_refused) {
    ck_assert_ptr_null(mem_alloc(MEM_TEST, SIZE_MAX));
    ck_assert_ptr_null(mem_alloc(MEM_TEST, SIZE_MAX - 20));
    ck_assert_ptr_null(mem_zalloc(MEM_TEST, (size_t)1 << 60));
    void *p = mem_alloc(MEM_TEST, 1);
    ck_assert_ptr_null(mem_realloc(MEM_TEST, p, SIZE_MAX - 16));
    mem_free(p);
    ck_assert_uint_eq(mem_live_all(), 0);
}
END_TEST

START_TEST(fails_exactly_the_nth) {
    uint64_t before = mem_calls();
    mem_fail_nth(3);
    for (int i = 1; i <= 6; i++) {
        void *p = mem_alloc(MEM_TEST, 8);
        ck_assert((p == NULL) == (i == 3));
        mem_free(p);
    }
    ck_assert_uint_eq(mem_calls() - before, 6);
    mem_fail_nth(2);
    mem_fail_nth(0);
    void *p = mem_alloc(MEM_TEST, 8), *q = mem_alloc(MEM_TEST, 8);
    ck_assert(p && q);
    mem_free(p);
    mem_free(q);
}
END_TEST

static void check_budget(void) {
    mem_budget(1000);
    void *p = mem_alloc(MEM_TEST, 600);
    ck_assert_ptr_nonnull(p);
    ck_assert_ptr_null(mem_alloc(MEM_TEST, 401));
    ck_assert_ptr_null(mem_alloc(MEM_TEST, 2000));
    void *q = mem_alloc(MEM_MISC, 400);
    ck_assert_ptr_nonnull(q);
    ck_assert_ptr_null(mem_realloc(MEM_TEST, p, 601));
    p = mem_realloc(MEM_TEST, p, 599);
    ck_assert_ptr_nonnull(p);
    p = mem_realloc(MEM_TEST, p, 600);
    ck_assert_ptr_nonnull(p);
    mem_free(q);
    mem_budget(0);
    q = mem_alloc(MEM_TEST, 100000);
    ck_assert_ptr_nonnull(q);
    mem_free(q);
    mem_free(p);
}

START_TEST(budget_of_each_kind_of_heap) {
    check_budget();
    struct mem_heap *h = mem_heap_new();
    ck_assert_ptr_null(mem_use(h));
    check_budget();
    ck_assert_ptr_eq(mem_use(NULL), h);
    mem_heap_drop(h);
    mem_heap_drop(NULL);
}
END_TEST

/* A crash of a simulated broker: whatever is live goes at once. The leak check of the sanitizer build is the judge. */
START_TEST(tracked_heap_drops_whole) {
    enum { N = 200 };
    void *blocks[N] = {NULL};
    size_t sizes[N] = {0};
    struct prng r;
    prng_seed(&r, 8);
    void *outside = mem_alloc(MEM_TEST, 32);
    struct mem_heap *h = mem_heap_new();
    ck_assert_ptr_nonnull(h);
    mem_use(h);
    for (int i = 0; i < 5000; i++) {
        size_t k = prng_below(&r, N), n = prng_below(&r, 500);
        if (prng_chance(&r, 1, 3)) {
            mem_free(blocks[k]);
            blocks[k] = NULL;
            sizes[k] = 0;
        } else {
            uint8_t *p = mem_realloc(MEM_TEST, blocks[k], n);
            ck_assert_ptr_nonnull(p);
            for (size_t j = 0; j < sizes[k] && j < n; j++) {
                must(p[j] == (uint8_t)k);
            }
            memset(p, (int)k, n);
            blocks[k] = p;
            sizes[k] = n;
        }
    }
    mem_free(outside);                             /* a block goes back to its own heap, whatever the thread uses */
    ck_assert_uint_eq(mem_live_all(), 0);
    mem_use(NULL);
    mem_heap_drop(h);
}
END_TEST

static void *free_half(void *blocks) {
    for (int i = 0; i < 1000; i += 2) {
        mem_free(((void **)blocks)[i]);
    }
    return NULL;
}

START_TEST(blocks_are_freed_on_any_thread) {
    for (int tracked = 0; tracked < 2; tracked++) {
        void *blocks[1000];
        struct mem_heap *h = tracked ? mem_heap_new() : NULL;
        mem_use(h);
        for (int i = 0; i < 1000; i++) {
            blocks[i] = mem_alloc(MEM_TEST, 64);
        }
        pthread_t other;
        ck_assert_int_eq(pthread_create(&other, NULL, free_half, blocks), 0);
        for (int i = 1; i < 1000; i += 2) {
            mem_free(blocks[i]);
        }
        pthread_join(other, NULL);
        ck_assert_uint_eq(mem_live_all(), 0);
        mem_use(NULL);
        mem_heap_drop(h);
    }
}
END_TEST

START_TEST(permit_undoes_forbid) {
    mem_forbid();
    mem_forbid();
    mem_permit();
    mem_permit();
    void *p = mem_alloc(MEM_TEST, 1);
    ck_assert_ptr_nonnull(p);
    mem_forbid();
    mem_free(p);                                   /* giving back is allowed */
    mem_permit();
}
END_TEST

#ifdef PERIGEE_DEBUG
START_TEST(forbidden_allocation_aborts) {
    mem_forbid();
    mem_forbid();
    mem_permit();
    mem_free(mem_alloc(MEM_TEST, 1));
}
END_TEST
#endif

START_TEST(unpaired_permit_aborts) {
    mem_permit();
}
END_TEST

START_TEST(tags_have_names) {
    for (unsigned t = 0; t < MEM_TAG_COUNT; t++) {
        ck_assert_ptr_nonnull(mem_tag_name((enum mem_tag)t));
    }
    ck_assert_str_eq(mem_tag_name(MEM_CHUNK), "chunk");
    ck_assert_str_eq(mem_tag_name(MEM_TAG_COUNT), "unknown");
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("mem");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, aligned_counted_and_given_back);
    tcase_add_test(tc, realloc_keeps_bytes_and_moves_the_tag);
    tcase_add_test(tc, absurd_sizes_are_refused);
    tcase_add_test(tc, fails_exactly_the_nth);
    tcase_add_test(tc, budget_of_each_kind_of_heap);
    tcase_add_test(tc, tracked_heap_drops_whole);
    tcase_add_test(tc, blocks_are_freed_on_any_thread);
    tcase_add_test(tc, permit_undoes_forbid);
#ifdef PERIGEE_DEBUG
    tcase_add_test_raise_signal(tc, forbidden_allocation_aborts, SIGABRT);
#endif
    tcase_add_test_raise_signal(tc, unpaired_permit_aborts, SIGABRT);
    tcase_add_test(tc, tags_have_names);
    return run_suite("mem", tc);
}
