/* Watches on single partitions. See watch.h.
 *
 * Happy path: the watch parks with the owner until watch_wake, which marks and parts call; a cancel finds it parked, or finds that it went home already.
 * Failure modes: none; a partition that moved before the watch arrived, or is not there, sends it home at once.
 * Runs on: owner shard (run, wake), home shard (send, cancel). */
#include "broker/watch.h"

#include "base/must.h"
#include "inside.h"

static void watch_woken(struct watch_node *n) {
    struct watch *w = list_entry(n, struct watch, node);
    w->parked = false;
    ask_return(&w->ask, ERR_OK);
}

static void watch_run(struct ask *ask) {
    struct watch *w = list_entry(ask, struct watch, ask);
    struct part *pt = part_find(ask->owner, w->topic_id, w->partition);
    struct plog_ends ends;
    if (pt != NULL) {
        plog_ends(pt->log, &ends);
    }
    if (pt == NULL || pt->committed != w->high_watermark || ends.start != w->log_start || pt->leader_epoch != w->leader_epoch) {
        ask_return(ask, ERR_OK);
        return;
    }
    if (pt->committed < ends.next) {
        part_want_visible(pt);                     /* D6 b */
    }
    w->parked = true;
    ask->owner->stats.watches++;
    list_push_back(&pt->watches, &w->node.link);
}

static void watch_cancel_run(struct ask *ask) {
    struct watch *w = list_entry(ask, struct watch, cancel);
    if (w->parked) {
        list_remove(&w->node.link);
        w->parked = false;
        ask_return(&w->ask, ERR_CANCELLED);
    }
    ask_return(ask, ERR_OK);
}

static void watch_home(struct ask *ask) {
    struct watch *w = list_entry(ask, struct watch, ask);
    w->out = false;
    if (!w->cancelling) {
        w->when_home(w);
    }
}

static void watch_cancel_home(struct ask *ask) {
    struct watch *w = list_entry(ask, struct watch, cancel);
    must(!w->out);                                 /* same FIFO: the watch came home before its cancel */
    w->cancelling = false;
    w->when_home(w);
}

void watch_wake(struct part *pt) {
    while (!list_empty(&pt->watches)) {
        struct watch_node *n = list_entry(pt->watches.next, struct watch_node, link);
        list_remove(&n->link);
        n->wake(n);
    }
}

void watch_init(struct watch *w, void (*when_home)(struct watch *w)) {
    *w = (struct watch){.when_home = when_home, .node = {.wake = watch_woken}};
    list_init(&w->node.link);
    ask_init(&w->ask, watch_run, watch_home);
    ask_init(&w->cancel, watch_cancel_run, watch_cancel_home);
}

void watch_send(struct shard *home, struct shard *owner, struct watch *w) {
    must(!w->out && !w->cancelling);
    w->out = true;
    ask_send(home, owner, &w->ask);
}

void watch_cancel(struct watch *w) {
    if (w->out && !w->cancelling) {
        w->cancelling = true;
        ask_send(w->ask.home, w->ask.owner, &w->cancel);
    }
}
