/* One simulated shard: its port, its poll and its inbox. */
#pragma once

#include "disk_sim.h"
#include "work_sim.h"
#include "world_sim.h"

struct loop_channel {            /* messages from one shard to another, in order */
    struct loop_sim *to;
    uint32_t from;
    struct list flying;
    struct event_sim ev;
};

struct loop_sim {
    struct list grave;
    struct port port;
    struct clock clock;
    struct net net;
    struct inbox inbox;
    struct disk_sim disk;
    struct work_sim work;
    struct world_node *node;
    struct prng rng, secrets;
    struct event_sim poll, wake;
    ms wake_due;                 /* INT64_MAX: none */
    struct list ready;           /* ready_sim */
    struct list touched;         /* connections the node's code did something to */
    struct list conns, listeners;
    struct loop_channel *channels;   /* one per sending shard */
    struct list arrived;         /* inbox items */
    bool dead;                   /* the node has crashed or ended; memory lasts until the next step */
    bool stopping, stopped;
    void (*turn)(void *u);
    void *turn_u;
};

struct loop_sim *loop_sim_new(struct world_node *n, uint32_t shard);
void loop_sim_free(struct loop_sim *lp);         /* buries it; connections and requests are gone already */
void loop_sim_ready(struct loop_sim *lp, struct ready_sim *r);
void loop_sim_kick(struct loop_sim *lp);         /* poll soon */
void loop_sim_settle(struct loop_sim *lp);       /* take what the node's code has submitted and sent */
