/* One connection of the simulated network between a script's client and a node, and its two directions. */
#pragma once

#include "world_sim.h"

enum pipe_end { PIPE_OPEN, PIPE_FIN, PIPE_RST };

struct wire_sim;

struct pipe_sim {                /* one direction: a bounded socket buffer with a delay in the middle */
    struct wire_sim *wire;
    bool to_client;
    uint8_t *buf;
    size_t off, n, cap;          /* bytes [off, off + n) are written and not yet read */
    size_t arrived;              /* of these the reader sees so many */
    size_t window;               /* n never exceeds it */
    enum pipe_end end;           /* what the writer did last */
    bool ended;                  /* the reader sees the end behind what has arrived */
    struct event_sim ev;         /* the next piece arrives */
};

struct net_accepted {            /* on its way from the listener to its home shard */
    struct wire_sim *wire;
};

struct wire_sim {
    struct list grave;
    struct list link;            /* node's wires, while the node's side lives */
    struct list backlog;         /* listener's, until accepted */
    struct world *w;
    struct world_node *node;
    uint32_t id;
    struct pipe_sim up, down;    /* client to node, node to client */
    struct net_conn *conn;       /* node's side; NULL before it is adopted and after it is closed */
    struct net_accepted accepted;
    bool node_side;              /* the node's side exists: waiting, accepted or adopted */
    struct world_client *client; /* NULL when closed */
    bool vanished;               /* the client's side is gone without a word */
    char host[64];               /* of the client */
    uint16_t client_port, node_port;
};

struct wire_sim *pipe_sim_wire(struct world *w, struct world_node *n, struct world_client *c);
/* Bytes the writer may put now. */
static inline size_t pipe_sim_room(const struct pipe_sim *p) { return p->end == PIPE_OPEN ? p->window - p->n : 0; }
void pipe_sim_put(struct pipe_sim *p, const void *bytes, size_t n);              /* n <= room */
/* FIN after what was put; RST drops what has not arrived; the first of them counts. after: additional delay in microseconds. */
void pipe_sim_finish(struct pipe_sim *p, enum pipe_end end, int64_t after);
static inline const uint8_t *pipe_sim_bytes(const struct pipe_sim *p) { return p->buf + p->off; }   /* p->arrived of them */
void pipe_sim_took(struct pipe_sim *p, size_t n);                                /* the reader did; tells the writer of the room */
void pipe_sim_drop_side(struct wire_sim *wr, bool client_side);                  /* that side is gone; frees the wire with the second */
