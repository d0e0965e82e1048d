/* Producer ids (S6.10): each shard hands out ids from a block that the metadata log has granted for ever; none repeats, also across restarts. */
#pragma once

#include "broker/shard.h"

struct pids_ask {
    struct list link;
    void (*done)(struct pids_ask *a);  /* on this shard; err and id are set. May run inside pids_take */
    err err;
    int64_t id;
    void *u;
};
void pids_take(struct shard *sh, struct pids_ask *a);
