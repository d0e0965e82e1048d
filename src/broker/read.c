/* Fetch, the owner's half: read what is there, say how much is there, or watch until the high watermark moves.
 *
 * Happy path: DATA takes fresh batches from the tail by reference; cold ones go through the read lane, and the ask goes home when the last one is back. WATCH parks in each part
 * until watch_wake, or until the cancel, which travels behind it on the same FIFO.
 * One ask hands out bytes of at most READ_GOT_MAX parts, so that its memory does not grow with the parts asked; who got none asks again.
 * Failure modes: per part an err; a part that is gone answers NO_TOPIC; memory short: NOMEM for that part.
 * Runs on: owner shard (run, wake), home shard (send, cancel, take, drop). */
#include "broker/read.h"

#include "base/mark.h"
#include "base/must.h"
#include "broker/watch.h"
#include "inside.h"

struct read_watch {
    struct watch_node node;            /* in part->watches */
    struct read_ask *ask;
};

struct read_cold {
    struct plog_cold cold;
    struct read_ask *ask;
    size_t i;
};

/* ---- one part ---- */

static void read_fail(struct read_part *p, err e) {
    p->err = e;
    p->bytes = 0;
    if (e != ERR_OFFSET_RANGE) {
        p->high_watermark = p->last_stable = p->log_start = -1;        /* S7.9 */
    }
}

static void read_blank(struct read_part *p) {
    p->err = ERR_OK;
    p->high_watermark = p->last_stable = p->log_start = -1;
    p->leader_epoch = -1;
    p->diverging_epoch = -1;
    p->diverging_end = -1;
    p->bytes = 0;
    p->got = 0;
}

/* S7.14: does the reader's last epoch end where ours does? */
static err read_diverging(const struct part *pt, struct read_part *p) {
    if (p->last_fetched_epoch < 0) {
        return ERR_OK;
    }
    int32_t epoch;
    off64 end;
    plog_epoch_end(pt->log, p->last_fetched_epoch, &epoch, &end);
    if (epoch < 0 || p->from < p->log_start) {
        return ERR_OFFSET_RANGE;
    }
    if (epoch < p->last_fetched_epoch || end < p->from) {
        mark("read.diverging");
        p->diverging_epoch = epoch;
        p->diverging_end = end;
    }
    return ERR_OK;
}

/* Epoch, range and ends; on OK the part may be read unless it diverges. */
static err read_check(struct part *pt, struct read_part *p) {
    p->leader_epoch = pt->leader_epoch;
    err e = part_check(pt, p->current_epoch);
    if (e != ERR_OK) {
        return e;
    }
    struct plog_ends ends;
    plog_ends(pt->log, &ends);
    p->high_watermark = p->last_stable = pt->committed;
    p->log_start = ends.start;
    if (pt->committed < ends.next) {
        part_want_visible(pt);                     /* D6 b: a reader meets visible < written */
    }
    e = read_diverging(pt, p);
    if (e != ERR_OK) {
        return e;
    }
    return p->from < ends.start || p->from > ends.next ? ERR_OFFSET_RANGE : ERR_OK;        /* S7.7, T46 */
}

/* ---- DATA and PROBE ---- */

/* Where the bytes of part p will be; NULL: no memory, or enough parts have some (their readers come again). */
static struct plog_got *read_got_new(struct read_ask *a, struct read_part *p) {
    if (a->got == NULL) {
        size_t most = a->parts_n - (size_t)(p - a->parts);
        a->got_cap = (uint32_t)(most < READ_GOT_MAX ? most : READ_GOT_MAX);
        a->got = mem_alloc(MEM_WAIT, a->got_cap * sizeof(*a->got));
        a->got_owned = true;
    }
    if (a->got == NULL || a->got_n == a->got_cap) {
        return NULL;
    }
    plog_got_init(&a->got[a->got_n]);
    p->got = ++a->got_n;
    return &a->got[a->got_n - 1];
}

/* T48: retention was faster than the disk: the answer says where the log begins now, which is why. */
static void read_restart(struct shard *sh, struct read_part *p) {
    const struct part *pt = p->err == ERR_OFFSET_RANGE ? part_find(sh, p->topic_id, p->partition) : NULL;
    if (pt != NULL) {
        struct plog_ends ends;
        plog_ends(pt->log, &ends);
        p->log_start = ends.start;
    }
}

static void read_cold_done(struct plog_cold *c) {
    struct read_cold *rc = c->u;
    struct read_ask *a = rc->ask;
    struct read_part *p = &a->parts[rc->i];
    if (c->err == ERR_OK) {
        struct plog_got *g = &a->got[p->got - 1];
        p->bytes = c->got.bytes;
        *g = c->got;
        if (c->got.v == c->got.inline_) {
            g->v = g->inline_;
        }
    } else {
        plog_got_done(&c->got);
        read_fail(p, c->err);
        read_restart(a->ask.owner, p);
    }
    must(a->cold_n > 0);
    if (--a->cold_n == 0) {
        mem_free(a->cold);
        a->cold = NULL;
        ask_return(&a->ask, ERR_OK);
    }
}

/* Note a cold read; all are submitted together once every part was looked at. */
static err read_cold_note(struct read_ask *a, struct part *pt, size_t i, const struct plog_want *w) {
    if (a->cold == NULL) {
        size_t most = a->parts_n - i;
        a->cold = mem_alloc(MEM_WAIT, (most < READ_COLD_MAX ? most : READ_COLD_MAX) * sizeof(*a->cold));
        if (a->cold == NULL) {
            return ERR_NOMEM;
        }
    }
    struct read_cold *rc = &a->cold[a->cold_n++];
    *rc = (struct read_cold){.ask = a, .i = i};
    rc->cold.lg = pt->log;
    rc->cold.want = *w;
    rc->cold.done = read_cold_done;
    rc->cold.u = rc;
    return ERR_OK;
}

static size_t read_min(size_t a, size_t b) { return a < b ? a : b; }

/* The part's place was not needed after all. */
static void read_got_back(struct read_ask *a, struct read_part *p) {
    plog_got_done(&a->got[--a->got_n]);
    p->got = 0;
}

/* Later, through the read lane; returns what it takes of the budget. */
static size_t read_later(struct read_ask *a, struct part *pt, size_t i, const struct plog_want *w) {
    mark("read.cold");
    if (a->cold_n == READ_COLD_MAX) {
        read_got_back(a, &a->parts[i]);
        return 0;
    }
    err e = read_cold_note(a, pt, i, w);
    if (e != ERR_OK) {
        read_got_back(a, &a->parts[i]);
        read_fail(&a->parts[i], e);
        return 0;
    }
    size_t take = plog_available(pt->log, w->from, w->below, w->bytes_max);
    return take == 0 && w->min_one ? 1 : take;
}

/* One part within the budget that is left; returns what it takes of it. */
static size_t read_data(struct read_ask *a, struct part *pt, size_t i, size_t left, bool first) {
    struct read_part *p = &a->parts[i];
    struct plog_want w = {.from = p->from, .below = pt->committed, .bytes_max = read_min(p->bytes_max, left), .min_one = first};
    struct plog_got *g = read_got_new(a, p);
    if (g == NULL) {
        if (a->got == NULL) {
            read_fail(p, ERR_NOMEM);
        }
        return 0;
    }
    err e = plog_read(pt->log, &w, g);
    if (e == ERR_COLD) {
        return read_later(a, pt, i, &w);
    }
    p->bytes = g->bytes;
    if (e != ERR_OK) {
        read_fail(p, e);
    }
    if (p->bytes == 0) {
        read_got_back(a, p);
    }
    return p->bytes;
}

static size_t read_one(struct read_ask *a, size_t i, size_t left, bool first) {
    struct read_part *p = &a->parts[i];
    read_blank(p);
    struct part *pt;
    err e = part_get(a->ask.owner, p->topic_id, p->partition, &pt);
    e = e == ERR_OK ? read_check(pt, p) : e;
    if (e != ERR_OK) {
        read_fail(p, e);
        return 0;
    }
    if (p->diverging_epoch >= 0 || p->from >= pt->committed) {
        return 0;                                  /* between high watermark and log end: empty, never out of range */
    }
    if (a->op == READ_PROBE) {
        p->bytes = plog_available(pt->log, p->from, pt->committed, p->bytes_max);
        return p->bytes;
    }
    return left > 0 || first ? read_data(a, pt, i, left, first) : 0;
}

static void read_run_data(struct read_ask *a) {
    size_t left = a->bytes_max;
    bool first = a->min_one;
    for (size_t i = 0; i < a->parts_n; i++) {
        size_t took = read_one(a, i, left, first);
        first = first && took == 0;
        left -= read_min(took, left);
        a->ask.owner->stats.read_bytes += took;
    }
    a->ask.owner->stats.reads++;
    if (a->cold_n == 0) {
        ask_return(&a->ask, ERR_OK);
        return;
    }
    for (uint32_t i = 0, n = a->cold_n; i < n; i++) {      /* the last completion may be inside the last call: a is not touched after */
        struct read_cold *rc = &a->cold[i];
        plog_cold_read(rc->cold.lg, &rc->cold);
    }
}

/* ---- WATCH ---- */

static void read_unwatch(struct read_ask *a) {
    for (size_t i = 0; i < a->parts_n; i++) {
        list_remove(&a->watches[i].node.link);
    }
    a->parked = false;
}

static void read_woken(struct watch_node *n) {
    struct read_ask *a = list_entry(n, struct read_watch, node)->ask;
    read_unwatch(a);
    ask_return(&a->ask, ERR_OK);
}

static void read_run_watch(struct read_ask *a) {
    bool moved = false;
    if (a->watches == NULL) {
        ask_return(&a->ask, ERR_NOMEM);
        return;
    }
    for (size_t i = 0; i < a->parts_n; i++) {
        struct read_watch *w = &a->watches[i];
        list_init(&w->node.link);
        w->node.wake = read_woken;
        w->ask = a;
        struct part *pt = part_find(a->ask.owner, a->parts[i].topic_id, a->parts[i].partition);
        if (pt == NULL || pt->committed != a->parts[i].high_watermark) {
            moved = true;
            continue;
        }
        struct plog_ends ends;
        plog_ends(pt->log, &ends);
        if (pt->committed < ends.next) {
            part_want_visible(pt);
        }
        list_push_back(&pt->watches, &w->node.link);
    }
    a->parked = true;
    a->ask.owner->stats.watches++;
    if (moved) {
        read_unwatch(a);
        ask_return(&a->ask, ERR_OK);
    }
}

static void read_run(struct ask *ask) {
    struct read_ask *a = list_entry(ask, struct read_ask, ask);
    if (a->op == READ_WATCH) {
        read_run_watch(a);
    } else {
        read_run_data(a);
    }
}

static void read_cancel_run(struct ask *ask) {
    struct read_ask *a = list_entry(ask, struct read_ask, cancel);
    if (a->parked) {
        mark("read.cancelled");
        read_unwatch(a);
        ask_return(&a->ask, ERR_CANCELLED);
    }
    ask_return(ask, ERR_OK);
}

/* ---- home ---- */

static void read_home(struct ask *ask) {
    struct read_ask *a = list_entry(ask, struct read_ask, ask);
    a->home_already = true;
    if (!a->cancelling) {
        a->when_done(a);
    }
}

static void read_cancel_home(struct ask *ask) {
    struct read_ask *a = list_entry(ask, struct read_ask, cancel);
    must(a->home_already);                         /* same FIFO: the watch came home before its cancel */
    a->cancelling = false;
    a->when_done(a);
}

#define READ_GOT_FEW 16                /* parts of an ask whose got array is kept ready */

err read_init(struct read_ask *a, struct arena *arena, size_t parts_n, void (*when_done)(struct read_ask *a)) {
    *a = (struct read_ask){.parts_n = parts_n, .arena = arena, .when_done = when_done, .home_already = true};
    a->parts = arena_zalloc(arena, parts_n * sizeof(*a->parts));
    if (parts_n <= READ_GOT_FEW) {
        a->got = arena_alloc(arena, parts_n * sizeof(*a->got));
        a->got_cap = (uint32_t)parts_n;
    }
    if (a->parts == NULL || (parts_n <= READ_GOT_FEW && a->got == NULL)) {
        return ERR_NOMEM;
    }
    ask_init(&a->ask, read_run, read_home);
    ask_init(&a->cancel, read_cancel_run, read_cancel_home);
    return ERR_OK;
}

void read_send(struct shard *home, struct shard *owner, struct read_ask *a, enum read_op op) {
    must(a->home_already && !a->cancelling && a->got_n == 0);
    if (op == READ_WATCH && a->watches == NULL) {
        a->watches = arena_alloc(a->arena, a->parts_n * sizeof(*a->watches));
    }
    a->op = op;
    a->home_already = false;
    ask_send(home, owner, &a->ask);
}

void read_cancel(struct read_ask *a) {
    if (a->home_already || a->cancelling || a->op != READ_WATCH) {
        return;
    }
    a->cancelling = true;
    ask_send(a->ask.home, a->ask.owner, &a->cancel);
}

void read_take(struct read_ask *a, size_t i, struct chain *out) {
    if (a->parts[i].got == 0) {
        return;
    }
    struct plog_got *g = &a->got[a->parts[i].got - 1];
    for (uint32_t k = 0; k < g->n; k++) {
        chain_lend(out, g->v[k].bytes, g->v[k].chunk);
    }
    plog_got_done(g);
    a->parts[i].bytes = 0;
}

void read_drop(struct read_ask *a) {
    for (uint32_t i = 0; i < a->got_n; i++) {
        plog_got_done(&a->got[i]);
    }
    a->got_n = 0;
    if (a->got_owned) {
        mem_free(a->got);
        a->got = NULL;
        a->got_cap = 0;
        a->got_owned = false;
    }
}
