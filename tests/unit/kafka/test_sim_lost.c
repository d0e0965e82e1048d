/* Goal: a partition whose log recovery gave up answers KAFKA_STORAGE_ERROR (56) to every question,
 * never as if it were empty: a consumer told "out of range" goes back to the start, a producer
 * told "out of order" gives up (S7.7, S6.2, S8.1, S4.20); one that a failed sync fenced is read on
 * below its high watermark and takes nothing more. Method: a whole broker on the simulated
 * machine, with a damaged or unreadable file. */
#include <string.h>

#include "base/run.h"
#include "say.h"

#define LOG0 "t-0/00000000000000000000.log"
#define T0 ((struct say_to){"t", 0})
#define STORAGE 56

static struct rig r;
static const uint32_t shard_counts[] = {1, 2};

static int16_t epoch_code(struct say *s) {
    struct k_offset_for_leader_epoch_req_topic_part p = {.partition = 0, .current_leader_epoch = -1, .leader_epoch = 0};
    struct k_offset_for_leader_epoch_req_topic t = {.topic = SPAN_LIT("t"), .partitions = &p, .partitions_n = 1};
    struct k_offset_for_leader_epoch_req q = {.replica_id = -1, .topics = &t, .topics_n = 1};
    const struct k_offset_for_leader_epoch_resp *a = say_ask(s, K_OFFSET_FOR_LEADER_EPOCH, 4, &q);
    return a->topics[0].partitions[0].error_code;
}

static int16_t list_code(struct say *s, int64_t ts) {
    say_list(s, T0, ts);
    return say_listed(s)->error_code;
}

static int16_t fetch_code(struct say *s, int64_t from) {
    say_fetch(s, T0, from, 100, 1);
    return say_fetched(s)->error_code;
}

/* Partition 0 holds three batches of one producer, below the durable mark; the broker is down,
 * killed. Returns the producer's id. */
static int64_t three_batches(void) {
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 2), 0);
    int64_t pid = say_producer_id(s);
    for (int i = 0; i < 3; i++) {
        say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.pid = pid + 1, .seq = i}));
        ck_assert_int_eq(say_produced(s)->error_code, 0);
    }
    rig_run(&r, 3000);             /* a checkpoint */
    say_close(s);
    rig_crash(&r, false);
    return pid;
}

static void check_lost(int64_t pid) {
    static const int64_t times[] = {-1, -2, -3, 0, 5};
    struct say *s = say_open(&r);
    for (int64_t from = 0; from <= 4; from++) {
        ck_assert_int_eq(fetch_code(s, from), STORAGE);
    }
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        ck_assert_int_eq(list_code(s, times[i]), STORAGE);
    }
    ck_assert_int_eq(epoch_code(s), STORAGE);
    for (int seq = 1; seq < 5; seq++) {            /* known, next, and with a gap */
        say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.pid = pid + 1, .seq = seq}));
        ck_assert_int_eq(say_produced(s)->error_code, STORAGE);
    }
    say_produce(s, T0, 1, say_batch(s, &(struct say_batch){0}));
    ck_assert_int_eq(say_produced(s)->error_code, STORAGE);
    say_produce(s, (struct say_to){"t", 1}, -1, say_batch(s, &(struct say_batch){0}));
    ck_assert_int_eq(say_produced(s)->error_code, 0);                  /* the others are served */
    say_close(s);
}

START_TEST(a_damaged_log_answers_56) {
    rig_init(&r, 700, shard_counts[_i]);
    rig_start(&r);
    int64_t pid = three_batches();
    ck_assert_int_eq(world_node_corrupt(r.n, LOG0, 65, 0x10), ERR_OK);
    r.errors_expected = true;
    rig_start(&r);
    check_lost(pid);
    rig_stop(&r);
    rig_start(&r);                 /* a clean stop does not make it well */
    check_lost(pid);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

START_TEST(an_unreadable_log_answers_56_and_is_whole_after_the_next_start) {
    rig_init(&r, 701, shard_counts[_i]);
    rig_start(&r);
    int64_t pid = three_batches();
    r.errors_expected = true;
    rig_fail_op(&r, (struct rig_fail){.op = DISK_READ, .in = LOG0, .k = 1, .e = ERR_IO});
    rig_start(&r);
    ck_assert_uint_eq(r.error_lines, 1);
    ck_assert_msg(strstr(r.error_line, "t-0") != NULL, "%s", r.error_line);
    check_lost(pid);
    rig_crash(&r, false);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_latest(s, T0), 3);
    say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.pid = pid + 1, .seq = 3}));
    ck_assert_int_eq(say_produced(s)->error_code, 0);
    ck_assert_int_eq(fetch_code(s, 3), 0);
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

START_TEST(T13_a_log_that_a_failed_sync_fenced_is_read_on_and_takes_nothing) {
    rig_init(&r, 702, shard_counts[_i]);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    int64_t pid = say_producer_id(s);
    say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.pid = pid + 1}));
    ck_assert_int_eq(say_produced(s)->error_code, 0);
    rig_run(&r, 3000);
    r.errors_expected = true;
    world_node_fail_op(r.n, DISK_SYNC, 1, ERR_IO);
    /* the failed one; then the next, which is a gap now, and one more */
    for (int seq = 1; seq < 4; seq++) {
        say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.pid = pid + 1, .seq = seq}));
        ck_assert_int_eq(say_produced(s)->error_code, STORAGE);
    }
    ck_assert_int_eq(fetch_code(s, 0), 0);
    ck_assert_int_eq(say_latest(s, T0), 1);
    ck_assert_int_eq(epoch_code(s), 0);
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("sim_lost");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, a_damaged_log_answers_56, 0, 2);
    tcase_add_loop_test(tc, an_unreadable_log_answers_56_and_is_whole_after_the_next_start, 0, 2);
    tcase_add_loop_test(tc, T13_a_log_that_a_failed_sync_fenced_is_read_on_and_takes_nothing, 0, 2);
    return run_suite("sim_lost", tc);
}
