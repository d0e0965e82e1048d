#pragma once
/* tally.h: what was sent, acknowledged and read back, per partition and over the measured window. */

#include <stdint.h>

#include "../common/hist.h"
#include "conf.h"

/* One partition. CRC sums are over each batch's CRC-32C, modulo 2^64. */
struct tally_part {
    uint64_t sent_records, sent_crc;
    uint64_t acked_records, acked_crc;
    uint64_t read_records, read_crc;
    int64_t start; /* end offset before the load: what follows is ours */
};

struct tally {
    struct tally_part *parts;          /* conf.partitions of them */
    uint64_t window_from, window_to;   /* measured interval, ns; to is UINT64_MAX until known */
    uint64_t requests, records, bytes; /* acknowledged (acks=0: sent) inside the window */
    uint64_t read_records, read_bytes; /* fetched inside the window */
    uint64_t fetches;
    uint64_t errors;                   /* error codes in produce replies, any time */
    uint64_t bad_crc, gaps, unstamped; /* in what was read, any time */
    struct hist ack;                   /* ns from schedule to reply */
    struct hist e2e;                   /* ns from schedule to the consumer having it */
    struct hist interval;              /* like ack (or e2e when consuming), since the last progress line */
};

static inline int tally_in_window(const struct tally *t, uint64_t ns) {
    return ns >= t->window_from && ns < t->window_to;
}
