/* One client connection: cuts frames, keeps requests in order, sends replies in order. Lives on its home shard. */
#pragma once

#include "broker/allow.h"
#include "broker/node.h"
#include "state/fsessions.h"
#include "wire/head.h"

#define CONN_SCRATCH_BYTES (64 << 10)
#define CONN_SCRATCH_TIGHT_BYTES (4 << 10)         /* per read while memory is short, so that little has to be kept aside */

struct rq;

/* The door's state on one shard. */
struct conn_set {
    struct shard *sh;
    struct list conns;
    struct list free_rqs, free_outs;               /* kept for reuse */
    size_t free_rqs_n, free_outs_n;
    struct timer drain;                            /* cuts what does not drain in time */
    struct fsessions sessions;                     /* fetch_session.c */
    bool draining, idle;                           /* idle: node_door_idle was told */
    uint8_t *scratch;                              /* CONN_SCRATCH_BYTES: where bytes land whose frame is not known yet */
};

enum conn_close { CONN_OPEN, CONN_AFTER_REPLIES, CONN_NOW };

struct conn {
    struct list link;                              /* in set->conns */
    struct conn_set *set;
    struct net_conn *net;
    const struct node_listener *listener;
    struct net_addr local, peer;
    struct allow_who who;
    struct list rqs;                               /* in order of arrival: waiting, running, done */
    uint32_t rqs_n;
    struct list outs;                              /* replies on their way, in order */
    uint32_t unsent_n;                             /* requests in them: what they hold is freed, and their admission given back, when the client took the reply */
    struct shard_flush flush;
    struct timer timer;
    struct admit_wait admit;
    ms active;                                     /* last byte in or out */
    uint64_t queued;                               /* reply bytes sent so far */
    uint64_t taken, owed;                          /* of them, taken by the client when the timer looked last; queued then */
    ms looked, moved;                              /* when that was; when it last found that some were taken */
    ms frame_since;                                /* when the frame being read began */
    uint8_t head[4];                               /* of a frame whose size is not known yet */
    uint32_t head_n;
    struct chunk *frame;                           /* being filled */
    size_t frame_n, frame_got;
    bool early;                                    /* it is the frame's beginning only, and not charged yet */
    struct chunk *aside;                           /* holds bytes read beyond what admission or order lets in: these */
    const uint8_t *aside_p;
    size_t aside_n;
    uint32_t fetches;                              /* rotates partition order (S7.21) */
    enum conn_close closing;
    bool paused;                                   /* room() said 0; read_more is owed */
    bool waiting_admit, closed;
    char client[48];                               /* software name and version as ApiVersions told, for logs */
};

/* On the connection's shard. Takes `a`. */
void conn_open(struct conn_set *set, const struct node_listener *l, struct net_accepted *a);
bool conn_set_init(struct conn_set *set, struct shard *sh);         /* false without memory; conn_set_done is due all the same */
void conn_set_done(struct conn_set *set);
/* Stop reading everywhere, hurry what is parked; node_door_idle once the last is closed. */
void conn_set_drain(struct conn_set *set);
/* A session or a part of one is gone: while draining that may have been the last thing waited for. */
void conn_set_changed(struct conn_set *set);
/* A request of cn is done (or may start): step 5 looks at it. */
void conn_changed(struct conn *cn);
/* Close once the replies of requests already here have left (AFTER_REPLIES), or at once. */
void conn_close(struct conn *cn, enum conn_close how);
