/* Retention of one log: which of its oldest segments are to go (S18.3 to S18.6).
 *
 * Happy path: segments from the oldest on, as long as one may go: by size while what remains is no less than retention.bytes without it, by age
 * while its largest timestamp is older than retention.ms; a segment whose batches carry no timestamps counts from when its file was written last, as
 * Kafka has it. The first that stays ends it; nothing at or above the high watermark goes, nor what is not stable. Most logs have one segment whose
 * bookkeeping is in memory: then no request is made. Closed segments of a former run are listed and their time indexes read, once, one at a time.
 * Failure modes: a directory or index that cannot be read: the log is left alone until the next look; nothing is deleted on doubt.
 * Runs on: owner shard. */
#include "base/mem.h"
#include "store_in.h"

struct retain_work {
    struct plog_retain *q;
    struct cold_need need;
    bool times;                    /* timestamps that were read were no help: do not read them for ever */
};

struct look_work {
    struct cold_need need;
    void (*done)(void *u, err e);
    void *u;
};

static void advance(struct retain_work *w);

static void finish(struct retain_work *w, err e) {
    struct plog_retain *q = w->q;
    struct plog *lg = q->lg;
    struct store *st = lg->st;
    off64 start;
    int64_t bytes;
    uint32_t segs;
    trim_said(lg, &start, &bytes, &segs);
    bool any = q->to > start || q->to == lg->next;             /* all of it: what a deletion left of the active segment goes, too */
    if (e == ERR_OK && any && !lg->fenced && !lg->dead && !st->stopping) {
        (void)trim_begin(lg, q->to, false);        /* no memory: the next look tries again */
    }
    mem_free(w);
    st->pending--;
    q->done(q);
    plog_put(lg);
    store_settle(st);
}

static void on_need(struct cold_need *nd, err e) {
    struct retain_work *w = nd->u;
    struct plog *lg = w->q->lg;
    if (e == ERR_OK && !nd->list) {
        files_unpin(lg->st, nd->seg, DISK_LANE_READ);
    }
    if (lg->dead || (e != ERR_OK && e != ERR_OFFSET_RANGE)) {
        finish(w, e == ERR_OK ? ERR_NO_TOPIC : e);
    } else {
        advance(w);
    }
}

static void need_list(struct retain_work *w) {
    w->need = (struct cold_need){.lg = w->q->lg, .list = true, .ready = on_need, .u = w};
    cold_need_start(&w->need);
}

static void need_times(struct retain_work *w, off64 at) {
    w->need = (struct cold_need){.lg = w->q->lg, .at = at, .times = true, .ready = on_need, .u = w};
    cold_need_start(&w->need);
}

/* Is the segment older than retention.ms? False with *ret_wait: that is not known yet, and asked for. */
static bool is_old(struct retain_work *w, const struct seg *sg, bool *ret_wait) {
    const struct plog_retain *q = w->q;
    const struct plog *lg = q->lg;
    if (sg->ts_unknown) {
        *ret_wait = true;
        need_times(w, sg->base > lg->start ? sg->base : lg->start);
        return false;
    }
    if (sg->max_ts < 0 && sg->mtime == 0 && !w->times) {
        *ret_wait = w->times = true;
        need_list(w);
        return false;
    }
    ms ts = sg->max_ts >= 0 ? sg->max_ts : sg->mtime;
    return (sg->max_ts >= 0 || sg->mtime > 0) && q->wall > ts && q->wall - ts > q->age;
}

/* True when the answer is known; false: a request is on its way, or the work is over. */
static bool judge(struct retain_work *w) {
    struct plog_retain *q = w->q;
    const struct plog *lg = q->lg;
    const struct seg *active = plog_active(lg);
    off64 start;
    int64_t before;
    uint32_t segs;
    trim_said(lg, &start, &before, &segs);
    int64_t left = active ? active->before + active->size - before : 0;
    q->to = start;
    for (const struct seg *sg = plog_seg_for(lg, start); sg; sg = plog_next_seg(lg, sg)) {
        const struct seg *after = plog_next_seg(lg, sg);
        off64 end = after ? after->base : lg->next;
        bool by_size = q->bytes >= 0 && left - sg->size >= q->bytes, wait = false;
        if (end > q->below || end > lg->stable.off || sg->size == 0) {
            break;
        }
        if (!by_size && (q->age < 0 || !is_old(w, sg, &wait))) {
            if (wait) {
                return false;
            }
            break;
        }
        left -= sg->size;
        q->to = end;
    }
    return true;
}

static void advance(struct retain_work *w) {
    if (w->q->lg->segs_partial) {
        need_list(w);
    } else if (judge(w)) {
        finish(w, ERR_OK);
    }
}

void plog_retain(struct plog *lg, struct plog_retain *q) {
    q->lg = lg;
    q->to = lg->start;
    bool idle = (q->age < 0 && q->bytes < 0) || lg->fenced || lg->dead || lg->unrecovered || lg->st->stopping || !plog_active(lg) ||
                (lg->stable.off == lg->start && plog_active(lg)->size == 0);
    struct retain_work *w = idle ? NULL : mem_zalloc(MEM_LOG, sizeof *w);
    if (!w) {
        q->done(q);
        return;
    }
    w->q = q;
    lg->st->pending++;
    plog_get(lg);
    advance(w);
}

/* ---- only a look ---- */

static void on_looked(struct cold_need *nd, err e) {
    struct look_work *w = nd->u;
    struct plog *lg = nd->lg;
    void (*done)(void *u, err r) = w->done;
    void *u = w->u;
    mem_free(w);
    lg->st->pending--;
    done(u, lg->dead ? ERR_NO_TOPIC : e);
    plog_put(lg);
}

void plog_look(struct plog *lg, void (*done)(void *u, err e), void *u) {
    bool known = !lg->segs_partial;
    list_each(it, &lg->segs) {
        known = known && list_entry(it, struct seg, link)->mtime > 0;
    }
    struct look_work *w = known ? NULL : mem_zalloc(MEM_LOG, sizeof *w);
    if (!w) {
        done(u, known ? ERR_OK : ERR_NOMEM);
        return;
    }
    w->done = done;
    w->u = u;
    w->need = (struct cold_need){.lg = lg, .list = true, .ready = on_looked, .u = w};
    lg->st->pending++;
    plog_get(lg);
    cold_need_start(&w->need);
}
