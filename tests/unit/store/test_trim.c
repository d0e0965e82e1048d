/* Goal: the beginning of a log goes when it must, only then, and for good: retention by age and size (S18.3 to S18.6), DeleteRecords (S4.17), power cuts
 * and kills at any disk operation (S18.1, T2, T3), reads that race with it (T48). Method: the rig's logs with small segments; the twin knows every
 * batch, so whatever is still readable is compared with it. */
#include "rig.h"


static void small(struct rig *r) {
    r->log_conf.segment_bytes = 1500;
    r->log_conf.index_interval_bytes = 300;
    r->conf.heavy_bytes = 4000;
    r->conf.checkpoint_age = 150;
    r->conf.tail_bytes_max = 3000;
    r->conf.files_max = 3;
    r->raise_epoch = true;
}

static struct rig_log *begin(struct rig *r, uint64_t seed) {
    rig_init(r, seed);
    small(r);
    struct rig_log *l = rig_log(r, "trim", 0);
    ck_assert_int_eq(rig_start(r), ERR_OK);
    return l;
}

static void fill(struct rig *r, struct rig_log *l, int batches) {
    for (int i = 0; i < batches; i++) {
        ck_assert_int_eq(rig_append(r, l, 2, 300, true), ERR_OK);
        rig_settle(r);
    }
}

static bool is_trimmed(void *u) {
    struct rig *r = u;
    return trim_is_idle(r->st) && list_empty(&r->st->marks.moved) && !r->st->marks.busy && heavy_is_idle(r->st) && list_empty(&r->st->heavy.due);
}

static void settle(struct rig *r) {
    ck_assert(world_run(r->w, is_trimmed, r, 200000));
}

/* S4.17, S18.1: the start is where it was moved to, below it nothing is read, and a restart of any kind knows it. */
START_TEST(s4_17_start_moves_for_good) {
    for (int how = 0; how < 3; how++) {
        struct rig r;
        struct rig_log *l = begin(&r, 1 + (uint64_t)how);
        fill(&r, l, 20);
        off64 to = 13;                             /* in the middle of a batch */
        ck_assert_int_eq(rig_move(&r, l, to), ERR_OK);
        ck_assert_int_eq(rig_start_of(l), to);
        ck_assert_int_eq(rig_move(&r, l, 5), ERR_OK);              /* S4.17: below is a success that changes nothing */
        ck_assert_int_eq(rig_start_of(l), to);
        struct rig_ask q = {.l = l, .from = to - 1, .below = 40, .max = 1000};
        ck_assert_int_eq(rig_read(&r, &q), ERR_OFFSET_RANGE);
        free(q.bytes);
        rig_check(&r, l, to, 40);
        if (how == 0) {
            ck_assert(rig_stop(&r));
        } else {
            rig_crash(&r, how == 1);
        }
        ck_assert_int_eq(rig_start(&r), ERR_OK);
        rig_check_recovered(&r);
        ck_assert_int_eq(rig_start_of(l), to);
        fill(&r, l, 3);
        rig_check(&r, l, to, 46);
        ck_assert_int_eq(r.errors, 0);
        rig_done(&r);
    }
}
END_TEST

/* Space is free again, whole segments below the start with their side files; also all of it, and appending goes on where it was. */
START_TEST(s18_6_files_go) {
    struct rig r;
    struct rig_log *l = begin(&r, 4);
    int64_t before, after;
    fill(&r, l, 20);
    settle(&r);
    (void)rig_files(&r, l, "", &before);
    uint32_t segs = rig_files(&r, l, ".log", NULL);
    ck_assert_uint_gt(segs, 5);
    ck_assert_int_eq(rig_move(&r, l, 30), ERR_OK);
    settle(&r);
    ck_assert_uint_lt(rig_files(&r, l, ".log", NULL), segs - 4);
    ck_assert_uint_eq(rig_files(&r, l, NAMES_DELETED, NULL), 0);
    (void)rig_files(&r, l, "", &after);
    ck_assert_int_lt(after, before / 2);
    ck_assert_int_eq(rig_move(&r, l, 40), ERR_OK);
    settle(&r);
    ck_assert_uint_eq(rig_files(&r, l, ".log", &after), 1);        /* the empty segment keeps the place (S18.5) */
    ck_assert_int_eq(after, 0);
    ck_assert_uint_eq(rig_files(&r, l, "index", NULL), 0);
    for (int how = 0; how < 3; how++) {
        if (how < 2) {
            rig_crash(&r, how == 0);
        } else {
            ck_assert(rig_stop(&r));
        }
        ck_assert_int_eq(rig_start(&r), ERR_OK);
        rig_check_recovered(&r);
        ck_assert_int_eq(rig_start_of(l), 40);
        ck_assert_int_eq(l->producers_upto, 40 + how * 2);
        fill(&r, l, 1);
        rig_check(&r, l, 40, 42 + how * 2);
    }
    ck_assert_int_eq(r.errors, 0);
    rig_done(&r);
}
END_TEST

static void append_at(struct rig *r, struct rig_log *l, ms ts) {
    struct rig_ask q = {.r = r, .l = l, .records = 2, .value = 300, .ts = ts, .want = true};
    ck_assert(world_node_call(r->n, 0, rig_append_now, &q));
    ck_assert_int_eq(q.err, ERR_OK);
    rig_settle(r);
}

/* S18.3, S18.5: by the largest timestamp of a segment, from the oldest on, the first that stays ends it; when all is old the active one goes, too. */
START_TEST(s18_3_by_age) {
    for (int restart = 0; restart < 3; restart++) {
        struct rig r;
        struct rig_log *l = begin(&r, 5);
        for (int i = 0; i < 10; i++) {             /* two batches a segment: 1000, 900, 3000, 2900, ...: not in order */
            append_at(&r, l, (i - i % 2 + 1) * 1000 - i % 2 * 100);
        }
        if (restart) {
            restart == 1 ? (void)rig_stop(&r) : rig_crash(&r, true);
            ck_assert_int_eq(rig_start(&r), ERR_OK);
            rig_check_recovered(&r);
        }
        struct plog_retain rule = {.age = 5000, .bytes = -1, .wall = 6000};
        ck_assert_int_eq(rig_retain(&r, l, rule), 0);              /* 6000 - 1000 is not above */
        rule.wall = 6001;
        ck_assert_int_eq(rig_retain(&r, l, rule), 4);
        rule.wall = 10001;
        rule.below = 7;
        ck_assert_int_eq(rig_retain(&r, l, rule), 4);              /* S18.5: at or above the high watermark nothing goes */
        rule.below = 0;
        ck_assert_int_eq(rig_retain(&r, l, rule), 12);
        settle(&r);
        ck_assert_int_eq(rig_start_of(l), 12);
        rig_check(&r, l, 12, 20);
        rule.age = -1;
        rule.wall = 100000;
        ck_assert_int_eq(rig_retain(&r, l, rule), 12);
        rule.age = 5000;
        ck_assert_int_eq(rig_retain(&r, l, rule), 20);
        settle(&r);
        ck_assert_int_eq(rig_start_of(l), 20);
        ck_assert_uint_eq(rig_files(&r, l, ".log", NULL), 1);
        ck_assert_int_eq(rig_retain(&r, l, rule), 20);             /* an empty active segment stays */
        settle(&r);
        ck_assert_uint_eq(rig_files(&r, l, ".log", NULL), 1);
        append_at(&r, l, 1 << 30);                 /* the future keeps it */
        ck_assert_int_eq(rig_retain(&r, l, rule), 20);
        rig_crash(&r, true);
        ck_assert_int_eq(rig_start(&r), ERR_OK);
        rig_check_recovered(&r);
        ck_assert_int_eq(rig_start_of(l), 20);
        ck_assert_int_eq(r.errors, 0);
        rig_done(&r);
    }
}
END_TEST

/* Records without timestamps: the segment's file was written last then. */
START_TEST(s18_3_by_age_of_the_file) {
    for (int restart = 0; restart < 2; restart++) {
        struct rig r;
        struct rig_log *l = begin(&r, 6);
        for (int i = 0; i < 6; i++) {
            append_at(&r, l, -1);
            rig_run(&r, 10000);
        }
        if (restart) {
            ck_assert(rig_stop(&r));
            ck_assert_int_eq(rig_start(&r), ERR_OK);
        }
        off64 to = rig_retain(&r, l, (struct plog_retain){.age = 35000, .bytes = -1});
        ck_assert(to == 4 || to == 8);             /* segments of two batches, 10 s apart */
        ck_assert_int_eq(rig_retain(&r, l, (struct plog_retain){.age = 3600000, .bytes = -1}), to);
        rig_run(&r, 60000);
        ck_assert_int_eq(rig_retain(&r, l, (struct plog_retain){.age = 35000, .bytes = -1}), 12);
        ck_assert_int_eq(r.errors, 0);
        rig_done(&r);
    }
}
END_TEST

/* S18.4: at least retention.bytes remain. */
START_TEST(s18_4_by_size) {
    for (int restart = 0; restart < 3; restart++) {
        struct rig r;
        struct rig_log *l = begin(&r, 7);
        struct plog_ends e;
        fill(&r, l, 11);
        plog_ends(l->lg, &e);
        int64_t batch = e.bytes / 11, seg = 2 * batch;
        if (restart) {
            restart == 1 ? (void)rig_stop(&r) : rig_crash(&r, true);
            ck_assert_int_eq(rig_start(&r), ERR_OK);
            rig_check_recovered(&r);
        }
        ck_assert_int_eq(rig_retain(&r, l, (struct plog_retain){.age = -1, .bytes = e.bytes - seg + 1}), 0);
        ck_assert_int_eq(rig_retain(&r, l, (struct plog_retain){.age = -1, .bytes = e.bytes - seg}), 4);
        ck_assert_int_eq(rig_retain(&r, l, (struct plog_retain){.age = -1, .bytes = seg}), 16);
        settle(&r);
        plog_ends(l->lg, &e);
        ck_assert_int_eq(e.start, 16);
        ck_assert_int_eq(e.bytes, 3 * batch);
        ck_assert_int_eq(rig_retain(&r, l, (struct plog_retain){.age = -1, .bytes = 0}), 22);
        settle(&r);
        plog_ends(l->lg, &e);
        ck_assert(e.start == 22 && e.bytes == 0);
        ck_assert_int_eq(r.errors, 0);
        rig_done(&r);
    }
}
END_TEST

/* S19.4: epochs that ended below the start are gone; what is told of older ones is the start. */
START_TEST(s19_4_epochs_go) {
    struct rig r;
    struct rig_log *l = begin(&r, 8);
    for (int epoch = 0; epoch < 4; epoch++) {
        r.epoch = epoch;
        fill(&r, l, 5);
    }
    for (int restart = 0; restart < 3; restart++) {
        int32_t epoch;
        off64 end;
        if (restart == 0) {
            ck_assert_int_eq(rig_move(&r, l, 22), ERR_OK);
            settle(&r);
        } else {
            restart == 1 ? (void)rig_stop(&r) : rig_crash(&r, true);
            ck_assert_int_eq(rig_start(&r), ERR_OK);
            rig_check_recovered(&r);
        }
        plog_epoch_end(l->lg, 0, &epoch, &end);
        ck_assert(epoch == 0 && end == 22);
        plog_epoch_end(l->lg, 2, &epoch, &end);
        ck_assert(epoch == 2 && end == 30);
        ck_assert_int_eq(plog_epoch_at(l->lg, 22), 2);
    }
    ck_assert_int_eq(r.errors, 0);
    rig_done(&r);
}
END_TEST

/* What is removed at the start, and what is refused there. */
START_TEST(leftovers_and_gaps) {
    struct rig r;
    struct rig_log *l = begin(&r, 9);
    fill(&r, l, 12);
    settle(&r);
    struct disk *d = world_node_disk(r.n);
    struct iovec iov = {.iov_base = (void *)"x", .iov_len = 1};
    ck_assert_int_eq(rig_move(&r, l, 9), ERR_OK);
    settle(&r);
    rig_crash(&r, false);
    static const char *const names[] = {"trim-0/00000000000000000000.log", "trim-0/00000000000000000004.index",
                                        "trim-0/00000000000000000004.timeindex.deleted", "trim-0/00000000000000000004.log.deleted"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct disk_req put = {.op = DISK_PUT, .path = names[i], .flags = DISK_RDWR | DISK_CREATE, .iov = &iov, .iov_n = 1};
        ck_assert_int_eq(disk_call(d, &put), ERR_OK);
    }
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    settle(&r);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct disk_req stat = {.op = DISK_STAT, .path = names[i]};
        ck_assert_int_eq(disk_call(d, &stat), ERR_NOT_FOUND);
    }
    ck_assert_int_eq(r.errors, 0);
    rig_crash(&r, false);
    /* Somebody removed a segment by hand: that is damage, said, not a later start. */
    struct disk_req rm = {.op = DISK_UNLINK, .path = "trim-0/00000000000000000008.log"};
    ck_assert_int_eq(disk_call(d, &rm), ERR_OK);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert_int_eq(l->rec_err, ERR_DAMAGED);
    ck_assert(strstr(r.last_error, "trim-0") != NULL);
    rig_done(&r);
}
END_TEST

/* The start was moved to the log's end while its segment could not be closed; the next roll begins just there, and the segment goes then. */
START_TEST(s18_6_a_roll_at_the_start) {
    for (int how = 0; how < 3; how++) {
        struct rig r;
        struct rig_log *l = begin(&r, 14);
        fill(&r, l, 3);
        r.log_conf.segment_bytes = 1 << 20;        /* the third batch stays in its segment, the next move finds it busy */
        struct rig_cut q = {.r = &r, .l = l, .move = {.to = 6}};
        ck_assert_int_eq(rig_append(&r, l, 2, 300, true), ERR_OK);
        ck_assert(world_node_call(r.n, 0, rig_move_now, &q));
        ck_assert(q.done || world_run(r.w, rig_cut_done, &q, 10000));
        rig_settle(&r);
        r.log_conf.segment_bytes = 1500;
        fill(&r, l, 6);
        if (how < 2) {
            rig_crash(&r, how == 0);
            ck_assert_int_eq(rig_start(&r), ERR_OK);
            rig_check_recovered(&r);
        }
        settle(&r);
        ck_assert_int_eq(rig_move(&r, l, rig_end(l)), ERR_OK);
        settle(&r);
        ck_assert_uint_eq(rig_files(&r, l, ".log", NULL), 1);
        rig_crash(&r, true);
        ck_assert_int_eq(rig_start(&r), ERR_OK);
        rig_check_recovered(&r);
        ck_assert_int_eq(r.errors, 0);
        rig_done(&r);
    }
}
END_TEST

/* A stop does not wait for files (BR-063); what is left goes after the next start. */
START_TEST(br063_a_stop_leaves_files_to_the_next_start) {
    struct rig r;
    struct rig_log *l = begin(&r, 15);
    fill(&r, l, 30);
    settle(&r);
    ck_assert_int_eq(rig_move(&r, l, 50), ERR_OK);
    ck_assert(rig_stop(&r));
    ck_assert_uint_gt(rig_files(&r, l, ".log", NULL), 8);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert(!r.unclean);
    rig_check_recovered(&r);
    settle(&r);
    ck_assert_uint_le(rig_files(&r, l, ".log", NULL), 6);
    ck_assert(rig_stop(&r));
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    ck_assert_int_eq(r.errors, 0);
    rig_done(&r);
}
END_TEST

/* A full disk takes no block of marks: the start waits, and moves once there is room. */
START_TEST(start_waits_for_room) {
    struct rig r;
    struct rig_log *l = begin(&r, 10);
    fill(&r, l, 12);
    settle(&r);
    world_node_fail_op(r.n, DISK_WRITE, 1, ERR_NOSPACE);
    ck_assert_int_eq(rig_move(&r, l, 10), ERR_OK);
    ck_assert_int_eq(rig_start_of(l), 10);
    settle(&r);
    ck_assert_int_eq(r.errors, 0);
    rig_done(&r);
}
END_TEST

/* The disk is full at the stop: no snapshot can be written, and what the log held goes all the same. The older snapshot, from before what is gone, is not
 * believed at the next start: nothing could bring it up to date, and producers would be out of order for ever. Found by the simulator (seed 200111). */
START_TEST(s6_8_a_snapshot_that_nothing_continues_is_none) {
    struct rig r;
    struct rig_log *l = begin(&r, 14);
    const struct world_faults full = {.space_bytes = 1}, roomy = {0};
    r.conf.heavy_bytes = 1 << 20;
    fill(&r, l, 3);
    rig_run(&r, 3000);
    ck_assert(rig_stop(&r));                       /* a snapshot at 6 */
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    fill(&r, l, 2);
    world_faults_set(r.w, &full);
    ck_assert_int_eq(rig_move(&r, l, 10), ERR_OK);
    ck_assert(rig_stop(&r));
    world_faults_set(r.w, &roomy);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert_int_eq(l->rec_err, ERR_OK);
    ck_assert_int_eq(rig_start_of(l), 10);
    ck_assert_msg(l->producers_upto == 0 || l->producers_upto == 10, "producers as of %lld", (long long)l->producers_upto);
    rig_done(&r);
}
END_TEST

/* T16, T63: a disk that is full for producers is not for retention: what goes makes room, and appends go on without a restart. */
START_TEST(t63_retention_frees_a_full_disk) {
    struct rig r;
    rig_init(&r, 13);
    small(&r);
    r.conf.space_reserve_bytes = 60000;
    struct rig_log *l = rig_log(&r, "trim", 0);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    struct world_faults f = {.space_bytes = 300000};
    world_faults_set(r.w, &f);
    err e = ERR_OK;
    for (int i = 0; i < 1000 && e == ERR_OK; i++) {
        e = rig_append(&r, l, 2, 300, true);
        if (e == ERR_OK) {
            rig_settle(&r);
        }
        rig_run(&r, 100);
    }
    ck_assert_int_eq(e, ERR_NOSPACE);
    rig_run(&r, 3000);
    ck_assert_int_eq(rig_append(&r, l, 2, 300, true), ERR_NOSPACE);
    off64 to = rig_retain(&r, l, (struct plog_retain){.age = -1, .bytes = 20000});
    ck_assert_int_gt(to, 0);
    settle(&r);
    rig_run(&r, 3000);                             /* free space is looked at now and then */
    ck_assert_int_eq(rig_start_of(l), to);
    fill(&r, l, 5);
    rig_check(&r, l, to, rig_end(l));
    ck_assert_int_eq(r.errors, 0);
    ck_assert(rig_stop(&r));
    rig_done(&r);
}
END_TEST

/* ---- crashes ---- */

static bool up(const struct rig *r) {
    return world_node_is_up(r->n);
}

static void move_some(struct rig *r, struct rig_log *l) {
    struct plog_ends e;
    plog_ends(l->lg, &e);
    off64 to = e.start + (off64)prng_below(&r->rng, (uint64_t)(e.stable - e.start) + 1);
    (void)rig_move(r, l, prng_chance(&r->rng, 1, 4) ? e.stable : to);  /* CANCELLED: the crash */
}

static void script(struct rig *r) {
    for (int round = 0; round < 6 && up(r); round++) {
        for (int i = 0; i < 5 && up(r); i++) {
            (void)rig_append(r, &r->logs[(round + i) % 2], 2, i == 4 ? 1200 : 300, i % 2 == 0);
            if (up(r) && i % 3 == 1) {
                rig_run(r, 1);
            }
        }
        if (up(r) && round % 2) {
            move_some(r, &r->logs[round / 2 % 2]);
        } else if (up(r)) {
            (void)rig_retain(r, &r->logs[round % 2], (struct plog_retain){.age = -1, .bytes = round == 4 ? 0 : 2000});
        }
        if (up(r)) {
            rig_run(r, round % 2 ? 20 : 400);
        }
        if (round == 3 && up(r) && rig_stop(r) && rig_start(r) == ERR_OK) {
            rig_check_recovered(r);
        }
    }
}

static void begin_two(struct rig *r, uint64_t seed) {
    rig_init(r, seed);
    small(r);
    rig_log(r, "crash", 0);
    rig_log(r, "crash", 1);
}

static uint64_t count_ops(void) {
    uint64_t most = 0;
    for (uint64_t seed = 1; seed <= 5; seed++) {   /* what goes is drawn */
        struct rig r;
        begin_two(&r, seed);
        ck_assert_int_eq(rig_start(&r), ERR_OK);
        script(&r);
        uint64_t ops = world_node_disk_ops(r.n);
        most = ops > most ? ops : most;
        ck_assert_int_eq(r.errors, 0);
        rig_done(&r);
    }
    return most;
}

static void goes_on(struct rig *r) {
    for (uint32_t i = 0; i < r->logs_n; i++) {
        ck_assert_int_eq(rig_append(r, &r->logs[i], 1, 500, true), ERR_OK);
    }
    rig_settle(r);
    for (uint32_t i = 0; i < r->logs_n; i++) {
        move_some(r, &r->logs[i]);
    }
    ck_assert(rig_stop(r));
    ck_assert_int_eq(rig_start(r), ERR_OK);
    ck_assert(!r->unclean);
    rig_check_recovered(r);
}

static void each_op(bool power) {
    uint64_t ops = count_ops();
    ck_assert(ops > 200);
    for (uint64_t k = 1; k <= ops; k++) {
        struct rig r;
        begin_two(&r, k);
        world_node_crash_at(r.n, k, power);
        if (rig_start(&r) == ERR_OK) {
            script(&r);
        }
        world_node_crash_at(r.n, 0, power);
        rig_crash(&r, power);
        if (k % 3 == 0) {                          /* T4: once more, in the recovery */
            world_node_crash_at(r.n, 1 + k % 40, !power);
            (void)rig_start(&r);
            world_node_crash_at(r.n, 0, power);
            rig_crash(&r, power);
        }
        ck_assert_msg(rig_start(&r) == ERR_OK, "op %llu: %s", (unsigned long long)k, r.why);
        rig_check_recovered(&r);
        goes_on(&r);
        ck_assert_msg(r.errors == 0, "op %llu: %s", (unsigned long long)k, r.last_error);
        rig_done(&r);
    }
}

START_TEST(s18_1_power_cut_at_each_op) {
    each_op(true);
    ck_assert(mark_count("recover.left_over") > 0);
    ck_assert(mark_count("trim.left_over") > 0);
}
END_TEST

START_TEST(s18_1_kill_at_each_op) {
    each_op(false);
}
END_TEST

/* ---- races ---- */

#define READERS 12

struct racer {
    struct rig_ask q;
    bool busy, by_time;
};

static void racer_judge(struct racer *x) {
    const struct rig_log *l = x->q.l;
    struct plog_ends e;
    plog_ends(l->lg, &e);
    x->busy = false;
    if (x->by_time) {
        ck_assert_int_eq(x->q.find.err, ERR_OK);
        if (x->q.find.found) {                     /* timestamps tell offsets in this test */
            ck_assert_int_eq(x->q.find.found_ts, x->q.find.offset * 10);
            ck_assert(x->q.find.offset * 10 >= x->q.ts);
        } else {
            ck_assert(x->q.ts > (x->q.below - 1) * 10 || e.start >= x->q.below);
        }
        return;
    }
    if (x->q.err == ERR_OFFSET_RANGE) {
        ck_assert(x->q.from < e.start);
    } else {
        ck_assert_msg(x->q.err == ERR_OK, "%s", err_name(x->q.err));
        size_t i = 0;
        while (l->v[i].end <= x->q.from) {
            i++;
        }
        for (size_t at = 0; at < x->q.bytes_n; at += l->v[i++].n) {
            ck_assert(i < l->n && at + l->v[i].n <= x->q.bytes_n);
            ck_assert_mem_eq(x->q.bytes + at, l->v[i].p, l->v[i].n);
        }
    }
    free(x->q.bytes);
}

static void racer_start(struct rig *r, struct rig_log *l, struct racer *x) {
    struct plog_ends e;
    plog_ends(l->lg, &e);
    if (e.stable == e.start) {
        return;
    }
    off64 from = e.start + (off64)prng_below(&r->rng, (uint64_t)(e.stable - e.start));
    x->by_time = prng_chance(&r->rng, 1, 3);
    x->q = (struct rig_ask){.r = r, .l = l, .from = from, .below = e.stable, .max = 1 + (size_t)prng_below(&r->rng, 3000), .ts = from * 10};
    x->busy = true;
    (void)world_node_call(r->n, 0, x->by_time ? rig_find_now : rig_read_now, &x->q);
}

static bool racers_idle(void *u) {
    const struct racer *xs = u;
    for (int i = 0; i < READERS; i++) {
        if (xs[i].busy && !xs[i].q.done) {
            return false;
        }
    }
    return true;
}

static void race(uint64_t seed) {
    static struct racer xs[READERS];
    struct rig r;
    rig_init(&r, seed);
    small(&r);
    r.conf.checkpoint_age = 4;                     /* the start moves, and files go, between the reads of a reader */
    struct rig_log *l = rig_log(&r, "trim", 0);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    memset(xs, 0, sizeof xs);
    struct world_faults f = {.disk_us_max = 3000};
    world_faults_set(r.w, &f);
    for (int round = 0; round < 120; round++) {
        struct rig_ask q = {.r = &r, .l = l, .records = 2, .value = 300, .ts = rig_end(l) * 10, .ts_step = 10, .want = true};
        ck_assert(world_node_call(r.n, 0, rig_append_now, &q));
        for (int i = 0; i < READERS; i++) {
            if (xs[i].busy && xs[i].q.done) {
                racer_judge(&xs[i]);
            }
            if (!xs[i].busy && prng_chance(&r.rng, 1, 3)) {
                racer_start(&r, l, &xs[i]);
            }
        }
        if (round % 7 == 6) {
            move_some(&r, l);
        } else if (round % 7 == 3) {
            (void)rig_retain(&r, l, (struct plog_retain){.age = -1, .bytes = 4000});
        }
        rig_run(&r, (ms)prng_below(&r.rng, 8));
        if (round == 60) {
            ck_assert(world_run(r.w, racers_idle, xs, 20000));
            for (int i = 0; i < READERS; i++) {
                if (xs[i].busy) {
                    racer_judge(&xs[i]);
                }
            }
            ck_assert(rig_stop(&r));
            ck_assert_int_eq(rig_start(&r), ERR_OK);
            rig_check_recovered(&r);
        }
    }
    ck_assert(world_run(r.w, racers_idle, xs, 20000));
    for (int i = 0; i < READERS; i++) {
        if (xs[i].busy) {
            racer_judge(&xs[i]);
        }
    }
    ck_assert_msg(r.errors == 0, "seed %llu: %s", (unsigned long long)seed, r.last_error);
    ck_assert(rig_stop(&r));
    rig_done(&r);
}

START_TEST(t48_reads_race_with_retention) {
    for (uint64_t seed = 1; seed <= 60; seed++) {
        race(seed);
    }
    ck_assert(mark_count("trim.dropped") > 100);
}
END_TEST

/* A reader that holds what it read, or reads an open file, does not keep the space: the files are gone, its bytes stay right. */
START_TEST(space_is_freed_under_a_reader) {
    struct rig r;
    struct rig_log *l = begin(&r, 11);
    fill(&r, l, 20);
    settle(&r);
    struct world_faults f = {.disk_us_max = 400000};
    world_faults_set(r.w, &f);
    struct rig_ask q = {.r = &r, .l = l, .from = 0, .below = 40, .max = 1200};
    ck_assert(world_node_call(r.n, 0, rig_read_now, &q));
    ck_assert(!q.done);
    ck_assert_int_eq(rig_move(&r, l, 36), ERR_OK);
    settle(&r);
    ck_assert(q.done || world_run(r.w, rig_ask_done, &q, 10000));
    ck_assert(q.err == ERR_OFFSET_RANGE || memcmp(q.bytes, l->v[0].p, l->v[0].n) == 0);
    free(q.bytes);
    ck_assert_uint_le(rig_files(&r, l, ".log", NULL), 2);
    ck_assert(rig_stop(&r));                       /* the world looks for descriptors left open */
    ck_assert_int_eq(r.errors, 0);
    rig_done(&r);
}
END_TEST

struct opening {
    struct rig *r;
    struct rig_log *l;
};

static void open_now(void *u) {
    struct opening *o = u;
    struct plog_id id = {.topic = o->l->topic, .topic_id = o->l->topic_id, .partition = 0};
    ck_assert_int_eq(plog_open(o->r->st, &id, &o->r->log_conf, o->l, &o->l->lg), ERR_OK);
}

/* A directory that stands in the way of a new log is kept under another name (D2: never deleted because metadata is missing). */
START_TEST(foreign_directory_is_moved_aside) {
    for (int with_metadata = 0; with_metadata < 2; with_metadata++) {
        struct rig r;
        struct rig_log *l = begin(&r, 12);
        ck_assert(rig_stop(&r));
        struct disk *d = world_node_disk(r.n);
        struct disk_req mk = {.op = DISK_MKDIR, .path = "late-0"};
        ck_assert_int_eq(disk_call(d, &mk), ERR_OK);
        static const char text[] = "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n";
        struct iovec iov = {.iov_base = (void *)(uintptr_t)text, .iov_len = sizeof text - 1};
        struct disk_req put = {.op = DISK_PUT, .path = with_metadata ? "late-0/partition.metadata" : "late-0/00000000000000000000.log",
                               .flags = DISK_RDWR | DISK_CREATE, .iov = &iov, .iov_n = 1};
        ck_assert_int_eq(disk_call(d, &put), ERR_OK);
        ck_assert_int_eq(rig_start(&r), ERR_OK);
        struct rig_log *late = rig_log(&r, "late", 0);     /* made while the broker runs */
        struct plog_id id = {.topic = late->topic, .topic_id = late->topic_id, .partition = 0};
        ck_assert(world_node_call(r.n, 0, open_now, &(struct opening){&r, late}));
        fill(&r, late, 2);
        rig_check(&r, late, 0, 4);
        ck_assert_uint_eq(mark_count("write.aside"), 1 + (uint64_t)with_metadata);
        char aside[NAMES_DIR_CAP], path[NAMES_PATH_CAP];
        names_aside(&id, "-stray", aside);
        (void)snprintf(path, sizeof path, "%s/%s", aside, strchr(put.path, '/') + 1);
        struct disk_req stat = {.op = DISK_STAT, .path = path};
        ck_assert_int_eq(disk_call(d, &stat), ERR_OK);
        ck_assert_int_eq(stat.size, (int64_t)iov.iov_len);
        rig_crash(&r, true);
        ck_assert_int_eq(rig_start(&r), ERR_OK);
        rig_check_recovered(&r);
        (void)l;
        ck_assert_int_eq(r.errors, 0);
        rig_done(&r);
    }
}
END_TEST

int main(void) {
    return RIG_RUN("trim", s4_17_start_moves_for_good, s18_6_files_go, s18_3_by_age, s18_3_by_age_of_the_file, s18_4_by_size, s19_4_epochs_go,
                   leftovers_and_gaps, s18_6_a_roll_at_the_start, br063_a_stop_leaves_files_to_the_next_start, start_waits_for_room, t63_retention_frees_a_full_disk, s6_8_a_snapshot_that_nothing_continues_is_none, s18_1_power_cut_at_each_op, s18_1_kill_at_each_op, t48_reads_race_with_retention,
                   space_is_freed_under_a_reader, foreign_directory_is_moved_aside);
}
