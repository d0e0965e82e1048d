/* Admission: a frame's size is charged whole before its body is read; what the budget cannot hold is not read (D12). One budget per shard, in pools, so that nobody waits for who holds
 * much, or is slow: large frames and reply bytes share the budget half and half; frames up to LIMIT_FRAME_SMALL_BYTES have the reserve; frames up to LIMIT_FRAME_TINY_BYTES, which are
 * charged when they are whole, as much again, and replies up to LIMIT_REPLY_LITTLE_BYTES half as much. Of a larger frame LIMIT_FRAME_TINY_BYTES come before it is charged: who
 * announces much and sends nothing keeps nobody waiting (T56).
 * A single frame or reply above its whole pool is let in alone.
 * Who holds a frame may wait for reply bytes, who holds reply bytes waits for nothing but its socket, or (a batch that is packed anew) for the worker and the log: so nobody
 * waits in a circle, not even for requests that are queued behind its own on the same connection.
 * Runs on: the shard. */
#pragma once

#include "base/list.h"

#define ADMIT_RQ_BYTES 512             /* charged beside a frame: what a small request costs us */

struct admit {
    struct admit_pool {
        size_t used, max;
        struct list waiting;           /* admit_wait, first come first served */
        bool giving;
    } big, small, tiny, replies, little;
    size_t parked, parked_max;
};

/* What requests hold while they wait for something to happen (a fetch of very many partitions): bounded, so that such requests cannot fill memory; never waited for. */
#define ADMIT_PARK_FREE_BYTES ((size_t)16 << 10)   /* of each: idle consumers are not counted */

struct admit_wait {
    struct list link;
    size_t bytes;
    void (*ready)(struct admit_wait *w);           /* charged; from admit_give, on the shard */
};

void admit_init(struct admit *a, size_t max, size_t reserve);
/* Charge a frame. True: charged. False: w waits and `ready` comes later (or admit_cancel). */
bool admit_take(struct admit *a, struct admit_wait *w, size_t bytes, void (*ready)(struct admit_wait *w));
/* The same for the bytes of a reply. */
bool admit_take_reply(struct admit *a, struct admit_wait *w, size_t bytes, void (*ready)(struct admit_wait *w));
void admit_cancel(struct admit_wait *w);           /* no-op when not waiting */
void admit_give(struct admit *a, size_t bytes);                     /* as many as were taken at once: its pool follows from that */
/* The same for the bytes of a reply of at most LIMIT_REPLY_LITTLE_BYTES. */
bool admit_take_little(struct admit *a, struct admit_wait *w, size_t bytes, void (*ready)(struct admit_wait *w));
void admit_give_little(struct admit *a, size_t bytes);
void admit_give_reply(struct admit *a, size_t bytes);
/* Somebody waits for memory of the pool that a frame of so many bytes is charged to: who holds some should hurry. */
bool admit_is_tight_for(const struct admit *a, size_t bytes);
bool admit_waits_for_replies(const struct admit *a);               /* the same of replies' memory */
bool admit_is_short(const struct admit *a);                        /* some frame waits, whatever its size: read little at a time */
bool admit_is_full_of_replies(const struct admit *a, size_t bytes);        /* so many bytes of a reply would have to wait */
/* Charge as much more of `want` reply bytes as half of what is free holds, so that one reader leaves room for the next; nothing while others wait. Returns the charge. */
size_t admit_more(struct admit *a, size_t want);
/* May a request that holds so many bytes wait? Charges what is above ADMIT_PARK_FREE_BYTES and tells it in *ret_charge; with nothing charged anybody may. */
bool admit_park(struct admit *a, size_t bytes, size_t *ret_charge);
void admit_unpark(struct admit *a, size_t charge);
/* Charge reply bytes that are there already, whatever fits: who comes next waits. */
void admit_over(struct admit *a, size_t bytes, bool little);
