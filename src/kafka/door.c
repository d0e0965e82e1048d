/* Listeners, and the hand-out of connections to shards.
 *
 * Happy path: shard 0 accepts, counts, and sends the raw socket round robin to a shard, which opens a connection.
 * Failure modes: a port in use is detected by a plain bind: start fails with the listener's name, address and remedy; above max.connections a new connection is closed at once (S1.12).
 * Runs on: shard 0 (listeners), every shard (conn_set). */
#include "kafka/door.h"

#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "conn.h"

struct door_listener {
    struct door *door;
    struct node_listener *conf;
    struct net_listener *net;
};

struct door {
    struct node *node;
    struct door_listener listeners[NODE_LISTENERS_MAX];
    size_t listeners_n;
    uint32_t next;                     /* shard that gets the next connection */
    struct conn_set sets[];            /* one a shard */
};

struct door_handoff {
    struct ask ask;
    struct door *door;
    struct net_accepted *accepted;
    const struct node_listener *conf;
};

static void door_handoff_run(struct ask *ask) {
    struct door_handoff *h = list_entry(ask, struct door_handoff, ask);
    conn_open(ask->owner->door, h->conf, h->accepted);
    ask_return(ask, ERR_OK);
}

static void door_handoff_home(struct ask *ask) { mem_free(list_entry(ask, struct door_handoff, ask)); }

static void door_on_accept(void *u, struct net_accepted *a) {
    struct door_listener *l = u;
    struct node *n = l->door->node;
    struct net *net = n->shards[0]->port->net;
    struct door_handoff *h = NULL;
    if (atomic_fetch_add(&n->conns, 1) >= n->shards[0]->live.conns_max) {
        log_warn("conn.limit", "limit=%u reason='max.connections reached' action='new connection closed'", n->shards[0]->live.conns_max);
    } else {
        h = mem_alloc(MEM_CONN, sizeof(*h));
    }
    if (h == NULL) {
        atomic_fetch_sub(&n->conns, 1);
        net->refuse(net, a);
        return;
    }
    h->door = l->door;
    h->accepted = a;
    h->conf = l->conf;
    ask_init(&h->ask, door_handoff_run, door_handoff_home);
    ask_send(n->shards[0], n->shards[l->door->next++ % n->shards_n], &h->ask);
}

static const char *door_why(err e) {
    switch (e) {
    case ERR_EXISTS:
    case ERR_LOCKED: return "another process uses the port; stop it, or choose another port in listeners";
    case ERR_NOT_FOUND: return "this machine has no such address, or the name does not resolve; look at listeners (advertised.listeners is for what clients dial)";
    case ERR_DENIED: return "ports below 1024 need rights that this process has not; choose a higher one in listeners";
    default: return err_text(e);
    }
}

static err door_listen(struct door *d, struct node_listener *conf, char *why, size_t cap) {
    struct net *net = d->node->shards[0]->port->net;
    struct door_listener *l = &d->listeners[d->listeners_n];
    *l = (struct door_listener){.door = d, .conf = conf};
    err e = net->listen(net, conf->host, conf->port, door_on_accept, l, &l->net);
    if (e != ERR_OK) {
        snprintf(why, cap, "cannot listen on %s://%s:%u: %s", conf->name, conf->host, (unsigned)conf->port, door_why(e));
        return e;
    }
    d->listeners_n++;
    struct net_addr addr;
    net->listener_addr(l->net, &addr);
    conf->bound_port = addr.port;
    return ERR_OK;
}

static void door_close(struct node *n, void *u) {
    (void)u;
    struct conn_set *set = n->shards[0]->door;
    if (set == NULL) {
        return;
    }
    struct door *d = (struct door *)(void *)((char *)set - offsetof(struct door, sets));
    for (size_t i = 0; i < d->listeners_n; i++) {
        n->shards[0]->port->net->listener_close(d->listeners[i].net);
    }
    d->listeners_n = 0;
}

static err door_start(struct node *n, void *u, char *ret_why, size_t cap) {
    (void)u;
    struct door *d = mem_zalloc(MEM_CONN, sizeof(*d) + n->shards_n * sizeof(d->sets[0]));
    if (d == NULL) {
        return ERR_NOMEM;
    }
    d->node = n;
    err e = ERR_OK;
    for (uint32_t i = 0; i < n->shards_n; i++) {
        e = conn_set_init(&d->sets[i], n->shards[i]) ? e : ERR_NOMEM;
        n->shards[i]->door = &d->sets[i];
    }
    for (size_t i = 0; i < n->conf.listeners_n && e == ERR_OK; i++) {
        e = door_listen(d, &n->conf.listeners[i], ret_why, cap);
    }
    if (e != ERR_OK) {
        door_close(n, NULL);
    }
    return e;
}

static void door_drain(struct shard *sh, void *u) {
    (void)u;
    if (sh->door == NULL) {
        node_door_idle(sh);
        return;
    }
    conn_set_drain(sh->door);
}

static void door_free(struct node *n, void *u) {
    (void)u;
    if (n->shards_n == 0 || n->shards[0]->door == NULL) {
        return;
    }
    struct door *d = (struct door *)(void *)((char *)n->shards[0]->door - offsetof(struct door, sets));
    for (uint32_t i = 0; i < n->shards_n; i++) {
        conn_set_done(&d->sets[i]);
    }
    mem_free(d);
}

struct node_door door_kafka(void) {
    return (struct node_door){.start = door_start, .close = door_close, .drain = door_drain, .free = door_free};
}
