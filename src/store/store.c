/* One shard's share of the data directory: the pass of the turn, and a clean stop.
 *
 * Happy path: the broker calls store_pass once a turn; it starts writes, at most one sync, checkpoints that are due
 * and a look at free space. Completions come from the poll and are followed by a turn, so the pass is where
 * everything starts. After store_stop completions drive themselves (store_settle): write, sync, heavy checkpoints of
 * all logs, the CLEAN block, descriptors.
 * Failure modes: too little free space makes producers wait (NOSPACE) until it is back; what concerns all logs is
 * fatal, and nothing is submitted afterwards.
 * Runs on: owner shard; store_new and store_begin at boot. */
#include "store/store.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/mark.h"
#include "base/mem.h"
#include "base/must.h"
#include "call.h"
#include "store_in.h"

#define SPACE_LOOK_MS 1000

enum stop_step { STOP_NOT, STOP_WRITING, STOP_CHECKPOINT, STOP_NAMES, STOP_MARKS, STOP_FILES, STOP_DONE };

err store_new(struct store **ret_st, struct port *port, struct datadir *dd, const struct store_conf *conf,
              const struct store_hooks *hooks) {
    struct store *st = mem_zalloc(MEM_LOG, sizeof *st);
    if (!st) {
        return ERR_NOMEM;
    }
    st->port = port;
    st->disk = port->disk;
    st->dd = dd;
    st->conf = *conf;
    st->hooks = *hooks;
    list_init(&st->logs);
    list_init(&st->tail_age);
    list_init(&st->seg_spares);
    list_init(&st->renamed);
    list_init(&st->removing);
    list_init(&st->doomed);
    st->chunks = chunk_pool_new(LIMIT_CHUNKS_KEPT_BYTES);
    write_init(st);
    heavy_init(st);
    files_init(st);
    cold_init(st);
    trim_init(st);
    marks_init(st);
    err e = sync_init(st);
    if (e != ERR_OK || !st->chunks) {
        store_free(st);
        return ERR_NOMEM;
    }
    *ret_st = st;
    return ERR_OK;
}

err store_begin(struct store *st) {
    err e = st->recovered ? call_path(st->disk, DISK_SYNCFS, NULL, NULL) : ERR_OK;
    e = e == ERR_OK ? marks_begin(st) : e;
    st->begun = e == ERR_OK;
    return e == ERR_AGAIN ? ERR_OK : e;
}

void store_free(struct store *st) {
    if (!st) {
        return;
    }
    while (!list_empty(&st->doomed)) {             /* a start that went no further */
        mem_free(list_pop_front(&st->doomed));
    }
    list_each_safe(it, &st->logs) {
        struct plog *lg = list_entry(it, struct plog, all);
        list_each(seg, &lg->segs) {
            struct seg *sg = list_entry(seg, struct seg, link);
            call_close(st->disk, sg->file);
            sg->file = NULL;
        }
        plog_free(lg);
    }
    while (!list_empty(&st->seg_spares)) {
        struct seg *sg = list_entry(list_pop_front(&st->seg_spares), struct seg, lru);
        seg_free(sg);
    }
    tail_pool_free(st);
    write_free(st);
    marks_free(st);
    sync_done(st);
    chunk_pool_free(st->chunks);
    mem_free(st);
}

void store_remove_dir(struct store *st, const char *dir_name) {
    plog_delete_dir(st, dir_name);
}

ms store_now(const struct store *st) {
    return clock_now(st->port->clock);
}

void store_fatal(struct store *st, const char *why) {
    if (st->dead) {
        return;
    }
    st->dead = true;
    log_error("store.fatal", "why='%s'", why);
    mark("store.fatal");
    st->hooks.fatal(st->hooks.u, why);
}

/* ---- free space ---- */

static void on_space(struct disk_req *rq) {
    struct store *st = rq->u;
    st->space_busy = false;
    st->space_next = store_now(st) + SPACE_LOOK_MS;
    if (rq->err == ERR_OK) {
        bool low = rq->size <= st->conf.space_reserve_bytes;
        if (low != st->space_low) {
            log_warn(low ? "store.space_low" : "store.space_back", "free=%lld reserve=%lld", (long long)rq->size,
                     (long long)st->conf.space_reserve_bytes);
        }
        st->space_low = low;
    }
    store_settle(st);
}

static void space_pass(struct store *st, ms now) {
    if (st->space_busy || now < st->space_next || (!st->space_low && st->unsynced_bytes == 0)) {
        return;
    }
    st->space_busy = true;
    st->space_rq = (struct disk_req){.op = DISK_SPACE, .lane = DISK_LANE_READ, .done = on_space, .u = st};
    disk_submit(st->disk, &st->space_rq);
}

/* ---- the pass ---- */

static void pass(struct store *st, ms now) {
    write_pass(st);
    sync_pass(st, now);
    heavy_pass(st, now, st->stop_step == STOP_CHECKPOINT);
    marks_pass(st, now);
    trim_pass(st);
    plog_delete_pass(st);
    sync_pass(st, now);            /* what a checkpoint just asked for, when the slot is free */
}

void store_pass(struct store *st, ms now) {
    st->reserved = 0;
    if (st->dead || st->stop_step == STOP_DONE) {
        return;
    }
    pass(st, now);
    if (!st->stopping) {
        space_pass(st, now);
    }
    if (st->tail_bytes > st->conf.tail_bytes_max) {
        tail_evict(st);
    }
    store_settle(st);
}

static ms earlier(ms a, ms b) {
    return a < b ? a : b;
}

ms store_due(const struct store *st) {
    if (st->dead || st->stopping) {
        return INT64_MAX;
    }
    ms due = earlier(sync_due(st), earlier(heavy_due(st), marks_due(st)));
    return st->space_low && !st->space_busy ? earlier(due, st->space_next) : due;
}

bool store_is_full(const struct store *st) {
    return st->unsynced_bytes > 2 * st->conf.unsynced_bytes_max;
}

void store_stats_get(const struct store *st, struct store_stats *ret) {
    *ret = st->stats;
    ret->tail_bytes = (uint64_t)st->tail_bytes;
    ret->unsynced_bytes = (uint64_t)st->unsynced_bytes;
    ret->files_open = st->files.open;
}

struct plog *store_next_log(struct store *st) {
    struct list *it = list_pop_front(&st->logs);
    if (!it) {
        return NULL;
    }
    list_push_back(&st->logs, it);
    return list_entry(it, struct plog, all);
}

/* ---- a clean stop ---- */

static void on_marks_finished(struct store *st, err e) {
    st->stop_err = e != ERR_OK ? e : st->stop_err;
    st->stop_step = STOP_FILES;
}

static bool is_written(const struct store *st) {
    return list_empty(&st->dirty) && st->write.inflight == 0 && sync_is_idle(st) && heavy_is_idle(st) &&
           !st->marks.busy;
}

/* A batch that has nothing to write is over at once, and the next one's turn comes: nothing in flight would bring us back here. */
static bool has_heavy_left(struct store *st) {
    do {
        heavy_pass(st, store_now(st), true);
    } while (heavy_is_idle(st) && heavy_is_due(st));
    return !heavy_is_idle(st);
}

/* True when the step was left. */
static bool stop_advance(struct store *st) {
    switch ((enum stop_step)st->stop_step) {
    case STOP_WRITING:
        if (!is_written(st)) {
            return false;
        }
        st->stop_step = STOP_CHECKPOINT;
        return true;
    case STOP_CHECKPOINT:
        if (!is_written(st) || has_heavy_left(st)) {
            return false;
        }
        st->stop_step = STOP_NAMES;
        return true;
    case STOP_NAMES:
        if (st->pending > 0 || st->root_changed || !is_written(st)) {
            return false;
        }
        st->stop_step = STOP_MARKS;
        if (st->stop_err == ERR_OK && st->begun) {
            marks_finish(st, on_marks_finished);
        } else {                   /* without room for the OPEN block nothing was written, and nothing can be said */
            st->stop_err = st->stop_err != ERR_OK ? st->stop_err : ERR_NOSPACE;
            st->stop_step = STOP_FILES;
        }
        return true;
    case STOP_FILES:
        files_trim(st, 0, DISK_LANE_WRITE);
        if (st->pending > 0 || st->space_busy || cold_is_busy(st) || !trim_is_idle(st)) {
            return false;
        }
        st->stop_step = STOP_DONE;
        return true;
    case STOP_NOT:
    case STOP_MARKS:
    case STOP_DONE:
        break;
    }
    return false;
}

void store_settle(struct store *st) {
    if (!st->stopping || st->settling || st->stop_step == STOP_DONE) {
        return;
    }
    st->settling = true;
    do {
        pass(st, store_now(st));
    } while (!st->dead && stop_advance(st));
    st->settling = false;
    if (st->stop_step == STOP_DONE && st->stop_done) {
        void (*done)(void *u, err e) = st->stop_done;
        st->stop_done = NULL;
        done(st->stop_u, st->stop_err);
    }
}

void store_stop(struct store *st, void (*done)(void *u, err e), void *u) {
    must(!st->stopping);
    st->stopping = true;
    st->stop_step = STOP_WRITING;
    st->stop_began = store_now(st);
    st->stop_done = done;
    st->stop_u = u;
    store_settle(st);
}
