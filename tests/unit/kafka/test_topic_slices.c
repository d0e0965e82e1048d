/* Goal: a topic of very many partitions comes and goes in slices: turns in between stay short for others, the answer comes when all is there or gone, partitions are used before all are open, and
 * a name that is deleted and created again at once has nothing of its former life (BR-042).
 * Method: a whole broker on the simulated machine, with more partitions than a turn takes. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mark.h"
#include "base/run.h"
#include "say.h"

#define WIDE (3 * LIMIT_PARTS_PER_TURN + 500)

static struct rig r;

static void begin(uint32_t shards) {
    rig_init(&r, 815 + shards, shards);
    rig_start(&r);
}

static void end(void) {
    rig_stop(&r);
    rig_done(&r);
}

static size_t parts(void) {
    size_t n = 0;
    for (uint32_t i = 0; i < r.shards; i++) {
        n += r.node->shards[i]->parts.n;
    }
    return n;
}

static void produce(struct say *s, const char *topic, int32_t part, int16_t code) {
    say_produce(s, (struct say_to){topic, part}, -1, say_batch(s, &(struct say_batch){0}));
    ck_assert_int_eq(say_produced(s)->error_code, code);
}

START_TEST(S4_12_the_answer_comes_when_every_partition_is_there_and_S4_10_when_every_one_is_gone) {
    begin(1u << _i);
    struct say *s = say_open(&r);
    for (int life = 0; life < 3; life++) {
        ck_assert_int_eq(say_create(s, "t", WIDE), 0);
        ck_assert_uint_eq(parts(), WIDE);
        for (int32_t i = 0; i < WIDE; i += 999) {
            ck_assert_int_eq(say_latest(s, (struct say_to){"t", i}), 0);       /* nothing of the former life */
            produce(s, "t", i, 0);
        }
        ck_assert_int_eq(say_delete(s, "t"), 0);
        ck_assert_uint_eq(parts(), 0);
        say_forget(s);
    }
    ck_assert_uint_ge(mark_count("topics.slices"), 6);
    say_close(s);
    end();
}
END_TEST

/* Nobody waits for the answers: the requests cross. */
START_TEST(BR_042_deletions_and_creations_of_one_name_cross) {
    begin(1u << _i);
    struct say *a = say_open(&r), *b = say_open(&r), *c = say_open(&r);
    ck_assert_int_eq(say_create(a, "t", WIDE), 0);
    for (int32_t i = 0; i < WIDE; i += 777) {
        produce(a, "t", i, 0);
    }
    for (int round = 0; round < 6; round++) {
        say_delete_send(a, "t");
        say_create_send(b, "t", round % 2 == 0 ? WIDE : 5);
        say_create_send(c, "other", WIDE);
        int16_t deleted = say_deleted(a), created = say_created(b), other = say_created(c);
        ck_assert_msg(deleted == 0 && (created == 0 || created == 36) && (other == 0 || other == 36), "codes %d %d %d", deleted, created, other);
        if (created == 36) {                           /* it came before the deletion */
            ck_assert_int_eq(say_create(b, "t", WIDE), 0);
        }
        for (int32_t i = 0; i < 5; i++) {
            ck_assert_int_eq(say_latest(a, (struct say_to){"t", i}), 0);
            produce(a, "t", i, 0);
        }
        ck_assert_int_eq(say_delete(c, "other"), 0);
        say_forget(a);
        say_forget(b);
        say_forget(c);
    }
    ck_assert_uint_eq(parts(), (size_t)say_describe(a, "t")->partitions_n);
    say_close(a);
    say_close(b);
    say_close(c);
    rig_stop(&r);
    rig_start(&r);
    a = say_open(&r);
    ck_assert_int_eq(say_latest(a, (struct say_to){"t", 0}), 1);
    say_close(a);
    end();
}
END_TEST

/* While slices are worked off others are served, and a partition that is not open yet is opened by who asks. */
START_TEST(others_are_served_between_slices_and_a_crash_in_the_middle_leaves_all_or_nothing) {
    begin(2);
    r.errors_expected = true;
    struct say *a = say_open(&r), *b = say_open(&r);
    ck_assert_int_eq(say_create(a, "small", 2), 0);
    say_create_send(a, "t", WIDE);
    int served = 0;
    while (!say_has(a)) {
        produce(b, "small", 0, 0);
        served++;
        int16_t e = say_describe(b, "t")->error_code;
        ck_assert(e == 0 || e == 3);
        if (e == 0) {
            produce(b, "t", WIDE - 1, 0);
        }
    }
    ck_assert_int_ge(served, 1);
    ck_assert_int_eq(say_created(a), 0);
    produce(a, "t", WIDE - 1, 0);
    say_delete_send(a, "t");
    rig_run(&r, _i);
    say_close(b);
    say_close(a);
    rig_crash(&r, true);
    rig_start(&r);
    a = say_open(&r);
    int16_t e = say_describe(a, "t")->error_code;
    ck_assert(e == 0 || e == 3);
    ck_assert_uint_eq(parts(), e == 0 ? WIDE + 2u : 2u);
    if (e == 0) {
        ck_assert_int_ge(say_latest(a, (struct say_to){"t", WIDE - 1}), 1);
    }
    produce(a, "small", 1, 0);
    say_close(a);
    end();
}
END_TEST

/* Who waits at a partition that goes is told, whichever slice it is in. */
START_TEST(who_waits_is_told_and_a_stop_in_the_middle_is_clean) {
    for (int round = 0; round < 4; round++) {
        begin(2);
        struct say *a = say_open(&r), *f[4];
        ck_assert_int_eq(say_create(a, "t", WIDE), 0);
        for (int i = 0; i < 4; i++) {
            f[i] = say_open(&r);
            say_fetch(f[i], (struct say_to){"t", i * (WIDE / 4)}, 0, 100000, 1);
        }
        rig_run(&r, 5);
        say_delete_send(a, "t");
        if (round == 3) {
            rig_run(&r, 1);
            rig_stop_begin(&r);
            ck_assert_int_lt(rig_stop_wait(&r), 4000);
        } else {
            for (int i = 0; i < 4; i++) {
                ck_assert_int_eq(say_fetched(f[i])->error_code, 3);
            }
            ck_assert_int_eq(say_deleted(a), 0);
        }
        for (int i = 0; i < 4; i++) {
            say_close(f[i]);
        }
        say_close(a);
        if (round == 3) {
            rig_done(&r);
        } else {
            end();
        }
    }
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("topic_slices");
    tcase_set_timeout(tc, 120);
    tcase_add_loop_test(tc, S4_12_the_answer_comes_when_every_partition_is_there_and_S4_10_when_every_one_is_gone, 0, 3);
    tcase_add_loop_test(tc, BR_042_deletions_and_creations_of_one_name_cross, 0, 3);
    tcase_add_loop_test(tc, others_are_served_between_slices_and_a_crash_in_the_middle_leaves_all_or_nothing, 0, 4);
    tcase_add_test(tc, who_waits_is_told_and_a_stop_in_the_middle_is_clean);
    return run_suite("topic_slices", tc);
}
