/* Goal: connections: order of overlapping produces and what lies between them (S1.2, S5.27), parked state dropped (S1.5), idle closing
 * (S1.9), limits at accept time (S1.12), slow frames and slow readers (T56, S1.10), protected mode, memory admission (D12, BR-060, T66),
 * draining at a stop (BR-063), a stop before the start is over.
 * Method: a whole broker on the simulated machine, raw and scripted clients. */
#include <stdio.h>
#include <string.h>

#include "base/be.h"
#include "base/mark.h"
#include "base/run.h"
#include "say.h"

static const uint32_t shard_counts[] = {1, 2, 4};
#define T0 ((struct say_to){"t", 0})

static struct rig r;

static void begin(uint32_t shards) { rig_init(&r, 77 + shards, shards); }

static void end(void) {
    rig_stop(&r);
    rig_done(&r);
}

/* ---- order ---- */

/* Two produces, a fetch, two produces in one go, while the disk is slow: answers in order, and the fetch sees exactly the first two. */
START_TEST(S1_2_produces_overlap_and_a_fetch_between_them_waits_its_turn) {
    begin(shard_counts[_i]);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 3), 0);
    for (int round = 0; round < 10; round++) {
        int64_t at = 4 * round;
        world_faults_set(r.w, &(struct world_faults){.disk_us_max = 20000, .sync_us_max = 50000});
        say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.fill = 'a'}));
        say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.fill = 'b'}));
        say_fetch(s, T0, at, 0, 1);
        say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.fill = 'c'}));
        say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.fill = 'd'}));
        ck_assert_int_eq(say_produced(s)->base_offset, at);
        ck_assert_int_eq(say_produced(s)->base_offset, at + 1);
        const struct k_fetch_resp_topic_part *f = say_fetched(s);
        ck_assert_int_eq(f->error_code, 0);
        ck_assert_int_eq(f->high_watermark, at + 2);           /* neither less nor more than what came before it */
        ck_assert_uint_gt(f->records.n, 0);
        ck_assert_int_eq(say_produced(s)->base_offset, at + 2);
        ck_assert_int_eq(say_produced(s)->base_offset, at + 3);
    }
    say_close(s);
    end();
}
END_TEST

/* Overlapping: both of two produces are in the log while the first one's sync hangs. Not overlapping: what follows waits. */
START_TEST(S1_2_only_consecutive_produces_overlap) {
    begin(shard_counts[_i]);
    rig_start(&r);
    struct say *s = say_open(&r), *other = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    world_node_hold_syncs(r.n, true);
    say_produce(s, T0, -1, say_batch(s, &(struct say_batch){0}));
    say_produce(s, T0, -1, say_batch(s, &(struct say_batch){0}));
    say_metadata_send(s, "t");
    say_produce(s, T0, -1, say_batch(s, &(struct say_batch){0}));
    rig_run(&r, 500);
    say_produce(other, T0, 1, say_batch(other, &(struct say_batch){0}));
    ck_assert_int_eq(say_produced(other)->base_offset, 2);     /* two were appended; the third waits behind the Metadata */
    ck_assert(!say_has(s));                                    /* which waits behind the produces */
    world_node_hold_syncs(r.n, false);
    ck_assert_int_eq(say_produced(s)->base_offset, 0);
    ck_assert_int_eq(say_produced(s)->base_offset, 1);
    ck_assert_int_eq(say_described(s)->error_code, 0);
    ck_assert_int_eq(say_produced(s)->base_offset, 3);
    say_close(s);
    say_close(other);
    end();
}
END_TEST

/* Partitions of different shards complete in any order; answers do not. S1.4: another connection is not held up by a parked one. */
START_TEST(S5_27_answers_keep_the_order_of_requests_over_shards) {
    begin(shard_counts[_i]);
    rig_start(&r);
    struct say *s = say_open(&r), *other = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 8), 0);
    struct say_batch b = {.pid = say_producer_id(s) + 1};
    int32_t seq[8] = {0};
    for (int i = 0; i < 400; i++) {
        int32_t p = (i * 7) % 8;
        b.seq = seq[p]++;
        b.value_n = (size_t)(i % 5 == 0 ? 30000 : 20);
        say_produce(s, (struct say_to){"t", p}, i % 3 == 0 ? 1 : -1, say_batch(s, &b));
    }
    say_fetch(other, T0, 400, 60000, 1);
    int64_t at[8] = {0};
    for (int i = 0; i < 400; i++) {
        const struct k_produce_resp_topic_part *a = say_produced(s);
        ck_assert_int_eq(a->error_code, 0);
        ck_assert_int_eq(a->index, (i * 7) % 8);
        ck_assert_int_eq(a->base_offset, at[a->index]++);      /* appends of a partition are in request order */
    }
    say_close(other);
    say_close(s);
    end();
}
END_TEST

/* ---- time ---- */

START_TEST(S1_9_idle_connections_are_closed_and_waiting_ones_spared) {
    begin(1);
    rig_set(&r, "connections.max.idle.ms", "60000");
    rig_start(&r);
    struct say *idle = say_open(&r), *silent = say_open(&r), *parked = say_open(&r), *busy = say_open(&r);
    ck_assert_int_eq(say_create(busy, "t", 1), 0);
    (void)say_describe(idle, "t");
    say_fetch(parked, T0, 0, 200000, 1);
    for (int i = 0; i < 5; i++) {
        rig_run(&r, 11000);
        ck_assert(!idle->down && !silent->down);
        (void)say_describe(busy, "t");
    }
    for (int i = 0; i < 10; i++) {                 /* 60 s since the last byte, and at most 30 s of slack */
        rig_run(&r, 4000);
        (void)say_describe(busy, "t");
    }
    ck_assert(idle->down && silent->down);
    ck_assert(!parked->down && !busy->down);
    ck_assert_uint_eq(mark_count("conn.idle"), 2);
    ck_assert(say_await(parked, 200000));
    say_close(idle);
    say_close(silent);
    say_close(parked);
    say_close(busy);
    end();
}
END_TEST

START_TEST(T56_a_frame_that_comes_too_slowly_is_closed) {
    begin(1);
    rig_start(&r);
    struct say *size = say_open(&r), *body = say_open(&r), *slow = say_open(&r), *steady = say_open(&r);
    ck_assert_int_eq(say_create(steady, "t", 1), 0);
    say_bytes(size, "\0\0", 2);                    /* half of a size, and silence */
    say_bytes(body, "\0\0\1\0\0\3\0\7", 8);        /* a body of 256 bytes that stops after four */
    span frame = say_frame(slow, K_PRODUCE, 9, say_produce_req(slow, T0, -1, say_batch(slow, &(struct say_batch){.value_n = 500000})));
    span good = say_frame(steady, K_METADATA, 12, &(struct k_metadata_req){.topics_n = -1, .allow_auto_create = false});
    ms from = rig_now(&r), size_at = 0, body_at = 0, slow_at = 0;
    for (size_t i = 0; rig_now(&r) - from < 130000; i++) {
        if (!slow->down) {
            say_bytes(slow, frame.p + i % 1000, 1);            /* one byte a second: 4 KB/s is the least */
        }
        if (i < good.n) {
            say_bytes(steady, good.p + i, 1);                  /* a small frame may take a byte a second for a while */
        }
        rig_run(&r, 1000);
        size_at = size->down && size_at == 0 ? rig_now(&r) - from : size_at;
        body_at = body->down && body_at == 0 ? rig_now(&r) - from : body_at;
        slow_at = slow->down && slow_at == 0 ? rig_now(&r) - from : slow_at;
    }
    ck_assert_int_ge(size_at, 10000);
    ck_assert_int_le(size_at, 16000);
    ck_assert_int_ge(body_at, 29000);
    ck_assert_int_le(body_at, 41000);
    ck_assert_int_ge(slow_at, 29000);
    ck_assert_int_le(slow_at, 41000);
    ck_assert_uint_ge(mark_count("conn.slow_frame"), 3);
    say_close(size);
    say_close(body);
    say_close(slow);
    say_close(steady);
    end();
}
END_TEST

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

static uint64_t before;

static bool took_some(void *u) {
    const struct say *s = u;
    return s->bytes_in > before;
}

START_TEST(T56_a_reader_that_takes_nothing_for_30_s_is_closed_a_slow_one_is_not) {
    begin(1);
    rig_start(&r);
    struct say *s = say_open(&r), *stuck = say_open(&r), *slow = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    fill(s, 8, 900000);
    world_client_pause(stuck->c, true);
    world_client_pause(slow->c, true);
    say_send(stuck, K_FETCH, 12, fetch_much(stuck));
    say_send(slow, K_FETCH, 12, fetch_much(slow));
    ms from = rig_now(&r), stuck_at = 0;
    while (!say_has(slow)) {                       /* a little every 12 s, for longer than 30 s */
        ck_assert_msg(!slow->down, "closed after %ld ms although it reads", (long)(rig_now(&r) - from));
        rig_run(&r, 12000);
        world_client_pause(slow->c, false);
        before = slow->bytes_in;
        ck_assert(world_run(r.w, took_some, slow, 1000));      /* a window full of it */
        world_client_pause(slow->c, true);
        stuck_at = mark_count("conn.slow_reader") > 0 && stuck_at == 0 ? rig_now(&r) - from : stuck_at;
        ck_assert_int_lt(rig_now(&r) - from, 3600000);
    }
    ck_assert_int_gt(rig_now(&r) - from, 32000);   /* else this test says nothing */
    ck_assert_int_ge(stuck_at, 30000);
    ck_assert_int_le(stuck_at, 50000);         /* seen every 12 s only */
    ck_assert_uint_eq(atomic_load(&r.node->conns), 2);
    ck_assert_uint_eq(mark_count("conn.slow_reader"), 1);
    world_client_pause(slow->c, false);
    ck_assert_uint_gt(say_fetched(slow)->records.n, 1 << 20);
    say_close(slow);
    say_close(stuck);
    say_close(s);
    end();
}
END_TEST

/* ---- who may connect ---- */

START_TEST(S1_12_above_max_connections_the_new_one_is_closed) {
    begin(shard_counts[_i]);
    rig_set(&r, "max.connections", "3");
    rig_start(&r);
    struct say *s[3];
    for (int i = 0; i < 3; i++) {
        s[i] = say_open(&r);
    }
    ck_assert_int_eq(say_create(s[0], "t", 1), 0);
    for (int i = 0; i < 10; i++) {
        struct say *more = say_knock(&r);
        ck_assert(say_await_down(more, 10000));
        say_close(more);
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(say_describe(s[i], "t")->error_code, 0);      /* the old ones notice nothing */
    }
    say_close(s[1]);
    rig_run(&r, 1000);
    s[1] = say_open(&r);                           /* room again */
    ck_assert_int_eq(say_describe(s[1], "t")->error_code, 0);
    for (int i = 0; i < 3; i++) {
        say_close(s[i]);
    }
    end();
}
END_TEST

START_TEST(protected_mode_accepts_only_this_machine) {
    begin(2);
    bool on = _i == 0;
    if (!on) {
        rig_set(&r, "protected.mode", "no");
    }
    rig_start(&r);
    world_peer_host(r.w, "192.0.2.7");
    struct say *far = say_knock(&r);
    (void)say_await_down(far, 1000);
    ck_assert_int_eq(far->down, on);
    world_peer_host(r.w, "127.0.0.1");
    r.opened = 1;
    struct say *near = say_open(&r);
    ck_assert_int_eq(say_create(near, "t", 1), 0);
    say_close(far);
    say_close(near);
    end();
}
END_TEST

/* ---- memory ---- */

/* Frames of the sum of 40 budgets: producers wait, nobody is refused, and memory stays near the budget (T66). */
START_TEST(T66_frames_above_the_budget_wait_and_all_are_served) {
    begin(shard_counts[_i]);
    rig_set(&r, "queued.max.request.bytes", "4194304");
    rig_set(&r, "store.tail.bytes", "1048576");
    rig_start(&r);
    struct say *s[40];
    for (int i = 0; i < 40; i++) {
        s[i] = say_open(&r);
    }
    ck_assert_int_eq(say_create(s[0], "t", 4), 0);
    size_t idle = rig_live(&r), most = 0;
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 4; k++) {
            say_produce(s[i], (struct say_to){"t", i % 4}, -1, say_batch(s[i], &(struct say_batch){.value_n = 1000000}));
        }
    }
    bool probed = false;
    for (int i = 0; i < 400; i++) {
        rig_run(&r, 1);
        size_t live = rig_live(&r);
        most = live > most ? live : most;
        if (!probed && mark_count("conn.admission") > 10) {
            struct say *small = say_open(&r);                  /* small requests go on meanwhile */
            ck_assert_int_eq(say_describe(small, "t")->error_code, 0);
            say_close(small);
            probed = true;
        }
    }
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 4; k++) {
            ck_assert_int_eq(say_produced(s[i])->error_code, 0);
        }
        say_close(s[i]);
    }
    ck_assert(probed);
    printf("RESULT 160 MB of frames against a budget of 4 MB, %u shards: at most %zu KB above idle\n", r.shards, (most - idle) >> 10);
    ck_assert_uint_lt(most, idle + (20 << 20));
    for (uint32_t i = 0; i < r.shards; i++) {
        struct admit *a = &r.node->shards[i]->admit;
        rig_run(&r, 100);
        ck_assert_uint_eq(a->big.used + a->small.used + a->replies.used, 0);
    }
    end();
}
END_TEST

START_TEST(D12_a_frame_above_the_whole_budget_is_let_in_alone) {
    begin(1);
    rig_set(&r, "queued.max.request.bytes", "1048576");
    rig_start(&r);
    struct say *s = say_open(&r), *parked = say_open(&r);
    ck_assert_int_eq(say_create_with(s, "t", "max.message.bytes", "10000000"), 0);
    say_fetch(parked, T0, 0, 600000, 1);           /* a long poll holds nothing that would keep it out */
    rig_run(&r, 100);
    say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.value_n = 5 << 20}));
    ck_assert_int_eq(say_produced(s)->error_code, 0);
    ck_assert_uint_gt(say_fetched(parked)->records.n, 5 << 20);
    say_close(s);
    say_close(parked);
    end();
}
END_TEST

/* The answer for all topics is larger than the whole budget, and large produces are queued behind it on the same connections: nobody waits
 * in a circle, and memory stays bounded while many ask (BR-060). */
START_TEST(BR_060_metadata_answers_are_charged_and_never_stop_everyone) {
    begin(shard_counts[_i]);
    rig_set(&r, "queued.max.request.bytes", "1048576");
    rig_start(&r);
    struct say *s[64];
    for (int i = 0; i < 64; i++) {
        s[i] = say_open(&r);
    }
    for (int t = 0; t < 8; t++) {
        char name[8];
        snprintf(name, sizeof name, "t%d", t);
        ck_assert_int_eq(say_create(s[0], t == 0 ? "t" : name, 1000), 0);
    }
    size_t idle = rig_live(&r), most = 0;
    struct k_metadata_req all = {.topics_n = -1};
    for (int i = 0; i < 64; i++) {
        say_send(s[i], K_METADATA, 12, &all);
        say_produce(s[i], (struct say_to){"t", i}, -1, say_batch(s[i], &(struct say_batch){.value_n = 200000}));
    }
    bool left = true;
    for (int i = 0; i < 2000 && left; i++) {
        rig_run(&r, 1);
        size_t live = rig_live(&r);
        most = live > most ? live : most;
        left = false;
        for (int k = 0; k < 64; k++) {
            left = left || s[k]->bytes_in < 100000;
        }
    }
    for (int i = 0; i < 64; i++) {
        const struct k_metadata_resp *m = say_take(s[i]);
        ck_assert_int_eq(m->topics_n, 8);
        ck_assert_int_eq(say_produced(s[i])->error_code, 0);
        say_close(s[i]);
    }
    printf("RESULT 64 answers of 8,000 partitions against a budget of 1 MB, %u shards: at most %zu KB above idle\n", r.shards, (most - idle) >> 10);
    ck_assert_uint_lt(most, idle + (16 << 20));    /* 64 answers at once would be 60 MB and more */
    end();
}
END_TEST

/* ---- stop ---- */

START_TEST(BR_063_a_stop_releases_parked_requests_and_takes_no_acknowledged_record_along) {
    begin(shard_counts[_i]);
    rig_start(&r);
    struct say *cons[20], *prod[4], *idle = say_open(&r);
    ck_assert_int_eq(say_create(idle, "t", 8), 0);
    for (int i = 0; i < 20; i++) {
        cons[i] = say_open(&r);
        say_fetch(cons[i], (struct say_to){"t", i % 8}, 0, 600000, 1 << 20);
    }
    for (int i = 0; i < 4; i++) {
        prod[i] = say_open(&r);
    }
    rig_run(&r, 100);
    world_faults_set(r.w, &(struct world_faults){.disk_us_max = 5000, .sync_us_max = 20000});
    for (int k = 0; k < 40; k++) {                 /* in flight, from every home to every owner */
        say_produce(prod[k % 4], (struct say_to){"t", k % 8}, k % 3 == 0 ? 1 : -1, say_batch(prod[k % 4], &(struct say_batch){.value_n = 20000}));
    }
    rig_run(&r, 3 + _i);
    rig_stop_begin(&r);
    ms took = rig_stop_wait(&r);
    ck_assert_int_lt(took, 5000);
    int64_t acked[8] = {0};
    for (int k = 0; k < 40; k++) {
        if (say_has(prod[k % 4])) {
            const struct k_produce_resp_topic_part *a = say_produced(prod[k % 4]);
            if (a->error_code == 0) {
                acked[a->index] = a->base_offset + 1 > acked[a->index] ? a->base_offset + 1 : acked[a->index];
            }
        }
    }
    for (int i = 0; i < 20; i++) {
        ck_assert(say_has(cons[i]));               /* released, not cut */
        ck_assert_int_eq(say_fetched(cons[i])->error_code, 0);
        ck_assert(say_await_down(cons[i], 1000));
        ck_assert_int_eq(cons[i]->why, ERR_OK);
        say_close(cons[i]);
    }
    for (int i = 0; i < 4; i++) {
        say_close(prod[i]);
    }
    ck_assert(say_await_down(idle, 1000));
    say_close(idle);
    world_faults_set(r.w, &(struct world_faults){0});
    rig_start(&r);
    struct say *s = say_open(&r);
    for (int32_t p = 0; p < 8; p++) {
        ck_assert_int_ge(say_latest(s, (struct say_to){"t", p}), acked[p]);
        ck_assert_int_eq(say_describe(s, "t")->partitions[p].leader_epoch, 0);         /* it was clean (S19.5) */
    }
    say_close(s);
    end();
}
END_TEST

/* All connections on shard 0, the partitions everywhere; requests that must wait for their turn reach their owners long after the other
 * shards have nothing to drain: no store may close before the last door is idle. */
START_TEST(BR_063_stores_close_after_the_last_request_of_any_shard) {
    for (uint64_t seed = 1; seed <= 12; seed++) {
        rig_init(&r, seed * 100 + (uint64_t)_i, shard_counts[1 + _i]);
        rig_start(&r);
        struct say *s = say_open(&r);
        ck_assert_uint_eq(s->home, 0);
        ck_assert_int_eq(say_create(s, "t", 8), 0);
        world_faults_set(r.w, &(struct world_faults){.sync_us_max = 200000});
        for (int i = 0; i < 24; i++) {
            say_produce(s, (struct say_to){"t", i % 8}, -1, say_batch(s, &(struct say_batch){0}));
            say_metadata_send(s, "t");
        }
        rig_run(&r, 2);
        rig_stop_begin(&r);
        ck_assert_int_lt(rig_stop_wait(&r), 5000);
        int64_t acked[8] = {0};
        while (say_has(s)) {
            const struct k_produce_resp_topic_part *a = say_produced(s);
            ck_assert_int_eq(a->error_code, 0);    /* each was taken in before the stop: done, not refused */
            acked[a->index] = a->base_offset + 1;
            if (say_has(s)) {
                (void)say_described(s);
            }
        }
        say_close(s);
        world_faults_set(r.w, &(struct world_faults){0});
        rig_start(&r);
        s = say_open(&r);
        for (int32_t p = 0; p < 8; p++) {
            ck_assert_int_ge(say_latest(s, (struct say_to){"t", p}), acked[p]);
        }
        say_close(s);
        end();
    }
}
END_TEST

/* A client that neither reads nor goes is cut after 3 s; a sync that hangs does not keep the broker from releasing the others. */
START_TEST(BR_063_a_client_that_does_not_read_is_cut_at_a_stop) {
    begin(shard_counts[_i]);
    rig_start(&r);
    struct say *s = say_open(&r), *stuck = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    fill(s, 4, 900000);
    world_client_pause(stuck->c, true);
    say_send(stuck, K_FETCH, 12, fetch_much(stuck));
    rig_run(&r, 1000);
    rig_stop_begin(&r);
    ck_assert_int_lt(rig_stop_wait(&r), 5000);
    say_close(s);
    say_close(stuck);
    rig_done(&r);
}
END_TEST

static void stop_at_once(struct rig *x) {
    x->node->shards[0]->port->net->listener_close(x->bell);
    node_stop(x->node);
    node_stop(x->node);                            /* a second signal of the same kind changes nothing */
}

/* SIGTERM while the start still waits for its first metadata sync, on an empty directory and on one whose epochs are to be raised. */
START_TEST(BR_063_a_stop_before_the_start_is_over_ends_cleanly) {
    begin(shard_counts[_i % 3]);
    if (_i >= 3) {                                 /* bytes above the mark: the next start has epochs to raise */
        rig_start(&r);
        struct say *s = say_open(&r);
        ck_assert_int_eq(say_create(s, "t", 4), 0);
        say_produce(s, T0, -1, say_batch(s, &(struct say_batch){0}));
        ck_assert_int_eq(say_produced(s)->error_code, 0);
        say_close(s);
        rig_crash(&r, false);
    }
    rig_boot(&r);
    world_node_hold_syncs(r.n, true);
    rig_call(&r, stop_at_once);
    rig_run(&r, 50);
    world_node_hold_syncs(r.n, false);
    (void)rig_stop_wait(&r);
    ck_assert(!r.is_fatal);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert(_i < 3 || say_latest(s, T0) == 1);
    say_close(s);
    end();
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("conn");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, S1_2_produces_overlap_and_a_fetch_between_them_waits_its_turn, 0, 3);
    tcase_add_loop_test(tc, S1_2_only_consecutive_produces_overlap, 0, 3);
    tcase_add_loop_test(tc, S5_27_answers_keep_the_order_of_requests_over_shards, 0, 3);
    tcase_add_test(tc, S1_9_idle_connections_are_closed_and_waiting_ones_spared);
    tcase_add_test(tc, T56_a_frame_that_comes_too_slowly_is_closed);
    tcase_add_test(tc, T56_a_reader_that_takes_nothing_for_30_s_is_closed_a_slow_one_is_not);
    tcase_add_loop_test(tc, S1_12_above_max_connections_the_new_one_is_closed, 0, 3);
    tcase_add_loop_test(tc, protected_mode_accepts_only_this_machine, 0, 2);
    tcase_add_loop_test(tc, T66_frames_above_the_budget_wait_and_all_are_served, 0, 3);
    tcase_add_test(tc, D12_a_frame_above_the_whole_budget_is_let_in_alone);
    tcase_add_loop_test(tc, BR_060_metadata_answers_are_charged_and_never_stop_everyone, 0, 3);
    tcase_add_loop_test(tc, BR_063_a_stop_releases_parked_requests_and_takes_no_acknowledged_record_along, 0, 3);
    tcase_add_loop_test(tc, BR_063_stores_close_after_the_last_request_of_any_shard, 0, 2);
    tcase_add_loop_test(tc, BR_063_a_client_that_does_not_read_is_cut_at_a_stop, 0, 3);
    tcase_add_loop_test(tc, BR_063_a_stop_before_the_start_is_over_ends_cleanly, 0, 6);
    return run_suite("conn", tc);
}
