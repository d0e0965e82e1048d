/* Spread the partitions of one request over their owner shards: counts first, then one ask each. Shared by handlers that ask for offsets. */
#pragma once

#include "api.h"
#include "broker/offsets.h"

struct owners_part {
    struct offsets_part want;
    const struct meta_topic *topic;    /* this shard's; looked at before anything is sent */
    void *resp;                        /* the handler's k_..._resp_topic_part */
    uint32_t shard;                    /* of the owner */
};

struct owners {
    struct rq *rq;
    struct owners_part *parts;
    size_t parts_n;
    struct offsets_ask *asks;
    size_t asks_n, out;
    void (*fill)(struct rq *rq, void *resp, const struct offsets_part *p);
    ms timeout;                        /* of OFFSETS_DELETE */
    void (*home)(struct owners *o);    /* instead of replying with answer; NULL: reply */
    const void *answer;                /* the k_..._resp, complete once every part is filled */
};

/* parts[] is filled, but for shard: send, and reply with o->answer when all are home. */
void owners_send(struct owners *o, enum offsets_op op);
