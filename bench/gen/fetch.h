#pragma once
/* fetch.h: the consuming side: each connection long-polls its share of the partitions, one request at a time. */

#include <stdbool.h>

#include "conf.h"
#include "tally.h"

enum fetch_mode {
    FETCH_ONCE,   /* from `start` to `end`, then done */
    FETCH_AGAIN,  /* the same, over and over (catch-up rate) */
    FETCH_FOLLOW, /* from `start` on, for as long as told (tail, end to end) */
};

struct fetch;

/* Bounds of what is read: conf.partitions places each, copied; NULL: zeros. FETCH_FOLLOW ignores `end`. */
struct fetch_span {
    const int64_t *start, *end;
};
/* Opens the connections. `tl` is borrowed and written to. */
struct fetch *fetch_new(const struct conf *cf, struct tally *tl, int ep, enum fetch_mode mode, struct fetch_span of);
void fetch_free(struct fetch *ft);

/* Sends the requests that can be sent: once per turn of the loop. */
void fetch_turn(struct fetch *ft);

/* No further requests; those in flight are answered. */
void fetch_stop(struct fetch *ft);

/* FETCH_ONCE: everything below `end` was read. Others, after fetch_stop: nothing is in flight. */
bool fetch_done(const struct fetch *ft);

/* Records read so far, over all partitions. */
uint64_t fetch_records(const struct fetch *ft);

/* The offset the next read of partition i starts at. */
int64_t fetch_position(const struct fetch *ft, unsigned i);
