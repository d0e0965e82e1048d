/* What the tests of this room share: a simulated node whose only program is a store with a few logs, a twin of each
 * log as an array of batches, and questions asked from outside (append, sync, read, restart, crash). Everything the
 * twin knows lives outside the node's heap. */
#pragma once

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/be.h"
#include "base/crc.h"
#include "base/log.h"
#include "base/mark.h"
#include "base/mem.h"
#include "port_sim/world.h"
#include "store/plog.h"
#include "store/store.h"
#include "store_in.h"
#include "wire/record.h"

#ifndef RIG_LOGS_MAX
#define RIG_LOGS_MAX 16
#endif

struct rig_batch {
    off64 base, end;
    uint8_t *p;
    size_t n;
};

struct rig_log {
    char topic[64];
    uuid topic_id;
    int32_t partition;
    struct plog *lg;               /* NULL while the node is down */
    struct plog_recovery rec;      /* of the last start */
    err rec_err;
    struct rig_batch *v;           /* what was queued and not taken back */
    size_t n, cap;
    off64 start, start_asked;      /* log start as it was told; the highest that it may have been moved to */
    off64 acked;                   /* highest stable end that the store told */
    off64 seen;                    /* highest bound */
    int failed;                    /* hooks->failed calls */
    err failed_why;
    off64 failed_from;
    uint32_t producers; /* headers replayed or appended: the "producer state" is their count and the last offset */
    off64 producers_upto;
    bool deleted;
};

struct rig {
    struct world *w;
    struct world_node *n;
    struct prng rng;
    struct store_conf conf;
    struct log_conf log_conf;
    struct rig_log logs[RIG_LOGS_MAX];
    uint32_t logs_n;
    int32_t epoch;
    bool raise_epoch;              /* as the broker does after a crash that left bytes above the mark */
    bool with_producers;           /* the snapshot hook writes a file */
    bool manual;                   /* the turn does not run the pass by itself */
    /* of the run */
    struct port *port;
    struct datadir *dd;
    struct store *st;
    struct chunk_pool *chunks;
    err boot_err;
    char why[256];
    int fatal, moved, errors;      /* errors: error lines that the test expects or counts */
    char last_error[300];
    bool stopped;
    err stop_err;
    bool unclean;
};

static inline bool rig_expected(void *u, struct world_node *n, const char *event, const char *text) {
    struct rig *r = u;
    (void)n;
    r->errors++;
    (void)snprintf(r->last_error, sizeof r->last_error, "%s %s", event, text);
    return true;
}

/* TRACE=1 in the environment shows what happens. */
static inline void rig_line(void *u, const char *line) {
    (void)u;
    (void)fprintf(stderr, "%s\n", line);
}

static inline void rig_init(struct rig *r, uint64_t seed) {
    *r = (struct rig){.epoch = 0, .with_producers = true};
    r->w = world_new(seed);
    r->n = world_node_new(r->w, "n");
    prng_seed(&r->rng, seed);
    r->conf = (struct store_conf){.sync_age_max = 100,
                                  .unsynced_bytes_max = 64 << 20,
                                  .tail_bytes_max = 1 << 20,
                                  .checkpoint_bytes = 64 << 20,
                                  .checkpoint_age = 1000,
                                  .heavy_bytes = 4 << 20,
                                  .files_max = 100};
    r->log_conf = (struct log_conf){.segment_bytes = 1 << 30,
                                    .segment_age = 7LL * 86400 * 1000,
                                    .index_interval_bytes = 4096,
                                    .index_bytes_max = 10 << 20};
    world_on_error_line(r->w, rig_expected, r);
    if (getenv("TRACE")) {
        world_trace(r->w, rig_line, NULL);
    }
}

static inline struct rig_log *rig_log(struct rig *r, const char *topic, int32_t partition) {
    struct rig_log *l = &r->logs[r->logs_n++];
    (void)snprintf(l->topic, sizeof l->topic, "%s", topic);
    for (size_t i = 0; i < 16; i++) {
        l->topic_id.b[i] = (uint8_t)(i + 17 * r->logs_n);
    }
    l->partition = partition;
    return l;
}

static inline void rig_cut(struct rig_log *l, off64 from) {
    while (l->n > 0 && l->v[l->n - 1].end > from) {
        free(l->v[--l->n].p);
    }
}

/* EXPORT=dir in the environment: the node's partition directories as real files, for a look with foreign tools. */
static inline void rig_export_dir(struct disk *d, const char *to, const char *dir) {
    struct disk_req ls = {.op = DISK_LIST, .path = dir};
    char path[1024];
    (void)snprintf(path, sizeof path, "%s/%s", to, dir);
    (void)mkdir(path, 0755);
    ck_assert_int_eq(disk_call(d, &ls), ERR_OK);
    for (size_t i = 0; i < ls.entries_n; i++) {
        char from[512];
        void *buf;
        size_t n;
        (void)snprintf(from, sizeof from, "%s/%s", dir, ls.entries[i].name);
        (void)snprintf(path, sizeof path, "%s/%s", to, from);
        ck_assert_int_eq(disk_read_all(d, from, 1 << 30, &buf, &n), ERR_OK);
        FILE *f = fopen(path, "wb");
        ck_assert(f && fwrite(buf, 1, n, f) == n && fclose(f) == 0);
        mem_free(buf);
    }
    disk_entries_free(ls.entries, ls.entries_n);
}

static inline void rig_export(struct rig *r, const char *to) {
    for (uint32_t i = 0; i < r->logs_n; i++) {
        char dir[80];
        (void)snprintf(dir, sizeof dir, "%s-%d", r->logs[i].topic, r->logs[i].partition);
        rig_export_dir(world_node_disk(r->n), to, dir);
    }
}

static inline void rig_done(struct rig *r) {
    if (getenv("EXPORT")) {
        rig_export(r, getenv("EXPORT"));
    }
    world_free(r->w);
    for (uint32_t i = 0; i < r->logs_n; i++) {
        rig_cut(&r->logs[i], -1);
        free(r->logs[i].v);
    }
}

static inline off64 rig_end(const struct rig_log *l) {
    return l->n > 0 ? l->v[l->n - 1].end : 0;
}

/* ---- the broker's side ---- */

static inline void rig_moved(void *u, struct plog *lg) {
    struct rig *r = u;
    struct rig_log *l = plog_user(lg);
    struct plog_ends e;
    plog_ends(lg, &e);
    r->moved++;
    ck_assert(e.stable >= l->acked || l->deleted);
    ck_assert(e.start >= l->start && e.start <= l->start_asked);
    l->start = e.start;
    l->acked = e.stable;
    l->seen = e.bound > l->seen ? e.bound : l->seen;
}

static inline void rig_failed(void *u, struct plog *lg, off64 from, err why) {
    struct rig_log *l = plog_user(lg);
    struct plog_ends e;
    (void)u;
    plog_ends(lg, &e);
    ck_assert_int_eq(e.next, from);
    ck_assert(from >= l->seen);
    l->failed++;
    l->failed_why = why;
    l->failed_from = from;
    if (why == ERR_IO) {
        return;                    /* what failed may be there or not after the next start */
    }
    rig_cut(l, from);
    if (l->producers_upto > from) {
        l->producers_upto = from;
    }
}

/* "Producer state": Kafka's snapshot frame around one number, the offset up to which batches were seen. */
static inline err rig_snapshot(void *u, struct plog *lg, struct str *ret) {
    struct rig *r = u;
    struct rig_log *l = plog_user(lg);
    uint8_t b[18] = {0};
    if (!r->with_producers) {
        return ERR_OK;
    }
    ck_assert_int_eq(l->producers_upto, rig_end(l));
    be16_put(b, 1);
    be64_put(b + 10, (uint64_t)l->producers_upto);
    be32_put(b + 2, crc32c(b + 6, sizeof b - 6));
    str_add(ret, span_of(b, sizeof b));
    return ERR_OK;
}

static inline err rig_snapshot_load(void *u, struct plog *lg, span file, off64 at) {
    struct rig_log *l = plog_user(lg);
    (void)u;
    if (file.n != 18 || (off64)be64_get(file.p + 10) != at) {
        return ERR_DAMAGED;
    }
    l->producers_upto = at;
    return ERR_OK;
}

static inline void rig_replay(void *u, struct plog *lg, const struct batch_head *h) {
    struct rig_log *l = plog_user(lg);
    (void)u;
    ck_assert_msg(h->base_offset == l->producers_upto || l->producers_upto == 0, "replay of %lld after %lld",
                  (long long)h->base_offset, (long long)l->producers_upto);
    l->producers_upto = batch_last_offset(h) + 1;
}

static inline void rig_fatal(void *u, const char *why) {
    struct rig *r = u;
    (void)why;
    r->fatal++;
    world_node_crash(r->n, true);  /* the process exits with 74; pessimist: and the machine loses power */
}

static inline void rig_pass(struct rig *r) {
    store_pass(r->st, clock_now(r->port->clock));
    r->port->wake_at(r->port, store_due(r->st));
}

static inline void rig_turn(void *u) {
    struct rig *r = u;
    if (r->st && !r->manual) {
        rig_pass(r);
    }
}

static inline err rig_open_log(struct rig *r, struct rig_log *l) {
    struct plog_id id = {.topic = l->topic, .topic_id = l->topic_id, .partition = l->partition};
    l->producers_upto = 0;
    err e = plog_open(r->st, &id, &r->log_conf, l, &l->lg);
    if (e == ERR_OK && (l - r->logs) % 2 == 0) {       /* a hint: with it and without it, everything is the same */
        plog_ahead(l->lg);
    }
    if (e == ERR_OK) {
        l->rec_err = plog_recover(l->lg, &l->rec);
        if (l->rec_err == ERR_OK) {
            struct plog_ends ends;
            plog_ends(l->lg, &ends);
            rig_cut(l, ends.next);
            r->epoch += l->rec.above_mark && r->raise_epoch;
        }
    }
    return e;
}

static inline err rig_boot_steps(struct rig *r) {
    const struct store_hooks hooks = {.u = r, .moved = rig_moved, .failed = rig_failed, .snapshot = rig_snapshot,
                                      .snapshot_load = rig_snapshot_load, .replay = rig_replay, .fatal = rig_fatal};
    uuid fresh = {.b = {1, 2, 3}};
    err e = datadir_open(r->port->disk, 1, fresh, &r->dd, WHY_IN(r->why));
    if (e != ERR_OK) {
        return e;
    }
    r->unclean = !datadir_is_clean(r->dd);
    e = datadir_settle(r->dd);
    e = e == ERR_OK ? datadir_sweep(r->dd) : e;
    e = e == ERR_OK ? store_new(&r->st, r->port, r->dd, &r->conf, &hooks) : e;
    for (uint32_t i = 0; i < r->logs_n && e == ERR_OK; i++) {
        if (!r->logs[i].deleted) {
            e = rig_open_log(r, &r->logs[i]);
        }
    }
    return e == ERR_OK ? store_begin(r->st) : e;
}

static inline void rig_boot(void *u, struct port **ports, uint32_t shards) {
    struct rig *r = u;
    (void)shards;
    r->port = ports[0];
    r->st = NULL;
    r->dd = NULL;
    r->stopped = false;
    r->chunks = chunk_pool_new(1 << 20);
    r->boot_err = rig_boot_steps(r);
    r->port->on_turn(r->port, rig_turn, r);
}

/* OK, CANCELLED when the node crashed in boot, or what boot said. */
static inline err rig_start(struct rig *r) {
    err e = world_node_start(r->n, 1, rig_boot, r);
    return e == ERR_OK ? r->boot_err : e;
}

/* ---- asking from outside ---- */

struct rig_ask {
    struct rig *r;
    struct rig_log *l;
    /* append */
    size_t records, value;
    ms ts, ts_step;
    enum batch_codec codec;
    bool lend, want, done;
    err err;
    /* read, find */
    off64 from, below;
    struct plog_cold cold;
    struct plog_got got;
    struct plog_find find;
    size_t max;
    uint8_t *bytes;
    size_t bytes_n;
    off64 next;
    bool hot;
};

static inline bool rig_build_once(struct arena *a, const struct rig_ask *q, off64 base, span *ret) {
    struct record_build b;
    uint8_t *value = arena_zalloc(a, q->value + 8);
    if (!value) {
        return false;
    }
    record_build_init(&b, a, q->codec);
    b.producer_id = -1;
    for (size_t i = 0; i < q->records; i++) {
        be64_put(value, (uint64_t)base + i);
        record_build_add(&b, q->ts + (ms)i * q->ts_step, SPAN_LIT("k"), span_of(value, q->value < 8 ? 8 : q->value), NULL, 0);
    }
    return record_build_finish(&b, ret) == ERR_OK;
}

/* A batch of `records` records with values of `value` bytes, which say their offset; in an arena. An allocation that a test lets fail is tried again. */
static inline span rig_build(struct arena *a, const struct rig_ask *q, off64 base) {
    span batch;
    ck_assert(rig_build_once(a, q, base, &batch) || rig_build_once(a, q, base, &batch));
    return batch;
}

static inline void rig_twin_add(struct rig_log *l, span bytes, off64 end) {
    if (l->n == l->cap) {
        l->cap = l->cap ? l->cap * 2 : 64;
        l->v = realloc(l->v, l->cap * sizeof *l->v);
    }
    struct rig_batch *b = &l->v[l->n++];
    *b = (struct rig_batch){.base = (off64)be64_get(bytes.p), .end = end, .p = malloc(bytes.n), .n = bytes.n};
    memcpy(b->p, bytes.p, bytes.n);
}

static inline void rig_append_now(void *u) {
    struct rig_ask *q = u;
    struct rig *r = q->r;
    struct plog *lg = q->l->lg;
    struct plog_ends e;
    struct arena a;
    struct batch_head h;
    arena_init(&a, NULL, 256 << 20);
    plog_ends(lg, &e);
    span batch = rig_build(&a, q, e.next);
    q->err = plog_reserve(lg, batch.n);
    if (q->err == ERR_OK) {
        size_t n = q->lend ? batch.n : batch.n * 4 + (64 << 10);
        struct chunk *ck = chunk_new(r->chunks, n);
        ck = ck ? ck : chunk_new(r->chunks, n);
        memcpy(ck->data, batch.p, batch.n);
        batch_stamp(ck->data, e.next, r->epoch);
        ck_assert_int_eq(batch_head_get(span_of(ck->data, batch.n), &h), ERR_OK);
        rig_twin_add(q->l, span_of(ck->data, batch.n), batch_last_offset(&h) + 1);
        plog_epoch(lg, r->epoch);
        plog_append(lg, ck, span_of(ck->data, batch.n), &h, clock_now(r->port->clock));
        q->l->producers_upto = rig_end(q->l);
        if (q->want) {
            plog_sync_wanted(lg);
        }
        chunk_unref(ck);
    }
    arena_done(&a);
}

/* Append one batch and, if asked, want it synced; the world does not step. */
static inline err rig_append(struct rig *r, struct rig_log *l, size_t records, size_t value, bool want) {
    struct rig_ask q = {.r = r,
                        .l = l,
                        .records = records,
                        .value = value,
                        .ts = 1000 + rig_end(l) * 10,
                        .ts_step = 1,
                        .want = want,
                        .lend = prng_chance(&r->rng, 1, 2)};
    return world_node_call(r->n, 0, rig_append_now, &q) ? q.err : ERR_CANCELLED;
}

static inline bool rig_is_stable(void *u) {
    struct rig *r = u;
    if (!world_node_is_up(r->n)) {
        return true;
    }
    for (uint32_t i = 0; i < r->logs_n; i++) {
        struct plog_ends e;
        if (r->logs[i].deleted || !r->logs[i].lg || plog_is_fenced(r->logs[i].lg)) {
            continue;
        }
        plog_ends(r->logs[i].lg, &e);
        if (e.stable != e.next) {
            return false;
        }
    }
    return true;
}

/* Until everything is stable (or the node is down). */
static inline void rig_settle(struct rig *r) {
    ck_assert(world_run(r->w, rig_is_stable, r, 20000));
}

static inline void rig_run(struct rig *r, ms how_long) {
    (void)world_run(r->w, NULL, NULL, how_long);
}

static inline void rig_take(struct rig_ask *q, struct plog_got *g) {
    q->bytes = malloc(g->bytes + 1);
    for (uint32_t i = 0; i < g->n; i++) {
        memcpy(q->bytes + q->bytes_n, g->v[i].bytes.p, g->v[i].bytes.n);
        q->bytes_n += g->v[i].bytes.n;
    }
    q->next = g->next;
    plog_got_done(g);
    q->done = true;
}

static inline void rig_read_done(struct plog_cold *c) {
    struct rig_ask *q = c->u;
    q->err = c->err;
    rig_take(q, &c->got);
}

static inline void rig_read_now(void *u) {
    struct rig_ask *q = u;
    struct plog_want want = {.from = q->from, .below = q->below, .bytes_max = q->max, .min_one = true};
    plog_got_init(&q->got);
    q->err = plog_read(q->l->lg, &want, &q->got);
    q->hot = q->err != ERR_COLD;
    if (q->err == ERR_COLD) {
        q->cold.want = want;
        q->cold.done = rig_read_done;
        q->cold.u = q;
        plog_cold_read(q->l->lg, &q->cold);
    } else {
        rig_take(q, &q->got);
    }
}

static inline bool rig_ask_done(void *u) {
    struct rig_ask *q = u;
    return q->done || !world_node_is_up(q->r->n);
}

/* Read once; q->bytes is the caller's to free. CANCELLED when the node went down. */
static inline err rig_read(struct rig *r, struct rig_ask *q) {
    q->r = r;
    if (!world_node_is_up(r->n)) {
        return ERR_CANCELLED;
    }
    (void)world_node_call(r->n, 0, rig_read_now, q);
    ck_assert(q->done || world_run(r->w, rig_ask_done, q, 10000));
    return q->done ? q->err : ERR_CANCELLED;
}

/* The bytes of what is readable equal the twin's, from `from` to `below` (which must be batch boundaries of the
 * twin). */
static inline void rig_check(struct rig *r, struct rig_log *l, off64 from, off64 below) {
    size_t i = 0;
    while (i < l->n && l->v[i].end <= from) {
        i++;
    }
    while (from < below) {
        struct rig_ask q = {.l = l, .from = from, .below = below, .max = 1 + (size_t)prng_below(&r->rng, 100000)};
        if (rig_read(r, &q) == ERR_CANCELLED) {
            return;
        }
        ck_assert_msg(q.err == ERR_OK, "seed %llu: %s-%d at %lld: %s; %s", (unsigned long long)world_seed(r->w),
                      l->topic, l->partition, (long long)from, err_name(q.err), r->last_error);
        ck_assert_msg(q.bytes_n > 0, "%s-%d at %lld below %lld: nothing", l->topic, l->partition, (long long)from,
                      (long long)below);
        for (size_t at = 0; at < q.bytes_n; i++) {
            ck_assert(i < l->n && at + l->v[i].n <= q.bytes_n);
            ck_assert_mem_eq(q.bytes + at, l->v[i].p, l->v[i].n);
            at += l->v[i].n;
            from = l->v[i].end;
        }
        ck_assert_int_eq(q.next, from);
        free(q.bytes);
    }
}

static inline void rig_find_done(struct plog_find *f) {
    ((struct rig_ask *)f->u)->done = true;
}

static inline void rig_find_now(void *u) {
    struct rig_ask *q = u;
    q->find = (struct plog_find){.ts = q->ts, .below = q->below, .done = rig_find_done, .u = q};
    plog_find_time(q->l->lg, &q->find);
}

/* Offset by time, or -1; *ret_ts its timestamp. */
static inline off64 rig_find(struct rig *r, struct rig_log *l, ms ts, off64 below, ms *ret_ts) {
    struct rig_ask q = {.r = r, .l = l, .ts = ts, .below = below};
    ck_assert(world_node_call(r->n, 0, rig_find_now, &q));
    ck_assert(q.done || world_run(r->w, rig_ask_done, &q, 10000));
    ck_assert_int_eq(q.find.err, ERR_OK);
    *ret_ts = q.find.found ? q.find.found_ts : -1;
    return q.find.found ? q.find.offset : -1;
}

/* ---- the beginning goes ---- */

struct rig_cut {
    struct rig *r;
    struct rig_log *l;
    struct plog_move move;
    struct plog_retain retain;
    bool done;
};

static inline void rig_move_done(struct plog_move *mv) {
    struct rig_cut *q = mv->u;
    struct plog_ends e;
    q->done = true;
    if (mv->err == ERR_OK) {
        plog_ends(q->l->lg, &e);
        ck_assert(e.start >= mv->to);
        q->l->start = e.start;
    }
}

static inline void rig_move_now(void *u) {
    struct rig_cut *q = u;
    q->move.done = rig_move_done;
    q->move.u = q;
    q->l->start_asked = q->move.to > q->l->start_asked ? q->move.to : q->l->start_asked;
    plog_move_start(q->l->lg, &q->move);
}

static inline bool rig_cut_done(void *u) {
    struct rig_cut *q = u;
    return q->done || !world_node_is_up(q->r->n);
}

/* DeleteRecords up to `to`; CANCELLED when the node went down. */
static inline err rig_move(struct rig *r, struct rig_log *l, off64 to) {
    struct rig_cut q = {.r = r, .l = l, .move = {.to = to}};
    if (!world_node_call(r->n, 0, rig_move_now, &q)) {
        return ERR_CANCELLED;
    }
    ck_assert(q.done || world_run(r->w, rig_cut_done, &q, 10000));
    return q.done ? q.move.err : ERR_CANCELLED;
}

static inline void rig_retain_done(struct plog_retain *q) {
    struct rig_cut *c = q->u;
    c->done = true;
    c->l->start_asked = q->to > c->l->start_asked ? q->to : c->l->start_asked;
}

static inline void rig_retain_now(void *u) {
    struct rig_cut *q = u;
    struct plog_ends e;
    plog_ends(q->l->lg, &e);
    q->retain.done = rig_retain_done;
    q->retain.u = q;
    q->retain.wall = q->retain.wall ? q->retain.wall : clock_wall(q->r->port->clock);
    q->retain.below = e.bound < q->retain.below ? e.bound : q->retain.below;
    plog_retain(q->l->lg, &q->retain);
}

/* One look of retention; wall 0: the node's clock. Returns where the log start is to go, -1 when the node went down. */
static inline off64 rig_retain(struct rig *r, struct rig_log *l, struct plog_retain rule) {
    struct rig_cut q = {.r = r, .l = l, .retain = rule};
    q.retain.below = rule.below ? rule.below : INT64_MAX;
    if (!world_node_call(r->n, 0, rig_retain_now, &q)) {
        return -1;
    }
    ck_assert(q.done || world_run(r->w, rig_cut_done, &q, 10000));
    return q.done ? q.retain.to : -1;
}

static inline off64 rig_start_of(struct rig_log *l) {
    struct plog_ends e;
    plog_ends(l->lg, &e);
    return e.start;
}

/* Files of the log's directory whose names end so. */
static inline uint32_t rig_files(struct rig *r, const struct rig_log *l, const char *suffix, int64_t *ret_bytes) {
    char dir[80];
    struct disk_req ls = {.op = DISK_LIST, .path = dir};
    uint32_t n = 0;
    int64_t bytes = 0;
    (void)snprintf(dir, sizeof dir, "%s-%d", l->topic, l->partition);
    ck_assert_int_eq(disk_call(world_node_disk(r->n), &ls), ERR_OK);
    for (size_t i = 0; i < ls.entries_n; i++) {
        if (names_ends_with(ls.entries[i].name, suffix)) {
            n++;
            bytes += ls.entries[i].size;
        }
    }
    disk_entries_free(ls.entries, ls.entries_n);
    if (ret_bytes) {
        *ret_bytes = bytes;
    }
    return n;
}

/* ---- ends ---- */

static inline void rig_forget_handles(struct rig *r) {
    for (uint32_t i = 0; i < r->logs_n; i++) {
        r->logs[i].lg = NULL;
    }
    r->st = NULL;
}

static inline void rig_crash(struct rig *r, bool power) {
    if (world_node_is_up(r->n)) {
        world_node_crash(r->n, power);
    }
    rig_forget_handles(r);
}

static inline void rig_stopped(void *u, err e) {
    struct rig *r = u;
    r->stopped = true;
    r->stop_err = e;
}

static inline void rig_stop_now(void *u) {
    struct rig *r = u;
    store_stop(r->st, rig_stopped, r);
}

static inline bool rig_has_stopped(void *u) {
    struct rig *r = u;
    return r->stopped || !world_node_is_up(r->n);
}

static inline void rig_end_now(void *u) {
    struct rig *r = u;
    store_free(r->st);
    datadir_free(r->dd);
    chunk_pool_free(r->chunks);
    r->st = NULL;
    r->dd = NULL;
    r->chunks = NULL;
    r->port->stop(r->port);
}

static inline bool rig_is_down(void *u) {
    return !world_node_is_up(((struct rig *)u)->n);
}

/* A clean stop; the world checks that nothing is left behind. False when the node crashed meanwhile. */
static inline bool rig_stop(struct rig *r) {
    if (!world_node_call(r->n, 0, rig_stop_now, r) || !world_run(r->w, rig_has_stopped, r, 60000) || !r->stopped) {
        rig_forget_handles(r);
        return false;
    }
    bool up = world_node_call(r->n, 0, rig_end_now, r);
    (void)up;
    ck_assert(world_run(r->w, rig_is_down, r, 1000));
    rig_forget_handles(r);
    return true;
}

/* After a start: every log holds what was acknowledged, nothing else than what was appended, and the twin is cut to
 * it. */
static inline void rig_check_recovered(struct rig *r) {
    for (uint32_t i = 0; i < r->logs_n; i++) {
        struct rig_log *l = &r->logs[i];
        struct plog_ends e;
        if (l->deleted || !world_node_is_up(r->n)) {
            continue;
        }
        ck_assert_msg(l->rec_err == ERR_OK, "seed %llu: %s-%d: %s; %s", (unsigned long long)world_seed(r->w), l->topic,
                      l->partition, err_name(l->rec_err), r->last_error);
        plog_ends(l->lg, &e);
        ck_assert_msg(e.next >= l->acked, "seed %llu: %s-%d ends at %lld, %lld was acknowledged", (unsigned long long)world_seed(r->w), l->topic, l->partition,
                      (long long)e.next, (long long)l->acked);
        ck_assert_int_eq(e.next, e.stable);
        ck_assert_msg(e.start >= l->start && e.start <= l->start_asked, "%s-%d starts at %lld, it was at %lld", l->topic, l->partition,
                      (long long)e.start, (long long)l->start);        /* S18.1 */
        l->start = e.start;
        if (r->with_producers) {
            ck_assert_int_eq(l->producers_upto, e.next);
        }
        ck_assert_int_eq(rig_end(l), e.next);
        l->acked = l->seen = e.next;
        rig_check(r, l, e.start, e.next);
    }
}

/* The end of every test program. */
#define RIG_RUN(name, ...) rig_main(name, (const TTest *const[]){__VA_ARGS__, NULL})
static inline int rig_main(const char *name, const TTest *const *tests) {
    Suite *s = suite_create(name);
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 110);
    const char *only = getenv("ONLY");             /* one test by name */
    for (; *tests; tests++) {
        if (!only || strcmp((*tests)->name, only) == 0) {
            tcase_add_test(tc, *tests);
        }
    }
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
