/* Log-linear histogram: each power of two is cut into 16 equal buckets, so a bucket is at most 1/16 wide and its middle is off by
 * about 3 %. Values below 16 are exact; the largest u64 lands in bucket 975 of 1024.
 *
 * Happy path: hist_add is a bit scan and an increment.
 * Failure modes: counters stop at their largest value instead of wrapping.
 * Runs on: the thread that owns the struct; merged by message. */
#include "base/hist.h"

#define HIST_SUB_BITS 4
#define HIST_SUB (1u << HIST_SUB_BITS)

static unsigned bucket_of(uint64_t v) {
    if (v < HIST_SUB) {
        return (unsigned)v;
    }
    unsigned top = 63 - (unsigned)__builtin_clzll(v);
    unsigned sub = (unsigned)(v >> (top - HIST_SUB_BITS)) & (HIST_SUB - 1);
    return (top - HIST_SUB_BITS + 1) * HIST_SUB + sub;
}

static uint64_t middle_of(unsigned bucket) {
    if (bucket < HIST_SUB) {
        return bucket;
    }
    unsigned shift = bucket / HIST_SUB - 1;
    uint64_t low = (uint64_t)(HIST_SUB + bucket % HIST_SUB) << shift;
    return low + (((uint64_t)1 << shift) - 1) / 2;
}

static uint64_t add_u64(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static uint32_t add_u32(uint32_t a, uint32_t b) {
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

void hist_add(struct hist *h, uint64_t v) {
    unsigned at = bucket_of(v);
    h->b[at] = add_u32(h->b[at], 1);
    h->n = add_u64(h->n, 1);
    h->sum = add_u64(h->sum, v);
    if (v > h->max) {
        h->max = v;
    }
}

void hist_merge(struct hist *into, const struct hist *from) {
    for (size_t i = 0; i < HIST_BUCKETS; i++) {
        into->b[i] = add_u32(into->b[i], from->b[i]);
    }
    into->n = add_u64(into->n, from->n);
    into->sum = add_u64(into->sum, from->sum);
    if (from->max > into->max) {
        into->max = from->max;
    }
}

uint64_t hist_at(const struct hist *h, double q) {
    if (h->n == 0) {
        return 0;
    }
    double rank = q * (double)h->n;
    double seen = 0;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        seen += h->b[i];
        if (h->b[i] > 0 && seen >= rank) {
            uint64_t v = middle_of(i);
            return v < h->max ? v : h->max;
        }
    }
    return h->max;
}
