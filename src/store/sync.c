/* The sync policy (D6, DESIGN 4): one request in flight per shard, group commit for everyone who waits.
 *
 * Happy path: a log with written > stable is `idle` or, when somebody waits, `wanted`. A sync is due when something
 * is wanted, when the oldest unsynced byte is older than sync_age_max, or when unsynced bytes exceed their maximum.
 * Up to eight logs are synced by one request of fdatasyncs (and the directories of new segments); more of them, or
 * one whose directory is new, by one SYNCFS, which then covers all. When it returns, `stable` of each covered log
 * moves to what was *written when it was submitted*; what was written meanwhile waits for the next.
 * Failure modes: a failed sync is final: each covered log is fenced; a failed SYNCFS covered everything, marks
 * included: fatal. Syncs that marks and heavy checkpoints need take turns with these in the same slot.
 * Runs on: owner shard. */
#include "sync.h"

#include "base/log.h"
#include "base/mark.h"
#include "base/mem.h"
#include "base/must.h"
#include "store_in.h"

err sync_init(struct store *st) {
    struct sync *sy = &st->sync;
    *sy = (struct sync){0};
    list_init(&sy->idle);
    list_init(&sy->wanted);
    list_init(&sy->covered);
    list_init(&sy->others);
    sy->dir_names = mem_alloc(MEM_LOG, SYNC_LOGS_MAX * NAMES_DIR_CAP);
    return sy->dir_names ? ERR_OK : ERR_NOMEM;
}

void sync_done(struct store *st) {
    mem_free(st->sync.dir_names);
    st->sync.dir_names = NULL;
}

/* ---- who is unsynced ---- */

static void enlist(struct plog *lg, bool wanted) {
    struct sync *sy = &lg->st->sync;
    list_push_back(wanted ? &sy->wanted : &sy->idle, &lg->unsynced);
    *(wanted ? &sy->wanted_n : &sy->idle_n) += 1;
    lg->sync_in = wanted ? SYNC_IN_WANTED : SYNC_IN_IDLE;
}

static void delist(struct plog *lg) {
    struct sync *sy = &lg->st->sync;
    list_remove(&lg->unsynced);
    if (lg->sync_in == SYNC_IN_WANTED) {
        sy->wanted_n--;
    } else if (lg->sync_in == SYNC_IN_IDLE) {
        sy->idle_n--;
    }
    lg->sync_in = SYNC_IN_NONE;
}

void sync_note_written(struct plog *lg) {
    if (lg->sync_in == SYNC_IN_NONE) {
        lg->unsynced_since = store_now(lg->st);
        enlist(lg, lg->want_to > lg->stable.off);
    }
}

void sync_want(struct plog *lg) {
    lg->want_to = lg->next;
    if (lg->sync_in == SYNC_IN_IDLE) {
        delist(lg);
        enlist(lg, true);
    }
}

void sync_forget(struct plog *lg) {
    if (lg->sync_in == SYNC_IN_IDLE || lg->sync_in == SYNC_IN_WANTED) {
        delist(lg);
    }
}

/* ---- completion ---- */

static void uncover_segs(struct plog *lg) {
    for (struct seg *sg = lg->syncing.seg; sg && sg->syncing;) {
        sg->syncing = false;
        sg = sg->link.prev == &lg->segs ? NULL : list_entry(sg->link.prev, struct seg, link);
    }
}

static void moved(struct plog *lg) {
    struct store *st = lg->st;
    lg->stable = lg->syncing;
    lg->unsynced_bytes -= lg->syncing_bytes;
    st->unsynced_bytes -= lg->syncing_bytes;
    lg->fresh = lg->fresh && st->sync.what != SYNC_ALL;
    plog_check(lg);
    bool cut = lg->written.seg && lg->written.seg->dirty;      /* behind a refused write, since that sync was submitted */
    if (lg->written.off > lg->stable.off || cut) {
        lg->unsynced_since = st->sync.submitted;
        enlist(lg, lg->want_to > lg->stable.off);
    }
    marks_note(lg, lg->syncing_bytes);
    st->hooks.moved(st->hooks.u, lg);
}

static void settle_log(struct plog *lg, const struct disk_req *rq) {
    uncover_segs(lg);
    if (lg->dead || lg->fenced) {
        return;
    }
    if (rq->err == ERR_OK) {
        moved(lg);
    } else {
        plog_fence(lg, "sync", rq->sys_errno);
    }
}

static void on_logs_synced(struct disk_req *rq) {
    struct store *st = rq->u;
    struct sync *sy = &st->sync;
    sy->busy = false;
    st->stats.sync_us_last = rq->took_us;
    st->stats.sync_us_max = rq->took_us > st->stats.sync_us_max ? rq->took_us : st->stats.sync_us_max;
    if (rq->err != ERR_OK) {
        mark("sync.failed");
        if (sy->what == SYNC_ALL) {
            store_fatal(st, "sync of the file system failed: nothing written since the last one is proven");
        }
    }
    struct list covered;
    list_init(&covered);
    list_splice_back(&covered, &sy->covered);
    for (struct list *it; (it = list_pop_front(&covered));) {
        struct plog *lg = list_entry(it, struct plog, unsynced);
        lg->sync_in = SYNC_IN_NONE;
        settle_log(lg, rq);
        plog_put(lg);
    }
    files_trim(st, st->conf.files_max, DISK_LANE_WRITE);
    store_settle(st);
}

/* ---- submission ---- */

static size_t dirty_files(const struct plog *lg) {
    size_t n = 0;
    for (struct seg *sg = lg->written.seg; sg && sg->dirty; n++) {
        sg = sg->link.prev == &lg->segs ? NULL : list_entry(sg->link.prev, struct seg, link);
    }
    return n;
}

/* May these logs be synced file by file? */
static bool fits(const struct list *logs, size_t *files) {
    list_each(it, logs) {
        const struct plog *lg = list_entry(it, struct plog, unsynced);
        *files += dirty_files(lg);
        if (lg->fresh || *files > SYNC_FILES_MAX) {
            return false;
        }
    }
    return true;
}

static void cover(struct plog *lg) {
    struct sync *sy = &lg->st->sync;
    delist(lg);
    list_push_back(&sy->covered, &lg->unsynced);
    lg->sync_in = SYNC_IN_COVERED;
    lg->syncing = lg->written;
    lg->syncing_bytes = lg->unsynced_bytes;
    for (struct seg *sg = lg->written.seg; sg && sg->dirty;) {
        must(sg->file != NULL);
        sg->dirty = false;
        sg->syncing = true;
        if (sy->what == SYNC_LOGS) {
            sy->files[sy->rq.files_n++] = sg->file;
        }
        sg = sg->link.prev == &lg->segs ? NULL : list_entry(sg->link.prev, struct seg, link);
    }
    if (sy->what == SYNC_LOGS && lg->new_names) {
        char *name = sy->dir_names + sy->rq.dirs_n * NAMES_DIR_CAP;
        names_dir(&lg->id, name);
        sy->dirs[sy->rq.dirs_n++] = name;
    }
    lg->new_names = false;
    plog_get(lg);
}

static void submit_logs(struct store *st, bool all) {
    struct sync *sy = &st->sync;
    size_t files = 0;
    uint32_t n = sy->wanted_n + (all ? sy->idle_n : 0);
    bool by_file = n <= SYNC_LOGS_MAX && fits(&sy->wanted, &files) && (!all || fits(&sy->idle, &files));
    sy->what = by_file ? SYNC_LOGS : SYNC_ALL;
    sy->rq = (struct disk_req){.op = by_file ? DISK_SYNC : DISK_SYNCFS,
                               .lane = DISK_LANE_SYNC,
                               .done = on_logs_synced,
                               .u = st,
                               .files = sy->files,
                               .dirs = sy->dirs};
    while (!list_empty(&sy->wanted)) {
        cover(list_entry(sy->wanted.next, struct plog, unsynced));
    }
    while ((all || !by_file) && !list_empty(&sy->idle)) {
        cover(list_entry(sy->idle.next, struct plog, unsynced));
    }
    sy->busy = true;
    sy->other_last = false;
    sy->submitted = store_now(st);
    st->stats.syncs++;
    st->stats.sync_files += sy->rq.files_n;
    st->stats.syncfs += !by_file;
    disk_submit(st->disk, &sy->rq);
}

/* ---- the slot's other users ---- */

static void on_other_synced(struct disk_req *rq) {
    struct store *st = rq->u;
    struct sync_other *so = st->sync.other;
    st->sync.busy = false;
    st->sync.other = NULL;
    st->stats.syncs++;
    so->done(so, rq->err);
    store_settle(st);
}

void sync_other_submit(struct store *st, struct sync_other *so) {
    list_push_back(&st->sync.others, &so->link);
}

static void submit_other(struct store *st) {
    struct sync *sy = &st->sync;
    struct sync_other *so = list_entry(list_pop_front(&sy->others), struct sync_other, link);
    so->rq.lane = DISK_LANE_SYNC;
    so->rq.done = on_other_synced;
    so->rq.u = st;
    sy->other = so;
    sy->what = SYNC_OTHER;
    sy->busy = true;
    sy->other_last = true;
    disk_submit(st->disk, &so->rq);
}

/* ---- when ---- */

/* When the oldest byte that nobody waits for must be synced. */
static ms idle_due(const struct store *st) {
    const struct sync *sy = &st->sync;
    if (list_empty(&sy->idle)) {
        return INT64_MAX;
    }
    return list_entry(sy->idle.next, struct plog, unsynced)->unsynced_since + st->conf.sync_age_max;
}

ms sync_due(const struct store *st) {
    return st->sync.busy ? INT64_MAX : idle_due(st);
}

bool sync_is_idle(const struct store *st) {
    const struct sync *sy = &st->sync;
    return !sy->busy && list_empty(&sy->idle) && list_empty(&sy->wanted) && list_empty(&sy->others);
}

void sync_pass(struct store *st, ms now) {
    struct sync *sy = &st->sync;
    if (sy->busy || st->dead) {
        return;
    }
    bool all = st->stopping || idle_due(st) <= now ||
               (st->unsynced_bytes > st->conf.unsynced_bytes_max && sy->idle_n > 0);
    bool logs = sy->wanted_n > 0 || (all && sy->idle_n > 0);
    if (!list_empty(&sy->others) && (!logs || !sy->other_last)) {
        submit_other(st);
    } else if (logs) {
        submit_logs(st, all);
    }
}
