/* Goal: admission bounds memory and never stops everyone (D12, BR-060, T66): large frames, small frames and replies do not wait for each
 * other; first come first served; what is above a whole pool is let in alone; no order of taking and giving leaves somebody who fits waiting.
 * Method: small stories, then a random crowd against the budget. */
#include "broker/admit.h"

#include <check.h>

#include "base/limits.h"
#include "base/prng.h"
#include "base/run.h"

#define MAX ((size_t)2 << 20)          /* 1 MiB of large frames, 1 MiB of replies */
#define RESERVE ((size_t)256 << 10)
#define BIG ((size_t)600 << 10)
#define SMALL ((size_t)60 << 10)
#define TINY ((size_t)LIMIT_FRAME_TINY_BYTES + ADMIT_RQ_BYTES)

static struct admit a;
static int ready_n;
static struct admit_wait *last;

static void on_ready(struct admit_wait *w) {
    ready_n++;
    last = w;
}

static void begin(void) {
    admit_init(&a, MAX, RESERVE);
    ready_n = 0;
    last = NULL;
}

static struct admit_wait waiter(void) {
    struct admit_wait w = {0};
    return w;
}

#define WAITER(w)                                                                                   \
    struct admit_wait w = waiter();                                                                 \
    list_init(&w.link)

START_TEST(first_come_first_served) {
    begin();
    WAITER(x);
    WAITER(y);
    WAITER(z);
    ck_assert(admit_take(&a, &x, BIG, on_ready));
    ck_assert(!admit_take(&a, &y, BIG, on_ready));
    ck_assert(!admit_take(&a, &z, (size_t)100 << 10, on_ready));       /* it would fit, but y came first */
    ck_assert(admit_is_tight_for(&a, BIG));
    admit_give(&a, BIG);
    ck_assert_int_eq(ready_n, 2);
    ck_assert_ptr_eq(last, &z);
    admit_give(&a, BIG);
    admit_give(&a, (size_t)100 << 10);
    ck_assert(!admit_is_tight_for(&a, BIG));
    ck_assert_uint_eq(a.big.used, 0);
}
END_TEST

START_TEST(small_frames_go_on_while_large_ones_hold_everything) {
    begin();
    WAITER(x);
    WAITER(y);
    WAITER(s);
    ck_assert(admit_take(&a, &x, MAX / 2, on_ready));
    ck_assert(!admit_take(&a, &y, BIG, on_ready));
    for (size_t used = 0; used + SMALL <= RESERVE; used += SMALL) {
        ck_assert(admit_take(&a, &s, SMALL, on_ready));
    }
    ck_assert(!admit_take(&a, &s, SMALL, on_ready));                   /* the reserve is bounded too */
    admit_give(&a, SMALL);
    ck_assert_int_eq(ready_n, 1);
}
END_TEST

START_TEST(T56_tiny_frames_and_little_replies_wait_for_nobody_who_holds_more) {
    begin();
    WAITER(x);
    WAITER(y);
    WAITER(s);
    for (size_t used = 0; used + SMALL <= RESERVE; used += SMALL) {
        ck_assert(admit_take(&a, &x, SMALL, on_ready));
    }
    ck_assert(!admit_take(&a, &x, SMALL, on_ready));
    ck_assert(admit_take(&a, &s, TINY, on_ready));
    ck_assert(!admit_is_tight_for(&a, TINY));
    ck_assert(admit_is_tight_for(&a, SMALL));
    ck_assert(admit_take_reply(&a, &y, MAX / 2, on_ready));
    ck_assert(admit_is_full_of_replies(&a, 1));
    ck_assert(!admit_take_reply(&a, &y, 1, on_ready));
    ck_assert(admit_take_little(&a, &s, RESERVE / 2, on_ready));
    WAITER(z);
    ck_assert(!admit_take_little(&a, &z, 1, on_ready));                /* bounded, too */
    ck_assert(admit_waits_for_replies(&a));
    admit_give_little(&a, RESERVE / 2);
    ck_assert_ptr_eq(last, &z);
    ck_assert_uint_eq(a.little.used, 1);
}
END_TEST

START_TEST(BR_060_replies_have_a_pool_of_their_own) {
    begin();
    WAITER(x);
    WAITER(r);
    ck_assert(admit_take(&a, &x, MAX / 2, on_ready));
    ck_assert(admit_take_reply(&a, &r, MAX / 2, on_ready));            /* frames that wait behind a reply cannot hold it up */
    WAITER(r2);
    ck_assert(!admit_take_reply(&a, &r2, 1, on_ready));
    ck_assert_uint_eq(admit_more(&a, 1), 0);                           /* nobody overtakes */
    admit_give_reply(&a, MAX / 2);
    ck_assert_int_eq(ready_n, 1);
    ck_assert_uint_eq(admit_more(&a, 1000), 1000);
    ck_assert_uint_eq(admit_more(&a, MAX), (MAX / 2 - 1001) / 2);      /* half of what is free: the next one finds some too */
}
END_TEST

START_TEST(what_is_larger_than_the_pool_is_let_in_alone) {
    begin();
    WAITER(x);
    WAITER(huge);
    WAITER(s);
    ck_assert(admit_take(&a, &x, BIG, on_ready));
    ck_assert(!admit_take(&a, &huge, 100 * MAX, on_ready));
    ck_assert(admit_take(&a, &s, SMALL, on_ready));
    admit_give(&a, BIG);
    ck_assert_ptr_eq(last, &huge);                                     /* small ones do not hold it up */
    WAITER(y);
    ck_assert(!admit_take(&a, &y, BIG, on_ready));
    admit_give(&a, 100 * MAX);
    ck_assert_ptr_eq(last, &y);
    admit_give(&a, BIG);
    WAITER(r);
    ck_assert(admit_take_reply(&a, &r, 100 * MAX, on_ready));
    admit_give_reply(&a, 100 * MAX);
}
END_TEST

START_TEST(a_cancelled_waiter_is_not_called_and_charges_nothing) {
    begin();
    WAITER(x);
    WAITER(y);
    WAITER(z);
    ck_assert(admit_take(&a, &x, BIG, on_ready));
    ck_assert(!admit_take(&a, &y, BIG, on_ready));
    ck_assert(!admit_take(&a, &z, BIG, on_ready));
    admit_cancel(&y);
    admit_cancel(&y);
    admit_give(&a, BIG);
    ck_assert_int_eq(ready_n, 1);
    ck_assert_ptr_eq(last, &z);
    ck_assert_uint_eq(a.big.used, BIG);
}
END_TEST

/* ---- a crowd ---- */

#define CROWD 200

struct guest {
    struct admit_wait w;
    size_t bytes;
    bool in, waits, reply;
};
static struct guest crowd[CROWD];
static uint64_t served;

static void on_in(struct admit_wait *w) {
    struct guest *g = list_entry(w, struct guest, w);
    ck_assert(g->waits && !g->in);
    g->waits = false;
    g->in = true;
    served++;
}

static void leave(struct guest *g) {
    g->in = false;
    if (g->reply) {
        admit_give_reply(&a, g->bytes);
    } else {
        admit_give(&a, g->bytes);
    }
}

static void check_bounds(void) {
    size_t big = 0, small = 0, tiny = 0, replies = 0, alone = 0;
    for (int i = 0; i < CROWD; i++) {
        struct guest *g = &crowd[i];
        if (g->in) {
            *(g->reply ? &replies : g->bytes <= TINY ? &tiny : g->bytes <= LIMIT_FRAME_SMALL_BYTES ? &small : &big) += g->bytes;
            alone += g->bytes > MAX / 2;
        }
    }
    ck_assert_uint_eq(big, a.big.used);
    ck_assert_uint_eq(small, a.small.used);
    ck_assert_uint_eq(tiny, a.tiny.used);
    ck_assert_uint_eq(replies, a.replies.used);
    ck_assert(small <= RESERVE);
    ck_assert(tiny <= RESERVE);
    ck_assert(alone > 0 || (big <= MAX / 2 && replies <= MAX / 2));
}

START_TEST(a_crowd_stays_within_the_budget_and_everyone_gets_in) {
    begin();
    struct prng rng;
    prng_seed(&rng, (uint64_t)_i + 1);
    for (int step = 0; step < 20000; step++) {
        struct guest *g = &crowd[prng_below(&rng, CROWD)];
        if (g->in) {
            leave(g);
        } else if (g->waits && prng_chance(&rng, 1, 10)) {
            admit_cancel(&g->w);
            g->waits = false;
        } else if (!g->waits) {
            list_init(&g->w.link);
            g->bytes = 1 + prng_below(&rng, prng_chance(&rng, 1, 50) ? 3 * MAX : prng_chance(&rng, 1, 2) ? MAX / 4 : prng_chance(&rng, 1, 2) ? LIMIT_FRAME_SMALL_BYTES : TINY);
            g->reply = prng_chance(&rng, 1, 3);
            g->in = g->reply ? admit_take_reply(&a, &g->w, g->bytes, on_in) : admit_take(&a, &g->w, g->bytes, on_in);
            g->waits = !g->in;
            served += g->in;
        }
        check_bounds();
    }
    ck_assert_uint_gt(served, 1000);
    for (bool any = true; any;) {                                      /* everyone leaves: nobody is left waiting */
        any = false;
        for (int i = 0; i < CROWD; i++) {
            if (crowd[i].in) {
                leave(&crowd[i]);
                any = true;
            }
        }
    }
    for (int i = 0; i < CROWD; i++) {
        ck_assert(!crowd[i].waits);
    }
    ck_assert_uint_eq(a.big.used + a.small.used + a.tiny.used + a.replies.used, 0);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("admit");
    tcase_add_test(tc, first_come_first_served);
    tcase_add_test(tc, small_frames_go_on_while_large_ones_hold_everything);
    tcase_add_test(tc, T56_tiny_frames_and_little_replies_wait_for_nobody_who_holds_more);
    tcase_add_test(tc, BR_060_replies_have_a_pool_of_their_own);
    tcase_add_test(tc, what_is_larger_than_the_pool_is_let_in_alone);
    tcase_add_test(tc, a_cancelled_waiter_is_not_called_and_charges_nothing);
    tcase_add_loop_test(tc, a_crowd_stays_within_the_budget_and_everyone_gets_in, 0, 5);
    return run_suite("admit", tc);
}
