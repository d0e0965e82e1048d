/* Goal: lanes, faults and crashes of the simulated disk as a node meets them: a sync covers what had come home when it was submitted and no
 * more; a crash strikes at any operation, in a lane or in disk_call; every failure can be planned. Method: small nodes whose boot or
 * completions do the work, many seeds, and counters that show that each allowed outcome really happens. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "port_sim/world.h"
#include "run.h"

#define SEEDS 200

static struct world *w;
static struct world_node *n;
static struct port *port;

static void begin(uint64_t seed) {
    w = world_new(seed);
    n = world_node_new(w, "node");
}

static void end(void) {
    world_free(w);
    ck_assert_uint_eq(mem_live_all(), 0);
}

/* ---- helpers inside and outside the node ---- */

static struct disk_file *open_at(struct disk *d, const char *path, uint32_t flags) {
    struct disk_req rq = {.op = DISK_OPEN, .path = path, .flags = flags};
    ck_assert_msg(disk_call(d, &rq) == ERR_OK, "open %s: %s", path, err_name(rq.err));
    return rq.file;
}

static err write_at(struct disk *d, struct disk_file *f, int64_t at, const char *text, size_t *ret_did) {
    struct iovec iov = {(void *)(uintptr_t)text, strlen(text)};
    struct disk_req rq = {.op = DISK_WRITE, .file = f, .at = at, .iov = &iov, .iov_n = 1};
    err e = disk_call(d, &rq);
    if (ret_did) {
        *ret_did = rq.did;
    }
    return e;
}

static err sync_of(struct disk *d, struct disk_file *f) {
    struct disk_req rq = {.op = DISK_SYNC, .files = &f, .files_n = 1};
    return disk_call(d, &rq);
}

static err simple(struct disk *d, enum disk_op op, const char *path) {
    struct disk_req rq = {.op = op, .path = path};
    return disk_call(d, &rq);
}

/* The file's content seen from outside, as text; "-" when there is no such file. */
static const char *content(const char *path) {
    static char text[256];
    struct disk *d = world_node_disk(n);
    struct disk_req op = {.op = DISK_OPEN, .path = path, .flags = DISK_RDONLY};
    if (disk_call(d, &op) != ERR_OK) {
        return "-";
    }
    struct disk_req rd = {.op = DISK_READ, .file = op.file, .buf = text, .len = sizeof text - 1};
    ck_assert(disk_call(d, &rd) == ERR_OK);
    text[rd.did] = 0;
    struct disk_req cl = {.op = DISK_CLOSE, .file = op.file};
    ck_assert(disk_call(d, &cl) == ERR_OK);
    return text;
}

static bool content_is(const char *path, const char *want) {
    return strcmp(content(path), want) == 0;
}

/* ---- a sync covers what had come home (T7) ---- */

static struct {
    struct disk_file *f;
    struct disk_req first, second, sync;
    struct iovec iov[2];
    bool sync_done, second_done;
} gc;

static void second_done(struct disk_req *rq) {
    ck_assert(rq->err == ERR_OK);
    gc.second_done = true;
}

static void group_sync_done(struct disk_req *rq) {
    ck_assert(rq->err == ERR_OK);
    gc.sync_done = true;
}

static void first_done(struct disk_req *rq) {
    ck_assert(rq->err == ERR_OK);
    disk_submit(port->disk, &gc.sync);
    disk_submit(port->disk, &gc.second);
}

static void group_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    memset(&gc, 0, sizeof gc);
    port = ports[0];
    gc.f = open_at(port->disk, "f", DISK_RDWR | DISK_CREATE);
    const char *root = ".";
    struct disk_req name = {.op = DISK_SYNC, .dirs = &root, .dirs_n = 1};
    ck_assert(disk_call(port->disk, &name) == ERR_OK);
    gc.iov[0] = (struct iovec){(void *)(uintptr_t)"one", 3};
    gc.iov[1] = (struct iovec){(void *)(uintptr_t)"two", 3};
    gc.first = (struct disk_req){.op = DISK_WRITE, .lane = DISK_LANE_WRITE, .file = gc.f, .at = 0, .iov = &gc.iov[0], .iov_n = 1,
                                 .done = first_done};
    gc.second = (struct disk_req){.op = DISK_WRITE, .lane = DISK_LANE_WRITE, .file = gc.f, .at = 3, .iov = &gc.iov[1], .iov_n = 1,
                                  .done = second_done};
    gc.sync = (struct disk_req){.op = DISK_SYNC, .lane = DISK_LANE_SYNC, .files = &gc.f, .files_n = 1, .done = group_sync_done};
    disk_submit(port->disk, &gc.first);
}

static bool both_done(void *u) {
    (void)u;
    return gc.sync_done && gc.second_done;
}

START_TEST(sync_covers_what_had_come_home_and_no_more) {
    int only_first = 0, both = 0, sync_last = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        ck_assert(world_node_start(n, 1, group_boot, NULL) == ERR_OK);
        ck_assert(world_run(w, both_done, NULL, 1000));
        sync_last += gc.sync.took_us > gc.second.took_us;
        world_node_crash(n, true);
        const char *left = content("f");
        ck_assert_msg(strncmp(left, "one", 3) == 0, "seed %d: synced bytes lost: '%s'", (int)seed, left);
        only_first += strcmp(left, "one") == 0;
        both += strcmp(left, "onetwo") == 0;
        end();
    }
    ck_assert_int_gt(only_first, SEEDS / 10);
    ck_assert_int_gt(both, SEEDS / 20);
    ck_assert_int_gt(sync_last, 0);
}
END_TEST

/* ---- kill -9 keeps the cache, and T5: what was unsynced stays so until a sync covers it ---- */

static void write_boot(void *u, struct port **ports, uint32_t shards) {
    (void)shards;
    struct disk *d = ports[0]->disk;
    ck_assert(write_at(d, open_at(d, "f", DISK_RDWR | DISK_CREATE), 0, u, NULL) == ERR_OK);
}

static void syncfs_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    ck_assert(simple(ports[0]->disk, DISK_SYNCFS, NULL) == ERR_OK);
}

static void idle_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)ports, (void)shards;
}

static int lost_after_kill(void (*second)(void *u, struct port **ports, uint32_t shards)) {
    int lost = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        begin(seed);
        ck_assert(world_node_start(n, 1, write_boot, (void *)(uintptr_t)"data") == ERR_OK);
        world_node_crash(n, false);
        ck_assert(content_is("f", "data"));
        ck_assert_int_gt(world_node_unsynced(n), 0);
        ck_assert(world_node_start(n, 1, second, NULL) == ERR_OK);
        ck_assert(content_is("f", "data"));
        world_node_crash(n, true);
        lost += !content_is("f", "data");
        ck_assert_int_eq(world_node_unsynced(n), 0);
        end();
    }
    return lost;
}

START_TEST(kill_keeps_the_cache_but_makes_nothing_durable) {
    ck_assert_int_gt(lost_after_kill(idle_boot), 10);
    ck_assert_int_eq(lost_after_kill(syncfs_boot), 0);
}
END_TEST

/* ---- crash at each operation of disk_call, and again in recovery (T3, T4) ---- */

static err replaced;

static void replace_boot(void *u, struct port **ports, uint32_t shards) {
    (void)shards;
    void *ballast = mem_alloc(MEM_TEST, 1000);         /* dropped with the heap when the node crashes */
    ck_assert_ptr_nonnull(ballast);
    replaced = ERR_AGAIN;
    replaced = disk_replace_all(ports[0]->disk, "f", u, strlen(u));
}

static void prepare(void) {
    ck_assert(world_node_start(n, 1, replace_boot, (void *)(uintptr_t)"old") == ERR_OK);
    ck_assert(replaced == ERR_OK);
    world_node_crash(n, true);
    ck_assert(content_is("f", "old"));
}

START_TEST(replacing_a_file_leaves_old_or_new_whenever_it_crashes) {
    int olds = 0, news = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        prepare();
        bool power = seed % 2 == 0;
        uint64_t k = 1 + seed % 7;
        world_node_crash_at(n, k, power);
        err e = world_node_start(n, 1, replace_boot, (void *)(uintptr_t)"new");
        ck_assert(e == (k <= 6 ? ERR_CANCELLED : ERR_OK));      /* open, write, sync, close, rename, sync of the directory */
        ck_assert(world_node_is_up(n) == (e == ERR_OK));
        world_node_crash(n, true);
        bool old = content_is("f", "old"), new = content_is("f", "new");
        ck_assert_msg(old != new, "seed %d k %d: neither old nor new", (int)seed, (int)k);
        ck_assert(e != ERR_OK || (replaced == ERR_OK && new));
        olds += old;
        news += new && e != ERR_OK;
        end();
    }
    ck_assert_int_gt(olds, 20);
    ck_assert_int_gt(news, 5);
}
END_TEST

/* ---- crash in a lane: what is in flight may have happened ---- */

static struct disk_req flying;
static struct iovec flying_iov;

static void flying_done(struct disk_req *rq) {
    (void)rq;
    ck_abort_msg("a request came home after the crash");
}

static void flying_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    struct disk *d = ports[0]->disk;
    struct disk_file *f = open_at(d, "f", DISK_RDWR | DISK_CREATE);
    flying_iov = (struct iovec){(void *)(uintptr_t)"0123456789", 10};
    flying = (struct disk_req){.op = DISK_WRITE, .file = f, .iov = &flying_iov, .iov_n = 1, .done = flying_done};
    disk_submit(d, &flying);
}

static int none, some, all;

static void crash_in_flight(bool by_count) {
    none = some = all = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        world_node_crash_at(n, by_count ? 2 : 0, false);       /* 1 is the open */
        ck_assert(world_node_start(n, 1, flying_boot, NULL) == ERR_OK);
        if (!by_count) {
            world_node_crash(n, false);
        }
        (void)world_run(w, NULL, NULL, 1000);
        ck_assert(!world_node_is_up(n));
        size_t left = strlen(content("f"));
        ck_assert_int_eq(strncmp(content("f"), "0123456789", left), 0);
        none += left == 0;
        some += left > 0 && left < 10;
        all += left == 10;
        end();
    }
    ck_assert_int_gt(none, 10);
    ck_assert_int_gt(some, 10);
    ck_assert_int_gt(all, 10);
}

START_TEST(crash_finds_requests_in_flight_done_undone_or_half_done) {
    crash_in_flight(false);
    crash_in_flight(true);
}
END_TEST

/* ---- lanes: no order between them ---- */

static struct {
    struct disk_req rq[DISK_LANES];
    int order[DISK_LANES], n;
} la;

static void lane_done(struct disk_req *rq) {
    la.order[la.n++] = (int)rq->lane;
}

static void lanes_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    la.n = 0;
    for (int i = 0; i < DISK_LANES; i++) {
        la.rq[i] = (struct disk_req){.op = DISK_STAT, .lane = (enum disk_lane)i, .path = ".", .done = lane_done};
        disk_submit(ports[0]->disk, &la.rq[i]);
    }
}

static bool lanes_home(void *u) {
    (void)u;
    return la.n == DISK_LANES;
}

START_TEST(lanes_complete_in_any_order) {
    int seen[27] = {0}, kinds = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        begin(seed);
        ck_assert(world_node_start(n, 1, lanes_boot, NULL) == ERR_OK);
        ck_assert(world_run(w, lanes_home, NULL, 1000));
        seen[la.order[0] * 9 + la.order[1] * 3 + la.order[2]]++;
        end();
    }
    for (int i = 0; i < 27; i++) {
        kinds += seen[i] > 0;
    }
    ck_assert_int_eq(kinds, 6);
}
END_TEST

/* ---- held syncs ---- */

static bool hold_pred(void *u) {
    (void)u;
    return gc.sync_done;
}

START_TEST(held_sync_waits_until_released) {
    begin(1);
    world_node_hold_syncs(n, true);
    ck_assert(world_node_start(n, 1, group_boot, NULL) == ERR_OK);
    (void)world_run(w, hold_pred, NULL, 60000);
    ck_assert(gc.second_done && !gc.sync_done);
    world_node_hold_syncs(n, false);
    ck_assert(world_run(w, hold_pred, NULL, 1000));
    end();
}
END_TEST

/* ---- planned failures ---- */

static void fail_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    struct disk *d = ports[0]->disk;
    struct disk_file *f = open_at(d, "f", DISK_RDWR | DISK_CREATE);
    size_t did = 99;
    world_node_fail_op(n, DISK_WRITE, 2, ERR_IO);
    ck_assert(write_at(d, f, 0, "hello", NULL) == ERR_OK);
    ck_assert(write_at(d, f, 5, "world", &did) == ERR_IO);
    ck_assert_uint_lt(did, 5);
    ck_assert(write_at(d, f, 5, "again", &did) == ERR_OK);
    ck_assert_uint_eq(did, 5);
    world_node_fail_op(n, DISK_RENAME, 1, ERR_IO);
    struct disk_req mv = {.op = DISK_RENAME, .path = "f", .path2 = "g"};
    ck_assert(disk_call(d, &mv) == ERR_IO);
    ck_assert(simple(d, DISK_STAT, "f") == ERR_OK);
    world_node_fail_op(n, DISK_SYNC, 1, ERR_IO);
    ck_assert(sync_of(d, f) == ERR_IO);
    if (u) {
        (void)sync_of(d, f);                           /* never: the run fails here */
    }
}

START_TEST(planned_failures_strike_once) {
    begin(1);
    ck_assert(world_node_start(n, 1, fail_boot, NULL) == ERR_OK);
    end();
}
END_TEST

START_TEST(second_sync_after_a_failed_one_fails_the_run) {
    begin(1);
    (void)world_node_start(n, 1, fail_boot, n);
}
END_TEST

static void full_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    struct disk *d = ports[0]->disk;
    struct disk_file *f = open_at(d, "f", DISK_RDWR | DISK_CREATE), *g = open_at(d, "g", DISK_RDWR | DISK_CREATE);
    char page[4097];
    memset(page, 'x', 4096);
    page[4096] = 0;
    size_t did;
    struct disk_req sp = {.op = DISK_SPACE};
    ck_assert(disk_call(d, &sp) == ERR_OK);
    ck_assert_int_eq(sp.size, 3 * 4096);
    ck_assert(write_at(d, f, 0, page, NULL) == ERR_OK);
    ck_assert(write_at(d, f, 4096, page, NULL) == ERR_OK);
    ck_assert(write_at(d, g, 2048, page, &did) == ERR_NOSPACE);
    ck_assert_uint_eq(did, 2048);                      /* a short write ends where the space ends */
    ck_assert(disk_call(d, &sp) == ERR_OK);
    ck_assert_int_eq(sp.size, 0);
    struct disk_req cl = {.op = DISK_CLOSE, .file = f};
    ck_assert(disk_call(d, &cl) == ERR_OK);
    ck_assert(simple(d, DISK_UNLINK, "f") == ERR_OK);
    ck_assert(write_at(d, g, 4096, page, NULL) == ERR_OK);
}

START_TEST(full_file_system_shortens_writes_until_space_is_freed) {     /* T15 */
    begin(1);
    world_faults_set(w, &(struct world_faults){.space_bytes = 3 * 4096});
    ck_assert(world_node_start(n, 1, full_boot, NULL) == ERR_OK);
    end();
}
END_TEST

static void limits_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    struct disk *d = ports[0]->disk;
    (void)open_at(d, "a", DISK_RDWR | DISK_CREATE);
    struct disk_file *b = open_at(d, "b", DISK_RDWR | DISK_CREATE);
    struct disk_req op = {.op = DISK_OPEN, .path = "a", .flags = DISK_RDONLY}, cl = {.op = DISK_CLOSE, .file = b};
    ck_assert(disk_call(d, &op) == ERR_LIMIT);
    ck_assert(disk_call(d, &cl) == ERR_OK);
    ck_assert(disk_call(d, &op) == ERR_OK);
    ck_assert(simple(d, DISK_LOCK, ".lock") == ERR_OK);
    ck_assert(simple(d, DISK_LOCK, ".lock") == ERR_LOCKED);
}

START_TEST(descriptors_are_limited_and_locks_die_with_the_process) {
    begin(1);
    world_faults_set(w, &(struct world_faults){.files_max = 2});
    for (int i = 0; i < 3; i++) {
        ck_assert(world_node_start(n, 1, limits_boot, NULL) == ERR_OK);
        world_node_crash(n, i == 1);
    }
    end();
}
END_TEST

/* ---- damage ---- */

START_TEST(corrupt_changes_what_any_reader_sees) {
    begin(1);
    ck_assert(world_node_start(n, 1, write_boot, (void *)(uintptr_t)"abc") == ERR_OK);
    ck_assert(world_node_corrupt(n, "f", 1, 0x01) == ERR_OK);
    ck_assert(content_is("f", "acc"));
    ck_assert(world_node_corrupt(n, "f", 2, 0) == ERR_OK);
    ck_assert(content_is("f", "ac"));
    ck_assert(world_node_corrupt(n, "none", 0, 1) == ERR_NOT_FOUND);
    end();
}
END_TEST

static struct {
    uint64_t failed, rotten, astray, lost;
} chance;

static void chance_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    struct disk *d = ports[0]->disk;
    for (int i = 0; i < 300; i++) {
        char buf[4], data[5] = {(char)('a' + i % 26), (char)('a' + i / 26), 'x', 'y', 0};
        struct disk_file *f = open_at(d, "f", DISK_RDWR | DISK_CREATE | DISK_TRUNC);
        if (write_at(d, f, 0, data, NULL) != ERR_OK) {
            chance.failed++;
        } else {
            struct disk_req rd = {.op = DISK_READ, .file = f, .buf = buf, .len = 4};
            err e = disk_call(d, &rd);
            bool zeros = e == ERR_OK && memcmp(buf, "\0\0\0\0", 4) == 0;
            chance.failed += e != ERR_OK;
            chance.astray += zeros;
            chance.rotten += e == ERR_OK && !zeros && memcmp(buf, data, 4) != 0;
        }
        bool synced = sync_of(d, f) == ERR_OK;
        struct disk_req fg = {.op = DISK_FORGET, .file = f}, rd = {.op = DISK_READ, .file = f, .buf = buf, .len = 4};
        ck_assert(disk_call(d, &fg) == ERR_OK);
        chance.lost += synced && disk_call(d, &rd) == ERR_OK && rd.did == 4 && memcmp(buf, data, 4) != 0;
        struct disk_req cl = {.op = DISK_CLOSE, .file = f};
        ck_assert(disk_call(d, &cl) == ERR_OK);
    }
}

static void chance_of(struct world_faults f) {
    memset(&chance, 0, sizeof chance);
    begin(1);
    world_faults_set(w, &f);
    ck_assert(world_node_start(n, 1, chance_boot, NULL) == ERR_OK);
    end();
}

START_TEST(chance_strikes_as_often_as_asked) {         /* T18 among them */
    chance_of((struct world_faults){0});
    ck_assert_uint_eq(chance.failed + chance.rotten + chance.astray + chance.lost, 0);
    chance_of((struct world_faults){.write_eio = 10000, .read_eio = 10000});
    ck_assert_uint_gt(chance.failed, 20);
    chance_of((struct world_faults){.read_rot = 10000});
    ck_assert_uint_gt(chance.rotten, 10);
    chance_of((struct world_faults){.write_astray = 10000});
    ck_assert_uint_gt(chance.astray, 10);
    chance_of((struct world_faults){.sync_lost = 10000});
    ck_assert_uint_gt(chance.lost, 5);
}
END_TEST

/* ---- crashing where the test wants ---- */

static bool at_rename(void *u, const struct disk_req *rq, const char *path) {
    int *seen = u;
    if (rq->op == DISK_RENAME) {
        ck_assert_str_eq(path, "f.tmp");
        (*seen)++;
        return true;
    }
    return false;
}

START_TEST(hook_crashes_at_the_operation_it_names) {
    int seen = 0;
    begin(1);
    prepare();
    world_node_on_op(n, at_rename, &seen, true);
    ck_assert(world_node_start(n, 1, replace_boot, (void *)(uintptr_t)"new") == ERR_CANCELLED);
    ck_assert_int_eq(seen, 1);
    end();
}
END_TEST

int main(void) {
    return run("disk_sim", TESTS(sync_covers_what_had_come_home_and_no_more, kill_keeps_the_cache_but_makes_nothing_durable,
                                 replacing_a_file_leaves_old_or_new_whenever_it_crashes,
                                 crash_finds_requests_in_flight_done_undone_or_half_done, lanes_complete_in_any_order,
                                 held_sync_waits_until_released, planned_failures_strike_once,
                                 full_file_system_shortens_writes_until_space_is_freed,
                                 descriptors_are_limited_and_locks_die_with_the_process, corrupt_changes_what_any_reader_sees,
                                 chance_strikes_as_often_as_asked, hook_crashes_at_the_operation_it_names),
               TESTS(second_sync_after_a_failed_one_fails_the_run));
}
