/* Goal: chunks fit their request without much waste, come home from any thread, are reused, keep their pool alive, and what is kept is
 * bounded. Method: every size around every class edge; two threads that pass chunks (run it under -fsanitize=thread); torture. */
#include "base/chunk.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/prng.h"
#include "torture.h"

#define MIB ((size_t)1 << 20)

START_TEST(fits_aligned_without_much_waste) {
    struct chunk_pool *p = chunk_pool_new(0);
    size_t last_cap = 0;
    for (size_t base = 128; base <= 16 * MIB; base += base / 8) {
        for (size_t n = base - 1; n <= base + 1; n++) {
            struct chunk *c = chunk_new(p, n);
            ck_assert_ptr_nonnull(c);
            ck_assert_uint_ge(c->cap, n);
            ck_assert_uint_ge(c->cap, last_cap);
            ck_assert_uint_eq((uintptr_t)c->data % 16, 0);
            ck_assert_uint_eq(chunk_pool_out_bytes(p), c->cap);
            if (n > 4 * MIB) {
                ck_assert_uint_eq(c->cap, n);
            } else if (n > 65536) {
                ck_assert_uint_le(c->cap, n + n / 4);
            } else if (n >= 256) {
                ck_assert_uint_lt(c->cap, 2 * n);
            } else {
                ck_assert_uint_eq(c->cap, 256);
            }
            last_cap = n > 4 * MIB ? 0 : c->cap;
            c->data[0] = c->data[c->cap - 1] = 1;
            chunk_unref(c);
        }
    }
    ck_assert_uint_eq(chunk_pool_out_bytes(p), 0);
    struct chunk *frame = chunk_new(p, MIB + MIB / 20);       /* a 1 MiB batch in its frame */
    ck_assert_uint_eq(frame->cap, MIB + MIB / 4);
    chunk_unref(frame);
    ck_assert_ptr_null(chunk_new(p, SIZE_MAX));
    ck_assert_ptr_null(chunk_new(p, SIZE_MAX - 40));
    struct chunk *none = chunk_new(p, 0);
    ck_assert_ptr_nonnull(none);
    chunk_unref(none);
    chunk_pool_free(p);
    chunk_pool_free(NULL);
    chunk_unref(NULL);
    ck_assert_uint_eq(mem_live(MEM_CHUNK), 0);
}
END_TEST

START_TEST(every_class_edge_is_exact) {
    struct chunk_pool *p = chunk_pool_new(0);
    size_t n = 1;
    unsigned classes = 0;
    while (n <= 4 * MIB) {
        struct chunk *low = chunk_new(p, n);
        size_t cap = low->cap;
        struct chunk *high = chunk_new(p, cap);
        ck_assert_uint_eq(high->cap, cap);
        ck_assert_uint_eq(high->class_, low->class_);
        ck_assert_uint_eq(low->class_, classes);
        chunk_unref(low);
        chunk_unref(high);
        n = cap + 1;
        classes++;
    }
    ck_assert_uint_eq(classes, 9 + 6 * 4);
    ck_assert_uint_eq(n, 4 * MIB + 1);
    chunk_pool_free(p);
}
END_TEST

START_TEST(reused_without_allocating) {
    struct chunk_pool *p = chunk_pool_new(8 * MIB);
    chunk_unref(chunk_new(p, 70000));
    uint64_t before = mem_calls();
    for (int i = 0; i < 100; i++) {
        struct chunk *c = chunk_new(p, 66000 + (size_t)i);
        chunk_unref(chunk_ref(c));
        ck_assert_uint_eq(c->refs, 1);
        chunk_unref(c);
    }
    ck_assert_uint_eq(mem_calls(), before);
    chunk_pool_trim(p);
    ck_assert_uint_lt(mem_live(MEM_CHUNK), 4096);             /* the pool itself */
    chunk_pool_free(p);
    ck_assert_uint_eq(mem_live(MEM_CHUNK), 0);
}
END_TEST

START_TEST(kept_bytes_are_bounded_and_follow_the_traffic) {
    struct chunk_pool *p = chunk_pool_new(MIB);
    struct chunk *out[64];
    for (int i = 0; i < 64; i++) {
        out[i] = chunk_new(p, 60000);
    }
    for (int i = 0; i < 64; i++) {
        chunk_unref(out[i]);
    }
    ck_assert_uint_le(mem_live(MEM_CHUNK), MIB + 8192);
    /* The bound is full of 64 KiB chunks; traffic of another size must still come to be served from the pool. */
    for (int i = 0; i < 3; i++) {
        chunk_unref(chunk_new(p, MIB / 2));
    }
    uint64_t before = mem_calls();
    chunk_unref(chunk_new(p, MIB / 2));
    ck_assert_uint_eq(mem_calls(), before);
    ck_assert_uint_le(mem_live(MEM_CHUNK), MIB + 8192);
    chunk_unref(chunk_new(p, 3 * MIB));                       /* larger than all that may be kept */
    ck_assert_uint_le(mem_live(MEM_CHUNK), MIB + 8192);
    chunk_pool_free(p);
}
END_TEST

START_TEST(pool_dies_with_its_last_chunk) {
    struct chunk_pool *p = chunk_pool_new(MIB);
    struct chunk *a = chunk_new(p, 100), *b = chunk_new(p, 10 * MIB);
    chunk_ref(a);
    chunk_pool_free(p);
    memset(b->data, 1, b->cap);
    chunk_unref(b);
    chunk_unref(a);
    memset(a->data, 1, a->cap);
    ck_assert_uint_gt(mem_live(MEM_CHUNK), 0);
    chunk_unref(a);
    ck_assert_uint_eq(mem_live(MEM_CHUNK), 0);
}
END_TEST

/* The home thread makes chunks and passes them on by a slot each; the other reads them and lets go last or first, by chance. */
enum { PASSES = 20000, SLOTS = 16 };
static _Atomic(struct chunk *) slots[SLOTS];
static _Atomic bool stop;

static void take(size_t i) {
    struct chunk *c = atomic_exchange(&slots[i], NULL);
    if (c) {
        ck_assert_uint_eq(c->data[0], c->data[c->cap - 1]);
        chunk_unref(c);
    }
}

static void *release_all(void *u) {
    (void)u;
    while (!atomic_load(&stop)) {
        for (size_t i = 0; i < SLOTS; i++) {
            take(i);
        }
    }
    return NULL;
}

START_TEST(released_on_a_foreign_thread) {
    pthread_t others[2];
    struct prng r;
    prng_seed(&r, 31);
    struct chunk_pool *p = chunk_pool_new(256 << 10);
    atomic_store(&stop, false);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&others[i], NULL, release_all, NULL), 0);
    }
    for (int i = 0; i < PASSES; i++) {
        struct chunk *c = chunk_new(p, prng_below(&r, 100000));
        ck_assert_ptr_nonnull(c);
        c->data[0] = c->data[c->cap - 1] = (uint8_t)i;
        struct chunk *seen = chunk_ref(c);
        chunk_unref(atomic_exchange(&slots[prng_below(&r, SLOTS)], c));
        ck_assert_uint_eq(seen->data[0], (uint8_t)i);
        chunk_unref(seen);
    }
    struct chunk *last = chunk_new(p, 1000);                  /* its release below, or a slot's, is what frees the pool */
    chunk_pool_free(p);
    atomic_store(&stop, true);
    chunk_unref(last);
    for (int i = 0; i < 2; i++) {
        pthread_join(others[i], NULL);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        take(i);
    }
    ck_assert_uint_eq(mem_live(MEM_CHUNK), 0);
}
END_TEST

START_TEST(dropped_with_a_simulated_broker) {
    struct mem_heap *h = mem_heap_new();
    mem_use(h);
    struct chunk_pool *p = chunk_pool_new(MIB);
    ck_assert_ptr_nonnull(chunk_new(p, 5000));
    chunk_unref(chunk_new(p, 5000));
    mem_use(NULL);
    mem_heap_drop(h);                                         /* the leak check of the sanitizer build is the judge */
}
END_TEST

static void make_and_drop(void) {
    struct chunk_pool *p = chunk_pool_new(MIB);
    if (!p) {
        return;
    }
    struct chunk *a = chunk_new(p, 1000), *b = chunk_new(p, 10 * MIB);
    ck_assert(a || b);
    chunk_unref(a);
    ck_assert(a == NULL || chunk_pool_out_bytes(p) == (b ? b->cap : 0));
    chunk_unref(b);
    chunk_pool_free(p);
}

START_TEST(without_memory) {
    ck_assert_uint_ge(torture(make_and_drop), 4);
}
END_TEST

START_TEST(one_release_too_many_aborts) {
    struct chunk_pool *p = chunk_pool_new(MIB);
    struct chunk *c = chunk_new(p, 100);
    chunk_unref(c);
    chunk_unref(c);                                           /* c is in the pool, still mapped */
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("chunk");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, fits_aligned_without_much_waste);
    tcase_add_test(tc, every_class_edge_is_exact);
    tcase_add_test(tc, reused_without_allocating);
    tcase_add_test(tc, kept_bytes_are_bounded_and_follow_the_traffic);
    tcase_add_test(tc, pool_dies_with_its_last_chunk);
    tcase_add_test(tc, released_on_a_foreign_thread);
    tcase_add_test(tc, dropped_with_a_simulated_broker);
    tcase_add_test(tc, without_memory);
    tcase_add_test_raise_signal(tc, one_release_too_many_aborts, SIGABRT);
    return run_suite("chunk", tc);
}
