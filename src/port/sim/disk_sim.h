/* The disk of one simulated shard, or of a node seen from outside: lanes, latencies and faults over a fs_sim. */
#pragma once

#include "ready_sim.h"
#include "world_sim.h"

struct disk_file {
    struct list link;            /* node's files */
    struct world_node *node;
    struct fs_inode *ino;        /* one reference, counted in opens */
    char *path;                  /* when it was opened */
    uint32_t in_flight;          /* submitted requests that name it */
    bool writable;
    bool outside;                /* opened through world_node_disk: no part of the process */
    bool sync_failed;
};

struct disk_lane_sim {           /* requests wait, are worked on one at a time and come home at the loop's next poll */
    struct disk_sim *d;
    enum disk_lane which;
    struct list queue, finished; /* disk_req. Finished ones take effect when delivered: a sync submitted before covers none of it */
    struct list snaps;           /* snap_sim of each sync in finished and queue, in order */
    struct event_sim ev;         /* the first of queue is finished */
    bool held;                   /* it would be, but syncs are held */
    struct ready_sim ready;
};

struct disk_sim {
    struct disk disk;
    struct world_node *node;
    struct loop_sim *lp;         /* NULL: from outside */
    struct disk_lane_sim lanes[DISK_LANES];
    struct list submitted;       /* not yet seen by a lane: the node's code is still running */
};

void disk_sim_init(struct disk_sim *d, struct world_node *n, struct loop_sim *lp);
void disk_sim_done(struct disk_sim *d);          /* what is in flight is forgotten */
void disk_sim_settle(struct disk_sim *d);
bool disk_sim_idle(const struct disk_sim *d);
/* The node is going down: what is in flight happens wholly, in part or not at all. */
void disk_sim_crash(struct disk_sim *d);
void disk_sim_release_held(struct disk_sim *d);
