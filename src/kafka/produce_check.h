/* Is a batch fit for its topic, and how is it stored? What Produce asks about each partition's bytes before it sends anything on (S5.2-5.7, S5.10-5.16). Depends on nothing but
 * its input: any thread. */
#pragma once

#include <stdatomic.h>

#include "base/arena.h"
#include "state/topicconf.h"
#include "wire/batch.h"
#include "wire/k_produce.h"
#include "wire/zip_sink.h"

struct produce_check {
    int16_t version;                   /* of the request */
    ms now;                            /* wall clock */
    const struct topicconf *conf;
    span bytes;                        /* in the frame; borrowed */
    struct arena *arena;               /* holds the list */
    int32_t list_max;                  /* bad records that this answer may still list */
    const atomic_bool *stop;           /* set: give up with CANCELLED. NULL: never */
    /* found: */
    struct batch_head head;            /* of the batch as it will be stored */
    struct batch_facts facts;
    struct zip_sink packed;            /* the batch packed anew, in p[0, n), when p is not NULL; the caller's to free with zip_sink_done */
    const char *why;                   /* what is wrong, static storage; NULL: what the err says */
    struct k_produce_resp_topic_part_record_error *errors;       /* in the arena */
    int32_t errors_n;
};

/* Would produce_check_batch unpack, pack, or go through more than a turn should? Looks at the head only. */
bool produce_check_is_heavy(const struct produce_check *ck);
/* Most bytes that ck->packed may take. 0: the batch is stored as it is. */
size_t produce_check_packed_max(const struct produce_check *ck);
/* Fill what is found, on failure as far as it was (nothing to free then). Unpacks at most zip_bytes_max of one batch, in little memory, and only where a rule of the topic asks
 * for it. */
err produce_check_batch(struct produce_check *ck);
