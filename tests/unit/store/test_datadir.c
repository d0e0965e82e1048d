/* Goal: whose directory it is is found out and said in plain words, and durable marks survive any change of the
 * number of shards (D7: replay goes by the files found). Method: directories made by hand on the simulated disk; a
 * node with a varying number of shards, each with its store, crashed at each operation of its start. */
#include "rig.h"

/* ---- whose is it ---- */

static struct {
    struct world *w;
    struct world_node *n;
    struct datadir *dd;
    err e;
    char why[256];
    int32_t node_id;
} d;

static void open_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u;
    (void)shards;
    uuid fresh = {.b = {1, 2, 3, 4}};
    d.why[0] = 0;
    d.e = datadir_open(ports[0]->disk, d.node_id, fresh, &d.dd, WHY_IN(d.why));
}

static err open_it(void) {
    if (world_node_is_up(d.n)) {
        world_node_crash(d.n, false);
    }
    ck_assert_int_eq(world_node_start(d.n, 1, open_boot, NULL), ERR_OK);
    return d.e;
}

static void begin(void) {
    memset(&d, 0, sizeof d);
    d.node_id = 1;
    d.w = world_new(1);
    d.n = world_node_new(d.w, "d");
}

static void put(const char *path, const char *text) {
    ck_assert_int_eq(disk_replace_all(world_node_disk(d.n), path, text, strlen(text)), ERR_OK);
}

static void make_dir(const char *path) {
    struct disk_req rq = {.op = DISK_MKDIR, .path = path};
    ck_assert_int_eq(disk_call(world_node_disk(d.n), &rq), ERR_OK);
}

START_TEST(new_and_again) {
    begin();
    ck_assert_int_eq(open_it(), ERR_OK);
    uuid id = datadir_cluster_id(d.dd);
    ck_assert(datadir_is_clean(d.dd) && id.b[3] == 4);
    ck_assert_int_eq(open_it(), ERR_OK);
    ck_assert(uuid_eq(datadir_cluster_id(d.dd), id));
    d.node_id = 2;
    ck_assert_int_eq(open_it(), ERR_FOREIGN);
    ck_assert(strstr(d.why, "node 1"));
    world_free(d.w);
}
END_TEST

START_TEST(a_kafka_directory_is_refused) {
    begin();
    put("meta.properties", "version=1\ncluster.id=abc\nnode.id=1\n");
    make_dir("__cluster_metadata-0");
    make_dir("orders-0");
    ck_assert_int_eq(open_it(), ERR_FOREIGN);
    ck_assert(strstr(d.why, "Apache Kafka"));
    struct disk_req st = {.op = DISK_STAT, .path = NAMES_META_DIR};
    ck_assert_int_eq(disk_call(world_node_disk(d.n), &st), ERR_NOT_FOUND);     /* nothing was made in it */
    world_free(d.w);
}
END_TEST

START_TEST(somebody_elses_files_are_refused) {
    begin();
    put("thesis.txt", "important");
    ck_assert_int_eq(open_it(), ERR_FOREIGN);
    ck_assert(strstr(d.why, "thesis.txt"));
    world_free(d.w);
    begin();
    make_dir("lost+found");        /* a fresh ext4 */
    ck_assert_int_eq(open_it(), ERR_OK);
    world_free(d.w);
}
END_TEST

START_TEST(newer_and_damaged_format) {
    begin();
    ck_assert_int_eq(open_it(), ERR_OK);
    put("perigee.meta/format", "perigee data directory, format 2\n");
    ck_assert_int_eq(open_it(), ERR_NEWER);
    ck_assert(strstr(d.why, "format 2"));
    put("perigee.meta/format", "perigee data directory, format 1");
    ck_assert_int_eq(open_it(), ERR_DAMAGED);
    put("perigee.meta/format", "");
    ck_assert_int_eq(open_it(), ERR_DAMAGED);
    put("perigee.meta/format", "perigee data directory, format 1\n");
    ck_assert_int_eq(open_it(), ERR_OK);
    world_free(d.w);
}
END_TEST

START_TEST(in_use) {
    begin();
    world_node_fail_op(d.n, DISK_LOCK, 1, ERR_LOCKED);
    ck_assert_int_eq(open_it(), ERR_LOCKED);
    ck_assert(strstr(d.why, ".lock"));
    world_free(d.w);
}
END_TEST

START_TEST(made_by_steps_that_a_crash_may_interrupt) {
    for (uint64_t k = 1; k < 40; k++) {
        begin();
        world_node_crash_at(d.n, k, true);
        err e = world_node_start(d.n, 1, open_boot, NULL);
        world_node_crash_at(d.n, 0, true);
        ck_assert(e == ERR_OK || e == ERR_CANCELLED);
        ck_assert_msg(open_it() == ERR_OK, "op %llu: %s", (unsigned long long)k, d.why);
        world_free(d.w);
        if (e == ERR_OK) {
            ck_assert_uint_gt(k, 10);
            return;
        }
    }
    ck_abort();
}
END_TEST

/* ---- strays, sweep ---- */

static int strays;
static bool knows(void *u, const char *name) {
    (void)u;
    return strcmp(name, "known-0") == 0;
}
static void on_stray(void *u, const char *name) {
    (void)u;
    ck_assert(strcmp(name, "unknown-12") == 0 || strcmp(name, "x-1.00-stray") == 0);
    strays++;
}

static void strays_and_sweep(void *u) {
    (void)u;
    ck_assert_int_eq(datadir_strays(d.dd, knows, NULL, on_stray), ERR_OK);
    ck_assert_int_eq(datadir_sweep(d.dd), ERR_OK);
}

START_TEST(strays_stay_and_deletions_end) {
    begin();
    ck_assert_int_eq(open_it(), ERR_OK);
    make_dir("known-0");
    make_dir("unknown-12");
    make_dir("x-1.00-stray");
    make_dir("gone-3.00112233445566778899aabbccddeeff-delete");
    put("gone-3.00112233445566778899aabbccddeeff-delete/00000000000000000000.log", "bytes");
    ck_assert_int_eq(open_it(), ERR_OK);
    ck_assert(world_node_call(d.n, 0, strays_and_sweep, NULL));
    ck_assert_int_eq(strays, 2);
    struct disk_req st = {.op = DISK_STAT, .path = "gone-3.00112233445566778899aabbccddeeff-delete"};
    ck_assert_int_eq(disk_call(world_node_disk(d.n), &st), ERR_NOT_FOUND);
    st.path = "unknown-12";
    ck_assert_int_eq(disk_call(world_node_disk(d.n), &st), ERR_OK);
    world_free(d.w);
}
END_TEST

/* ---- shards come and go ---- */

#define PARTS 12
#define SHARDS_MAX 4

static struct {
    struct world *w;
    struct world_node *n;
    struct datadir *dd;
    struct port *port[SHARDS_MAX];
    struct store *st[SHARDS_MAX];
    struct chunk_pool *chunks;
    uint32_t shards, stopped;
    struct plog *lg[PARTS];
    off64 acked[PARTS], end[PARTS];
    err e;
    char why[256];
    bool unclean;
    uint64_t scanned;
} s;

static void moved(void *u, struct plog *lg) {
    struct plog_ends e;
    (void)u;
    plog_ends(lg, &e);
    s.acked[*(int *)plog_user(lg)] = e.stable;
}

static void failed(void *u, struct plog *lg, off64 from, err why) {
    (void)u;
    (void)lg;
    (void)from;
    (void)why;
    ck_abort();
}

static err no_snapshot(void *u, struct plog *lg, struct str *ret) {
    (void)u;
    (void)lg;
    (void)ret;
    return ERR_OK;
}

static void no_replay(void *u, struct plog *lg, const struct batch_head *h) {
    (void)u;
    (void)lg;
    (void)h;
}

static void no_fatal(void *u, const char *why) {
    (void)u;
    ck_abort_msg("%s", why);
}

static void turn(void *u) {
    uint32_t i = *(uint32_t *)u;
    if (s.st[i]) {
        store_pass(s.st[i], clock_now(s.port[i]->clock));
        s.port[i]->wake_at(s.port[i], store_due(s.st[i]));
    }
}

static const struct log_conf LOG_CONF = {
    .segment_bytes = 1 << 20, .segment_age = 1LL << 40, .index_interval_bytes = 4096, .index_bytes_max = 1 << 20};
static int numbers[PARTS];
static uint32_t shard_numbers[SHARDS_MAX];

static err open_part(int p) {
    struct plog_id id = {.topic = "t", .topic_id = {.b = {7}}, .partition = p};
    struct plog_recovery rec = {0};
    numbers[p] = p;
    err e = plog_open(s.st[(uint32_t)p % s.shards], &id, &LOG_CONF, &numbers[p], &s.lg[p]);
    e = e == ERR_OK ? plog_recover(s.lg[p], &rec) : e;
    s.scanned += (uint64_t)rec.scanned_bytes;
    return e;
}

static void shards_boot(void *u, struct port **ports, uint32_t shards) {
    const struct store_conf conf = {.sync_age_max = 100,
                                    .unsynced_bytes_max = 1 << 20,
                                    .tail_bytes_max = 1 << 20,
                                    .checkpoint_bytes = 1 << 20,
                                    .checkpoint_age = 50,
                                    .heavy_bytes = 1 << 20,
                                    .files_max = 100};
    const struct store_hooks hooks = {
        .moved = moved, .failed = failed, .snapshot = no_snapshot, .replay = no_replay, .fatal = no_fatal};
    uuid fresh = {.b = {1}};
    (void)u;
    s.shards = shards;
    s.stopped = 0;
    s.scanned = 0;
    s.chunks = chunk_pool_new(1 << 20);
    memset(s.st, 0, sizeof s.st);
    s.e = datadir_open(ports[0]->disk, 1, fresh, &s.dd, WHY_IN(s.why));
    if (s.e == ERR_OK) {
        s.unclean = !datadir_is_clean(s.dd);
        s.e = datadir_settle(s.dd);
    }
    for (uint32_t i = 0; i < shards && s.e == ERR_OK; i++) {
        s.port[i] = ports[i];
        shard_numbers[i] = i;
        s.e = store_new(&s.st[i], ports[i], s.dd, &conf, &hooks);
        ports[i]->on_turn(ports[i], turn, &shard_numbers[i]);
    }
    for (int p = 0; p < PARTS && s.e == ERR_OK; p++) {
        s.e = open_part(p);
    }
    for (uint32_t i = 0; i < shards && s.e == ERR_OK; i++) {
        s.e = store_begin(s.st[i]);
    }
}

static err shards_start(uint32_t shards) {
    err e = world_node_start(s.n, shards, shards_boot, NULL);
    return e == ERR_OK ? s.e : e;
}

/* Every log is where it was. */
static void shards_check(void) {
    for (int p = 0; p < PARTS; p++) {
        struct plog_ends e;
        plog_ends(s.lg[p], &e);
        ck_assert_msg(e.next >= s.acked[p] && e.next <= s.end[p], "%d: ends at %lld, acknowledged %lld", p,
                      (long long)e.next, (long long)s.acked[p]);
        s.end[p] = s.acked[p] = e.next;
    }
}

static void append_part(void *u) {
    int p = *(int *)u;
    struct plog_ends e;
    struct arena a;
    struct batch_head h;
    struct rig_ask q = {.records = 1, .value = 20, .ts = 5};
    arena_init(&a, NULL, 1 << 20);
    plog_ends(s.lg[p], &e);
    span b = rig_build(&a, &q, e.next);
    ck_assert_int_eq(plog_reserve(s.lg[p], b.n), ERR_OK);
    struct chunk *ck = chunk_new(s.chunks, b.n);
    memcpy(ck->data, b.p, b.n);
    batch_stamp(ck->data, e.next, 0);
    ck_assert_int_eq(batch_head_get(span_of(ck->data, b.n), &h), ERR_OK);
    s.end[p] = e.next + 1;
    plog_append(s.lg[p], ck, span_of(ck->data, b.n), &h, 1);
    plog_sync_wanted(s.lg[p]);
    chunk_unref(ck);
    arena_done(&a);
}

static void append_some(int from) {
    for (int p = from; p < PARTS && world_node_is_up(s.n); p += 2) {
        (void)world_node_call(s.n, (uint32_t)p % s.shards, append_part, &numbers[p]);
    }
    (void)world_run(s.w, NULL, NULL, 300);
}

static void on_stopped(void *u, err e) {
    (void)u;
    ck_assert_int_eq(e, ERR_OK);
    s.stopped++;
}

static void stop_shard(void *u) {
    store_stop(s.st[*(uint32_t *)u], on_stopped, NULL);
}

static void end_shard(void *u) {
    uint32_t i = *(uint32_t *)u;
    store_free(s.st[i]);
    s.st[i] = NULL;
    if (i == s.shards - 1) {
        datadir_free(s.dd);
        chunk_pool_free(s.chunks);
    }
    s.port[i]->stop(s.port[i]);
}

static bool all_stopped(void *u) {
    (void)u;
    return s.stopped == s.shards;
}

static bool shards_down(void *u) {
    (void)u;
    return !world_node_is_up(s.n);
}

static void shards_stop(void) {
    for (uint32_t i = 0; i < s.shards; i++) {
        ck_assert(world_node_call(s.n, i, stop_shard, &shard_numbers[i]));
    }
    ck_assert(world_run(s.w, all_stopped, NULL, 5000));
    for (uint32_t i = 0; i < s.shards; i++) {
        (void)world_node_call(s.n, i, end_shard, &shard_numbers[i]);
    }
    ck_assert(world_run(s.w, shards_down, NULL, 1000));
}

static void shards_begin(uint64_t seed) {
    memset(&s, 0, sizeof s);
    s.w = world_new(seed);
    s.n = world_node_new(s.w, "s");
}

START_TEST(d7_shards_change_between_clean_runs) {
    static const uint32_t shards[] = {2, 1, 4, 3, 1, 2, 4};
    shards_begin(1);
    for (size_t i = 0; i < sizeof shards / sizeof *shards; i++) {
        ck_assert_msg(shards_start(shards[i]) == ERR_OK, "%s", s.why);
        ck_assert(!s.unclean);
        ck_assert_uint_eq(s.scanned, 0);
        shards_check();
        append_some((int)i % 2);
        shards_stop();
    }
    ck_assert_int_ge(s.end[0], 3);
    world_free(s.w);
}
END_TEST

/* A crash at each operation of a start with another number of shards, then a start with a third. */
START_TEST(d7_shards_change_over_crashes) {
    for (uint64_t k = 1;; k++) {
        shards_begin(k);
        ck_assert_int_eq(shards_start(2), ERR_OK);
        append_some(0);
        append_some(1);
        if (k % 2) {
            shards_stop();
        } else {
            world_node_crash(s.n, true);
        }
        world_node_crash_at(s.n, k, k % 3 != 0);
        err e = shards_start(1 + k % 4);
        if (e == ERR_OK) {
            append_some(0);
        }
        bool over = world_node_is_up(s.n);
        if (over) {
            world_node_crash(s.n, true);
        }
        world_node_crash_at(s.n, 0, true);
        ck_assert_msg(shards_start(1 + (k + 1) % 4) == ERR_OK, "op %llu: %s", (unsigned long long)k, s.why);
        shards_check();
        append_some(1);
        shards_stop();
        ck_assert_int_eq(shards_start(2), ERR_OK);
        ck_assert(!s.unclean);
        shards_check();
        world_free(s.w);
        if (over) {
            ck_assert_uint_gt(k, 30);
            return;
        }
    }
}
END_TEST

int main(void) {
    return RIG_RUN("datadir", new_and_again, a_kafka_directory_is_refused, somebody_elses_files_are_refused,
                   newer_and_damaged_format, in_use, made_by_steps_that_a_crash_may_interrupt,
                   strays_stay_and_deletions_end, d7_shards_change_between_clean_runs, d7_shards_change_over_crashes);
}
