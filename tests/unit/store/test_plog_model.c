/* Goal: whatever is done to logs, they equal an array of batches (plog model test). Method: random appends, syncs,
 * hot and cold reads, rolls, clean restarts, kill -9 and power cuts, drawn from a seed; after each restart
 * everything acknowledged is there, nothing else, byte for byte (I1, I2, I4, I16). */
#include "rig.h"

static void shrink(struct rig *r) {
    struct prng *g = &r->rng;
    r->log_conf.segment_bytes = (int64_t)prng_below(g, 300000) + 130000;
    r->log_conf.index_interval_bytes = (int32_t)prng_below(g, 4096) + 1;
    r->log_conf.index_bytes_max = prng_chance(g, 1, 3) ? 200 : 1 << 20;
    r->log_conf.write_caching = prng_chance(g, 1, 4);
    r->conf.tail_bytes_max = prng_chance(g, 1, 2) ? 20000 : 1 << 20;
    r->conf.files_max = (uint32_t)prng_below(g, 6) + 1;
    r->conf.heavy_bytes = (int64_t)prng_below(g, 100000) + 1000;
    r->conf.checkpoint_age = (ms)prng_below(g, 300) + 1;
    r->conf.checkpoint_bytes = (int64_t)prng_below(g, 300000) + 1;
    r->conf.unsynced_bytes_max = (int64_t)prng_below(g, 300000) + 1000;
    r->raise_epoch = prng_chance(g, 1, 2);
}

static void some_append(struct rig *r, struct rig_log *l) {
    size_t n = (size_t)prng_below(&r->rng, 5) + 1;
    for (size_t i = 0; i < n; i++) {
        size_t value = prng_chance(&r->rng, 1, 6) ? 30000 : (size_t)prng_below(&r->rng, 600);
        ck_assert_int_eq(rig_append(r, l, (size_t)prng_below(&r->rng, 4) + 1, value, prng_chance(&r->rng, 1, 2)),
                         ERR_OK);
    }
}

static void some_read(struct rig *r, struct rig_log *l) {
    struct plog_ends e;
    if (l->n == 0) {
        return;
    }
    plog_ends(l->lg, &e);
    off64 from = (off64)prng_below(&r->rng, (uint64_t)rig_end(l));
    if (from < e.bound) {
        off64 to = from + 200 < e.bound ? from + 200 : e.bound;
        for (size_t i = 0; i < l->n; i++) {
            to = l->v[i].base < to && l->v[i].end > to ? l->v[i].end : to;     /* a batch boundary */
        }
        rig_check(r, l, from, to < e.bound ? to : e.bound);
    }
}

static void restart(struct rig *r) {
    uint64_t how = prng_below(&r->rng, 4);
    if (how == 0) {
        rig_crash(r, false);
    } else if (how == 1) {
        rig_crash(r, true);
    } else {
        ck_assert(rig_stop(r));
    }
    shrink(r);
    ck_assert_int_eq(rig_start(r), ERR_OK);
    ck_assert_int_eq(r->unclean, how < 2);
    rig_check_recovered(r);
}

static void one_run(uint64_t seed, int ops) {
    struct rig r;
    rig_init(&r, seed);
    shrink(&r);
    r.with_producers = prng_chance(&r.rng, 3, 4);
    for (int i = 0; i < 3; i++) {
        rig_log(&r, "model", i);
    }
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    for (int i = 0; i < ops; i++) {
        struct rig_log *l = &r.logs[prng_below(&r.rng, r.logs_n)];
        uint64_t what = prng_below(&r.rng, 100);
        if (what < 50) {
            some_append(&r, l);
        } else if (what < 75) {
            some_read(&r, l);
        } else if (what < 85) {
            rig_settle(&r);
        } else if (what < 97) {
            rig_run(&r, (ms)prng_below(&r.rng, 400));
        } else {
            restart(&r);
        }
    }
    ck_assert_int_eq(r.errors, 0);
    rig_done(&r);
}

START_TEST(model) {
    const char *only = getenv("SEED");
    uint64_t seeds = getenv("SEEDS") ? strtoull(getenv("SEEDS"), NULL, 10) : 60;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        one_run(only ? strtoull(only, NULL, 10) : seed, 150);
        if (only) {
            return;
        }
    }
    ck_assert(mark_count("plog.rolled") > 0 && mark_count("heavy.done") > 0 && mark_count("recover.torn") > 0);
}
END_TEST

int main(void) {
    return RIG_RUN("plog_model", model);
}
