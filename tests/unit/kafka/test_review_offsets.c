/* Goal: look-ups by time take turns: very many of one request read in bounded memory, each is answered right and once (S8.3, S8.6, D12),
 * also when the topic goes meanwhile (S4.13).
 * Method: a whole broker on the simulated machine, scripted clients, the node's live memory. */
#include <stdio.h>

#include "base/run.h"
#include "say.h"

static struct rig r;

static void begin(uint32_t shards) { rig_init(&r, 919 + shards, shards); }

static void end(void) {
    rig_stop(&r);
    rig_done(&r);
}

/* One batch of two records, at 1000 and 2000 ms, in each partition. */
static void fill(struct say *s, int32_t n, size_t bytes) {
    ck_assert_int_eq(say_create(s, "t", n), 0);
    for (int32_t i = 0; i < n; i++) {
        struct record_build rb;
        record_build_init(&rb, &s->arena, CODEC_NONE);
        span value = span_of(arena_zalloc(&s->arena, bytes), bytes), batch;
        record_build_add(&rb, 1000, SPAN_NULL, value, NULL, 0);
        record_build_add(&rb, 2000, SPAN_NULL, value, NULL, 0);
        ck_assert_int_eq(record_build_finish(&rb, &batch), ERR_OK);
        say_produce(s, (struct say_to){"t", i}, -1, batch);
        if (i % 50 == 49 || i == n - 1) {
            for (int32_t k = i / 50 * 50; k <= i; k++) {
                ck_assert_int_eq(say_produced(s)->error_code, 0);
            }
            say_forget(s);
        }
    }
}

static void list_all(struct say *s, int32_t n, int64_t ts) {
    struct k_list_offsets_req q;
    struct k_list_offsets_req_topic t;
    k_list_offsets_req_init(&q);
    k_list_offsets_req_topic_init(&t);
    t.name = SPAN_LIT("t");
    t.partitions_n = n;
    t.partitions = arena_zalloc(&s->arena, (size_t)n * sizeof *t.partitions);
    for (int32_t i = 0; i < n; i++) {
        k_list_offsets_req_topic_part_init(&t.partitions[i]);
        t.partitions[i].index = i;
        t.partitions[i].timestamp = ts;
        t.partitions[i].current_leader_epoch = -1;
    }
    q.replica_id = -1;
    q.topics = &t;
    q.topics_n = 1;
    say_send(s, K_LIST_OFFSETS, 7, &q);
}

static void check_all(struct say *s, int32_t n, int64_t offset, int64_t ts) {
    const struct k_list_offsets_resp *a = say_take(s);
    ck_assert_int_eq(a->topics[0].partitions_n, n);
    for (int32_t i = 0; i < n; i++) {
        const struct k_list_offsets_resp_topic_part *p = &a->topics[0].partitions[i];
        ck_assert_int_eq(p->error_code, 0);
        ck_assert_int_eq(p->index, i);
        ck_assert_int_eq(p->offset, offset);
        ck_assert_int_eq(p->timestamp, ts);
    }
    say_forget(s);
}

START_TEST(D12_look_ups_by_time_of_one_request_read_in_bounded_memory) {
    enum { N = 400 };
    begin(1 + (uint32_t)_i);
    rig_set(&r, "store.tail.bytes", "1048576");
    rig_start(&r);
    struct say *s = say_open(&r), *other = say_open(&r);
    fill(s, N, 100000);
    size_t idle = rig_live(&r), most = 0;
    world_faults_set(r.w, &(struct world_faults){.disk_us_max = 5000});
    list_all(s, N, 1500);
    list_all(other, N, -3);
    while (!say_has(s) || !say_has(other)) {
        rig_run(&r, 1);
        size_t live = rig_live(&r);
        most = live > most ? live : most;
    }
    printf("RESULT 800 look-ups by time on the disk took %zu KB of memory\n", (most - idle) >> 10);
    ck_assert_uint_lt(most, idle + (size_t)(1 + _i) * (32 << 20));
    check_all(s, N, 1, 2000);
    check_all(other, N, 1, 2000);
    say_close(s);
    say_close(other);
    end();
}
END_TEST

START_TEST(S8_6_thousands_of_look_ups_in_memory) {
    enum { N = 3000 };
    begin(2);
    rig_start(&r);
    struct say *s = say_open(&r);
    fill(s, N, 100);
    list_all(s, N, 1);
    check_all(s, N, 0, 1000);
    list_all(s, N, 1001);
    check_all(s, N, 1, 2000);
    list_all(s, N, 3000);
    check_all(s, N, -1, -1);
    say_close(s);
    end();
}
END_TEST

/* The topic goes at any point of it: 0 or 3 for each, once. */
START_TEST(S4_13_a_topic_that_goes_while_look_ups_wait) {
    enum { N = 200 };
    int gone = 0, found = 0;
    for (int delay = 0; delay < 60; delay += 3) {
        begin(2);
        rig_set(&r, "store.tail.bytes", "1048576");
        rig_start(&r);
        struct say *s = say_open(&r), *other = say_open(&r);
        fill(s, N, 20000);
        world_faults_set(r.w, &(struct world_faults){.disk_us_max = 5000});
        list_all(s, N, 1500);
        rig_run(&r, delay);
        say_delete_send(other, "t");
        const struct k_list_offsets_resp *a = say_take(s);
        for (int32_t i = 0; i < N; i++) {
            const struct k_list_offsets_resp_topic_part *p = &a->topics[0].partitions[i];
            ck_assert(p->error_code == 3 || (p->error_code == 0 && p->offset == 1));
            gone += p->error_code == 3;
            found += p->error_code == 0;
        }
        ck_assert_int_eq(say_deleted(other), 0);
        say_close(s);
        say_close(other);
        end();
    }
    ck_assert_int_gt(gone, 0);
    ck_assert_int_gt(found, 0);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("review_offsets");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, D12_look_ups_by_time_of_one_request_read_in_bounded_memory, 0, 2);
    tcase_add_test(tc, S8_6_thousands_of_look_ups_in_memory);
    tcase_add_test(tc, S4_13_a_topic_that_goes_while_look_ups_wait);
    return run_suite("review_offsets", tc);
}
