/* The write pass: per dirty log one gathered write in flight, submitted by the turn and continued from completions.
 *
 * Happy path: a job takes the log's unwritten pieces of one segment (at most LIMIT_IOV, about LIMIT_WRITE_BYTES) and
 * writes them at the end of the file; when it returns, `written` moves. The first write of a log makes its directory
 * and partition.metadata, the first one of a segment its file: the steps of one job run one after the other on the
 * write lane.
 * Failure modes: no space (or no descriptor, no memory): everything queued is taken back, the broker told, the file
 * cut to the last batch known to be whole, and the log goes on. Anything else fences the log. A file whose size is
 * not what this run left there is not touched.
 * Runs on: owner shard. */
#include "write.h"

#include <string.h>

#include "base/be.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mark.h"
#include "base/mem.h"
#include "base/must.h"
#include "datadir_in.h"
#include "store_in.h"

#define IOV_INLINE 8
#define META_TEXT_CAP 64

struct write_job {
    struct disk_req rq;
    struct write_job *next;        /* while spare */
    struct plog *lg;
    struct seg *seg;
    struct plog_at to;             /* what `written` becomes */
    size_t bytes;
    size_t n, cap;                 /* pieces */
    struct iovec *iov, iov_inline[IOV_INLINE];
    struct chunk **chunks, *chunks_inline[IOV_INLINE];     /* references that outlive a cut of the tail */
    struct disk_file *meta;        /* partition.metadata while it is written */
    struct iovec text_iov;
    err refused;                   /* why it was not */
    bool asked_aside;              /* a foreign directory was looked for, and moved */
    char text[META_TEXT_CAP], path[NAMES_PATH_CAP], aside[NAMES_DIR_CAP];
};

static void step(struct write_job *j);

void write_init(struct store *st) {
    st->write = (struct write){0};
    list_init(&st->dirty);
}

static void job_free(struct write_job *j) {
    if (j->cap > IOV_INLINE) {
        mem_free(j->iov);
        mem_free(j->chunks);
    }
    mem_free(j);
}

void write_free(struct store *st) {
    for (struct write_job *j = st->write.spare, *next; j; j = next) {
        next = j->next;
        job_free(j);
    }
    st->write.spare = NULL;
}

static struct write_job *job_take(struct store *st) {
    struct write_job *j = st->write.spare;
    if (j) {
        st->write.spare = j->next;
        return j;
    }
    j = mem_zalloc(MEM_LOG, sizeof *j);
    if (j) {
        j->iov = j->iov_inline;
        j->chunks = j->chunks_inline;
        j->cap = IOV_INLINE;
    }
    return j;
}

static void drop_chunks(struct write_job *j) {
    for (size_t i = 0; i < j->n; i++) {
        chunk_unref(j->chunks[i]);
    }
    j->n = 0;
}

static void finish(struct write_job *j) {
    struct plog *lg = j->lg;
    struct store *st = lg->st;
    drop_chunks(j);
    st->write.inflight--;
    if (lg->tail.queue && !lg->fenced && !lg->dead) {
        list_push_back(&st->dirty, &lg->dirty);
    }
    if (j->cap > IOV_INLINE * 16) {
        job_free(j);
    } else {
        j->next = st->write.spare;
        st->write.spare = j;
    }
    plog_put(lg);
    store_settle(st);
}

void write_wanted(struct plog *lg) {
    if (list_empty(&lg->dirty) && !lg->writing) {
        list_push_back(&lg->st->dirty, &lg->dirty);
    }
}

static void submit(struct write_job *j, enum disk_op op, void (*done)(struct disk_req *rq)) {
    j->rq.op = op;
    j->rq.lane = DISK_LANE_WRITE;
    j->rq.done = done;
    j->rq.u = j;
    j->rq.path = j->path;
    disk_submit(j->lg->st->disk, &j->rq);
}

/* ---- failures ---- */

static void on_cut(struct disk_req *rq) {
    struct write_job *j = rq->u;
    struct plog *lg = j->lg;
    lg->cutting = false;
    j->seg->dirty = true;          /* a sync under way was submitted before the cut: a power loss could undo it */
    files_unpin(lg->st, j->seg, DISK_LANE_WRITE);
    if (rq->err != ERR_OK && !lg->dead) {
        plog_fence(lg, "cutting back a refused write", rq->sys_errno);
    }
    if (rq->err == ERR_OK && !lg->dead && j->seg == lg->written.seg) {
        sync_note_written(lg);     /* nobody waits for it, but until it is synced the log may not go on elsewhere */
    }
    lg->writing = false;
    finish(j);
}

static bool is_refusal(err e) {
    return e == ERR_NOSPACE || e == ERR_LIMIT || e == ERR_NOMEM;
}

/* A failed write still pins its file: whoever goes on with it must not find it closed. */
static void let_go(struct write_job *j) {
    if (j->rq.op == DISK_WRITE) {
        files_unpin(j->lg->st, j->seg, DISK_LANE_WRITE);
    }
}

/* No space: take everything queued back and make the file end where the last whole batch does. */
static void refuse(struct write_job *j) {
    struct plog *lg = j->lg;
    struct store *st = lg->st;
    err why = j->rq.err;
    bool cut = j->rq.op == DISK_WRITE;
    struct seg *sg = j->seg;
    int64_t end = sg == lg->written.seg ? lg->written.pos : 0;
    mark("write.refused");
    log_warn("store.refused", "log='%s-%d' from=%lld why=%s", lg->id.topic, lg->id.partition,
             (long long)lg->written.off, err_name(why));
    st->space_low = st->space_low || why == ERR_NOSPACE;
    st->space_next = 0;
    drop_chunks(j);
    lg->cutting = cut;
    plog_take_back(lg, lg->written.off);
    st->hooks.failed(st->hooks.u, lg, lg->written.off, ERR_NOSPACE);
    if (!cut || lg->dead) {
        let_go(j);
        lg->cutting = lg->writing = false;
        finish(j);
        return;
    }
    j->rq.file = sg->file;
    j->rq.at = end;
    submit(j, DISK_TRUNCATE, on_cut);
}

static void fail(struct write_job *j, const char *what) {
    struct plog *lg = j->lg;
    if (lg->dead || lg->fenced) {
        let_go(j);
        lg->writing = false;
        finish(j);
    } else if (is_refusal(j->rq.err)) {
        refuse(j);
    } else {
        plog_fence(lg, what, j->rq.sys_errno);
        let_go(j);
        lg->writing = false;
        finish(j);
    }
}

/* ---- the write itself ---- */

/* Pieces are written in order; count `bytes` of them. */
static void advance_queue(struct plog *lg, size_t bytes) {
    struct tail_piece *pc = lg->tail.queue;
    while (bytes > 0) {
        size_t n = pc->n - pc->written;
        n = n < bytes ? n : bytes;
        pc->written += (uint32_t)n;
        bytes -= n;
        if (pc->written == pc->n) {
            pc = pc->next;
        }
    }
    lg->tail.queue = pc;
}

static void on_written(struct disk_req *rq) {
    struct write_job *j = rq->u;
    struct plog *lg = j->lg;
    struct store *st = lg->st;
    j->seg->mtime = clock_wall(st->port->clock);
    j->seg->dirty = j->seg->dirty || rq->did > 0;      /* before the pin goes: an unsynced descriptor stays open */
    if (rq->err != ERR_OK || lg->dead || lg->fenced) {
        fail(j, "writing");
        return;
    }
    files_unpin(st, j->seg, DISK_LANE_WRITE);
    st->stats.writes++;
    st->stats.write_bytes += j->bytes;
    advance_queue(lg, j->bytes);
    lg->written = j->to;
    lg->queued_bytes -= (int64_t)j->bytes;
    lg->unsynced_bytes += (int64_t)j->bytes;
    lg->writing = false;
    sync_note_written(lg);
    plog_check(lg);
    st->hooks.moved(st->hooks.u, lg);
    finish(j);
}

/* Largest timestamp in the pieces of the job, when it does not take all that is queued of its segment. */
static void max_ts_of(const struct write_job *j, struct plog_at *to) {
    for (size_t i = 0; i < j->n; i++) {
        const uint8_t *p = j->iov[i].iov_base, *end = p + j->iov[i].iov_len;
        for (; p < end; p += (size_t)be32_get(p + 8) + BATCH_OVERHEAD_BYTES) {
            ms ts = (ms)be64_get(p + 35);
            if (ts > to->max_ts) {
                to->max_ts = ts;
                to->max_ts_offset = (off64)be64_get(p) + (int32_t)be32_get(p + 23);
            }
        }
    }
}

static bool grow_iov(struct write_job *j) {
    size_t cap = j->cap * 4 > LIMIT_IOV ? LIMIT_IOV : j->cap * 4;
    struct iovec *iov = cap > j->cap ? mem_alloc(MEM_LOG, cap * sizeof *iov) : NULL;
    struct chunk **chunks = iov ? mem_alloc(MEM_LOG, cap * sizeof *chunks) : NULL;
    if (!chunks) {
        mem_free(iov);
        return false;              /* this write takes fewer */
    }
    memcpy(iov, j->iov, j->n * sizeof *iov);
    memcpy(chunks, j->chunks, j->n * sizeof(struct chunk *));
    if (j->cap > IOV_INLINE) {
        mem_free(j->iov);
        mem_free(j->chunks);
    }
    j->iov = iov;
    j->chunks = chunks;
    j->cap = cap;
    return true;
}

static void gather(struct write_job *j) {
    struct plog *lg = j->lg;
    j->to = lg->written;
    if (j->to.seg != j->seg) {
        j->to = (struct plog_at){.seg = j->seg, .max_ts = -1, .max_ts_offset = -1};
    }
    j->bytes = 0;
    for (struct tail_piece *pc = lg->tail.queue; pc && pc->seg == j->seg && j->bytes < LIMIT_WRITE_BYTES;
         pc = pc->next) {
        if (j->n == j->cap && !grow_iov(j)) {
            break;
        }
        j->iov[j->n] = (struct iovec){.iov_base = (void *)(uintptr_t)(pc->p + pc->written),
                                      .iov_len = pc->n - pc->written};
        j->chunks[j->n] = chunk_ref(pc->chunk);
        j->bytes += j->iov[j->n++].iov_len;
        j->to.off = pc->end;
    }
    j->to.pos += (int64_t)j->bytes;
    if (j->to.pos == j->seg->size) {
        j->to.max_ts = j->seg->max_ts;
        j->to.max_ts_offset = j->seg->max_ts_offset;
    } else {
        max_ts_of(j, &j->to);
    }
}

static void write_now(struct write_job *j) {
    int64_t at = j->seg == j->lg->written.seg ? j->lg->written.pos : 0;
    gather(j);
    must(j->n > 0);
    files_pin(j->seg);
    files_touch(j->lg->st, j->seg);
    j->rq.file = j->seg->file;
    j->rq.at = at;
    j->rq.iov = j->iov;
    j->rq.iov_n = j->n;
    submit(j, DISK_WRITE, on_written);
}

/* ---- files and directories ---- */

static void on_useless_closed(struct disk_req *rq) {
    step(rq->u);                   /* a second descriptor of the same file: nothing was written through it */
}

static void on_opened(struct disk_req *rq) {
    struct write_job *j = rq->u;
    struct plog *lg = j->lg;
    struct seg *sg = j->seg;
    if (rq->err == ERR_LIMIT && !lg->dead) {
        files_trim(lg->st, lg->st->files.open / 2, DISK_LANE_WRITE);
    }
    if (rq->err != ERR_OK) {
        fail(j, "opening a segment");
        return;
    }
    int64_t expected = sg == lg->written.seg ? lg->written.pos : 0;
    if (sg->file || lg->dead || lg->fenced) {
        submit(j, DISK_CLOSE, on_useless_closed);
        return;
    }
    lg->new_names = lg->new_names || !sg->made;
    sg->made = true;
    sg->file = rq->file;
    files_opened(lg->st, sg);      /* trimmed when the write lets go of it */
    if (rq->size != expected) {
        log_error("seg.damaged", "path='%s' size=%lld expected=%lld", j->path, (long long)rq->size,
                  (long long)expected);
        plog_fence(lg, "unexpected size of a segment", 0);
    }
    step(j);
}

static void on_meta_closed(struct disk_req *rq) {
    struct write_job *j = rq->u;
    j->meta = NULL;
    j->lg->dir_made = true;
    step(j);
}

static void meta_close(struct write_job *j) {
    j->rq.file = j->meta;
    submit(j, DISK_CLOSE, on_meta_closed);
}

static void on_meta_written(struct disk_req *rq) {
    struct write_job *j = rq->u;
    if (rq->err != ERR_OK && !is_refusal(rq->err)) {
        plog_fence(j->lg, "writing partition.metadata", rq->sys_errno);
    }
    meta_close(j);                 /* refused: recovery writes it again */
}

static void on_aside(struct disk_req *rq) {
    struct write_job *j = rq->u;
    struct plog *lg = j->lg;
    if (rq->err != ERR_OK && rq->err != ERR_NOT_FOUND) {
        log_error("store.conflict", "log='%s-%d' its directory belongs to another topic and cannot be renamed to '%s': %s", lg->id.topic,
                  lg->id.partition, j->aside, err_text(rq->err));
        fail(j, "moving a foreign directory aside");
        return;
    }
    if (rq->err == ERR_OK) {
        mark("write.aside");
        log_warn("store.stray", "path='%s' belongs to no topic that is known, renamed to '%s'", j->path, j->aside);
    }
    j->asked_aside = true;
    step(j);
}

/* What stands under the name of a new log is not its own: out of the way, not away. */
static void move_aside(struct write_job *j) {
    names_dir(&j->lg->id, j->path);
    names_aside(&j->lg->id, "-stray", j->aside);
    j->rq.path2 = j->aside;
    submit(j, DISK_RENAME, on_aside);
}

static void on_foreign_closed(struct disk_req *rq) {
    struct write_job *j = rq->u;
    j->meta = NULL;
    if (j->asked_aside) {          /* and it is here again */
        rq->err = ERR_IO;
        on_aside(rq);
    } else {
        move_aside(j);
    }
}

static void on_meta_read(struct disk_req *rq) {
    struct write_job *j = rq->u;
    size_t n = strlen(j->text);
    if (rq->err != ERR_OK) {
        log_error("store.conflict", "log='%s-%d' it cannot be told whose its directory is: %s", j->lg->id.topic, j->lg->id.partition,
                  err_text(rq->err));
        plog_fence(j->lg, "foreign directory", 0);
    } else if (rq->did != n || memcmp(j->path, j->text, n) != 0) {
        j->rq.file = j->meta;
        submit(j, DISK_CLOSE, on_foreign_closed);
        return;
    }
    meta_close(j);
}

static void on_meta_opened(struct disk_req *rq) {
    struct write_job *j = rq->u;
    if (rq->err != ERR_OK || j->lg->dead) {
        fail(j, "opening partition.metadata");
        return;
    }
    j->meta = rq->file;
    j->rq.at = 0;
    if (rq->size > 0) {
        j->rq.buf = j->path;
        j->rq.len = META_TEXT_CAP;
        submit(j, DISK_READ, on_meta_read);
        return;
    }
    j->text_iov = (struct iovec){.iov_base = j->text, .iov_len = strlen(j->text)};
    j->rq.iov = &j->text_iov;
    j->rq.iov_n = 1;
    submit(j, DISK_WRITE, on_meta_written);
}

static void on_meta_unlinked(struct disk_req *rq) {
    struct write_job *j = rq->u;
    rq->err = j->refused;
    fail(j, "writing partition.metadata");
}

/* Nearly always there was none. What a refusal left of ours goes again: the next write begins anew. */
static void on_meta_put(struct disk_req *rq) {
    struct write_job *j = rq->u;
    if (j->lg->dead || rq->err == ERR_OK) {
        j->lg->dir_made = true;
        step(j);
    } else if (rq->err == ERR_EXISTS) {
        j->rq.flags = DISK_RDWR;
        submit(j, DISK_OPEN, on_meta_opened);
    } else if (is_refusal(rq->err)) {
        j->refused = rq->err;
        submit(j, DISK_UNLINK, on_meta_unlinked);
    } else {
        fail(j, "writing partition.metadata");
    }
}

static void on_dir_made(struct disk_req *rq) {
    struct write_job *j = rq->u;
    if (rq->err != ERR_OK || j->lg->dead) {
        fail(j, "making the directory");
        return;
    }
    j->lg->fresh = true;
    names_in_dir(&j->lg->id, "partition.metadata", j->path);
    names_metadata_text(&j->lg->id, j->text, META_TEXT_CAP);
    j->text_iov = (struct iovec){.iov_base = j->text, .iov_len = strlen(j->text)};
    j->rq.flags = DISK_RDWR | DISK_CREATE | DISK_EXCL;
    j->rq.iov = &j->text_iov;
    j->rq.iov_n = 1;
    submit(j, DISK_PUT, on_meta_put);
}

/* A directory that stood under this name at the start, when this log did not exist yet. (Recovery looked at those of the logs that did.) */
static bool is_in_the_way(const struct plog *lg) {
    char dir[NAMES_DIR_CAP];
    names_dir(&lg->id, dir);
    return !lg->mark && datadir_has_dir(lg->st->dd, dir);
}

static void step(struct write_job *j) {
    struct plog *lg = j->lg;
    if (lg->dead || lg->fenced) {
        lg->writing = false;
        finish(j);
    } else if (!lg->dir_made && !j->asked_aside && is_in_the_way(lg)) {
        move_aside(j);
    } else if (!lg->dir_made) {
        names_dir(&lg->id, j->path);
        submit(j, DISK_MKDIR, on_dir_made);
    } else if (!j->seg->file) {
        names_segment(&lg->id, j->seg->base, ".log", j->path);
        j->rq.flags = DISK_RDWR | DISK_CREATE;
        submit(j, DISK_OPEN, on_opened);
    } else {
        write_now(j);
    }
}

void write_pass(struct store *st) {
    while (st->write.inflight < LIMIT_WRITES_INFLIGHT && !list_empty(&st->dirty)) {
        struct plog *lg = list_entry(st->dirty.next, struct plog, dirty);
        struct write_job *j = job_take(st);
        if (!j) {
            return;                /* the next turn tries again */
        }
        list_remove(&lg->dirty);
        must(lg->tail.queue && !lg->writing && !lg->cutting);
        j->lg = lg;
        j->asked_aside = false;
        j->seg = lg->tail.queue->seg;
        lg->writing = true;
        st->write.inflight++;
        plog_get(lg);
        step(j);
    }
}
