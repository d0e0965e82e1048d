/* Messages between shards: one FIFO per pair of shards, never refusing; posting wakes the receiver's poll. Order is part of the
 * contract. The item is embedded in the sender's struct and belongs to the receiver until it is posted back. */
#pragma once

#include "base/list.h"

struct inbox_item {
    struct list link;
};

struct inbox {
    void (*post)(struct inbox *to, struct inbox_item *it);                 /* any shard's thread */
    /* Take at most n_max items in order into *ret (an initialised list head); returns how many. What is left brings another turn. Owner's
     * thread. */
    size_t (*drain)(struct inbox *own, struct list *ret, size_t n_max);
};
