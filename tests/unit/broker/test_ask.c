/* Goal: asks between shards keep their order and come home exactly once, whatever is mixed (DESIGN 3); nothing runs inside ask_send; more
 * of them than a turn takes are not lost or reordered; a watch and its cancel end once however they meet (S1.5, S7.5); appends in order,
 * timed out (S5.19) or of partitions that are gone; looking for the latest offset waits (D6).
 * Method: a node without a door on the simulated machine; asks are sent by the test from any shard. */
#include "broker/ask.h"

#include <check.h>
#include <string.h>

#include "base/limits.h"
#include "base/mark.h"
#include "base/mem.h"
#include "base/run.h"
#include "broker/append.h"
#include "broker/node.h"
#include "broker/offsets.h"
#include "broker/read.h"
#include "broker/topics.h"
#include "port_sim/world.h"
#include "wire/record.h"

static struct world *w;
static struct world_node *wn;
static struct node_conf conf;
static struct conf *settings;
static struct node *node;
static bool ready;
static uuid topic_id;

/* ---- a node without a door ---- */

static err door_start(struct node *n, void *u, char *why, size_t cap) {
    (void)n, (void)u, (void)why, (void)cap;
    return ERR_OK;
}
static void door_close(struct node *n, void *u) { (void)n, (void)u; }
static void door_drain(struct shard *sh, void *u) {
    (void)u;
    node_door_idle(sh);
}
static void on_ready(void *u, err e, const char *why) {
    (void)u, (void)why;
    ck_assert_int_eq(e, ERR_OK);
    ready = true;
}
static void on_stopped(void *u) { (void)u; }
static void on_fatal(void *u, const char *why) {
    (void)u;
    ck_abort_msg("fatal: %s", why);
}
static void on_ended(void *u) {
    (void)u;
    node_free(node);
    node = NULL;
}

static void boot(void *u, struct port **ports, uint32_t shards) {
    (void)u;
    char why[256];
    struct node_boot b = {.conf = &conf, .ports = ports, .ports_n = shards, .on_ready = on_ready, .on_stopped = on_stopped, .on_fatal = on_fatal,
                          .door = {.start = door_start, .close = door_close, .drain = door_drain}};
    ck_assert_int_eq(node_boot(&b, &node, why, sizeof why), ERR_OK);
}

static bool is_ready(void *u) {
    (void)u;
    return ready;
}

static void begin(uint32_t shards, uint64_t seed) {
    char why[256];
    w = world_new(seed);
    wn = world_node_new(w, "n");
    ck_assert_int_eq(conf_new(&settings), ERR_OK);
    ck_assert_int_eq(node_conf_from(settings, &conf, why, sizeof why), ERR_OK);
    conf.topic_defaults.retention_age = -1;        /* these batches are of 1970 */
    ready = false;
    world_node_on_ended(wn, on_ended, NULL);
    ck_assert_int_eq(world_node_start(wn, shards, boot, NULL), ERR_OK);
    ck_assert(world_run(w, is_ready, NULL, 10000));
}

static void do_stop(void *u) {
    (void)u;
    node_stop(node);
}

static bool is_down(void *u) {
    (void)u;
    return !world_node_is_up(wn);
}

static void end(void) {
    (void)world_node_call(wn, 0, do_stop, NULL);
    ck_assert(world_run(w, is_down, NULL, 10000));
    world_free(w);
    conf_free(settings);
}

static void pass_time(ms n) { (void)world_run(w, NULL, NULL, n); }

/* ---- order ---- */

struct numbered {
    struct ask ask;
    uint32_t home, owner;
    int number;
    bool hold;                         /* the owner keeps it until the next one comes */
};

static int sent[LIMIT_SHARDS][LIMIT_SHARDS], ran[LIMIT_SHARDS][LIMIT_SHARDS], came[LIMIT_SHARDS][LIMIT_SHARDS];
static bool sending;

static void number_run(struct ask *a) {
    struct numbered *x = list_entry(a, struct numbered, ask);
    ck_assert(!sending);
    ck_assert_uint_eq(a->owner->index, x->owner);
    ck_assert_int_eq(x->number, ran[x->home][x->owner]++);
    ask_return(a, x->number % 2 == 0 ? ERR_OK : ERR_LIMIT);
}

static void number_home(struct ask *a) {
    struct numbered *x = list_entry(a, struct numbered, ask);
    ck_assert(!sending);
    ck_assert_int_eq(a->err, x->number % 2 == 0 ? ERR_OK : ERR_LIMIT);
    ck_assert_int_eq(x->number, came[x->home][x->owner]++);
    mem_free(x);
}

static void send_some(void *u) {
    uint32_t home = *(uint32_t *)u;
    struct prng *rng = world_rng(w);
    sending = true;
    for (uint64_t n = prng_chance(rng, 1, 20) ? 3 * LIMIT_INBOX_PER_TURN : prng_below(rng, 20); n > 0; n--) {
        struct numbered *x = mem_zalloc(MEM_TEST, sizeof *x);
        x->home = home;
        x->owner = (uint32_t)prng_below(rng, node->shards_n);
        x->number = sent[home][x->owner]++;
        ask_init(&x->ask, number_run, number_home);
        ask_send(node->shards[home], node->shards[x->owner], &x->ask);
    }
    sending = false;
}

START_TEST(asks_and_returns_keep_their_order_between_any_two_shards) {
    uint32_t shards = 1u << _i;
    begin(shards, 5);
    for (int i = 0; i < 300; i++) {
        uint32_t home = (uint32_t)prng_below(world_rng(w), shards);
        (void)world_node_call(wn, home, send_some, &home);
        for (uint64_t k = prng_below(world_rng(w), 30); k > 0; k--) {
            (void)world_step(w);
        }
    }
    pass_time(1000);
    for (uint32_t a = 0; a < shards; a++) {
        for (uint32_t b = 0; b < shards; b++) {
            ck_assert_int_gt(sent[a][b], 100);
            ck_assert_int_eq(ran[a][b], sent[a][b]);
            ck_assert_int_eq(came[a][b], sent[a][b]);
        }
    }
    end();
}
END_TEST

/* ---- a topic to work on ---- */

static struct topics_change change;
static int changed;

static void on_changed(struct ask *a) {
    ck_assert_int_eq(a->err, ERR_OK);
    changed++;
}

static void do_create(void *u) {
    (void)u;
    topics_init(&change, TOPICS_CREATE, on_changed);
    change.topic_id = topic_id = (uuid){{1, 2, 3, 4, 5, 6, 0x47, 8, 0x89}};
    change.create.name = SPAN_LIT("t");
    change.create.partitions = 4;
    change.create.replication = -1;
    topics_send(node->shards[0], &change);
}

static void do_delete(void *u) {
    (void)u;
    topics_init(&change, TOPICS_DELETE, on_changed);
    change.topic_id = topic_id;
    topics_send(node->shards[0], &change);
}

static bool is_changed(void *u) { return changed >= *(int *)u; }

static void change_topic(void (*what)(void *u)) {
    int want = changed + 1;
    (void)world_node_call(wn, 0, what, NULL);
    ck_assert(world_run(w, is_changed, &want, 10000));
}

static struct shard *owner_of(int32_t part) {
    struct meta_topic *t = meta_topic_by_id(node->shards[0]->meta, topic_id);
    return shard_owner(node->shards[0], t, part);
}

/* ---- appends ---- */

struct put {
    struct append_ask ask;
    struct chunk *chunk;
    int done;
    uint32_t owner;
    int32_t part;
    int16_t acks;
    ms timeout;
    struct arena arena;
};

static void on_put(struct ask *a) {
    struct put *p = list_entry(list_entry(a, struct append_ask, ask), struct put, ask);
    p->done++;
}

/* Sent from shard 0. */
static void do_put(void *u) {
    struct put *p = u;
    struct record_build rb;
    span b;
    arena_init(&p->arena, NULL, 1 << 20);
    record_build_init(&rb, &p->arena, CODEC_NONE);
    record_build_add(&rb, 1, SPAN_LIT("k"), SPAN_LIT("v"), NULL, 0);
    ck_assert_int_eq(record_build_finish(&rb, &b), ERR_OK);
    struct shard *home = node->shards[0];
    p->chunk = chunk_new(home->chunks, b.n);
    memcpy(p->chunk->data, b.p, b.n);
    append_init(&p->ask, on_put);
    p->ask.topic_id = topic_id;
    p->ask.partition = p->part;
    p->ask.acks = p->acks;
    p->ask.timeout = p->timeout;
    p->ask.chunk = p->chunk;
    p->ask.batch = span_of(p->chunk->data, b.n);
    ck_assert_int_eq(batch_head_get(p->ask.batch, &p->ask.head), ERR_OK);
    append_send(home, node->shards[p->owner], &p->ask);
}

static void do_put_done(void *u) {
    struct put *p = u;
    chunk_unref(p->chunk);
    arena_done(&p->arena);
}

static void put_send(struct put *p, int32_t part, int16_t acks, ms timeout) {
    *p = (struct put){.part = part, .acks = acks, .timeout = timeout, .owner = owner_of(part)->index};
    (void)world_node_call(wn, 0, do_put, p);
}

static void put_check(struct put *p, err want, off64 base) {
    ck_assert_int_eq(p->done, 1);
    ck_assert_int_eq(p->ask.ask.err, want);
    ck_assert_int_eq(p->ask.base_offset, base);
    (void)world_node_call(wn, 0, do_put_done, p);
}

START_TEST(S5_19_appends_wait_for_their_class_and_no_longer_than_their_time) {
    begin(1u << _i, 6);
    change_topic(do_create);
    struct put p[6];
    world_node_hold_syncs(wn, true);
    put_send(&p[0], 1, 0, 0);
    put_send(&p[1], 1, 1, 0);
    put_send(&p[2], 1, -1, 100);
    put_send(&p[3], 1, -1, 100000);
    pass_time(90);
    put_check(&p[0], ERR_OK, 0);                   /* queued */
    put_check(&p[1], ERR_OK, 1);                   /* written */
    ck_assert_int_eq(p[2].done + p[3].done, 0);    /* stable */
    pass_time(20);
    put_check(&p[2], ERR_TIMEOUT, -1);
    ck_assert_int_eq(p[3].done, 0);
    world_node_hold_syncs(wn, false);
    pass_time(100);
    put_check(&p[3], ERR_OK, 3);
    put_send(&p[4], 1, 1, 0);
    pass_time(100);
    put_check(&p[4], ERR_OK, 4);                   /* what was late had stayed */
    put_send(&p[5], 9, 1, 0);
    pass_time(100);
    put_check(&p[5], ERR_NO_TOPIC, -1);
    end();
}
END_TEST

START_TEST(appends_and_waits_of_a_deleted_topic_end_with_it) {
    begin(1u << _i, 7);
    change_topic(do_create);
    struct put p[3];
    world_node_hold_syncs(wn, true);
    for (int i = 0; i < 3; i++) {
        put_send(&p[i], i, -1, 100000);
    }
    pass_time(20);
    int want = changed + 1;
    (void)world_node_call(wn, 0, do_delete, NULL);
    pass_time(20);
    world_node_hold_syncs(wn, false);
    ck_assert(world_run(w, is_changed, &want, 10000));
    pass_time(100);
    for (int i = 0; i < 3; i++) {
        put_check(&p[i], p[i].ask.ask.err, p[i].ask.base_offset);      /* once; the sync or the removal came first */
        ck_assert(p[i].ask.ask.err == ERR_OK || p[i].ask.ask.err == ERR_NO_TOPIC);
    }
    end();
}
END_TEST

/* ---- watches ---- */

struct look {
    struct read_ask ask;
    struct arena arena;
    int done;
    uint32_t home;
    bool op_watch;
};

static void on_look(struct read_ask *a) {
    struct look *l = a->u;
    l->done++;
}

static void do_look(void *u) {
    struct look *l = u;
    if (!l->op_watch) {
        arena_init(&l->arena, NULL, 1 << 20);
        ck_assert_int_eq(read_init(&l->ask, &l->arena, 1, on_look), ERR_OK);
        l->ask.u = l;
        l->ask.parts[0] = (struct read_part){.topic_id = topic_id, .partition = 2, .current_epoch = -1, .last_fetched_epoch = -1, .bytes_max = 100};
    }
    read_send(node->shards[l->home], owner_of(2), &l->ask, l->op_watch ? READ_WATCH : READ_PROBE);
}

static void do_cancel(void *u) { read_cancel(&((struct look *)u)->ask); }

static void do_look_done(void *u) {
    struct look *l = u;
    read_drop(&l->ask);
    arena_done(&l->arena);
}

static struct put waker;

/* A watch, a cancel and an append at every distance of a few events from each other: when_done runs exactly once. */
START_TEST(S1_5_a_watch_ends_once_however_wake_and_cancel_meet) {
    uint64_t woken = 0, cancelled = 0;
    begin(1u << _i, 8);
    change_topic(do_create);
    for (int gap = 0; gap < 120; gap++) {
        struct look l = {.home = node->shards_n - 1};
        (void)world_node_call(wn, l.home, do_look, &l);
        pass_time(5);
        ck_assert_int_eq(l.done, 1);
        ck_assert_int_eq(l.ask.parts[0].err, ERR_OK);
        ck_assert_int_eq(l.ask.parts[0].high_watermark, gap);
        l.op_watch = true;
        (void)world_node_call(wn, l.home, do_look, &l);
        pass_time(gap % 3);
        put_send(&waker, 2, -1, 10000);
        for (int k = 0; k < gap / 2; k++) {
            (void)world_step(w);
        }
        (void)world_node_call(wn, l.home, do_cancel, &l);
        (void)world_node_call(wn, l.home, do_cancel, &l);          /* again: nothing more */
        pass_time(50);
        ck_assert_int_eq(l.done, 2);
        ck_assert(l.ask.ask.err == ERR_OK || l.ask.ask.err == ERR_CANCELLED);
        woken += l.ask.ask.err == ERR_OK;
        cancelled += l.ask.ask.err == ERR_CANCELLED;
        put_check(&waker, ERR_OK, gap);
        (void)world_node_call(wn, l.home, do_look_done, &l);
    }
    ck_assert_uint_gt(woken, 5);
    ck_assert_uint_gt(cancelled, 5);
    end();
}
END_TEST

/* ---- latest offset ---- */

struct latest {
    struct offsets_ask ask;
    struct arena arena;
    int done;
};

static void on_latest(struct ask *a) {
    struct latest *l = list_entry(a, struct offsets_ask, ask)->u;
    l->done++;
}

static void do_latest(void *u) {
    struct latest *l = u;
    arena_init(&l->arena, NULL, 1 << 20);
    ck_assert_int_eq(offsets_init(&l->ask, &l->arena, 1, OFFSETS_LIST, on_latest), ERR_OK);
    l->ask.u = l;
    l->ask.parts[0] = (struct offsets_part){.topic_id = topic_id, .partition = 2, .current_epoch = -1, .ts = OFFSETS_LATEST};
    offsets_send(node->shards[0], owner_of(2), &l->ask);
}

static void do_latest_done(void *u) {
    struct latest *l = u;
    offsets_drop(&l->ask);
    arena_done(&l->arena);
}

START_TEST(D6_the_latest_offset_waits_for_what_was_written_at_its_arrival) {
    begin(1u << _i, 9);
    change_topic(do_create);
    struct put p[2];
    struct latest l = {0};
    world_node_hold_syncs(wn, true);
    put_send(&p[0], 2, 1, 0);
    pass_time(10);
    put_check(&p[0], ERR_OK, 0);
    (void)world_node_call(wn, 0, do_latest, &l);
    pass_time(200);
    ck_assert_int_eq(l.done, 0);
    world_node_hold_syncs(wn, false);
    pass_time(10);
    ck_assert_int_eq(l.done, 1);
    ck_assert_int_eq(l.ask.parts[0].err, ERR_OK);
    ck_assert_int_eq(l.ask.parts[0].offset, 1);
    (void)world_node_call(wn, 0, do_latest_done, &l);
    /* The write that it waits for is refused: the end comes down, and the answer with it. */
    l = (struct latest){0};
    world_faults_set(w, &(struct world_faults){.disk_us_max = 20000});
    world_node_fail_op(wn, DISK_WRITE, 1, ERR_NOSPACE);
    put_send(&p[1], 2, 1, 0);
    (void)world_node_call(wn, 0, do_latest, &l);
    pass_time(3000);
    ck_assert_int_eq(p[1].done, 1);
    ck_assert_int_eq(l.done, 1);
    ck_assert_int_eq(l.ask.parts[0].err, ERR_OK);
    ck_assert_int_eq(l.ask.parts[0].offset, p[1].ask.ask.err == ERR_OK ? 2 : 1);
    put_check(&p[1], p[1].ask.ask.err, p[1].ask.base_offset);
    (void)world_node_call(wn, 0, do_latest_done, &l);
    end();
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("ask");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, asks_and_returns_keep_their_order_between_any_two_shards, 0, 3);
    tcase_add_loop_test(tc, S5_19_appends_wait_for_their_class_and_no_longer_than_their_time, 0, 3);
    tcase_add_loop_test(tc, appends_and_waits_of_a_deleted_topic_end_with_it, 0, 3);
    tcase_add_loop_test(tc, S1_5_a_watch_ends_once_however_wake_and_cancel_meet, 0, 3);
    tcase_add_loop_test(tc, D6_the_latest_offset_waits_for_what_was_written_at_its_arrival, 0, 3);
    return run_suite("ask", tc);
}
