/* Goal: topics grow by the rules of CreatePartitions (S4.16): what is refused and in which words, that partitions which are there keep leader and epoch, what a snapshot restores, and
 * that apply takes only what decide could have made.
 * Method: a table of wishes; random growth and epochs against a naive twin, through snapshots; frames of the wrong state and mutated ones. */
#include <stdio.h>
#include <string.h>

#include "base/be.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/prng.h"
#include "base/run.h"
#include "state/meta.h"

#define NODE 7

static struct conf *conf;
static struct topicconf defaults;
static struct meta *m;
static struct str frame;
static char why[500];

static uuid id_of(uint8_t n) {
    uuid u = {{0}};
    memset(u.b, n, sizeof u.b);
    return u;
}

static void apply_frame(struct meta *to) {
    ck_assert_int_eq(meta_apply(to, str_span(&frame)), ERR_OK);
    str_clear(&frame);
}

static void create(const char *name, uint8_t id, int32_t parts) {
    struct meta_create in = {.name = span_str(name), .partitions = parts, .replication = -1, .id = id_of(id), .num_partitions_default = 1};
    int32_t got;
    ck_assert_int_eq(meta_decide_create(m, &in, &frame, &got, why, sizeof why), ERR_OK);
    apply_frame(m);
}

static struct meta_topic *topic(const char *name) { return meta_topic_by_name(m, span_str(name)); }

static void setup(void) {
    ck_assert_int_eq(conf_new(&conf), ERR_OK);
    topicconf_defaults(conf, &defaults);
    str_init(&frame, LIMIT_META_RECORD_BYTES);
    ck_assert_int_eq(meta_new(&defaults, 5, &m), ERR_OK);
    ck_assert_int_eq(meta_decide_format(id_of(9), NODE, &frame), ERR_OK);
    apply_frame(m);
    create("t", 10, 3);
    create("other", 11, 1);
}

static void teardown(void) {
    meta_free(m);
    str_done(&frame);
    conf_free(conf);
    ck_assert_uint_eq(mem_live(MEM_META), 0);
}

static err decide(struct meta_grow in) {
    why[0] = '\0';
    return meta_grow_decide(m, &in, &frame, why, sizeof why);
}

static void grow(const char *name, int32_t count) {
    ck_assert_int_eq(decide((struct meta_grow){.topic = topic(name), .count = count}), ERR_OK);
    apply_frame(m);
}

static void refused(struct meta_grow in, err want, const char *words) {
    in.topic = topic("t");
    err e = decide(in);
    ck_assert_msg(e == want, "%s instead of %s (%s)", err_name(e), err_name(want), why);
    ck_assert_msg(strstr(why, words) != NULL, "'%s' does not say '%s'", why, words);
    ck_assert_uint_eq(frame.n, 0);
}

START_TEST(S4_16_counts_that_do_not_grow) {
    refused((struct meta_grow){.count = 3}, ERR_BAD_PARTITIONS, "topic 't' has 3 partitions already: ask for more");
    refused((struct meta_grow){.count = 2}, ERR_BAD_PARTITIONS, "topic 't' has 3 partitions, 2 are fewer: partitions cannot be taken away");
    refused((struct meta_grow){.count = 0}, ERR_BAD_PARTITIONS, "0 partitions are not possible");
    refused((struct meta_grow){.count = -1}, ERR_BAD_PARTITIONS, "-1 partitions are not possible");
    refused((struct meta_grow){.count = INT32_MIN}, ERR_BAD_PARTITIONS, "not possible");
    refused((struct meta_grow){.count = LIMIT_PARTITIONS_PER_TOPIC + 1}, ERR_BAD_PARTITIONS, "the most for one topic is 100000");
    refused((struct meta_grow){.count = INT32_MAX}, ERR_BAD_PARTITIONS, "too many");
    m->partitions_n += LIMIT_PARTITIONS - 6;
    refused((struct meta_grow){.count = 6}, ERR_LIMIT, "3 more partitions would make 400001");
    m->partitions_n -= LIMIT_PARTITIONS - 6;
}
END_TEST

START_TEST(S4_16_assignments_cover_exactly_what_is_added) {
    int32_t us = NODE, other = 8, twice[] = {NODE, NODE};
    span ours = span_of(&us, 4), theirs = span_of(&other, 4);
    span two[] = {ours, ours}, bad[] = {ours, theirs}, none[] = {ours, span_of(&us, 0)}, same[] = {span_of(twice, 8), ours};
    refused((struct meta_grow){.count = 5, .has_manual = true, .assignments_n = 1, .assignment_brokers = two}, ERR_BAD_ASSIGNMENT,
            "topic 't' would get 2 more partitions, but 1 assignment is given: one for each is needed");
    refused((struct meta_grow){.count = 4, .has_manual = true, .assignments_n = 2, .assignment_brokers = two}, ERR_BAD_ASSIGNMENT,
            "1 more partition, but 2 assignments are given");
    refused((struct meta_grow){.count = 4, .has_manual = true, .assignments_n = 0}, ERR_BAD_ASSIGNMENT, "0 assignments are given");
    refused((struct meta_grow){.count = 5, .has_manual = true, .assignments_n = 2, .assignment_brokers = bad}, ERR_BAD_ASSIGNMENT,
            "partition 4 is assigned to broker 8, which does not exist");
    refused((struct meta_grow){.count = 5, .has_manual = true, .assignments_n = 2, .assignment_brokers = none}, ERR_BAD_ASSIGNMENT, "partition 4 has no replicas");
    refused((struct meta_grow){.count = 5, .has_manual = true, .assignments_n = 2, .assignment_brokers = same}, ERR_BAD_ASSIGNMENT,
            "partition 3 is assigned to broker 7 twice");
    refused((struct meta_grow){.count = 3, .has_manual = true, .assignments_n = 0}, ERR_BAD_PARTITIONS, "already");      /* the count comes first */
    ck_assert_int_eq(decide((struct meta_grow){.topic = topic("t"), .count = 5, .has_manual = true, .assignments_n = 2, .assignment_brokers = two}), ERR_OK);
    apply_frame(m);
    ck_assert_int_eq(topic("t")->parts_n, 5);
}
END_TEST

static int32_t told_first;
static void on_growth(void *u, struct meta_topic *t, int32_t first) {
    ck_assert_ptr_eq(u, &told_first);
    ck_assert_ptr_eq(t, topic("t"));
    ck_assert_int_eq(t->parts_n, 10);              /* it has grown already */
    told_first = first;
}

START_TEST(S4_16_what_was_there_stays) {
    struct meta_topic *t = topic("t");
    ck_assert_int_eq(meta_decide_epoch(m, t, 1, &frame), ERR_OK);
    apply_frame(m);
    m->on_growth = on_growth;
    m->u = &told_first;
    grow("t", 10);
    ck_assert_int_eq(told_first, 3);
    ck_assert_ptr_eq(topic("t"), t);
    ck_assert(uuid_eq(t->id, id_of(10)));
    ck_assert_int_eq(m->partitions_n, 11);
    for (int32_t i = 0; i < 10; i++) {
        ck_assert_int_eq(t->parts[i].leader, NODE);
        ck_assert_int_eq(t->parts[i].leader_epoch, i == 1);
    }
    m->on_growth = NULL;
    ck_assert_int_eq(meta_decide_epoch(m, t, 9, &frame), ERR_OK);        /* new ones live like the others */
    apply_frame(m);
    grow("t", 11);
    ck_assert_int_eq(t->parts[9].leader_epoch, 1);
    ck_assert_int_eq(meta_decide_delete(m, t, &frame), ERR_OK);
    apply_frame(m);
    ck_assert_int_eq(m->partitions_n, 1);
}
END_TEST

START_TEST(a_record_that_does_not_go_on_where_the_topic_ends_is_damage) {
    ck_assert_int_eq(decide((struct meta_grow){.topic = topic("t"), .count = 5}), ERR_OK);
    ck_assert_int_eq(meta_apply(m, str_span(&frame)), ERR_OK);
    ck_assert_int_eq(meta_apply(m, str_span(&frame)), ERR_DAMAGED);      /* twice: it has 5 by now */
    ck_assert_int_eq(topic("t")->parts_n, 5);
    ck_assert_int_eq(m->partitions_n, 6);
    str_clear(&frame);
    ck_assert_int_eq(decide((struct meta_grow){.topic = topic("t"), .count = 6}), ERR_OK);
    struct str late;
    str_init(&late, 1000);
    str_add(&late, str_span(&frame));
    str_clear(&frame);
    ck_assert_int_eq(meta_decide_delete(m, topic("t"), &frame), ERR_OK);
    apply_frame(m);
    ck_assert_int_eq(meta_apply(m, str_span(&late)), ERR_DAMAGED);       /* the topic is gone */
    str_done(&late);
}
END_TEST

/* T54: bytes that no decide made change nothing, or something that a decide could have made. */
START_TEST(mutated_records) {
    struct prng rng;
    prng_seed(&rng, 1);
    for (int i = 0; i < 20000 && topic("t")->parts_n < 90000; i++) {
        ck_assert_int_eq(decide((struct meta_grow){.topic = topic("t"), .count = topic("t")->parts_n + 1 + (int32_t)prng_below(&rng, 3)}), ERR_OK);
        frame.p[prng_below(&rng, frame.n)] ^= (char)(1 + prng_below(&rng, 255));
        int32_t before = topic("t")->parts_n;
        int64_t all = m->partitions_n;
        if (meta_apply(m, str_span(&frame)) != ERR_OK) {
            ck_assert_int_eq(topic("t")->parts_n, before);
            ck_assert_int_eq(m->partitions_n, all);
        }
        ck_assert_int_le(topic("t")->parts_n, LIMIT_PARTITIONS_PER_TOPIC);
        str_clear(&frame);
    }
}
END_TEST

/* D11: what a snapshot gives a fresh copy is what the records gave this one. */
START_TEST(growth_survives_snapshots) {
    struct prng rng;
    prng_seed(&rng, 2);
    int32_t epochs[200] = {0}, n = 3;
    for (int i = 0; i < 60; i++) {
        if (prng_below(&rng, 2) == 0) {
            n += 1 + (int32_t)prng_below(&rng, 3);
            grow("t", n);
        } else {
            int32_t at = (int32_t)prng_below(&rng, (uint64_t)n);
            ck_assert_int_eq(meta_decide_epoch(m, topic("t"), at, &frame), ERR_OK);
            apply_frame(m);
            epochs[at]++;
        }
        if (prng_below(&rng, 5) == 0) {
            struct meta *fresh;
            ck_assert_int_eq(meta_snapshot(m, &frame), ERR_OK);
            ck_assert_int_eq(meta_new(&defaults, 6, &fresh), ERR_OK);
            apply_frame(fresh);
            meta_free(m);
            m = fresh;
        }
        ck_assert_int_eq(topic("t")->parts_n, n);
        ck_assert_int_eq(m->partitions_n, n + 1);
        for (int32_t k = 0; k < n; k++) {
            ck_assert_int_eq(topic("t")->parts[k].leader_epoch, epochs[k]);
        }
    }
}
END_TEST

START_TEST(no_memory_changes_nothing) {
    ck_assert_int_eq(decide((struct meta_grow){.topic = topic("t"), .count = 500}), ERR_OK);
    for (uint64_t n = 1;; n++) {
        mem_fail_nth(n);
        err e = meta_apply(m, str_span(&frame));
        mem_fail_nth(0);
        if (e == ERR_OK) {
            ck_assert_uint_gt(n, 1);
            break;
        }
        ck_assert_int_eq(e, ERR_NOMEM);
        ck_assert_int_eq(topic("t")->parts_n, 3);
        ck_assert_int_eq(m->partitions_n, 4);
    }
    ck_assert_int_eq(topic("t")->parts_n, 500);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("meta_grow");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, S4_16_counts_that_do_not_grow);
    tcase_add_test(tc, S4_16_assignments_cover_exactly_what_is_added);
    tcase_add_test(tc, S4_16_what_was_there_stays);
    tcase_add_test(tc, a_record_that_does_not_go_on_where_the_topic_ends_is_damage);
    tcase_add_test(tc, mutated_records);
    tcase_add_test(tc, growth_survives_snapshots);
    tcase_add_test(tc, no_memory_changes_nothing);
    return run_suite("meta_grow", tc);
}
