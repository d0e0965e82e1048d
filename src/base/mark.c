/* Counters of rare lines, for tests: a fixed open-addressed table of atomic slots, filled and never emptied of names.
 *
 * Happy path: the name's hash finds its slot; a new name claims a free slot by one compare-and-swap.
 * Failure modes: names are literals, so their number is bounded by the source; a full table is a must.
 * Runs on: any thread. This table and the log's defaults are the room's only process-wide state that changes. */
#include "base/mark.h"

#include <stdatomic.h>
#include <string.h>

#include "base/must.h"

#define MARK_SLOTS 4096

struct slot {
    _Atomic(const char *) name;      /* set once */
    _Atomic uint64_t n;
};

static struct slot slots[MARK_SLOTS];

static size_t hash(const char *name) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++) {
        h = (h ^ (uint8_t)*name) * 0x100000001b3u;
    }
    return (size_t)(h ^ h >> 32);
}

/* The slot of a name; NULL when it has none and claim is false. */
static struct slot *slot_of(const char *name, bool claim) {
    size_t at = hash(name);
    for (size_t i = 0; i < MARK_SLOTS; i++) {
        struct slot *s = &slots[(at + i) % MARK_SLOTS];
        const char *has = atomic_load_explicit(&s->name, memory_order_acquire);
        if (!has && !claim) {
            return NULL;
        }
        if (!has && atomic_compare_exchange_strong(&s->name, &has, name)) {
            return s;
        }
        if (strcmp(has, name) == 0) {
            return s;
        }
    }
    must(!claim);
    return NULL;
}

void mark_hit(const char *name) {
    atomic_fetch_add_explicit(&slot_of(name, true)->n, 1, memory_order_relaxed);
}

uint64_t mark_count(const char *name) {
    struct slot *s = slot_of(name, false);
    return s ? atomic_load_explicit(&s->n, memory_order_relaxed) : 0;
}

void mark_reset(void) {
    for (size_t i = 0; i < MARK_SLOTS; i++) {
        atomic_store_explicit(&slots[i].n, 0, memory_order_relaxed);
    }
}

/* The slot whose name comes next after `last` in order of name; quadratic over few names, for reports only. */
static struct slot *next_by_name(const char *last) {
    struct slot *best = NULL;
    for (size_t i = 0; i < MARK_SLOTS; i++) {
        const char *name = atomic_load_explicit(&slots[i].name, memory_order_acquire);
        if (name && (!last || strcmp(name, last) > 0) && (!best || strcmp(name, best->name) < 0)) {
            best = &slots[i];
        }
    }
    return best;
}

void mark_each(void (*on)(void *u, const char *name, uint64_t n), void *u) {
    const char *last = NULL;
    for (struct slot *s; (s = next_by_name(last));) {
        last = s->name;
        on(u, last, atomic_load_explicit(&s->n, memory_order_relaxed));
    }
}
