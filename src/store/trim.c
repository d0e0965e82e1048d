/* The beginning of a log goes: retention, DeleteRecords (S4.17, S18.3 to S18.6).
 *
 * Happy path: trim_begin notes where the log start is to go; the next block of durable marks says so; once that is synced the start moves for
 * everybody (so it never moves back, not by a power cut either), whoever waits is told, and the segments wholly below it leave the log: their
 * fresh batches, indexes and, once no reader pins it, their descriptor. Then their files go, one request after the other: renamed to
 * "<name>.deleted" on the write lane, behind everything that may still name them, and unlinked on the read lane, where a large file holds up
 * nobody's write. Files stay until the heavy checkpoint that the marks speak of is not below the start: the producer states up to there are in
 * its snapshot, and recovery reads nothing below.
 * When all that a log holds goes, it rolls first: the empty segment keeps the place (S18.5).
 * A stop does not wait for files: the mark calls such a log unsettled, so that the next start looks at its directory and goes on.
 * Failure modes: a block of marks that finds no room is built again later, the start waits; a file that cannot be renamed or removed is said and
 * left to the next unclean start, which removes what lies below the start. No memory: tried again by the next pass.
 * Runs on: owner shard; trim_resume at boot. */
#include "trim.h"

#include <stdio.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mark.h"
#include "base/mem.h"
#include "base/must.h"
#include "store_in.h"

static const char *const suffixes[] = {".log", ".index", ".timeindex", ".snapshot"};
#define SUFFIXES_N (sizeof suffixes / sizeof *suffixes)

struct trim_job {                  /* files of one log go */
    struct trim *t;
    size_t at;                     /* of t->bases */
    uint32_t suffix;
    struct disk_req rq;
    char path[NAMES_PATH_CAP], aside[NAMES_PATH_CAP + sizeof NAMES_DELETED];
};

static void step(struct trim_job *j);

void trim_init(struct store *st) {
    st->trims = (struct trims){0};
    list_init(&st->trims.due);
}

struct trim *trim_of(struct plog *lg) {
    struct trim *t = lg->trim;
    if (!t && (t = mem_zalloc(MEM_LOG, sizeof *t))) {
        t->lg = lg;
        t->want = lg->start;
        t->want_bytes = lg->base_bytes;
        t->want_segs = lg->base_segs;
        t->sent = t->covered = -1;
        list_init(&t->link);
        list_init(&t->starting);
        list_init(&t->moves);
        lg->trim = t;
    }
    return t;
}

void trim_free(struct plog *lg) {
    struct trim *t = lg->trim;
    if (!t) {
        return;
    }
    must(!t->job && !t->need);
    list_remove(&t->link);
    list_remove(&t->starting);
    mem_free(t->bases);
    mem_free(t);
    lg->trim = NULL;
}

/* The first segment that offset `at` needs. */
static struct seg *first_for(const struct plog *lg, off64 at) {
    struct seg *sg = list_empty(&lg->segs) ? NULL : list_entry(lg->segs.next, struct seg, link);
    for (const struct seg *after; sg && (after = plog_next_seg(lg, sg)) && after->base <= at;) {
        sg = plog_next_seg(lg, sg);
    }
    return sg;
}

static bool has_segs_below(const struct plog *lg, off64 at) {
    return !list_empty(&lg->segs) && first_for(lg, at) != list_entry(lg->segs.next, struct seg, link);
}

static bool is_covered(const struct plog *lg) {
    return lg->heavy.off >= lg->trim->want || lg->heavy_off;
}

/* Nothing left to do: most logs need no struct trim most of the time. */
void trim_rest(struct trim *t) {
    struct plog *lg = t->lg;
    if (t->want == lg->start && t->sent < 0 && list_empty(&t->moves) && list_empty(&t->link) && !t->need && !t->job && !t->bases &&
        !has_segs_below(lg, lg->start)) {
        trim_free(lg);
    }
}

/* ---- moving the start ---- */

/* All that the log holds goes: the next batch begins a segment of its own. When the disk is busy with it, the segment stays for once. */
static bool roll_if_all(struct plog *lg, off64 to) {
    const struct seg *sg = plog_active(lg);
    bool quiet = lg->stable.off == lg->next && lg->sync_in == SYNC_IN_NONE && !lg->writing && !(sg && sg->dirty);
    if (to != lg->next || !sg || sg->size == 0 || !quiet || !plog_roll(lg)) {
        return false;
    }
    lg->stable = (struct plog_at){.off = lg->next, .seg = plog_active(lg), .max_ts = -1, .max_ts_offset = -1};
    lg->written = lg->stable;
    return true;
}

err trim_begin(struct plog *lg, off64 to, bool at_once) {
    struct trim *t = trim_of(lg);
    must(to <= lg->stable.off && !lg->segs_partial);
    if (!t) {
        return ERR_NOMEM;
    }
    if (roll_if_all(lg, to) || to > t->want) {
        const struct seg *sg = first_for(lg, to);
        t->want = to;
        t->want_bytes = sg ? sg->before : 0;
        t->want_segs = sg ? sg->ordinal : 0;
        if (has_segs_below(lg, to) && !is_covered(lg)) {
            lg->rolled = true;         /* a heavy checkpoint, soon */
            heavy_note(lg);
        }
        marks_note(lg, 0);
    }
    lg->st->marks.at_once = lg->st->marks.at_once || at_once;
    return ERR_OK;
}

void trim_rolled(struct plog *lg, const struct seg *sg) {
    if (sg->base == 0) {
        return;
    }
    if (lg->start == sg->base) {
        lg->base_bytes = sg->before;
        lg->base_segs = sg->ordinal;
        (void)trim_of(lg);             /* the segment before it goes; without memory a later start finds it */
    }
    struct trim *t = lg->trim;
    if (t && t->want == sg->base) {
        t->want_bytes = sg->before;
        t->want_segs = sg->ordinal;
    }
    if (t && t->sent == sg->base) {
        t->sent_bytes = sg->before;
        t->sent_segs = sg->ordinal;
    }
}

void trim_said(const struct plog *lg, off64 *ret_start, int64_t *ret_bytes, uint32_t *ret_segs) {
    const struct trim *t = lg->trim;
    *ret_start = t ? t->want : lg->start;
    *ret_bytes = t ? t->want_bytes : lg->base_bytes;
    *ret_segs = t ? t->want_segs : lg->base_segs;
}

void trim_sent(struct plog *lg) {
    struct trim *t = lg->trim;
    if (!t || lg->unrecovered || !list_empty(&t->starting)) {
        return;
    }
    t->sent = t->want;
    t->sent_bytes = t->want_bytes;
    t->sent_segs = t->want_segs;
    t->sent_covers = is_covered(lg);
    list_push_back(&lg->st->marks.starting, &t->starting);
}

static void make_due(struct trim *t) {
    if (list_empty(&t->link)) {
        list_push_back(&t->lg->st->trims.due, &t->link);
    }
}

static void start_moved(struct trim *t) {
    struct plog *lg = t->lg;
    bool moved = t->sent > lg->start;
    lg->start = t->sent;
    lg->base_bytes = t->sent_bytes;
    lg->base_segs = t->sent_segs;
    t->covered = t->sent_covers ? t->sent : t->covered;
    t->sent = -1;
    epochs_trim(&lg->epochs, lg->start);
    plog_check(lg);
    if (has_segs_below(lg, t->covered)) {
        make_due(t);
    }
    if (moved) {
        mark("trim.moved");
        log_debug("log.start", "log='%s-%d' offset=%lld", lg->id.topic, lg->id.partition, (long long)lg->start);
        lg->st->hooks.moved(lg->st->hooks.u, lg);
    }
    plog_move_finish(t, ERR_OK);
}

void trim_durable(struct store *st, bool ok) {
    struct list over;
    list_init(&over);
    list_splice_back(&over, &st->marks.starting);
    for (struct list *it; (it = list_pop_front(&over));) {
        struct trim *t = list_entry(it, struct trim, starting);
        if (ok && !t->lg->dead) {
            start_moved(t);
        }
        t->sent = -1;              /* refused: the next block says it again */
        trim_rest(t);
    }
}

/* ---- segments leave the log ---- */

/* The log's ends lie at the beginning of the segment behind sg, when they still name sg. */
static void leave_seg(struct plog_at *at, const struct seg *sg, struct seg *after) {
    if (at->seg == sg) {
        must(at->off == after->base);
        *at = (struct plog_at){.off = at->off, .seg = after, .max_ts = -1, .max_ts_offset = -1};
    }
}

static size_t segs_below(const struct plog *lg, off64 at) {
    size_t n = 0;
    const struct seg *first = first_for(lg, at);
    for (const struct seg *sg = list_entry(lg->segs.next, struct seg, link); sg != first; sg = plog_next_seg(lg, sg)) {
        n++;
    }
    return n;
}

static void drop_seg(struct plog *lg, struct seg *sg, struct seg *after) {
    struct store *st = lg->st;
    tail_drop_seg(lg, sg);
    leave_seg(&lg->written, sg, after);
    leave_seg(&lg->stable, sg, after);
    cold_unload(st, sg);
    list_remove(&sg->link);
    sg->gone = true;
    files_bury(st, sg);
}

/* False: not now. */
static bool drop_segs(struct trim *t) {
    struct plog *lg = t->lg;
    size_t n = segs_below(lg, t->covered);
    bool syncing = lg->sync_in == SYNC_IN_COVERED && lg->syncing.off <= t->covered && lg->syncing.seg != first_for(lg, t->covered);
    if (n == 0 || lg->heavy_job || syncing) {
        return false;
    }
    t->bases = mem_alloc(MEM_LOG, n * sizeof *t->bases);
    if (!t->bases) {
        return false;
    }
    t->n = 0;
    for (struct seg *sg, *after; t->n < n;) {
        sg = list_entry(lg->segs.next, struct seg, link);
        after = plog_next_seg(lg, sg);
        t->bases[t->n++] = sg->base;
        drop_seg(lg, sg, after);
    }
    mark("trim.dropped");
    log_info("log.trimmed", "log='%s-%d' segments=%zu from=%lld start=%lld", lg->id.topic, lg->id.partition, n, (long long)t->bases[0],
             (long long)lg->start);
    return true;
}

/* ---- files go ---- */

static void run_over(struct trim_job *j) {
    struct trim *t = j->t;
    struct plog *lg = t->lg;
    struct store *st = lg->st;
    if (!st->stopping || j->at == t->n) {  /* else the mark says that they are there */
        mem_free(t->bases);
        t->bases = NULL;
    }
    mem_free(j);
    t->job = NULL;
    st->trims.running--;
    st->pending--;
    if (!lg->dead) {
        trim_rest(t);
    }
    plog_put(lg);
    store_settle(st);
}

static void submit(struct trim_job *j, enum disk_op op, enum disk_lane lane, void (*done)(struct disk_req *rq)) {
    j->rq = (struct disk_req){.op = op, .lane = lane, .path = j->path, .done = done, .u = j};
    if (op == DISK_RENAME) {
        j->rq.path2 = j->aside;
    } else if (op == DISK_UNLINK) {
        j->rq.path = j->aside;
    } else {
        j->rq.flags = DISK_RDWR | DISK_CREATE;
    }
    disk_submit(j->t->lg->st->disk, &j->rq);
}

static void failed(const struct disk_req *rq) {
    if (rq->err != ERR_OK && rq->err != ERR_NOT_FOUND) {
        log_warn("store.trim", "path='%s' why='%s' errno=%d effect='an unclean start removes it'", rq->path, err_text(rq->err), rq->sys_errno);
    }
}

static void on_unlinked(struct disk_req *rq) {
    struct trim_job *j = rq->u;
    failed(rq);
    j->suffix++;
    step(j);
}

static void on_renamed(struct disk_req *rq) {
    struct trim_job *j = rq->u;
    failed(rq);
    if (rq->err == ERR_OK) {
        submit(j, DISK_UNLINK, DISK_LANE_READ, on_unlinked);
    } else {
        j->suffix++;
        step(j);
    }
}

/* Whoever looks at the directory from outside can tell where the log goes on. */
static void on_place_kept(struct disk_req *rq) {
    struct trim_job *j = rq->u;
    struct plog *lg = j->t->lg;
    struct seg *sg = plog_active(lg);
    if (rq->err == ERR_OK && sg && !lg->dead) {
        sg->made = lg->new_names = true;
    }
    step(j);
}

static void step(struct trim_job *j) {
    struct trim *t = j->t;
    struct plog *lg = t->lg;
    if (j->suffix == SUFFIXES_N) {
        j->suffix = 0;
        j->at++;
    }
    if (lg->dead || lg->st->dead || lg->st->stopping || j->at == t->n) {
        run_over(j);
        return;
    }
    names_segment(&lg->id, t->bases[j->at], suffixes[j->suffix], j->path);
    int n = snprintf(j->aside, sizeof j->aside, "%s" NAMES_DELETED, j->path);
    must(n > 0 && (size_t)n < sizeof j->aside);
    submit(j, DISK_RENAME, DISK_LANE_WRITE, on_renamed);
}

/* False without memory. */
static bool run(struct trim *t) {
    struct plog *lg = t->lg;
    struct store *st = lg->st;
    const struct seg *sg = plog_active(lg);
    struct trim_job *j = mem_zalloc(MEM_LOG, sizeof *j);
    if (!j) {
        return false;
    }
    j->t = t;
    t->job = j;
    list_remove(&t->link);
    st->trims.running++;
    st->pending++;
    plog_get(lg);
    if (sg && !sg->made && sg->size == 0) {
        names_segment(&lg->id, sg->base, ".log", j->path);
        submit(j, DISK_PUT, DISK_LANE_WRITE, on_place_kept);
    } else {
        step(j);
    }
    return true;
}

void trim_pass(struct store *st) {
    uint32_t looks = 0;
    if (st->stopping) {
        return;                        /* large files may take their time: the next start goes on (trim_is_over) */
    }
    for (struct list *it = st->trims.due.next; it != &st->trims.due && looks++ < LIMIT_TRIMS_PER_TURN && st->trims.running < LIMIT_TRIMS;) {
        struct trim *t = list_entry(it, struct trim, link);
        it = it->next;
        if (t->job) {                  /* more segments have gone below meanwhile: behind those */
            continue;
        }
        if ((t->bases || drop_segs(t)) && run(t)) {
            continue;
        }
        if (t->lg->dead || (!t->bases && !has_segs_below(t->lg, t->covered))) {
            list_remove(&t->link);
            trim_rest(t);
        } else {                       /* busy: behind the others */
            list_remove(&t->link);
            list_push_back(&st->trims.due, &t->link);
        }
    }
}

bool trim_is_idle(const struct store *st) {
    return st->trims.running == 0 && (st->stopping || list_empty(&st->trims.due));
}

bool trim_is_over(const struct plog *lg) {
    const struct trim *t = lg->trim;
    return !t || (!t->bases && t->want == lg->start && !has_segs_below(lg, lg->start));
}

void trim_dead(struct plog *lg) {
    if (lg->trim) {
        list_remove(&lg->trim->link);
        list_remove(&lg->trim->starting);
        plog_move_finish(lg->trim, ERR_NO_TOPIC);
    }
}

/* ---- what a start finds ---- */

err trim_resume(struct plog *lg) {
    const struct seg *first = lg->segs_partial ? NULL : first_for(lg, lg->start);      /* partial: as the mark counts */
    lg->base_bytes = first ? first->before : 0;
    lg->base_segs = first ? first->ordinal : 0;
    epochs_trim(&lg->epochs, lg->start);
    if (!first || !has_segs_below(lg, lg->start)) {
        return ERR_OK;
    }
    struct trim *t = trim_of(lg);
    if (!t) {
        return ERR_NOMEM;
    }
    if (!is_covered(lg)) {
        lg->rolled = true;
        heavy_note(lg);
    }
    marks_note(lg, 0);
    return ERR_OK;
}

void trim_left_over(struct plog *lg, off64 *bases, size_t n) {
    struct trim *t = n > 0 && lg->heavy.off >= lg->start ? trim_of(lg) : NULL;
    if (!t || t->bases || lg->dead || lg->st->stopping) {
        mem_free(bases);               /* an unclean start finds them again */
        return;
    }
    mark("trim.left_over");
    t->bases = bases;
    t->n = n;
    make_due(t);
}
