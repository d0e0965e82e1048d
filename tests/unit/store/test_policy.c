/* Goal: when the store syncs and checkpoints, what of, and what it writes (D6, D7, DESIGN 4; T6). Method: every disk
 * operation of the simulated node is seen and counted. */
#include "rig.h"

struct count {
    int syncs, sync_files, sync_dirs, syncfs, marks_writes, marks_syncs, log_writes;
    size_t last_files;
};

static bool on_op(void *u, const struct disk_req *rq, const char *path) {
    struct count *c = u;
    bool marks = path && strstr(path, "perigee.meta/marks");
    if (rq->op == DISK_SYNC && marks) {
        c->marks_syncs++;
    } else if (rq->op == DISK_SYNC && path && strstr(path, ".log")) {
        c->syncs++;
        c->last_files = rq->files_n;
        c->sync_files += (int)rq->files_n;
        c->sync_dirs += (int)rq->dirs_n;
    } else if (rq->op == DISK_SYNCFS) {
        c->syncfs++;
    } else if (rq->op == DISK_WRITE && marks) {
        c->marks_writes++;
    } else if (rq->op == DISK_WRITE && path && strstr(path, ".log")) {
        c->log_writes++;
    }
    return false;
}

/* n logs that exist already, everything stable and marked. */
static void begin(struct rig *r, struct count *c, uint32_t n) {
    rig_init(r, 5);
    for (uint32_t i = 0; i < n; i++) {
        rig_log(r, "p", (int32_t)i);
    }
    r->conf.checkpoint_age = 500;
    ck_assert_int_eq(rig_start(r), ERR_OK);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_int_eq(rig_append(r, &r->logs[i], 1, 10, true), ERR_OK);
    }
    rig_settle(r);
    rig_run(r, 2000);
    *c = (struct count){0};
    world_node_on_op(r->n, on_op, c, true);
}

static void all_append(struct rig *r, uint32_t n, bool want) {
    world_node_hold_syncs(r->n, true);             /* so that they are all written before the sync that matters */
    ck_assert_int_eq(rig_append(r, &r->logs[r->logs_n - 1], 1, 10, true), ERR_OK);
    rig_run(r, 20);
    for (uint32_t i = 0; i < n; i++) {
        ck_assert_int_eq(rig_append(r, &r->logs[i], 1, 10, want), ERR_OK);
    }
    rig_run(r, 20);
}

START_TEST(d6_up_to_eight_by_file) {
    struct rig r;
    struct count c;
    begin(&r, &c, 10);
    all_append(&r, 8, true);
    world_node_hold_syncs(r.n, false);
    rig_settle(&r);
    ck_assert_int_eq(c.syncs, 2);
    ck_assert_uint_eq(c.last_files, 8);
    ck_assert_int_eq(c.syncfs, 0);
    rig_done(&r);
}
END_TEST

START_TEST(d6_more_by_syncfs) {
    struct rig r;
    struct count c;
    begin(&r, &c, 10);
    all_append(&r, 9, true);
    world_node_hold_syncs(r.n, false);
    rig_settle(&r);
    ck_assert_int_eq(c.syncs, 1);
    ck_assert_int_eq(c.syncfs, 1);
    rig_done(&r);
}
END_TEST

START_TEST(d6_nobody_waits_for_what_others_want) {
    struct rig r;
    struct count c;
    begin(&r, &c, 3);
    ck_assert_int_eq(rig_append(&r, &r.logs[0], 1, 10, false), ERR_OK);
    ck_assert_int_eq(rig_append(&r, &r.logs[1], 1, 10, true), ERR_OK);
    rig_run(&r, 20);
    ck_assert_int_eq(r.logs[1].acked, 2);
    ck_assert_int_eq(r.logs[0].acked, 1);
    ck_assert_int_eq(c.sync_files, 1);
    rig_settle(&r);
    rig_done(&r);
}
END_TEST

/* (c) age, (b) wanted later, (d) bytes. */
START_TEST(d6_age) {
    struct rig r;
    struct count c;
    begin(&r, &c, 1);
    ck_assert_int_eq(rig_append(&r, &r.logs[0], 1, 10, false), ERR_OK);
    rig_run(&r, 90);
    ck_assert_int_eq(c.syncs, 0);
    rig_run(&r, 30);
    ck_assert_int_eq(c.syncs, 1);
    ck_assert_int_eq(r.logs[0].acked, 2);
    rig_run(&r, 5000);
    ck_assert_int_eq(c.syncs, 1);                  /* idle: nothing more */
    rig_done(&r);
}
END_TEST

static void want_now(void *u) {
    plog_sync_wanted(((struct rig_log *)u)->lg);
}

START_TEST(d6_wanted_by_a_reader) {
    struct rig r;
    struct count c;
    begin(&r, &c, 1);
    ck_assert_int_eq(rig_append(&r, &r.logs[0], 1, 10, false), ERR_OK);
    rig_run(&r, 20);
    ck_assert_int_eq(c.syncs, 0);
    ck_assert(world_node_call(r.n, 0, want_now, &r.logs[0]));
    rig_run(&r, 20);
    ck_assert_int_eq(c.syncs, 1);
    rig_done(&r);
}
END_TEST

START_TEST(d6_bytes) {
    struct rig r;
    struct count c;
    r.conf.unsynced_bytes_max = 0;
    begin(&r, &c, 2);
    r.st->conf.unsynced_bytes_max = 50000;
    world_node_hold_syncs(r.n, true);
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(rig_append(&r, &r.logs[i % 2], 1, 20000, false), ERR_OK);
        rig_run(&r, 2);
        ck_assert_int_eq(store_is_full(r.st), i >= 4);             /* above twice 50,000 */
    }
    world_node_hold_syncs(r.n, false);
    rig_run(&r, 10);
    ck_assert_int_ge(c.syncs, 1);
    ck_assert(!store_is_full(r.st));
    rig_settle(&r);
    rig_done(&r);
}
END_TEST

/* The price of marks does not grow with the number of logs: one write, one sync. */
START_TEST(d7_light_marks) {
    struct rig r;
    struct count c;
    begin(&r, &c, 16);
    all_append(&r, 16, true);
    world_node_hold_syncs(r.n, false);
    rig_settle(&r);
    ck_assert_int_eq(c.marks_writes, 0);
    rig_run(&r, 600);
    ck_assert_int_eq(c.marks_writes, 1);
    ck_assert_int_eq(c.marks_syncs, 1);
    rig_run(&r, 5000);
    ck_assert_int_eq(c.marks_writes, 1);
    rig_done(&r);
}
END_TEST

/* T6: a mark never says more than a sync covered: crash right after each write to the marks file, with everything
 * unsynced lost. */
struct t6 {
    int left;
};

static bool after_marks(void *u, const struct disk_req *rq, const char *path) {
    struct t6 *t = u;
    if (t->left == 0) {
        return true;               /* the operation after it */
    }
    if (rq->op == DISK_SYNC && path && strstr(path, "perigee.meta/marks.0") && !strstr(path, "tmp")) {
        t->left--;
    }
    return false;
}

START_TEST(t6_crash_right_after_a_mark) {
    for (int k = 1; k < 25; k++) {
        struct rig r;
        struct t6 t = {.left = k};
        rig_init(&r, (uint64_t)k);
        r.conf.checkpoint_age = 3;
        r.conf.checkpoint_bytes = 1000;
        r.conf.heavy_bytes = 3000;
        r.log_conf.segment_bytes = 8000;
        rig_log(&r, "m", 0);
        rig_log(&r, "m", 1);
        ck_assert_int_eq(rig_start(&r), ERR_OK);
        world_node_on_op(r.n, after_marks, &t, true);
        for (int i = 0; i < 200 && world_node_is_up(r.n); i++) {
            (void)rig_append(&r, &r.logs[i % 2], 1, 300, i % 3 == 0);
            if (world_node_is_up(r.n)) {
                rig_run(&r, 2);
            }
        }
        ck_assert(!world_node_is_up(r.n));
        world_node_on_op(r.n, NULL, NULL, true);
        ck_assert_int_eq(rig_start(&r), ERR_OK);
        rig_check_recovered(&r);   /* a mark beyond the synced bytes would be damage */
        rig_done(&r);
    }
}
END_TEST

START_TEST(marks_are_compacted) {
    struct rig r;
    rig_init(&r, 9);
    r.conf.checkpoint_age = 1;
    r.conf.sync_age_max = 1;
    rig_log(&r, "m", 0);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    r.st->marks.end += 2 << 20;    /* as if it had grown */
    int64_t end = r.st->marks.end;
    ck_assert_int_eq(rig_append(&r, &r.logs[0], 1, 10, true), ERR_OK);
    rig_settle(&r);
    rig_run(&r, 100);
    ck_assert_int_eq((int)mark_count("marks.compacted"), 1);
    ck_assert_int_lt(r.st->marks.end, end);
    ck_assert_int_eq(rig_append(&r, &r.logs[0], 1, 10, true), ERR_OK);
    rig_settle(&r);
    rig_run(&r, 100);
    rig_crash(&r, true);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    ck_assert_int_eq(r.logs[0].rec.scanned_bytes > 0, true);
    ck_assert(!r.logs[0].rec.above_mark);
    rig_done(&r);
}
END_TEST

/* ---- what a heavy checkpoint writes (D2): the rules of kafka-dump-log ---- */

struct file {
    uint8_t *p;
    size_t n;
};

static struct file file_of(struct rig *r, struct rig_log *l, off64 base, const char *suffix) {
    struct plog_id id = {.topic = l->topic, .partition = l->partition};
    char path[NAMES_PATH_CAP];
    void *buf;
    struct file f;
    names_segment(&id, base, suffix, path);
    ck_assert_msg(disk_read_all(world_node_disk(r->n), path, 1 << 30, &buf, &f.n) == ERR_OK, "%s", path);
    f.p = buf;
    return f;
}

/* Each entry names a batch by its last offset and its position; never the first batch; strictly increasing. */
static void check_index(const struct file *log, const struct file *index, off64 base) {
    int64_t last = -1;
    ck_assert_uint_eq(index->n % 8, 0);
    for (size_t i = 0; i < index->n; i += 8) {
        off64 offset = base + be32_get(index->p + i);
        size_t pos = be32_get(index->p + i + 4);
        struct batch_head h;
        ck_assert(pos > 0 && pos < log->n && (int64_t)pos > last);
        ck_assert_int_eq(batch_head_get(span_of(log->p + pos, log->n - pos), &h), ERR_OK);
        ck_assert_int_eq(batch_last_offset(&h), offset);
        last = (int64_t)pos;
    }
}

/* Each entry names the last offset of a batch and its largest timestamp, larger than all before. */
static void check_times(const struct file *log, const struct file *times, off64 base, bool closed) {
    size_t pos = 0, at = 0;
    ms max = -1, indexed = -1;
    struct batch_head h;
    ck_assert_uint_eq(times->n % 12, 0);
    for (; pos < log->n; pos += h.bytes) {
        ck_assert_int_eq(batch_head_get(span_of(log->p + pos, log->n - pos), &h), ERR_OK);
        max = h.max_ts_ms > max ? h.max_ts_ms : max;
        if (at < times->n && base + be32_get(times->p + at + 8) == batch_last_offset(&h)) {
            ms ts = (ms)be64_get(times->p + at);
            ck_assert_int_eq(ts, h.max_ts_ms);
            ck_assert_int_eq(ts, max);
            ck_assert_int_gt(ts, indexed);
            indexed = ts;
            at += 12;
        }
    }
    ck_assert_uint_eq(at, times->n);
    if (closed) {
        ck_assert_int_eq(indexed, max);            /* the last one at the roll */
    }
}

static void check_files(struct rig *r, struct rig_log *l, size_t *ret_entries, size_t *ret_snapshots) {
    char dir[80];
    (void)snprintf(dir, sizeof dir, "%s-%d", l->topic, l->partition);
    struct disk_req ls = {.op = DISK_LIST, .path = dir};
    off64 last = -1, base;
    ck_assert_int_eq(disk_call(world_node_disk(r->n), &ls), ERR_OK);
    *ret_snapshots = 0;
    for (size_t i = 0; i < ls.entries_n; i++) {
        last = names_is_segment(ls.entries[i].name, ".log", &base) && base > last ? base : last;
        if (names_is_segment(ls.entries[i].name, ".snapshot", &base)) {
            size_t newer = 0;
            bool at_base = false;
            for (size_t k = 0; k < ls.entries_n; k++) {
                off64 other;
                newer += names_is_segment(ls.entries[k].name, ".snapshot", &other) && other > base;
                at_base = at_base || (names_is_segment(ls.entries[k].name, ".log", &other) && other == base);
            }
            ck_assert(newer < 2 || at_base);       /* the last two, and those at a live segment's base */
            *ret_snapshots += 1;
        }
    }
    for (size_t i = 0; i < ls.entries_n; i++) {
        if (names_is_segment(ls.entries[i].name, ".log", &base)) {
            struct file log = file_of(r, l, base, ".log"), index = file_of(r, l, base, ".index"),
                        times = file_of(r, l, base, ".timeindex");
            check_index(&log, &index, base);
            check_times(&log, &times, base, base != last);
            *ret_entries += index.n / 8;
            mem_free(log.p);
            mem_free(index.p);
            mem_free(times.p);
        }
    }
    disk_entries_free(ls.entries, ls.entries_n);
}

START_TEST(d2_indexes_and_snapshots) {
    size_t entries = 0, snapshots = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rig r;
        rig_init(&r, seed);
        struct rig_log *l = rig_log(&r, "k", 0);
        r.log_conf.segment_bytes = 20000;
        r.log_conf.index_interval_bytes = 700;
        r.conf.heavy_bytes = 3000;
        r.conf.checkpoint_age = 5;
        ck_assert_int_eq(rig_start(&r), ERR_OK);
        for (int i = 0; i < 120; i++) {
            struct rig_ask q = {.r = &r,
                                .l = l,
                                .records = 1 + (size_t)prng_below(&r.rng, 3),
                                .value = (size_t)prng_below(&r.rng, 900),
                                .ts = 1000 + i * 5 + (ms)prng_below(&r.rng, 40),
                                .ts_step = 1,
                                .want = true};
            ck_assert(world_node_call(r.n, 0, rig_append_now, &q) && q.err == ERR_OK);
            rig_run(&r, 2);
            if (i == 60 && seed % 3 == 0) {
                rig_crash(&r, true);
                ck_assert_int_eq(rig_start(&r), ERR_OK);
                rig_check_recovered(&r);
            } else if (i == 60 && seed % 3 == 1) {
                ck_assert(rig_stop(&r));
                ck_assert_int_eq(rig_start(&r), ERR_OK);
            }
        }
        rig_settle(&r);
        ck_assert(rig_stop(&r));
        check_files(&r, l, &entries, &snapshots);
        ck_assert_uint_ge(snapshots, 1);
        rig_done(&r);
    }
    ck_assert_uint_gt(entries, 200);
}
END_TEST

/* A log that is left alone gets its heavy checkpoint, so that a crash much later finds nothing to scan; then nothing
 * more happens. */
START_TEST(p12_idle_logs_are_checkpointed) {
    struct rig r;
    rig_init(&r, 4);
    struct rig_log *l = rig_log(&r, "idle", 0), *busy = rig_log(&r, "busy", 0);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert_int_eq(rig_append(&r, l, 5, 100, true), ERR_OK);
    for (int i = 0; i < 100; i++) {
        ck_assert_int_eq(rig_append(&r, busy, 1, 100, true), ERR_OK);
        rig_run(&r, 1000);
    }
    rig_run(&r, 2000);
    rig_crash(&r, true);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    ck_assert_int_eq(l->rec.scanned_bytes, 0);
    ck_assert_int_gt(busy->rec.scanned_bytes, 0);
    ck_assert(!l->rec.above_mark && !busy->rec.above_mark);
    rig_run(&r, 200000);
    uint64_t ops = world_node_disk_ops(r.n);
    rig_run(&r, 200000);
    ck_assert_uint_eq(world_node_disk_ops(r.n), ops);
    rig_done(&r);
}
END_TEST

/* A stopped directory needs no reading at the next start, and a stop after which nothing changed no writing, however
 * many logs (P12, BR-063); also when the leader epoch was raised and nothing has been appended under it. */
START_TEST(p12_clean_start_reads_no_log) {
    struct rig r;
    rig_init(&r, 4);
    for (int i = 0; i < 8; i++) {
        rig_log(&r, "c", i);
    }
    r.with_producers = false;
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    for (uint32_t i = 0; i < 8; i++) {
        ck_assert_int_eq(rig_append(&r, &r.logs[i], 1, 10, true), ERR_OK);
    }
    rig_settle(&r);
    ck_assert(rig_stop(&r));
    uint64_t before = world_node_disk_ops(r.n);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    uint64_t ops = world_node_disk_ops(r.n) - before;
    ck_assert_uint_le(ops, 24);                   /* a listing, the small files, the marks: nothing of any log */
    rig_check_recovered(&r);
    for (int i = 0; i < 2; i++) {
        before = world_node_disk_ops(r.n);
        ck_assert(rig_stop(&r));
        ck_assert_uint_le(world_node_disk_ops(r.n) - before, 20);
        r.epoch++;
        ck_assert_int_eq(rig_start(&r), ERR_OK);
    }
    rig_done(&r);
}
END_TEST

/* The first batch of a log costs four requests of the write lane: its directory, partition.metadata, its segment,
 * the bytes (PERFORMANCE P8). Syncs and marks do not grow with the number of logs. */
START_TEST(p8_first_append_takes_four_requests) {
    struct rig r;
    rig_init(&r, 4);
    for (int i = 0; i < RIG_LOGS_MAX; i++) {
        rig_log(&r, "f", i);
    }
    r.with_producers = false;
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    uint64_t before = world_node_disk_ops(r.n);
    world_node_hold_syncs(r.n, true);
    for (uint32_t i = 0; i < RIG_LOGS_MAX; i++) {
        ck_assert_int_eq(rig_append(&r, &r.logs[i], 1, 10, true), ERR_OK);
    }
    rig_run(&r, 50);
    world_node_hold_syncs(r.n, false);
    rig_settle(&r);
    ck_assert_uint_le(world_node_disk_ops(r.n) - before, 4 * RIG_LOGS_MAX + 8);
    rig_done(&r);
}
END_TEST

/* ---- deletion ---- */

static void delete_now(void *u) {
    struct rig_log *l = u;
    l->deleted = true;
    plog_delete(l->lg);
    l->lg = NULL;
}

static bool dir_exists(struct rig *r, const char *path) {
    struct disk_req st = {.op = DISK_STAT, .path = path};
    return disk_call(world_node_disk(r->n), &st) == ERR_OK;
}

START_TEST(a_deleted_log_goes) {
    struct rig r;
    rig_init(&r, 4);
    struct rig_log *l = rig_log(&r, "gone", 0), *other = rig_log(&r, "stays", 0);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert_int_eq(rig_append(&r, l, 1, 10, true), ERR_OK);
    ck_assert_int_eq(rig_append(&r, other, 1, 10, true), ERR_OK);
    rig_settle(&r);
    ck_assert(dir_exists(&r, "gone-0"));
    ck_assert_int_eq(rig_append(&r, l, 1, 10, true), ERR_OK);
    ck_assert(world_node_call(r.n, 0, delete_now, l));                 /* with a write under way */
    ck_assert_int_eq(l->failed_why, ERR_CANCELLED);
    ck_assert_int_eq(l->failed_from, 1);
    rig_run(&r, 2000);
    ck_assert(!dir_exists(&r, "gone-0") && dir_exists(&r, "stays-0"));
    ck_assert(rig_stop(&r));
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert(datadir_mark_find(r.dd, l->topic_id, 0) == NULL && datadir_mark_find(r.dd, other->topic_id, 0) != NULL);
    rig_done(&r);
}
END_TEST

struct again {
    struct rig *r;
    struct rig_log *l;
};

static void again_now(void *u) {
    struct again *q = u;
    struct rig_log *l = q->l;
    delete_now(l);
    rig_cut(l, 0);
    l->deleted = false;
    l->acked = l->seen = l->producers_upto = 0;
    l->topic_id.b[9]++;
    struct plog_id id = {.topic = l->topic, .topic_id = l->topic_id, .partition = 0};
    ck_assert_int_eq(plog_open(q->r->st, &id, &q->r->log_conf, l, &l->lg), ERR_OK);
}

/* BR-042: the same name again, with another id, right away. */
START_TEST(br042_deleted_and_made_again) {
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct rig r;
        rig_init(&r, seed);
        struct rig_log *l = rig_log(&r, "again", 0);
        ck_assert_int_eq(rig_start(&r), ERR_OK);
        for (int round = 0; round < 5; round++) {
            ck_assert_int_eq(rig_append(&r, l, 1, 10, round % 2), ERR_OK);
            rig_run(&r, (ms)prng_below(&r.rng, 3));
            struct again q = {.r = &r, .l = l};
            ck_assert(world_node_call(r.n, 0, again_now, &q));
        }
        ck_assert_int_eq(rig_append(&r, l, 2, 10, true), ERR_OK);
        rig_settle(&r);
        ck_assert_int_eq(r.errors, 0);
        rig_crash(&r, seed % 2);
        ck_assert_int_eq(rig_start(&r), ERR_OK);
        rig_check_recovered(&r);
        ck_assert_int_eq(rig_end(l), 2);
        rig_done(&r);
    }
}
END_TEST

int main(void) {
    return RIG_RUN("policy", d6_up_to_eight_by_file, d6_more_by_syncfs, d6_nobody_waits_for_what_others_want, d6_age,
                   d6_wanted_by_a_reader, d6_bytes, d7_light_marks, t6_crash_right_after_a_mark, marks_are_compacted,
                   d2_indexes_and_snapshots, p12_clean_start_reads_no_log, p8_first_append_takes_four_requests,
                   p12_idle_logs_are_checkpointed, a_deleted_log_goes, br042_deleted_and_made_again);
}
