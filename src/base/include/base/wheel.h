/* Timers: hierarchical wheel, 1 ms resolution, O(1) set and cancel. Quiet: the shard asks what is due and when to ask again. */
#pragma once

#include "base/list.h"

struct timer {
    struct list link;
    ms due;
    void (*fire)(struct timer *t, ms now);
};

#define WHEEL_LEVELS 5
#define WHEEL_SLOTS 64

struct wheel {
    struct list slots[WHEEL_LEVELS][WHEEL_SLOTS];
    ms now;                 /* the instant the wheel has worked up to; behind the clock only after a run that hit n_max */
    size_t n;               /* timers set */
    struct list late;       /* due at or before now: first in the next run, in the order they were set */
    struct list far;        /* beyond the top level */
    uint64_t hint[WHEEL_LEVELS];   /* a bit for each slot that may be occupied */
};

void wheel_init(struct wheel *w, ms now);
static inline void timer_init(struct timer *t, void (*fire)(struct timer *t, ms now)) {
    *t = (struct timer){.fire = fire};
    list_init(&t->link);
}
static inline bool timer_is_set(const struct timer *t) { return !list_empty(&t->link); }
/* (Re)arm t for `due`; a due time not after w->now fires at the next wheel_run. */
void wheel_set(struct wheel *w, struct timer *t, ms due);
void wheel_cancel(struct wheel *w, struct timer *t);           /* no-op when not set */
/* Fire what is due at `now`, earliest first (equal times, and times already past when set: in the order they were set), at most n_max
 * timers (the rest stay due). Callbacks may set and cancel timers. Returns fired. */
size_t wheel_run(struct wheel *w, ms now, size_t n_max);
/* A lower bound of the next due instant, exact within its level; INT64_MAX when empty. */
ms wheel_next(const struct wheel *w);
