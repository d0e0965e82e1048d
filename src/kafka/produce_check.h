/* Is a batch fit for its topic? What Produce asks about each partition's bytes before it sends anything on (S5.2-5.7, S5.10-5.15). Home shard. */
#pragma once

#include "rq.h"
#include "state/topicconf.h"
#include "wire/batch.h"
#include "wire/k_produce.h"

struct produce_check {
    struct rq *rq;                     /* version, clock, memory of the list */
    const struct topicconf *conf;
    span bytes;                        /* in the frame */
    int32_t list_max;                  /* bad records that this answer may still list */
    /* found: */
    struct batch_head head;
    struct batch_facts facts;
    const char *why;                   /* what is wrong, static storage; NULL: what the err says */
    struct k_produce_resp_topic_part_record_error *errors;       /* in the request's arena */
    int32_t errors_n;
};

/* Fill what is found, on failure as far as it was. Unpacks at most zip_bytes_max of one batch, in little memory, and only where a rule of the topic
 * asks for it. */
err produce_check_batch(struct produce_check *ck);
