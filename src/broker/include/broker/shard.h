/* One shard: one thread, one loop, its connections, partitions and timers. Nothing mutable is shared with another shard; they exchange asks.
 *
 * The turn, after every poll: (0, in the poll: frames are cut, decoded, dispatched) 1 drain the inbox 2 due timers 3 store pass: one gathered write per dirty
 * log, at most one sync in flight 4 marks moved: release whoever waited 5 encode and flush replies. */
#pragma once

#include "base/arena.h"
#include "base/chunk.h"
#include "base/map.h"
#include "base/wheel.h"
#include "broker/admit.h"
#include "broker/ask.h"
#include "port/port.h"
#include "state/meta.h"

struct node;
struct store;

/* Something to do at step 5, once, in order of registration. Embedded in a connection. */
struct shard_flush {
    struct list link;
    void (*flush)(struct shard_flush *f);
};

struct shard_stats {
    uint64_t turns, asks, appends, append_bytes, reads, read_bytes, duplicates, watches, conns, requests;
    int64_t turn_us_max;
};

/* Broker settings that may change while it runs, as this shard obeys them. */
struct shard_live {
    uint32_t conns_max;                /* max.connections, whole node */
    ms producer_expiry;                /* producer.id.expiration.ms */
};

struct shard {
    struct port *port;
    struct node *node;
    uint32_t index;
    ms now;                            /* monotonic, read once per turn: use shard_now() in poll callbacks */
    bool now_is_fresh;
    struct wheel wheel;
    struct timer expiry;               /* of producer states (prod.c) */
    size_t producers;                  /* how many the parts remember */
    struct meta *meta;                 /* this shard's copy of the metadata */
    struct shard_live live;
    struct arena_pool arenas;
    struct chunk_pool *chunks;
    struct admit admit;
    struct store *store;
    struct map parts;                  /* struct part by (topic id, index): the ones this shard owns */
    struct list chores;                /* topics of many partitions that are being opened or removed (topics.c) */
    struct list applied;               /* asks with metadata frames that are answered when the chores are done */
    struct list local;                 /* asks to and from ourselves */
    struct list moved;                 /* parts whose marks moved since the last step 4 */
    struct list full;                  /* append asks held back while too much is unsynced (D6 d) */
    struct list flushes;
    struct list finds;                 /* look-ups by time that wait their turn (offsets.c) */
    struct timer finds_again;
    uint32_t finds_n;                  /* under way */
    struct timer retain;               /* retain.c: the next round of retention, or its next turn */
    size_t retains_left;               /* logs that this round has not looked at yet */
    uint32_t retains_n;                /* looks under way */
    struct list pid_waiting;           /* pids.c */
    int64_t pid_next, pid_end;
    bool pid_asking;
    void *door;                        /* the Kafka door's state on this shard */
    struct shard_stats stats;
};

ms shard_now(struct shard *sh);                    /* fresh within this poll or turn */
ms shard_wall(struct shard *sh);
void shard_flush_later(struct shard *sh, struct shard_flush *f);       /* no-op when registered already */
void shard_again(struct shard *sh);                /* another turn soon */
/* By name, not by id: a topic deleted and created again has its partitions on the same shards, whose write lane then keeps the old directory's removal before the
 * new one's creation (BR-042). */
struct shard *shard_owner(struct shard *sh, const struct meta_topic *t, int32_t partition);
/* Timers: due is monotonic. */
static inline void shard_timer(struct shard *sh, struct timer *t, ms due) { wheel_set(&sh->wheel, t, due); }
