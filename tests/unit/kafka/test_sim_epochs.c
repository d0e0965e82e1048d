/* Goal: the leader epoch tells consumers where a log was cut: the current one ends at the log end
 * also before its first batch (S4.20), and an offset that may have been seen never gets another
 * record in the same epoch, also where records are seen before they are synced (write.caching;
 * S19.5, D6). Method: a whole broker on the simulated machine, crashed and started again. */
#include <string.h>

#include "base/run.h"
#include "say.h"

#define T0 ((struct say_to){"t", 0})

static struct rig r;

static struct k_offset_for_leader_epoch_resp_topic_part *epoch_end(struct say *s, int32_t asked) {
    struct k_offset_for_leader_epoch_req_topic_part p = {.partition = 0, .current_leader_epoch = -1, .leader_epoch = asked};
    struct k_offset_for_leader_epoch_req_topic t = {.topic = SPAN_LIT("t"), .partitions = &p, .partitions_n = 1};
    struct k_offset_for_leader_epoch_req q = {.replica_id = -1, .topics = &t, .topics_n = 1};
    const struct k_offset_for_leader_epoch_resp *a = say_ask(s, K_OFFSET_FOR_LEADER_EPOCH, 4, &q);
    ck_assert_int_eq(a->topics[0].partitions[0].error_code, 0);
    return a->topics[0].partitions;
}

static void produce(struct say *s, int64_t offset) {
    say_produce(s, T0, -1, say_batch(s, &(struct say_batch){0}));
    const struct k_produce_resp_topic_part *p = say_produced(s);
    ck_assert_int_eq(p->error_code, 0);
    ck_assert_int_eq(p->base_offset, offset);
}

static int32_t epoch_of(struct say *s) { return say_describe(s, "t")->partitions[0].leader_epoch; }

START_TEST(S4_20_the_current_epoch_ends_at_the_log_end_before_its_first_batch) {
    rig_init(&r, 71, 1);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    produce(s, 0);
    rig_crash(&r, false);
    say_close(s);
    for (int i = 0; i < 4; i++) {
        rig_start(&r);
        s = say_open(&r);
        ck_assert_int_eq(epoch_of(s), 1);
        ck_assert_int_eq(epoch_end(s, 1)->leader_epoch, 1);
        ck_assert_int_eq(epoch_end(s, 1)->end_offset, 1);
        ck_assert_int_eq(epoch_end(s, 0)->end_offset, 1);
        say_close(s);
        rig_run(&r, 3000);
        if (i % 2 == 0) {
            rig_stop(&r);
        } else {
            rig_crash(&r, true);   /* nothing lies above the mark: not raised again */
        }
    }
    rig_start(&r);
    s = say_open(&r);
    produce(s, 1);
    ck_assert_int_eq(epoch_end(s, 1)->end_offset, 2);
    ck_assert_int_eq(epoch_end(s, 0)->end_offset, 1);
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

/* What a reader saw and the power cut took leaves no trace on the disk: the epoch rises all the
 * same. */
START_TEST(S19_5_epochs_of_logs_with_write_caching_rise_after_every_crash) {
    rig_init(&r, 72, 1);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create_with(s, "t", "write.caching", "true"), 0);
    produce(s, 0);
    rig_run(&r, 3000);             /* synced, and a mark */
    world_node_hold_syncs(r.n, true);
    int64_t end = 1;
    int32_t epoch = 0;
    for (int i = 0; i < 8; i++) {
        produce(s, end);
        say_fetch(s, T0, end, 100, 1);
        ck_assert_uint_gt(say_fetched(s)->records.n, 0);       /* seen, and on no disk */
        rig_crash(&r, true);
        world_node_hold_syncs(r.n, false);
        say_close(s);
        rig_start(&r);
        s = say_open(&r);
        int32_t now = epoch_of(s);
        ck_assert_int_eq(now, epoch + 1);
        end = say_latest(s, T0);
        /* the reader hears that its position is cut off, or still right */
        ck_assert_int_eq(epoch_end(s, epoch)->end_offset, end);
        epoch = now;
        rig_run(&r, 3000);
        world_node_hold_syncs(r.n, true);
    }
    world_node_hold_syncs(r.n, false);
    say_close(s);
    rig_stop(&r);
    rig_start(&r);
    s = say_open(&r);
    ck_assert_int_eq(epoch_of(s), epoch);          /* a clean stop raises nothing */
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

int main(void) {
    return RUN("sim_epochs", S4_20_the_current_epoch_ends_at_the_log_end_before_its_first_batch,
               S19_5_epochs_of_logs_with_write_caching_rise_after_every_crash);
}
