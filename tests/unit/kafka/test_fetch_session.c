/* Goal: fetch sessions in a whole broker: what an idle one costs does not depend on its partitions, memory is bounded and comes back, who is evicted and who is not (S7.38), a topic that grows,
 * goes and comes back; watches that are on their way when sessions close, connections go or the broker stops.
 * Method: a broker on the simulated machine, scripted clients, the shards' counters of asks, the node's live memory, simulated time. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mark.h"
#include "base/prng.h"
#include "base/run.h"
#include "conn.h"
#include "say.h"

static struct rig r;

static void begin(uint32_t shards, const char *slots) {
    rig_init(&r, 4711 + shards, shards);
    rig_set(&r, "max.incremental.fetch.session.cache.slots", slots);
    rig_start(&r);
}

static void end(void) {
    rig_stop(&r);
    rig_done(&r);
}

/* One client's session. */
struct ses {
    struct say *c;
    int32_t id, epoch;
    int16_t error;                     /* of the last answer */
    int32_t parts_n;                   /* in it */
    int32_t with_records;
};

struct poll {
    int32_t first, n;                  /* partitions of topic t that are listed */
    int64_t from;
    ms wait;
    int32_t min_bytes, max_bytes;
    int32_t forget_first, forget_n;
};

static void send(struct ses *s, struct poll p) {
    struct k_fetch_req *q = (struct k_fetch_req *)(uintptr_t)say_fetch_req(s->c, (struct say_to){"t", 0}, p.from, p.wait, p.min_bytes > 0 ? p.min_bytes : 1);
    struct k_fetch_req_topic_part like = q->topics[0].partitions[0];
    struct k_fetch_req_forgotten *f = arena_zalloc(&s->c->arena, sizeof *f);
    q->topics[0].partitions = arena_zalloc(&s->c->arena, (size_t)p.n * sizeof like);
    for (int32_t i = 0; i < p.n; i++) {
        q->topics[0].partitions[i] = like;
        q->topics[0].partitions[i].partition = p.first + i;
    }
    q->topics[0].partitions_n = p.n;
    q->topics_n = p.n > 0;
    f->topic = SPAN_LIT("t");
    f->partitions = arena_zalloc(&s->c->arena, (size_t)p.forget_n * sizeof(int32_t));
    for (int32_t i = 0; i < p.forget_n; i++) {
        f->partitions[i] = p.forget_first + i;
    }
    f->partitions_n = p.forget_n;
    q->forgotten = f;
    q->forgotten_n = p.forget_n > 0;
    q->session_id = s->id;
    q->session_epoch = s->epoch;
    q->max_bytes = p.max_bytes > 0 ? p.max_bytes : 50 << 20;
    say_send(s->c, K_FETCH, 12, q);
}

static void take(struct ses *s) {
    const struct k_fetch_resp *a = say_take(s->c);
    s->error = a->error_code;
    s->parts_n = s->with_records = 0;
    for (int32_t i = 0; i < a->topics_n; i++) {
        for (int32_t k = 0; k < a->topics[i].partitions_n; k++) {
            s->parts_n++;
            s->with_records += a->topics[i].partitions[k].records.n > 0;
        }
    }
    if (a->error_code == 0) {
        s->id = a->session_id;
        s->epoch = s->id == 0 ? 0 : s->epoch + 1;
    }
}

static void ask(struct ses *s, struct poll p) {
    send(s, p);
    take(s);
    say_forget(s->c);
}

/* A session over n partitions, told and at rest. */
static void open_of(struct ses *s, int32_t n) {
    *s = (struct ses){.c = s->c == NULL ? say_open(&r) : s->c};
    ask(s, (struct poll){.n = n});
    ck_assert_int_eq(s->error, 0);
    ck_assert_int_eq(s->parts_n, n);
    if (s->id != 0) {
        ask(s, (struct poll){.n = 0});
        ck_assert_int_eq(s->parts_n, 0);
        rig_run(&r, 5);
    }
}

/* No memory is charged to any session, nor to a partition whose watch is still out. */
static bool no_sessions(void) {
    bool none = true;
    for (uint32_t i = 0; i < r.shards; i++) {
        none = none && fsessions_is_empty(&((struct conn_set *)r.node->shards[i]->door)->sessions);
    }
    return none;
}

static uint64_t asks(void) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < r.shards; i++) {
        n += r.node->shards[i]->stats.asks;
    }
    return n;
}

static void append(struct say *c, int32_t part, size_t bytes) {
    say_produce(c, (struct say_to){"t", part}, -1, say_batch(c, &(struct say_batch){.value_n = bytes}));
    ck_assert_int_eq(say_produced(c)->error_code, 0);
}

#define MANY 5000

START_TEST(BR_016_an_idle_session_asks_nobody_and_allocates_nothing_and_one_append_costs_one_look) {
    uint32_t shards = _i == 0 ? 1 : 4;
    begin(shards, "1000");
    struct say *c = say_open(&r);
    ck_assert_int_eq(say_create(c, "t", MANY), 0);
    size_t before = rig_live(&r);
    struct ses s = {0};
    open_of(&s, MANY);
    size_t live = rig_live(&r);
    printf("RESULT a session holds %zu bytes a partition, %u shards\n", (live - before) / MANY, shards);
    ck_assert_uint_lt((live - before) / MANY, 500);
    uint64_t sent = asks();
    for (int i = 0; i < 50; i++) {
        ask(&s, (struct poll){.wait = 100});
        ck_assert_int_eq(s.parts_n, 0);
    }
    ck_assert_uint_eq(asks(), sent);                   /* not one partition was asked for */
    ck_assert_uint_le(rig_live(&r), live + 4096);
    for (int i = 0; i < 20; i++) {
        send(&s, (struct poll){.wait = 10000});
        rig_run(&r, 1);
        sent = asks();
        append(c, i * 211, 100);
        take(&s);
        ck_assert_int_eq(s.with_records, 1);
        ck_assert_int_eq(s.parts_n, 1);
        ck_assert_uint_le(asks() - sent, 8);           /* append, bounce, read; and in the next round what was answered once more */
        ask(&s, (struct poll){.first = i * 211, .n = 1, .from = 1});
        ck_assert_int_eq(s.parts_n, 0);
        say_forget(c);
    }
    say_close(s.c);
    say_close(c);
    end();
}
END_TEST

START_TEST(S7_39_many_appends_are_found_by_the_poll_after_the_one_that_the_first_woke) {
    begin(2, "1000");
    struct say *c = say_open(&r);
    ck_assert_int_eq(say_create(c, "t", 40), 0);
    for (int32_t i = 0; i < 40; i++) {
        append(c, i, 10);                              /* the files are there */
    }
    struct ses s = {.c = say_open(&r)};
    ask(&s, (struct poll){.n = 40, .from = 1});
    ask(&s, (struct poll){.n = 0});
    send(&s, (struct poll){.wait = 10000});
    rig_run(&r, 1);
    struct k_produce_req *q = (struct k_produce_req *)(uintptr_t)say_produce_req(c, (struct say_to){"t", 0}, -1, say_batch(c, &(struct say_batch){.value_n = 10}));
    struct k_produce_req_topic_part like = q->topics[0].partitions[0];
    q->topics[0].partitions = arena_zalloc(&c->arena, 40 * sizeof like);
    for (int32_t i = 0; i < 40; i++) {
        q->topics[0].partitions[i] = like;
        q->topics[0].partitions[i].index = i;
    }
    q->topics[0].partitions_n = 40;
    say_ask(c, K_PRODUCE, 9, q);
    take(&s);
    printf("RESULT 40 appends of one request: the poll that waited brings %d of them\n", s.with_records);
    ck_assert_int_ge(s.with_records, 1);               /* each sync wakes the poll; whoever moved in the same turn is in the answer */
    ask(&s, (struct poll){.n = 0});
    ck_assert_int_eq(s.with_records, 40);
    say_close(s.c);
    say_close(c);
    end();
}
END_TEST

START_TEST(S7_38_a_stale_session_is_evicted_one_with_a_parked_poll_is_not) {
    begin(1, "1");
    struct ses a = {0}, b = {0};
    struct say *c = say_open(&r);
    ck_assert_int_eq(say_create(c, "t", 3), 0);
    open_of(&a, 2);
    ck_assert_int_gt(a.id, 0);
    open_of(&b, 3);
    ck_assert_int_eq(b.id, 0);                         /* the slot is taken */
    send(&a, (struct poll){.wait = 600000});
    rig_run(&r, 300000);
    open_of(&b, 3);
    ck_assert_int_eq(b.id, 0);                         /* parked for five minutes: it stays */
    append(c, 1, 10);
    take(&a);
    ck_assert_int_eq(a.with_records, 1);
    rig_run(&r, 119000);
    open_of(&b, 1);
    ck_assert_int_eq(b.id, 0);
    rig_run(&r, 400000);
    ck_assert_uint_eq(mark_count("fsession.evicted"), 0);
    open_of(&b, 1);
    ck_assert_int_gt(b.id, 0);
    ck_assert_uint_eq(mark_count("fsession.evicted"), 1);
    say_close(a.c);
    a.c = say_open(&r);
    ask(&a, (struct poll){.n = 0});
    ck_assert_int_eq(a.error, 70);
    say_close(a.c);
    say_close(b.c);
    say_close(c);
    end();
}
END_TEST

/* A quarter of the shards' slots each: connections go round robin, and what one shard evicts is its own. */
START_TEST(S7_38_slots_are_shared_out_to_the_shards) {
    begin(4, "6");
    struct say *c = say_open(&r);
    ck_assert_int_eq(say_create(c, "t", 1), 0);
    say_close(c);
    int32_t opened = 0, ids[40] = {0};
    struct ses s[40] = {0};
    for (int i = 0; i < 40; i++) {
        open_of(&s[i], 1);
        opened += s[i].id > 0;
        ids[i] = s[i].id;
        for (int k = 0; k < i && ids[i] > 0; k++) {
            ck_assert_int_ne(ids[k], ids[i]);
        }
    }
    ck_assert_int_eq(opened, 6);
    for (int i = 0; i < 40; i++) {
        say_close(s[i].c);
    }
    end();
}
END_TEST

START_TEST(memory_of_sessions_is_bounded_and_one_that_outgrows_it_is_closed_with_70) {
    enum { WIDE = 90000 };
    begin(4, "1000");
    struct say *c = say_open(&r);
    ck_assert_int_eq(say_create(c, "t", WIDE), 0);
    size_t before = rig_live(&r);
    struct ses s[5] = {0};
    for (int i = 0; i < 4; i++) {
        open_of(&s[i], 20000);
    }
    size_t share = LIMIT_FETCH_SESSION_BYTES / 4;
    ck_assert_uint_lt(rig_live(&r), before + LIMIT_FETCH_SESSION_BYTES);
    open_of(&s[4], WIDE);                              /* more than a shard's share: without a session, and answered */
    ck_assert_int_eq(s[4].id, 0);
    ask(&s[0], (struct poll){.first = 20000, .n = 60000});
    ck_assert_int_eq(s[0].error, 70);
    rig_run(&r, 20);
    ask(&s[0], (struct poll){.n = 0});
    ck_assert_int_eq(s[0].error, 70);
    ck_assert_uint_lt(rig_live(&r), before + 3 * share);
    for (int i = 1; i < 4; i++) {
        ask(&s[i], (struct poll){.forget_n = 20000});
        ck_assert_int_eq(s[i].error, 0);
        ck_assert_int_eq(s[i].id, 0);                  /* nothing is left: closed */
    }
    rig_run(&r, 20);
    ck_assert(no_sessions());
    for (int i = 0; i < 5; i++) {
        say_close(s[i].c);
    }
    say_close(c);
    end();
}
END_TEST

/* Add and forget everything, again and again, while appends wake watches and cancels cross them. */
START_TEST(watches_and_their_cancels_cross_without_loss) {
    begin(2, "1000");
    struct say *c = say_open(&r);
    ck_assert_int_eq(say_create(c, "t", 50), 0);
    struct ses s = {0};
    struct prng rng;
    prng_seed(&rng, 99);
    open_of(&s, 50);
    for (int i = 0; i < 300; i++) {
        int32_t at = (int32_t)prng_below(&rng, 40), n = 1 + (int32_t)prng_below(&rng, 10);
        say_produce(c, (struct say_to){"t", at}, 1, say_batch(c, &(struct say_batch){.value_n = 10}));
        send(&s, (struct poll){.forget_first = at, .forget_n = n, .wait = (ms)prng_below(&rng, 3), .max_bytes = 1});
        send(&(struct ses){.c = s.c, .id = s.id, .epoch = s.epoch + 1}, (struct poll){.first = at, .n = n, .from = 0, .wait = (ms)prng_below(&rng, 3), .max_bytes = 1});
        take(&s);
        ck_assert_int_eq(s.error, 0);
        take(&s);
        ck_assert_int_eq(s.error, 0);
        ck_assert_int_eq(say_produced(c)->error_code, 0);
        say_forget(s.c);
        say_forget(c);
    }
    int64_t ends[50];
    for (int32_t i = 0; i < 50; i++) {
        ends[i] = say_latest(c, (struct say_to){"t", i});
    }
    for (int32_t i = 0; i < 50; i++) {                 /* every partition is still watched: an append to it arrives */
        ask(&s, (struct poll){.first = i, .n = 1, .from = ends[i]});
    }
    ask(&s, (struct poll){.n = 0});
    ck_assert_int_eq(s.parts_n, 0);
    for (int32_t i = 0; i < 50; i++) {
        send(&s, (struct poll){.wait = 5000});
        append(c, i, 10);
        take(&s);
        ck_assert_int_eq(s.with_records, 1);
        ask(&s, (struct poll){.first = i, .n = 1, .from = ends[i] + 1});
    }
    ask(&s, (struct poll){.forget_n = 50});
    say_close(s.c);
    rig_run(&r, 10);
    ck_assert(no_sessions());
    say_close(c);
    end();
}
END_TEST

START_TEST(S4_16_partitions_that_come_later_join_and_a_topic_that_goes_answers_the_poll_that_waits) {
    begin(2, "1000");
    struct say *c = say_open(&r);
    ck_assert_int_eq(say_create(c, "t", 2), 0);
    struct ses s = {0};
    open_of(&s, 2);
    ask(&s, (struct poll){.first = 2, .n = 1});
    ck_assert_int_eq(s.parts_n, 1);                    /* error 3 */
    ask(&s, (struct poll){.forget_first = 2, .forget_n = 1});
    send(&s, (struct poll){.wait = 100000});
    ck_assert_int_eq(say_delete(c, "t"), 0);
    take(&s);
    ck_assert_int_ge(s.parts_n, 1);
    ask(&s, (struct poll){.n = 0});
    ck_assert_int_eq(s.parts_n, 2);                    /* both say 3 */
    ck_assert_int_eq(say_create(c, "t", 2), 0);
    append(c, 1, 10);
    ask(&s, (struct poll){.n = 0});
    ck_assert_int_eq(s.with_records, 1);               /* the namesake */
    say_close(s.c);
    say_close(c);
    end();
}
END_TEST

/* Stops and crashes with sessions in every state; nothing may be left, nobody may wait. */
START_TEST(the_broker_stops_whatever_sessions_and_watches_do) {
    for (int round = 0; round < 12; round++) {
        begin(1u << (round % 3), "1000");
        struct say *c = say_open(&r);
        ck_assert_int_eq(say_create(c, "t", 30), 0);
        struct ses s[6] = {0};
        for (int i = 0; i < 6; i++) {
            open_of(&s[i], 30);
            if (i % 2 == 0) {
                send(&s[i], (struct poll){.wait = 100000, .min_bytes = i == 4 ? 100000 : 1, .forget_first = i, .forget_n = 3});
            }
        }
        say_close(s[1].c);
        say_reset(s[2].c);
        for (int i = 0; i < 10; i++) {
            say_produce(c, (struct say_to){"t", i * 3}, 1, say_batch(c, &(struct say_batch){.value_n = 100}));
        }
        rig_run(&r, round % 4);
        rig_stop_begin(&r);
        ck_assert_int_lt(rig_stop_wait(&r), 4000);
        for (int i = 0; i < 6; i++) {
            if (i != 1 && i != 2) {
                say_close(s[i].c);
            }
        }
        say_close(c);
        rig_done(&r);
    }
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("fetch_session");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, BR_016_an_idle_session_asks_nobody_and_allocates_nothing_and_one_append_costs_one_look, 0, 2);
    tcase_add_test(tc, S7_39_many_appends_are_found_by_the_poll_after_the_one_that_the_first_woke);
    tcase_add_test(tc, S7_38_a_stale_session_is_evicted_one_with_a_parked_poll_is_not);
    tcase_add_test(tc, S7_38_slots_are_shared_out_to_the_shards);
    tcase_add_test(tc, memory_of_sessions_is_bounded_and_one_that_outgrows_it_is_closed_with_70);
    tcase_add_test(tc, watches_and_their_cancels_cross_without_loss);
    tcase_add_test(tc, S4_16_partitions_that_come_later_join_and_a_topic_that_goes_answers_the_poll_that_waits);
    tcase_add_test(tc, the_broker_stops_whatever_sessions_and_watches_do);
    return run_suite("fetch_session", tc);
}
