/* The worker of a simulated shard. */
#pragma once

#include "port/work.h"
#include "ready_sim.h"
#include "world_sim.h"

struct work_sim {
    struct work work;
    struct loop_sim *lp;
    struct list queue, finished; /* work_req. Finished ones run when delivered, which nobody can tell from before */
    struct event_sim ev;         /* the first of queue is finished */
    struct ready_sim ready;
};

void work_sim_init(struct work_sim *wk, struct loop_sim *lp);
void work_sim_done(struct work_sim *wk);         /* what is in flight is forgotten */
bool work_sim_idle(const struct work_sim *wk);
