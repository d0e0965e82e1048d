/* The memory budget of a shard, in pools. See admit.h.
 * Happy path: take, give. Over a pool's budget: waiters in order; a give wakes as many as now fit.
 * Runs on: the shard. */
#include "broker/admit.h"

#include "base/limits.h"
#include "base/must.h"

static void admit_pool_init(struct admit_pool *p, size_t max) {
    p->used = 0;
    p->max = max;
    p->giving = false;
    list_init(&p->waiting);
}

void admit_init(struct admit *a, size_t max, size_t reserve) {
    admit_pool_init(&a->big, max / 2);
    admit_pool_init(&a->small, reserve);
    admit_pool_init(&a->tiny, reserve);
    admit_pool_init(&a->replies, max / 2);
    admit_pool_init(&a->little, reserve / 2);
    a->parked = 0;
    a->parked_max = LIMIT_PARKED_BYTES;
}

static struct admit_pool *admit_pool_of(struct admit *a, size_t bytes) {
    return bytes <= LIMIT_FRAME_TINY_BYTES + ADMIT_RQ_BYTES ? &a->tiny : bytes <= LIMIT_FRAME_SMALL_BYTES ? &a->small : &a->big;
}

bool admit_is_tight_for(const struct admit *a, size_t bytes) { return !list_empty(&admit_pool_of((struct admit *)(uintptr_t)a, bytes)->waiting); }

bool admit_is_short(const struct admit *a) { return !list_empty(&a->big.waiting) || !list_empty(&a->small.waiting) || !list_empty(&a->tiny.waiting); }

bool admit_waits_for_replies(const struct admit *a) { return !list_empty(&a->replies.waiting) || !list_empty(&a->little.waiting); }

/* With nothing taken anything fits: one frame above the whole budget is let in alone. */
static bool admit_fits(const struct admit_pool *p, size_t bytes) { return p->used == 0 || (bytes <= p->max && p->used <= p->max - bytes); }

static bool admit_pool_take(struct admit_pool *p, struct admit_wait *w, size_t bytes, void (*ready)(struct admit_wait *w)) {
    if (list_empty(&p->waiting) && admit_fits(p, bytes)) {
        p->used += bytes;
        return true;
    }
    w->bytes = bytes;
    w->ready = ready;
    list_push_back(&p->waiting, &w->link);
    return false;
}

bool admit_take(struct admit *a, struct admit_wait *w, size_t bytes, void (*ready)(struct admit_wait *w)) {
    return admit_pool_take(admit_pool_of(a, bytes), w, bytes, ready);
}

bool admit_take_reply(struct admit *a, struct admit_wait *w, size_t bytes, void (*ready)(struct admit_wait *w)) {
    return admit_pool_take(&a->replies, w, bytes, ready);
}

bool admit_take_little(struct admit *a, struct admit_wait *w, size_t bytes, void (*ready)(struct admit_wait *w)) {
    return admit_pool_take(&a->little, w, bytes, ready);
}

bool admit_is_full_of_replies(const struct admit *a, size_t bytes) { return !list_empty(&a->replies.waiting) || !admit_fits(&a->replies, bytes); }

void admit_cancel(struct admit_wait *w) { list_remove(&w->link); }

static void admit_pool_give(struct admit_pool *p, size_t bytes) {
    must(p->used >= bytes);
    p->used -= bytes;
    if (p->giving) {
        return;                                    /* from inside a `ready`: the loop below goes on with what came back */
    }
    p->giving = true;
    while (!list_empty(&p->waiting)) {
        struct admit_wait *w = list_entry(p->waiting.next, struct admit_wait, link);
        if (!admit_fits(p, w->bytes)) {
            break;
        }
        list_remove(&w->link);
        p->used += w->bytes;
        w->ready(w);
    }
    p->giving = false;
}

void admit_give(struct admit *a, size_t bytes) { admit_pool_give(admit_pool_of(a, bytes), bytes); }

void admit_give_little(struct admit *a, size_t bytes) { admit_pool_give(&a->little, bytes); }

void admit_give_reply(struct admit *a, size_t bytes) { admit_pool_give(&a->replies, bytes); }

size_t admit_more(struct admit *a, size_t want) {
    struct admit_pool *p = &a->replies;
    size_t room = p->used < p->max && list_empty(&p->waiting) ? (p->max - p->used) / 2 : 0;
    size_t got = want < room ? want : room;
    p->used += got;
    return got;
}

void admit_over(struct admit *a, size_t bytes, bool little) { (little ? &a->little : &a->replies)->used += bytes; }

bool admit_park(struct admit *a, size_t bytes, size_t *ret_charge) {
    size_t charge = bytes > ADMIT_PARK_FREE_BYTES ? bytes - ADMIT_PARK_FREE_BYTES : 0;
    if (charge > 0 && a->parked > 0 && (charge > a->parked_max || a->parked > a->parked_max - charge)) {
        return false;
    }
    a->parked += charge;
    *ret_charge = charge;
    return true;
}

void admit_unpark(struct admit *a, size_t charge) {
    must(a->parked >= charge);
    a->parked -= charge;
}
