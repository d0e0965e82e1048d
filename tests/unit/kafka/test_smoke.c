/* Goal: the whole broker boots on the simulated machine with 1, 2 and 4 shards, takes a topic, a record and a reader, and stops cleanly
 * with nothing left over. Method: one client through every step. */
#include "base/run.h"
#include "say.h"

static const uint32_t shard_counts[] = {1, 2, 4};

START_TEST(boots_serves_and_stops) {
    struct rig r;
    rig_init(&r, 1, shard_counts[_i]);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 4), 0);
    for (int32_t p = 0; p < 4; p++) {
        say_produce(s, (struct say_to){"t", p}, -1, say_batch(s, &(struct say_batch){.records = 3}));
        const struct k_produce_resp_topic_part *a = say_produced(s);
        ck_assert_int_eq(a->error_code, 0);
        ck_assert_int_eq(a->base_offset, 0);
        ck_assert_int_eq(say_read_all(s, (struct say_to){"t", p}, 0, NULL, NULL), 3);
        ck_assert_int_eq(say_latest(s, (struct say_to){"t", p}), 3);
    }
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("smoke");
    tcase_add_loop_test(tc, boots_serves_and_stops, 0, 3);
    return run_suite("smoke", tc);
}
