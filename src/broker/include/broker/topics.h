/* Changes of metadata (D11). An ask to shard 0, which decides, makes the record durable, lets every shard apply it, and only then answers: whoever saw the answer sees the
 * change on every shard. May fail (NOSPACE, the rules of state/meta). */
#pragma once

#include "broker/shard.h"

enum topics_op { TOPICS_CREATE, TOPICS_DELETE, TOPICS_PRODUCER_BLOCK, TOPICS_EPOCH, TOPICS_GROW, TOPICS_CONF };

struct topics_change {
    struct ask ask;                    /* err: the verdict */
    enum topics_op op;
    struct meta_create create;         /* spans and arrays borrowed until done */
    struct meta_grow grow;             /* likewise; its topic is found by topic_id */
    struct meta_conf conf;             /* settings: likewise */
    bool validate_only;                /* S4.8, S16.8 */
    uuid topic_id;                     /* delete, epoch, grow: which; create: the new id (also the answer) */
    int32_t partition;                 /* epoch */
    int32_t partitions;                /* create: answer */
    int64_t ids_first, ids_n;          /* producer block: n asked, answer */
    char why[240];                     /* one line when err is not OK */
    /* private to shard 0 */
    struct list link;
    void *u;                           /* caller's */
};

void topics_init(struct topics_change *c, enum topics_op op, void (*done)(struct ask *a));
void topics_send(struct shard *home, struct topics_change *c);
