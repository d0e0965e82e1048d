#pragma once
/* produce.h: the producing side: connections with several requests in flight, closed or open loop. */

#include "../common/batch.h"
#include "conf.h"
#include "tally.h"

struct produce;

/* Opens the connections and encodes the templates. `tl` is borrowed and written to. */
struct produce *produce_new(const struct conf *cf, struct tally *tl, int ep);
void produce_free(struct produce *pr);

/* Starts issuing at `now_ns`. */
void produce_start(struct produce *pr, uint64_t now_ns);

/* Issues what is due and sends it: once per turn of the loop. */
void produce_turn(struct produce *pr);

/* Issues nothing more. */
void produce_stop(struct produce *pr);

/* Requests not yet answered. */
uint64_t produce_outstanding(const struct produce *pr);

/* Bytes of one batch. */
size_t produce_batch_size(const struct produce *pr);

/* Largest delay between a request's scheduled instant and its issue, ns: the generator's own lateness plus
 * the wait for a free place in flight. */
uint64_t produce_late_max(const struct produce *pr);

/* True once --total-mb are issued. */
bool produce_spent(const struct produce *pr);
