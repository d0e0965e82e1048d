/* The durable marks of one shard: below a log's mark everything survives power loss; recovery judges by it (DESIGN 4).
 *
 * Happy path: when logs became stable, one block with all their new marks is appended to marks.<shard> each
 * checkpoint_bytes or checkpoint_age and synced once: the cost does not grow with the number of partitions. A mark
 * is taken from `stable`, never from `written` (T6). The file is rewritten when it has grown to four times what is
 * alive; each run starts with a rewritten one (temporary file, sync, rename, sync of the directory), so that a crash
 * leaves the old file or the new one.
 * Failure modes: no space: the block is cut off and its logs are moved again later; a mark that lags costs recovery
 * time, nothing else. A failed write or sync of this file covered every mark: fatal.
 * Runs on: owner shard; marks_begin at boot. */
#include "marks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mark.h"
#include "base/mem.h"
#include "base/must.h"
#include "call.h"
#include "datadir_in.h"
#include "marks_file.h"
#include "store_in.h"

#define FRAME_ENTRIES_MAX 4096
#define GROWN_BYTES (1 << 20)
#define GROWN_TIMES 4

void marks_init(struct store *st) {
    struct marks *mk = &st->marks;
    *mk = (struct marks){.sequence = 1, .dir = NAMES_META_DIR};
    list_init(&mk->moved);
    list_init(&mk->starting);
    (void)snprintf(mk->path, sizeof mk->path, NAMES_META_DIR "/marks.%u", st->port->shard);
    (void)snprintf(mk->temp, sizeof mk->temp, "%s.tmp", mk->path);
}

void marks_free(struct store *st) {
    struct marks *mk = &st->marks;
    mem_free(mk->buf);
    mem_free(mk->foreign);
    mem_free(mk->gone);
    call_close(st->disk, mk->file);
    call_close(st->disk, mk->fresh);
    mk->file = mk->fresh = NULL;
    mk->buf = mk->foreign = NULL;
    mk->gone = NULL;
}

/* ---- what a mark says ---- */

static void add_heavy(const struct plog *lg, struct datadir_mark *ret) {
    ret->heavy = lg->heavy.off;
    ret->heavy_segment = lg->heavy.segment;
    ret->heavy_position = lg->heavy.pos;
    ret->index_entries = lg->heavy.index_n;
    ret->timeindex_entries = lg->heavy.times_n;
    ret->timeindex_ts = lg->heavy.times_last;
    ret->heavy_max_ts = lg->heavy.max_ts;
    ret->heavy_max_ts_offset = lg->heavy.max_ts_offset;
    ret->has_producers = lg->heavy_producers;
}

/* Where the log ends, in the segment that counts: when it starts where one begins, nothing before that does. */
static struct plog_at end_of(const struct plog *lg) {
    struct plog_at at = lg->stable;
    const off64 start = lg->trim ? lg->trim->want : lg->start;
    struct seg *after = at.seg && at.off == start ? plog_next_seg(lg, at.seg) : NULL;
    return after && after->base == start ? (struct plog_at){.off = at.off, .seg = after, .max_ts = -1, .max_ts_offset = -1} : at;
}

void marks_of(const struct plog *lg, struct datadir_mark *ret) {
    if (lg->unrecovered) {
        *ret = *lg->mark;
        ret->unsettled = true;
        return;
    }
    off64 start;
    int64_t bytes;
    uint32_t segs;
    struct plog_at at = end_of(lg);
    struct epochs_entry ep = epochs_last_before(&lg->epochs, at.off);
    trim_said(lg, &start, &bytes, &segs);
    *ret = (struct datadir_mark){.topic_id = lg->id.topic_id,
                                 .partition = lg->id.partition,
                                 .leader_epoch = ep.epoch,
                                 .epoch_start = ep.start,
                                 .start = start,
                                 .end = at.off,
                                 .segment = -1,
                                 .first_ts = -1,
                                 .max_ts = at.max_ts,
                                 .max_ts_offset = at.max_ts_offset};
    if (at.seg) {
        ret->segment = at.seg->base;
        ret->position = at.pos;
        ret->bytes = at.seg->before + at.pos - bytes;
        ret->segments = at.seg->ordinal + 1 - segs;
        ret->first_ts = at.pos > 0 ? at.seg->first_ts : -1;
    }
    add_heavy(lg, ret);
    ret->unsettled = lg->fenced || lg->held || lg->heavy.off != at.off || (lg->st->stopping && !trim_is_over(lg));
    must(ret->end <= lg->stable.off && ret->heavy <= ret->end);            /* T6 */
}

/* Nothing worth a mark: never written to, and no mark before. */
static bool is_blank(const struct plog *lg) {
    return !lg->mark && lg->stable.off == 0 && !lg->stable.seg;
}

/* ---- building blocks ---- */

static bool buf_room(struct marks *mk, size_t n) {
    if (mk->buf_cap - mk->buf_n >= n) {
        return true;
    }
    size_t cap = mk->buf_cap * 2 > mk->buf_n + n ? mk->buf_cap * 2 : mk->buf_n + n;
    uint8_t *p = mem_realloc(MEM_LOG, mk->buf, cap);
    if (!p) {
        return false;
    }
    mk->buf = p;
    mk->buf_cap = cap;
    return true;
}

struct block {
    struct store *st;
    size_t at;                     /* where the frame being built begins in buf */
    uint32_t n;
    uint64_t generation, proven;
    bool bad;
};

static void block_begin(struct block *b, struct store *st, int64_t proven) {
    st->marks.buf_n = 0;
    st->marks.sequence_back = st->marks.sequence;
    *b = (struct block){.st = st, .generation = datadir_generation(st->dd), .proven = (uint64_t)proven};
}

static void frame_end(struct block *b, enum marks_kind kind) {
    struct marks *mk = &b->st->marks;
    if (b->n == 0 && !buf_room(mk, FRAMES_HEAD_BYTES + FRAMES_ALIGN)) {
        b->bad = true;
        return;
    }
    struct frames_head h = {.kind = kind, .bytes = b->n * MARKS_ENTRY_BYTES, .generation = b->generation,
                            .sequence = mk->sequence++, .proven = b->proven};
    frames_seal(mk->buf + b->at, &h);
    mk->buf_n = b->at + frames_size(h.bytes);
    b->at = mk->buf_n;
    b->n = 0;
}

static uint8_t *block_entry(struct block *b) {
    struct marks *mk = &b->st->marks;
    if (b->n == FRAME_ENTRIES_MAX) {
        frame_end(b, MARKS_MOVED);
    }
    size_t at = b->at + FRAMES_HEAD_BYTES + b->n * MARKS_ENTRY_BYTES;
    mk->buf_n = b->at;
    if (b->bad || !buf_room(mk, at - b->at + MARKS_ENTRY_BYTES + FRAMES_ALIGN)) {
        b->bad = true;
        return NULL;
    }
    b->n++;
    return mk->buf + at;
}

static void block_log(struct block *b, struct plog *lg) {
    uint8_t *p = block_entry(b);
    if (p) {
        struct datadir_mark m;
        marks_of(lg, &m);
        marks_file_put(p, &m, false);
        trim_sent(lg);
    }
}

/* As marks of the last run: whatever their owner writes in this one is newer. */
static void block_foreign(struct block *b) {
    const struct marks *mk = &b->st->marks;
    b->generation--;
    for (size_t i = 0; i < mk->foreign_n; i++) {
        uint8_t *p = block_entry(b);
        if (p) {
            memcpy(p, mk->foreign + i * MARKS_ENTRY_BYTES, MARKS_ENTRY_BYTES);
        }
    }
    frame_end(b, MARKS_MOVED);
    b->generation++;
}

/* Every log of the shard, and what another shard has perhaps not written yet. The first frame says OPEN. */
static bool build_all(struct store *st) {
    struct marks *mk = &st->marks;
    struct block b;
    block_begin(&b, st, 0);
    frame_end(&b, MARKS_OPEN);
    if (mk->foreign_n > 0) {
        block_foreign(&b);
    }
    list_each(it, &st->logs) {
        struct plog *lg = list_entry(it, struct plog, all);
        if (!is_blank(lg)) {
            block_log(&b, lg);
        }
    }
    frame_end(&b, MARKS_MOVED);
    return !b.bad;
}

static bool build_moved(struct store *st, enum marks_kind kind) {
    struct marks *mk = &st->marks;
    struct block b;
    block_begin(&b, st, mk->proven);
    list_each(it, &mk->moved) {
        block_log(&b, list_entry(it, struct plog, moved));
    }
    for (size_t i = 0; i < mk->gone_n; i++) {
        uint8_t *p = block_entry(&b);
        if (p) {
            marks_file_put(p, &mk->gone[i], true);
        }
    }
    frame_end(&b, kind);
    return !b.bad;
}

/* ---- boot ---- */

static int by_address(const void *a, const void *b) {
    const struct datadir_mark *x = *(const struct datadir_mark *const *)a, *y = *(const struct datadir_mark *const *)b;
    return (x > y) - (x < y);
}

static bool stands_here(const struct store *st, const struct datadir_mark *m) {
    return datadir_mark_shard(st->dd, m) == (int32_t)st->port->shard;
}

/* Copies the marks of this shard's file that are not among the n in `own` (sorted). */
static void copy_foreign(struct store *st, const struct datadir_mark **own, size_t n) {
    struct marks *mk = &st->marks;
    for (const struct datadir_mark *m = NULL; (m = datadir_mark_next(st->dd, m));) {
        if (stands_here(st, m) && (n == 0 || !bsearch(&m, own, n, sizeof *own, by_address))) {
            marks_file_put(mk->foreign + mk->foreign_n++ * MARKS_ENTRY_BYTES, m, false);
        }
    }
}

/* Marks that stand only in the file that this shard is about to replace, of logs that it does not own. */
static err keep_foreign(struct store *st) {
    struct marks *mk = &st->marks;
    size_t n = 0, here = 0;
    const struct datadir_mark **own = mem_alloc(MEM_LOG, st->stats.logs * sizeof *own);
    if (!own) {
        return ERR_NOMEM;
    }
    list_each(it, &st->logs) {
        const struct plog *lg = list_entry(it, struct plog, all);
        if (lg->mark && stands_here(st, lg->mark)) {
            own[n++] = lg->mark;
        }
    }
    for (const struct datadir_mark *m = NULL; (m = datadir_mark_next(st->dd, m));) {
        here += stands_here(st, m);
    }
    err e = ERR_OK;
    if (here > n) {
        mk->foreign = mem_alloc(MEM_LOG, (here - n) * MARKS_ENTRY_BYTES);
        e = mk->foreign ? ERR_OK : ERR_NOMEM;
    }
    if (here > n && e == ERR_OK) {
        if (n > 0) {
            qsort(own, n, sizeof *own, by_address);
        }
        copy_foreign(st, own, n);
        must(mk->foreign_n == here - n);
    }
    mem_free(own);
    return e;
}

err marks_begin(struct store *st) {
    struct marks *mk = &st->marks;
    err e = keep_foreign(st);
    if (e != ERR_OK) {
        return e;
    }
    if (!build_all(st)) {
        return ERR_NOMEM;
    }
    e = disk_replace_all(st->disk, mk->path, mk->buf, mk->buf_n);
    if (e == ERR_NOSPACE) { /* reading goes on; appends wait until there is room for the OPEN block (marks_pass) */
        mark("marks.begin_late");
        log_warn("store.full", "path='%s' effect='readers only, until there is space for it'", mk->path);
        trim_durable(st, false);
        st->space_low = true;
        return ERR_AGAIN;
    }
    e = e == ERR_OK ? call_open(st->disk, mk->path, DISK_RDWR, &mk->file, NULL) : e;
    if (e == ERR_OK) {
        mk->end = mk->proven = (int64_t)mk->buf_n;
    }
    trim_durable(st, e == ERR_OK);
    return e;
}

/* ---- turn ---- */

void marks_note(struct plog *lg, int64_t bytes) {
    struct marks *mk = &lg->st->marks;
    if (list_empty(&mk->moved)) {
        mk->moved_since = store_now(lg->st);
    }
    if (list_empty(&lg->moved)) {
        list_push_back(&mk->moved, &lg->moved);
    }
    mk->moved_bytes += bytes;
}

void marks_gone(struct plog *lg) {
    struct marks *mk = &lg->st->marks;
    list_remove(&lg->moved);
    if (is_blank(lg)) {
        return;
    }
    if (mk->gone_n == mk->gone_cap) {
        size_t cap = mk->gone_cap ? mk->gone_cap * 2 : 8;
        struct datadir_mark *p = mem_realloc(MEM_LOG, mk->gone, cap * sizeof *p);
        if (!p) {
            return;                /* its mark stays until the next compaction; nobody asks for it */
        }
        mk->gone = p;
        mk->gone_cap = cap;
    }
    if (list_empty(&mk->moved) && mk->gone_n == 0) {
        mk->moved_since = store_now(lg->st);
    }
    mk->gone[mk->gone_n++] = (struct datadir_mark){.topic_id = lg->id.topic_id, .partition = lg->id.partition};
}

/* What the lost block said must be said again. */
static void move_again(struct store *st) {
    list_each(it, &st->logs) {
        struct plog *lg = list_entry(it, struct plog, all);
        if (!is_blank(lg) && !lg->dead && list_empty(&lg->moved)) {
            list_push_back(&st->marks.moved, &lg->moved);
        }
    }
    st->marks.moved_since = store_now(st);
}

static void end_block(struct store *st, err e) {
    struct marks *mk = &st->marks;
    mk->busy = false;
    trim_durable(st, e == ERR_OK);
    if (mk->buf_cap > GROWN_BYTES) {
        mem_free(mk->buf);
        mk->buf = NULL;
        mk->buf_cap = 0;
    }
    if (mk->done && (mk->finishing || e != ERR_OK)) {
        void (*done)(struct store *s, err r) = mk->done;
        mk->done = NULL;
        done(st, e);
    }
}

static void refused(struct store *st, const struct disk_req *rq) {
    if (rq->err != ERR_NOSPACE && rq->err != ERR_LIMIT && rq->err != ERR_NOMEM) {
        store_fatal(st, "the durable marks cannot be written");
    } else {
        mark("marks.refused");
        st->marks.sequence = st->marks.sequence_back;
        move_again(st);
    }
    end_block(st, rq->err);
}

static void submit(struct store *st, enum disk_op op, void (*done)(struct disk_req *rq)) {
    struct marks *mk = &st->marks;
    mk->rq.op = op;
    mk->rq.lane = DISK_LANE_WRITE;
    mk->rq.done = done;
    mk->rq.u = st;
    disk_submit(st->disk, &mk->rq);
}

static void sync_then(struct store *st, struct disk_file **file, const char **dir,
                      void (*done)(struct sync_other *so, err e)) {
    struct marks *mk = &st->marks;
    mk->sync = (struct sync_other){
        .rq = {.op = DISK_SYNC, .files = file, .files_n = file != NULL, .dirs = dir, .dirs_n = dir != NULL},
        .done = done,
        .u = st};
    sync_other_submit(st, &mk->sync);
}

static void on_synced(struct sync_other *so, err e) {
    struct store *st = so->u;
    struct marks *mk = &st->marks;
    if (e != ERR_OK) {
        store_fatal(st, "sync of the durable marks failed");
    } else {
        mk->proven = mk->end;
        st->stats.checkpoints++;
    }
    end_block(st, e);
}

static void on_written(struct disk_req *rq) {
    struct store *st = rq->u;
    struct marks *mk = &st->marks;
    if (rq->err != ERR_OK) {
        mk->torn = true;
        refused(st, rq);
        return;
    }
    mk->end += (int64_t)mk->buf_n;
    sync_then(st, &mk->file, NULL, on_synced);
}

static void write_buf(struct store *st, struct disk_file *file, int64_t at, void (*done)(struct disk_req *rq)) {
    struct marks *mk = &st->marks;
    mk->iov = (struct iovec){.iov_base = mk->buf, .iov_len = mk->buf_n};
    mk->rq = (struct disk_req){.file = file, .at = at, .iov = &mk->iov, .iov_n = 1};
    submit(st, DISK_WRITE, done);
}

static void on_cut(struct disk_req *rq) {
    struct store *st = rq->u;
    if (rq->err != ERR_OK) {
        refused(st, rq);
        return;
    }
    st->marks.torn = false;
    write_buf(st, st->marks.file, st->marks.end, on_written);
}

static void start_block(struct store *st, enum marks_kind kind) {
    struct marks *mk = &st->marks;
    if (!build_moved(st, kind)) {
        mk->sequence = mk->sequence_back;          /* no memory: the next pass tries again */
        trim_durable(st, false);
        if (mk->finishing) {
            end_block(st, ERR_NOMEM);
        }
        return;
    }
    while (list_pop_front(&mk->moved)) {
    }
    mk->gone_n = 0;
    mk->moved_bytes = 0;
    mk->at_once = false;
    mk->busy = true;
    if (mk->torn) {
        mk->rq = (struct disk_req){.file = mk->file, .at = mk->end};
        submit(st, DISK_TRUNCATE, on_cut);
    } else {
        write_buf(st, mk->file, mk->end, on_written);
    }
}

/* ---- compaction: a new file takes over ---- */

static void on_old_closed(struct disk_req *rq) {
    end_block(rq->u, ERR_OK);
}

static void on_taken_over(struct sync_other *so, err e) {
    struct store *st = so->u;
    struct marks *mk = &st->marks;
    if (e != ERR_OK) {
        store_fatal(st, "sync of the durable marks' directory failed");
        end_block(st, e);
        return;
    }
    mk->rq = (struct disk_req){.file = mk->file};
    mk->file = mk->fresh;
    mk->fresh = NULL;
    mk->end = mk->proven = (int64_t)mk->buf_n;
    mk->torn = false;
    st->begun = true;
    st->stats.checkpoints++;
    mark("marks.compacted");
    if (mk->rq.file) {
        submit(st, DISK_CLOSE, on_old_closed);
    } else {
        end_block(st, ERR_OK);
    }
}

static void on_renamed(struct disk_req *rq) {
    struct store *st = rq->u;
    if (rq->err != ERR_OK) {
        store_fatal(st, "the durable marks cannot be replaced");
        end_block(st, rq->err);
        return;
    }
    sync_then(st, NULL, &st->marks.dir, on_taken_over);
}

static void on_fresh_synced(struct sync_other *so, err e) {
    struct store *st = so->u;
    struct marks *mk = &st->marks;
    if (e != ERR_OK) {
        store_fatal(st, "sync of the durable marks failed");
        end_block(st, e);
        return;
    }
    mk->rq = (struct disk_req){.path = mk->temp, .path2 = mk->path};
    submit(st, DISK_RENAME, on_renamed);
}

static void on_fresh_closed(struct disk_req *rq) {
    struct store *st = rq->u;
    st->marks.fresh = NULL;
    st->marks.sequence = st->marks.sequence_back;
    move_again(st);
    end_block(st, ERR_NOSPACE);
}

static void on_fresh_written(struct disk_req *rq) {
    struct store *st = rq->u;
    struct marks *mk = &st->marks;
    if (rq->err != ERR_OK) {       /* the old file stays in use */
        mk->rq = (struct disk_req){.file = mk->fresh};
        submit(st, DISK_CLOSE, on_fresh_closed);
        return;
    }
    sync_then(st, &mk->fresh, NULL, on_fresh_synced);
}

static void on_fresh_opened(struct disk_req *rq) {
    struct store *st = rq->u;
    struct marks *mk = &st->marks;
    if (rq->err != ERR_OK) {
        refused(st, rq);
        return;
    }
    mk->fresh = rq->file;
    write_buf(st, mk->fresh, 0, on_fresh_written);
}

static bool has_grown(const struct store *st) {
    int64_t live = (int64_t)(st->stats.logs * MARKS_ENTRY_BYTES) + (int64_t)(st->marks.foreign_n * MARKS_ENTRY_BYTES);
    return st->marks.end > GROWN_TIMES * live + GROWN_BYTES;
}

static void start_compaction(struct store *st) {
    struct marks *mk = &st->marks;
    if (!build_all(st)) {
        mk->sequence = mk->sequence_back;
        trim_durable(st, false);
        return;
    }
    while (list_pop_front(&mk->moved)) {
    }
    mk->gone_n = 0;
    mk->moved_bytes = 0;
    mk->at_once = false;
    mk->busy = true;
    mk->rq = (struct disk_req){.path = mk->temp, .flags = DISK_RDWR | DISK_CREATE | DISK_TRUNC};
    submit(st, DISK_OPEN, on_fresh_opened);
}

/* ---- when ---- */

static bool is_empty(const struct marks *mk) {
    return list_empty(&mk->moved) && mk->gone_n == 0;
}

ms marks_due(const struct store *st) {
    const struct marks *mk = &st->marks;
    if (mk->busy || is_empty(mk) || !st->begun) {
        return INT64_MAX;
    }
    return mk->at_once ? mk->moved_since : mk->moved_since + st->conf.checkpoint_age;
}

void marks_pass(struct store *st, ms now) {
    struct marks *mk = &st->marks;
    if (mk->busy || st->dead) {
        return;
    }
    if (!st->begun) {
        if (!st->space_low && !st->stopping) {
            start_compaction(st);
        }
    } else if (mk->done) {
        mk->finishing = true;
        start_block(st, MARKS_CLEAN);
    } else if (!is_empty(mk) && (mk->moved_bytes >= st->conf.checkpoint_bytes || marks_due(st) <= now)) {
        if (has_grown(st)) {
            start_compaction(st);
        } else {
            start_block(st, MARKS_MOVED);
        }
    }
}

void marks_finish(struct store *st, void (*done)(struct store *st, err e)) {
    list_each(it, &st->logs) {
        struct plog *lg = list_entry(it, struct plog, all);
        if ((lg->fenced || lg->held || lg->heavy.off != lg->stable.off || !trim_is_over(lg)) && !is_blank(lg)) {
            marks_note(lg, 0);     /* its last mark must say that it is not settled */
        }
    }
    st->marks.done = done;
}
