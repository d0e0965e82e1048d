/* Goal: what starting and stopping cost does not grow, or hardly grows, with the number of logs (P8, P12, BR-063). Method: more logs than a stop's
 * checkpoint takes in one batch; the disk requests of the simulated node are counted. */
#define RIG_LOGS_MAX 2500
#include "rig.h"

static struct rig r;               /* too large for a stack */

static void begin(bool with_producers) {
    rig_init(&r, 6);
    for (int i = 0; i < RIG_LOGS_MAX; i++) {
        rig_log(&r, "m", i);
    }
    r.with_producers = with_producers;
    ck_assert_int_eq(rig_start(&r), ERR_OK);
}

static void all_append(void) {
    for (uint32_t i = 0; i < RIG_LOGS_MAX; i++) {
        ck_assert_int_eq(rig_append(&r, &r.logs[i], 1, 10, true), ERR_OK);
    }
    rig_settle(&r);
    rig_run(&r, 1000);             /* closes of what files_max has no room for are behind the last write */
}

static uint64_t stop_ops(void) {
    uint64_t before = world_node_disk_ops(r.n);
    ck_assert(rig_stop(&r));
    return world_node_disk_ops(r.n) - before;
}

static uint64_t start_ops(void) {
    uint64_t before = world_node_disk_ops(r.n);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    return world_node_disk_ops(r.n) - before;
}

/* A small log has nothing to say beyond its mark: a stop writes none, and the next start looks at none of them. */
START_TEST(br063_p12_many_small_logs) {
    begin(false);
    all_append();
    ck_assert_uint_le(stop_ops(), 200);            /* of these one for each descriptor that is open (files_max) */
    ck_assert_uint_le(start_ops(), 40);
    rig_check_recovered(&r);
    rig_done(&r);
}
END_TEST

/* With producers: a stop puts their snapshot and leader-epoch-checkpoint. */
START_TEST(br063_many_small_logs_with_producers) {
    begin(true);
    all_append();
    ck_assert_uint_le(stop_ops(), 2 * RIG_LOGS_MAX + 200);
    ck_assert_uint_le(start_ops(), 3 * RIG_LOGS_MAX + 40);     /* a snapshot: open, read, close */
    rig_check_recovered(&r);
    rig_done(&r);
}
END_TEST

/* After kill -9: a listing, whose directory it is (three requests), and the bytes above the mark (open, forget, read, close; seven when they were read
 * ahead); one sync for all that was cut. */
START_TEST(p12_many_logs_after_a_kill) {
    begin(false);
    all_append();
    ck_assert(rig_stop(&r));
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    all_append();
    rig_crash(&r, false);
    ck_assert_uint_le(start_ops(), 19 * RIG_LOGS_MAX / 2 + 60);
    rig_check_recovered(&r);
    ck_assert_uint_le(stop_ops(), 200);
    ck_assert_uint_le(start_ops(), 40);
    rig_done(&r);
}
END_TEST

int main(void) {
    return RIG_RUN("many", br063_p12_many_small_logs, br063_many_small_logs_with_producers, p12_many_logs_after_a_kill);
}
