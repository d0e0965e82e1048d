/* The server and the clients that the net cases share. A case picks the server's behaviour by hooks and drives the
 * clients by their callbacks. All that the server sends lends from one static pattern, so a client can judge each
 * byte by its position. One server a process. */
#pragma once

#include "port/contract.h"

#define MIB (1u << 20)
#define SENDS_MAX 64
#define PATTERN_BYTES (4u * MIB)

extern uint8_t serve_pattern[PATTERN_BYTES];

struct sess;

struct hooks {                                             /* each may be NULL */
    void (*adopted)(struct sess *s);
    size_t (*room)(struct sess *s, uint8_t **ret_p);       /* NULL: buf */
    void (*data)(struct sess *s, size_t n);
    void (*done)(struct sess *s, struct net_send *snd);
    void (*closed)(struct sess *s);
};

struct out {
    struct arena arena;
    struct chain chain;
    struct net_send send;
};

/* One connection of the server; freed after `closed`. When the peer is gone it closes. */
struct sess {
    struct net_conn *conn;
    const struct hooks *on;
    uint8_t buf[256];
    size_t got;                        /* bytes read so far */
    struct out outs[SENDS_MAX];
    size_t outs_n, dones;
    err done_err[SENDS_MAX];
    bool is_closing, was_gone, was_closed, out_of_order;
    err why;
};

struct serve {
    const struct contract_rig *rig;
    struct port *port;                 /* the listener's */
    struct net *net;
    struct net_listener *listener;
    uint16_t number;
    const struct hooks *on;
    struct sess *last;                 /* newest */
    int closed, expected;              /* stop when so many are closed */
    void (*turn)(void);                /* more to do in a turn; may be NULL */
};
extern struct serve srv;

/* Listen on p, serve with these hooks, stop the port when `expected` sessions are closed. */
void serve_listen(struct port *p, const struct hooks *on, int expected);
void serve_accept(void *u, struct net_accepted *a);
void serve_close(struct sess *s);
/* Send n bytes of the pattern from `from`, in pieces of `piece`. */
void serve_send(struct sess *s, size_t from, size_t n, size_t piece);

/* One scripted client; up and more may be NULL. It counts and judges what it gets. */
struct cl {
    struct contract_client *c;
    void (*up)(struct cl *c);
    void (*more)(struct cl *c);        /* after each piece of data */
    size_t got;
    bool is_bad;
};

void serve_connect(struct cl *c);
