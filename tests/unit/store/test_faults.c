/* Goal: what a troublesome disk does to a store: syncs that hang or fail, writes that fail or do not fit, bytes that
 * land elsewhere, rot. Method: the simulated disk's faults, one at each place of a script; the twin and what was
 * acknowledged judge. */
#include "rig.h"

static off64 acked_of(struct rig_log *l) {
    return l->acked;
}

/* ---- T7: group commit ---- */

struct until {
    struct rig_log *l;
    off64 acked, written;
};

static bool reached(void *u) {
    struct until *q = u;
    struct plog_ends e;
    plog_ends(q->l->lg, &e);
    return acked_of(q->l) >= q->acked && e.written >= q->written;
}

START_TEST(t7_a_sync_covers_what_was_written_before_it) {
    struct rig r;
    rig_init(&r, 1);
    struct rig_log *l = rig_log(&r, "t", 0);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert_int_eq(rig_append(&r, l, 1, 10, true), ERR_OK);
    rig_settle(&r);                /* files exist */
    world_node_hold_syncs(r.n, true);
    ck_assert_int_eq(rig_append(&r, l, 2, 10, true), ERR_OK);          /* A: offsets 1, 2 */
    struct until a_written = {.l = l, .written = 3}, b_written = {.l = l, .written = 5};
    ck_assert(world_run(r.w, reached, &a_written, 1000));
    rig_run(&r, 5);                /* its sync is in flight, held */
    ck_assert_int_eq(rig_append(&r, l, 2, 10, true), ERR_OK);          /* B: offsets 3, 4 */
    ck_assert(world_run(r.w, reached, &b_written, 1000));
    rig_run(&r, 50);
    ck_assert_int_eq(l->acked, 1);
    world_node_hold_syncs(r.n, false);
    struct until a_acked = {.l = l, .acked = 3};
    ck_assert(world_run(r.w, reached, &a_acked, 1000));
    ck_assert_int_eq(l->acked, 3); /* B was written before A's sync returned, and is not acknowledged by it */
    rig_crash(&r, true);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    ck_assert(rig_end(l) >= 3);
    rig_done(&r);
}
END_TEST

START_TEST(t7_held_syncs_acknowledge_nothing) {
    struct rig r;
    rig_init(&r, 2);
    struct rig_log *l = rig_log(&r, "t", 0);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    world_node_hold_syncs(r.n, true);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(rig_append(&r, l, 1, 10, true), ERR_OK);
        rig_run(&r, 5);
    }
    ck_assert_int_eq(l->acked, 0);
    rig_crash(&r, true);
    rig_done(&r);
}
END_TEST

/* ---- T13, T14: errors ---- */

struct watch {
    struct rig *r;
    bool armed;
    int syncs_after;
};

static bool no_sync_of_it(void *u, const struct disk_req *rq, const char *path) {
    struct watch *w = u;
    if (w->armed && rq->op == DISK_SYNC && path && strstr(path, "t-0/") && strstr(path, ".log")) {
        w->syncs_after++;
    }
    return false;
}

START_TEST(t13_a_failed_sync_is_final) {
    struct rig r;
    struct watch watch = {.r = &r};
    rig_init(&r, 3);
    struct rig_log *l = rig_log(&r, "t", 0), *other = rig_log(&r, "t", 1);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    world_node_on_op(r.n, no_sync_of_it, &watch, true);
    ck_assert_int_eq(rig_append(&r, l, 1, 10, true), ERR_OK);
    ck_assert_int_eq(rig_append(&r, other, 1, 10, true), ERR_OK);
    rig_settle(&r);
    world_node_fail_op(r.n, DISK_SYNC, 1, ERR_IO);
    ck_assert_int_eq(rig_append(&r, l, 1, 10, true), ERR_OK);
    rig_run(&r, 50);
    ck_assert(plog_is_fenced(l->lg));
    ck_assert_int_eq(l->failed, 1);
    ck_assert_int_eq(l->failed_why, ERR_IO);
    ck_assert_int_eq(l->acked, 1);
    watch.armed = true;
    ck_assert_int_eq(rig_append(&r, l, 1, 10, true), ERR_FENCED);
    ck_assert_int_eq(rig_append(&r, other, 1, 10, true), ERR_OK);      /* the others are served */
    rig_settle(&r);
    ck_assert_int_eq(other->acked, 2);
    rig_run(&r, 3000);             /* ages, checkpoints */
    ck_assert_int_eq(watch.syncs_after, 0);
    ck_assert_int_eq(r.fatal, 0);
    rig_check(&r, l, 0, 1);        /* what is bound can be read */
    ck_assert(rig_stop(&r));
    ck_assert_int_eq(watch.syncs_after, 0);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);       /* a clean stop of the others: this one was scanned all the same */
    ck_assert(l->rec.scanned_bytes > 0 && other->rec.scanned_bytes == 0);
    rig_crash(&r, true);           /* what was served after that start is durable */
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    rig_done(&r);
}
END_TEST

START_TEST(t13_a_failed_syncfs_ends_the_process) {
    struct rig r;
    rig_init(&r, 4);
    struct rig_log *l = rig_log(&r, "t", 0);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    world_node_fail_op(r.n, DISK_SYNCFS, 1, ERR_IO);
    (void)rig_append(&r, l, 1, 10, true);          /* a new log: its directory needs a SYNCFS */
    rig_run(&r, 50);
    ck_assert_int_eq(r.fatal, 1);
    ck_assert_int_eq(l->acked, 0);
    rig_crash(&r, true);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    rig_done(&r);
}
END_TEST

START_TEST(t14_a_failed_write_fences) {
    struct rig r;
    rig_init(&r, 5);
    struct rig_log *l = rig_log(&r, "t", 0);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert_int_eq(rig_append(&r, l, 1, 10, true), ERR_OK);
    rig_settle(&r);
    world_node_fail_op(r.n, DISK_WRITE, 1, ERR_IO);
    ck_assert_int_eq(rig_append(&r, l, 1, 10, true), ERR_OK);
    rig_run(&r, 5);
    ck_assert(plog_is_fenced(l->lg));
    ck_assert_int_eq(l->failed_why, ERR_IO);
    rig_crash(&r, true);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    ck_assert_int_eq(l->acked, 1);
    rig_done(&r);
}
END_TEST

/* ---- T15: full disk ---- */

START_TEST(t15_full_disk_and_back) {
    struct rig r;
    rig_init(&r, 6);
    struct rig_log *l = rig_log(&r, "t", 0);
    struct world_faults full = {.space_bytes = 3 << 20}, roomy = {.space_bytes = 64 << 20};
    world_faults_set(r.w, &full);
    r.conf.heavy_bytes = 200000;
    r.conf.tail_bytes_max = 100000;
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    err e = ERR_OK;
    int appended = 0;
    for (; appended < 1000 && e == ERR_OK; appended++) {
        e = rig_append(&r, l, 1, 20000, true);
        rig_run(&r, 3);
    }
    ck_assert_int_eq(e, ERR_NOSPACE);
    ck_assert(appended > 50 && l->failed >= 1);
    ck_assert_int_eq(l->failed_why, ERR_NOSPACE);
    rig_run(&r, 3000);
    ck_assert(!plog_is_fenced(l->lg) && r.fatal == 0);
    rig_check(&r, l, 0, l->acked); /* readers go on */
    ck_assert_int_eq(l->acked, rig_end(l));
    world_faults_set(r.w, &roomy);
    rig_run(&r, 3000);             /* seen by the look at free space */
    ck_assert_int_eq(rig_append(&r, l, 1, 20000, true), ERR_OK);
    rig_settle(&r);
    rig_check(&r, l, 0, rig_end(l));
    ck_assert(rig_stop(&r));
    ck_assert_int_eq(r.stop_err, ERR_OK);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    rig_done(&r);
}
END_TEST

START_TEST(t15_start_on_a_full_disk) {
    struct rig r;
    rig_init(&r, 7);
    struct rig_log *l = rig_log(&r, "t", 0);
    struct world_faults full = {.space_bytes = 1}, roomy = {.space_bytes = 64 << 20};
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert_int_eq(rig_append(&r, l, 3, 100, true), ERR_OK);
    rig_settle(&r);
    rig_crash(&r, false);
    world_faults_set(r.w, &full);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    ck_assert_int_eq(rig_append(&r, l, 1, 100, true), ERR_NOSPACE);    /* the directory is not even marked as open */
    ck_assert(rig_stop(&r));
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    world_faults_set(r.w, &roomy);
    rig_run(&r, 3000);
    ck_assert_int_eq(rig_append(&r, l, 1, 100, true), ERR_OK);
    rig_settle(&r);
    rig_crash(&r, true);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert(r.unclean);
    rig_check_recovered(&r);
    ck_assert_int_eq(rig_end(l), 4);
    rig_done(&r);
}
END_TEST

/* The reserve is for the broker's own topics. */
START_TEST(t15_reserve) {
    struct rig r;
    rig_init(&r, 8);
    struct rig_log *l = rig_log(&r, "t", 0);
    struct world_faults low = {.space_bytes = 8 << 20};
    r.conf.space_reserve_bytes = 10 << 20;
    world_faults_set(r.w, &low);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert_int_eq(rig_append(&r, l, 1, 100, true), ERR_OK);         /* not looked yet */
    rig_run(&r, 3000);
    ck_assert_int_eq(rig_append(&r, l, 1, 100, true), ERR_NOSPACE);
    r.log_conf.internal = true;
    ck_assert_int_eq(rig_append(&r, l, 1, 100, true), ERR_OK);
    rig_settle(&r);
    rig_done(&r);
}
END_TEST

/* ---- one failure at each operation of each kind ---- */

/* What is acknowledged can be read, or the read fails; *ret_bad counts those that fail. */
static void read_acked(struct rig *r, struct rig_log *l, int *ret_bad) {
    for (size_t i = 0; i < l->n && l->v[i].end <= l->acked && world_node_is_up(r->n); i++) {
        struct rig_ask q = {.l = l, .from = l->v[i].base, .below = l->v[i].end, .max = 1 << 20};
        err e = rig_read(r, &q);
        if (e == ERR_OK) {         /* T17, T18: never bad bytes as good ones */
            ck_assert_uint_eq(q.bytes_n, l->v[i].n);
            ck_assert_mem_eq(q.bytes, l->v[i].p, l->v[i].n);
        } else {
            ck_assert(e == ERR_DAMAGED || e == ERR_IO || e == ERR_NOSPACE || e == ERR_LIMIT || e == ERR_NOMEM || e == ERR_CANCELLED);
            *ret_bad += 1;
        }
        free(q.bytes);
    }
}

static void script(struct rig *r, int *ret_bad) {
    for (int i = 0; i < 40 && world_node_is_up(r->n); i++) {
        struct rig_log *l = &r->logs[i % 3];
        (void)rig_append(r, l, 2, i % 7 == 6 ? 17000 : 400, i % 2 == 0);
        if (world_node_is_up(r->n) && i % 3 == 1) {
            rig_run(r, i % 4 == 0 ? 200 : 2);
        }
        if (i % 10 == 9) {
            read_acked(r, l, ret_bad);
        }
    }
    if (world_node_is_up(r->n)) {
        rig_settle(r);
    }
}

static void begin(struct rig *r, uint64_t seed) {
    rig_init(r, seed);
    r->log_conf.segment_bytes = 40000;
    r->log_conf.index_interval_bytes = 1000;
    r->conf.heavy_bytes = 10000;
    r->conf.checkpoint_age = 100;
    r->conf.tail_bytes_max = 5000;
    r->conf.files_max = 3;
    for (int i = 0; i < 3; i++) {
        rig_log(r, "fault", i);
    }
    ck_assert_int_eq(rig_start(r), ERR_OK);
}

/* True when the k-th operation of that kind existed. */
static bool fail_once(enum disk_op op, uint64_t k, err e) {
    struct rig r;
    int bad = 0;
    begin(&r, k);
    world_node_fail_op(r.n, op, k, e);
    script(&r, &bad);
    bool stopped = world_node_is_up(r.n) && rig_stop(&r);
    if (e == ERR_NOSPACE) {
        ck_assert_msg(stopped && r.fatal == 0, "op %d number %llu: not survived", (int)op, (unsigned long long)k);
        ck_assert_msg(r.errors == 0, "%s", r.last_error);
    }
    rig_crash(&r, true);
    world_node_fail_op(r.n, op, 0, e);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    bool injected = r.errors > 0 || bad > 0 ||
                    mark_count("write.refused") + mark_count("marks.refused") + mark_count("heavy.failed") > 0;
    mark_reset();
    rig_done(&r);
    return injected;
}

static void fail_each(enum disk_op op, err e, uint64_t upto) {
    uint64_t seen = 0;
    for (uint64_t k = 1; k <= upto; k++) {
        seen += fail_once(op, k, e);
    }
    ck_assert_msg(seen > 0, "op %d: no failure was ever noticed", (int)op);
}

START_TEST(t16_no_space_at_each_write) {
    fail_each(DISK_WRITE, ERR_NOSPACE, 120);
}
END_TEST

START_TEST(t16_no_space_at_each_open) {
    fail_each(DISK_OPEN, ERR_NOSPACE, 80);
}
END_TEST

START_TEST(t16_no_space_at_each_mkdir) {
    fail_each(DISK_MKDIR, ERR_NOSPACE, 3);
}
END_TEST

START_TEST(no_descriptor_at_each_open) {
    fail_each(DISK_OPEN, ERR_LIMIT, 80);
}
END_TEST

START_TEST(t14_eio_at_each_write) {
    fail_each(DISK_WRITE, ERR_IO, 120);
}
END_TEST

START_TEST(t13_eio_at_each_sync) {
    fail_each(DISK_SYNC, ERR_IO, 80);
    fail_each(DISK_SYNCFS, ERR_IO, 3);
}
END_TEST

START_TEST(eio_at_each_name_operation) {
    fail_each(DISK_OPEN, ERR_IO, 80);
    fail_each(DISK_RENAME, ERR_IO, 6);
    fail_each(DISK_MKDIR, ERR_IO, 3);
}
END_TEST

/* ---- memory ---- */

/* The script with its n-th allocation failing (0: none), then everything goes on; returns how many allocations the script made. */
static uint64_t no_memory(uint64_t n) {
    struct rig r;
    int bad = 0;
    begin(&r, 1);
    uint64_t calls = mem_calls();
    mem_fail_nth(n);
    script(&r, &bad);
    mem_fail_nth(0);
    calls = mem_calls() - calls;
    ck_assert(world_node_is_up(r.n) && r.fatal == 0 && r.errors == 0);
    rig_run(&r, 500);
    for (uint32_t i = 0; i < r.logs_n; i++) {
        ck_assert_int_eq(rig_append(&r, &r.logs[i], 1, 100, true), ERR_OK);
    }
    rig_settle(&r);
    ck_assert(rig_stop(&r));
    ck_assert_int_eq(r.stop_err, ERR_OK);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert(!r.unclean);
    rig_check_recovered(&r);
    rig_done(&r);
    return calls;
}

START_TEST(no_memory_at_each_allocation) {
    uint64_t calls = no_memory(0);
    ck_assert_uint_gt(calls, 200);
    for (uint64_t n = 1; n <= calls; n++) {
        (void)no_memory(n);
    }
}
END_TEST

/* ---- T17, T18: reads that lie ---- */

static void lying_disk(const struct world_faults *f, uint64_t seed, int *ret_bad) {
    struct rig r;
    begin(&r, seed);
    world_faults_set(r.w, f);
    script(&r, ret_bad);
    for (uint32_t i = 0; i < r.logs_n; i++) {
        read_acked(&r, &r.logs[i], ret_bad);
    }
    rig_done(&r);
}

START_TEST(t17_t18_never_bad_bytes) {
    const struct world_faults astray = {.write_astray = 3000}, rot = {.read_rot = 5000}, eio = {.read_eio = 10000};
    int bad_astray = 0, bad_rot = 0, bad_eio = 0;
    for (uint64_t seed = 1; seed <= 25; seed++) {
        lying_disk(&rot, seed, &bad_rot);
        lying_disk(&eio, seed, &bad_eio);
    }
    for (uint64_t seed = 1; seed <= 25; seed++) {
        lying_disk(&astray, seed, &bad_astray);
    }
    ck_assert(bad_astray > 0 && bad_rot > 0 && bad_eio > 0);
}
END_TEST

int main(void) {
    return RIG_RUN("faults", t7_a_sync_covers_what_was_written_before_it, t7_held_syncs_acknowledge_nothing,
                   t13_a_failed_sync_is_final, t13_a_failed_syncfs_ends_the_process, t14_a_failed_write_fences,
                   t15_full_disk_and_back, t15_start_on_a_full_disk, t15_reserve, t16_no_space_at_each_write,
                   t16_no_space_at_each_open, t16_no_space_at_each_mkdir, no_descriptor_at_each_open,
                   t14_eio_at_each_write, t13_eio_at_each_sync, eio_at_each_name_operation, no_memory_at_each_allocation, t17_t18_never_bad_bytes);
}
