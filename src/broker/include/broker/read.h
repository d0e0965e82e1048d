/* Read from partitions: one ask per owner shard. A read never parks; who finds too little leaves a watch with each owner and is woken when marks move.
 *
 *   read_init, fill parts[], read_send(READ_DATA or READ_PROBE) … done: per part the ends, and bytes (PROBE: only how many).
 *   read_send(READ_WATCH) … done when the high watermark of any part is not `seen` any more, or after read_cancel. */
#pragma once

#include "base/chain.h"
#include "broker/shard.h"

enum read_op { READ_DATA, READ_PROBE, READ_WATCH };

struct read_part {
    uuid topic_id;
    int32_t partition;
    int32_t current_epoch;             /* -1: not checked (S7.13) */
    int32_t last_fetched_epoch;        /* -1: not checked (S7.14) */
    uint32_t got;                      /* private: index + 1 in read_ask.got; 0: no bytes */
    off64 from;
    size_t bytes_max;
    /* answer */
    err err;
    int32_t leader_epoch;
    off64 high_watermark, last_stable, log_start;      /* -1 on failure */
    int32_t diverging_epoch;           /* -1: none */
    off64 diverging_end;
    size_t bytes;                      /* found; in READ_DATA the bytes that read_take hands out */
};

#define READ_GOT_MAX 1024              /* parts of one ask that hand out bytes; the others wait for the next */
#define READ_COLD_MAX 64               /* of them, from the disk */

struct read_ask {
    struct ask ask;
    enum read_op op;
    size_t bytes_max;                  /* all parts together; the first batch of the first non-empty part comes whole all the same (S7.2) */
    bool min_one;                      /* may use that exception */
    struct read_part *parts;
    size_t parts_n;
    struct arena *arena;
    /* private to the owner while the ask is out */
    struct plog_got *got;              /* of the parts with bytes, in the arena when there are few, else allocated when the first is found */
    uint32_t got_n, got_cap;
    bool got_owned;
    struct read_watch *watches;        /* one a part, in the arena, from the first READ_WATCH on */
    struct read_cold *cold;
    uint32_t cold_n;
    bool parked;
    struct ask cancel;                 /* travels behind the watch on the same FIFO */
    bool cancelling, home_already;
    void (*when_done)(struct read_ask *a);
    void *u;                           /* caller's */
};

/* parts and private arrays come from the arena. NOMEM. */
err read_init(struct read_ask *a, struct arena *arena, size_t parts_n, void (*when_done)(struct read_ask *a));
/* A READ_WATCH without memory comes home at once with NOMEM. */
void read_send(struct shard *home, struct shard *owner, struct read_ask *a, enum read_op op);
/* Home's thread, while a READ_WATCH is out: it comes home soon (when_done runs once). No-op otherwise. */
void read_cancel(struct read_ask *a);
/* Move the bytes of part i into out (lent); at most once per part. */
void read_take(struct read_ask *a, size_t i, struct chain *out);
/* Drop bytes that were not taken. Call before the ask is reused or forgotten. */
void read_drop(struct read_ask *a);
