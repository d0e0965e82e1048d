/* Goal: offsets by time are the first record whose own timestamp qualifies, wherever it lies (S8.3, S8.6, S8.7,
 * BR-010, BR-011). Method: known timestamps in known batches, asked hot and cold, with every codec; then random
 * timestamps against a walk over the twin. */
#include "rig.h"

/* One batch of n records with these timestamps. */
struct stamped {
    struct rig *r;
    struct rig_log *l;
    const ms *ts;
    size_t n;
    enum batch_codec codec;
    bool append_time;
    size_t big;                    /* zeros in the first record's value; 0: the usual value */
    ms max_ts;                     /* what the header says instead of the truth; 0: the truth */
};

static void append_stamped_now(void *u) {
    struct stamped *q = u;
    struct plog_ends e;
    struct arena a;
    struct record_build b;
    struct batch_head h;
    span batch;
    arena_init(&a, NULL, (64 << 20) + 4 * q->big);
    plog_ends(q->l->lg, &e);
    record_build_init(&b, &a, q->codec);
    b.producer_id = -1;
    for (size_t i = 0; i < q->n; i++) {
        span big = span_of(i == 0 && q->big > 0 ? arena_zalloc(&a, q->big) : NULL, q->big);
        record_build_add(&b, q->ts[i], SPAN_NULL, big.p ? big : SPAN_LIT("value value value value"), NULL, 0);
    }
    ck_assert_int_eq(record_build_finish(&b, &batch), ERR_OK);
    ck_assert_int_eq(plog_reserve(q->l->lg, batch.n), ERR_OK);
    struct chunk *ck = chunk_new(q->r->chunks, batch.n);
    memcpy(ck->data, batch.p, batch.n);
    batch_stamp(ck->data, e.next, 0);
    if (q->append_time) {
        batch_stamp_append_time(ck->data, batch.n, q->ts[0]);
    }
    if (q->max_ts > 0) {
        batch_stamp_max_ts(ck->data, batch.n, q->max_ts);
    }
    ck_assert_int_eq(batch_head_get(span_of(ck->data, batch.n), &h), ERR_OK);
    rig_twin_add(q->l, span_of(ck->data, batch.n), batch_last_offset(&h) + 1);
    plog_append(q->l->lg, ck, span_of(ck->data, batch.n), &h, clock_now(q->r->port->clock));
    q->l->producers_upto = rig_end(q->l);
    plog_sync_wanted(q->l->lg);
    chunk_unref(ck);
    arena_done(&a);
}

static void append_stamped(struct rig *r, struct rig_log *l, const ms *ts, size_t n, enum batch_codec codec) {
    struct stamped q = {.r = r, .l = l, .ts = ts, .n = n, .codec = codec};
    ck_assert(world_node_call(r->n, 0, append_stamped_now, &q));
}

static struct rig_log *begin(struct rig *r, bool cold) {
    rig_init(r, 1);
    r->conf.tail_bytes_max = cold ? 0 : 1 << 20;
    struct rig_log *l = rig_log(r, "t", 0);
    ck_assert_int_eq(rig_start(r), ERR_OK);
    return l;
}

static void expect(struct rig *r, struct rig_log *l, ms ts, off64 offset, ms found_ts) {
    ms got;
    off64 at = rig_find(r, l, ts, rig_end(l), &got);
    ck_assert_msg(at == offset && got == found_ts, "ts %lld: %lld at %lld, not %lld at %lld", (long long)ts,
                  (long long)at, (long long)got, (long long)offset, (long long)found_ts);
}

static void expect_2468(struct rig *r, struct rig_log *l) {
    static const struct {
        ms ts;
        off64 offset;
        ms found;
    } v[] = {{0, 0, 2}, {2, 0, 2}, {3, 1, 4}, {4, 1, 4}, {5, 2, 6}, {8, 3, 8}, {9, -1, -1}, {PLOG_MAX_TS, 3, 8}};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        expect(r, l, v[i].ts, v[i].offset, v[i].found);
    }
}

static const ms TS[] = {2, 4, 6, 8};

START_TEST(br010_in_one_batch_and_in_four_all_codecs) {
    for (int cold = 0; cold < 2; cold++) {
        for (int codec = CODEC_NONE; codec <= CODEC_ZSTD; codec++) {
            struct rig r;
            struct rig_log *l = begin(&r, cold);
            append_stamped(&r, l, TS, 4, (enum batch_codec)codec);
            rig_settle(&r);
            expect_2468(&r, l);
            rig_done(&r);
            l = begin(&r, cold);
            for (int i = 0; i < 4; i++) {
                append_stamped(&r, l, TS + i, 1, (enum batch_codec)codec);
            }
            rig_settle(&r);
            expect_2468(&r, l);
            ck_assert(rig_stop(&r));
            ck_assert_int_eq(rig_start(&r), ERR_OK);
            expect_2468(&r, l);    /* after a restart, from the files */
            rig_crash(&r, true);
            ck_assert_int_eq(rig_start(&r), ERR_OK);
            expect_2468(&r, l);
            rig_done(&r);
        }
    }
}
END_TEST

/* Shuffled timestamps: the first by offset, not the smallest that fits. */
START_TEST(br010_shuffled) {
    static const ms ts[] = {6, 2, 8, 4, 8};
    struct rig r;
    struct rig_log *l = begin(&r, true);
    append_stamped(&r, l, ts, 5, CODEC_ZSTD);
    rig_settle(&r);
    expect(&r, l, 1, 0, 6);
    expect(&r, l, 6, 0, 6);
    expect(&r, l, 7, 2, 8);
    expect(&r, l, 8, 2, 8);
    expect(&r, l, 9, -1, -1);
    expect(&r, l, PLOG_MAX_TS, 2, 8);              /* S8.3: the first that carries it */
    rig_done(&r);
}
END_TEST

START_TEST(br011_none_and_empty) {
    struct rig r;
    struct rig_log *l = begin(&r, false);
    ms ts;
    ck_assert_int_eq(rig_find(&r, l, 0, 0, &ts), -1);
    ck_assert_int_eq(rig_find(&r, l, PLOG_MAX_TS, 0, &ts), -1);
    append_stamped(&r, l, TS, 4, CODEC_NONE);
    rig_settle(&r);
    ck_assert_int_eq(rig_find(&r, l, 1000000, 4, &ts), -1);
    rig_done(&r);
}
END_TEST

/* S8.6: results at or beyond the readable end count as none; S8.3 looks only at what may be read. */
START_TEST(s8_6_readable_end) {
    static const ms second[] = {100}, third[] = {50};
    for (int cold = 0; cold < 2; cold++) {
        struct rig r;
        struct rig_log *l = begin(&r, cold);
        ms ts;
        append_stamped(&r, l, TS, 4, CODEC_NONE);
        append_stamped(&r, l, second, 1, CODEC_NONE);
        append_stamped(&r, l, third, 1, CODEC_NONE);
        rig_settle(&r);
        ck_assert_int_eq(rig_find(&r, l, 9, 4, &ts), -1);
        ck_assert_int_eq(rig_find(&r, l, 9, 5, &ts), 4);
        ck_assert_int_eq(rig_find(&r, l, PLOG_MAX_TS, 4, &ts), 3);
        ck_assert_int_eq(ts, 8);
        ck_assert_int_eq(rig_find(&r, l, PLOG_MAX_TS, 6, &ts), 4);
        rig_done(&r);
    }
}
END_TEST

/* S8.3, S4.17: the largest timestamp of what is left when the log starts inside a batch whose front carried it. */
START_TEST(s8_3_start_inside_the_batch) {
    static const ms first[] = {90, 20, 70, 30}, second[] = {40, 60};
    for (int cold = 0; cold < 2; cold++) {
        for (int codec = CODEC_NONE; codec <= CODEC_ZSTD; codec++) {
            struct rig r;
            struct rig_log *l = begin(&r, cold);
            append_stamped(&r, l, first, 4, (enum batch_codec)codec);
            append_stamped(&r, l, second, 2, CODEC_NONE);
            rig_settle(&r);
            expect(&r, l, PLOG_MAX_TS, 0, 90);
            static const struct {
                off64 to, offset;
                ms found;
            } v[] = {{1, 2, 70}, {2, 2, 70}, {3, 5, 60}, {4, 5, 60}, {5, 5, 60}};
            for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
                ck_assert_int_eq(rig_move(&r, l, v[i].to), ERR_OK);
                expect(&r, l, PLOG_MAX_TS, v[i].offset, v[i].found);
            }
            rig_done(&r);
        }
    }
}
END_TEST

/* LogAppendTime: every record has the batch's time. */
START_TEST(s5_12_log_append_time) {
    static const ms ts[] = {77, 5, 6};
    struct rig r;
    struct rig_log *l = begin(&r, true);
    struct stamped q = {.r = &r, .l = l, .ts = ts, .n = 3, .append_time = true};
    ck_assert(world_node_call(r.n, 0, append_stamped_now, &q));
    rig_settle(&r);
    expect(&r, l, 70, 0, 77);
    expect(&r, l, 78, -1, -1);
    expect(&r, l, PLOG_MAX_TS, 0, 77);
    rig_done(&r);
}
END_TEST

static void on_budget(void *u) {
    mem_budget(*(const size_t *)u);
}

/* Bombs of 60 MiB whose headers promise what they do not hold, then a batch of 40 MiB that holds it behind a large
 * record: found, in little memory, and with turns for others in between, although all of it lies in memory packed. */
static void find_behind_bombs(enum batch_codec codec, bool cold) {
    static const ms low[] = {7}, two[] = {8, 1000};
    struct rig r;
    struct rig_log *l = begin(&r, cold);
    struct stamped bomb = {.r = &r, .l = l, .ts = low, .n = 1, .codec = codec, .big = 60 << 20, .max_ts = 1000};
    struct stamped honest = {.r = &r, .l = l, .ts = two, .n = 2, .codec = codec, .big = 40 << 20};
    for (int i = 0; i < 3; i++) {
        ck_assert(world_node_call(r.n, 0, append_stamped_now, &bomb));
    }
    ck_assert(world_node_call(r.n, 0, append_stamped_now, &honest));
    rig_settle(&r);
    struct store_stats before, after;
    store_stats_get(r.st, &before);
    size_t budget = 24 << 20;
    ck_assert(world_node_call(r.n, 0, on_budget, &budget));
    expect(&r, l, 1, 0, 7);
    expect(&r, l, 500, 4, 1000);
    expect(&r, l, 1001, -1, -1);
    store_stats_get(r.st, &after);
    ck_assert_uint_ge(after.cold_reads - before.cold_reads, 1);
    rig_done(&r);
}

START_TEST(t55_bombs_are_looked_through_in_little_memory) {
    for (enum batch_codec codec = CODEC_GZIP; codec <= CODEC_ZSTD; codec++) {
        find_behind_bombs(codec, false);
    }
    find_behind_bombs(CODEC_ZSTD, true);
}
END_TEST

/* What the twin says. */
static off64 twin_find(const struct rig_log *l, ms ts, ms *ret_ts) {
    ms max = -1;
    off64 at = -1;
    for (size_t i = 0; i < l->n; i++) {
        struct arena a;
        struct record_walk w;
        struct record rec;
        arena_init(&a, NULL, 1 << 20);
        ck_assert_int_eq(record_walk_init(&w, span_of(l->v[i].p, l->v[i].n), &a, 1 << 20), ERR_OK);
        while (record_walk_next(&w, &rec)) {
            if (ts == PLOG_MAX_TS ? rec.ts_ms > max : at < 0 && rec.ts_ms >= ts) {
                at = rec.offset;
                max = rec.ts_ms;
            }
        }
        arena_done(&a);
    }
    *ret_ts = at < 0 ? -1 : max;
    return at;
}

START_TEST(s8_6_model) {
    for (uint64_t seed = 1; seed <= 25; seed++) {
        struct rig r;
        rig_init(&r, seed);
        r.conf.tail_bytes_max = seed % 3 ? 0 : 1 << 20;
        r.log_conf.segment_bytes = 3000;
        r.log_conf.index_interval_bytes = 300;
        r.conf.heavy_bytes = 2000;
        r.conf.checkpoint_age = 10;
        struct rig_log *l = rig_log(&r, "t", 0);
        ck_assert_int_eq(rig_start(&r), ERR_OK);
        for (int i = 0; i < 60; i++) {
            ms ts[5];
            for (size_t k = 0; k < 5; k++) {
                ts[k] = 100 + i * 10 + (ms)prng_below(&r.rng, 200);
            }
            append_stamped(&r, l, ts, 1 + (size_t)prng_below(&r.rng, 5), (enum batch_codec)prng_below(&r.rng, 5));
            rig_run(&r, 5);
        }
        rig_settle(&r);
        if (seed % 2) {
            rig_run(&r, 100);
            ck_assert(rig_stop(&r));
            ck_assert_int_eq(rig_start(&r), ERR_OK);
        }
        for (ms ts = 90; ts < 950; ts += 7) {
            ms want_ts;
            off64 want = twin_find(l, ts, &want_ts);
            expect(&r, l, ts, want, want_ts);
        }
        ms want_ts;
        off64 want = twin_find(l, PLOG_MAX_TS, &want_ts);
        expect(&r, l, PLOG_MAX_TS, want, want_ts);
        ck_assert_int_eq(r.errors, 0);
        rig_done(&r);
    }
}
END_TEST

static struct {
    struct rig *r;
    struct rig_log *l;
    ms ts, wall;
    off64 got[10];
    size_t n;
    bool looked;
} old;

static void old_looked(void *u, err e) {
    (void)u;
    ck_assert_int_eq(e, ERR_OK);
    struct plog_old o = {.ts = old.ts, .wall = clock_wall(old.r->port->clock), .end = rig_end(old.l)};
    old.n = plog_old_offsets(old.l->lg, &o, old.got, 10);
    old.looked = true;
}

static void old_now(void *u) {
    (void)u;
    old.wall = clock_wall(old.r->port->clock);
    plog_look(old.l->lg, old_looked, NULL);
}

static bool old_done(void *u) {
    (void)u;
    return old.looked;
}

static void old_ask(ms ts) {
    old.ts = ts;
    old.looked = false;
    ck_assert(world_node_call(old.r->n, 0, old_now, NULL));
    ck_assert(old.looked || world_run(old.r->w, old_done, NULL, 10000));
}

/* As Kafka's brokers did while they served v0: by the time of a segment's last write, older segments, too, when more than one is asked; also those that
 * the last run left and nobody has read since. */
START_TEST(s8_7_old_offsets) {
    for (int restart = 0; restart < 2; restart++) {
        struct rig r;
        ms written[4];
        struct rig_log *l = begin(&r, false);
        old.r = &r;
        old.l = l;
        r.log_conf.segment_bytes = 130;            /* a segment per batch */
        for (ms i = 0; i < 4; i++) {
            ms ts[] = {i * 10, i * 10 + 1};
            append_stamped(&r, l, ts, 2, CODEC_NONE);
            rig_settle(&r);
            old_ask(-2);
            written[i] = old.wall;
            rig_run(&r, 5000);
        }
        if (restart) {
            ck_assert(rig_stop(&r));
            ck_assert_int_eq(rig_start(&r), ERR_OK);
        }
        old_ask(-2);
        ck_assert(old.n == 1 && old.got[0] == 0);
        old_ask(-1);
        ck_assert_uint_eq(old.n, 5);
        for (size_t i = 0; i < 5; i++) {
            ck_assert_int_eq(old.got[i], 8 - 2 * (off64)i);
        }
        old_ask(written[1] + 1000);                /* the second one was written before, the third after */
        ck_assert(old.n == 2 && old.got[0] == 2 && old.got[1] == 0);
        old_ask(written[0] - 3600000);
        ck_assert_uint_eq(old.n, 0);
        old_ask(old.wall + 3600000);
        ck_assert(old.n == 5 && old.got[0] == 8);
        rig_done(&r);
    }
}
END_TEST

int main(void) {
    return RIG_RUN("plog_find", br010_in_one_batch_and_in_four_all_codecs, br010_shuffled, br011_none_and_empty,
                   s8_6_readable_end, s8_3_start_inside_the_batch, s5_12_log_append_time,
                   t55_bombs_are_looked_through_in_little_memory, s8_6_model,
                   s8_7_old_offsets);
}
