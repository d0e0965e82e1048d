/* Goal: topics grow through the metadata log (S4.16): the answer leaves when every shard serves the new partitions, the others keep what they have, validate_only and refusals change
 * nothing, and after a crash at any disk request the topic has the old count or the new one, never less than was answered (T4, T5).
 * Method: a whole broker on the simulated machine, with 1, 2 and 4 shards and a client on each. */
#include <string.h>

#include "base/run.h"
#include "say.h"
#include "wire/k_create_partitions.h"

static struct rig r;

#define T(part_) ((struct say_to){"t", (part_)})

static const struct k_create_partitions_resp *ask(struct say *s, int v, const struct k_create_partitions_req_topic *topics, int32_t n, bool only) {
    struct k_create_partitions_req q = {.topics = (struct k_create_partitions_req_topic *)(uintptr_t)topics, .topics_n = n, .timeout_ms = 1000, .validate_only = only};
    return say_ask(s, K_CREATE_PARTITIONS, v, &q);
}

static int16_t grow(struct say *s, const char *topic, int32_t count) {
    struct k_create_partitions_req_topic t = {.name = span_str(topic), .count = count, .assignments_n = -1};
    return ask(s, 3, &t, 1, false)->results[0].error_code;
}

static int32_t count_of(struct say *s, const char *topic) { return say_describe(s, topic)->partitions_n; }

static void check_shard(struct say *s, int32_t count, int32_t before) {
    const struct k_metadata_resp_topic *m = say_describe(s, "t");
    ck_assert_int_eq(m->partitions_n, count);
    for (int32_t p = 0; p < count; p++) {
        ck_assert_int_eq(m->partitions[p].index, p);
        ck_assert_int_eq(m->partitions[p].error_code, 0);
        ck_assert_int_ge(m->partitions[p].leader_id, 0);
    }
    say_produce(s, T(count - 1), -1, say_batch(s, &(struct say_batch){0}));
    ck_assert_int_eq(say_produced(s)->base_offset, before);
    ck_assert_int_eq(say_latest(s, T(count - 3)), 0);
}

START_TEST(S4_16_every_shard_serves_new_partitions_when_the_answer_is_here) {
    static const uint32_t shards[] = {1, 2, 4};
    rig_init(&r, 40, shards[_i]);
    rig_start(&r);
    struct say *s[4];
    for (uint32_t i = 0; i < 4; i++) {
        s[i] = say_open(&r);
    }
    ck_assert_int_eq(say_create(s[0], "t", 2), 0);
    say_produce(s[0], T(1), -1, say_batch(s[0], &(struct say_batch){0}));
    ck_assert_int_eq(say_produced(s[0])->error_code, 0);
    say_produce(s[1], T(2), -1, say_batch(s[1], &(struct say_batch){0}));
    ck_assert_int_eq(say_produced(s[1])->error_code, 3);
    for (int32_t count = 3; count < 40; count += 3) {
        ck_assert_int_eq(grow(s[count % 4], "t", count), 0);
        for (int32_t i = 0; i < 4; i++) {
            check_shard(s[i], count, i);
        }
    }
    ck_assert_int_eq(say_latest(s[2], T(1)), 1);   /* what was there stays */
    for (int i = 0; i < 4; i++) {
        say_close(s[i]);
    }
    rig_stop(&r);
    rig_start(&r);
    struct say *again = say_open(&r);
    ck_assert_int_eq(count_of(again, "t"), 39);
    ck_assert_int_eq(say_latest(again, T(38)), 4);
    ck_assert_int_eq(say_delete(again, "t"), 0);
    ck_assert_int_eq(say_create(again, "t", 1), 0);
    ck_assert_int_eq(count_of(again, "t"), 1);
    ck_assert_int_eq(grow(again, "t", 40), 0);     /* a topic of the same name, and nothing of the old one's records */
    ck_assert_int_eq(say_latest(again, T(38)), 0);
    ck_assert_int_eq(say_latest(again, T(1)), 0);
    say_close(again);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

START_TEST(S4_16_verdicts_are_per_topic) {
    rig_init(&r, 41, 2);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "a", 2), 0);
    ck_assert_int_eq(say_create(s, "b", 2), 0);
    int32_t us = r.conf.node_id, other = 77;
    struct k_create_partitions_req_topic_assignment good = {.brokers = &us, .brokers_n = 1}, bad = {.brokers = &other, .brokers_n = 1};
    for (int v = 0; v <= 3; v++) {
        int32_t count = 3 + v;
        const struct k_create_partitions_req_topic topics[] = {
            {.name = SPAN_LIT("a"), .count = count, .assignments_n = -1}, {.name = SPAN_LIT("nope"), .count = 3, .assignments_n = -1},
            {.name = SPAN_LIT("b"), .count = 2, .assignments_n = -1},     {.name = SPAN_LIT("twice"), .count = 9, .assignments_n = -1},
            {.name = SPAN_LIT("twice"), .count = 9, .assignments_n = -1},
        };
        const struct k_create_partitions_resp *x = ask(s, v, topics, 5, false);
        static const int16_t want[] = {0, 3, 37, 42};
        ck_assert_int_eq(x->results_n, 4);
        for (int i = 0; i < 4; i++) {
            ck_assert(span_eq(x->results[i].name, topics[i].name));
            ck_assert_int_eq(x->results[i].error_code, want[i]);
            ck_assert_int_eq(span_is_null(x->results[i].error_message), want[i] == 0);
        }
        const struct k_create_partitions_req_topic manual[] = {{.name = SPAN_LIT("b"), .count = 3, .assignments = &bad, .assignments_n = 1},
                                                               {.name = SPAN_LIT("a"), .count = count + 2, .assignments = &good, .assignments_n = 1}};
        x = ask(s, v, manual, 2, false);
        ck_assert_int_eq(x->results[0].error_code, 39);
        ck_assert_int_eq(x->results[1].error_code, 39);
        const struct k_create_partitions_req_topic fits = {.name = SPAN_LIT("b"), .count = 3, .assignments = &good, .assignments_n = 1};
        ck_assert_int_eq(ask(s, v, &fits, 1, true)->results[0].error_code, 0);        /* validate_only */
        const struct k_create_partitions_req_topic fewer = {.name = SPAN_LIT("b"), .count = 1, .assignments_n = -1};
        ck_assert_int_eq(ask(s, v, &fewer, 1, true)->results[0].error_code, 37);
        ck_assert_int_eq(count_of(s, "b"), 2);
        ck_assert_int_eq(count_of(s, "a"), count);
    }
    ck_assert_int_eq(ask(s, 3, NULL, 0, false)->results_n, 0);
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

/* Grow one by one from 2 until the broker falls, at most to 5. Returns the last count that was answered. */
static int32_t grow_until_crash(void) {
    struct say *s = say_open(&r);
    int32_t answered = 2;
    for (int32_t count = 3; count <= 5; count++) {
        struct k_create_partitions_req_topic t = {.name = SPAN_LIT("t"), .count = count, .assignments_n = -1};
        struct k_create_partitions_req q = {.topics = &t, .topics_n = 1, .timeout_ms = 1000};
        say_send(s, K_CREATE_PARTITIONS, 3, &q);
        if (!say_await(s, 5000)) {
            break;
        }
        const struct k_create_partitions_resp *x = say_take(s);
        ck_assert_int_eq(x->results[0].error_code, 0);
        answered = count;
    }
    say_close(s);
    return answered;
}

/* A crash at each disk request of a growth, with and without what was not synced. */
START_TEST(T4_T5_growth_survives_a_crash_at_any_request) {
    bool power = _i == 1, over = false;
    for (uint64_t k = 1; !over; k++) {
        rig_init(&r, 50 + k, 1 + k % 2);
        rig_start(&r);
        struct say *s = say_open(&r);
        ck_assert_int_eq(say_create(s, "t", 2), 0);
        say_produce(s, T(1), -1, say_batch(s, &(struct say_batch){0}));
        ck_assert_int_eq(say_produced(s)->error_code, 0);
        say_close(s);
        world_node_crash_at(r.n, k, power);
        int32_t answered = grow_until_crash();
        over = world_node_is_up(r.n);
        if (over) {
            world_node_crash_at(r.n, 0, power);
            rig_crash(&r, power);
        }
        r.node = NULL;
        rig_start(&r);
        s = say_open(&r);
        int32_t now = count_of(s, "t");
        ck_assert_msg(now >= answered && now <= answered + 1, "request %llu: %d partitions after %d were answered", (unsigned long long)k, now, answered);
        ck_assert_int_eq(say_latest(s, T(1)), 1);
        say_produce(s, T(now - 1), -1, say_batch(s, &(struct say_batch){0}));
        ck_assert_int_eq(say_produced(s)->error_code, 0);
        ck_assert_int_eq(grow(s, "t", now + 1), 0);
        say_close(s);
        rig_stop(&r);
        rig_done(&r);
        ck_assert_uint_lt(k, 200);
    }
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("grow");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, S4_16_every_shard_serves_new_partitions_when_the_answer_is_here, 0, 3);
    tcase_add_test(tc, S4_16_verdicts_are_per_topic);
    tcase_add_loop_test(tc, T4_T5_growth_survives_a_crash_at_any_request, 0, 2);
    return run_suite("grow", tc);
}
