#pragma once
/* hist.h: a log-bucket histogram: relative error below 1 %, fixed size, recording is two instructions. */

#include <stdint.h>

enum {
    HIST_SUB_BITS = 7, /* 128 steps per power of two */
    HIST_BUCKETS = (64 - HIST_SUB_BITS + 1) << HIST_SUB_BITS,
};

struct hist {
    uint64_t count, max, sum;
    uint64_t bucket[HIST_BUCKETS];
};

void hist_clear(struct hist *h);
void hist_add(struct hist *h, uint64_t value); /* any unit; the benches use nanoseconds */
void hist_merge(struct hist *h, const struct hist *from);
uint64_t hist_quantile(const struct hist *h, double q); /* upper edge of the bucket; 0 when empty */
