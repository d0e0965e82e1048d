/* The memory budget of a shard, in two pools. See admit.h.
 * Happy path: take, give. Over a pool's budget: waiters in order; a give wakes as many as now fit.
 * Runs on: the shard. */
#include "broker/admit.h"

#include "base/limits.h"
#include "base/must.h"

static void admit_pool_init(struct admit_pool *p, size_t max) {
    p->used = 0;
    p->max = max;
    list_init(&p->waiting);
}

void admit_init(struct admit *a, size_t max, size_t reserve) {
    admit_pool_init(&a->big, max);
    admit_pool_init(&a->small, reserve);
}

bool admit_is_small(size_t bytes) { return bytes <= LIMIT_FRAME_SMALL_BYTES; }

bool admit_is_tight(const struct admit *a) { return !list_empty(&a->big.waiting); }

static struct admit_pool *admit_pool_of(struct admit *a, bool small) { return small ? &a->small : &a->big; }

/* With nothing taken anything fits: one frame above the whole budget is let in alone. */
static bool admit_fits(const struct admit_pool *p, size_t bytes) { return p->used == 0 || (bytes <= p->max && p->used <= p->max - bytes); }

bool admit_take(struct admit *a, struct admit_wait *w, size_t bytes, void (*ready)(struct admit_wait *w)) {
    struct admit_pool *p = admit_pool_of(a, admit_is_small(bytes));
    if (list_empty(&p->waiting) && admit_fits(p, bytes)) {
        p->used += bytes;
        return true;
    }
    w->bytes = bytes;
    w->ready = ready;
    list_push_back(&p->waiting, &w->link);
    return false;
}

void admit_cancel(struct admit_wait *w) { list_remove(&w->link); }

void admit_give(struct admit *a, size_t bytes, bool small) {
    struct admit_pool *p = admit_pool_of(a, small);
    must(p->used >= bytes);
    p->used -= bytes;
    while (!list_empty(&p->waiting)) {
        struct admit_wait *w = list_entry(p->waiting.next, struct admit_wait, link);
        if (!admit_fits(p, w->bytes)) {
            return;
        }
        list_remove(&w->link);
        p->used += w->bytes;
        w->ready(w);
    }
}

size_t admit_upto(struct admit *a, size_t want, size_t least) {
    size_t room = a->big.used < a->big.max ? a->big.max - a->big.used : 0;
    size_t got = want < room ? want : room;
    got = got < least ? least : got;
    a->big.used += got;
    return got;
}
