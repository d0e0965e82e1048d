/* Executing one disk request on a simulated file system, rightly, wrongly or halfway. */
#pragma once

#include "disk_sim.h"
#include "snap_sim.h"

struct diskop_sim {              /* a request on its way through */
    struct world_node *n;
    uint32_t shard;              /* from 1; 0: outside */
    struct disk_req *rq;
    struct snap_sim *snap;       /* of a sync: what it covers */
    bool outside;                /* no faults */
};

/* What a sync submitted now would cover; NULL for other requests. */
struct snap_sim *diskop_sim_snap(struct world_node *n, const struct disk_req *rq);
/* Execute, with the faults of the world and the node; sets all outputs of the request and returns its err. Frees snap. */
err diskop_sim_run(struct diskop_sim *x);
/* The node dies in the middle of it. Sets no outputs. True when all of it happened. Frees snap. */
bool diskop_sim_half(struct diskop_sim *x);
const char *diskop_sim_path(const struct disk_req *rq);
/* The process is gone: its descriptors and locks with it. Returns how many descriptors there were. */
size_t diskop_sim_process_ended(struct world_node *n);
