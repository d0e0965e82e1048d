/* The lanes of a simulated disk.
 *
 * Happy path: submit links the request; when the node's code has returned, settle takes the snapshot of a sync and queues it. A lane works
 * on one request at a time; when its time is over the request waits for the loop's poll, takes effect there and its `done` runs. So a sync
 * covers exactly what had come home when it was submitted.
 * disk_call does the same at once, inside the node's code; a planned crash then jumps out of it through the node's guard.
 * Failure modes: diskop_sim's. At a crash requests in flight, in each lane a prefix of them, may have happened.
 * Runs on: the world's thread. */
#include "disk_sim.h"

#include "base/must.h"
#include "diskop_sim.h"
#include "loop_sim.h"

#define SLOW_SYNC_US 500000

static bool is_sync(const struct disk_req *rq) {
    return rq->op == DISK_SYNC || rq->op == DISK_SYNCFS;
}

static struct diskop_sim op_of(struct disk_sim *d, struct disk_req *rq, struct snap_sim *snap) {
    return (struct diskop_sim){d->node, d->lp ? d->lp->port.shard + 1 : 0, rq, snap, d->lp == NULL};
}

static struct snap_sim *lane_snap(struct disk_lane_sim *ln, const struct disk_req *rq) {
    return is_sync(rq) ? list_entry(list_pop_front(&ln->snaps), struct snap_sim, link) : NULL;
}

/* Files that the request names are busy (by 1) or no longer (by -1). */
static void hold_files(struct disk_req *rq, int by) {
    switch (rq->op) {
    case DISK_WRITE:
    case DISK_READ:
    case DISK_TRUNCATE:
    case DISK_FORGET:
    case DISK_AHEAD:
    case DISK_ROOM:
        rq->file->in_flight += (uint32_t)by;
        break;
    case DISK_SYNC:
        for (size_t i = 0; i < rq->files_n; i++) {
            rq->files[i]->in_flight += (uint32_t)by;
        }
        break;
    default:
        break;
    }
}

/* Counts the operation; true when the node is to crash at it. */
static bool crash_due(struct world_node *n, const struct disk_req *rq, bool *ret_power) {
    n->ops++;
    if (n->crash_in > 0 && --n->crash_in == 0) {
        *ret_power = n->crash_power;
        return true;
    }
    *ret_power = n->hook_power;
    return n->on_op && n->on_op(n->on_op_u, rq, diskop_sim_path(rq));
}

static err call(struct disk *disk, struct disk_req *rq) {
    struct disk_sim *d = list_entry(disk, struct disk_sim, disk);
    struct world_node *n = d->node;
    must(!d->lp || n->w->running == n);
    struct diskop_sim x = op_of(d, rq, diskop_sim_snap(n, rq));
    bool power;
    if (d->lp && crash_due(n, rq, &power)) {
        (void)diskop_sim_half(&x);                 /* the process will not hear how far it came */
        world_node_crash(n, power);
    }
    rq->took_us = 0;
    return diskop_sim_run(&x);
}

static void submit(struct disk *disk, struct disk_req *rq) {
    struct disk_sim *d = list_entry(disk, struct disk_sim, disk);
    must(d->lp && d->node->w->running == d->node);
    must(rq->done);
    must(rq->lane < DISK_LANES);
    list_push_back(&d->submitted, &rq->link);
}

static int64_t latency(struct world *w, const struct disk_req *rq) {
    if (!is_sync(rq)) {
        return world_sim_delay(w, w->faults.disk_us_max);
    }
    return world_sim_delay(w, world_sim_strikes(w, w->faults.sync_slow) ? SLOW_SYNC_US : w->faults.sync_us_max);
}

/* Work on the first of the queue, if there is one and the lane is free. */
static void lane_go(struct disk_lane_sim *ln) {
    if (list_empty(&ln->queue) || event_sim_is_set(&ln->ev) || ln->held) {
        return;
    }
    struct world *w = ln->d->node->w;
    event_sim_at(&w->heap, &ln->ev, w->now + latency(w, list_entry(ln->queue.next, struct disk_req, link)));
}

static void lane_fire(struct event_sim *e) {
    struct disk_lane_sim *ln = list_entry(e, struct disk_lane_sim, ev);
    const struct disk_req *rq = list_entry(ln->queue.next, struct disk_req, link);
    if (is_sync(rq) && ln->d->node->hold_syncs) {
        ln->held = true;
        return;
    }
    list_push_back(&ln->finished, list_pop_front(&ln->queue));
    loop_sim_ready(ln->d->lp, &ln->ready);
    lane_go(ln);
}

void disk_sim_release_held(struct disk_sim *d) {
    for (int i = 0; i < DISK_LANES; i++) {
        d->lanes[i].held = false;
        lane_go(&d->lanes[i]);
    }
}

void disk_sim_settle(struct disk_sim *d) {
    for (struct list *it; (it = list_pop_front(&d->submitted));) {
        struct disk_req *rq = list_entry(it, struct disk_req, link);
        struct disk_lane_sim *ln = &d->lanes[rq->lane];
        struct snap_sim *snap = diskop_sim_snap(d->node, rq);
        if (snap) {
            list_push_back(&ln->snaps, &snap->link);
        }
        hold_files(rq, 1);
        rq->took_us = d->node->w->now;             /* since when, until it is done */
        list_push_back(&ln->queue, &rq->link);
        lane_go(ln);
    }
}

static void run_done(void *arg) {
    struct disk_req *rq = arg;
    rq->done(rq);
}

/* What follows in this lane has not begun. */
static void lane_forget(struct disk_lane_sim *ln) {
    list_init(&ln->finished);
    list_init(&ln->queue);
}

static void lane_deliver(struct ready_sim *r) {
    struct disk_lane_sim *ln = list_entry(r, struct disk_lane_sim, ready);
    struct world_node *n = ln->d->node;
    struct loop_sim *lp = ln->d->lp;
    for (struct list *it; !lp->dead && (it = list_pop_front(&ln->finished));) {
        struct disk_req *rq = list_entry(it, struct disk_req, link);
        struct diskop_sim x = op_of(ln->d, rq, lane_snap(ln, rq));
        hold_files(rq, -1);
        bool power;
        if (crash_due(n, rq, &power)) {
            if (!diskop_sim_half(&x)) {
                lane_forget(ln);
            }
            world_node_crash(n, power);
            return;
        }
        (void)diskop_sim_run(&x);                  /* its err is in the request */
        rq->took_us = n->w->now - rq->took_us;
        (void)world_node_run(n, lp, run_done, rq);
    }
}

static bool lane_crash_one(struct disk_lane_sim *ln, struct list *it) {
    struct disk_req *rq = list_entry(it, struct disk_req, link);
    struct diskop_sim x = op_of(ln->d, rq, lane_snap(ln, rq));
    return diskop_sim_half(&x);
}

static void lane_crash(struct disk_lane_sim *ln) {
    struct list *it;
    while ((it = list_pop_front(&ln->finished)) || (it = list_pop_front(&ln->queue))) {
        if (!lane_crash_one(ln, it)) {
            break;
        }
    }
}

void disk_sim_crash(struct disk_sim *d) {
    for (int i = 0; i < DISK_LANES; i++) {
        lane_crash(&d->lanes[i]);
    }
}

bool disk_sim_idle(const struct disk_sim *d) {
    bool idle = list_empty(&d->submitted);
    for (int i = 0; i < DISK_LANES; i++) {
        idle = idle && list_empty(&d->lanes[i].queue) && list_empty(&d->lanes[i].finished);
    }
    return idle;
}

void disk_sim_init(struct disk_sim *d, struct world_node *n, struct loop_sim *lp) {
    *d = (struct disk_sim){.disk = {.submit = submit, .call = call}, .node = n, .lp = lp};
    list_init(&d->submitted);
    for (int i = 0; i < DISK_LANES; i++) {
        struct disk_lane_sim *ln = &d->lanes[i];
        ln->d = d;
        ln->which = (enum disk_lane)i;
        list_init(&ln->queue);
        list_init(&ln->finished);
        list_init(&ln->snaps);
        list_init(&ln->ready.link);
        ln->ready.deliver = lane_deliver;
        event_sim_init(&n->w->heap, &ln->ev, lane_fire);
    }
}

void disk_sim_done(struct disk_sim *d) {
    for (int i = 0; i < DISK_LANES; i++) {
        struct disk_lane_sim *ln = &d->lanes[i];
        while (!list_empty(&ln->snaps)) {
            snap_sim_free(list_entry(ln->snaps.next, struct snap_sim, link));
        }
        list_remove(&ln->ready.link);
        event_sim_done(&d->node->w->heap, &ln->ev);
    }
}
