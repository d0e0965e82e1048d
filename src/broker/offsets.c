/* ListOffsets, OffsetForLeaderEpoch and DeleteRecords, the owner's half.
 *
 * Happy path: latest waits until what was written at its arrival is stable (D6), times are looked up through the read lane, LIMIT_FINDS at once in order of arrival, the rest is known
 * at once. DeleteRecords waits until what it deletes is stable, then until the new log start is durable (D6, S18.1). The ask goes home with its last part. Failure modes: per part an err; a failed append brings the end that is waited for down, a fenced log fails the wait.
 * Runs on: owner shard. */
#include "broker/offsets.h"

#include <string.h>

#include "base/limits.h"
#include "base/must.h"
#include "inside.h"

struct offsets_wait {
    struct list link;                  /* in part->bounds, or sh->finds */
    struct offsets_ask *ask;
    struct offsets_part *p;
    off64 below;                       /* the high watermark must reach it; DELETE: the stable end, then the log start */
    bool deletes, moving;
    union {
        struct plog_find find;
        struct plog_move move;
    };
};

static void offsets_one_done(struct offsets_ask *a) {
    must(a->left > 0);
    if (--a->left == 0) {
        wheel_cancel(&a->ask.owner->wheel, &a->timer);
        mem_free(a->waits);
        a->waits = NULL;
        ask_return(&a->ask, ERR_OK);
    }
}

static void offsets_blank(struct offsets_part *p) {
    p->err = ERR_OK;
    p->offset = -1;
    p->found_ts = -1;
    p->leader_epoch = -1;
    p->old = NULL;
    p->old_n = 0;
}

/* ---- the old style (S8.7): as Kafka did it, segments and when they were written ---- */

static void offsets_old(struct part *pt, struct offsets_part *p) {
    size_t cap = p->old_max < 0 ? 0 : p->old_max > OFFSETS_OLD_MAX ? OFFSETS_OLD_MAX : (size_t)p->old_max;
    if (cap == 0) {
        return;
    }
    off64 found[OFFSETS_OLD_MAX];
    struct plog_old o = {.ts = p->ts, .wall = shard_wall(pt->sh), .end = pt->committed};
    size_t n = plog_old_offsets(pt->log, &o, found, cap);
    p->old = mem_alloc(MEM_WAIT, n * sizeof(*p->old));
    if (p->old == NULL) {
        p->err = ERR_NOMEM;
        return;
    }
    memcpy(p->old, found, n * sizeof(*p->old));
    p->old_n = (int32_t)n;
}

static void offsets_looked(void *u, err e) {
    struct offsets_wait *w = u;
    struct part *pt = part_find(w->ask->ask.owner, w->p->topic_id, w->p->partition);
    w->p->err = pt == NULL ? ERR_NO_TOPIC : e;
    if (w->p->err == ERR_OK) {
        offsets_old(pt, w->p);
    }
    offsets_one_done(w->ask);
}

/* One offset at either end is known; for more the log's directory must be known. */
static void offsets_old_style(struct part *pt, struct offsets_wait *w) {
    if (w->p->ts == OFFSETS_EARLIEST || (w->p->ts == OFFSETS_LATEST && w->p->old_max <= 1)) {
        offsets_looked(w, ERR_OK);
    } else {
        plog_look(pt->log, offsets_looked, w);
    }
}

static void offsets_latest(struct part *pt, struct offsets_wait *w) {
    struct offsets_part *p = w->p;
    if (p->old_style) {
        offsets_old_style(pt, w);
        return;
    }
    p->offset = pt->committed;                     /* S8.1; no transactions yet: last stable offset = high watermark */
    p->leader_epoch = pt->leader_epoch;
    offsets_one_done(w->ask);
}

/* ---- look-ups by time: each holds a buffer while it reads, so they take turns ---- */

static void offsets_found(struct plog_find *f) {
    struct offsets_wait *w = f->u;
    struct offsets_part *p = w->p;
    struct shard *sh = w->ask->ask.owner;
    p->err = f->err;
    if (f->err == ERR_OK && f->found) {
        p->offset = f->offset;
        p->found_ts = f->found_ts;
        p->leader_epoch = plog_epoch_at(f->lg, f->offset);
    }
    if (sh->finds_n-- == LIMIT_FINDS && !list_empty(&sh->finds)) {
        shard_timer(sh, &sh->finds_again, sh->now);            /* not from here: it may be inside plog_find_time */
        shard_again(sh);
    }
    offsets_one_done(w->ask);
}

static void offsets_find(struct offsets_wait *w) {
    struct offsets_part *p = w->p;
    struct shard *sh = w->ask->ask.owner;
    struct part *pt = part_find(sh, p->topic_id, p->partition);
    if (pt == NULL) {                              /* gone while it waited */
        p->err = ERR_NO_TOPIC;
        offsets_one_done(w->ask);
        return;
    }
    w->find = (struct plog_find){.ts = p->ts == OFFSETS_MAX_TS ? PLOG_MAX_TS : p->ts, .below = pt->committed, .done = offsets_found, .u = w};
    sh->finds_n++;
    plog_find_time(pt->log, &w->find);
}

static void offsets_find_some(struct timer *t, ms now) {
    struct shard *sh = list_entry(t, struct shard, finds_again);
    for (uint32_t i = 0; i < LIMIT_FINDS_PER_TURN && sh->finds_n < LIMIT_FINDS && !list_empty(&sh->finds); i++) {
        offsets_find(list_entry(list_pop_front(&sh->finds), struct offsets_wait, link));
    }
    if (sh->finds_n < LIMIT_FINDS && !list_empty(&sh->finds)) {
        shard_timer(sh, t, now);                   /* the others of this turn come first */
        shard_again(sh);
    }
}

/* What is in memory is found at once: only a few of that before the others of this turn. */
static void offsets_time(struct shard *sh, struct offsets_wait *w) {
    if (list_empty(&sh->finds) && sh->finds_n < LIMIT_FINDS && w->ask->parts_n <= LIMIT_FINDS) {
        offsets_find(w);
        return;
    }
    list_push_back(&sh->finds, &w->link);
    if (sh->finds_n < LIMIT_FINDS && !timer_is_set(&sh->finds_again)) {
        shard_timer(sh, &sh->finds_again, sh->now);
        shard_again(sh);
    }
}

void offsets_shard_init(struct shard *sh) {
    list_init(&sh->finds);
    timer_init(&sh->finds_again, offsets_find_some);
}

static void offsets_wait_bound(struct part *pt, struct offsets_wait *w) {
    struct plog_ends ends;
    plog_ends(pt->log, &ends);
    w->below = ends.next;
    if (pt->committed >= w->below) {
        offsets_latest(pt, w);
        return;
    }
    part_want_visible(pt);
    list_push_back(&pt->bounds, &w->link);
}

/* ---- DeleteRecords ---- */

static void offsets_moved(struct plog_move *mv) {
    struct offsets_wait *w = mv->u;
    struct part *pt = part_find(w->ask->ask.owner, w->p->topic_id, w->p->partition);
    w->moving = false;
    w->p->err = mv->err == ERR_OK && pt == NULL ? ERR_NO_TOPIC : mv->err;
    if (w->p->err == ERR_OK) {
        struct plog_ends ends;
        plog_ends(pt->log, &ends);
        w->p->offset = ends.start;
    }
    offsets_one_done(w->ask);
}

/* What is to go is stable: it cannot come back, nor what is behind it get lost. */
static void offsets_move(struct part *pt, struct offsets_wait *w) {
    w->moving = true;
    w->move = (struct plog_move){.to = w->below, .done = offsets_moved, .u = w};
    plog_move_start(pt->log, &w->move);
}

/* S4.17, S4.18 */
static err offsets_delete_check(const struct part *pt, const struct offsets_part *p, off64 end) {
    if (pt->topic->internal) {
        return ERR_BAD_TOPIC;
    }
    if (!pt->topic->conf.cleanup_delete) {
        return ERR_LIMIT;
    }
    return p->delete_to < -1 || p->delete_to > end ? ERR_OFFSET_RANGE : ERR_OK;
}

static void offsets_delete(struct part *pt, struct offsets_wait *w) {
    struct plog_ends ends;
    plog_ends(pt->log, &ends);
    w->p->err = offsets_delete_check(pt, w->p, ends.next);
    if (w->p->err != ERR_OK) {
        offsets_one_done(w->ask);
        return;
    }
    w->deletes = true;
    w->below = w->p->delete_to < 0 ? ends.next : w->p->delete_to;
    if (ends.stable >= w->below) {
        offsets_move(pt, w);
        return;
    }
    plog_sync_wanted(pt->log);
    list_push_back(&pt->bounds, &w->link);
}

static void offsets_late(struct timer *t, ms now) {
    struct offsets_ask *a = list_entry(t, struct offsets_ask, timer);
    (void)now;
    a->left++;                                     /* not home from within */
    for (size_t i = 0; i < a->parts_n; i++) {
        struct offsets_wait *w = &a->waits[i];
        if (!list_empty(&w->link) || w->moving) {
            list_remove(&w->link);
            if (w->moving) {
                plog_move_cancel(&w->move);
            }
            w->moving = false;
            w->p->err = ERR_TIMEOUT;
            offsets_one_done(a);
        }
    }
    offsets_one_done(a);
}

static void offsets_special(struct part *pt, struct offsets_part *p) {
    struct plog_ends ends;
    plog_ends(pt->log, &ends);
    switch (p->ts) {
    case OFFSETS_EARLIEST:                         /* S8.2 */
    case OFFSETS_EARLIEST_LOCAL:                   /* S8.4: without tiering the same */
        p->offset = ends.start;
        p->leader_epoch = plog_epoch_at(pt->log, ends.start);
        break;
    case OFFSETS_LATEST_TIERED:
    case OFFSETS_EARLIEST_PENDING:
        break;                                     /* S8.4: -1 */
    default:
        p->err = ERR_BAD_REQUEST;
    }
}

static void offsets_part_run(struct offsets_ask *a, size_t i) {
    struct offsets_part *p = &a->parts[i];
    struct offsets_wait *w = &a->waits[i];
    offsets_blank(p);
    *w = (struct offsets_wait){.ask = a, .p = p};
    list_init(&w->link);
    struct part *pt;
    p->err = part_get(a->ask.owner, p->topic_id, p->partition, &pt);
    p->err = p->err == ERR_OK ? part_check(pt, p->current_epoch) : p->err;
    if (p->err == ERR_OK && a->op == OFFSETS_EPOCHS) {
        plog_epoch_end(pt->log, p->asked_epoch, &p->leader_epoch, &p->offset);
    } else if (p->err == ERR_OK && a->op == OFFSETS_DELETE) {
        offsets_delete(pt, w);
        return;
    } else if (p->err == ERR_OK && p->ts == OFFSETS_LATEST) {
        offsets_wait_bound(pt, w);
        return;
    } else if (p->err == ERR_OK && p->old_style) {
        offsets_old_style(pt, w);
        return;
    } else if (p->err == ERR_OK && (p->ts >= 0 || p->ts == OFFSETS_MAX_TS)) {
        offsets_time(a->ask.owner, w);
        return;
    } else if (p->err == ERR_OK) {
        offsets_special(pt, p);
    }
    offsets_one_done(a);
}

/* All of them at once: nothing waits, and there may be very many. */
static void offsets_sizes(struct offsets_ask *a) {
    for (size_t i = 0; i < a->parts_n; i++) {
        struct offsets_part *p = &a->parts[i];
        struct part *pt;
        struct plog_ends ends = {0};
        offsets_blank(p);
        p->err = part_get(a->ask.owner, p->topic_id, p->partition, &pt);
        if (p->err == ERR_OK) {
            plog_ends(pt->log, &ends);
            p->offset = ends.bytes;
        }
    }
    ask_return(&a->ask, ERR_OK);
}

static void offsets_run(struct ask *ask) {
    struct offsets_ask *a = list_entry(ask, struct offsets_ask, ask);
    size_t n = a->parts_n;
    if (a->op == OFFSETS_SIZES) {
        offsets_sizes(a);
        return;
    }
    a->waits = mem_alloc(MEM_WAIT, n * sizeof(*a->waits));
    if (a->waits == NULL) {
        ask_return(ask, ERR_NOMEM);
        return;
    }
    a->left = n + 1;                               /* the extra one keeps the ask here until every part was started */
    for (size_t i = 0; i < n; i++) {
        offsets_part_run(a, i);
    }
    if (a->op == OFFSETS_DELETE && a->left > 1) {
        shard_timer(ask->owner, &a->timer, ask->owner->now + (a->timeout > 0 ? a->timeout : 0));
    }
    offsets_one_done(a);
}

static void offsets_settle_delete(struct part *pt, struct offsets_wait *w, const struct plog_ends *ends) {
    off64 below = w->below < ends->next ? w->below : ends->next;
    if (ends->stable < below) {
        return;
    }
    list_remove(&w->link);
    if (w->p->delete_to > ends->next) {            /* the end came down after a failed append */
        w->p->err = ERR_OFFSET_RANGE;
        offsets_one_done(w->ask);
        return;
    }
    w->below = below;
    offsets_move(pt, w);
}

void offsets_settle(struct part *pt) {
    struct plog_ends ends;
    plog_ends(pt->log, &ends);
    list_each_safe(it, &pt->bounds) {
        struct offsets_wait *w = list_entry(it, struct offsets_wait, link);
        if (w->deletes) {
            offsets_settle_delete(pt, w, &ends);
        } else if (pt->committed >= w->below || pt->committed >= ends.next) {  /* the end came down after a failed append */
            list_remove(it);
            offsets_latest(pt, w);
        }
    }
}

void offsets_fail(struct part *pt, err why) {
    struct list *link;
    while ((link = list_pop_front(&pt->bounds)) != NULL) {
        struct offsets_wait *w = list_entry(link, struct offsets_wait, link);
        w->p->err = why;
        offsets_one_done(w->ask);
    }
}

err offsets_init(struct offsets_ask *a, struct arena *arena, size_t parts_n, enum offsets_op op, void (*done)(struct ask *a)) {
    *a = (struct offsets_ask){.op = op, .parts_n = parts_n};
    a->parts = arena_zalloc(arena, parts_n * sizeof(*a->parts));
    if (a->parts == NULL) {
        return ERR_NOMEM;
    }
    ask_init(&a->ask, offsets_run, done);
    timer_init(&a->timer, offsets_late);
    return ERR_OK;
}

void offsets_send(struct shard *home, struct shard *owner, struct offsets_ask *a) { ask_send(home, owner, &a->ask); }

void offsets_drop(struct offsets_ask *a) {
    for (size_t i = 0; i < a->parts_n; i++) {
        mem_free(a->parts[i].old);
        a->parts[i].old = NULL;
    }
}
