/* A watch on one partition that may outlive the request that left it (a fetch session has one on each partition that is idle): it comes home when the partition's high watermark, log start or
 * leader epoch is not the one seen any more, when the partition goes, or soon after watch_cancel. What does not move costs nothing. */
#pragma once

#include "broker/shard.h"

/* Who wants to know that a partition moved; once. In the part's list, on its owner. */
struct watch_node {
    struct list link;
    void (*wake)(struct watch_node *n);            /* n is in no list any more */
};

struct watch {
    struct ask ask, cancel;            /* the cancel travels behind the watch on the same FIFO */
    struct watch_node node;            /* the owner's while the watch is out */
    uuid topic_id;                     /* these are filled before watch_send */
    int32_t partition;
    int32_t leader_epoch;              /* seen */
    off64 high_watermark, log_start;   /* seen */
    bool parked;                       /* the owner's */
    bool out, cancelling;
    void (*when_home)(struct watch *w);            /* home's thread */
};

void watch_init(struct watch *w, void (*when_home)(struct watch *w));
void watch_send(struct shard *home, struct shard *owner, struct watch *w);
/* Home's thread, while the watch is out: it comes home soon (when_home runs once). No-op otherwise. */
void watch_cancel(struct watch *w);
