/* Sockets. One struct net per shard. A connection belongs to the shard that adopted it; all callbacks run on that shard's thread,
 * from the poll. Bytes go straight into buffers that the door names (`room`), so that a frame lands in its chunk without a copy. */
#pragma once

#include <sys/uio.h>

#include "base/chain.h"
#include "base/err.h"
#include "base/list.h"

struct net_conn;
struct net_listener;

struct net_addr {
    char host[64];                 /* numeric */
    uint16_t port;
    bool loopback;
};

/* A door's view of one connection. u is what net_adopt was given. */
struct net_events {
    /* Where shall the next bytes go? Fill *ret_p and return its size; 0 pauses reading until net_read_more. */
    size_t (*room)(void *u, uint8_t **ret_p);
    void (*data)(void *u, size_t n);           /* n bytes (>= 1) are there now; may call net_close */
    /* The peer is gone (OK: it ended its side in order, replies can still be sent), or an error. No further callback but `closed` and sends' `done`.
     * The door calls close or close_after_send. */
    void (*gone)(void *u, err why);
    void (*closed)(void *u);                   /* after net_close: the last callback; the memory is the door's again */
};

/* One send: bytes of the chain are borrowed until done runs (in submission order, also when the connection dies: err CANCELLED/IO). */
struct net_send {
    struct list link;
    struct chain *chain;
    size_t sent;
    err err;
    void (*done)(struct net_send *s);
    void *u;
};

struct net_accepted;               /* a raw accepted socket on its way to its home shard */

struct net {
    /* host: numeric, a name (resolved now, blocking; all its addresses), or "" (all addresses of the machine). port 0: any. LOCKED (port in
     * use), DENIED, NOT_FOUND (no such name or address here), LIMIT, NOMEM. */
    err (*listen)(struct net *n, const char *host, uint16_t port, void (*on_accept)(void *u, struct net_accepted *a), void *u,
                  struct net_listener **ret_l);
    void (*listener_addr)(struct net_listener *l, struct net_addr *ret);
    void (*listener_close)(struct net_listener *l);           /* stops accepting at once; frees itself */
    void (*refuse)(struct net *n, struct net_accepted *a);    /* close it unadopted. Any shard's net may do it */
    void (*peer)(const struct net_accepted *a, struct net_addr *ret);
    /* Takes `a` (on failure too). Reading starts at the next poll. */
    err (*adopt)(struct net *n, struct net_accepted *a, const struct net_events *ev, void *u, struct net_conn **ret_c);
    /* Queued in order; written right after the turn as far as the socket takes it, all sends of a turn together. `done` never runs inside. */
    void (*send)(struct net_conn *c, struct net_send *s);
    void (*read_more)(struct net_conn *c);                    /* after `room` returned 0 */
    void (*close)(struct net_conn *c);                        /* abrupt; pending sends end with CANCELLED, then `closed` */
    /* Close after everything queued was written, or after `linger`. No callback from now on but `done` and `closed`; later sends are CANCELLED. */
    void (*close_after_send)(struct net_conn *c, ms linger);
    void (*addr)(const struct net_conn *c, struct net_addr *ret_local, struct net_addr *ret_peer);
    size_t (*unsent)(const struct net_conn *c);               /* bytes queued and not yet taken by the kernel */
};
