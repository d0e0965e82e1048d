/* Goal: a topic may go at any moment of whatever its partitions are busy with: reads from the disk, an index that is built again, look-ups by
 * time, appends in every state, parked readers. Everyone gets one answer, and nothing is touched after it is gone (S4.13, S5.23, BR-042).
 * Method: a whole broker on the simulated machine with a slow disk; the deletion comes a little later each time; worth most with a sanitizer. */
#include <stdio.h>
#include <string.h>

#include "base/mark.h"
#include "base/run.h"
#include "say.h"

static struct rig r;

static void begin(uint32_t shards, uint64_t seed) {
    rig_init(&r, seed, shards);
    rig_set(&r, "store.tail.bytes", "1048576");
    rig_start(&r);
}

static void end(void) {
    rig_stop(&r);
    rig_done(&r);
}

static void fill(struct say *s, int32_t parts, int batches) {
    for (int i = 0; i < batches; i++) {
        for (int32_t p = 0; p < parts; p++) {
            say_produce(s, (struct say_to){"t", p}, -1, say_batch(s, &(struct say_batch){.value_n = 5000, .ts = 1000 * (i + 1)}));
        }
        for (int32_t p = 0; p < parts; p++) {
            ck_assert_int_eq(say_produced(s)->error_code, 0);
        }
        say_forget(s);
    }
}

static bool spoil(const char *path) {
    struct disk_req rq = {.op = DISK_STAT, .path = path};
    if (disk_call(world_node_disk(r.n), &rq) != ERR_OK || rq.size < 16) {
        return false;
    }
    ck_assert_int_eq(world_node_corrupt(r.n, path, 3, 0x80), ERR_OK);
    return true;
}

/* Every index is nonsense: the first cold read of each partition builds it again from its segment; the topic goes while it does. */
START_TEST(S4_13_a_topic_goes_while_its_indexes_are_built_again) {
    enum { P = 4 };
    uint64_t gone = 0, read = 0;
    for (int delay = 0; delay < 40; delay++) {
        begin(2, 100 + (uint64_t)delay);
        struct say *s = say_open(&r);
        ck_assert_int_eq(say_create(s, "t", P), 0);
        fill(s, P, 120);
        say_close(s);
        rig_stop(&r);
        int spoilt = 0;
        for (int p = 0; p < P; p++) {
            char path[64];
            snprintf(path, sizeof path, "t-%d/00000000000000000000.index", p);
            spoilt += spoil(path);
        }
        ck_assert_int_eq(spoilt, P);
        rig_start(&r);
        world_faults_set(r.w, &(struct world_faults){.disk_us_max = 5000});
        struct say *other = say_open(&r), *c[P];
        for (int32_t p = 0; p < P; p++) {
            c[p] = say_open(&r);
            say_fetch(c[p], (struct say_to){"t", p}, 60, 0, 1);
        }
        rig_run(&r, delay);
        say_delete_send(other, "t");
        for (int32_t p = 0; p < P; p++) {
            const struct k_fetch_resp_topic_part *a = say_fetched(c[p]);
            ck_assert_msg(a->error_code == 0 || a->error_code == 3, "code %d", a->error_code);
            gone += a->error_code == 3;
            read += a->error_code == 0;
            say_close(c[p]);
        }
        ck_assert_int_eq(say_deleted(other), 0);
        rig_run(&r, 200);
        say_close(other);
        end();
    }
    printf("RESULT indexes built again: %lu reads answered, %lu gone, %lu built\n", read, gone, mark_count("cold.rebuilt"));
    ck_assert_uint_gt(gone, 0);
    ck_assert_uint_gt(read, 0);
    ck_assert_uint_gt(mark_count("cold.rebuilt"), 0);
}
END_TEST

/* Everything at once, on 1, 2 and 4 shards, and the name is used again at once. */
START_TEST(BR_042_a_topic_goes_under_everything_at_once) {
    enum { P = 6, N = 10 };
    uint64_t codes[4] = {0};
    for (int delay = 0; delay < 30; delay++) {
        begin(1u << _i, 300 + (uint64_t)delay);
        struct say *s = say_open(&r), *other = say_open(&r), *c[N];
        ck_assert_int_eq(say_create(s, "t", P), 0);
        fill(s, P, 60);
        int64_t pid = say_producer_id(s);
        world_faults_set(r.w, &(struct world_faults){.disk_us_max = 4000, .sync_us_max = 20000});
        for (int i = 0; i < N; i++) {
            c[i] = say_open(&r);
            for (int32_t p = 0; p < P; p++) {
                struct say_to to = {"t", p};
                switch (i % 5) {
                case 0: say_produce(c[i], to, -1, say_batch(c[i], &(struct say_batch){.value_n = 20000, .pid = pid + 1, .seq = i / 5})); break;
                case 1: say_produce(c[i], to, 1, say_batch(c[i], &(struct say_batch){.value_n = 200000})); break;
                case 2: say_fetch(c[i], to, p * 5, 60000, p == 0 ? 50 << 20 : 1); break;
                case 3: say_list(c[i], to, p % 2 == 0 ? 30500 : -1); break;
                default: say_fetch(c[i], to, 60 + p % 2, 60000, 1);
                }
            }
        }
        rig_run(&r, delay);
        say_delete_send(other, "t");
        say_create_send(other, "t", 1);
        ck_assert_int_eq(say_deleted(other), 0);
        ck_assert_int_eq(say_created(other), 0);
        for (int i = 0; i < N; i++) {
            for (int32_t p = 0; p < P; p++) {
                int16_t e = i % 5 < 2 ? say_produced(c[i])->error_code : i % 5 == 3 ? say_listed(c[i])->error_code : say_fetched(c[i])->error_code;
                ck_assert_msg(e == 0 || e == 1 || e == 3 || e == 45, "connection %d, request %d: code %d", i, p, e);
                codes[e == 45 ? 2 : e]++;
            }
            say_close(c[i]);
        }
        say_close(s);
        say_close(other);
        end();
    }
    printf("RESULT under everything at once: %lu served, %lu out of range, %lu gaps, %lu gone\n", codes[0], codes[1], codes[2], codes[3]);
    ck_assert_uint_gt(codes[0], 0);
    ck_assert_uint_gt(codes[3], 0);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("review_delete");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, S4_13_a_topic_goes_while_its_indexes_are_built_again);
    tcase_add_loop_test(tc, BR_042_a_topic_goes_under_everything_at_once, 0, 3);
    return run_suite("review_delete", tc);
}
