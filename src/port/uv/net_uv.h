/* Sockets of one shard, from the inside: what listeners and connections share. Private to port_uv. */
#pragma once

#include <netinet/in.h>
#include <uv.h>

#include "port/net.h"

struct port_uv;

union net_sa {
    struct sockaddr sa;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

struct net_accepted {
    int fd;
    union net_sa peer;
};

#define NET_SCRATCH_BYTES 4096

struct net_uv {
    struct net net;                    /* first */
    struct port_uv *port;
    size_t conns;                      /* adopted and not yet `closed` */
    struct list dirty;                 /* net_conn: something to write after the turn */
    struct list finished;              /* net_send: `done` is due */
    struct list telling;               /* net_conn: `gone` or `closed` is due */
    struct list lingering;             /* net_conn: closing after its sends */
    uv_timer_t linger_timer;           /* the earliest deadline of lingering */
    struct list listeners;             /* net_listener, open ones */
    uv_timer_t accept_timer;           /* while paused: look for a free descriptor */
    bool paused;                       /* descriptors are short: nothing is accepted */
    uint8_t scratch[NET_SCRATCH_BYTES];            /* where bytes go that nobody wants */
};

void net_uv_init(struct net_uv *n, struct port_uv *p);
/* No connection and no listener may be left. Closes the handles; the memory is free after the loop ran them. */
void net_uv_done(struct net_uv *n);
/* After the turn: write what it queued. */
void net_uv_flush(struct net_uv *n);
/* From the loop, never from inside a door's call: run the `done`s that are due, then the `gone`s and `closed`s. */
void net_uv_deliver(struct net_uv *n);
/* Something for net_uv_deliver or net_uv_flush was added. */
void net_uv_kick(struct net_uv *n);

void net_uv_addr(const union net_sa *sa, struct net_addr *ret);
/* The err that stands for a negative errno of a socket operation. */
err net_uv_err(int status);
