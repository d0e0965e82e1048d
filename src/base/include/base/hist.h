/* Latency histogram: log-linear buckets, about 3 % error, fixed memory, no allocation. Values in microseconds (or any unit). */
#pragma once

#include "base/types.h"

#define HIST_BUCKETS 1024

struct hist {
    uint64_t n, sum, max;
    uint32_t b[HIST_BUCKETS];
};

void hist_add(struct hist *h, uint64_t v);
void hist_merge(struct hist *into, const struct hist *from);
uint64_t hist_at(const struct hist *h, double q);                  /* value at quantile q in [0,1]; 0 when empty */
