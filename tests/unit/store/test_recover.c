/* Goal: recovery tells a torn tail from damage, rebuilds side files, and never takes away what lies below the
 * durable mark (T8–T11). Method: a small log on the simulated disk, damaged at rest in every possible way; then a
 * start. */
#include "rig.h"

#define LOG0 "t-0/00000000000000000000.log"

/* One log with three acknowledged batches, down. marked: the durable mark covers them. clean: stopped cleanly (then
 * marked in any case). */
static struct rig_log *three(struct rig *r, uint64_t seed, bool marked, bool clean) {
    rig_init(r, seed);
    struct rig_log *l = rig_log(r, "t", 0);
    r->conf.checkpoint_age = marked ? 50 : 1000000;
    ck_assert_int_eq(rig_start(r), ERR_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(rig_append(r, l, 2, 8, true), ERR_OK);
    }
    rig_settle(r);
    rig_run(r, 500);
    if (clean) {
        ck_assert(rig_stop(r));
    } else {
        rig_crash(r, true);
    }
    return l;
}

static int64_t size_of(struct rig *r, const char *path) {
    struct disk_req st = {.op = DISK_STAT, .path = path};
    return disk_call(world_node_disk(r->n), &st) == ERR_OK ? st.size : -1;
}

static void put(struct rig *r, const char *path, int64_t at, const void *p, size_t n) {
    struct disk *d = world_node_disk(r->n);
    struct disk_req o = {.op = DISK_OPEN, .path = path, .flags = DISK_RDWR | DISK_CREATE};
    ck_assert_int_eq(disk_call(d, &o), ERR_OK);
    struct iovec iov = {.iov_base = (void *)(uintptr_t)p, .iov_len = n};
    struct disk_req w = {.op = DISK_WRITE, .file = o.file, .at = at, .iov = &iov, .iov_n = 1};
    struct disk_req s = {.op = DISK_SYNC, .files = &o.file, .files_n = 1}, c = {.op = DISK_CLOSE, .file = o.file};
    ck_assert(disk_call(d, &w) == ERR_OK && disk_call(d, &s) == ERR_OK && disk_call(d, &c) == ERR_OK);
}

static void do_path(struct rig *r, enum disk_op op, const char *path, const char *path2) {
    struct disk_req rq = {.op = op, .path = path, .path2 = path2};
    ck_assert_int_eq(disk_call(world_node_disk(r->n), &rq), ERR_OK);
}

/* ---- T9 ---- */

START_TEST(t9_each_bit_below_the_mark) {
    for (int64_t bit = 0;; bit++) {
        struct rig r;
        struct rig_log *l = three(&r, 1, true, false);
        int64_t size = size_of(&r, LOG0);
        bool more = bit < size * 8;
        if (more) {
            ck_assert_int_eq(world_node_corrupt(r.n, LOG0, bit / 8, (uint8_t)(1 << bit % 8)), ERR_OK);
            ck_assert_int_eq(rig_start(&r), ERR_OK);
            ck_assert_msg(l->rec_err == ERR_DAMAGED, "bit %lld was not noticed", (long long)bit);
            ck_assert(plog_is_fenced(l->lg) && strstr(r.last_error, LOG0));
            ck_assert_int_eq(size_of(&r, LOG0), size);      /* untouched */
            rig_run(&r, 200);
            ck_assert_int_eq(rig_append(&r, l, 1, 8, true), ERR_FENCED);
            ck_assert(rig_stop(&r));   /* a clean stop of the others does not make it well */
            ck_assert_int_eq(rig_start(&r), ERR_OK);
            ck_assert_int_eq(l->rec_err, ERR_DAMAGED);
            ck_assert_int_eq(world_node_corrupt(r.n, LOG0, bit / 8, (uint8_t)(1 << bit % 8)), ERR_OK);
            rig_crash(&r, true);
            ck_assert_int_eq(rig_start(&r), ERR_OK);        /* repaired from outside: whole again */
            rig_check_recovered(&r);
            ck_assert_int_eq(rig_end(l), 6);
        }
        rig_done(&r);
        if (!more) {
            break;
        }
    }
}
END_TEST

START_TEST(t9_each_bit_above_the_mark) {
    for (int64_t bit = 0;; bit++) {
        struct rig r;
        struct rig_log *l = three(&r, 1, false, false);
        bool more = bit < size_of(&r, LOG0) * 8;
        int64_t batch = (int64_t)l->v[0].n, in_batch = bit / 8 % batch;
        if (more && (in_batch < 12 ||
                     in_batch > 15)) { /* a higher leader epoch, outside the CRC, is nobody's to judge up here */
            off64 good = bit / 8 / batch * 2;      /* whole batches before the bad one, two records each */
            ck_assert_int_eq(world_node_corrupt(r.n, LOG0, bit / 8, (uint8_t)(1 << bit % 8)), ERR_OK);
            l->acked = 0;          /* rot here cannot be told from a torn tail: docs say so */
            ck_assert_int_eq(rig_start(&r), ERR_OK);
            rig_check_recovered(&r);
            ck_assert_msg(rig_end(l) == good, "bit %lld: ends at %lld", (long long)bit, (long long)rig_end(l));
            ck_assert(l->rec.above_mark && l->rec.cut_bytes > 0);
        }
        rig_done(&r);
        if (!more) {
            break;
        }
    }
}
END_TEST

/* After a clean stop nothing is scanned: each read serves the batch or refuses it. */
START_TEST(t9_each_bit_after_a_clean_stop) {
    for (int64_t bit = 0;; bit += 3) {
        struct rig r;
        struct rig_log *l = three(&r, 1, true, true);
        bool more = bit < size_of(&r, LOG0) * 8;
        if (more) {
            size_t bad = (size_t)(bit / 8) / l->v[0].n;
            ck_assert_int_eq(world_node_corrupt(r.n, LOG0, bit / 8, (uint8_t)(1 << bit % 8)), ERR_OK);
            ck_assert_int_eq(rig_start(&r), ERR_OK);
            for (size_t i = 0; i < 3; i++) {
                struct rig_ask q = {.l = l, .from = l->v[i].base, .below = l->v[i].end, .max = 1 << 20};
                err e = rig_read(&r, &q);
                ck_assert(e == ERR_OK || e == ERR_DAMAGED);
                ck_assert_msg(e == ERR_DAMAGED || i != bad, "bit %lld", (long long)bit);
                if (e == ERR_OK) {
                    ck_assert_mem_eq(q.bytes, l->v[i].p, l->v[i].n);
                }
                free(q.bytes);
            }
        }
        rig_done(&r);
        if (!more) {
            break;
        }
    }
}
END_TEST

/* ---- T8: what may stand behind the last good batch ---- */

static void tail_case(const uint8_t *p, size_t n) {
    struct rig r;
    struct rig_log *l = three(&r, 1, false, false);
    int64_t size = size_of(&r, LOG0);
    put(&r, LOG0, size, p, n);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    ck_assert_int_eq(rig_end(l), 6);
    ck_assert_int_eq(l->rec.cut_bytes, (int64_t)n);
    ck_assert_int_eq(size_of(&r, LOG0), size);
    rig_done(&r);
}

START_TEST(t8_tails) {
    struct rig r;
    struct rig_log *l = three(&r, 1, false, false);
    uint8_t zeros[5000] = {0}, garbage[3000], batch[400];
    size_t n = l->v[2].n;
    struct prng g;
    prng_seed(&g, 8);
    prng_bytes(&g, garbage, sizeof garbage);
    tail_case(zeros, sizeof zeros);
    tail_case(zeros, 1);
    tail_case(garbage, sizeof garbage);
    tail_case(l->v[2].p, n);                       /* an older batch again, valid in itself */
    tail_case(l->v[0].p, n);
    memcpy(batch, l->v[2].p, n);
    batch_stamp(batch, 7, 0);                      /* the right batch with a wrong base offset: CRC is good */
    tail_case(batch, n);
    batch_stamp(batch, 5, 0);
    tail_case(batch, n);
    batch_stamp(batch, 6, 0);
    tail_case(batch, n - 1);                       /* torn */
    tail_case(batch, 60);
    batch[n - 1] ^= 1;
    tail_case(batch, n);                           /* bad CRC */
    rig_done(&r);
}
END_TEST

START_TEST(t8_tail_with_a_lower_epoch_is_cut) {
    struct rig r;
    rig_init(&r, 3);
    struct rig_log *l = rig_log(&r, "t", 0);
    r.epoch = 5;
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert_int_eq(rig_append(&r, l, 1, 8, true), ERR_OK);
    rig_settle(&r);
    rig_crash(&r, true);
    uint8_t batch[400];
    memcpy(batch, l->v[0].p, l->v[0].n);
    batch_stamp(batch, 1, 4);
    put(&r, LOG0, (int64_t)l->v[0].n, batch, l->v[0].n);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    ck_assert_int_eq(l->rec.cut_bytes, (int64_t)l->v[0].n);
    rig_done(&r);
}
END_TEST

/* ---- T10, T11: each file of a log with several segments, cut at every length and removed ---- */

#define BIG_ROUNDS 20

static struct rig_log *several(struct rig *r, bool clean) {
    rig_init(r, 11);
    struct rig_log *l = rig_log(r, "t", 0);
    r->log_conf.segment_bytes = 5000;
    r->log_conf.index_interval_bytes = 300;
    r->conf.heavy_bytes = 1000;
    r->conf.checkpoint_age = 20;
    r->conf.tail_bytes_max = 0;
    ck_assert_int_eq(rig_start(r), ERR_OK);
    for (int i = 0; i < BIG_ROUNDS; i++) {
        r->epoch = i / 8;          /* several entries in leader-epoch-checkpoint */
        ck_assert_int_eq(rig_append(r, l, 2, 250, true), ERR_OK);
        rig_run(r, 30);
    }
    rig_settle(r);
    rig_run(r, 200);
    if (clean) {
        ck_assert(rig_stop(r));
    } else {
        rig_crash(r, true);
    }
    return l;
}

/* After damage to `path`: refused with a line, or everything is served; twice, so that nothing loops. */
static void served_or_refused(struct rig *r, struct rig_log *l, bool side_file) {
    for (int again = 0; again < 2; again++) {
        err e = rig_start(r);
        if (e != ERR_OK) {
            ck_assert_msg(e == ERR_DAMAGED && r->why[0] && !side_file, "%s %s", err_name(e), r->why);
            return;
        }
        if (l->rec_err != ERR_OK) {
            ck_assert(l->rec_err == ERR_DAMAGED && !side_file);
        } else if (side_file) {
            rig_check_recovered(r);
            ck_assert_int_eq(rig_end(l), 2 * BIG_ROUNDS);
            int32_t epoch;
            off64 end;
            plog_epoch_end(l->lg, 0, &epoch, &end);
            ck_assert(epoch == 0 && end == 16);
            rig_run(r, 200);       /* rebuilt indexes are written */
        } else {
            /* a cut log file after a clean stop: what is there is right, the rest is refused */
            for (size_t i = 0; i < l->n; i++) {
                struct rig_ask q = {.l = l, .from = l->v[i].base, .below = l->v[i].end, .max = 1 << 20};
                err re = rig_read(r, &q);
                ck_assert(re == ERR_OK || re == ERR_DAMAGED);
                ck_assert(re != ERR_OK || (q.bytes_n == l->v[i].n && memcmp(q.bytes, l->v[i].p, q.bytes_n) == 0));
                free(q.bytes);
            }
        }
        rig_crash(r, false);
    }
}

static void each_length(bool clean, bool remove) {
    struct rig list;
    (void)several(&list, clean);
    struct disk_req ls = {.op = DISK_LIST, .path = "t-0"};
    ck_assert_int_eq(disk_call(world_node_disk(list.n), &ls), ERR_OK);
    ck_assert_uint_gt(ls.entries_n, 8);
    for (size_t f = 0; f < ls.entries_n; f++) {
        char path[100];
        (void)snprintf(path, sizeof path, "t-0/%s", ls.entries[f].name);
        bool side_file = !names_ends_with(path, ".log");
        int64_t size = ls.entries[f].size, step = remove ? size + 1 : side_file ? 1 : 173;
        for (int64_t at = 0; at < (remove ? 1 : size); at += step) {
            struct rig r;
            struct rig_log *l = several(&r, clean);
            if (remove) {
                do_path(&r, DISK_UNLINK, path, NULL);
            } else {
                ck_assert_int_eq(world_node_corrupt(r.n, path, at, 0), ERR_OK);
            }
            world_note(r.w, "cut %s at %lld", path, (long long)at);
            served_or_refused(&r, l, side_file);
            rig_done(&r);
        }
    }
    disk_entries_free(ls.entries, ls.entries_n);
    rig_done(&list);
}

START_TEST(t10_each_file_at_every_length) {
    each_length(false, false);
    ck_assert(mark_count("recover.producers") > 0 && mark_count("recover.epochs") > 0);
}
END_TEST

START_TEST(t10_each_file_at_every_length_after_a_clean_stop) {
    each_length(true, false);
    ck_assert(mark_count("cold.rebuilt") > 0);
}
END_TEST

START_TEST(t11_each_file_removed) {
    each_length(false, true);
    each_length(true, true);
}
END_TEST

START_TEST(t10_files_of_the_directory) {
    static const char *const files[] = {"perigee.meta/format", "meta.properties", "perigee.meta/marks.0"};
    for (size_t f = 0; f < 3; f++) {
        for (int64_t at = 0;; at++) {
            struct rig r;
            struct rig_log *l = several(&r, false);
            bool more = at < size_of(&r, files[f]);
            if (more) {
                ck_assert_int_eq(world_node_corrupt(r.n, files[f], at, 0), ERR_OK);
                err e = rig_start(&r);
                ck_assert(e == ERR_OK || e == ERR_DAMAGED);
                if (e == ERR_OK) { /* fewer marks: more is scanned, nothing is lost */
                    rig_check_recovered(&r);
                    ck_assert_int_eq(rig_end(l), 2 * BIG_ROUNDS);
                } else {
                    ck_assert(f < 2 && r.why[0]);
                }
            }
            rig_done(&r);
            if (!more) {
                break;
            }
        }
    }
}
END_TEST

/* ---- damage that the mark knows of ---- */

static void refused(struct rig *r, struct rig_log *l, const char *names) {
    ck_assert_int_eq(rig_start(r), ERR_OK);
    ck_assert_int_eq(l->rec_err, ERR_DAMAGED);
    ck_assert(plog_is_fenced(l->lg));
    ck_assert_msg(strstr(r->last_error, names) != NULL, "%s", r->last_error);
    rig_done(r);
}

START_TEST(a_missing_directory_is_damage) {
    struct rig r;
    struct rig_log *l = three(&r, 1, true, false);
    do_path(&r, DISK_RMTREE, "t-0", NULL);
    refused(&r, l, "t-0");
}
END_TEST

START_TEST(a_missing_segment_is_damage) {
    static const int nth[] = {0, 1, 2};
    for (size_t i = 0; i < 3; i++) {
        struct rig r;
        struct rig_log *l = several(&r, false);
        struct disk_req ls = {.op = DISK_LIST, .path = "t-0"};
        ck_assert_int_eq(disk_call(world_node_disk(r.n), &ls), ERR_OK);
        int seen = 0;
        for (size_t f = 0; f < ls.entries_n; f++) {
            if (names_ends_with(ls.entries[f].name, ".log") && seen++ == nth[i]) {
                char path[100];
                (void)snprintf(path, sizeof path, "t-0/%s", ls.entries[f].name);
                do_path(&r, DISK_UNLINK, path, NULL);
            }
        }
        ck_assert_int_gt(seen, 2);
        disk_entries_free(ls.entries, ls.entries_n);
        refused(&r, l, "t-0");
    }
}
END_TEST

START_TEST(a_first_segment_missing_without_a_mark_is_damage) {
    struct rig r;
    struct rig_log *l = three(&r, 1, false, false);
    do_path(&r, DISK_RENAME, LOG0, "t-0/00000000000000000003.log");
    refused(&r, l, "t-0");
}
END_TEST

/* A deleted topic's directory whose renaming was lost: kept aside, not adopted. */
START_TEST(a_directory_of_another_topic_id) {
    struct rig r;
    struct rig_log *l = three(&r, 1, false, false);
    l->topic_id.b[3] ^= 0x55;
    rig_cut(l, 0);
    l->acked = l->seen = 0;
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    struct plog_ends e;
    plog_ends(l->lg, &e);
    ck_assert_int_eq(e.next, 0);
    ck_assert_int_eq(rig_append(&r, l, 1, 8, true), ERR_OK);
    rig_settle(&r);
    rig_crash(&r, true);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    ck_assert_int_eq(rig_end(l), 1);
    struct disk_req ls = {.op = DISK_LIST, .path = ""};
    bool kept = false;
    ck_assert_int_eq(disk_call(world_node_disk(r.n), &ls), ERR_OK);
    for (size_t i = 0; i < ls.entries_n; i++) {
        kept = kept || names_ends_with(ls.entries[i].name, "-stray");
    }
    disk_entries_free(ls.entries, ls.entries_n);
    ck_assert(kept);
    rig_done(&r);
}
END_TEST

int main(void) {
    return RIG_RUN("recover", t9_each_bit_below_the_mark, t9_each_bit_above_the_mark, t9_each_bit_after_a_clean_stop,
                   t8_tails, t8_tail_with_a_lower_epoch_is_cut, t10_each_file_at_every_length,
                   t10_each_file_at_every_length_after_a_clean_stop, t11_each_file_removed, t10_files_of_the_directory,
                   a_missing_directory_is_damage, a_missing_segment_is_damage,
                   a_first_segment_missing_without_a_mark_is_damage, a_directory_of_another_topic_id);
}
