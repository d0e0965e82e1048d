/* Produce, the owner's half. One order inside one turn: decide (topic, producer window), reserve (the only step that may refuse), stamp and queue, note. Then the ask
 * waits in the part, in offset order, until its class is reached.
 *
 * Happy path: run -> parked -> append_settle -> home. Failure modes: refused (nothing happened); the append failed later (append_fail, window already taken back); a
 * duplicate of a batch that is not yet stable waits for it and shares its fate; time over: TIMEOUT, the data may stay (S5.19).
 * Runs on: owner shard. */
#include "broker/append.h"

#include "base/mark.h"
#include "inside.h"

static void append_leave(struct append_ask *a, err e) {
    list_remove(&a->wait);
    wheel_cancel(&a->ask.owner->wheel, &a->timer);
    if (e != ERR_OK) {
        a->base_offset = -1;
        a->append_ts = -1;
    }
    ask_return(&a->ask, e);
}

static void append_late(struct timer *t, ms now) {
    (void)now;
    mark("append.timeout");
    append_leave(list_entry(t, struct append_ask, timer), ERR_TIMEOUT);
}

/* How far the log must be for this ask: written for acks=1, the high watermark for acks=-1. */
static bool append_reached(const struct append_ask *a, const struct part *pt, off64 written) {
    return a->wait_below <= (a->acks == 1 ? written : pt->committed);
}

static void append_park(struct part *pt, struct append_ask *a, off64 below) {
    struct plog_ends ends;
    plog_ends(pt->log, &ends);
    a->log_start = ends.start;
    a->leader_epoch = pt->leader_epoch;
    a->wait_below = below;
    if (a->acks == -1 || !list_empty(&pt->watches)) {
        part_want_visible(pt);                     /* a parked reader waits for it, whatever the producer's class is (D6 b) */
    }
    if (a->acks == 0 || append_reached(a, pt, ends.written)) {
        ask_return(&a->ask, ERR_OK);
        return;
    }
    struct list *at = pt->appends.prev;            /* nearly always the end; a duplicate may wait for an older batch */
    while (at != &pt->appends && list_entry(at, struct append_ask, wait)->wait_below > below) {
        at = at->prev;
    }
    list_insert_after(at, &a->wait);
    if (a->acks == -1) {
        shard_timer(pt->sh, &a->timer, a->due);
    }
}

static void append_duplicate(struct part *pt, struct append_ask *a, const struct prodwin_answer *known) {
    mark("append.duplicate");
    pt->sh->stats.duplicates++;
    a->base_offset = known->base_offset;           /* S6.2: the original offset and append time */
    a->append_ts = a->log_append_time ? known->append_ts : -1;
    append_park(pt, a, known->last_offset + 1);
}

static err append_reserve(struct part *pt, const struct append_ask *a) {
    err e = a->head.producer_id >= 0 ? prod_reserve(pt, &a->head) : ERR_OK;
    return e != ERR_OK ? e : plog_reserve(pt->log, a->batch.n);
}

static void append_stamp(struct part *pt, struct append_ask *a, off64 base) {
    uint8_t *bytes = a->chunk->data + (a->batch.p - a->chunk->data);
    if (a->log_append_time) {
        a->append_ts = shard_wall(pt->sh);
        batch_stamp_append_time(bytes, a->batch.n, a->append_ts);
        a->head.max_ts_ms = a->append_ts;
        a->head.attributes |= BATCH_ATTR_LOG_APPEND_TIME;
    }
    batch_stamp(bytes, base, pt->leader_epoch);
    a->head.base_offset = a->base_offset = base;
    a->head.leader_epoch = pt->leader_epoch;
}

static void append_queue(struct part *pt, struct append_ask *a) {
    struct plog_ends ends;
    plog_ends(pt->log, &ends);
    append_stamp(pt, a, ends.next);
    plog_append(pt->log, a->chunk, a->batch, &a->head, pt->sh->now);
    if (a->head.producer_id >= 0) {
        prod_note(pt, &a->head);
    }
    pt->sh->stats.appends++;
    pt->sh->stats.append_bytes += a->batch.n;
    append_park(pt, a, batch_last_offset(&a->head) + 1);
}

static void append_judge(struct ask *ask) {
    struct append_ask *a = list_entry(ask, struct append_ask, ask);
    struct part *pt;
    err found = part_get(ask->owner, a->topic_id, a->partition, &pt);
    if (found != ERR_OK) {
        ask_return(ask, found);
        return;
    }
    if (plog_is_fenced(pt->log)) {                 /* before the window, which knows nothing of a log that was given up */
        ask_return(ask, ERR_FENCED);
        return;
    }
    if (a->head.producer_id >= 0) {
        struct prodwin_answer known;
        err e = prodwin_check(pt->win, &a->head, &known);
        if (e != ERR_OK) {
            ask_return(ask, e);
            return;
        }
        if (known.verdict == PRODWIN_DUPLICATE) {
            append_duplicate(pt, a, &known);
            return;
        }
    }
    err e = append_reserve(pt, a);
    if (e != ERR_OK) {
        ask_return(ask, e);
        return;
    }
    append_queue(pt, a);
}

/* Too much unsynced: the ask waits unjudged, and with it its admission, so that producers are soon not read (D6 d). All of them, to keep their order. One whose time
 * is over before it was judged is never appended (T50). */
static void append_run(struct ask *ask) {
    struct shard *sh = ask->owner;
    struct append_ask *a = list_entry(ask, struct append_ask, ask);
    a->due = sh->now + a->timeout;
    if (!store_is_full(sh->store) && list_empty(&sh->full)) {
        append_judge(ask);
        return;
    }
    mark("append.held");
    list_push_back(&sh->full, &a->wait);
    if (a->acks == -1) {
        shard_timer(sh, &a->timer, a->due);
    }
}

void append_resume(struct shard *sh) {
    while (!list_empty(&sh->full) && !store_is_full(sh->store)) {
        struct append_ask *a = list_entry(list_pop_front(&sh->full), struct append_ask, wait);
        wheel_cancel(&sh->wheel, &a->timer);
        append_judge(&a->ask);
        shard_again(sh);                           /* step 3 is due for it */
    }
}

void append_settle(struct part *pt, off64 written) {
    off64 most = written > pt->committed ? written : pt->committed;
    list_each_safe(it, &pt->appends) {
        struct append_ask *a = list_entry(it, struct append_ask, wait);
        if (a->wait_below > most) {
            break;
        }
        if (append_reached(a, pt, written)) {
            append_leave(a, ERR_OK);
        }
    }
}

void append_fail(struct part *pt, off64 from, err why) {
    list_each_safe(it, &pt->appends) {
        struct append_ask *a = list_entry(it, struct append_ask, wait);
        if (a->wait_below > from) {
            append_leave(a, why);
        }
    }
}

void append_init(struct append_ask *a, void (*done)(struct ask *a)) {
    ask_init(&a->ask, append_run, done);
    list_init(&a->wait);
    timer_init(&a->timer, append_late);
    a->base_offset = a->log_start = a->append_ts = -1;
    a->leader_epoch = -1;
}

void append_send(struct shard *home, struct shard *owner, struct append_ask *a) { ask_send(home, owner, &a->ask); }
