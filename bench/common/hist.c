/* hist.c: counting latencies without keeping them.
 *
 * Purpose: p50, p99, p99.9 and max over millions of samples in constant space.
 * Happy path: values below 128 have a bucket each; above, the top seven bits after the leading one choose it.
 * Failure modes: none; any 64-bit value has a bucket.
 * Runs on: any thread; nothing is shared. */
#include "hist.h"

#include <string.h>

static unsigned hist_index(uint64_t v) {
    if (v < (1u << HIST_SUB_BITS)) {
        return (unsigned)v;
    }
    unsigned top = 63u - (unsigned)__builtin_clzll(v);
    unsigned shift = top - HIST_SUB_BITS;
    return ((shift + 1) << HIST_SUB_BITS) + (unsigned)((v >> shift) & ((1u << HIST_SUB_BITS) - 1));
}

static uint64_t hist_upper(unsigned i) {
    unsigned group = i >> HIST_SUB_BITS;
    uint64_t sub = i & ((1u << HIST_SUB_BITS) - 1);
    if (group == 0) {
        return sub;
    }
    unsigned shift = group - 1;
    return (((1ull << HIST_SUB_BITS) + sub + 1) << shift) - 1;
}

void hist_clear(struct hist *h) {
    memset(h, 0, sizeof *h);
}

void hist_add(struct hist *h, uint64_t value) {
    h->bucket[hist_index(value)]++;
    h->count++;
    h->sum += value;
    h->max = value > h->max ? value : h->max;
}

void hist_merge(struct hist *h, const struct hist *from) {
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        h->bucket[i] += from->bucket[i];
    }
    h->count += from->count;
    h->sum += from->sum;
    h->max = from->max > h->max ? from->max : h->max;
}

uint64_t hist_quantile(const struct hist *h, double q) {
    uint64_t want = (uint64_t)((double)h->count * q), seen = 0;
    for (unsigned i = 0; i < HIST_BUCKETS; i++) {
        seen += h->bucket[i];
        if (seen > want) {
            uint64_t v = hist_upper(i);
            return v < h->max ? v : h->max;
        }
    }
    return h->max;
}
