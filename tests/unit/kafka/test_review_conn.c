/* Goal: what a connection does at its edges: whoever is not read for our own reasons is not slow (S1.2, T56); replies that nobody takes are
 * noticed whatever else the client does (T56, S1.10); a parked request does not outlive a connection that is not read any more (S1.5, S1.6,
 * T61); and memory for replies does not stay with who takes it drop by drop (T56, BR-060).
 * Method: a whole broker on the simulated machine, raw and scripted clients. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mark.h"
#include "base/run.h"
#include "say.h"

#define T0 ((struct say_to){"t", 0})

static struct rig r;

static void begin(uint32_t shards) { rig_init(&r, 313 + shards, shards); }

static void end(void) {
    rig_stop(&r);
    rig_done(&r);
}

static void fill(struct say *s, int batches, size_t bytes) {
    for (int i = 0; i < batches; i++) {
        say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.value_n = bytes}));
        ck_assert_int_eq(say_produced(s)->error_code, 0);
        say_forget(s);
    }
}

static const struct k_fetch_req *fetch_much(struct say *s) {
    struct k_fetch_req *q = (struct k_fetch_req *)(uintptr_t)say_fetch_req(s, T0, 0, 0, 1);
    q->topics[0].partitions[0].partition_max_bytes = 50 << 20;
    return q;
}

static uint32_t conns(void) { return atomic_load(&r.node->conns); }

/* ---- slow ---- */

/* The reply fills our side while the next request has begun: we do not read, so its bytes cannot come. 20 s later the client reads. */
START_TEST(T56_a_frame_that_we_do_not_read_is_not_slow) {
    begin(1);
    rig_set(&r, "queued.max.request.bytes", "67108864");
    rig_start(&r);
    struct say *s = say_open(&r), *c = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    fill(s, 12, 900000);
    world_client_pause(c->c, true);
    say_send(c, K_FETCH, 12, fetch_much(c));
    span next = say_frame(c, K_METADATA, 12, &(struct k_metadata_req){.topics_n = -1});
    say_bytes(c, next.p, 3);                       /* not even its size */
    rig_run(&r, 1000);
    say_bytes(c, next.p + 3, next.n - 3);
    rig_run(&r, 20000);
    ck_assert_uint_eq(mark_count("conn.slow_frame"), 0);
    ck_assert(!c->down);
    world_client_pause(c->c, false);
    ck_assert_uint_gt(say_fetched(c)->records.n, 8 << 20);
    ck_assert(say_await(c, 10000));
    say_close(c);
    say_close(s);
    end();
}
END_TEST

/* Whole requests, one reply each, never taken: cut after 30 s, not when the connection would have been idle (10 min). */
START_TEST(T56_replies_not_taken_are_noticed_without_another_event) {
    begin(1);
    rig_start(&r);
    struct say *s = say_open(&r), *stuck[20];
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    fill(s, 1, 400000);
    for (int i = 0; i < 20; i++) {
        stuck[i] = say_open(&r);
        world_client_pause(stuck[i]->c, true);
        say_send(stuck[i], K_FETCH, 12, fetch_much(stuck[i]));
    }
    rig_run(&r, 25000);
    ck_assert_uint_eq(conns(), 21);
    rig_run(&r, 20000);
    ck_assert_uint_eq(conns(), 1);
    ck_assert_uint_eq(mark_count("conn.slow_reader"), 20);
    for (int i = 0; i < 20; i++) {
        say_close(stuck[i]);
    }
    say_close(s);
    end();
}
END_TEST

START_TEST(T56_who_sends_but_never_reads_is_cut_all_the_same) {
    begin(1);
    rig_start(&r);
    struct say *s = say_open(&r), *c = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    fill(s, 1, 900000);
    world_client_pause(c->c, true);
    say_send(c, K_FETCH, 12, fetch_much(c));
    for (int i = 0; i < 6; i++) {
        rig_run(&r, 10000);
        if (conns() == 2) {
            say_metadata_send(c, "t");
        }
    }
    ck_assert_uint_eq(conns(), 1);
    say_close(c);
    say_close(s);
    end();
}
END_TEST

/* A client holds the memory for replies and takes a little every 12 s, which alone would be allowed; somebody else needs that memory. */
START_TEST(T56_a_drop_by_drop_reader_goes_when_others_wait_for_memory) {
    begin(1);
    rig_set(&r, "queued.max.request.bytes", "16777216");       /* half of it for replies, half of that for one reader */
    rig_start(&r);
    struct say *s = say_open(&r), *drop = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    ck_assert_int_eq(say_create(s, "wide", 45000), 0);
    fill(s, 8, 900000);
    world_client_pause(drop->c, true);
    say_send(drop, K_FETCH, 12, fetch_much(drop));
    rig_run(&r, 1000);
    struct k_metadata_req all = {.topics_n = -1};
    say_send(s, K_METADATA, 12, &all);
    rig_run(&r, 10);
    ck_assert(!say_has(s));                        /* it waits for memory, else this test says nothing */
    ms from = rig_now(&r);
    while (!say_has(s) && rig_now(&r) - from < 120000) {
        rig_run(&r, 12000);
        world_client_pause(drop->c, false);
        rig_run(&r, 1);
        world_client_pause(drop->c, true);
    }
    ck_assert_int_lt(rig_now(&r) - from, 25000);
    ck_assert_int_eq(((const struct k_metadata_resp *)say_take(s))->topics_n, 2);
    say_close(drop);
    say_close(s);
    end();
}
END_TEST

/* ---- small requests ---- */

static void ask_without_reading(struct say *s, int n) {
    world_client_pause(s->c, true);
    struct k_metadata_req none = {.topics_n = 0};
    for (int i = 0; i < n; i++) {
        say_send(s, K_METADATA, 12, &none);
        say_forget(s);
    }
}

/* One client asks 4,000 times and reads nothing: the others' small requests do not wait for it. */
START_TEST(T61_who_asks_and_never_reads_takes_little_of_what_small_requests_share) {
    begin(1);
    rig_start(&r);
    struct say *greedy[3], *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    for (int i = 0; i < 3; i++) {
        greedy[i] = say_open(&r);
        ask_without_reading(greedy[i], 4000);
    }
    rig_run(&r, 3000);
    ck_assert_uint_lt(r.node->shards[0]->admit.small.used, 1 << 20);
    ms from = rig_now(&r);
    ck_assert_int_eq(say_describe(s, "t")->error_code, 0);
    ck_assert_int_lt(rig_now(&r) - from, 100);
    for (int i = 0; i < 3; i++) {
        say_close(greedy[i]);
    }
    say_close(s);
    end();
}
END_TEST

/* A hundred of them, enough to take all of it, and sixty-six that send a small frame drop by drop: others get their turn soon all the same. */
START_TEST(T56_small_requests_get_their_turn_under_a_crowd_that_holds_their_memory) {
    begin(1);
    rig_start(&r);
    bool drops = _i == 1;
    int n = drops ? 66 : 100;
    struct say *crowd[100], *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    for (int i = 0; i < n; i++) {
        crowd[i] = say_open(&r);
        if (drops) {
            say_bytes(crowd[i], "\0\0\xf8\0\0\3\0\7", 8);       /* the head of a frame of 62 KB */
        } else {
            ask_without_reading(crowd[i], 3000);
        }
    }
    rig_run(&r, 1000);
    say_metadata_send(s, "t");
    ms from = rig_now(&r);
    static uint8_t five[5000];
    while (!say_has(s) && rig_now(&r) - from < 60000) {
        rig_run(&r, 1000);
        for (int i = 0; i < n && drops; i++) {
            if (!crowd[i]->down) {
                say_bytes(crowd[i], five, rig_now(&r) - from > 9000 ? 1 : 5000);       /* above 4 KB/s at first */
            }
        }
    }
    printf("RESULT a small request was answered after %ld ms\n", (long)(rig_now(&r) - from));
    ck_assert_int_lt(rig_now(&r) - from, 12000);
    ck_assert_int_eq(say_described(s)->error_code, 0);
    for (int i = 0; i < n; i++) {
        say_close(crowd[i]);
    }
    say_close(s);
    end();
}
END_TEST

/* ---- parked ---- */

/* A fetch parked for 24 days, then nonsense: answered, then closed; it does not wait until then on a connection that is not read. */
START_TEST(S1_6_a_bad_frame_behind_a_parked_fetch_closes_soon) {
    begin(2);
    rig_start(&r);
    struct say *s = say_open(&r), *bad = say_open(&r), *gone = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    say_fetch(bad, T0, 0, INT32_MAX, 1);
    say_fetch(gone, T0, 0, INT32_MAX, 1);
    rig_run(&r, 100);
    ck_assert(!say_has(bad));
    say_bytes(bad, "\x7f\xff\xff\xff", 4);
    say_bytes(gone, "\x7f\xff\xff\xff", 4);
    say_reset(gone);
    ck_assert_int_eq(say_fetched(bad)->error_code, 0);
    ck_assert(say_await_down(bad, 5000));
    rig_run(&r, 5000);
    ck_assert_uint_eq(conns(), 1);
    say_close(bad);
    say_close(s);
    end();
}
END_TEST

/* As many requests behind a parked fetch as a connection may have: it is answered, for nobody is read behind it, and the end of the
 * connection is seen. */
START_TEST(T61_a_full_pipeline_behind_a_parked_fetch_moves) {
    begin(2);
    rig_start(&r);
    struct say *s = say_open(&r), *c = say_open(&r), *gone = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    for (int i = 0; i < 200; i++) {
        say_fetch(c, T0, 0, i == 0 ? INT32_MAX : 0, 1);
        say_fetch(gone, T0, 0, INT32_MAX, 1);
    }
    rig_run(&r, 10);
    say_reset(gone);
    for (int i = 0; i < 200; i++) {
        ck_assert_int_eq(say_fetched(c)->error_code, 0);
        say_forget(c);
    }
    rig_run(&r, 5000);
    ck_assert_uint_eq(conns(), 2);
    say_close(c);
    say_close(s);
    end();
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("review_conn");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, T56_a_frame_that_we_do_not_read_is_not_slow);
    tcase_add_test(tc, T56_replies_not_taken_are_noticed_without_another_event);
    tcase_add_test(tc, T56_who_sends_but_never_reads_is_cut_all_the_same);
    tcase_add_test(tc, T56_a_drop_by_drop_reader_goes_when_others_wait_for_memory);
    tcase_add_test(tc, T61_who_asks_and_never_reads_takes_little_of_what_small_requests_share);
    tcase_add_loop_test(tc, T56_small_requests_get_their_turn_under_a_crowd_that_holds_their_memory, 0, 2);
    tcase_add_test(tc, S1_6_a_bad_frame_behind_a_parked_fetch_closes_soon);
    tcase_add_test(tc, T61_a_full_pipeline_behind_a_parked_fetch_moves);
    return run_suite("review_conn", tc);
}
