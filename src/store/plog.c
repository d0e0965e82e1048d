/* One partition's log: its life, its three ends, appending.
 *
 * Happy path: plog_open costs no I/O and one small struct; plog_reserve makes sure that plog_append cannot fail:
 * room for a piece of the tail, a segment to roll to, an epoch. plog_append decides the roll (S18.2), queues the
 * batch and moves `next`; write.c moves `written`, sync.c `stable`.
 * Failure modes: a refused write takes back what was queued and the log goes on; a failed write or sync fences it
 * until the next start.
 * Runs on: owner shard. */
#include "store/plog.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/mark.h"
#include "base/mem.h"
#include "base/must.h"
#include "store_in.h"

/* ---- life ---- */

static struct plog *plog_new(struct store *st, const struct plog_id *id, const struct log_conf *conf, void *u) {
    struct plog *lg = mem_zalloc(MEM_LOG, sizeof *lg);
    if (!lg) {
        return NULL;
    }
    lg->st = st;
    lg->id = *id;
    lg->conf = conf;
    lg->u = u;
    list_init(&lg->dirty);
    list_init(&lg->unsynced);
    list_init(&lg->moved);
    list_init(&lg->heavies);
    list_init(&lg->segs);
    epochs_init(&lg->epochs);
    lg->written.max_ts = lg->stable.max_ts = lg->written.max_ts_offset = lg->stable.max_ts_offset = -1;
    lg->heavy = (struct plog_heavy_at){.off = -1, .times_last = -1};
    lg->fresh = true;
    return lg;
}

/* The state that the durable mark describes: all there is after a clean stop. */
static err take_mark(struct plog *lg, const struct datadir_mark *m) {
    struct seg *sg = NULL;
    if (m->segments > 0) {
        sg = seg_new(m->segment);
        if (!sg) {
            return ERR_NOMEM;
        }
        sg->lg = lg;
        sg->size = m->position;
        sg->before = m->bytes - m->position;
        sg->ordinal = m->segments - 1;
        sg->first_ts = m->first_ts;
        sg->max_ts = m->max_ts;
        sg->max_ts_offset = m->max_ts_offset;
        sg->born = store_now(lg->st);
        sg->made = m->position > 0;    /* an empty file may be there, and no sync has covered its name */
        if (m->heavy_segment == m->segment) {
            sg->index.file_n = m->index_entries;
            sg->times.file_n = m->timeindex_entries;
            sg->time_last = m->timeindex_ts;
        }
        list_push_back(&lg->segs, &sg->link);
    }
    lg->mark = m;
    lg->start = m->start;
    lg->next = m->end;
    lg->stable = (struct plog_at){
        .off = m->end, .seg = sg, .pos = m->position, .max_ts = m->max_ts, .max_ts_offset = m->max_ts_offset};
    lg->written = lg->stable;
    lg->heavy = (struct plog_heavy_at){.off = m->heavy,
                                       .segment = m->heavy_segment,
                                       .pos = m->heavy_position,
                                       .index_n = m->index_entries,
                                       .times_n = m->timeindex_entries,
                                       .times_last = m->timeindex_ts,
                                       .max_ts = m->heavy_max_ts,
                                       .max_ts_offset = m->heavy_max_ts_offset};
    lg->heavy_producers = m->has_producers;
    if (m->leader_epoch >= 0) {
        epochs_add(&lg->epochs, m->leader_epoch, m->epoch_start);
    }
    lg->segs_partial = m->segments > 1;
    lg->dir_made = m->segments > 0;
    lg->fresh = !lg->dir_made;
    return ERR_OK;
}

err plog_open(struct store *st, const struct plog_id *id, const struct log_conf *conf, void *u, struct plog **ret_lg) {
    struct plog *lg = plog_new(st, id, conf, u);
    if (!lg) {
        return ERR_NOMEM;
    }
    const struct datadir_mark *m = datadir_mark_find(st->dd, id->topic_id, id->partition);
    err e = m ? take_mark(lg, m) : ERR_OK;
    lg->unrecovered = m && (m->unsettled || !datadir_is_clean(st->dd));
    if (e != ERR_OK) {
        mem_free(lg);
        return e;
    }
    list_push_back(&st->logs, &lg->all);
    st->stats.logs++;
    plog_check(lg);
    *ret_lg = lg;
    return ERR_OK;
}

void plog_get(struct plog *lg) {
    lg->inflight++;
}

void plog_put(struct plog *lg) {
    must(lg->inflight > 0);
    if (--lg->inflight == 0 && lg->dead) {
        plog_free(lg);
    }
}

void plog_free(struct plog *lg) {
    struct store *st = lg->st;
    must(lg->inflight == 0);
    trim_free(lg);
    tail_clear(lg);
    sync_forget(lg);
    list_remove(&lg->dirty);
    list_remove(&lg->moved);
    list_remove(&lg->heavies);
    list_remove(&lg->all);
    list_each_safe(it, &lg->segs) {
        struct seg *sg = list_entry(it, struct seg, link);
        if (sg->file) {
            files_close(st, sg, DISK_LANE_WRITE);
        }
        cold_unload(st, sg);
        sg->file = NULL;
        seg_free(sg);
    }
    epochs_done(&lg->epochs);
    mem_free(lg->damage);
    if (lg->topic_owned) {
        mem_free((void *)(uintptr_t)lg->id.topic);
    }
    st->stats.logs--;
    mem_free(lg);
}

/* ---- looking at it ---- */

void *plog_user(const struct plog *lg) {
    return lg->u;
}

const struct plog_id *plog_ident(const struct plog *lg) {
    return &lg->id;
}

void plog_conf(struct plog *lg, const struct log_conf *conf) {
    lg->conf = conf;
}

bool plog_is_fenced(const struct plog *lg) {
    return lg->fenced;
}

bool plog_is_lost(const struct plog *lg) {
    return lg->fenced && lg->unrecovered;
}

off64 plog_bound(const struct plog *lg) {
    return lg->conf->write_caching ? lg->written.off : lg->stable.off;
}

void plog_ends(const struct plog *lg, struct plog_ends *ret) {
    const struct seg *sg = plog_active(lg);
    *ret = (struct plog_ends){.start = lg->start, .next = lg->next, .written = lg->written.off, .stable = lg->stable.off,
                              .bound = plog_bound(lg), .bytes = sg ? sg->before + sg->size - lg->base_bytes : 0};
}

void plog_check(const struct plog *lg) {
    must(lg->start <= lg->stable.off);
    must(lg->stable.off <= lg->written.off);
    must(lg->written.off <= lg->next);
    must(lg->unsynced_bytes >= 0 && lg->queued_bytes >= 0);
}

struct seg *plog_seg_for(const struct plog *lg, off64 at) {
    for (struct list *it = lg->segs.prev; it != &lg->segs; it = it->prev) {
        struct seg *sg = list_entry(it, struct seg, link);
        if (sg->base <= at) {
            return sg;
        }
    }
    return NULL;
}

void plog_hold(struct plog *lg) {
    lg->held = true;
}

void plog_epoch(struct plog *lg, int32_t epoch) {
    if (lg->held) {
        lg->held = false;
        marks_note(lg, 0);         /* the last mark said unsettled */
    }
    if (epochs_reserve(&lg->epochs) != ERR_OK) {
        log_warn("store.memory", "log='%s-%d' epoch=%d not remembered", lg->id.topic, lg->id.partition, epoch);
        return;
    }
    epochs_add(&lg->epochs, epoch, lg->next);      /* the file learns of it with the epoch's first batch */
}

void plog_epoch_end(const struct plog *lg, int32_t asked, int32_t *ret_epoch, off64 *ret_end) {
    struct epochs_entry e;
    epochs_end_for(&lg->epochs, asked, lg->next, &e);
    *ret_epoch = e.epoch;
    *ret_end = e.start >= 0 && e.start < lg->start ? lg->start : e.start;      /* S19.4: nothing is told of what is gone */
}

int32_t plog_epoch_at(const struct plog *lg, off64 at) {
    return epochs_at(&lg->epochs, at);
}

size_t plog_old_offsets(const struct plog *lg, const struct plog_old *o, off64 *ret, size_t cap) {
    size_t n = 0;
    bool found = o->ts == -1 || (o->ts >= 0 && o->wall <= o->ts);
    if (cap > 0 && o->ts == -2) {
        ret[n++] = lg->start;
        return n;
    }
    if (n < cap && found) {
        ret[n++] = o->end;
    }
    for (struct list *it = lg->segs.prev; it != &lg->segs && n < cap; it = it->prev) {
        const struct seg *sg = list_entry(it, struct seg, link);
        off64 base = sg->base > lg->start ? sg->base : lg->start;
        found = found || sg->mtime <= o->ts;
        if (found && base < o->end && (n == 0 || ret[n - 1] != base)) {
            ret[n++] = base;
        }
    }
    return n;
}

/* ---- appending ---- */

static err seg_reserve(struct store *st) {
    while (st->seg_spares_n <= st->reserved) {
        struct seg *sg = seg_new(0);
        if (!sg) {
            return ERR_NOMEM;
        }
        list_push_back(&st->seg_spares, &sg->lru);
        st->seg_spares_n++;
    }
    return ERR_OK;
}

err plog_reserve(struct plog *lg, size_t n) {
    struct store *st = lg->st;
    if (lg->fenced || lg->dead || st->dead) {
        return ERR_FENCED;
    }
    if (st->stopping) {
        return ERR_CLOSING;
    }
    if (lg->cutting) {
        return ERR_AGAIN;
    }
    if ((int64_t)n > lg->conf->segment_bytes) {
        return ERR_SEGMENT_TOO_SMALL;
    }
    if ((st->space_low && !lg->conf->internal) || !st->begun || lg->held) {
        return ERR_NOSPACE;
    }
    if (seg_reserve(st) != ERR_OK || tail_reserve(st) != ERR_OK || epochs_reserve(&lg->epochs) != ERR_OK) {
        return ERR_NOMEM;
    }
    st->reserved++;
    return ERR_OK;
}

static struct seg *roll(struct plog *lg, ms now) {
    struct store *st = lg->st;
    struct seg *old = plog_active(lg);
    struct seg *sg = list_entry(list_pop_front(&st->seg_spares), struct seg, lru);
    st->seg_spares_n--;
    sg->lg = lg;
    sg->base = lg->next;
    sg->born = now;
    ms jitter_max = lg->conf->segment_jitter < lg->conf->segment_age ? lg->conf->segment_jitter : lg->conf->segment_age;
    sg->jitter = jitter_max > 0 ? (ms)prng_below(st->port->rng, (uint64_t)jitter_max) : 0;
    if (old) {
        seg_seal(old);
        sg->before = old->before + old->size;
        sg->ordinal = old->ordinal + 1;
        lg->rolled = true;
        mark("plog.rolled");
    }
    list_push_back(&lg->segs, &sg->link);
    trim_rolled(lg, sg);
    return sg;
}

bool plog_roll(struct plog *lg) {
    if (seg_reserve(lg->st) != ERR_OK) {
        return false;
    }
    roll(lg, store_now(lg->st));
    return true;
}

void plog_append(struct plog *lg, struct chunk *chunk, span bytes, const struct batch_head *h, ms now) {
    struct store *st = lg->st;
    must(st->reserved > 0 && !lg->fenced && !lg->dead && !lg->cutting);
    must(h->base_offset == lg->next);
    must(h->bytes == bytes.n);
    st->reserved--;
    struct seg *sg = plog_active(lg);
    if (!sg || seg_is_full(sg, h, lg->conf, now)) {
        sg = roll(lg, now);
    }
    tail_add(lg, sg, chunk, bytes, h);
    seg_note(sg, h, lg->conf->index_interval_bytes);
    epochs_add(&lg->epochs, h->leader_epoch, h->base_offset);
    if (epochs_last_before(&lg->epochs, INT64_MAX).start == h->base_offset) {
        lg->epochs_changed = true;                 /* the epoch's first batch */
    }
    lg->next = batch_last_offset(h) + 1;
    lg->queued_bytes += (int64_t)bytes.n;
    lg->since_heavy += (int64_t)bytes.n;
    st->unsynced_bytes += (int64_t)bytes.n;
    write_wanted(lg);
    heavy_note(lg);
    if (st->tail_bytes > st->conf.tail_bytes_max) {
        tail_evict(st);
    }
}

void plog_sync_wanted(struct plog *lg) {
    if (!lg->fenced && !lg->dead && lg->next > lg->stable.off) {
        sync_want(lg);
    }
}

/* ---- taking back ---- */

/* Segments after the last written byte go; one whose file exists already stays, empty. */
static void drop_segs(struct plog *lg) {
    struct seg *keep = lg->written.seg;
    for (struct seg *sg = plog_active(lg); sg && sg != keep; sg = plog_active(lg)) {
        if (sg->made) {
            keep = sg;
            sg->size = 0;
            break;
        }
        seg_free(sg);
    }
    if (!keep) {
        return;
    }
    bool same = keep == lg->written.seg;
    keep->size = same ? lg->written.pos : 0;
    keep->max_ts = same ? lg->written.max_ts : -1;
    keep->max_ts_offset = same ? lg->written.max_ts_offset : -1;
    keep->first_ts = keep->size > 0 ? keep->first_ts : -1;
    segidx_cut_offset(&keep->index, (uint32_t)keep->size);
    segidx_cut_time(&keep->times, (uint32_t)(lg->written.off - keep->base));
    keep->since_index = 0;
    keep->time_last = segidx_last_time(&keep->times, lg->heavy.segment == keep->base ? lg->heavy.times_last : -1);
}

void plog_take_back(struct plog *lg, off64 from) {
    struct store *st = lg->st;
    must(from <= lg->written.off);
    tail_cut(lg, from);
    list_remove(&lg->dirty);
    st->unsynced_bytes -= lg->queued_bytes;
    lg->queued_bytes = 0;
    lg->next = from;
    lg->want_to = lg->want_to < from ? lg->want_to : from;
    epochs_cut(&lg->epochs, from);
    heavy_cancel(lg, from);
    if (from == lg->written.off && !lg->fenced && !lg->dead) {
        drop_segs(lg);
    }
}

/* True when this place was not told of before. */
static bool is_news(struct plog *lg, off64 base, int64_t at) {
    struct plog_damage *dm = lg->damage ? lg->damage : (lg->damage = mem_zalloc(MEM_LOG, sizeof *dm));
    for (uint32_t i = 0; dm && i < dm->n; i++) {
        if (dm->v[i].base == base && dm->v[i].at == at) {
            return false;
        }
    }
    if (dm && dm->n < PLOG_DAMAGE_MAX) {
        dm->v[dm->n].base = base;
        dm->v[dm->n++].at = at;
        return true;
    }
    return !dm;                    /* no memory: rather twice than never */
}

void plog_damaged(struct plog *lg, off64 base, int64_t at, const char *what) {
    char path[NAMES_PATH_CAP];
    if (!is_news(lg, base, at)) {
        return;
    }
    names_segment(&lg->id, base, ".log", path);
    log_error("seg.damaged", "path='%s' at=%lld what='%s'%s", path, (long long)at, what,
              lg->damage && lg->damage->n == PLOG_DAMAGE_MAX ? " further='not said'" : "");
}

void plog_fence(struct plog *lg, const char *what, int sys_errno) {
    struct store *st = lg->st;
    if (lg->fenced || lg->dead) {
        return;
    }
    log_error("store.fenced", "log='%s-%d' why='%s' errno=%d", lg->id.topic, lg->id.partition, what, sys_errno);
    mark("plog.fenced");
    off64 from = plog_bound(lg);
    lg->fenced = true;
    st->stats.fenced_logs++;
    plog_take_back(lg, from);
    st->unsynced_bytes -= lg->unsynced_bytes;
    lg->unsynced_bytes = 0;
    sync_forget(lg);
    if (lg->written.off > from) {
        lg->written = lg->stable;
    }
    plog_check(lg);
    st->hooks.failed(st->hooks.u, lg, from, ERR_IO);
}
