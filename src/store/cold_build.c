/* Building a segment's indexes again (T10, T11), batch by batch with CRC, in pieces through the read lane; only this
 * segment is read.
 *
 * Happy path: a scratch segment notes each batch exactly as appending did; at the end its entries become the real
 * segment's waiting ones, before those that were added meanwhile. The next heavy checkpoint writes the files whole.
 * Failure modes: a batch that is not what must come there: DAMAGED, said with file and position, and the segment's
 * readers get it.
 * Runs on: owner shard. */
#include "cold_build.h"

#include <string.h>

#include "base/be.h"
#include "base/log.h"
#include "base/mark.h"
#include "base/mem.h"
#include "scan.h"
#include "store_in.h"

#define PIECE_BYTES (1 << 20)

struct cold_build {
    struct plog *lg;
    struct seg *sg, *scratch;
    int64_t at, end;               /* next byte to look at; where to stop */
    off64 expect;
    uint8_t *buf;
    size_t cap;
    void (*done)(void *u, err e);
    void *u;
    struct disk_req rq;
};

static void finish(struct cold_build *cb, err e) {
    void (*done)(void *u, err r) = cb->done;
    void *u = cb->u;
    seg_free(cb->scratch);
    mem_free(cb->buf);
    mem_free(cb);
    done(u, e);
}

/* The built entries come before those that wait already. */
static bool prepend(struct segidx *ix, struct segidx *built, size_t entry_bytes) {
    if (ix->pend_n > 0) {
        uint8_t *p = mem_realloc(MEM_INDEX, built->pend, (built->pend_n + ix->pend_n) * entry_bytes);
        if (!p) {
            return false;
        }
        memcpy(p + built->pend_n * entry_bytes, ix->pend, ix->pend_n * entry_bytes);
        built->pend = p;
        built->pend_n += ix->pend_n;
        built->pend_cap = built->pend_n;
    }
    mem_free(ix->pend);
    *ix = (struct segidx){.pend = built->pend, .pend_n = built->pend_n, .pend_cap = built->pend_cap};
    *built = (struct segidx){0};
    return true;
}

static err install(struct cold_build *cb) {
    struct seg *sg = cb->sg, *made = cb->scratch;
    if (sg != plog_active(cb->lg)) {
        seg_seal(made);
    }
    if (sg->index.pend_n > 0) {
        segidx_cut_offset(&made->index, be32_get(sg->index.pend + 4));
    }
    if (sg->times.pend_n > 0) {
        segidx_cut_time(&made->times, be32_get(sg->times.pend + 8));
    }
    cold_unload(cb->lg->st, sg);
    heavy_spoil(cb->lg);
    if (!prepend(&sg->index, &made->index, SEGIDX_OFFSET_BYTES) ||
        !prepend(&sg->times, &made->times, SEGIDX_TIME_BYTES)) {
        return ERR_NOMEM;
    }
    if (sg->ts_unknown) {
        sg->first_ts = made->first_ts;
        sg->max_ts = made->max_ts;
        sg->max_ts_offset = made->max_ts_offset;
        sg->ts_unknown = false;
    }
    sg->time_last = segidx_last_time(&sg->times, -1);
    sg->index_bad = sg->indexed = false;
    cb->lg->rolled = true;         /* a heavy checkpoint writes them */
    heavy_note(cb->lg);
    mark("cold.rebuilt");
    log_warn("index.rebuilt", "log='%s-%d' segment=%020lld", cb->lg->id.topic, cb->lg->id.partition,
             (long long)sg->base);
    return ERR_OK;
}

static void read_on(struct cold_build *cb, size_t n);

static void damaged(struct cold_build *cb) {
    plog_damaged(cb->lg, cb->sg->base, cb->at, "not the batch that was written there");
    finish(cb, ERR_DAMAGED);
}

static void on_read(struct disk_req *rq) {
    struct cold_build *cb = rq->u;
    size_t used = 0;
    struct batch_head h;
    err e = rq->err;
    if (e != ERR_OK || cb->lg->dead) {
        finish(cb, e != ERR_OK ? e : ERR_NO_TOPIC);
        return;
    }
    if (rq->did < rq->len) {
        damaged(cb);
        return;
    }
    while (cb->at + (int64_t)used < cb->end &&
           (e = scan_batch(span_of(cb->buf + used, rq->did - used), cb->expect, true, &h)) == ERR_OK) {
        seg_note(cb->scratch, &h, cb->lg->conf->index_interval_bytes);
        cb->expect = batch_last_offset(&h) + 1;
        used += h.bytes;
    }
    cb->at += (int64_t)used;
    if (cb->at >= cb->end) {
        finish(cb, install(cb));
    } else if (e == ERR_TORN && cb->at + (int64_t)(h.bytes ? h.bytes : BATCH_HEAD_BYTES) <= cb->end) {
        read_on(cb, h.bytes);
    } else {
        damaged(cb);
    }
}

/* Reads the next piece, of at least n bytes. */
static void read_on(struct cold_build *cb, size_t n) {
    n = n < PIECE_BYTES ? PIECE_BYTES : n;
    if (cb->lg->dead) {
        finish(cb, ERR_NO_TOPIC);
        return;
    }
    if (n > cb->cap) {
        uint8_t *p = mem_realloc(MEM_LOG, cb->buf, n);
        if (!p) {
            finish(cb, ERR_NOMEM);
            return;
        }
        cb->buf = p;
        cb->cap = n;
    }
    size_t left = (size_t)(cb->end - cb->at);
    cb->rq = (struct disk_req){.op = DISK_READ,
                               .lane = DISK_LANE_READ,
                               .file = cb->sg->file,
                               .at = cb->at,
                               .buf = cb->buf,
                               .len = n < left ? n : left,
                               .done = on_read,
                               .u = cb};
    disk_submit(cb->lg->st->disk, &cb->rq);
}

void cold_build_start(struct plog *lg, struct seg *sg, void (*done)(void *u, err e), void *u) {
    struct cold_build *cb = mem_zalloc(MEM_LOG, sizeof *cb);
    struct seg *scratch = seg_new(sg->base);
    if (!cb || !scratch) {
        mem_free(cb);
        seg_free(scratch);
        done(u, ERR_NOMEM);
        return;
    }
    *cb = (struct cold_build){.lg = lg, .sg = sg, .scratch = scratch, .expect = sg->base, .done = done, .u = u};
    cb->end = sg == lg->written.seg ? lg->written.pos : sg->size;
    if (cb->end == 0) {
        finish(cb, install(cb));
        return;
    }
    read_on(cb, 0);
}
