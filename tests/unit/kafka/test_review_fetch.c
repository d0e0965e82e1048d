/* Goal: a fetch of very many partitions costs little while it waits and is bounded when it answers (T63, S7.3); each is answered once
 * (S7.20); none of them starves (S7.21), whether its bytes are in memory or on the disk; memory for replies goes to who asked first
 * (BR-060, D12).
 * Method: a whole broker on the simulated machine, scripted clients, the node's live memory. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mark.h"
#include "base/run.h"
#include "say.h"

#define T0 ((struct say_to){"t", 0})

static struct rig r;

static void begin(uint32_t shards) { rig_init(&r, 717 + shards, shards); }

static void end(void) {
    rig_stop(&r);
    rig_done(&r);
}

struct many {
    int32_t first, n, step;
    ms wait;
    int32_t min_bytes, max_bytes, part_bytes;
    int64_t from;
};

static const struct k_fetch_req *fetch_many(struct say *s, const struct many *m) {
    struct k_fetch_req *q = (struct k_fetch_req *)(uintptr_t)say_fetch_req(s, T0, m->from, m->wait, m->min_bytes);
    struct k_fetch_req_topic *t = q->topics;
    const struct k_fetch_req_topic_part like = t->partitions[0];
    t->partitions = arena_alloc(&s->arena, (size_t)m->n * sizeof *t->partitions);
    t->partitions_n = m->n;
    for (int32_t i = 0; i < m->n; i++) {
        t->partitions[i] = like;
        t->partitions[i].partition = m->first + (int32_t)((uint32_t)i * (uint32_t)m->step);
        t->partitions[i].partition_max_bytes = m->part_bytes;
    }
    q->max_bytes = m->max_bytes;
    return q;
}

static const struct k_fetch_resp_topic *take(struct say *s) {
    const struct k_fetch_resp *a = say_take(s);
    ck_assert_int_eq(a->topics_n, 1);
    return a->topics;
}

#define MANY 100000

START_TEST(T63_a_fetch_of_100000_partitions_waits_in_little_memory_and_answers_bounded) {
    begin(2);
    rig_start(&r);
    struct say *s = say_open(&r), *c = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", MANY), 0);
    size_t idle = rig_live(&r);
    struct many m = {.n = MANY, .step = 1, .wait = 5000, .min_bytes = 1, .max_bytes = INT32_MAX, .part_bytes = INT32_MAX};
    say_send(c, K_FETCH, 12, fetch_many(c, &m));
    rig_run(&r, 2000);
    ck_assert(!say_has(c));
    size_t parked = rig_live(&r) - idle;
    printf("RESULT a parked fetch holds %zu bytes a partition\n", parked / MANY);
    ck_assert_uint_lt(parked / MANY, 480);
    for (int i = 0; i < 300; i++) {                /* 300 MB all over, half of it on the disk by now */
        say_produce(s, (struct say_to){"t", i * 331}, 1, say_batch(s, &(struct say_batch){.value_n = 200000}));
        ck_assert_int_eq(say_produced(s)->error_code, 0);
        say_forget(s);
    }
    ck_assert_int_eq(take(c)->partitions_n, MANY);
    say_forget(c);
    rig_run(&r, 1000);                             /* all of it is stable */
    m.wait = 0;
    size_t most = 0, before = rig_live(&r);
    say_send(c, K_FETCH, 12, fetch_many(c, &m));
    while (!say_has(c)) {
        rig_run(&r, 1);
        size_t live = rig_live(&r);
        most = live > most ? live : most;
    }
    const struct k_fetch_resp_topic *a = take(c);
    size_t bytes = 0;
    for (int32_t i = 0; i < a->partitions_n; i++) {
        bytes += a->partitions[i].records.n;
    }
    printf("RESULT its answer carries %zu KB and took %zu KB of memory\n", bytes >> 10, (most - before) >> 10);
    ck_assert_int_eq(a->partitions_n, MANY);
    ck_assert_uint_gt(bytes, 1 << 20);
    ck_assert_uint_lt(bytes, 55 << 20);
    ck_assert_uint_lt(most, before + (96 << 20));
    say_close(s);
    say_close(c);
    end();
}
END_TEST

/* Requests that wait hold memory: of all together only so much, then they are answered at once; small ones wait all the same. */
START_TEST(T63_fetches_of_very_many_partitions_that_wait_have_a_bound) {
    enum { WIDE = 20000, CROWD = 40 };
    begin(2);
    rig_start(&r);
    struct say *s = say_open(&r), *c[CROWD], *small = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", WIDE), 0);
    size_t idle = rig_live(&r);
    struct many m = {.n = WIDE, .step = 1, .wait = 60000, .min_bytes = 1, .max_bytes = 1 << 20, .part_bytes = 1 << 20};
    int waiting = 0;
    for (int i = 0; i < CROWD; i++) {
        c[i] = say_open(&r);
        say_send(c[i], K_FETCH, 12, fetch_many(c[i], &m));
        rig_run(&r, 200);
        waiting += !say_has(c[i]);
    }
    printf("RESULT %d of %d fetches of %d partitions wait, they hold %zu KB\n", waiting, CROWD, WIDE, (rig_live(&r) - idle) >> 10);
    ck_assert_int_ge(waiting, 4);
    ck_assert_int_lt(waiting, CROWD);
    ck_assert_uint_gt(mark_count("fetch.no_room_to_wait"), 0);
    ck_assert_uint_lt(rig_live(&r), idle + (size_t)2 * LIMIT_PARKED_BYTES + (24 << 20));
    say_fetch(small, T0, 0, 60000, 1);
    rig_run(&r, 1000);
    ck_assert(!say_has(small));
    for (int i = 0; i < CROWD; i++) {                  /* whoever was answered was told all of it, without data */
        if (say_has(c[i])) {
            ck_assert_int_eq(take(c[i])->partitions_n, WIDE);
        }
        say_close(c[i]);
    }
    say_produce(s, T0, -1, say_batch(s, &(struct say_batch){0}));
    ck_assert_int_eq(say_produced(s)->error_code, 0);
    ck_assert_int_gt((int)say_fetched(small)->records.n, 0);
    struct say *again = say_open(&r);                  /* the room is free again */
    say_send(again, K_FETCH, 12, fetch_many(again, &(struct many){.first = 1, .n = WIDE - 1, .step = 1, .wait = 1000, .min_bytes = 1, .max_bytes = 1 << 20, .part_bytes = 1 << 20}));
    rig_run(&r, 500);
    ck_assert(!say_has(again));
    say_close(again);
    say_close(small);
    say_close(s);
    end();
}
END_TEST

/* Numbers that a weak hash puts into one place, and more and more of them repeated (with a step of 2^k only 2^(32-k) are distinct). */
START_TEST(S7_20_chosen_and_repeated_partition_numbers_are_answered_once_each) {
    begin(1);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    for (int32_t step = 1; step < 1 << 20; step <<= 1) {
        struct many m = {.n = MANY, .step = step, .max_bytes = 1 << 20, .part_bytes = 1 << 20};
        say_send(s, K_FETCH, 12, fetch_many(s, &m));
        const struct k_fetch_resp_topic *a = take(s);
        uint64_t distinct = ((uint64_t)1 << 32) / (uint64_t)step;
        ck_assert_int_eq(a->partitions_n, distinct < MANY ? (int32_t)distinct : MANY);
        say_forget(s);
    }
    say_close(s);
    end();
}
END_TEST

/* More partitions with bytes than one answer takes, each bytes enough to fill it: all are served in turn, none twice before each once. */
static void serve_all(bool cold, int32_t max_bytes, int most_rounds) {
    enum { N = 3000 };
    begin(2);
    rig_set(&r, "store.tail.bytes", cold ? "1048576" : "16777216");
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", N), 0);
    for (int i = 0; i < N; i++) {
        say_produce(s, (struct say_to){"t", i}, 1, say_batch(s, &(struct say_batch){.value_n = 1000}));
        if (i % 50 == 49) {
            for (int k = 0; k < 50; k++) {
                ck_assert_int_eq(say_produced(s)->error_code, 0);
            }
            say_forget(s);
        }
    }
    static bool served[N];
    memset(served, 0, sizeof served);
    int left = N, rounds = 0;
    while (left > 0) {
        struct many m = {.n = N, .step = 1, .wait = 1000, .min_bytes = 1, .max_bytes = max_bytes, .part_bytes = 1 << 20};
        say_send(s, K_FETCH, 12, fetch_many(s, &m));       /* from the start each time: everything is always there */
        const struct k_fetch_resp_topic *a = take(s);
        for (int32_t i = 0; i < a->partitions_n; i++) {
            const struct k_fetch_resp_topic_part *p = &a->partitions[i];
            ck_assert_int_eq(p->error_code, 0);
            left -= p->records.n > 0 && !served[p->partition];
            served[p->partition] = served[p->partition] || p->records.n > 0;
        }
        say_forget(s);
        ck_assert_int_lt(rounds++, most_rounds);
    }
    printf("RESULT %d partitions %s served in %d rounds\n", N, cold ? "on the disk" : "in memory", rounds);
    ck_assert(!cold || mark_count("read.cold") > 0);
    say_close(s);
    end();
}

START_TEST(S7_21_no_partition_starves_behind_max_bytes) { serve_all(false, 100000, 45); }
END_TEST

START_TEST(S7_21_no_partition_starves_behind_the_most_that_one_answer_takes) { serve_all(false, 50 << 20, 6); }
END_TEST

START_TEST(S7_21_no_partition_starves_on_the_disk) { serve_all(true, 50 << 20, 60); }
END_TEST

/* Forty readers that always have something to read keep all the memory for replies in use; an answer larger than that memory gets its turn. */
START_TEST(BR_060_a_large_answer_is_not_starved_by_busy_readers) {
    begin(1);
    rig_set(&r, "queued.max.request.bytes", "1048576");
    rig_start(&r);
    struct say *s = say_open(&r), *busy[40];
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    ck_assert_int_eq(say_create(s, "wide", 8000), 0);
    say_produce(s, T0, 1, say_batch(s, &(struct say_batch){.value_n = 900000}));
    ck_assert_int_eq(say_produced(s)->error_code, 0);
    struct many m = {.n = 1, .step = 1, .max_bytes = 1 << 20, .part_bytes = 1 << 20};
    for (int i = 0; i < 40; i++) {
        busy[i] = say_open(&r);
        for (int k = 0; k < 8; k++) {
            say_send(busy[i], K_FETCH, 12, fetch_many(busy[i], &m));
        }
    }
    rig_run(&r, 20);
    struct k_metadata_req all = {.topics_n = -1};
    say_send(s, K_METADATA, 12, &all);
    ms from = rig_now(&r);
    for (int turn = 0; !say_has(s); turn++) {
        for (int i = 0; i < 40; i++) {
            world_client_pause(busy[i]->c, i % 4 != turn % 4);     /* replies are on their way at any time */
            while (say_has(busy[i])) {             /* read, and ask for more */
                ck_assert_int_eq(take(busy[i])->partitions[0].error_code, 0);
                say_forget(busy[i]);
                say_send(busy[i], K_FETCH, 12, fetch_many(busy[i], &m));
            }
        }
        rig_run(&r, 1);
        ck_assert_int_lt(rig_now(&r) - from, 3000);
    }
    ck_assert_int_eq(((const struct k_metadata_resp *)say_take(s))->topics_n, 2);
    for (int i = 0; i < 40; i++) {
        say_close(busy[i]);
    }
    say_close(s);
    end();
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("review_fetch");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, T63_a_fetch_of_100000_partitions_waits_in_little_memory_and_answers_bounded);
    tcase_add_test(tc, T63_fetches_of_very_many_partitions_that_wait_have_a_bound);
    tcase_add_test(tc, S7_20_chosen_and_repeated_partition_numbers_are_answered_once_each);
    tcase_add_test(tc, S7_21_no_partition_starves_behind_max_bytes);
    tcase_add_test(tc, S7_21_no_partition_starves_behind_the_most_that_one_answer_takes);
    tcase_add_test(tc, S7_21_no_partition_starves_on_the_disk);
    tcase_add_test(tc, BR_060_a_large_answer_is_not_starved_by_busy_readers);
    return run_suite("review_fetch", tc);
}
