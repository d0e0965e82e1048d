/* The end of a log: its topic is gone.
 *
 * Happy path: what is queued or waits is failed at once; the directory is renamed to
 * "<topic>-<partition>.<id>-delete" behind the writes in flight, on the same lane; the root directory is synced (one
 * sync for all that were renamed meanwhile), so that no crash brings a half-emptied directory back under its old
 * name; then it is removed off the turn, on the read lane. The struct goes when its last request came home.
 * Failure modes: a rename or sync that fails leaves the directory; the next start finishes the deletion
 * (datadir_bury), as it finishes a removal that a crash interrupts (datadir_sweep).
 * Runs on: owner shard. */
#include "base/log.h"
#include "base/mem.h"
#include "store_in.h"

struct plog_delete {
    struct list link;              /* in st->renamed, then in st->removing */
    struct disk_req rq;
    struct store *st;
    char path[NAMES_DIR_CAP], aside[NAMES_DIR_CAP];
};

static void on_removed(struct disk_req *rq) {
    struct plog_delete *pd = rq->u;
    struct store *st = pd->st;
    if (rq->err != ERR_OK && rq->err != ERR_NOT_FOUND) {
        log_warn("store.delete", "path='%s' err=%s errno=%d", rq->path, err_name(rq->err), rq->sys_errno);
    }
    mem_free(pd);
    st->pending--;
    store_settle(st);
}

static void on_renamed(struct disk_req *rq) {
    struct plog_delete *pd = rq->u;
    if (rq->err != ERR_OK) {
        on_removed(rq);
        return;
    }
    pd->st->root_changed = true;
    list_push_back(&pd->st->renamed, &pd->link);
    plog_delete_sync(pd->st);
}

static void on_names_synced(struct sync_other *so, err e) {
    struct store *st = so->u;
    st->names_busy = false;
    st->root_changed = !list_empty(&st->renamed);
    st->stop_err = e != ERR_OK ? e : st->stop_err;
    for (struct list *it; (it = list_pop_front(&st->removing));) {
        struct plog_delete *pd = list_entry(it, struct plog_delete, link);
        pd->rq.op = DISK_RMTREE;
        pd->rq.lane = DISK_LANE_READ;
        pd->rq.path = pd->aside;
        pd->rq.done = on_removed;
        if (e == ERR_OK) {
            disk_submit(st->disk, &pd->rq);
        } else {
            pd->rq.err = e;
            on_removed(&pd->rq);
        }
    }
    plog_delete_sync(st);
}

/* Renamed directories must not come back: neither after the CLEAN block nor once their files go. */
void plog_delete_sync(struct store *st) {
    if (!st->root_changed || st->names_busy) {
        return;
    }
    st->names_busy = true;
    list_splice_back(&st->removing, &st->renamed);
    st->root_dir = "";
    st->names = (struct sync_other){
        .rq = {.op = DISK_SYNC, .dirs = &st->root_dir, .dirs_n = 1}, .done = on_names_synced, .u = st};
    sync_other_submit(st, &st->names);
}

static void remove_directory(struct plog *lg) {
    struct store *st = lg->st;
    struct plog_delete *pd = mem_zalloc(MEM_LOG, sizeof *pd);
    if (!pd) {
        log_warn("store.memory", "log='%s-%d' its directory stays until the next start", lg->id.topic,
                 lg->id.partition);
        return;
    }
    pd->st = st;
    list_init(&pd->link);
    names_dir(&lg->id, pd->path);
    names_aside(&lg->id, "-delete", pd->aside);
    pd->rq = (struct disk_req){
        .op = DISK_RENAME, .lane = DISK_LANE_WRITE, .path = pd->path, .path2 = pd->aside, .done = on_renamed, .u = pd};
    st->pending++;
    disk_submit(st->disk, &pd->rq);
}

/* What a log that is gone obeys until its last request came home: its own settings, like its name, are the broker's. */
static const struct log_conf gone_conf = {
    .segment_bytes = INT64_MAX, .segment_age = INT64_MAX, .index_interval_bytes = 4096, .index_bytes_max = INT32_MAX};

void plog_delete(struct plog *lg) {
    struct store *st = lg->st;
    off64 from = plog_bound(lg);
    bool waiting = lg->next > from;
    plog_get(lg);
    lg->dead = true;
    plog_take_back(lg, from < lg->written.off ? from : lg->written.off);
    st->unsynced_bytes -= lg->unsynced_bytes;
    lg->unsynced_bytes = 0;
    sync_forget(lg);
    list_remove(&lg->all);
    marks_gone(lg);
    trim_dead(lg);
    if (waiting && !lg->fenced) {
        st->hooks.failed(st->hooks.u, lg, from, ERR_CANCELLED);
    }
    if (lg->dir_made || lg->writing) {
        remove_directory(lg);
    }
    const char *copy = mem_strdup(MEM_LOG, lg->id.topic);      /* the broker's string may go now */
    lg->topic_owned = copy != NULL;
    lg->id.topic = copy ? copy : "?";
    lg->conf = &gone_conf;
    lg->u = NULL;
    plog_put(lg);
}
