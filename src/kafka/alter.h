/* What AlterConfigs and IncrementalAlterConfigs share: a wish for each resource, each with a verdict of its own (S16.6-16.8). */
#pragma once

#include "broker/topics.h"
#include "resource.h"

struct alter_wish {
    struct resource res;
    struct meta_conf_change *changes;
    size_t changes_n;
    int16_t code;                      /* verdict */
    span message;                      /* null: none */
    bool twice;                        /* another wish is for the same resource */
};

struct alter {
    struct rq *rq;
    struct alter_wish *wishes;
    size_t n, left;
    bool replace;                      /* AlterConfigs */
    bool validate_only;
    void (*done)(struct alter *al);    /* every wish has its verdict */
};

/* A wish on its way to shard 0. */
struct alter_sent {
    struct topics_change change;
    struct alter_wish *wish;
    struct alter *alter;
};

/* Room for n wishes, zeroed, in the request's arena; false without memory. */
bool alter_init(struct alter *al, struct rq *rq, size_t n);
/* Judge and send all; done may be called before this returns. False without memory: nothing was sent. */
bool alter_run(struct alter *al);
