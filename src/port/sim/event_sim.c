/* A binary heap of embedded events, ordered by time and then by the order of scheduling.
 *
 * Happy path: event_sim_at puts an event in or moves it; event_sim_pop takes the earliest. Each event knows its place, so moving and
 * cancelling cost a few swaps and nothing is ever left behind in the heap when an object dies.
 * Failure modes: none; the place is reserved when the event is made (event_sim_init), the only function that allocates.
 * Runs on: the world's thread. */
#include "event_sim.h"

#include "base/must.h"
#include "world_mem.h"

static bool before(const struct event_slot *a, const struct event_slot *b) {
    return a->at < b->at || (a->at == b->at && a->seq < b->seq);
}

static void place(struct event_heap *h, size_t pos, struct event_slot s) {
    h->slots[pos] = s;
    s.e->pos = pos;
}

static void rise(struct event_heap *h, size_t pos) {
    struct event_slot s = h->slots[pos];
    while (pos > 1 && before(&s, &h->slots[pos / 2])) {
        place(h, pos, h->slots[pos / 2]);
        pos /= 2;
    }
    place(h, pos, s);
}

static void sink(struct event_heap *h, size_t pos) {
    struct event_slot s = h->slots[pos];
    for (;;) {
        size_t child = pos * 2;
        if (child > h->n) {
            break;
        }
        if (child < h->n && before(&h->slots[child + 1], &h->slots[child])) {
            child++;
        }
        if (!before(&h->slots[child], &s)) {
            break;
        }
        place(h, pos, h->slots[child]);
        pos = child;
    }
    place(h, pos, s);
}

void event_sim_heap_done(struct event_heap *h) {
    must(h->reserved == 0);
    mem_free(h->slots);
    *h = (struct event_heap){.slots = NULL};
}

void event_sim_init(struct event_heap *h, struct event_sim *e, void (*fire)(struct event_sim *e)) {
    *e = (struct event_sim){.fire = fire};
    h->reserved++;
    if (h->reserved + 1 > h->cap) {
        h->cap = h->cap ? h->cap * 2 : 64;
        h->slots = world_mem_grow(h->slots, h->cap * sizeof *h->slots);
    }
}

void event_sim_done(struct event_heap *h, struct event_sim *e) {
    event_sim_cancel(h, e);
    must(h->reserved > 0);
    h->reserved--;
}

void event_sim_at(struct event_heap *h, struct event_sim *e, int64_t at) {
    size_t pos = e->pos;
    if (pos == 0) {
        pos = ++h->n;
        must(h->n <= h->reserved);
    }
    place(h, pos, (struct event_slot){at, ++h->seq, e});
    rise(h, pos);
    sink(h, e->pos);
}

void event_sim_cancel(struct event_heap *h, struct event_sim *e) {
    size_t pos = e->pos;
    if (pos == 0) {
        return;
    }
    e->pos = 0;
    struct event_slot last = h->slots[h->n--];
    if (last.e != e) {
        place(h, pos, last);
        rise(h, pos);
        sink(h, last.e->pos);
    }
}

int64_t event_sim_next(const struct event_heap *h) {
    return h->n > 0 ? h->slots[1].at : INT64_MAX;
}

struct event_sim *event_sim_pop(struct event_heap *h, int64_t *ret_at) {
    if (h->n == 0) {
        return NULL;
    }
    struct event_sim *e = h->slots[1].e;
    *ret_at = h->slots[1].at;
    event_sim_cancel(h, e);
    return e;
}
