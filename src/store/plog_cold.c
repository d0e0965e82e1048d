/* Reading what is no longer in memory, through the disk's read lane.
 *
 * Happy path: make the segment ready (cold.c), find where to start (where the last cold read ended, else the index),
 * read up to LIMIT_COLD_BYTES into a chunk, check header, offset chain and CRC of every batch that is handed out,
 * and lend that chunk to the reader.
 * Failure modes: an index entry that does not point at its batch is distrusted once: the index is built again and
 * the read repeated. A batch that is not what must be there is DAMAGED, said with file and position; the log is not
 * fenced by a bad read (T17): other batches are served.
 * Runs on: owner shard. */
#include "base/limits.h"
#include "base/log.h"
#include "base/mark.h"
#include "base/mem.h"
#include "base/must.h"
#include "scan.h"
#include "store_in.h"

struct plog_cold_work {
    struct cold_need need;
    struct plog_cold *c;
    struct chunk *chunk;
    int64_t pos, end;              /* where the chunk's bytes lie in the segment; end of the segment's written bytes */
    off64 expect; /* base offset that must stand at pos; -1: an index entry says last offset `entry_last` */
    off64 entry_last;
    off64 expect_max;              /* where the segment's offsets end */
    bool from_index, rebuilt;
};

static void on_ready(struct cold_need *nd, err e);

static void finish(struct plog_cold_work *w, err e) {
    struct plog_cold *c = w->c;
    struct plog *lg = c->lg;
    struct store *st = lg->st;
    if (w->need.pinned) {
        files_unpin(st, w->need.seg, DISK_LANE_READ);
    }
    chunk_unref(w->chunk);
    mem_free(w);
    st->pending--;
    c->work = NULL;
    c->err = lg->dead ? ERR_NO_TOPIC : e;
    if (c->err == ERR_OK) {
        st->stats.cold_reads++;
        st->stats.cold_bytes += c->got.bytes;
    }
    c->done(c);
    plog_put(lg);
    store_settle(st);
}

static void damaged(struct plog_cold_work *w, int64_t at) {
    plog_damaged(w->c->lg, w->need.seg->base, at, "not the batch that was written there");
    mark("cold.damaged");
    finish(w, ERR_DAMAGED);
}

/* Once more, with an index built from the segment itself. */
static void distrust_index(struct plog_cold_work *w) {
    mark("cold.distrust");
    files_unpin(w->c->lg->st, w->need.seg, DISK_LANE_READ);
    w->need.pinned = false;
    w->need.index = w->need.rebuild = w->rebuilt = true;
    cold_need_start(&w->need);
}

static void read_at(struct plog_cold_work *w, int64_t pos, size_t n);

/* Hand out [first, first + n) of the chunk. */
static void give(struct plog_cold_work *w, size_t first, size_t n, off64 next) {
    struct plog_cold *c = w->c;
    if (n > 0) {
        c->got.v[0] = (struct plog_piece){.chunk = chunk_ref(w->chunk), .bytes = span_of(w->chunk->data + first, n)};
        c->got.n = 1;
        c->got.bytes = n;
        w->need.seg->cold_off = next;
        w->need.seg->cold_pos = w->pos + (int64_t)(first + n);
    }
    c->got.next = next;
    finish(w, ERR_OK);
}

struct walk {
    size_t at;                     /* bytes looked at */
    size_t first, n;               /* what is taken */
    off64 next;
    size_t need;                   /* bytes that the batch at `at` needs, when it is not whole; 0: unknown */
    bool full, found;
};

/* OK: the chunk was looked through; CORRUPT at wk->at. */
static err walk_chunk(struct plog_cold_work *w, size_t have, struct walk *wk) {
    const struct plog_want *want = &w->c->want;
    struct batch_head h;
    while (!wk->full && wk->at < have) {
        span rest = span_of(w->chunk->data + wk->at, have - wk->at);
        err e = scan_batch(rest, w->expect, false, &h);
        if (e == ERR_TORN) {
            wk->need = h.bytes;
            return ERR_OK;
        }
        if (e != ERR_OK) {
            return e;
        }
        off64 end = batch_last_offset(&h) + 1;
        if (end > w->expect_max) {
            return ERR_CORRUPT;
        }
        if (end > want->from) {
            bool fits = wk->n + h.bytes <= want->bytes_max || (wk->n == 0 && want->min_one);
            wk->first = wk->found ? wk->first : wk->at;
            wk->found = true;
            wk->full = end > want->below || !fits;
            if (wk->full && wk->n > 0) {
                return ERR_OK;
            }
            if (!batch_crc_ok(span_of(rest.p, h.bytes)) ||
                !epochs_agree(&w->c->lg->epochs, h.base_offset, h.leader_epoch)) {
                return ERR_CORRUPT; /* also of a first batch that is not given: its header must be true before it may say so */
            }
            if (wk->full) {
                return ERR_OK;
            }
            wk->n += h.bytes;
            wk->next = end;
        }
        w->expect = end;
        wk->at += h.bytes;
    }
    return ERR_OK;
}

static void look(struct plog_cold_work *w, size_t have) {
    struct walk wk = {.next = w->c->want.from};
    if (w->expect < 0) {           /* first batch after an index entry: its last offset is known, its base is its own */
        struct batch_head h;
        bool ok = have >= BATCH_HEAD_BYTES && batch_peek(span_of(w->chunk->data, have), &h) == ERR_OK &&
                  batch_last_offset(&h) == w->entry_last;
        w->expect = ok ? h.base_offset : -1;
    }
    err e = w->expect < 0 ? ERR_CORRUPT : walk_chunk(w, have, &wk);
    if (e != ERR_OK && wk.at == 0 && w->from_index && !w->rebuilt) {
        distrust_index(w);
    } else if (e != ERR_OK && wk.n == 0) {
        damaged(w, w->pos + (int64_t)wk.at);
    } else if (wk.n > 0 || wk.full) {
        give(w, wk.first, wk.n, wk.next);          /* a bad batch behind good ones is met by the next read */
    } else if (w->pos + (int64_t)wk.at >= w->end || w->pos + (int64_t)(wk.at + wk.need) > w->end) {
        damaged(w, w->pos + (int64_t)wk.at);       /* the segment ends before an offset that it must hold */
    } else {
        w->from_index = false;
        read_at(w, w->pos + (int64_t)wk.at, wk.need);
    }
}

static void on_read(struct disk_req *rq) {
    struct plog_cold_work *w = rq->u;
    if (rq->err != ERR_OK || w->c->lg->dead) {
        finish(w, rq->err);
    } else if (rq->did < rq->len) {
        damaged(w, w->pos + (int64_t)rq->did);     /* the file is shorter than what was written to it */
    } else {
        look(w, rq->did);
    }
}

/* Reads from pos: what was asked for and a little more, at least n bytes. */
static void read_at(struct plog_cold_work *w, int64_t pos, size_t n) {
    const struct plog_want *want = &w->c->want;
    struct store *st = w->c->lg->st;
    size_t len = want->bytes_max < LIMIT_COLD_BYTES ? want->bytes_max : LIMIT_COLD_BYTES;
    len += BATCH_HEAD_BYTES + (w->from_index ? 2 * (size_t)w->c->lg->conf->index_interval_bytes : 0);
    len = len < n ? n : len;
    len = (int64_t)len > w->end - pos ? (size_t)(w->end - pos) : len;
    chunk_unref(w->chunk);
    w->chunk = chunk_new(st->chunks, len);
    if (!w->chunk) {
        finish(w, ERR_NOMEM);
        return;
    }
    w->pos = pos;
    w->c->rq = (struct disk_req){.op = DISK_READ,
                                 .lane = DISK_LANE_READ,
                                 .file = w->need.seg->file,
                                 .at = pos,
                                 .buf = w->chunk->data,
                                 .len = len,
                                 .done = on_read,
                                 .u = w};
    disk_submit(st->disk, &w->c->rq);
}

static void start(struct plog_cold_work *w) {
    struct plog *lg = w->c->lg;
    struct seg *sg = w->need.seg;
    off64 from = w->c->want.from;
    struct segidx_at at;
    bool cold;
    const struct seg *after = plog_next_seg(lg, sg);
    w->end = sg == lg->written.seg ? lg->written.pos : sg->size;
    w->expect_max = sg == lg->written.seg || !after ? lg->written.off : after->base;
    w->from_index = false;
    if (sg->cold_off == from && sg->cold_pos < w->end && !w->rebuilt) {
        w->expect = from;
        read_at(w, sg->cold_pos, 0);
    } else if (segidx_find(&sg->index, (uint32_t)(from - sg->base), &at, &cold)) {
        w->expect = -1;
        w->entry_last = sg->base + at.rel;
        w->from_index = true;
        if (at.position < w->end) {
            read_at(w, at.position, 0);
        } else {
            distrust_index(w);
        }
    } else if (cold) {             /* the hint was of no use after all */
        w->need.index = true;
        files_unpin(lg->st, sg, DISK_LANE_READ);
        cold_need_start(&w->need);
    } else {
        w->expect = sg->base;
        read_at(w, 0, 0);
    }
}

static void on_ready(struct cold_need *nd, err e) {
    struct plog_cold_work *w = nd->u;
    const struct plog_want *want = &w->c->want;
    struct plog *lg = w->c->lg;
    if (e != ERR_OK) {
        nd->pinned = false;        /* cold_need let go */
        finish(w, e);
    } else if (want->from < lg->start || want->from > lg->next) {
        finish(w, ERR_OFFSET_RANGE);
    } else {
        start(w);
    }
}

void plog_cold_read(struct plog *lg, struct plog_cold *c) {
    struct plog_cold_work *w = mem_zalloc(MEM_LOG, sizeof *w);
    plog_got_init(&c->got);
    c->lg = lg;
    c->work = w;
    c->got.next = c->want.from;
    bool inside = c->want.from >= lg->start && c->want.from <= lg->next, lost = plog_is_lost(lg);
    if (!w || !inside || lost || c->want.from >= c->want.below) {
        mem_free(w);
        c->work = NULL;
        c->err = lost ? ERR_FENCED : !inside ? ERR_OFFSET_RANGE : w ? ERR_OK : ERR_NOMEM;
        c->done(c);
        return;
    }
    must(c->want.below <= lg->written.off);        /* what may be read is in the file */
    const struct seg *sg = plog_seg_for(lg, c->want.from);
    w->c = c;
    w->need = (struct cold_need){
        .lg = lg, .at = c->want.from, .index = !sg || sg->cold_off != c->want.from, .ready = on_ready, .u = w};
    lg->st->pending++;
    plog_get(lg);
    cold_need_start(&w->need);
}
