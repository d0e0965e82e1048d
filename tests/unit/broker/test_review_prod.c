/* Goal: the producers that a shard remembers have a ceiling over all its partitions (T30, D12): above it a new one takes the place of the one
 * of its partition that was silent longest; none whose batches are not stable is forgotten (S6.2).
 * Method: parts without logs on a shard without a node, at the ceiling from the start. */
#include <check.h>

#include "base/limits.h"
#include "base/run.h"
#include "inside.h"

static ms now;
static ms tell_now(struct clock *c) {
    (void)c;
    return now;
}

static struct clock fake_clock = {.now = tell_now};
static struct prng fake_rng;
static struct port fake_port = {.clock = &fake_clock, .rng = &fake_rng};
static struct shard sh;
static struct part pt[2];

static void begin(void) {
    prng_seed(&fake_rng, 7);
    sh = (struct shard){.port = &fake_port};
    for (int i = 0; i < 2; i++) {
        pt[i] = (struct part){.sh = &sh};
    }
    now = 1000;
}

static struct batch_head head(int64_t id, off64 base) {
    return (struct batch_head){.producer_id = id, .base_offset = base, .count = 1};
}

static void append(struct part *p, int64_t id, off64 base, bool stable) {
    struct batch_head h = head(id, base);
    ck_assert_int_eq(prod_reserve(p, &h), ERR_OK);
    prod_note(p, &h);
    if (stable) {
        prodwin_stable(p->win, base + 1);
    }
}

static bool remembers(const struct part *p, int64_t id, off64 base) {
    struct batch_head h = head(id, base);
    struct prodwin_answer a;
    return prodwin_check(p->win, &h, &a) == ERR_OK && a.verdict == PRODWIN_DUPLICATE;
}

START_TEST(T30_producers_of_a_shard_have_one_ceiling) {
    begin();
    sh.producers = LIMIT_PRODUCERS_PER_SHARD - 100;            /* of other partitions */
    for (int i = 0; i < 60; i++) {
        append(&pt[0], i, i, true);
    }
    for (int i = 0; i < 60; i++) {
        append(&pt[1], i, i, true);
    }
    ck_assert_uint_eq(sh.producers, LIMIT_PRODUCERS_PER_SHARD);
    ck_assert_uint_eq(prodwin_count(pt[0].win), 60);
    ck_assert_uint_eq(prodwin_count(pt[1].win), 40);
    ck_assert(!remembers(&pt[1], 19, 19) && remembers(&pt[1], 20, 20) && remembers(&pt[1], 59, 59));   /* the silent ones went */
    struct batch_head again = head(20, 60);
    again.base_sequence = 1;
    ck_assert_int_eq(prod_reserve(&pt[1], &again), ERR_OK);    /* one that is known needs nobody's place */
    prod_note(&pt[1], &again);
    ck_assert_uint_eq(prodwin_count(pt[1].win), 40);
    prod_free(&pt[0]);
    prod_free(&pt[1]);
    ck_assert_uint_eq(sh.producers, LIMIT_PRODUCERS_PER_SHARD - 100);
}
END_TEST

START_TEST(S6_2_no_producer_with_unstable_batches_makes_room) {
    begin();
    sh.producers = LIMIT_PRODUCERS_PER_SHARD;
    for (int i = 0; i < 10; i++) {
        append(&pt[0], i, i, false);
    }
    for (int i = 0; i < 10; i++) {
        ck_assert(remembers(&pt[0], i, i));
    }
    prod_undo(&pt[0], 5);
    append(&pt[0], 100, 5, true);                              /* stable up to it: now the silent ones can go */
    append(&pt[0], 101, 6, true);
    ck_assert(remembers(&pt[0], 101, 6));
    prod_free(&pt[0]);
    ck_assert_uint_eq(sh.producers, LIMIT_PRODUCERS_PER_SHARD);
}
END_TEST

int main(void) { return RUN("review_prod", T30_producers_of_a_shard_have_one_ceiling, S6_2_no_producer_with_unstable_batches_makes_room); }
