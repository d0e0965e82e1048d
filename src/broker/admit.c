/* The memory budget of a shard. See admit.h.
 * Happy path: take, give. Over the budget: waiters in order; a give wakes as many as now fit.
 * Runs on: the shard. */
#include "broker/admit.h"

#include "base/limits.h"
#include "base/must.h"

void admit_init(struct admit *a, size_t max, size_t reserve) {
    a->used = 0;
    a->max = max;
    a->reserve = reserve;
    list_init(&a->waiting);
}

static bool admit_fits(const struct admit *a, size_t bytes) {
    if (a->used == 0) {
        return true;                               /* one frame above the whole budget is let in alone */
    }
    size_t max = bytes <= LIMIT_FRAME_SMALL_BYTES ? a->max + a->reserve : a->max;
    return bytes <= max && a->used <= max - bytes;
}

bool admit_take(struct admit *a, struct admit_wait *w, size_t bytes, void (*ready)(struct admit_wait *w)) {
    bool small = bytes <= LIMIT_FRAME_SMALL_BYTES;
    if ((small || list_empty(&a->waiting)) && admit_fits(a, bytes)) {
        a->used += bytes;
        return true;
    }
    w->bytes = bytes;
    w->ready = ready;
    list_push_back(&a->waiting, &w->link);
    return false;
}

void admit_cancel(struct admit_wait *w) { list_remove(&w->link); }

void admit_give(struct admit *a, size_t bytes) {
    must(a->used >= bytes);
    a->used -= bytes;
    while (!list_empty(&a->waiting)) {
        struct admit_wait *w = list_entry(a->waiting.next, struct admit_wait, link);
        if (!admit_fits(a, w->bytes)) {
            return;
        }
        list_remove(&w->link);
        a->used += w->bytes;
        w->ready(w);
    }
}

size_t admit_upto(struct admit *a, size_t want, size_t least) {
    size_t room = a->used < a->max ? a->max - a->used : 0;
    size_t got = want < room ? want : room;
    got = got < least ? least : got;
    a->used += got;
    return got;
}
