/* Goal: DeleteRecords waits for what it deletes and for the new log start, and no longer than it was told to (S4.17, D6); the topic may go meanwhile; retention looks at all
 * logs without holding up a turn (S18.3); DescribeLogDirs counts; a stop that fails is told. Method: a whole broker on the simulated machine; syncs are held, fail, or are slow. */
#include <string.h>

#include "base/mark.h"
#include "base/run.h"
#include "say.h"
#include "wire/k_delete_records.h"
#include "wire/k_describe_log_dirs.h"

static struct rig r;

#define T(part_) ((struct say_to){"t", (part_)})

static void begin(uint64_t seed, uint32_t shards) {
    rig_init(&r, seed, shards);
    rig_set(&r, "log.retention.ms", "-1");
}

static void send_delete(struct say *s, int32_t part, int64_t to, int32_t timeout) {
    struct k_delete_records_req_topic_part p = {.index = part, .offset = to};
    struct k_delete_records_req_topic t = {.name = SPAN_LIT("t"), .partitions = &p, .partitions_n = 1};
    struct k_delete_records_req q = {.topics = &t, .topics_n = 1, .timeout_ms = timeout};
    say_send(s, K_DELETE_RECORDS, 2, &q);
}

static const struct k_delete_records_resp_topic_part *deleted(struct say *s) {
    const struct k_delete_records_resp *a = say_take(s);
    return &a->topics[0].partitions[0];
}

static void produce(struct say *s, int32_t part, int16_t acks) {
    say_produce(s, T(part), acks, say_batch(s, &(struct say_batch){.records = 2}));
    ck_assert_int_eq(say_produced(s)->error_code, 0);
}

static int64_t earliest(struct say *s, int32_t part) {
    say_list(s, T(part), -2);
    return say_listed(s)->offset;
}

/* Nothing is answered before the disk has it: the records (acks=1, not synced yet), then the start. */
START_TEST(D6_S4_17_waits_for_the_disk) {
    begin(50, 1);
    rig_set(&r, "store.sync.age.ms", "60000");
    rig_start(&r);
    struct say *s = say_open(&r), *other = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    produce(s, 0, 1);
    world_node_hold_syncs(r.n, true);
    send_delete(s, 0, -1, 60000);
    rig_run(&r, 2000);
    ck_assert(!say_has(s));
    ck_assert_int_eq(earliest(other, 0), 0);       /* and nobody is told earlier */
    world_node_hold_syncs(r.n, false);
    ck_assert_int_eq(deleted(s)->low_watermark, 2);
    ck_assert_int_eq(earliest(other, 0), 2);
    rig_crash(&r, true);
    say_close(s);
    say_close(other);
    rig_start(&r);
    s = say_open(&r);
    ck_assert_int_eq(earliest(s, 0), 2);
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

/* Time is over: 7, once, and the start may still move. */
START_TEST(S4_17_timeout) {
    for (int acked = 0; acked < 2; acked++) {      /* it waits for the records, or for the marks */
        begin(51, 2);
        rig_start(&r);
        struct say *s = say_open(&r), *other = say_open(&r);
        ck_assert_int_eq(say_create(s, "t", 2), 0);
        if (acked) {
            produce(s, 0, -1);
        }
        rig_run(&r, 3000);                         /* marks and checkpoints of the creation are done */
        world_node_hold_syncs(r.n, true);
        if (!acked) {
            produce(s, 0, 1);
        }
        ms began = rig_now(&r);
        send_delete(s, 0, 2, 700);
        ck_assert_int_eq(deleted(s)->error_code, 7);
        ck_assert_int_ge(rig_now(&r) - began, 699);
        ck_assert_int_lt(rig_now(&r) - began, 1500);
        world_node_hold_syncs(r.n, false);
        rig_run(&r, 3000);
        ck_assert_int_eq(earliest(other, 0), acked ? 2 : 0);       /* what was cancelled before it began to move stays */
        send_delete(s, 0, 1, 10000);
        ck_assert_int_eq(deleted(s)->low_watermark, acked ? 2 : 1);
        say_close(s);
        say_close(other);
        rig_stop(&r);
        rig_done(&r);
    }
}
END_TEST

/* The topic goes, the connection goes, the broker stops: nothing is left behind (the world looks at the end). */
START_TEST(S4_17_overtaken) {
    for (int how = 0; how < 3; how++) {
        begin(52, 1);
        rig_start(&r);
        struct say *s = say_open(&r), *other = say_open(&r);
        ck_assert_int_eq(say_create(s, "t", 1), 0);
        produce(s, 0, -1);
        rig_run(&r, 3000);
        world_node_hold_syncs(r.n, true);
        send_delete(s, 0, -1, 60000);
        rig_run(&r, 50);
        if (how == 0) {
            say_delete_send(other, "t");
            rig_run(&r, 50);
            world_node_hold_syncs(r.n, false);
            ck_assert_int_eq(say_deleted(other), 0);
            int16_t code = deleted(s)->error_code;
            ck_assert(code == 3 || code == 0);
        } else if (how == 1) {
            say_reset(s);
            rig_run(&r, 50);
            world_node_hold_syncs(r.n, false);
            rig_run(&r, 500);
        } else {
            rig_stop_begin(&r);
            rig_run(&r, 50);
            world_node_hold_syncs(r.n, false);
            ck_assert_int_lt(rig_stop_wait(&r), 5000);
        }
        if (how != 1) {
            say_close(s);
        }
        say_close(other);
        if (how < 2) {
            rig_stop(&r);
        }
        rig_done(&r);
    }
}
END_TEST

/* One round over all logs: by size, over more partitions than a turn looks at, several shards; a restart in between leaves closed segments unread. */
START_TEST(S18_4_rounds_over_many_logs) {
    enum { PARTS = 150 };
    begin(53, 2);
    rig_set(&r, "log.retention.check.interval.ms", "500");
    rig_set(&r, "log.segment.bytes", "1000");
    rig_set(&r, "log.retention.bytes", "1000");
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", PARTS), 0);
    for (int32_t p = 0; p < PARTS; p++) {
        for (int i = 0; i < 4; i++) {
            say_produce(s, T(p), 1, say_batch(s, &(struct say_batch){.value_n = 700}));
            ck_assert_int_eq(say_produced(s)->error_code, 0);
        }
        say_forget(s);
    }
    for (int restart = 0; restart < 2; restart++) {
        rig_run(&r, 3000);
        for (int32_t p = 0; p < PARTS; p++) {
            ck_assert_int_eq(earliest(s, p), 2);       /* two batches of a segment each remain: at least 1000 bytes */
        }
        say_forget(s);
        if (restart == 0) {
            say_close(s);
            rig_stop(&r);
            rig_set(&r, "log.retention.bytes", "1");
            rig_start(&r);
            s = say_open(&r);
            rig_run(&r, 3000);
            for (int32_t p = 0; p < PARTS; p++) {
                ck_assert_msg(earliest(s, p) == 3, "partition %d", p);
            }
            rig_set(&r, "log.retention.bytes", "0");
            rig_crash(&r, true);
            say_close(s);
            rig_start(&r);
            s = say_open(&r);
            rig_run(&r, 3000);
            for (int32_t p = 0; p < PARTS; p++) {
                ck_assert_int_eq(earliest(s, p), 4);
                say_produce(s, T(p), -1, say_batch(s, &(struct say_batch){.value_n = 700}));
                ck_assert_int_eq(say_produced(s)->base_offset, 4);
            }
            break;
        }
    }
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

START_TEST(describe_log_dirs_of_many) {
    begin(54, 4);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 500), 0);
    produce(s, 77, -1);
    struct k_describe_log_dirs_req q = {.topics_n = -1};
    const struct k_describe_log_dirs_resp *a = say_ask(s, K_DESCRIBE_LOG_DIRS, 4, &q);
    ck_assert_int_eq(a->error_code, 0);
    ck_assert_int_eq(a->results[0].topics_n, 1);
    ck_assert_int_eq(a->results[0].topics[0].partitions_n, 500);
    ck_assert_int_ge(a->results[0].usable_bytes, 0);
    for (int32_t i = 0; i < 500; i++) {
        const struct k_describe_log_dirs_resp_result_topic_part *p = &a->results[0].topics[0].partitions[i];
        ck_assert_int_eq(p->index, i);
        ck_assert(i == 77 ? p->size > 0 : p->size == 0);
    }
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

static err stop_err;

static void on_stopped(void *u) {
    (void)u;
    stop_err = r.node->stop_err;
    r.is_stopped = true;
}

static void watch_stop(struct rig *rig) { rig->node->on_stopped = on_stopped; }

/* clean=yes is said of a clean stop only. */
START_TEST(a_stop_that_fails_is_told) {
    for (int fails = 0; fails < 2; fails++) {
        begin(55, 2);
        rig_start(&r);
        struct say *s = say_open(&r);
        ck_assert_int_eq(say_create(s, "t", 2), 0);
        produce(s, 0, -1);
        produce(s, 1, -1);
        rig_run(&r, 3000);
        rig_call(&r, watch_stop);
        r.errors_expected = true;
        if (fails) {
            rig_fail_op(&r, (struct rig_fail){.op = DISK_WRITE, .in = "marks.1", .k = 1, .e = ERR_NOSPACE});
        }
        stop_err = ERR_INTERNAL;
        say_close(s);
        rig_stop(&r);
        ck_assert_int_eq(stop_err, fails ? ERR_NOSPACE : ERR_OK);
        rig_start(&r);
        s = say_open(&r);
        ck_assert_int_eq(say_latest(s, T(1)), 2);
        say_close(s);
        rig_stop(&r);
        rig_done(&r);
    }
}
END_TEST

int main(void) {
    return RUN("life", D6_S4_17_waits_for_the_disk, S4_17_timeout, S4_17_overtaken, S18_4_rounds_over_many_logs, describe_log_dirs_of_many,
               a_stop_that_fails_is_told);
}
