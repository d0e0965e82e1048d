/* Retention: every log of the shard is looked at once per log.retention.check.interval.ms (S18.3 to S18.6).
 *
 * Happy path: a round takes the logs in turn, LIMIT_RETAINS_PER_TURN a turn, so that no turn is longer for having many partitions; what a look must read from the disk (plog_retain.c) is under
 * way for LIMIT_RETAINS logs at once. Rounds are a tenth of the interval apart from each other at random, so that shards and brokers do not march in step; the first comes after half a minute
 * at most, as Kafka's does.
 * Topics that keep everything (cleanup.policy=compact alone) and the broker's own are left alone.
 * Failure modes: without memory a log waits for the next round. A jump of the wall clock deletes what is too old by the new time: timestamps are all that there is to go by (S18.3).
 * Runs on: owner shard. */
#include "base/limits.h"
#include "inside.h"
#include "store/store.h"

#define RETAIN_FIRST_MS 30000

struct retain_look {
    struct plog_retain q;
    struct shard *sh;
};

static ms retain_every(const struct shard *sh) {
    ms every = sh->node->conf.retention_every;
    return every - (ms)prng_below(sh->port->rng, (uint64_t)every / 10 + 1);
}

static void retain_looked(struct plog_retain *q) {
    struct retain_look *l = list_entry(q, struct retain_look, q);
    struct shard *sh = l->sh;
    if (sh->retains_n-- == LIMIT_RETAINS && sh->retains_left > 0) {
        shard_timer(sh, &sh->retain, sh->now);     /* not from here: it may be inside plog_retain */
        shard_again(sh);
    }
    mem_free(l);
}

static void retain_one(struct shard *sh) {
    struct plog *lg = store_next_log(sh->store);
    const struct part *pt = lg == NULL ? NULL : plog_user(lg);
    if (pt == NULL || pt->topic->internal || !pt->topic->conf.cleanup_delete) {
        return;
    }
    struct retain_look *l = mem_zalloc(MEM_WAIT, sizeof(*l));
    if (l == NULL) {
        return;
    }
    l->sh = sh;
    l->q = (struct plog_retain){
        .wall = shard_wall(sh),
        .age = pt->topic->conf.retention_age,
        .bytes = pt->topic->conf.retention_bytes,
        .below = pt->committed,
        .done = retain_looked,
    };
    sh->retains_n++;
    plog_retain(lg, &l->q);
}

static void retain_some(struct timer *t, ms now) {
    struct shard *sh = list_entry(t, struct shard, retain);
    if (sh->retains_left == 0) {
        sh->retains_left = sh->parts.n;
    }
    for (uint32_t i = 0; i < LIMIT_RETAINS_PER_TURN && sh->retains_left > 0 && sh->retains_n < LIMIT_RETAINS; i++) {
        sh->retains_left--;
        retain_one(sh);
    }
    if (sh->retains_left == 0) {
        shard_timer(sh, t, now + retain_every(sh));
    } else if (sh->retains_n < LIMIT_RETAINS) {
        shard_timer(sh, t, now);                   /* the others of this turn come first */
        shard_again(sh);
    }
}

void retain_shard_init(struct shard *sh) {
    timer_init(&sh->retain, retain_some);
    ms first = retain_every(sh);
    shard_timer(sh, &sh->retain, sh->wheel.now + (first < RETAIN_FIRST_MS ? first : RETAIN_FIRST_MS));
}
