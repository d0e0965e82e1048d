/* Append one batch to one partition: an ask to its owner (DESIGN 3, a produce). The home has authorised and validated the bytes; the owner judges topic, producer
 * sequence and space, stamps, queues, and gives the ask back when acks says so: 0 queued, 1 written, -1 stable (the high watermark passed it). */
#pragma once

#include "broker/shard.h"
#include "wire/batch.h"

struct append_ask {
    struct ask ask;                    /* err: the verdict */
    uuid topic_id;
    int32_t partition;
    int16_t acks;
    bool log_append_time;              /* message.timestamp.type of the topic as the home saw it */
    ms timeout;                        /* of acks=-1: TIMEOUT when over, the data may stay (S5.19) */
    struct chunk *chunk;               /* holds the bytes; the ask keeps its reference until it is home */
    span batch;                        /* inside chunk; the owner stamps it in place */
    struct batch_head head;
    /* answer */
    off64 base_offset, log_start;      /* -1 on failure */
    ms append_ts;                      /* LogAppendTime only, else -1 */
    int32_t leader_epoch;
    /* private to the owner while parked */
    struct list wait;
    struct timer timer;
    off64 wait_below;
    ms due;                            /* of acks=-1, from its arrival at the owner */
    void *u;                           /* caller's */
};

void append_init(struct append_ask *a, void (*done)(struct ask *a));
void append_send(struct shard *home, struct shard *owner, struct append_ask *a);
