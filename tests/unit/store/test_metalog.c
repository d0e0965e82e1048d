/* Goal: the metadata log keeps every change that was told durable, in order and whole, through crashes at each disk
 * operation, snapshots, full disks; and damage stops the start without touching a file (T3, T4, T12). Method:
 * numbered records on the simulated disk; replay must give 1, 2, 3 … up to at least what was told. */
#include <check.h>
#include <stdlib.h>

#include "base/be.h"
#include "base/mark.h"
#include "base/mem.h"
#include "port_sim/world.h"
#include "rig.h"
#include "store/metalog.h"

#define APPENDS 24

struct change {
    struct metalog_append ap;
    uint8_t bytes[40];
    uint64_t number;
};

static struct {
    struct world *w;
    struct world_node *n;
    struct port *port;
    struct metalog *ml;
    struct datadir *dd;
    err boot_err;
    char why[256];
    uint64_t count;                /* records replayed, then appended and told durable */
    uint64_t next;                 /* number of the next append */
    uint64_t told;                 /* highest number told durable, over all starts */
    int flying, refused, fatal;
    bool snapping, stopped, want_snapshot;
    err snap_err;
} t;

static err on_record(void *u, span rec) {
    (void)u;
    uint64_t number = be64_get(rec.p + 1);
    if (rec.p[0] == 'S') {
        ck_assert_uint_eq(t.count, 0);             /* a snapshot comes first */
        t.count = number;
        return ERR_OK;
    }
    ck_assert_uint_eq(number, t.count + 1);
    ck_assert_uint_eq(rec.n, sizeof(((struct change *)0)->bytes));
    for (size_t i = 9; i < rec.n; i++) {
        ck_assert_uint_eq(rec.p[i], (uint8_t)number);
    }
    t.count = number;
    return ERR_OK;
}

static void on_fatal(void *u, const char *why) {
    (void)u;
    (void)why;
    t.fatal++;
    world_node_crash(t.n, true);
}

static void boot(void *u, struct port **ports, uint32_t shards) {
    uuid fresh = {.b = {9}};
    (void)u;
    (void)shards;
    t.port = ports[0];
    t.count = 0;
    t.flying = 0;
    t.snapping = t.stopped = false;
    t.ml = NULL;
    t.boot_err = datadir_open(t.port->disk, 1, fresh, &t.dd, WHY_IN(t.why));
    if (t.boot_err == ERR_OK) {
        t.boot_err = datadir_settle(t.dd);
    }
    if (t.boot_err == ERR_OK) {
        t.boot_err = metalog_open(t.port->disk, on_record, NULL, &t.ml, WHY_IN(t.why));
    }
    if (t.boot_err == ERR_OK) {
        metalog_bind(t.ml, t.port, on_fatal, NULL);
    }
    t.next = t.count + 1;
}

static bool any_error(void *u, struct world_node *n, const char *event, const char *text) {
    (void)u;
    (void)n;
    (void)event;
    (void)text;
    return true;
}

static void begin(uint64_t seed) {
    memset(&t, 0, sizeof t);
    t.w = world_new(seed);
    t.n = world_node_new(t.w, "m");
    world_on_error_line(t.w, any_error, NULL);
}

static err start(void) {
    err e = world_node_start(t.n, 1, boot, NULL);
    return e == ERR_OK ? t.boot_err : e;
}

static void append_done(struct metalog_append *a) {
    struct change *c = list_entry(a, struct change, ap);
    t.flying--;
    if (a->err == ERR_OK) {
        ck_assert_uint_eq(c->number, t.count + 1); /* in order */
        t.count = t.told = c->number;
    } else {
        ck_assert_int_eq(a->err, ERR_NOSPACE);
        t.refused++;
        t.next = c->number < t.next ? c->number : t.next;
    }
    mem_free(c);
}

static void append_now(void *u) {
    (void)u;
    struct change *c = mem_zalloc(MEM_TEST, sizeof *c);
    c->number = t.next++;
    c->bytes[0] = 'R';
    be64_put(c->bytes + 1, c->number);
    memset(c->bytes + 9, (int)(uint8_t)c->number, sizeof c->bytes - 9);
    c->ap = (struct metalog_append){.records = span_of(c->bytes, sizeof c->bytes), .done = append_done};
    t.flying++;
    metalog_append(t.ml, &c->ap);
}

static void snap_done(void *u, err e) {
    (void)u;
    t.snapping = false;
    t.snap_err = e;
}

static void snapshot_now(void *u) {
    (void)u;
    uint8_t *p = mem_alloc(MEM_TEST, 9);
    p[0] = 'S';
    be64_put(p + 1, t.count);
    t.snapping = true;
    metalog_snapshot(t.ml, p, 9, snap_done, NULL);
}

static bool quiet(void *u) {
    (void)u;
    return !world_node_is_up(t.n) || (t.flying == 0 && !t.snapping);
}

static void settle(void) {
    ck_assert(world_run(t.w, quiet, NULL, 10000));
}

static bool call(void (*fn)(void *u)) {
    return world_node_is_up(t.n) && world_node_call(t.n, 0, fn, NULL);
}

/* Appends alone and in bunches, a snapshot now and then. */
static void script(void) {
    for (int i = 0; i < APPENDS; i++) {
        (void)call(append_now);
        if (i % 3 == 2) {
            settle();
        }
        if (i % 10 == 8) {
            settle();
            (void)call(snapshot_now);
            if (i == 18) {
                (void)call(append_now);            /* waits for the snapshot */
            }
            settle();
        }
    }
    settle();
}

static void stop_done(void *u) {
    (void)u;
    t.stopped = true;
}

static void stop_now(void *u) {
    (void)u;
    metalog_stop(t.ml, stop_done, NULL);
}

static bool has_stopped(void *u) {
    (void)u;
    return t.stopped;
}

static void end_now(void *u) {
    (void)u;
    metalog_free(t.ml);
    datadir_free(t.dd);
    t.port->stop(t.port);
}

static bool is_down(void *u) {
    (void)u;
    return !world_node_is_up(t.n);
}

static void stop(void) {
    ck_assert(call(stop_now));
    ck_assert(world_run(t.w, has_stopped, NULL, 1000));
    (void)call(end_now);
    ck_assert(world_run(t.w, is_down, NULL, 1000));
}

static void crash(bool power) {
    if (world_node_is_up(t.n)) {
        world_node_crash(t.n, power);
    }
}

START_TEST(keeps_what_it_told) {
    begin(1);
    ck_assert_int_eq(start(), ERR_OK);
    script();
    ck_assert_uint_eq(t.told, APPENDS + 1);
    ck_assert(metalog_grown(t.ml) > 0);
    stop();
    ck_assert_int_eq(start(), ERR_OK);
    ck_assert_uint_eq(t.count, t.told);
    script();
    crash(true);
    ck_assert_int_eq(start(), ERR_OK);
    ck_assert_uint_eq(t.count, 2 * (APPENDS + 1));
    world_free(t.w);
}
END_TEST

static uint64_t ops_of_script(void) {
    begin(1);
    ck_assert_int_eq(start(), ERR_OK);
    script();
    uint64_t ops = world_node_disk_ops(t.n);
    world_free(t.w);
    return ops;
}

START_TEST(t3_t4_crash_at_each_operation) {
    uint64_t ops = ops_of_script();
    for (uint64_t k = 1; k <= ops; k++) {
        for (uint64_t again = 0; again < 8; again++) {
            begin(k * 100 + again);
            world_node_crash_at(t.n, k, again % 2 == 0);
            if (start() == ERR_OK) {
                script();
            }
            crash(true);
            world_node_crash_at(t.n, again / 2, true);     /* again in recovery, at its first operations */
            (void)start();
            crash(true);
            world_node_crash_at(t.n, 0, true);
            ck_assert_msg(start() == ERR_OK, "op %llu: %s", (unsigned long long)k, t.why);
            ck_assert_uint_ge(t.count, t.told);
            script();
            ck_assert_uint_eq(t.count, t.told);
            stop();
            world_free(t.w);
        }
    }
}
END_TEST

/* ---- T12 ---- */

static const char *const FILES[] = {"perigee.meta/metadata.log", "perigee.meta/metadata.snapshot",
                                    "perigee.meta/metadata.mark"};

static int64_t size_of(const char *path) {
    struct disk_req st = {.op = DISK_STAT, .path = path};
    return disk_call(world_node_disk(t.n), &st) == ERR_OK ? st.size : -1;
}

/* A stopped log with a snapshot and changes after it. */
static void made(void) {
    begin(7);
    ck_assert_int_eq(start(), ERR_OK);
    script();
    stop();
}

static uint32_t files_crc(void) {
    uint32_t crc = 0;
    for (size_t f = 0; f < 3; f++) {
        void *buf;
        size_t n;
        if (disk_read_all(world_node_disk(t.n), FILES[f], 1 << 20, &buf, &n) == ERR_OK) {
            crc = crc32c_more(crc, buf, n);
            mem_free(buf);
        }
    }
    return crc;
}

/* Damage was done: refused with a line and nothing changed, or (a mark file says less) everything is there. */
static void refused_or_whole(const char *file, const char *what, int64_t at) {
    uint32_t before = files_crc();
    err e = start();
    if (e == ERR_OK) {
        ck_assert_msg(t.count == t.told, "%s %s at %lld: %llu of %llu changes are left", file, what, (long long)at,
                      (unsigned long long)t.count, (unsigned long long)t.told);
    } else {
        ck_assert_msg(e == ERR_DAMAGED && strstr(t.why, "perigee.meta/metadata."), "%s", t.why);
        ck_assert_uint_eq(files_crc(), before);
    }
    world_free(t.w);
}

START_TEST(t12_each_byte) {
    for (size_t f = 0; f < 3; f++) {
        for (int64_t at = 0;; at++) {
            made();
            bool more = at < size_of(FILES[f]);
            if (!more) {
                world_free(t.w);
                break;
            }
            ck_assert_int_eq(world_node_corrupt(t.n, FILES[f], at, (uint8_t)(1 << at % 8)), ERR_OK);
            refused_or_whole(FILES[f], "bit", at);
        }
    }
}
END_TEST

START_TEST(t12_each_length) {
    for (size_t f = 0; f < 3; f++) {
        for (int64_t at = 0;; at++) {
            made();
            bool more = at < size_of(FILES[f]);
            if (!more) {
                world_free(t.w);
                break;
            }
            ck_assert_int_eq(world_node_corrupt(t.n, FILES[f], at, 0), ERR_OK);
            refused_or_whole(FILES[f], "cut", at);
        }
    }
}
END_TEST

START_TEST(t12_each_file_missing) {
    for (size_t f = 0; f < 3; f++) {
        made();
        struct disk_req rm = {.op = DISK_UNLINK, .path = FILES[f]};
        ck_assert_int_eq(disk_call(world_node_disk(t.n), &rm), ERR_OK);
        err e = start();
        ck_assert_int_eq(e, f < 2 ? ERR_DAMAGED : ERR_OK);
        world_free(t.w);
    }
}
END_TEST

/* No metadata at all, but durable marks: a new log would orphan every partition. */
START_TEST(t12_lost_metadata_with_marks) {
    begin(1);
    ck_assert_int_eq(start(), ERR_OK);
    stop();
    struct disk *d = world_node_disk(t.n);
    struct disk_req rm = {.op = DISK_UNLINK, .path = FILES[0]},
                    mk = {.op = DISK_OPEN, .path = "perigee.meta/marks.0", .flags = DISK_RDWR | DISK_CREATE};
    ck_assert_int_eq(disk_call(d, &rm), ERR_OK);
    ck_assert_int_eq(disk_call(d, &mk), ERR_OK);
    struct disk_req c = {.op = DISK_CLOSE, .file = mk.file};
    ck_assert_int_eq(disk_call(d, &c), ERR_OK);
    ck_assert_int_eq(start(), ERR_DAMAGED);
    ck_assert(strstr(t.why, "missing"));
    world_free(t.w);
}
END_TEST

/* ---- faults ---- */

START_TEST(t16_no_space_at_each_write) {
    int refused = 0;
    for (uint64_t k = 1; k < 60; k++) {
        begin(k);
        ck_assert_int_eq(start(), ERR_OK);
        world_node_fail_op(t.n, k % 2 ? DISK_WRITE : DISK_OPEN, (k + 1) / 2, ERR_NOSPACE);
        script();
        refused += t.refused + (t.snap_err != ERR_OK);
        ck_assert_int_eq(t.fatal, 0);
        uint64_t told = t.told;
        world_node_fail_op(t.n, DISK_WRITE, 0, ERR_NOSPACE);
        world_node_fail_op(t.n, DISK_OPEN, 0, ERR_NOSPACE);
        (void)call(append_now);    /* goes on */
        settle();
        ck_assert_uint_eq(t.told, told + 1);
        crash(true);
        ck_assert_int_eq(start(), ERR_OK);
        ck_assert_uint_eq(t.count, t.told);
        world_free(t.w);
    }
    ck_assert_int_gt(refused, 5);
}
END_TEST

START_TEST(t13_eio_is_fatal) {
    int fatal = 0;
    for (uint64_t k = 1; k < 40; k++) {
        begin(k);
        ck_assert_int_eq(start(), ERR_OK);
        world_node_fail_op(t.n, k % 2 ? DISK_WRITE : DISK_SYNC, (k + 1) / 2, ERR_IO);
        script();
        fatal += t.fatal;
        crash(true);
        world_node_fail_op(t.n, DISK_WRITE, 0, ERR_IO);
        world_node_fail_op(t.n, DISK_SYNC, 0, ERR_IO);
        ck_assert_int_eq(start(), ERR_OK);
        ck_assert_uint_ge(t.count, t.told);
        world_free(t.w);
    }
    ck_assert_int_gt(fatal, 10);
}
END_TEST

int main(void) {
    return RIG_RUN("metalog", keeps_what_it_told, t3_t4_crash_at_each_operation, t12_each_byte, t12_each_length,
                   t12_each_file_missing, t12_lost_metadata_with_marks, t16_no_space_at_each_write, t13_eio_is_fatal);
}
