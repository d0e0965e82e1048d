/* The worker of a simulated shard: requests one at a time, each taking a while.
 *
 * Happy path: submit links the request; when its time is over it waits for the loop's poll, where `run` and `done` follow each other as the node's code. What `run`
 * touches is the request's own, so that nobody can tell when it ran.
 * Failure modes: none of its own; at a crash what is in flight is gone with the process.
 * Runs on: the world's thread. */
#include "work_sim.h"

#include "base/must.h"
#include "loop_sim.h"

#define WORK_US_MAX 5000

static void go(struct work_sim *wk) {
    struct world *w = wk->lp->node->w;
    if (!list_empty(&wk->queue) && !event_sim_is_set(&wk->ev)) {
        event_sim_at(&w->heap, &wk->ev, w->now + world_sim_delay(w, WORK_US_MAX));
    }
}

static void submit(struct work *work, struct work_req *rq) {
    struct work_sim *wk = list_entry(work, struct work_sim, work);
    must(wk->lp->node->w->running == wk->lp->node);
    must(rq->run != NULL && rq->done != NULL);
    list_push_back(&wk->queue, &rq->link);
    go(wk);
}

static void fire(struct event_sim *e) {
    struct work_sim *wk = list_entry(e, struct work_sim, ev);
    list_push_back(&wk->finished, list_pop_front(&wk->queue));
    loop_sim_ready(wk->lp, &wk->ready);
    go(wk);
}

static void run_one(void *arg) {
    struct work_req *rq = arg;
    rq->run(rq);
    rq->done(rq);
}

static void deliver(struct ready_sim *r) {
    struct work_sim *wk = list_entry(r, struct work_sim, ready);
    struct loop_sim *lp = wk->lp;
    for (struct list *it; !lp->dead && (it = list_pop_front(&wk->finished));) {
        (void)world_node_run(lp->node, lp, run_one, list_entry(it, struct work_req, link));
    }
}

bool work_sim_idle(const struct work_sim *wk) { return list_empty(&wk->queue) && list_empty(&wk->finished); }

void work_sim_init(struct work_sim *wk, struct loop_sim *lp) {
    *wk = (struct work_sim){.work = {.submit = submit}, .lp = lp};
    list_init(&wk->queue);
    list_init(&wk->finished);
    list_init(&wk->ready.link);
    wk->ready.deliver = deliver;
    event_sim_init(&lp->node->w->heap, &wk->ev, fire);
}

void work_sim_done(struct work_sim *wk) {
    list_remove(&wk->ready.link);
    event_sim_done(&wk->lp->node->w->heap, &wk->ev);
}
