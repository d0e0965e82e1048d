/* Goal: a power cut or kill at any disk operation loses nothing that was acknowledged, also when it comes again
 * during recovery (T2, T3, T4). Method: a script of appends over three logs, with rolls, checkpoints and a clean
 * restart, is run once to count its disk operations, then once for each of them with a crash right there. What an
 * unsynced write, file or name leaves behind is drawn from the seed; each run draws anew. */
#include "rig.h"

static void small(struct rig *r) {
    r->log_conf.segment_bytes = 40000;
    r->log_conf.index_interval_bytes = 1000;
    r->conf.heavy_bytes = 15000;
    r->conf.checkpoint_age = 150;
    r->conf.checkpoint_bytes = 20000;
    r->conf.tail_bytes_max = 10000;
    r->conf.files_max = 3;
    r->raise_epoch = true;
}

static bool up(const struct rig *r) {
    return world_node_is_up(r->n);
}

/* 8 rounds; the node may go down at any place. */
static void script(struct rig *r) {
    for (int round = 0; round < 8 && up(r); round++) {
        for (int i = 0; i < 6 && up(r); i++) {
            struct rig_log *l = &r->logs[(round + i) % 3];
            size_t value = i == 5 ? 17000 : 300;
            (void)rig_append(r, l, 2, value, i % 2 == 0);      /* CANCELLED: the crash */
            if (up(r) && i % 3 == 1) {
                rig_run(r, 1);
            }
        }
        if (up(r)) {
            rig_run(r, round % 2 ? 40 : 300);
        }
        if (round == 4 && up(r) && rig_stop(r) && rig_start(r) == ERR_OK) {
            rig_check_recovered(r);
        }
    }
}

static void begin(struct rig *r, uint64_t seed) {
    rig_init(r, seed);
    small(r);
    for (int i = 0; i < 3; i++) {
        rig_log(r, "crash", i);
    }
}

static uint64_t count_ops(void) {
    struct rig r;
    begin(&r, 1);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    script(&r);
    uint64_t ops = world_node_disk_ops(r.n);
    rig_done(&r);
    return ops;
}

static void crash_at(struct rig *r, uint64_t seed, uint64_t k, bool power) {
    begin(r, seed);
    world_node_crash_at(r->n, k, power);
    if (rig_start(r) == ERR_OK) {
        script(r);
    }
    rig_crash(r, power);           /* when the script needed fewer operations */
    world_node_crash_at(r->n, 0, power);
}

/* A recovered node takes appends again and stops cleanly. */
static void goes_on(struct rig *r) {
    for (uint32_t i = 0; i < r->logs_n; i++) {
        ck_assert_int_eq(rig_append(r, &r->logs[i], 1, 500, true), ERR_OK);
    }
    rig_settle(r);
    ck_assert(rig_stop(r));
    ck_assert_int_eq(rig_start(r), ERR_OK);
    ck_assert(!r->unclean);
    rig_check_recovered(r);
}

static void each_op(bool power) {
    uint64_t ops = count_ops();
    ck_assert(ops > 300);
    for (uint64_t k = 1; k <= ops; k++) {
        struct rig r;
        crash_at(&r, k, k, power);
        ck_assert_msg(rig_start(&r) == ERR_OK, "op %llu: %s", (unsigned long long)k, r.why);
        rig_check_recovered(&r);
        goes_on(&r);
        ck_assert_msg(r.errors == 0, "op %llu: %s", (unsigned long long)k, r.last_error);
        rig_done(&r);
    }
}

START_TEST(t2_t3_power_cut_at_each_op) {
    each_op(true);
    ck_assert(mark_count("recover.torn") > 0);
}
END_TEST

START_TEST(t2_kill_at_each_op) {
    each_op(false);
}
END_TEST

/* T4: the image of one crash, recovered with a second crash at each operation of the recovery, then recovered for
 * good. */
START_TEST(t4_crash_in_recovery) {
    uint64_t ops = count_ops();
    for (uint64_t k = 20; k <= ops; k += 1 + ops / 25) {
        for (uint64_t j = 1;; j++) {
            struct rig r;
            crash_at(&r, k, k, true);
            world_node_crash_at(r.n, j, j % 2 == 0);
            err e = rig_start(&r);
            bool over = e == ERR_OK;
            ck_assert_msg(over || e == ERR_CANCELLED, "op %llu, recovery op %llu: %s %s", (unsigned long long)k,
                          (unsigned long long)j, err_name(e), r.why);
            world_node_crash_at(r.n, 0, true);
            rig_crash(&r, true);
            ck_assert_int_eq(rig_start(&r), ERR_OK);
            rig_check_recovered(&r);
            ck_assert_msg(r.errors == 0, "op %llu, recovery op %llu: %s", (unsigned long long)k, (unsigned long long)j,
                          r.last_error);
            rig_done(&r);
            if (over) {
                break;
            }
        }
    }
}
END_TEST

int main(void) {
    return RIG_RUN("crash", t2_t3_power_cut_at_each_op, t2_kill_at_each_op, t4_crash_in_recovery);
}
