/* The heap of what happens next: (time, sequence). Events are embedded in their objects and scheduled without allocating, so that a
 * node's code may schedule one where allocation is forbidden: each init reserves a place in the heap. */
#pragma once

#include "base/types.h"

struct event_sim {
    void (*fire)(struct event_sim *e);
    size_t pos;                  /* place in the heap, from 1; 0 = not scheduled */
};

struct event_slot {
    int64_t at;                  /* microseconds of the world */
    uint64_t seq;                /* breaks ties: first scheduled, first fired */
    struct event_sim *e;
};

struct event_heap {
    struct event_slot *slots;    /* slots[1..n] */
    size_t n, cap, reserved;
    uint64_t seq;
};

void event_sim_heap_done(struct event_heap *h);                /* nothing may be reserved any more */
void event_sim_init(struct event_heap *h, struct event_sim *e, void (*fire)(struct event_sim *e));
void event_sim_done(struct event_heap *h, struct event_sim *e);                  /* cancels, gives the place back */
void event_sim_at(struct event_heap *h, struct event_sim *e, int64_t at);        /* schedules, or moves */
void event_sim_cancel(struct event_heap *h, struct event_sim *e);
static inline bool event_sim_is_set(const struct event_sim *e) { return e->pos != 0; }
int64_t event_sim_next(const struct event_heap *h);            /* when the next one is due; INT64_MAX when none is left */
struct event_sim *event_sim_pop(struct event_heap *h, int64_t *ret_at);          /* the next one, unscheduled; NULL when none is left */
