/* Goal: about 3 % error at any quantile over the whole u64 range, merging equals adding. Method: sorted samples as the twin. */
#include "base/hist.h"

#include <string.h>

#include "base/prng.h"
#include "run.h"

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

START_TEST(one_value_comes_back) {
    struct prng r;
    prng_seed(&r, 2);
    for (unsigned i = 0; i < 6400; i++) {
        uint64_t v = prng_next(&r) >> (i % 64);
        struct hist h = {0};
        hist_add(&h, v);
        hist_add(&h, UINT64_MAX);                /* so that the median is not clamped by max */
        uint64_t got = hist_at(&h, 0.5);
        uint64_t off = got > v ? got - v : v - got;
        ck_assert_msg(off <= v / 32 + (v >= 16), "%lu came back as %lu", v, got);
        ck_assert(v >= 16 || got == v);
    }
}
END_TEST

START_TEST(quantiles_of_many) {
    enum { N = 5001 };
    static uint64_t all[N];
    struct prng r;
    prng_seed(&r, 4);
    struct hist whole = {0}, parts[2] = {{0}, {0}};
    uint64_t sum = 0;
    for (unsigned i = 0; i < N; i++) {
        all[i] = prng_next(&r) >> (30 + prng_below(&r, 30));
        sum += all[i];
        hist_add(&whole, all[i]);
        hist_add(&parts[i % 2], all[i]);
    }
    qsort(all, N, sizeof *all, by_value);
    static const double qs[] = {0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999};
    for (size_t i = 0; i < sizeof qs / sizeof *qs; i++) {
        double rank = qs[i] * N;
        size_t at = rank > 0 ? (size_t)rank + (rank > (double)(size_t)rank) - 1 : 0;
        double want = (double)all[at], got = (double)hist_at(&whole, qs[i]);
        ck_assert_msg(got <= want * 1.033 + 1 && got >= want * 0.967 - 1, "q %g: %g, not %g", qs[i], got, want);
    }
    ck_assert_uint_le(hist_at(&whole, 1), whole.max);
    ck_assert_uint_eq(whole.max, all[N - 1]);
    ck_assert_uint_eq(whole.sum, sum);
    hist_merge(&parts[0], &parts[1]);
    ck_assert_mem_eq(&parts[0], &whole, sizeof whole);
}
END_TEST

START_TEST(edges) {
    struct hist h = {0};
    ck_assert_uint_eq(hist_at(&h, 0.5), 0);
    hist_add(&h, 0);
    ck_assert_uint_eq(hist_at(&h, 0), 0);
    ck_assert_uint_eq(hist_at(&h, 1), 0);
    hist_add(&h, 1000);
    ck_assert_uint_le(hist_at(&h, 1), 1000);     /* never above the largest value seen */
    h.b[0] = UINT32_MAX;                         /* counters stop, they do not wrap */
    h.n = h.sum = UINT64_MAX;
    hist_add(&h, 0);
    hist_add(&h, 5);
    ck_assert_uint_eq(h.b[0], UINT32_MAX);
    ck_assert_uint_eq(h.n, UINT64_MAX);
    ck_assert_uint_eq(h.sum, UINT64_MAX);
}
END_TEST

int main(void) {
    return RUN("hist", one_value_comes_back, quantiles_of_many, edges);
}
