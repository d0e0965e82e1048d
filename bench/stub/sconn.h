#pragma once
/* sconn.h: one connection of the stub: frames in, answers out in order, held back until they are durable. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/kbuf.h"

/* Answers up to `end` (bytes ever queued) may leave when commit number `seq` is done. */
struct sconn_hold {
    uint64_t seq, end;
};

struct sconn {
    int fd;
    bool active; /* on the loop's list of connections to finish this turn */
    bool want_write, closed;
    bool parked;           /* the frame at in_at is a fetch that waits */
    uint64_t parked_until; /* ns */
    uint8_t *in;
    size_t in_at, in_len, in_cap; /* [in_at, in_len) is not yet handled */
    struct kbuf out;
    uint64_t out_base, out_sent; /* bytes ever queued before out.p[0]; bytes ever sent */
    uint64_t out_free;           /* bytes ever allowed to leave */
    struct sconn_hold *holds;    /* [hold_at, hold_n) */
    size_t hold_at, hold_n, hold_cap;
};

struct sconn *sconn_new(int fd);
void sconn_free(struct sconn *c);

/* One receive. False: the peer is gone. */
bool sconn_receive(struct sconn *c);

/* The next whole frame without its length; false if there is none. sconn_consume drops it. */
bool sconn_frame(struct sconn *c, uint8_t **ret_p, size_t *ret_n);
void sconn_consume(struct sconn *c);
/* Moves what is left to the front; only when nothing borrows from the buffer any more. */
void sconn_compact(struct sconn *c);

/* What was put into `out` since the last call may leave when `seq` is done. */
void sconn_hold(struct sconn *c, uint64_t seq);

/* Sends what may leave. False: the peer is gone. *ret_blocked: the socket is full. */
bool sconn_send(struct sconn *c, uint64_t done, bool *ret_blocked);

/* Answers are waiting for a sync. */
bool sconn_holding(const struct sconn *c);
