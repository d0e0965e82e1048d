/* Making a log's files ready for reading beyond the tail, through the read lane.
 *
 * Happy path: list the directory once per start (closed segments that the mark only counted), open the segment, load
 * its index files whole and check that they are increasing and inside the segment. Loaded indexes share a budget;
 * the least recently used go.
 * Failure modes: an index file that is missing, short or nonsense is built again from its own segment (T10, T11) and
 * waits in memory for the next heavy checkpoint, which writes it whole; a segment that is missing or shorter than
 * known is DAMAGED, said with its name.
 * Runs on: owner shard. */
#include "cold.h"

#include "base/be.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "cold_build.h"
#include "seglist.h"
#include "store_in.h"

static void step(struct cold_need *nd);

void cold_init(struct store *st) {
    st->cold = (struct colds){0};
    list_init(&st->cold.loaded);
}

bool cold_is_busy(const struct store *st) {
    return st->cold.busy > 0;
}

/* ---- loaded indexes ---- */

static int64_t loaded_bytes(const struct seg *sg) {
    return (sg->index.loaded ? (int64_t)sg->index.file_n * SEGIDX_OFFSET_BYTES : 0) +
           (sg->times.loaded ? (int64_t)sg->times.file_n * SEGIDX_TIME_BYTES : 0);
}

void cold_unload(struct store *st, struct seg *sg) {
    st->cold.loaded_bytes -= loaded_bytes(sg);
    mem_free(sg->index.loaded);
    mem_free(sg->times.loaded);
    sg->index.loaded = sg->times.loaded = NULL;
    list_remove(&sg->loaded);
}

static void note_loaded(struct store *st, struct seg *sg) {
    list_remove(&sg->loaded);
    list_push_back(&st->cold.loaded, &sg->loaded);
    while (st->cold.loaded_bytes > LIMIT_INDEXES_LOADED_BYTES && st->cold.loaded.next != &sg->loaded) {
        cold_unload(st, list_entry(st->cold.loaded.next, struct seg, loaded));
    }
}

/* ---- steps ---- */

/* A segment that a request of ours names stays in memory, also when retention takes it out of its log meanwhile. */
static void hold(struct cold_need *nd, struct seg *sg) {
    struct seg *old = nd->held;
    if (old == sg) {
        return;
    }
    nd->held = sg;
    if (sg) {
        sg->holds++;
    }
    if (old && --old->holds == 0 && old->gone) {
        files_bury(nd->lg->st, old);
    }
}

static void finish(struct cold_need *nd, err e) {
    struct plog *lg = nd->lg;
    struct store *st = lg->st;
    if (e != ERR_OK && nd->pinned) {
        files_unpin(st, nd->seg, DISK_LANE_READ);
        nd->pinned = false;
    }
    hold(nd, NULL);                    /* a pin holds it, too */
    st->cold.busy--;
    nd->ready(nd, e);
    plog_put(lg);
    store_settle(st);
}

static void submit(struct cold_need *nd, enum disk_op op, void (*done)(struct disk_req *rq)) {
    nd->rq.op = op;
    nd->rq.lane = DISK_LANE_READ;
    nd->rq.done = done;
    nd->rq.u = nd;
    nd->rq.path = nd->path;
    disk_submit(nd->lg->st->disk, &nd->rq);
}

static void damaged(struct cold_need *nd, off64 base, const char *what) {
    plog_damaged(nd->lg, base, -1, what);
    finish(nd, ERR_DAMAGED);
}

/* ---- the directory ---- */

static struct seg *first_seg(const struct plog *lg) {
    return list_entry(lg->segs.next, struct seg, link);
}

static void on_listed(struct disk_req *rq) {
    struct cold_need *nd = rq->u;
    struct plog *lg = nd->lg;
    nd->listed = true;
    if (rq->err != ERR_OK) {
        finish(nd, rq->err == ERR_NOT_FOUND ? ERR_DAMAGED : rq->err);
        return;
    }
    struct seg *known = first_seg(lg);
    bool add = lg->segs_partial && !lg->dead;
    off64 *bases = NULL;
    size_t bases_n = 0;
    err e = add ? seglist_add(lg, rq->entries, rq->entries_n, known->base, known->base) : ERR_OK;
    if (e == ERR_OK && !lg->dead) {
        seglist_times(lg, rq->entries, rq->entries_n);
        bases_n = seglist_left_over(first_seg(lg)->base <= lg->start ? first_seg(lg)->base : -1, rq->entries, rq->entries_n, &bases);
        trim_left_over(lg, bases, bases_n);
    }
    disk_entries_free(rq->entries, rq->entries_n);
    if (e != ERR_OK) {
        finish(nd, e);
        return;
    }
    if (!add) {
        step(nd);
        return;
    }
    lg->segs_partial = false;
    const struct seg *last = known->link.prev == &lg->segs ? NULL : list_entry(known->link.prev, struct seg, link);
    if (!last || last->before + last->size != known->before || last->ordinal + 1 != known->ordinal) {
        log_error("seg.damaged", "path='%s' what='segments are missing or have other sizes than the durable mark says'",
                  nd->path);
    }
    step(nd);
}

/* ---- the file ---- */

static void on_useless_closed(struct disk_req *rq) {
    step(rq->u);
}

static void on_opened(struct disk_req *rq) {
    struct cold_need *nd = rq->u;
    struct plog *lg = nd->lg;
    struct seg *sg = nd->seg;
    if (rq->err != ERR_OK) {
        if (rq->err == ERR_NOT_FOUND && sg->gone) {
            finish(nd, ERR_OFFSET_RANGE);
        } else if (rq->err == ERR_NOT_FOUND && !lg->dead) {
            damaged(nd, sg->base, "missing");
        } else {
            finish(nd, rq->err);
        }
        return;
    }
    if (sg->file || lg->dead || sg->gone) {
        submit(nd, DISK_CLOSE, on_useless_closed);     /* nothing was written through it */
        return;
    }
    sg->file = rq->file;
    files_opened(lg->st, sg);
    files_pin(sg);
    nd->pinned = true;
    files_trim(lg->st, lg->st->conf.files_max, DISK_LANE_READ);
    if (rq->size < (sg == lg->written.seg ? lg->written.pos : sg->size)) {
        damaged(nd, sg->base, "shorter than it was");
        return;
    }
    step(nd);
}

/* ---- index files ---- */

static struct segidx *loading(struct cold_need *nd) {
    return nd->loading_times ? &nd->seg->times : &nd->seg->index;
}

static size_t entry_bytes(const struct cold_need *nd) {
    return nd->loading_times ? SEGIDX_TIME_BYTES : SEGIDX_OFFSET_BYTES;
}

/* A closed segment's last time index entry carries its largest timestamp. */
static void take_timestamps(struct seg *sg) {
    const struct segidx *ix = &sg->times;
    const uint8_t *last = ix->pend_n > 0 ? ix->pend + (ix->pend_n - 1) * SEGIDX_TIME_BYTES
                          : ix->file_n > 0 ? ix->loaded + (ix->file_n - 1) * SEGIDX_TIME_BYTES : NULL;
    sg->max_ts = last ? (ms)be64_get(last) : -1;
    sg->max_ts_offset = last ? sg->base + be32_get(last + 8) : -1;
    sg->ts_unknown = false;
}

static void on_index_closed(struct disk_req *rq) {
    struct cold_need *nd = rq->u;
    struct seg *sg = nd->seg;
    struct segidx *ix = loading(nd);
    const struct seg *after = sg->gone ? NULL : plog_next_seg(nd->lg, sg);
    uint64_t rel_end = (uint64_t)((after ? after->base : nd->lg->next) - sg->base);
    if (ix->file_n != nd->entries_n || sg->gone) { /* a heavy checkpoint added some meanwhile; retention */
        mem_free(nd->buf);
        nd->buf = NULL;
        step(nd);
        return;
    }
    bool ok = nd->rq.did == ix->file_n * entry_bytes(nd) &&
              (nd->loading_times ? segidx_times_ok(nd->buf, ix->file_n, rel_end)
                                 : segidx_offsets_ok(nd->buf, ix->file_n, rel_end, (uint64_t)sg->size));
    if (!ok || ix->loaded) {
        mem_free(nd->buf);
        sg->index_bad = sg->index_bad || !ok;
    } else {
        ix->loaded = nd->buf;
        nd->lg->st->cold.loaded_bytes += (int64_t)(ix->file_n * entry_bytes(nd));
        note_loaded(nd->lg->st, sg);
    }
    nd->buf = NULL;
    step(nd);
}

static void on_index_read(struct disk_req *rq) {
    struct cold_need *nd = rq->u;
    rq->did = rq->err == ERR_OK ? rq->did : SIZE_MAX;
    rq->file = nd->file;
    submit(nd, DISK_CLOSE, on_index_closed);
}

static void on_index_opened(struct disk_req *rq) {
    struct cold_need *nd = rq->u;
    nd->entries_n = loading(nd)->file_n;
    size_t n = nd->entries_n * entry_bytes(nd);
    if (rq->err == ERR_NOT_FOUND) {
        nd->seg->index_bad = !nd->seg->gone;
        step(nd);
        return;
    }
    nd->buf = rq->err == ERR_OK ? mem_alloc(MEM_INDEX, n) : NULL;
    if (!nd->buf) {
        err e = rq->err;
        if (e != ERR_OK) {
            finish(nd, e);
        } else {
            nd->out_of_memory = true;
            submit(nd, DISK_CLOSE, on_useless_closed);
        }
        return;
    }
    nd->file = rq->file;
    rq->at = 0;
    rq->buf = nd->buf;
    rq->len = n;
    submit(nd, DISK_READ, on_index_read);
}

static bool is_missing(const struct segidx *ix) {
    return ix->file_n > 0 && !ix->loaded;
}

static void load(struct cold_need *nd, bool times) {
    nd->loading_times = times;
    names_segment(&nd->lg->id, nd->seg->base, times ? ".timeindex" : ".index", nd->path);
    nd->rq.flags = DISK_RDONLY;
    submit(nd, DISK_OPEN, on_index_opened);
}

static void on_built(void *u, err e) {
    struct cold_need *nd = u;
    nd->rebuild = false;
    if (e != ERR_OK) {
        finish(nd, e);
    } else {
        step(nd);
    }
}

static void step(struct cold_need *nd) {
    struct plog *lg = nd->lg;
    struct store *st = lg->st;
    if (lg->dead || st->dead || nd->out_of_memory) {
        finish(nd, lg->dead ? ERR_NO_TOPIC : st->dead ? ERR_IO : ERR_NOMEM);
        return;
    }
    if (nd->list ? !nd->listed && lg->dir_made : lg->segs_partial && nd->at < first_seg(lg)->base) {
        names_dir(&lg->id, nd->path);
        submit(nd, DISK_LIST, on_listed);
        return;
    }
    if (nd->list) {
        finish(nd, ERR_OK);
        return;
    }
    if (nd->at < lg->start || (nd->seg && nd->seg->gone)) {        /* retention was faster */
        finish(nd, ERR_OFFSET_RANGE);
        return;
    }
    nd->seg = nd->pinned ? nd->seg : plog_seg_for(lg, nd->at);
    struct seg *sg = nd->seg;
    hold(nd, sg);
    if (!sg || !sg->made) {
        damaged(nd, sg ? sg->base : lg->start, "no segment holds an offset that the log has");
    } else if (!sg->file) {
        names_segment(&lg->id, sg->base, ".log", nd->path);
        nd->rq.flags = DISK_RDWR;
        submit(nd, DISK_OPEN, on_opened);
    } else if (!nd->pinned) {
        files_pin(sg);
        nd->pinned = true;
        files_touch(st, sg);
        step(nd);
    } else if ((nd->index || nd->times) && (sg->index_bad || nd->rebuild)) {
        cold_build_start(lg, sg, on_built, nd);
    } else if (nd->index && is_missing(&sg->index)) {
        load(nd, false);
    } else if (nd->times && is_missing(&sg->times)) {
        load(nd, true);
    } else {
        if (nd->times && sg->ts_unknown) {
            take_timestamps(sg);
        }
        finish(nd, ERR_OK);
    }
}

void cold_need_start(struct cold_need *nd) {
    struct plog *lg = nd->lg;
    nd->seg = nd->held = NULL;
    nd->pinned = nd->out_of_memory = nd->listed = false;
    nd->buf = NULL;
    nd->rq = (struct disk_req){0};
    plog_get(lg);
    lg->st->cold.busy++;
    step(nd);
}
