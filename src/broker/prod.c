/* The idempotent producers of a shard: the windows of its parts (state/prodwin.h) under one ceiling, on one clock.
 *
 * Happy path: append.c checks, reserves, notes; marks.c takes back what a failed append never wrote, and replays at boot. Time is the monotonic clock: a jump of the wall clock expires nobody
 * (S6.9, T21). Failure modes: at LIMIT_PRODUCERS_PER_SHARD a new producer takes the place of the one of its part that was silent longest, as at LIMIT_PRODUCERS_PER_PARTITION.
 * Runs on: owner shard; boot. */
#include "base/limits.h"
#include "inside.h"

static void prod_count(struct part *pt, size_t before) { pt->sh->producers += prodwin_entries(pt->win) - before; }

err prod_reserve(struct part *pt, const struct batch_head *h) {
    size_t before = prodwin_entries(pt->win);
    size_t ceiling = pt->sh->producers < LIMIT_PRODUCERS_PER_SHARD || before == 0 ? LIMIT_PRODUCERS_PER_PARTITION : before;
    err e = prodwin_reserve_within(&pt->win, h, prng_next(pt->sh->port->rng), ceiling);
    prod_count(pt, before);
    return e;
}

void prod_note(struct part *pt, const struct batch_head *h) { prodwin_note(pt->win, h, clock_now(pt->sh->port->clock)); }

void prod_undo(struct part *pt, off64 from) {
    size_t before = prodwin_entries(pt->win);
    prodwin_undo(pt->win, from);
    prod_count(pt, before);
}

err prod_load(struct part *pt, span file) {
    size_t before = prodwin_entries(pt->win);
    err e = prodwin_load(&pt->win, file, prng_next(pt->sh->port->rng));
    prod_count(pt, before);
    return e;
}

void prod_free(struct part *pt) {
    pt->sh->producers -= prodwin_entries(pt->win);
    prodwin_free(pt->win);
    pt->win = NULL;
}

static void prod_expire(struct timer *t, ms now) {
    struct shard *sh = list_entry(t, struct shard, expiry);
    for (struct map_node *nd = map_next(&sh->parts, NULL); nd != NULL; nd = map_next(&sh->parts, nd)) {
        struct part *pt = list_entry(nd, struct part, node);
        size_t before = prodwin_entries(pt->win);
        prodwin_expire(pt->win, now, sh->live.producer_expiry);
        prod_count(pt, before);
    }
    shard_timer(sh, t, now + PROD_EXPIRY_EVERY_MS);
}

void prod_shard_init(struct shard *sh) {
    timer_init(&sh->expiry, prod_expire);
    shard_timer(sh, &sh->expiry, sh->wheel.now + PROD_EXPIRY_EVERY_MS);
}
