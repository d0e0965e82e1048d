/* Something of a simulated shard that has news: it is delivered at the shard's next poll (loop_sim_ready). */
#pragma once

#include "base/list.h"

struct ready_sim {
    struct list link;
    void (*deliver)(struct ready_sim *r);
};
