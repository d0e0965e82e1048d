/* One connection. Private to port_uv. */
#pragma once

#include "net_uv.h"

struct net_conn {
    uv_tcp_t tcp;                      /* first */
    uv_write_t waiting;                /* the one write that libuv holds while the socket is full */
    struct net_uv *net;
    const struct net_events *ev;       /* NULL: adoption failed, there is nobody to tell */
    void *u;
    struct list dirty;                 /* in net->dirty, or alone */
    struct list telling;               /* in net->telling, or alone */
    struct list lingering;             /* in net->lingering, or alone */
    struct list sends;                 /* net_send, oldest first: not wholly taken by the kernel; err set: too late */
    size_t unsent;                     /* bytes of sends, less what is known to be taken */
    size_t in_waiting;                 /* bytes that `waiting` holds; they are still counted in unsent */
    ms deadline;                       /* lingering: close at the latest then */
    union net_sa local, peer;
    err why;                           /* what `gone` shall say */
    bool is_waiting;                   /* `waiting` is in libuv's hands */
    bool is_paused;                    /* room returned 0 */
    bool is_in_room;                   /* libuv waits for a buffer: it cannot be stopped or closed right now */
    bool is_gone;                      /* the door was or will be told `gone`: no more reading */
    bool is_broken;                    /* the socket is dead and given back; the door has not closed yet */
    bool is_ending;                    /* close_after_send was called: no callback but done and closed any more */
    bool is_closing;                   /* the door (or the end of lingering) closed: only `closed` is to come */
    bool is_shut;                      /* libuv is through with tcp */
};

/* The functions of struct net, and what net_uv calls. All on the shard's thread. */
err net_conn_adopt(struct net *net, struct net_accepted *a, const struct net_events *ev, void *u,
                   struct net_conn **ret_c);
void net_conn_send(struct net_conn *c, struct net_send *s);
void net_conn_read_more(struct net_conn *c);
void net_conn_close(struct net_conn *c);
void net_conn_close_after_send(struct net_conn *c, ms linger);
void net_conn_addr(const struct net_conn *c, struct net_addr *ret_local, struct net_addr *ret_peer);
size_t net_conn_unsent(const struct net_conn *c);
void net_conn_flush(struct net_conn *c);
void net_conn_tell(struct net_conn *c);
