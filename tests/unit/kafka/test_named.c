/* Goal: what the first road has to show by name: a duplicate resent while the first sync hangs (S6.2); the 1st to nth append failing under
 * five in flight (S6.3, S6.7, T14, T25); acks=0 and acks=1 alone on the broker (D6: S5.19, S7.5, S8.1); min_bytes over two shards (S7.4); a
 * thousand parked fetches that disconnect (S1.5); ten thousand partitions with small batches cut from large frames (memory).
 * Method: a whole broker with 1, 2 and 4 shards on the simulated machine, scripted clients, faults of the disk. */
#include <stdio.h>
#include <string.h>

#include "base/mark.h"
#include "base/run.h"
#include "say.h"

static const uint32_t shard_counts[] = {1, 2, 4};
#define T0 ((struct say_to){"t", 0})

static struct rig r;

static void begin(uint32_t shards) {
    rig_init(&r, 42 + shards, shards);
    rig_start(&r);
}

static void end(void) {
    rig_stop(&r);
    rig_done(&r);
}

/* ---- duplicate while the sync hangs ---- */

START_TEST(S6_2_duplicate_resent_while_the_first_sync_hangs) {
    begin(shard_counts[_i]);
    struct say *a = say_open(&r), *b = say_open(&r), *c = say_open(&r);
    ck_assert_int_eq(say_create(a, "t", 1), 0);
    struct say_batch one = {.records = 2, .pid = say_producer_id(a) + 1};
    world_node_hold_syncs(r.n, true);
    say_produce(a, T0, -1, say_batch(a, &one));
    rig_run(&r, 300);
    ck_assert(!say_has(a));                        /* not durable: no answer */
    say_produce(b, T0, -1, say_batch(b, &one));
    rig_run(&r, 300);
    ck_assert(!say_has(b));                        /* a duplicate waits for the original, it is not answered before it */
    say_reset(a);                                  /* the first sender is gone */
    say_produce(c, T0, 1, say_batch(c, &one));
    const struct k_produce_resp_topic_part *p = say_produced(c);
    ck_assert_int_eq(p->error_code, 0);            /* written is enough for acks=1 */
    ck_assert_int_eq(p->base_offset, 0);
    ck_assert(!say_has(b));
    world_node_hold_syncs(r.n, false);
    p = say_produced(b);
    ck_assert_int_eq(p->error_code, 0);
    ck_assert_int_eq(p->base_offset, 0);
    ck_assert_int_eq(say_latest(b, T0), 2);        /* one copy */
    say_close(b);
    say_close(c);
    end();
}
END_TEST

/* ---- appends that fail under five in flight ---- */

#define FLIGHT 5

/* An idempotent producer with five batches in flight, as clients are: what failed is sent again, in order. */
struct producer {
    struct say *s;
    int64_t pid;
    bool done[FLIGHT];
    int64_t offset[FLIGHT];
    int rounds;
};

static span producer_batch(struct producer *p, int i) {
    return say_batch(p->s, &(struct say_batch){.records = 2, .pid = p->pid + 1, .seq = 2 * i, .fill = (uint8_t)('a' + i)});
}

/* Send what is not done, `gap` ms apart, and take the answers. True when all is done. */
static bool producer_round(struct producer *p, ms gap) {
    bool all = true;
    int sent[FLIGHT], n = 0;
    for (int i = 0; i < FLIGHT; i++) {
        if (!p->done[i]) {
            say_produce(p->s, T0, -1, producer_batch(p, i));
            sent[n++] = i;
            rig_run(&r, gap);
        }
    }
    world_node_hold_syncs(r.n, false);
    for (int k = 0; k < n; k++) {
        const struct k_produce_resp_topic_part *a = say_produced(p->s);
        ck_assert_msg(a->error_code == 0 || a->error_code == 56 || a->error_code == 45, "code %d", a->error_code);
        if (a->error_code == 0) {
            p->done[sent[k]] = true;
            p->offset[sent[k]] = a->base_offset;
        }
        all = all && a->error_code == 0;
    }
    p->rounds++;
    return all;
}

struct seen {
    int32_t batches;
    int64_t next;
};

static void on_batch(void *u, const struct batch_head *h, span batch) {
    struct seen *s = u;
    ck_assert_int_eq(h->base_offset, s->next);                 /* no gap */
    ck_assert_int_eq(h->base_sequence, 2 * s->batches);        /* in order, none twice */
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct record_walk w;
    struct record rec;
    ck_assert_int_eq(record_walk_init(&w, batch, &a, 1 << 20), ERR_OK);
    ck_assert(record_walk_next(&w, &rec));
    ck_assert_int_eq(rec.value.p[0], 'a' + s->batches);
    arena_done(&a);
    s->batches++;
    s->next = batch_last_offset(h) + 1;
}

static void producer_verdict(const struct producer *p) {
    struct seen seen = {0};
    ck_assert_int_eq(say_read_all(p->s, T0, 0, on_batch, &seen), 2 * FLIGHT);
    ck_assert_int_eq(seen.batches, FLIGHT);
    for (int i = 0; i < FLIGHT; i++) {
        ck_assert_int_eq(p->offset[i], 2 * i);
    }
}

/* Five writes of one batch each, the k-th refused; or (apart == false) the first write under way while the others queue behind it. */
static void nospace_at(uint32_t shards, uint64_t k, bool apart) {
    begin(shards);
    struct producer p = {.s = say_open(&r)};
    ck_assert_int_eq(say_create(p.s, "t", 1), 0);
    p.pid = say_producer_id(p.s);
    if (!apart) {                                  /* the first one alone, so that directory and file are there */
        say_produce(p.s, T0, -1, producer_batch(&p, 0));
        ck_assert_int_eq(say_produced(p.s)->error_code, 0);
        p.done[0] = true;
        world_faults_set(r.w, &(struct world_faults){.disk_us_max = 400000});
    }
    uint64_t refused = mark_count("write.refused");
    world_node_hold_syncs(r.n, true);
    rig_fail_op(&r, (struct rig_fail){.op = DISK_WRITE, .in = ".log", .k = k, .e = ERR_NOSPACE});
    while (!producer_round(&p, apart ? 3 : 1)) {
        ck_assert_int_lt(p.rounds, 50);
        rig_run(&r, 100);                          /* a client's retry.backoff.ms */
    }
    ck_assert_uint_gt(mark_count("write.refused"), refused);
    ck_assert_int_gt(p.rounds, 1);
    producer_verdict(&p);
    say_close(p.s);
    end();
}

START_TEST(T25_nth_append_refused_for_space_under_five_in_flight) {
    nospace_at(shard_counts[_i % 3], (uint64_t)(_i / 3) % FLIGHT + 1, true);
}
END_TEST

START_TEST(T25_appends_queued_behind_a_refused_one_are_taken_back_with_it) {
    nospace_at(shard_counts[_i % 3], (uint64_t)(_i / 3) + 1, false);
}
END_TEST

/* EIO fences the log: 56 until a restart; then the retries find out which of them the log holds (T14, S6.8). */
static void eio_at(uint32_t shards, uint64_t k, bool clean) {
    begin(shards);
    r.errors_expected = true;
    struct producer p = {.s = say_open(&r)};
    ck_assert_int_eq(say_create(p.s, "t", 1), 0);
    ck_assert_int_eq(say_create(p.s, "other", 1), 0);
    p.pid = say_producer_id(p.s);
    world_node_hold_syncs(r.n, true);
    rig_fail_op(&r, (struct rig_fail){.op = DISK_WRITE, .in = "t-0/", .k = k, .e = ERR_IO});
    ck_assert(!producer_round(&p, 3));
    ck_assert(!producer_round(&p, 0));             /* again: still fenced */
    for (int i = 0; i < FLIGHT; i++) {
        ck_assert(!p.done[i] || i < (int)k - 1);   /* nothing from the failure on is acknowledged */
    }
    say_produce(p.s, (struct say_to){"other", 0}, -1, say_batch(p.s, &(struct say_batch){0}));
    ck_assert_int_eq(say_produced(p.s)->error_code, 0);        /* the others go on */
    say_close(p.s);
    if (clean) {
        rig_stop(&r);
    } else {
        rig_crash(&r, true);
    }
    rig_start(&r);
    p.s = say_open(&r);
    ck_assert(producer_round(&p, 0));
    producer_verdict(&p);
    say_close(p.s);
    end();
}

START_TEST(T14_nth_append_failing_with_eio_fences_and_retries_after_restart_are_exact) {
    eio_at(shard_counts[_i % 3], (uint64_t)(_i / 3) % FLIGHT + 1, (_i / 3) / FLIGHT == 0);
}
END_TEST

/* ---- acks=0 and acks=1, nobody else there ---- */

static void alone(uint32_t shards, int16_t acks) {
    begin(shards);
    struct say *prod = say_open(&r), *cons = say_open(&r), *list = say_open(&r);
    ck_assert_int_eq(say_create(prod, "t", 1), 0);
    for (int64_t i = 0; i < 50; i++) {
        say_fetch(cons, T0, i, 5000, 1);           /* every other time nobody but the parked fetch wants the record */
        rig_run(&r, 200);                          /* parked, and whatever was unsynced is synced by age */
        ck_assert(!say_has(cons));
        int64_t sent_us = world_now_us(r.w);
        say_produce(prod, T0, acks, say_batch(prod, &(struct say_batch){.ts = i}));
        if (acks == 1) {
            const struct k_produce_resp_topic_part *p = say_produced(prod);
            ck_assert_int_eq(p->error_code, 0);
            ck_assert_int_eq(p->base_offset, i);
            ck_assert(i % 2 == 0 || say_latest(list, T0) > i); /* D6: ListOffsets(-1) after the reply is above its offset */
        }
        const struct k_fetch_resp_topic_part *f = say_fetched(cons);
        ck_assert_uint_gt(f->records.n, 0);
        ck_assert_int_eq(f->high_watermark, i + 1);
        ck_assert_int_le(cons->at_us - sent_us, 20000);
        say_forget(cons);
        say_forget(prod);
        say_forget(list);
    }
    say_close(prod);
    say_close(cons);
    say_close(list);
    end();
}

START_TEST(D6_a_parked_consumer_has_each_acks_0_record_within_20_ms) { alone(shard_counts[_i], 0); }
END_TEST

START_TEST(D6_a_parked_consumer_has_each_acks_1_record_within_20_ms) { alone(shard_counts[_i], 1); }
END_TEST

/* Nothing parked: a fetch that comes right after an acks=1 reply need not wait for the age of the bytes either. */
START_TEST(D6_a_fetch_right_after_acks_1_has_the_record_within_20_ms) {
    begin(shard_counts[_i]);
    struct say *prod = say_open(&r), *cons = say_open(&r);
    ck_assert_int_eq(say_create(prod, "t", 1), 0);
    for (int64_t i = 0; i < 20; i++) {
        say_produce(prod, T0, 1, say_batch(prod, &(struct say_batch){.ts = i}));
        ck_assert_int_eq(say_produced(prod)->error_code, 0);
        int64_t sent_us = world_now_us(r.w);
        say_fetch(cons, T0, i, 5000, 1);
        ck_assert_uint_gt(say_fetched(cons)->records.n, 0);
        ck_assert_int_le(cons->at_us - sent_us, 20000);
    }
    say_close(prod);
    say_close(cons);
    end();
}
END_TEST

/* ---- min_bytes over two shards ---- */

static const struct k_fetch_req *fetch_two(struct say *s, int32_t min_bytes, ms wait) {
    struct k_fetch_req *q = (struct k_fetch_req *)(uintptr_t)say_fetch_req(s, T0, 0, wait, min_bytes);
    struct k_fetch_req_topic_part *two = arena_zalloc(&s->arena, 2 * sizeof *two);
    two[0] = two[1] = q->topics[0].partitions[0];
    two[1].partition = 1;
    q->topics[0].partitions = two;
    q->topics[0].partitions_n = 2;
    return q;
}

START_TEST(S7_4_min_bytes_spans_two_shards) {
    begin(shard_counts[_i]);
    struct say *prod = say_open(&r), *cons = say_open(&r);
    ck_assert_int_eq(say_create(prod, "t", 2), 0);
    span batch = say_batch(prod, &(struct say_batch){.value_n = 400});
    say_send(cons, K_FETCH, 12, fetch_two(cons, (int32_t)(2 * batch.n), 10000));
    rig_run(&r, 100);
    say_produce(prod, T0, -1, batch);
    ck_assert_int_eq(say_produced(prod)->error_code, 0);
    rig_run(&r, 1000);
    ck_assert(!say_has(cons));                     /* one half is not enough */
    ms from = rig_now(&r);
    say_produce(prod, (struct say_to){"t", 1}, -1, batch);
    const struct k_fetch_resp *f = say_take(cons);
    ck_assert_int_le(rig_now(&r) - from, 20);
    size_t bytes = 0;
    for (int32_t i = 0; i < f->topics[0].partitions_n; i++) {
        bytes += f->topics[0].partitions[i].records.n;
    }
    ck_assert_uint_eq(bytes, 2 * batch.n);
    ck_assert_int_eq(say_produced(prod)->error_code, 0);
    /* A third more than there is: answered when the time is over, with what there is (S7.4). */
    from = rig_now(&r);
    say_send(cons, K_FETCH, 12, fetch_two(cons, (int32_t)(3 * batch.n), 700));
    f = say_take(cons);
    ck_assert_int_ge(rig_now(&r) - from, 699);
    ck_assert_int_le(rig_now(&r) - from, 720);
    ck_assert_uint_gt(f->topics[0].partitions[0].records.n + f->topics[0].partitions[1].records.n, 0);
    say_close(prod);
    say_close(cons);
    end();
}
END_TEST

/* ---- a thousand parked fetches ---- */

#define PARKED 1000

static void park_and_leave(struct say **s) {
    for (int i = 0; i < PARKED; i++) {
        s[i] = say_open(&r);
        say_send(s[i], K_FETCH, 12, fetch_two(s[i], 1 + i % 3, 3600000));
    }
    rig_run(&r, 1000);
    for (int i = 0; i < PARKED; i++) {
        ck_assert(!say_has(s[i]));
        if (i % 2 == 0) {
            say_close(s[i]);
        } else {
            say_reset(s[i]);
        }
    }
    rig_run(&r, 1000);
}

START_TEST(S1_5_memory_is_back_after_a_thousand_parked_fetches_disconnect) {
    begin(shard_counts[_i]);
    struct say **all = mem_zalloc(MEM_TEST, PARKED * sizeof *all), *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 2), 0);
    park_and_leave(all);                           /* once to fill the pools that are kept */
    size_t before = rig_live(&r);
    uint64_t cancelled = mark_count("read.cancelled");
    park_and_leave(all);
    size_t after = rig_live(&r);
    ck_assert_msg(after <= before + 4096, "%zu bytes more are alive", after - before);
    ck_assert_uint_ge(mark_count("read.cancelled"), cancelled + PARKED);
    ck_assert_uint_eq(atomic_load(&r.node->conns), 1);
    say_produce(s, T0, -1, say_batch(s, &(struct say_batch){0}));              /* wakes nobody who is gone */
    ck_assert_int_eq(say_produced(s)->error_code, 0);
    mem_free(all);
    say_close(s);
    end();
}
END_TEST

/* ---- ten thousand partitions ---- */

#define MANY 10000
#define CUT 5000                       /* batches of 200 bytes in a frame of 1 MB */

static void produce_cut(struct say *s, int32_t from, span batch) {
    struct k_produce_req *q = (struct k_produce_req *)(uintptr_t)say_produce_req(s, T0, -1, batch);
    struct k_produce_req_topic_part *parts = arena_zalloc(&s->arena, CUT * sizeof *parts);
    for (int32_t i = 0; i < CUT; i++) {
        parts[i] = q->topics[0].partitions[0];
        parts[i].index = from + i;
    }
    q->topics[0].partitions = parts;
    q->topics[0].partitions_n = CUT;
    const struct k_produce_resp *a = say_ask(s, K_PRODUCE, 9, q);
    for (int32_t i = 0; i < CUT; i++) {
        ck_assert_int_eq(a->topics[0].partitions[i].error_code, 0);
    }
}

START_TEST(ten_thousand_partitions_with_one_small_batch_each_cost_at_most_32_MB) {
    begin(shard_counts[_i]);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", MANY), 0);
    rig_run(&r, 3000);
    size_t idle = rig_live(&r);
    span batch = say_batch(s, &(struct say_batch){.value_n = 200 - 61 - 9});
    ck_assert_uint_ge(batch.n, 199);
    ck_assert_uint_le(batch.n, 201);
    for (int32_t at = 0; at < MANY; at += CUT) {
        produce_cut(s, at, batch);
    }
    size_t live = rig_live(&r);
    printf("RESULT 10,000 partitions of one 200-byte batch, %u shards: idle %zu KB, then %zu KB\n", r.shards, idle >> 10, live >> 10);
    ck_assert_uint_le(live, idle + (32 << 20));
    say_close(s);
    end();
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("named");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, S6_2_duplicate_resent_while_the_first_sync_hangs, 0, 3);
    tcase_add_loop_test(tc, T25_nth_append_refused_for_space_under_five_in_flight, 0, 3 * FLIGHT);
    tcase_add_loop_test(tc, T25_appends_queued_behind_a_refused_one_are_taken_back_with_it, 0, 6);
    tcase_add_loop_test(tc, T14_nth_append_failing_with_eio_fences_and_retries_after_restart_are_exact, 0, 6 * FLIGHT);
    tcase_add_loop_test(tc, D6_a_parked_consumer_has_each_acks_0_record_within_20_ms, 0, 3);
    tcase_add_loop_test(tc, D6_a_parked_consumer_has_each_acks_1_record_within_20_ms, 0, 3);
    tcase_add_loop_test(tc, D6_a_fetch_right_after_acks_1_has_the_record_within_20_ms, 0, 3);
    tcase_add_loop_test(tc, S7_4_min_bytes_spans_two_shards, 0, 3);
    tcase_add_loop_test(tc, S1_5_memory_is_back_after_a_thousand_parked_fetches_disconnect, 0, 3);
    tcase_add_loop_test(tc, ten_thousand_partitions_with_one_small_batch_each_cost_at_most_32_MB, 0, 3);
    return run_suite("named", tc);
}
