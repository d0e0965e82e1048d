/* See depot.h.
 *
 * Failure modes: what no input may bring about ends the program through must().
 * Runs on: the world's thread; what is named _now, as the node's code. */
#include "depot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "frames.h"
#include "marks_file.h"
#include "wire/record.h"

#define WAIT_MS 60000
#define FILE_BYTES_MAX ((size_t)64 << 20)

uuid depot_topic_id(void) { return (uuid){.b = {7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}}; }

static bool depot_error_line(void *u, struct world_node *n, const char *event, const char *text) {
    (void)u, (void)n, (void)event, (void)text;
    return true;                   /* damage is what the inputs are full of */
}

void depot_init(struct depot *d) {
    *d = (struct depot){
        .conf = {.sync_age_max = 20, .unsynced_bytes_max = 64 << 20, .tail_bytes_max = 1 << 20, .checkpoint_bytes = 64 << 20,
                 .checkpoint_age = 1000, .heavy_bytes = 4 << 20, .files_max = 100},
        .log_conf = {.segment_bytes = 1 << 30, .segment_age = 7LL * 86400 * 1000, .index_interval_bytes = 100, .index_bytes_max = 1 << 20},
    };
    d->w = world_new(1);
    d->n = world_node_new(d->w, "n");
    must(d->w != NULL && d->n != NULL);
    world_on_error_line(d->w, depot_error_line, d);
}

void depot_done(struct depot *d) { world_free(d->w); }

/* ---- files ---- */

static void make_dir(struct disk *disk, const char *path) {
    char dir[200];
    const char *slash = strrchr(path, '/');
    if (slash == NULL) {
        return;
    }
    (void)snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
    struct disk_req rq = {.op = DISK_MKDIR, .path = dir};
    err e = disk_call(disk, &rq);
    must(e == ERR_OK || e == ERR_EXISTS);
}

void depot_put(struct depot *d, const char *path, span bytes) {
    struct disk *disk = world_node_disk(d->n);
    make_dir(disk, path);
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes.p, .iov_len = bytes.n};
    struct disk_req rq = {.op = DISK_PUT, .path = path, .flags = DISK_RDWR | DISK_CREATE | DISK_TRUNC, .iov = &iov, .iov_n = bytes.n > 0};
    must(disk_call(disk, &rq) == ERR_OK);
}

bool depot_has(struct depot *d, const char *path) {
    struct disk_req rq = {.op = DISK_STAT, .path = path};
    return disk_call(world_node_disk(d->n), &rq) == ERR_OK;
}

span depot_get(struct depot *d, const char *path) {
    void *buf;
    size_t n;
    return disk_read_all(world_node_disk(d->n), path, FILE_BYTES_MAX, &buf, &n) == ERR_OK ? span_of(buf, n) : SPAN_NULL;
}

void depot_drop(span bytes) { mem_free((void *)(uintptr_t)bytes.p); }

void depot_put_home(struct depot *d) {
    depot_put(d, "perigee.meta/format", span_str("perigee data directory, format 1\n"));
    depot_put(d, "meta.properties", span_str("version=1\ncluster.id=AQIDAAAAAAAAAAAAAAAAAA\nnode.id=1\n"));
}

void depot_put_marks(struct depot *d, const struct datadir_mark *marks, size_t n) {
    uint8_t file[2 * FRAMES_HEAD_BYTES + 8 * MARKS_ENTRY_BYTES];
    must(n <= 8);
    frames_seal(file, &(struct frames_head){.kind = MARKS_OPEN, .generation = 1, .sequence = 1});
    size_t at = frames_size(0);
    for (size_t i = 0; i < n; i++) {
        marks_file_put(file + at + FRAMES_HEAD_BYTES + i * MARKS_ENTRY_BYTES, &marks[i], false);
    }
    struct frames_head moved = {.kind = MARKS_MOVED, .generation = 1, .sequence = 2, .bytes = (uint32_t)(n * MARKS_ENTRY_BYTES)};
    frames_seal(file + at, &moved);
    depot_put(d, DEPOT_MARKS, span_of(file, at + frames_size(moved.bytes)));
}

/* ---- what the store asks of the broker ---- */

static void on_moved(void *u, struct plog *lg) {
    struct depot *d = u;
    struct plog_ends e;
    plog_ends(lg, &e);
    must(e.start <= e.stable && e.stable <= e.written && e.written <= e.next);
    prodwin_stable(d->win, e.stable);
}

static void on_failed(void *u, struct plog *lg, off64 from, err why) {
    (void)u, (void)lg, (void)from;
    must(why == ERR_OK);
}

static err on_snapshot(void *u, struct plog *lg, struct str *ret) {
    struct depot *d = u;
    (void)lg;
    return d->win == NULL ? ERR_OK : prodwin_snapshot(d->win, ret);
}

static err on_snapshot_load(void *u, struct plog *lg, span file, off64 at) {
    struct depot *d = u;
    (void)lg, (void)at;
    return prodwin_load(&d->win, file, 1);
}

static void on_replay(void *u, struct plog *lg, const struct batch_head *h) {
    struct depot *d = u;
    (void)lg;
    if (h->producer_id >= 0 && (h->attributes & BATCH_ATTR_CONTROL) == 0) {
        prodwin_stable(d->win, h->base_offset);
        if (prodwin_reserve(&d->win, h, 1) == ERR_OK) {
            prodwin_note(d->win, h, clock_now(d->port->clock));
        }
    }
}

static void on_fatal(void *u, const char *why) {
    (void)u;
    must(why == NULL);
}

/* ---- life ---- */

static void turn(void *u) {
    struct depot *d = u;
    if (d->st != NULL) {
        store_pass(d->st, clock_now(d->port->clock));
        d->port->wake_at(d->port, store_due(d->st));
    }
}

static err open_log(struct depot *d) {
    struct plog_id id = {.topic = "t", .topic_id = depot_topic_id()};
    err e = plog_open(d->st, &id, &d->log_conf, NULL, &d->lg);
    if (e == ERR_OK) {
        plog_ahead(d->lg);
        d->recovered = plog_recover(d->lg, &d->rec);
    }
    return e;
}

static err boot_steps(struct depot *d) {
    const struct store_hooks hooks = {.u = d, .moved = on_moved, .failed = on_failed, .snapshot = on_snapshot,
                                      .snapshot_load = on_snapshot_load, .replay = on_replay, .fatal = on_fatal};
    err e = datadir_open(d->port->disk, 1, (uuid){.b = {1, 2, 3}}, &d->dd, WHY_IN(d->why));
    if (e != ERR_OK) {
        return e;
    }
    d->unclean = !datadir_is_clean(d->dd);
    e = datadir_settle(d->dd);
    e = e == ERR_OK ? datadir_sweep(d->dd) : e;
    e = e == ERR_OK ? store_new(&d->st, d->port, d->dd, &d->conf, &hooks) : e;
    e = e == ERR_OK ? open_log(d) : e;
    return e == ERR_OK ? store_begin(d->st) : e;
}

static void boot_now(void *u, struct port **ports, uint32_t shards) {
    struct depot *d = u;
    (void)shards;
    d->port = ports[0];
    d->chunks = chunk_pool_new(1 << 20);
    must(d->chunks != NULL);
    d->boot = boot_steps(d);
    d->port->on_turn(d->port, turn, d);
}

static bool is_down(void *u) {
    const struct depot *d = u;
    return !world_node_is_up(d->n);
}

static void end_now(void *u) {
    struct depot *d = u;
    if (d->st != NULL) {
        store_free(d->st);
    }
    datadir_free(d->dd);
    prodwin_free(d->win);
    chunk_pool_free(d->chunks);
    d->st = NULL;
    d->dd = NULL;
    d->win = NULL;
    d->lg = NULL;
    d->port->stop(d->port);
}

static void end(struct depot *d) {
    (void)world_node_call(d->n, 0, end_now, d);
    must(world_run(d->w, is_down, d, WAIT_MS));
}

bool depot_start(struct depot *d) {
    d->dd = NULL;
    d->st = NULL;
    d->lg = NULL;
    d->win = NULL;
    d->recovered = ERR_CANCELLED;
    d->rec = (struct plog_recovery){0};
    d->stopped = false;
    d->why[0] = 0;
    must(world_node_start(d->n, 1, boot_now, d) == ERR_OK);
    if (d->boot != ERR_OK) {
        end(d);
    }
    return d->boot == ERR_OK;
}

void depot_kill(struct depot *d) {
    world_node_crash(d->n, false);
    d->st = NULL;
    d->lg = NULL;
}

static void on_stopped(void *u, err e) {
    struct depot *d = u;
    must(e == ERR_OK);
    d->stopped = true;
}

static void stop_now(void *u) {
    struct depot *d = u;
    store_stop(d->st, on_stopped, d);
}

static bool has_stopped(void *u) { return ((struct depot *)u)->stopped; }

void depot_stop(struct depot *d) {
    must(world_node_call(d->n, 0, stop_now, d));
    must(d->stopped || world_run(d->w, has_stopped, d, WAIT_MS));
    end(d);
}

void depot_run(struct depot *d, ms how_long) { (void)world_run(d->w, NULL, NULL, how_long); }

/* ---- asking ---- */

struct ask {
    struct depot *d;
    span batch;
    int32_t epoch;
    struct plog_want want;
    struct plog_cold cold;
    struct plog_got got;
    struct plog_find find;
    err err;
    bool done;
};

static bool is_done(void *u) { return ((struct ask *)u)->done; }

static void ask(struct ask *q, void (*now)(void *u)) {
    must(world_node_call(q->d->n, 0, now, q));
    must(q->done || world_run(q->d->w, is_done, q, WAIT_MS));
}

static void append_now(void *u) {
    struct ask *q = u;
    struct depot *d = q->d;
    struct plog_ends e;
    struct batch_head h;
    plog_ends(d->lg, &e);
    must(plog_reserve(d->lg, q->batch.n) == ERR_OK);
    struct chunk *ck = chunk_new(d->chunks, q->batch.n);
    must(ck != NULL);
    memcpy(ck->data, q->batch.p, q->batch.n);
    batch_stamp(ck->data, e.next, q->epoch);
    must(batch_head_get(span_of(ck->data, q->batch.n), &h) == ERR_OK);
    if (h.producer_id >= 0) {
        must(prodwin_reserve(&d->win, &h, 1) == ERR_OK);
        prodwin_note(d->win, &h, clock_now(d->port->clock));
    }
    plog_epoch(d->lg, q->epoch);
    plog_append(d->lg, ck, span_of(ck->data, q->batch.n), &h, clock_now(d->port->clock));
    plog_sync_wanted(d->lg);
    chunk_unref(ck);
    q->done = true;
}

static bool is_stable(void *u) {
    struct plog_ends e;
    plog_ends(((struct depot *)u)->lg, &e);
    return e.stable == e.next;
}

void depot_append(struct depot *d, span batch, int32_t epoch) {
    struct ask q = {.d = d, .batch = batch, .epoch = epoch};
    ask(&q, append_now);
    must(world_run(d->w, is_stable, d, WAIT_MS));
}

static void on_cold(struct plog_cold *c) {
    struct ask *q = c->u;
    q->err = c->err;
    q->done = true;
}

static void read_now(void *u) {
    struct ask *q = u;
    plog_got_init(&q->got);
    q->err = plog_read(q->d->lg, &q->want, &q->got);
    if (q->err == ERR_COLD) {
        q->cold = (struct plog_cold){.want = q->want, .done = on_cold, .u = q};
        plog_cold_read(q->d->lg, &q->cold);
    } else {
        q->done = true;
    }
}

err depot_read(struct depot *d, off64 from, off64 below, span *ret_bytes, off64 *ret_next) {
    struct ask q = {.d = d, .want = {.from = from, .below = below, .bytes_max = 1, .min_one = true}};
    ask(&q, read_now);
    struct plog_got *g = q.cold.done != NULL ? &q.cold.got : &q.got;
    uint8_t *p = mem_alloc(MEM_TEST, g->bytes);
    size_t n = 0;
    must(p != NULL);
    for (uint32_t i = 0; i < g->n; i++) {
        memcpy(p + n, g->v[i].bytes.p, g->v[i].bytes.n);
        n += g->v[i].bytes.n;
    }
    *ret_bytes = span_of(p, n);
    *ret_next = g->next;
    plog_got_done(g);
    return q.err;
}

static void on_found(struct plog_find *f) { ((struct ask *)f->u)->done = true; }

static void find_now(void *u) {
    struct ask *q = u;
    q->find.done = on_found;
    q->find.u = q;
    plog_find_time(q->d->lg, &q->find);
}

err depot_find(struct depot *d, ms ts, off64 below, off64 *ret, ms *ret_ts) {
    struct ask q = {.d = d, .find = {.ts = ts, .below = below}};
    ask(&q, find_now);
    *ret = q.find.err == ERR_OK && q.find.found ? q.find.offset : -1;
    *ret_ts = q.find.found_ts;
    return q.find.err;
}

span depot_batch(struct arena *a, const struct depot_batch *b) {
    struct record_build rb;
    span batch = SPAN_NULL;
    uint8_t *value = arena_zalloc(a, b->value + 1);
    must(value != NULL);
    memset(value, 'v', b->value);
    record_build_init(&rb, a, b->codec);
    rb.producer_id = b->producer_id;
    rb.base_sequence = b->producer_id >= 0 ? b->sequence : -1;
    for (int i = 0; i < b->records; i++) {
        record_build_add(&rb, b->ts + i, SPAN_LIT("k"), span_of(value, b->value), NULL, 0);
    }
    must(record_build_finish(&rb, &batch) == ERR_OK);
    return batch;
}

/* ---- images ---- */

static void take_dir(struct depot *d, const char *dir, struct depot_image *im) {
    struct disk_req ls = {.op = DISK_LIST, .path = dir};
    must(disk_call(world_node_disk(d->n), &ls) == ERR_OK);
    for (size_t i = 0; i < ls.entries_n; i++) {
        char path[100];
        (void)snprintf(path, sizeof path, "%s%s%.60s", dir, dir[0] ? "/" : "", ls.entries[i].name);
        if (ls.entries[i].is_dir) {
            take_dir(d, path, im);
        } else if (strcmp(path, ".lock") != 0) {
            must(im->n < sizeof im->files / sizeof *im->files);
            struct depot_image_file *f = &im->files[im->n++];
            (void)snprintf(f->path, sizeof f->path, "%s", path);
            span got = depot_get(d, path);
            uint8_t *copy = malloc(got.n + 1);     /* not counted: it stays */
            must(copy != NULL);
            memcpy(copy, got.p, got.n);
            f->bytes = span_of(copy, got.n);
            depot_drop(got);
        }
    }
    disk_entries_free(ls.entries, ls.entries_n);
}

void depot_image_take(struct depot *d, struct depot_image *ret) {
    ret->n = 0;
    take_dir(d, "", ret);
}

void depot_image_lay(struct depot *d, const struct depot_image *im, const char *but, span instead) {
    for (size_t i = 0; i < im->n; i++) {
        if (but == NULL || strcmp(im->files[i].path, but) != 0) {
            depot_put(d, im->files[i].path, im->files[i].bytes);
        }
    }
    if (but != NULL && !span_is_null(instead)) {
        depot_put(d, but, instead);
    }
}
