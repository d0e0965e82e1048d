/* net.h on simulated connections.
 *
 * Happy path: a client knocks, the listener's shard hears on_accept at its poll, the home shard adopts; from then on the connection becomes
 * ready whenever something happened to it, and its next poll reports finished sends, then bytes, then the end.
 * What the node's code does to a connection (send, close) only marks it; settle acts when that code has returned.
 * Failure modes: a reset fails all sends with IO and is told by `gone`, behind bytes that had arrived; while reading is paused nobody
 * hears of it. Closing with unsent or unread bytes resets the client, as Linux does; close_after_send never does.
 * Runs on: the world's thread; callbacks inside the node. */
#include "net_sim.h"

#include <stdio.h>
#include <string.h>

#include "base/crc.h"
#include "base/must.h"

#define READS_PER_POLL 16
#define EPHEMERAL_FIRST 40000

struct net_listener {
    struct list grave;
    struct list link;            /* loop's listeners */
    struct loop_sim *lp;
    char host[64];
    uint16_t port;
    void (*on_accept)(void *u, struct net_accepted *a);
    void *u;
    struct list backlog;         /* wire_sim */
    struct net_accepted *handed; /* argument of the on_accept now running */
    struct ready_sim ready;
};

enum conn_state {
    CONN_OPEN,
    CONN_LINGER,                 /* close_after_send: reads no more, sends what is queued */
    CONN_CLOSE,                  /* net_close was called or the linger is over; the wire is let go at settle */
    CONN_CLOSED                  /* the wire is gone; sends and `closed` are still to be reported */
};

struct net_conn {
    struct list grave;
    struct list link;            /* loop's conns */
    struct list touched;         /* loop's touched */
    struct loop_sim *lp;
    struct wire_sim *wire;
    const struct net_events *ev;
    void *u;
    enum conn_state state;
    bool paused;                 /* room gave 0 */
    bool gone;                   /* told */
    bool broken;                 /* the client reset */
    struct list queue, finished; /* net_send */
    struct list late;            /* net_send: came after a close, reported behind the others */
    size_t unsent;
    struct event_sim linger;
    struct ready_sim ready;
    uint8_t *room_p;             /* arguments and results of the callback now running */
    size_t room_n;
    err why;
    uint32_t id;                 /* the wire's; these three outlive it */
    struct net_addr local, peer;
};

static struct loop_sim *loop_of(struct net *n) {
    return list_entry(n, struct loop_sim, net);
}

static void trace(const struct loop_sim *lp, enum trace_kind kind, uint32_t id, int64_t b, int64_t c) {
    world_sim_trace(lp->node->w, &(struct trace_ev){
        .kind = kind, .node = lp->node->id, .shard = lp->port.shard + 1, .a = id, .b = b, .c = c});
}

static struct net_listener *listener_at(struct world_node *n, uint16_t port) {
    for (uint32_t i = 0; i < n->loops_n; i++) {
        list_each(it, &n->loops[i]->listeners) {
            struct net_listener *l = list_entry(it, struct net_listener, link);
            if (l->port == port) {
                return l;
            }
        }
    }
    return NULL;
}

static void call_accept(void *arg) {
    struct net_listener *l = arg;
    l->on_accept(l->u, l->handed);
}

static void listener_deliver(struct ready_sim *r) {
    struct net_listener *l = list_entry(r, struct net_listener, ready);
    struct loop_sim *lp = l->lp;
    while (!lp->dead && !list_empty(&l->backlog)) {
        struct wire_sim *wr = list_entry(l->backlog.next, struct wire_sim, backlog);
        list_remove(&wr->backlog);
        wr->accepted.wire = wr;
        l->handed = &wr->accepted;
        trace(lp, TRACE_ACCEPT, wr->id, 0, 0);
        (void)world_node_run(lp->node, lp, call_accept, l);
    }
}

static uint16_t free_port(struct world_node *n) {
    do {
        n->next_port = n->next_port < EPHEMERAL_FIRST || n->next_port == UINT16_MAX ? EPHEMERAL_FIRST : (uint16_t)(n->next_port + 1);
    } while (listener_at(n, n->next_port));
    return n->next_port;
}

static err net_listen(struct net *net, const char *host, uint16_t port, void (*on_accept)(void *u, struct net_accepted *a), void *u,
                      struct net_listener **ret_l) {
    struct loop_sim *lp = loop_of(net);
    if (port != 0 && listener_at(lp->node, port)) {
        return ERR_LOCKED;
    }
    struct net_listener *l = world_mem_new(sizeof *l);
    l->lp = lp;
    l->port = port != 0 ? port : free_port(lp->node);
    l->on_accept = on_accept;
    l->u = u;
    (void)snprintf(l->host, sizeof l->host, "%s", host && host[0] ? host : "0.0.0.0");
    list_init(&l->backlog);
    list_init(&l->ready.link);
    l->ready.deliver = listener_deliver;
    list_push_back(&lp->listeners, &l->link);
    world_sim_trace(lp->node->w, &(struct trace_ev){.kind = TRACE_LISTEN, .node = lp->node->id, .shard = lp->port.shard + 1, .a = l->port});
    *ret_l = l;
    return ERR_OK;
}

static void net_listener_addr(struct net_listener *l, struct net_addr *ret) {
    *ret = (struct net_addr){.port = l->port, .loopback = strncmp(l->host, "127.", 4) == 0 || strcmp(l->host, "::1") == 0};
    memcpy(ret->host, l->host, sizeof ret->host);
}

/* The node's side of a wire that no connection owns goes. */
static void drop_wire(struct wire_sim *wr, enum pipe_end how, int64_t after) {
    pipe_sim_finish(&wr->down, how, after);
    pipe_sim_drop_side(wr, false);
}

static void net_listener_close(struct net_listener *l) {
    while (!list_empty(&l->backlog)) {
        drop_wire(list_entry(l->backlog.next, struct wire_sim, backlog), PIPE_RST, 0);
    }
    list_remove(&l->link);
    list_remove(&l->ready.link);
    world_sim_bury(l->lp->node->w, &l->grave);
}

bool net_sim_knock(struct wire_sim *wr, uint16_t port) {
    struct net_listener *l = wr->node->up ? listener_at(wr->node, port) : NULL;
    if (!l) {
        return false;
    }
    wr->node_side = true;
    wr->node_port = port;
    list_push_back(&wr->node->wires, &wr->link);
    list_push_back(&l->backlog, &wr->backlog);
    loop_sim_ready(l->lp, &l->ready);
    return true;
}

static void net_refuse(struct net *net, struct net_accepted *a) {
    (void)net;
    drop_wire(a->wire, a->wire->up.n > 0 ? PIPE_RST : PIPE_FIN, 0);
}

static void peer_of(const struct wire_sim *wr, struct net_addr *ret) {
    *ret = (struct net_addr){.port = wr->client_port, .loopback = strncmp(wr->host, "127.", 4) == 0 || strcmp(wr->host, "::1") == 0};
    memcpy(ret->host, wr->host, sizeof ret->host);
}

static void net_peer(const struct net_accepted *a, struct net_addr *ret) {
    peer_of(a->wire, ret);
}

static void local_of(const struct wire_sim *wr, struct net_addr *ret) {
    bool loopback = strncmp(wr->host, "127.", 4) == 0 || strcmp(wr->host, "::1") == 0;
    *ret = (struct net_addr){.port = wr->node_port, .loopback = loopback};
    (void)snprintf(ret->host, sizeof ret->host, "%s", loopback ? wr->host : "10.0.0.1");
}

static void net_addr_of(const struct net_conn *c, struct net_addr *ret_local, struct net_addr *ret_peer) {
    *ret_local = c->local;
    *ret_peer = c->peer;
}

/* ---- sending ---- */

static void finish_all(struct net_conn *c, err e) {
    for (struct list *it; (it = list_pop_front(&c->queue));) {
        struct net_send *s = list_entry(it, struct net_send, link);
        c->unsent -= s->chain->bytes - s->sent;
        s->err = e;
        list_push_back(&c->finished, it);
    }
}

/* Bytes of one send into the socket, as far as it takes them; true when all are in. */
static bool put_send(struct net_conn *c, struct net_send *s) {
    struct iovec iov[16];
    while (s->sent < s->chain->bytes) {
        size_t n = chain_iov(s->chain, s->sent, iov, 16);
        for (size_t i = 0; i < n; i++) {
            size_t room = pipe_sim_room(&c->wire->down);
            size_t k = iov[i].iov_len < room ? iov[i].iov_len : room;
            if (k > 0) {
                pipe_sim_put(&c->wire->down, iov[i].iov_base, k);
            }
            s->sent += k;
            c->unsent -= k;
            if (k < iov[i].iov_len) {
                return false;
            }
        }
    }
    return true;
}

static void pump(struct net_conn *c) {
    while (!list_empty(&c->queue)) {
        struct net_send *s = list_entry(c->queue.next, struct net_send, link);
        if (!put_send(c, s)) {
            break;
        }
        s->err = ERR_OK;
        list_push_back(&c->finished, list_pop_front(&c->queue));
    }
    if (!list_empty(&c->finished)) {
        loop_sim_ready(c->lp, &c->ready);
    }
}

/* ---- the end of a connection ---- */

static void let_go(struct net_conn *c, enum pipe_end how) {
    finish_all(c, ERR_CANCELLED);
    list_splice_back(&c->finished, &c->late);
    event_sim_cancel(&c->lp->node->w->heap, &c->linger);
    c->state = CONN_CLOSED;
    pipe_sim_finish(&c->wire->down, how, 0);
    pipe_sim_drop_side(c->wire, false);
    loop_sim_ready(c->lp, &c->ready);
}

/* Bring the wire to where the connection wants it. */
static void advance(struct net_conn *c) {
    if (c->state == CONN_CLOSED) {
        return;
    }
    if (c->broken) {
        finish_all(c, ERR_IO);
        loop_sim_ready(c->lp, &c->ready);
    } else {
        pump(c);
    }
    if (c->state == CONN_CLOSE) {
        bool abrupt = c->broken || !list_empty(&c->queue) || c->wire->up.n > 0;
        let_go(c, abrupt ? PIPE_RST : PIPE_FIN);
    } else if (c->state == CONN_LINGER && list_empty(&c->queue)) {
        let_go(c, PIPE_FIN);
    }
}

static void touch(struct net_conn *c) {
    if (list_empty(&c->touched)) {
        list_push_back(&c->lp->touched, &c->touched);
    }
}

void net_sim_settle(struct loop_sim *lp) {
    for (struct list *it; (it = list_pop_front(&lp->touched));) {
        advance(list_entry(it, struct net_conn, touched));
    }
}

void net_sim_room(struct net_conn *c) {
    advance(c);
}

void net_sim_reset(struct net_conn *c) {
    if (c && !c->broken) {
        c->broken = true;
        advance(c);
    }
}

void net_sim_arrived(struct net_conn *c) {
    if (c->wire->up.ended && c->wire->up.end == PIPE_RST) {
        net_sim_reset(c);
    }
    if (c->state == CONN_OPEN) {
        loop_sim_ready(c->lp, &c->ready);
    }
}

static void linger_fire(struct event_sim *e) {
    struct net_conn *c = list_entry(e, struct net_conn, linger);
    c->state = CONN_CLOSE;
    advance(c);
}

static void conn_free(struct net_conn *c) {
    list_remove(&c->link);
    list_remove(&c->touched);
    list_remove(&c->ready.link);
    event_sim_done(&c->lp->node->w->heap, &c->linger);
    world_sim_bury(c->lp->node->w, &c->grave);
}

/* ---- the poll ---- */

static void call_done(void *arg) {
    struct net_send *s = arg;
    s->done(s);
}

static void call_room(void *arg) {
    struct net_conn *c = arg;
    c->room_n = c->ev->room(c->u, &c->room_p);
}

static void call_data(void *arg) {
    struct net_conn *c = arg;
    c->ev->data(c->u, c->room_n);
}

static void call_gone(void *arg) {
    struct net_conn *c = arg;
    c->ev->gone(c->u, c->why);
}

static void call_closed(void *arg) {
    struct net_conn *c = arg;
    c->ev->closed(c->u);
}

static void report_sends(struct net_conn *c) {
    struct loop_sim *lp = c->lp;
    for (struct list *it; !lp->dead && (it = list_pop_front(&c->finished));) {
        struct net_send *s = list_entry(it, struct net_send, link);
        trace(lp, TRACE_SENT, c->id, (int64_t)s->sent, s->err);
        (void)world_node_run(lp->node, lp, call_done, s);
    }
}

/* Ask for room; false: none now, or the door has closed meanwhile. */
static bool ask_room(struct net_conn *c) {
    struct loop_sim *lp = c->lp;
    if (!world_node_run(lp->node, lp, call_room, c) || c->state != CONN_OPEN) {
        return false;
    }
    c->paused = c->room_n == 0;
    return !c->paused;
}

static void take_bytes(struct net_conn *c) {
    struct loop_sim *lp = c->lp;
    struct pipe_sim *p = &c->wire->up;
    struct prng *rng = &lp->node->w->rng;
    size_t n = p->arrived < c->room_n ? p->arrived : c->room_n;
    n = prng_chance(rng, 1, 8) ? 1 + (size_t)prng_below(rng, n) : n;
    memcpy(c->room_p, pipe_sim_bytes(p), n);
    trace(lp, TRACE_DATA, c->id, (int64_t)n, crc32c(c->room_p, n));
    c->room_n = n;
    pipe_sim_took(p, n);
    (void)world_node_run(lp->node, lp, call_data, c);
}

static void tell_gone(struct net_conn *c) {
    c->gone = true;
    c->why = c->wire->up.end == PIPE_FIN ? ERR_OK : ERR_IO;
    trace(c->lp, TRACE_GONE, c->id, c->why, 0);
    (void)world_node_run(c->lp->node, c->lp, call_gone, c);
}

static void read_some(struct net_conn *c) {
    struct loop_sim *lp = c->lp;
    const struct pipe_sim *p = &c->wire->up;
    for (int i = 0; i < READS_PER_POLL; i++) {
        if (lp->dead || c->state != CONN_OPEN || c->paused || c->gone || (p->arrived == 0 && !p->ended)) {
            return;
        }
        if (!ask_room(c)) {
            return;
        }
        if (p->arrived > 0) {
            take_bytes(c);
        } else {
            tell_gone(c);
        }
    }
    loop_sim_ready(lp, &c->ready);
}

static void conn_deliver(struct ready_sim *r) {
    struct net_conn *c = list_entry(r, struct net_conn, ready);
    struct loop_sim *lp = c->lp;
    report_sends(c);
    if (!lp->dead && c->state == CONN_OPEN) {
        read_some(c);
    }
    if (!lp->dead && c->state == CONN_CLOSED && list_empty(&c->finished)) {
        trace(lp, TRACE_CLOSED, c->id, 0, 0);
        conn_free(c);
        (void)world_node_run(lp->node, lp, call_closed, c);
    }
}

/* ---- the node's calls ---- */

static err net_adopt(struct net *net, struct net_accepted *a, const struct net_events *ev, void *u, struct net_conn **ret_c) {
    struct loop_sim *lp = loop_of(net);
    must(!lp->stopped);
    struct net_conn *c = world_mem_new(sizeof *c);
    c->lp = lp;
    c->wire = a->wire;
    c->ev = ev;
    c->u = u;
    c->id = a->wire->id;
    local_of(a->wire, &c->local);
    peer_of(a->wire, &c->peer);
    list_init(&c->touched);
    list_init(&c->queue);
    list_init(&c->finished);
    list_init(&c->late);
    list_init(&c->ready.link);
    c->ready.deliver = conn_deliver;
    event_sim_init(&lp->node->w->heap, &c->linger, linger_fire);
    list_push_back(&lp->conns, &c->link);
    a->wire->conn = c;
    trace(lp, TRACE_ADOPT, c->id, 0, 0);
    c->broken = a->wire->up.ended && a->wire->up.end == PIPE_RST;
    loop_sim_ready(lp, &c->ready);
    *ret_c = c;
    return ERR_OK;
}

static void net_send(struct net_conn *c, struct net_send *s) {
    s->sent = 0;
    if (c->state == CONN_OPEN) {
        c->unsent += s->chain->bytes;
        list_push_back(&c->queue, &s->link);
        touch(c);
        return;
    }
    s->err = ERR_CANCELLED;
    list_push_back(c->state == CONN_CLOSED ? &c->finished : &c->late, &s->link);
    loop_sim_ready(c->lp, &c->ready);
}

static void net_read_more(struct net_conn *c) {
    c->paused = false;
    loop_sim_ready(c->lp, &c->ready);
}

static void net_close(struct net_conn *c) {
    if (c->state == CONN_OPEN || c->state == CONN_LINGER) {
        c->state = CONN_CLOSE;
        touch(c);
    }
}

static void net_close_after_send(struct net_conn *c, ms linger) {
    if (c->state == CONN_OPEN) {
        struct world *w = c->lp->node->w;
        c->state = CONN_LINGER;
        event_sim_at(&w->heap, &c->linger, w->now + (linger > 0 ? linger : 0) * 1000);
        touch(c);
    }
}

static size_t net_unsent(const struct net_conn *c) {
    return c->unsent;
}

void net_sim_init(struct loop_sim *lp) {
    lp->net = (struct net){.listen = net_listen, .listener_addr = net_listener_addr, .listener_close = net_listener_close,
                           .refuse = net_refuse, .peer = net_peer, .adopt = net_adopt, .send = net_send, .read_more = net_read_more,
                           .close = net_close, .close_after_send = net_close_after_send, .addr = net_addr_of, .unsent = net_unsent};
}

/* A killed process's sockets are closed by its kernel; after a power loss the peers hear of it when the machine is back. */
void net_sim_crash(struct world_node *n, bool power) {
    struct prng *rng = &n->w->rng;
    while (!list_empty(&n->wires)) {
        struct wire_sim *wr = list_entry(n->wires.next, struct wire_sim, link);
        if (wr->conn) {
            conn_free(wr->conn);
        }
        bool orderly = !power && wr->up.n == 0 && prng_chance(rng, 1, 2);
        drop_wire(wr, orderly ? PIPE_FIN : PIPE_RST, power ? (int64_t)prng_below(rng, 100000) : 0);
    }
    for (uint32_t i = 0; i < n->loops_n; i++) {
        struct loop_sim *lp = n->loops[i];
        list_each_safe(it, &lp->conns) {
            conn_free(list_entry(it, struct net_conn, link));
        }
        list_each_safe(it, &lp->listeners) {
            net_listener_close(list_entry(it, struct net_listener, link));
        }
    }
}
