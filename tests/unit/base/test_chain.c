/* Goal: what went in comes out in order, whatever mix of ink, copies and loans, in any cut; references are given back; a failed
 * allocation makes the chain bad, never wrong. Method: random building against a flat twin, all skips, torture. */
#include "base/chain.h"

#include <string.h>

#include "base/prng.h"
#include "torture.h"

enum { TWIN_CAP = 1 << 18 };
static uint8_t twin[TWIN_CAP], flat[TWIN_CAP];

static void check_same(const struct chain *c, size_t n, struct prng *r) {
    ck_assert(chain_ok(c));
    ck_assert_uint_eq(c->bytes, n);
    chain_flatten(c, flat);
    ck_assert(n == 0 || memcmp(flat, twin, n) == 0);
    size_t walked = 0;
    for (const struct chain_node *it = c->head; it; it = it->next) {
        ck_assert_uint_gt(it->n, 0);
        walked++;
    }
    ck_assert_uint_eq(walked, c->nodes);
    size_t at = 0;                                /* sent in pieces of a few iovecs, each cut short at a random byte */
    while (at < n) {
        struct iovec iov[3];
        size_t used = chain_iov(c, at, iov, 1 + prng_below(r, 3));
        ck_assert_uint_gt(used, 0);
        size_t offered = 0;
        for (size_t i = 0; i < used; i++) {
            ck_assert_uint_gt(iov[i].iov_len, 0);
            ck_assert_mem_eq(iov[i].iov_base, twin + at + offered, iov[i].iov_len);
            offered += iov[i].iov_len;
        }
        at += 1 + prng_below(r, offered);
    }
    struct iovec none;
    ck_assert_uint_eq(chain_iov(c, n, &none, 1), 0);
    ck_assert_uint_eq(chain_iov(c, 0, &none, 0), 0);
}

static size_t add_some(struct chain *c, uint8_t *to, struct chunk *chunk, struct prng *r) {
    size_t n = prng_below(r, prng_chance(r, 1, 10) ? 3000 : 60);
    size_t at = prng_below(r, chunk->cap - n);
    span s = span_of(chunk->data + at, n);
    switch (prng_below(r, 4)) {
    case 0: {
        uint8_t *ink = chain_ink(c, n);
        ck_assert_ptr_nonnull(ink);
        memcpy(ink, s.p, n);
        break;
    }
    case 1: chain_copy(c, s); break;
    case 2: chain_lend(c, s, chunk); break;
    default: chain_lend(c, s, NULL); break;
    }
    memcpy(to, s.p, n);
    return n;
}

START_TEST(chain_model) {
    struct prng r;
    prng_seed(&r, (uint64_t)_i);
    struct arena a;
    arena_init(&a, NULL, SIZE_MAX);
    struct chunk_pool *pool = chunk_pool_new(0);
    struct chunk *chunk = chunk_new(pool, 60000);
    prng_bytes(&r, chunk->data, chunk->cap);
    struct chain c, other;
    chain_init(&c, &a);
    chain_init(&other, &a);
    size_t n = 0;
    for (int step = 0; step < 60; step++) {
        if (prng_chance(&r, 1, 5)) {
            for (uint64_t k = prng_below(&r, 4); k > 0; k--) {
                n += add_some(&other, twin + n, chunk, &r);
            }
            chain_join(&c, &other);
            ck_assert_uint_eq(other.bytes + other.nodes, 0);
        } else {
            n += add_some(&c, twin + n, chunk, &r);
        }
        check_same(&c, n, &r);
    }
    chain_done(&c);
    ck_assert_uint_eq(c.bytes + c.nodes, 0);
    check_same(&c, 0, &r);
    ck_assert_uint_eq(chunk->refs, 1);
    chunk_unref(chunk);
    chunk_pool_free(pool);
    arena_done(&a);
    ck_assert_uint_eq(mem_live_all(), 0);
}
END_TEST

START_TEST(small_fields_share_a_node) {
    struct arena a;
    struct chain c;
    arena_init(&a, NULL, SIZE_MAX);
    chain_init(&c, &a);
    for (int i = 0; i < 100; i++) {
        ck_assert_ptr_nonnull(chain_ink(&c, 4));
    }
    ck_assert_uint_eq(c.nodes, 1);
    chain_lend(&c, SPAN_LIT("lent"), NULL);
    ck_assert_ptr_nonnull(chain_ink(&c, 4));
    ck_assert_ptr_nonnull(chain_ink(&c, 0));
    chain_lend(&c, SPAN_LIT(""), NULL);
    chain_copy(&c, SPAN_NULL);
    ck_assert_uint_eq(c.nodes, 3);
    ck_assert_uint_eq(c.bytes, 408);
    chain_done(&c);
    arena_done(&a);
}
END_TEST

static void build(void) {
    static const uint8_t big[5000];
    struct arena a;
    struct chain c, other;
    arena_init(&a, NULL, SIZE_MAX);
    chain_init(&c, &a);
    chain_init(&other, &a);
    struct chunk_pool *pool = chunk_pool_new(0);
    struct chunk *chunk = pool ? chunk_new(pool, 100) : NULL;
    if (chunk) {
        for (int i = 0; i < 200; i++) {
            chain_copy(&c, SPAN_LIT("0123456789"));
            chain_lend(&other, span_of(chunk->data, 100), chunk);
            chain_copy(&other, span_of(big, i % 50 == 0 ? sizeof big : 1));
            chain_join(&c, &other);
        }
        size_t all = 200 * (10 + 100 + 1) + 4 * (sizeof big - 1);
        ck_assert(chain_ok(&c) ? c.bytes == all : c.bytes < all);
        ck_assert(chain_ok(&c) || chain_ink(&c, 1) == NULL);
    }
    chain_done(&c);
    chunk_unref(chunk);
    chunk_pool_free(pool);
    arena_done(&a);
}

START_TEST(bad_after_a_failure_and_references_come_back) {
    ck_assert_uint_gt(torture(build), 5);
}
END_TEST

START_TEST(bad_at_the_arenas_ceiling) {
    struct arena a;
    struct chain c;
    arena_init(&a, NULL, 4096);
    chain_init(&c, &a);
    for (int i = 0; i < 1000; i++) {
        chain_copy(&c, SPAN_LIT("0123456789"));
    }
    ck_assert(!chain_ok(&c));
    ck_assert_uint_lt(c.bytes, 4096);
    chain_done(&c);
    ck_assert(chain_ok(&c));
    arena_done(&a);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("chain");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, chain_model, 0, 20);
    tcase_add_test(tc, small_fields_share_a_node);
    tcase_add_test(tc, bad_after_a_failure_and_references_come_back);
    tcase_add_test(tc, bad_at_the_arenas_ceiling);
    return run_suite("chain", tc);
}
