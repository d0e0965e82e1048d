/* The end of a log: its topic is gone.
 *
 * Happy path: what is queued or waits is failed at once; the directory is renamed to "<topic>-<partition>.<id>-delete" behind the writes in flight, on
 * the same lane; then it is removed off the turn, on the read lane. The struct goes when its last request came home.
 * Failure modes: a rename that fails leaves the directory: the next start reports it as a stray. A removal that a crash interrupts is finished by
 * datadir_sweep.
 * Runs on: owner shard. */
#include "base/log.h"
#include "base/mem.h"
#include "store_in.h"

struct plog_delete {
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
    rq->op = DISK_RMTREE;
    rq->lane = DISK_LANE_READ;
    rq->path = pd->aside;
    rq->done = on_removed;
    disk_submit(pd->st->disk, rq);
}

static void remove_directory(struct plog *lg) {
    struct store *st = lg->st;
    struct plog_delete *pd = mem_zalloc(MEM_LOG, sizeof *pd);
    if (!pd) {
        log_warn("store.memory", "log='%s-%d' its directory stays until the next start", lg->id.topic, lg->id.partition);
        return;
    }
    pd->st = st;
    names_dir(&lg->id, pd->path);
    names_aside(&lg->id, "-delete", pd->aside);
    pd->rq = (struct disk_req){.op = DISK_RENAME, .lane = DISK_LANE_WRITE, .path = pd->path, .path2 = pd->aside, .done = on_renamed, .u = pd};
    st->pending++;
    disk_submit(st->disk, &pd->rq);
}

void plog_delete(struct plog *lg) {
    struct store *st = lg->st;
    off64 from = plog_bound(lg);
    bool waiting = lg->next > from;
    plog_get(lg);
    lg->dead = true;
    lg->topic_copy = mem_strdup(MEM_LOG, lg->id.topic);
    plog_take_back(lg, from < lg->written.off ? from : lg->written.off);
    st->unsynced_bytes -= lg->unsynced_bytes;
    lg->unsynced_bytes = 0;
    sync_forget(lg);
    list_remove(&lg->all);
    marks_gone(lg);
    if (waiting && !lg->fenced) {
        st->hooks.failed(st->hooks.u, lg, from, ERR_CANCELLED);
    }
    if (lg->dir_made || lg->writing) {
        remove_directory(lg);
    }
    lg->id.topic = lg->topic_copy ? lg->topic_copy : "?";      /* the broker's string may go now */
    plog_put(lg);
}
