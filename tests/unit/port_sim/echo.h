/* A small server for tests of the simulated network: every connection is served by one struct, bytes are echoed, a callback of the test
 * sees what happens. Its memory is the node's. */
#pragma once

#include <string.h>

#include "base/mem.h"
#include "port_sim/world.h"

#define ECHO_PORT 9092

struct echo_seen {               /* the test's, outside the node */
    int accepted, gone, closed, sent, failed;
    err why;                     /* of the last gone */
    size_t got, unsent;          /* bytes read; not taken by the socket of the connection that was asked last */
    bool refuse, keep;           /* refuse connections; do not close when the peer is gone */
    size_t greet;                /* bytes to send at once to a new connection */
    ms linger;                   /* > 0: close_after_send right after greeting */
    struct net_addr peer;
};

struct echo {
    struct port *port;
    struct echo_seen *seen;
    struct net_listener *listener;
    struct net_conn *last;
};

struct echo_conn {
    struct echo *e;
    struct net_conn *conn;
    uint8_t buf[1000];
};

struct echo_out {
    struct net_send send;
    struct arena arena;
    struct chain chain;
    struct echo *e;
};

static inline void echo_sent(struct net_send *s) {
    struct echo_out *out = s->u;
    out->e->seen->sent += s->err == ERR_OK;
    out->e->seen->failed += s->err != ERR_OK;
    chain_done(&out->chain);
    arena_done(&out->arena);
    mem_free(out);
}

/* Sends n bytes, copied from p, or zeros. */
static inline void echo_send(struct echo_conn *c, const uint8_t *p, size_t n) {
    struct echo_out *out = mem_zalloc(MEM_TEST, sizeof *out);
    out->e = c->e;
    arena_init(&out->arena, NULL, n + 100000);
    chain_init(&out->chain, &out->arena);
    uint8_t *ink = chain_ink(&out->chain, n);
    if (p) {
        memcpy(ink, p, n);
    } else {
        memset(ink, 0, n);
    }
    out->send = (struct net_send){.chain = &out->chain, .done = echo_sent, .u = out};
    c->e->port->net->send(c->conn, &out->send);
}

static inline size_t echo_room(void *u, uint8_t **ret_p) {
    struct echo_conn *c = u;
    *ret_p = c->buf;
    return sizeof c->buf;
}

static inline void echo_data(void *u, size_t n) {
    struct echo_conn *c = u;
    c->e->seen->got += n;
    echo_send(c, c->buf, n);
}

static inline void echo_gone(void *u, err why) {
    struct echo_conn *c = u;
    c->e->seen->gone++;
    c->e->seen->why = why;
    if (!c->e->seen->keep) {
        c->e->port->net->close(c->conn);
    }
}

static inline void echo_closed(void *u) {
    struct echo_conn *c = u;
    c->e->seen->closed++;
    c->e->last = NULL;
    mem_free(c);
}

static inline void echo_accept(void *u, struct net_accepted *a) {
    static const struct net_events ev = {echo_room, echo_data, echo_gone, echo_closed};
    struct echo *e = u;
    struct net *net = e->port->net;
    e->seen->accepted++;
    net->peer(a, &e->seen->peer);
    if (e->seen->refuse) {
        net->refuse(net, a);
        return;
    }
    struct echo_conn *c = mem_zalloc(MEM_TEST, sizeof *c);
    c->e = e;
    (void)net->adopt(net, a, &ev, c, &c->conn);
    e->last = c->conn;
    if (e->seen->greet > 0) {
        echo_send(c, NULL, e->seen->greet);
    }
    if (e->seen->linger > 0) {
        net->close_after_send(c->conn, e->seen->linger);
    }
}

static inline void echo_turn(void *u) {
    struct echo *e = u;
    if (e->last) {
        e->seen->unsent = e->port->net->unsent(e->last);
    }
}

/* boot of world_node_start; u is a struct echo_seen. */
static inline void echo_boot(void *u, struct port **ports, uint32_t shards) {
    (void)shards;
    struct echo *e = mem_zalloc(MEM_TEST, sizeof *e);
    e->port = ports[0];
    e->seen = u;
    (void)e->port->net->listen(e->port->net, "127.0.0.1", ECHO_PORT, echo_accept, e, &e->listener);
    e->port->on_turn(e->port, echo_turn, e);
}
