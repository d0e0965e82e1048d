/* The end of a log: its topic is gone.
 *
 * Happy path: what is queued or waits is failed at once; the directory is renamed to
 * "<topic>-<partition>.<id>-delete" behind the writes in flight, on the same lane; the root directory is synced (one
 * sync for all that were renamed meanwhile), so that no crash brings a half-emptied directory back under its old
 * name; then it is removed off the turn, on the read lane, one directory at a time, so that a reader waits for one at most. The struct goes when its last request came home.
 * Failure modes: a rename or sync that fails leaves the directory; the next start finishes the deletion
 * (datadir_bury), as it finishes a removal that a crash interrupts, or that a stop has no time for (datadir_sweep).
 * Runs on: owner shard. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "store_in.h"

#define DELETE_STOP_MS 2000        /* how long a stop goes on removing */

struct plog_delete {               /* from its old name to its last one */
    struct list link;              /* in st->renamed, then in st->removing */
    struct disk_req rq;
    struct store *st;
    char path[NAMES_DIR_CAP], aside[NAMES_DIR_CAP];
};

struct plog_delete_doom {          /* waits to be removed, or is: many, so small */
    struct list link;
    char name[];
};

static void tell(const struct disk_req *rq) {
    if (rq->err != ERR_OK && rq->err != ERR_NOT_FOUND) {
        log_warn("store.delete", "path='%s' err=%s errno=%d", rq->path, err_name(rq->err), rq->sys_errno);
    }
}

static void end(struct plog_delete *pd) {
    pd->st->pending--;
    mem_free(pd);
}

/* ---- removing, one after the other */

void plog_delete_dir(struct store *st, const char *dir_name) {
    size_t n = strlen(dir_name) + 1;
    struct plog_delete_doom *doom = mem_alloc(MEM_LOG, sizeof *doom + n);
    if (doom == NULL) {
        log_warn("store.memory", "dir='%s' stays until the next start", dir_name);
        return;
    }
    memcpy(doom->name, dir_name, n);
    list_push_back(&st->doomed, &doom->link);
    st->pending++;
}

static void undoom(struct store *st, struct plog_delete_doom *doom) {
    st->pending--;
    mem_free(doom);
}

void plog_delete_drop(struct store *st) {
    size_t n = 0;
    for (struct list *it; (it = list_pop_front(&st->doomed)); n++) {
        undoom(st, list_entry(it, struct plog_delete_doom, link));
    }
    if (n > 0) {
        log_info("store.delete_later", "directories=%zu effect='the next start removes them'", n);
    }
}

static void on_removed(struct disk_req *rq) {
    struct store *st = rq->u;
    tell(rq);
    undoom(st, st->removing_now);
    st->removing_now = NULL;
    plog_delete_pass(st);
    store_settle(st);
}

void plog_delete_pass(struct store *st) {
    if (st->stopping && store_now(st) - st->stop_began > DELETE_STOP_MS) {
        plog_delete_drop(st);
    }
    struct list *it = st->removing_now != NULL || st->dead ? NULL : list_pop_front(&st->doomed);
    if (it != NULL) {
        st->removing_now = list_entry(it, struct plog_delete_doom, link);
        st->removal = (struct disk_req){.op = DISK_RMTREE, .lane = DISK_LANE_READ, .path = st->removing_now->name, .done = on_removed, .u = st};
        disk_submit(st->disk, &st->removal);
    }
}

/* ---- a new name first */

static void on_renamed(struct disk_req *rq) {
    struct plog_delete *pd = rq->u;
    if (rq->err != ERR_OK) {
        struct store *st = pd->st;
        tell(rq);
        end(pd);
        store_settle(st);
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
        if (e == ERR_OK) {
            plog_delete_dir(st, pd->aside);
        } else {
            pd->rq.err = e;
            tell(&pd->rq);
        }
        end(pd);
    }
    plog_delete_pass(st);
    plog_delete_sync(st);
    store_settle(st);
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
