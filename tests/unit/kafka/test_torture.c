/* Goal: no allocation that fails takes the broker down, leaks, or is answered wrongly: the connection closes or an error comes back, and
 * the next client is served. Method: a short scenario with everything prepared before; the 1st, 2nd, 3rd ... allocation of it fails, until
 * it runs through untouched. What is left over at the clean stop fails the run. A metadata change that cannot be applied ends the process
 * (DESIGN 4): that is said, and the broker starts again. */
#include <stdio.h>
#include <string.h>

#include "base/mark.h"
#include "base/run.h"
#include "say.h"
#include "wire/k_describe_configs.h"
#include "wire/k_incremental_alter_configs.h"

#define T0 ((struct say_to){"t", 0})

static struct rig r;
static int round_n;

/* One scenario: say what to send (encoded before the fault is armed); judge the answer that came, if any. */
struct scene {
    const char *name;
    uint32_t shards;
    bool cold;                         /* the tail is too small to hold anything */
    bool fresh;                        /* on a shard that has served nobody since its start: no pool has anything yet */
    void (*send)(struct say *s);
    void (*judge)(struct say *s);      /* a whole answer is there */
    span (*meanwhile)(struct say *s);  /* a frame that a helper sends 5 ms later; may be NULL */
};

static void start(const struct scene *sc) {
    rig_start(&r);
    struct say *s = say_open(&r);
    (void)sc;
    int16_t e = say_create(s, "t", 4);
    ck_assert(e == 0 || e == 36);
    for (int i = 0; i < 4; i++) {
        say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.value_n = 3000}));
        ck_assert_int_eq(say_produced(s)->error_code, 0);
    }
    say_close(s);
}

static bool verdict(void *u) {
    struct say *s = u;
    return say_has(s) || s->down || !world_node_is_up(r.n);
}

/* True when the n-th allocation was reached. */
static bool play(const struct scene *sc, uint64_t n) {
    round_n = (int)n;
    struct say *s = say_open(&r), *helper = sc->meanwhile != NULL ? say_open(&r) : NULL;
    s->in = mem_alloc(MEM_TEST, s->in_cap = 1 << 20);          /* the client allocates nothing while the fault is armed */
    span later = helper != NULL ? sc->meanwhile(helper) : SPAN_NULL;
    sc->send(s);
    uint64_t before = mem_calls();
    mem_fail_nth(n);
    if (helper != NULL) {
        rig_run(&r, 5);
        say_bytes(helper, later.p, later.n);
    }
    (void)world_run(r.w, verdict, s, 5000);
    bool reached = mem_calls() - before >= n;
    mem_fail_nth(0);
    if (world_node_is_up(r.n)) {
        ck_assert_msg(say_has(s) || s->down, "%s: allocation %lu: neither answer nor close", sc->name, n);
        if (say_has(s)) {
            sc->judge(s);
        }
    }
    say_close(s);
    if (helper != NULL) {
        say_close(helper);
    }
    return reached;
}

static void goes_on(void) {
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_describe(s, "t")->error_code, 0);
    int64_t at = say_latest(s, T0);
    say_produce(s, T0, -1, say_batch(s, &(struct say_batch){0}));
    const struct k_produce_resp_topic_part *a = say_produced(s);
    ck_assert_msg(a->error_code == 0 && a->base_offset == at, "allocation %d: code %d", round_n, a->error_code);
    say_close(s);
}

static void torture(const struct scene *sc) {
    rig_init(&r, 3, sc->shards);
    r.errors_expected = true;
    if (sc->cold) {
        rig_set(&r, "store.tail.bytes", "1024");
    }
    start(sc);
    uint64_t n = 1, fatal = 0;
    while (play(sc, n)) {
        n++;
        if (sc->fresh) {
            rig_stop(&r);
            rig_start(&r);
            struct say *other = say_open(&r);      /* on shard 0 */
            say_describe(other, "t");
            say_close(other);
        }
        if (!world_node_is_up(r.n)) {
            ck_assert_msg(r.is_fatal && strstr(r.why, "memory") != NULL, "%s: allocation %lu: the process ended: %s", sc->name, n, r.why);
            fatal++;
            start(sc);
        }
        if (!sc->fresh) {
            goes_on();
        }
        ck_assert_uint_lt(n, 3000);
    }
    printf("RESULT %s: %lu allocations failed one by one, %lu ended the process with a word\n", sc->name, n - 1, fatal);
    ck_assert_uint_gt(n, 3);
    goes_on();
    rig_stop(&r);
    rig_done(&r);
}

/* ---- the scenes ---- */

static void send_produce(struct say *s) {
    static uint64_t lives;
    struct k_produce_req *q = (struct k_produce_req *)(uintptr_t)say_produce_req(s, T0, -1,
        say_batch(s, &(struct say_batch){.records = 3, .value_n = 6000, .pid = 1000000 + (int64_t)++lives}));
    struct k_produce_req_topic_part *parts = arena_zalloc(&s->arena, 4 * sizeof *parts);
    for (int32_t i = 0; i < 4; i++) {
        parts[i] = q->topics[0].partitions[0];
        parts[i].index = i;
    }
    q->topics[0].partitions = parts;
    q->topics[0].partitions_n = 4;
    say_send(s, K_PRODUCE, 9, q);
}

static void judge_produce(struct say *s) {
    const struct k_produce_resp *p = say_take(s);
    for (int32_t i = 0; i < p->topics[0].partitions_n; i++) {
        int16_t e = p->topics[0].partitions[i].error_code;
        ck_assert_msg(e == 0 || e == 56, "code %d", e);
    }
}

static void send_fetch(struct say *s) { say_fetch(s, T0, 0, 0, 1); }

static void judge_fetch(struct say *s) {
    const struct k_fetch_resp *f = say_take(s);
    for (int32_t i = 0; i < f->topics_n; i++) {
        for (int32_t k = 0; k < f->topics[i].partitions_n; k++) {
            int16_t e = f->topics[i].partitions[k].error_code;
            ck_assert_msg(e == 0 || e == 56, "code %d", e);
        }
    }
}

static void send_long_poll(struct say *s) {
    struct k_fetch_req *q = (struct k_fetch_req *)(uintptr_t)say_fetch_req(s, (struct say_to){"t", 1}, 0, 1000, 100000);
    struct k_fetch_req_topic_part *parts = arena_zalloc(&s->arena, 3 * sizeof *parts);
    for (int32_t i = 0; i < 3; i++) {
        parts[i] = q->topics[0].partitions[0];
        parts[i].partition = i + 1;
    }
    q->topics[0].partitions = parts;
    q->topics[0].partitions_n = 3;
    say_send(s, K_FETCH, 12, q);
}

static span produce_meanwhile(struct say *s) {
    return say_frame(s, K_PRODUCE, 9, say_produce_req(s, (struct say_to){"t", 2}, 0, say_batch(s, &(struct say_batch){.value_n = 200000})));
}

static void send_session(struct say *s) {
    struct k_fetch_req *q = (struct k_fetch_req *)(uintptr_t)say_fetch_req(s, T0, 0, 0, 1);
    q->session_epoch = 0;
    say_send(s, K_FETCH, 12, q);
}

/* A poll of a session with two partitions known and two new ones, most of which have nothing yet. */
static void send_session_poll(struct say *s) {
    struct k_fetch_req *q = (struct k_fetch_req *)(uintptr_t)say_fetch_req(s, (struct say_to){"t", 1}, 0, 0, 1);
    struct k_fetch_req_topic_part *parts = arena_zalloc(&s->arena, 4 * sizeof *parts);
    for (int32_t i = 0; i < 4; i++) {
        parts[i] = q->topics[0].partitions[0];
        parts[i].partition = i;
        parts[i].fetch_offset = i == 0 ? say_latest(s, T0) : say_latest(s, (struct say_to){"t", i});
    }
    q->topics[0].partitions = parts;
    q->topics[0].partitions_n = 2;
    q->session_epoch = 0;
    const struct k_fetch_resp *f = say_ask(s, K_FETCH, 12, q);
    ck_assert_int_gt(f->session_id, 0);
    q->session_id = f->session_id;
    q->session_epoch = 1;
    q->max_wait_ms = 1000;
    q->min_bytes = 2;
    q->topics[0].partitions = parts + 1;
    q->topics[0].partitions_n = 3;
    say_send(s, K_FETCH, 12, q);
}

static void judge_session_poll(struct say *s) {
    const struct k_fetch_resp *f = say_take(s);
    ck_assert_msg(f->error_code == 0 || f->error_code == 70, "code %d", f->error_code);
    for (int32_t i = 0; i < f->topics_n; i++) {
        for (int32_t k = 0; k < f->topics[i].partitions_n; k++) {
            int16_t e = f->topics[i].partitions[k].error_code;
            ck_assert_msg(e == 0 || e == 56, "code %d", e);
        }
    }
}

static void send_metadata(struct say *s) {
    struct k_metadata_req q = {.topics_n = -1, .with_topic_ops = true};
    say_send(s, K_METADATA, 12, &q);
}

static void judge_metadata(struct say *s) {
    const struct k_metadata_resp *m = say_take(s);
    ck_assert_int_ge(m->topics_n, 1);
}

static char name[32];

static void send_auto_create(struct say *s) {
    static int n;
    snprintf(name, sizeof name, "auto%d", n++);
    struct k_metadata_req q;
    struct k_metadata_req_topic t;
    k_metadata_req_init(&q);
    k_metadata_req_topic_init(&t);
    t.name = span_str(name);
    q.topics = &t;
    q.topics_n = 1;
    say_send(s, K_METADATA, 9, &q);
}

static void judge_auto_create(struct say *s) {
    int16_t e = say_described(s)->error_code;
    ck_assert_msg(e == 0 || e == 3, "code %d", e);
}

static void send_create(struct say *s) {
    static int n;
    snprintf(name, sizeof name, "made%d", n++);
    say_create_send(s, name, 3);
}

static void judge_create(struct say *s) {
    int16_t e = say_created(s);
    ck_assert_msg(e == 0 || e == 56, "code %d", e);
    struct say *look = say_open(&r);
    ck_assert_int_eq(say_describe(look, name)->error_code, e == 0 ? 0 : 3);    /* refused: nothing is visible */
    say_close(look);
}

static void send_times(struct say *s) { say_list(s, T0, 5); }

static void judge_times(struct say *s) {
    int16_t e = say_listed(s)->error_code;
    ck_assert_msg(e == 0 || e == 56, "code %d", e);
}

static void send_latest(struct say *s) { say_list(s, T0, -1); }

static void send_pid(struct say *s) {
    struct k_init_producer_id_req q;
    k_init_producer_id_req_init(&q);
    q.transactional_id = SPAN_NULL;
    say_send(s, K_INIT_PRODUCER_ID, 4, &q);
}

static void judge_pid(struct say *s) {
    const struct k_init_producer_id_resp *p = say_take(s);
    ck_assert_msg(p->error_code == 0 || p->error_code == 56, "code %d", p->error_code);
}

static void send_settings(struct say *s) {
    struct k_incremental_alter_configs_req_resource_config c = {.name = SPAN_LIT("retention.ms"), .value = SPAN_LIT("1000")};
    struct k_incremental_alter_configs_req_resource t = {.type = 2, .name = SPAN_LIT("t"), .configs = &c, .configs_n = 1};
    struct k_incremental_alter_configs_req q = {.resources = &t, .resources_n = 1};
    say_send(s, K_INCREMENTAL_ALTER_CONFIGS, 1, &q);
}

static void judge_settings(struct say *s) {
    const struct k_incremental_alter_configs_resp *x = say_take(s);
    int16_t code = x->responses[0].error_code;
    ck_assert_msg(code == 0 || code == 56 || code == 44, "code %d", code);
}

static void send_told(struct say *s) {
    struct k_describe_configs_req_resource t = {.type = 4, .name = SPAN_LIT("1"), .keys_n = -1};
    struct k_describe_configs_req q = {.resources = &t, .resources_n = 1, .with_synonyms = true, .with_docs = true};
    say_send(s, K_DESCRIBE_CONFIGS, 4, &q);
}

static void judge_told(struct say *s) {
    const struct k_describe_configs_resp *x = say_take(s);
    ck_assert_int_eq(x->results[0].error_code, 0);
    ck_assert_int_gt(x->results[0].configs_n, 200);
}

static const struct scene scenes[] = {
    {"produce", 1, false, false, send_produce, judge_produce, NULL},
    {"produce over shards", 2, false, false, send_produce, judge_produce, NULL},
    {"fetch", 1, false, false, send_fetch, judge_fetch, NULL},
    {"fetch over shards", 2, false, false, send_fetch, judge_fetch, NULL},
    {"fetch, cold", 1, true, false, send_fetch, judge_fetch, NULL},
    {"long poll", 2, false, false, send_long_poll, judge_fetch, NULL},
    {"long poll, woken", 2, false, false, send_long_poll, judge_fetch, produce_meanwhile},
    {"fetch on a fresh shard", 2, false, true, send_fetch, judge_fetch, NULL},
    {"long poll on a fresh shard", 2, false, true, send_long_poll, judge_fetch, produce_meanwhile},
    {"produce on a fresh shard", 2, false, true, send_produce, judge_produce, NULL},
    {"session opened", 2, false, false, send_session, judge_fetch, NULL},
    {"session polled", 2, false, false, send_session_poll, judge_session_poll, NULL},
    {"session polled, woken", 2, false, false, send_session_poll, judge_session_poll, produce_meanwhile},
    {"session opened on a fresh shard", 2, false, true, send_session, judge_fetch, NULL},
    {"session polled on a fresh shard", 2, false, true, send_session_poll, judge_session_poll, produce_meanwhile},
    {"metadata", 2, false, false, send_metadata, judge_metadata, NULL},
    {"auto-creation", 2, false, false, send_auto_create, judge_auto_create, NULL},
    {"create", 2, false, false, send_create, judge_create, NULL},
    {"offset of a time", 2, true, false, send_times, judge_times, NULL},
    {"latest offset", 2, false, false, send_latest, judge_times, NULL},
    {"producer id", 2, false, false, send_pid, judge_pid, NULL},
    {"settings changed", 2, false, false, send_settings, judge_settings, NULL},
    {"settings told", 2, false, false, send_told, judge_told, NULL},
};
#define SCENES ((int)(sizeof scenes / sizeof *scenes))

START_TEST(the_nth_allocation_fails) { torture(&scenes[_i]); }
END_TEST

/* ---- memory that is short for a while (T66) ---- */

#define CROWD 24

static void crowd_ask(struct say *s, int i) {
    switch (i % 4) {
    case 0:
        say_produce(s, (struct say_to){"t", i % 3}, 1, say_batch(s, &(struct say_batch){.value_n = 100000}));
        break;
    case 1:
        say_fetch(s, T0, 0, 50, 1);
        break;
    case 2:
        send_metadata(s);
        break;
    default:
        say_list(s, T0, -1);
    }
}

/* A ceiling close above what is alive, under the load of two dozen clients: each is answered or closed, nobody hangs; when the ceiling is
 * gone all is as before. */
START_TEST(T66_memory_short_for_a_while) {
    rig_init(&r, 40 + (uint64_t)_i, 1u << (_i % 3));
    r.errors_expected = true;
    start(&scenes[0]);
    int closed = 0;
    for (int round = 0; round < 12; round++) {
        struct say *s[CROWD];
        for (int i = 0; i < CROWD; i++) {
            s[i] = say_open(&r);
        }
        rig_budget(&r, rig_live(&r) + (size_t)round * 30000);
        for (int i = 0; i < CROWD; i++) {
            crowd_ask(s[i], i + round);
            crowd_ask(s[i], i + round);
        }
        rig_run(&r, 500);
        rig_budget(&r, 0);
        ck_assert(world_node_is_up(r.n));
        for (int i = 0; i < CROWD; i++) {
            for (int k = 0; k < 2 && !s[i]->down; k++) {
                ck_assert_msg(say_await(s[i], 5000) || s[i]->down, "round %d client %d hangs", round, i);
                if (say_has(s[i])) {
                    (void)say_take(s[i]);
                }
            }
            closed += s[i]->down;
            say_close(s[i]);
        }
        goes_on();
    }
    ck_assert_int_gt(closed, 10);                  /* it was short */
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("torture");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, the_nth_allocation_fails, 0, SCENES);
    tcase_add_loop_test(tc, T66_memory_short_for_a_while, 0, 9);
    return run_suite("torture", tc);
}
