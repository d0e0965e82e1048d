/* Hierarchical timing wheel: 5 levels of 64 slots, 1 ms at the bottom, 2^30 ms (12 days) across.
 *
 * A timer sits at the level of the highest base-64 digit in which its due time differs from the wheel's now, in the slot of that digit.
 * Hence a slot of level L holds only times that share all higher digits with now, and lies ahead of now's own digit; when now reaches
 * a slot's first instant its timers move down (at most 4 times in a timer's life) or, at level 0, fire. Beyond the top lies `far`,
 * looked through once per turn of the top level. Times not after now go to `late`.
 *
 * Happy path: set and cancel are a few list operations. The run jumps from occupied slot to occupied slot, never millisecond by
 * millisecond; `hint` has a bit for each slot that may be occupied (cancel leaves it set: it does not know the slot).
 * Order: late ones first, in the order they were set; then by due time; equal times in the order they were set.
 * Failure modes: none. A run cut short by n_max leaves now at the instant it reached and the rest at the head of `late`.
 * Runs on: the thread that owns the wheel. */
#include "base/wheel.h"

#include "base/must.h"

#define DIGIT_BITS 6
#define SPAN_BITS (WHEEL_LEVELS * DIGIT_BITS)
static_assert(WHEEL_SLOTS == 1 << DIGIT_BITS, "a slot per digit");
static_assert(WHEEL_SLOTS == 64, "a hint bit per slot");

static unsigned digit(ms at, unsigned level) {
    return (unsigned)((uint64_t)at >> (level * DIGIT_BITS)) & (WHEEL_SLOTS - 1);
}

/* Highest base-64 digit in which a and b differ; WHEEL_LEVELS or more: outside the wheel. */
static unsigned level_of(ms a, ms b) {
    uint64_t differ = (uint64_t)a ^ (uint64_t)b;
    return differ ? (63 - (unsigned)__builtin_clzll(differ)) / DIGIT_BITS : 0;
}

void wheel_init(struct wheel *w, ms now) {
    *w = (struct wheel){.now = now};
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        for (unsigned i = 0; i < WHEEL_SLOTS; i++) {
            list_init(&w->slots[level][i]);
        }
    }
    list_init(&w->late);
    list_init(&w->far);
}

/* Put a timer that is not before now into its slot. */
static void place(struct wheel *w, struct timer *t) {
    unsigned level = level_of(t->due, w->now);
    if (level >= WHEEL_LEVELS) {
        list_push_back(&w->far, &t->link);
        return;
    }
    unsigned at = digit(t->due, level);
    list_push_back(&w->slots[level][at], &t->link);
    w->hint[level] |= (uint64_t)1 << at;
}

void wheel_set(struct wheel *w, struct timer *t, ms due) {
    wheel_cancel(w, t);
    t->due = due;
    w->n++;
    if (due <= w->now) {
        list_push_back(&w->late, &t->link);
    } else {
        place(w, t);
    }
}

void wheel_cancel(struct wheel *w, struct timer *t) {
    if (timer_is_set(t)) {
        list_remove(&t->link);
        w->n--;
    }
}

/* First instant after now at which a slot must be opened; INT64_MAX when no slot is occupied. Lower levels always come first. */
static ms next_slot(const struct wheel *w) {
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        unsigned shift = level * DIGIT_BITS;
        unsigned here = digit(w->now, level);
        uint64_t ahead = here == WHEEL_SLOTS - 1 ? 0 : w->hint[level] & (UINT64_MAX << (here + 1));
        for (; ahead; ahead &= ahead - 1) {
            unsigned at = (unsigned)__builtin_ctzll(ahead);
            if (!list_empty(&w->slots[level][at])) {
                uint64_t above = (uint64_t)w->now >> (shift + DIGIT_BITS) << (shift + DIGIT_BITS);
                return (ms)(above | (uint64_t)at << shift);
            }
        }
    }
    if (!list_empty(&w->far)) {
        return (ms)((((uint64_t)w->now >> SPAN_BITS) + 1) << SPAN_BITS);
    }
    return INT64_MAX;
}

ms wheel_next(const struct wheel *w) {
    return list_empty(&w->late) ? next_slot(w) : w->now;
}

/* Take all of a list and place its timers anew, seen from the present now. */
static void spread(struct wheel *w, struct list *from) {
    struct list all;
    list_init(&all);
    list_splice_back(&all, from);
    for (struct list *it; (it = list_pop_front(&all));) {
        place(w, list_entry(it, struct timer, link));
    }
}

/* Move now to `at`, not beyond next_slot(), and hand down the slot that begins there. */
static void advance(struct wheel *w, ms at) {
    unsigned level = level_of(at, w->now);
    w->now = at;
    if (level >= WHEEL_LEVELS) {
        spread(w, &w->far);
        return;
    }
    unsigned slot = digit(at, level);
    if (level > 0) {
        w->hint[level] &= ~((uint64_t)1 << slot);
        spread(w, &w->slots[level][slot]);
    }
}

/* Fire timers of a batch in order, at most n_max; returns how many. */
static size_t fire(struct wheel *w, struct list *batch, ms now, size_t n_max) {
    size_t fired = 0;
    while (fired < n_max) {
        struct list *it = list_pop_front(batch);
        if (!it) {
            break;
        }
        struct timer *t = list_entry(it, struct timer, link);
        w->n--;
        fired++;
        t->fire(t, now);
    }
    return fired;
}

/* The timers due at w->now, off their slot. */
static void due_now(struct wheel *w, struct list *ret_batch) {
    unsigned slot = digit(w->now, 0);
    w->hint[0] &= ~((uint64_t)1 << slot);
    list_splice_back(ret_batch, &w->slots[0][slot]);
}

size_t wheel_run(struct wheel *w, ms now, size_t n_max) {
    size_t fired = 0;
    struct list batch;
    list_init(&batch);
    list_splice_back(&batch, &w->late);
    for (;;) {
        fired += fire(w, &batch, now, n_max - fired);
        if (!list_empty(&batch)) {
            list_splice_back(&batch, &w->late);     /* the rest stays due, before whatever became late meanwhile */
            list_splice_back(&w->late, &batch);
            return fired;
        }
        if (w->now >= now) {
            return fired;
        }
        ms next = next_slot(w);
        advance(w, next < now ? next : now);
        due_now(w, &batch);
    }
}
