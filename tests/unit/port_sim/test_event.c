/* Goal: events fire in order of time and then of scheduling, whatever was moved or cancelled in between. Method: random operations against
 * an unsorted array. */
#include "event_sim.h"

#include "base/prng.h"
#include "run.h"

enum { N = 50 };

struct twin {
    struct event_sim ev;
    int64_t at;
    uint64_t seq;
    bool set;
};

static struct event_heap heap;
static struct twin twins[N];
static uint64_t seq;
static int64_t now;

static void never(struct event_sim *e) {
    (void)e;
}

static struct twin *first(void) {
    struct twin *best = NULL;
    for (int i = 0; i < N; i++) {
        struct twin *t = &twins[i];
        if (t->set && (!best || t->at < best->at || (t->at == best->at && t->seq < best->seq))) {
            best = t;
        }
    }
    return best;
}

static void pop(void) {
    struct twin *want = first();
    int64_t at = -1;
    struct event_sim *e = event_sim_pop(&heap, &at);
    ck_assert_ptr_eq(e, want ? &want->ev : NULL);
    if (want) {
        ck_assert_int_eq(at, want->at);
        ck_assert(!event_sim_is_set(e));
        want->set = false;
        now = at;
    }
}

START_TEST(order_is_time_then_scheduling) {
    struct prng r;
    prng_seed(&r, 1);
    for (int i = 0; i < N; i++) {
        event_sim_init(&heap, &twins[i].ev, never);
    }
    for (int k = 0; k < 200000; k++) {
        struct twin *t = &twins[prng_below(&r, N)];
        switch (prng_below(&r, 4)) {
        case 0:
        case 1:
            t->at = now + (int64_t)prng_below(&r, 20);
            t->seq = ++seq;
            t->set = true;
            event_sim_at(&heap, &t->ev, t->at);
            break;
        case 2:
            t->set = false;
            event_sim_cancel(&heap, &t->ev);
            break;
        default:
            pop();
            break;
        }
    }
    for (int i = 0; i < N; i++) {
        event_sim_done(&heap, &twins[i].ev);
    }
    event_sim_heap_done(&heap);
}
END_TEST

int main(void) {
    return run("event_sim", TESTS(order_is_time_then_scheduling), NULL);
}
