/* Offsets of partitions: ListOffsets (all special values, look-up by time), OffsetForLeaderEpoch, DeleteRecords; and their sizes. One ask per owner shard. */
#pragma once

#include "broker/shard.h"

#define OFFSETS_LATEST (-1)
#define OFFSETS_EARLIEST (-2)
#define OFFSETS_MAX_TS (-3)
#define OFFSETS_EARLIEST_LOCAL (-4)
#define OFFSETS_LATEST_TIERED (-5)
#define OFFSETS_EARLIEST_PENDING (-6)
#define OFFSETS_OLD_MAX 1000           /* ListOffsets v0: at most so many */

enum offsets_op {
    OFFSETS_LIST,
    OFFSETS_EPOCHS,                    /* OffsetForLeaderEpoch */
    OFFSETS_DELETE,                    /* DeleteRecords: move the log start; the answer, in `offset`, is where it is then */
    OFFSETS_SIZES                      /* bytes of all segments, in `offset` */
};

struct offsets_part {
    uuid topic_id;
    int32_t partition;
    int32_t current_epoch;             /* -1: not checked */
    int64_t ts;                        /* >= 0 or one of the above */
    bool read_committed;
    bool old_style;                    /* v0: fill old[] */
    int32_t old_max;
    int32_t asked_epoch;               /* OffsetForLeaderEpoch: the epoch asked; ts unused */
    off64 delete_to;                   /* DeleteRecords: the new log start, -1: the end as it is on arrival */
    void *u;
    /* answer */
    err err;
    off64 offset;                      /* -1: none */
    ms found_ts;
    int32_t leader_epoch;
    off64 *old;                        /* mem_alloc'd by the owner; freed by offsets_drop */
    int32_t old_n;
};

struct offsets_ask {
    struct ask ask;
    enum offsets_op op;
    ms timeout;                        /* of DELETE, from its arrival at the owner: then TIMEOUT, and the start may still move */
    struct offsets_part *parts;
    size_t parts_n;
    struct offsets_wait *waits;        /* private to the owner */
    struct timer timer;
    size_t left;
    void *u;
};

err offsets_init(struct offsets_ask *a, struct arena *arena, size_t parts_n, enum offsets_op op, void (*done)(struct ask *a));
void offsets_send(struct shard *home, struct shard *owner, struct offsets_ask *a);
void offsets_drop(struct offsets_ask *a);
