/* Offsets by time (S8.3, S8.6; BR-010, BR-011): the first record, by offset, whose own timestamp is at or after the
 * one asked for.
 *
 * Happy path: segments in order; one whose largest timestamp is too small is skipped. In the first other one the
 * time index tells up to which offset everything is older; from there batches are read (from memory or the disk),
 * and those whose header allows it are unpacked and walked. Timestamps need not be in order: the walk goes on until
 * a record qualifies. For the largest timestamp the segment's own bookkeeping names the batch.
 * Failure modes: a batch that turns out to be nonsense, or too large, holds "no such record" from there on (DESIGN
 * 3, validation); a bad read ends the search with its err. Batches whose headers promise what they do not hold are
 * unpacked for nothing: after so many bytes of that the shard serves others before the search goes on (T55). Nothing
 * at or above `below` is ever answered.
 * Runs on: owner shard. */
#include "base/be.h"
#include "base/limits.h"
#include "base/mem.h"
#include "store_in.h"
#include "wire/record_scan.h"
#include "wire/zip.h"

#define READ_BYTES (256 << 10)
#define UNPACK_BYTES LIMIT_UNZIP_BYTES_MIN     /* unpacked at one go, and a batch more */

enum phase { PHASE_SEGMENTS, PHASE_SCAN, PHASE_HEADS };

struct plog_find_work {
    struct plog_find *f;
    enum phase phase;
    off64 at;                      /* where to look next */
    off64 end;                     /* PHASE_SCAN: where this segment ends */
    bool ready;                    /* cold_need was served for the segment at `at` */
    size_t unpacked;               /* bytes since the shard last served others */
    /* the largest timestamp so far, and the last offset of its batch */
    ms max_ts;
    off64 max_ts_offset;
    bool cut;                      /* the log start lies inside the batch that was looked into: its header also tells of what is deleted */
    bool inside;                   /* so the first segment's batches are looked at, the first one record by record */
    struct cold_need need;
    struct plog_cold cold;
};

static void advance(struct plog_find_work *w);

static void finish(struct plog_find_work *w, err e) {
    struct plog_find *f = w->f;
    struct plog *lg = f->lg;
    struct store *st = lg->st;
    f->err = lg->dead ? ERR_NO_TOPIC : e;
    f->found = f->found && f->err == ERR_OK;
    f->work = NULL;
    mem_free(w);
    st->pending--;
    f->done(f);
    plog_put(lg);
    store_settle(st);
}

/* ---- inside a batch ---- */

/* The first record of the batch that qualifies; false when none does or the batch cannot be read so far. */
static bool look_inside(struct plog_find_work *w, span batch, ms ts) {
    struct plog_find *f = w->f;
    struct record_scan s;
    struct record_seen r;
    bool found = false;
    if (record_scan_init(&s, batch, zip_bytes_max(batch.n)) != ERR_OK) {
        return false;
    }
    while (!found && record_scan_next(&s, &r)) {
        found = r.ts_ms >= ts && r.offset >= f->lg->start;
    }
    w->unpacked += s.z.out;
    record_scan_done(&s);
    if (found) {
        f->found = r.offset < f->below;
        f->offset = r.offset;
        f->found_ts = r.ts_ms;
    }
    return found;
}

static off64 batch_end(const uint8_t *p) {
    return (off64)be64_get(p) + (int32_t)be32_get(p + 23) + 1;
}

/* The largest timestamp of what is left of a batch in which the log starts. */
static void look_for_max(struct plog_find_work *w, span batch) {
    struct record_scan s;
    struct record_seen r;
    if (record_scan_init(&s, batch, zip_bytes_max(batch.n)) != ERR_OK) {
        return;
    }
    while (record_scan_next(&s, &r)) {
        if (r.offset >= w->f->lg->start && r.ts_ms > w->max_ts) {
            w->max_ts = r.ts_ms;
            w->max_ts_offset = batch_end(batch.p) - 1;
        }
    }
    w->unpacked += s.z.out;
    record_scan_done(&s);
}

/* Look through the batches that were read; true when the search is over, else it goes on at w->at. */
static bool look_through(struct plog_find_work *w, const struct plog_got *got) {
    ms ts = w->f->ts == PLOG_MAX_TS ? w->max_ts : w->f->ts;
    for (uint32_t i = 0; i < got->n; i++) {
        span b = got->v[i].bytes;
        for (size_t at = 0, bytes; at < b.n; at += bytes) {
            const uint8_t *p = b.p + at;
            bytes = (size_t)be32_get(p + 8) + BATCH_OVERHEAD_BYTES;
            ms max = (ms)be64_get(p + 35);
            w->cut = (off64)be64_get(p) < w->f->lg->start;
            if (w->phase == PHASE_HEADS) {
                if (w->cut) {
                    look_for_max(w, span_of(p, bytes));
                } else if (max > w->max_ts) {
                    w->max_ts = max;
                    w->max_ts_offset = batch_end(p) - 1;
                }
            } else if (max >= ts && look_inside(w, span_of(p, bytes), ts)) {
                return true;
            }
            if (w->unpacked >= UNPACK_BYTES) {
                w->at = batch_end(p);
                return false;
            }
        }
    }
    w->at = got->n > 0 ? got->next : w->end;       /* nothing: no more below `below` */
    return false;
}

/* ---- reading on ---- */

static void on_cold(struct plog_cold *c) {
    struct plog_find_work *w = c->u;
    err e = c->err;
    bool over = e == ERR_OK && look_through(w, &c->got);
    plog_got_done(&c->got);
    if ((e != ERR_OK && e != ERR_OFFSET_RANGE) || over) {
        finish(w, e);
    } else {
        advance(w);
    }
}

/* Reads at w->at; true when the answer came at once and the search goes on, false when it is over or under way. What
 * is in memory is read from the disk like the rest once enough was unpacked: the answer then comes with a later
 * turn. */
static bool read_on(struct plog_find_work *w) {
    struct plog *lg = w->f->lg;
    off64 below = w->end < w->f->below ? w->end : w->f->below;
    struct plog_want want = {.from = w->at, .below = below, .bytes_max = READ_BYTES, .min_one = true};
    struct plog_got got;
    plog_got_init(&got);
    err e = w->unpacked < UNPACK_BYTES ? plog_read(lg, &want, &got) : ERR_COLD;
    if (e == ERR_COLD) {
        w->unpacked = 0;
        w->cold.want = want;
        w->cold.done = on_cold;
        w->cold.u = w;
        plog_cold_read(lg, &w->cold);
        return false;
    }
    bool over = e == ERR_OK && look_through(w, &got);
    plog_got_done(&got);
    if (e != ERR_OK || over) {
        finish(w, e);
        return false;
    }
    return true;
}

/* ---- choosing segments ---- */

static void on_need(struct cold_need *nd, err e) {
    struct plog_find_work *w = nd->u;
    if (e == ERR_OFFSET_RANGE) {
        advance(w);
    } else if (e == ERR_OK) {
        files_unpin(w->f->lg->st, nd->seg, DISK_LANE_READ);
        w->ready = true;
        advance(w);
    } else {
        finish(w, e);
    }
}

static void need(struct plog_find_work *w, off64 at) {
    w->need = (struct cold_need){.lg = w->f->lg, .at = at, .times = true, .ready = on_need, .u = w};
    cold_need_start(&w->need);
}

static off64 seg_end(const struct plog *lg, const struct seg *sg) {
    const struct seg *after = plog_next_seg(lg, sg);
    return after ? after->base : lg->next;
}

/* Where in the segment a record at or after ts may stand first; false: the time index is on the disk. */
static bool first_place(const struct plog_find_work *w, const struct seg *sg, off64 *ret) {
    uint32_t rel;
    bool cold;
    *ret = w->at;
    if (segidx_find_time(&sg->times, w->f->ts, &rel, &cold) && sg->base + rel + 1 > w->at) {
        *ret = sg->base + rel + 1;
    }
    return !cold;
}

/* The log start moved past where the search stood (T48): what it saw below does not count any more. */
static bool begin_again(struct plog_find_work *w) {
    const struct plog *lg = w->f->lg;
    if (w->at >= lg->start && (w->max_ts_offset < 0 || w->max_ts_offset >= lg->start)) {
        return false;
    }
    w->at = lg->start;
    w->max_ts = w->max_ts_offset = -1;
    w->phase = PHASE_SEGMENTS;
    w->ready = false;
    return true;
}

/* One step over the segments for a timestamp; true to go on at once. */
static bool next_segment(struct plog_find_work *w) {
    struct plog *lg = w->f->lg;
    struct seg *sg = plog_seg_for(lg, w->at);
    if (w->at >= w->f->below || !sg) {
        if (!sg && lg->segs_partial && w->at < w->f->below) {
            need(w, w->at);
        } else {
            finish(w, ERR_OK);
        }
        return false;
    }
    if (sg->ts_unknown) {
        need(w, w->at);
        return false;
    }
    if (sg->max_ts < w->f->ts) {
        w->at = seg_end(lg, sg);
        w->ready = false;
        return true;
    }
    off64 place;
    if (!first_place(w, sg, &place) && !w->ready && w->at < tail_start(lg)) {
        need(w, w->at);
        return false;
    }
    w->at = place;
    w->end = seg_end(lg, sg);
    w->phase = PHASE_SCAN;
    return true;
}

static void consider(struct plog_find_work *w, ms ts, off64 offset) {
    if (ts > w->max_ts && offset < w->f->below && offset >= 0) {
        w->max_ts = ts;
        w->max_ts_offset = offset;
    }
}

/* The same for the largest timestamp: the segments' own bookkeeping, as far as it speaks of what may be read. */
static bool next_segment_max(struct plog_find_work *w) {
    struct plog *lg = w->f->lg;
    struct seg *sg = plog_seg_for(lg, w->at);
    if (!sg && lg->segs_partial && w->at < w->f->below) {
        need(w, w->at);
        return false;
    }
    if (w->at >= w->f->below || !sg) {
        if (w->max_ts_offset < 0) {
            finish(w, ERR_OK);
            return false;
        }
        w->at = w->max_ts_offset;
        w->end = w->max_ts_offset + 1;
        w->phase = PHASE_SCAN;
        return true;
    }
    if (sg->ts_unknown) {
        need(w, w->at);
        return false;
    }
    w->end = seg_end(lg, sg);
    if ((sg->max_ts_offset < lg->start && sg->max_ts_offset >= 0) || (w->inside && w->at == lg->start)) {
        w->phase = PHASE_HEADS;    /* the largest one is deleted: look at the batches that are left */
        return true;
    }
    if (sg->max_ts_offset < w->f->below) {
        consider(w, sg->max_ts, sg->max_ts_offset);
    } else if (lg->stable.seg == sg && lg->stable.off == w->f->below) {
        consider(w, lg->stable.max_ts, lg->stable.max_ts_offset);
    } else if (lg->written.seg == sg && lg->written.off == w->f->below) {
        consider(w, lg->written.max_ts, lg->written.max_ts_offset);
    } else {
        w->phase = PHASE_HEADS;    /* the largest one may not be read yet: look at the batches that may */
        return true;
    }
    w->at = w->end;
    return true;
}

/* The largest timestamp stood in the deleted front of the first batch. */
static void look_again(struct plog_find_work *w) {
    w->inside = true;
    w->at = w->f->lg->start;
    w->max_ts = w->max_ts_offset = -1;
    w->phase = PHASE_SEGMENTS;
    w->ready = false;
}

/* The batch of the largest timestamp is read whole although `end` cuts it: only its own offsets count. */
static bool step(struct plog_find_work *w) {
    bool by_max = w->f->ts == PLOG_MAX_TS;
    off64 limit = w->end < w->f->below ? w->end : w->f->below;
    if (w->phase == PHASE_SEGMENTS) {
        return by_max ? next_segment_max(w) : next_segment(w);
    }
    if (w->at < limit) {
        return read_on(w);
    }
    if (by_max && w->phase == PHASE_SCAN && (!w->cut || w->inside)) {
        finish(w, ERR_OK);         /* its batch could not be unpacked */
        return false;
    }
    if (by_max && w->phase == PHASE_SCAN) {
        look_again(w);
        return true;
    }
    w->phase = PHASE_SEGMENTS;
    w->ready = false;
    w->at = w->end;
    return true;
}

static void advance(struct plog_find_work *w) {
    if (w->f->lg->dead) {
        finish(w, ERR_NO_TOPIC);
        return;
    }
    while (begin_again(w) || step(w)) {
    }
}

void plog_find_time(struct plog *lg, struct plog_find *f) {
    struct plog_find_work *w = mem_zalloc(MEM_LOG, sizeof *w);
    f->lg = lg;
    f->work = w;
    f->found = false;
    f->offset = f->found_ts = -1;
    f->err = ERR_OK;
    if (!w || plog_is_lost(lg) || lg->start >= f->below || lg->next == lg->start) {
        f->err = !w ? ERR_NOMEM : plog_is_lost(lg) ? ERR_FENCED : ERR_OK;
        mem_free(w);
        f->work = NULL;
        f->done(f);
        return;
    }
    w->f = f;
    w->at = lg->start;
    w->max_ts = -1;
    w->max_ts_offset = -1;
    lg->st->pending++;
    plog_get(lg);
    advance(w);
}
