/* What all sockets of a shard share: the table of functions, addresses, and the order in which things are told.
 *
 * Happy path: doors call, connections note what follows from it on a list (to write, finished, to tell) and kick;
 * the loop then runs net_uv_flush after the turn and net_uv_deliver at the beginning of the next poll. So no door
 * is called from inside its own call, and the replies of one turn leave in one gathered write per connection.
 * Failure modes: none of its own.
 * Runs on: the shard, but refuse and peer, which touch nothing but the accepted socket. */
#include "net_uv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/must.h"
#include "net_conn.h"
#include "net_listen.h"
#include "port_uv_loop.h"

err net_uv_err(int status) {
    switch (status) {
    case 0:
        return ERR_OK;
    case UV_EMFILE:
    case UV_ENFILE:
        return ERR_LIMIT;
    case UV_ENOMEM:
    case UV_ENOBUFS:
        return ERR_NOMEM;
    case UV_EADDRINUSE:
        return ERR_LOCKED;
    case UV_EACCES:
    case UV_EPERM:
        return ERR_DENIED;
    case UV_EADDRNOTAVAIL:
    case UV_EAFNOSUPPORT:
        return ERR_NOT_FOUND;
    case UV_ETIMEDOUT:
        return ERR_TIMEOUT;
    default:
        return ERR_IO;
    }
}

void net_uv_addr(const union net_sa *sa, struct net_addr *ret) {
    *ret = (struct net_addr){0};
    struct in_addr v4 = sa->in.sin_addr;
    bool is_v4 = sa->sa.sa_family == AF_INET;
    if (sa->sa.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&sa->in6.sin6_addr)) {
        memcpy(&v4, &sa->in6.sin6_addr.s6_addr[12], sizeof v4);
        is_v4 = true;
    }
    ret->port = ntohs(sa->sa.sa_family == AF_INET ? sa->in.sin_port : sa->in6.sin6_port);
    if (is_v4) {
        must(inet_ntop(AF_INET, &v4, ret->host, sizeof ret->host) != NULL);
        ret->loopback = ntohl(v4.s_addr) >> 24 == 127;
    } else {
        must(inet_ntop(AF_INET6, &sa->in6.sin6_addr, ret->host, sizeof ret->host) != NULL);
        ret->loopback = IN6_IS_ADDR_LOOPBACK(&sa->in6.sin6_addr);
    }
}

static void refuse(struct net *net, struct net_accepted *a) {
    (void)net;
    (void)close(a->fd);                /* nothing was sent through it */
    mem_free(a);
}

static void peer(const struct net_accepted *a, struct net_addr *ret) {
    net_uv_addr(&a->peer, ret);
}

void net_uv_kick(struct net_uv *n) {
    port_uv_kick(n->port);
}

void net_uv_flush(struct net_uv *n) {
    struct list now;
    list_init(&now);
    list_splice_back(&now, &n->dirty);
    for (struct list *it; (it = list_pop_front(&now));) {
        net_conn_flush(list_entry(it, struct net_conn, dirty));
    }
}

static void tell_finished(struct net_uv *n) {
    struct list now;
    list_init(&now);
    list_splice_back(&now, &n->finished);
    for (struct list *it; (it = list_pop_front(&now));) {
        struct net_send *s = list_entry(it, struct net_send, link);
        s->done(s);
    }
}

void net_uv_deliver(struct net_uv *n) {
    tell_finished(n);
    struct list now;
    list_init(&now);
    list_splice_back(&now, &n->telling);
    for (struct list *it; (it = list_pop_front(&now));) {
        net_conn_tell(list_entry(it, struct net_conn, telling));
    }
}

void net_uv_init(struct net_uv *n, struct port_uv *p) {
    n->net = (struct net){
        .listen = net_listen_open,
        .listener_addr = net_listen_addr,
        .listener_close = net_listen_close,
        .refuse = refuse,
        .peer = peer,
        .adopt = net_conn_adopt,
        .send = net_conn_send,
        .read_more = net_conn_read_more,
        .close = net_conn_close,
        .close_after_send = net_conn_close_after_send,
        .addr = net_conn_addr,
        .unsent = net_conn_unsent,
    };
    n->port = p;
    list_init(&n->dirty);
    list_init(&n->finished);
    list_init(&n->telling);
    list_init(&n->lingering);
    list_init(&n->listeners);
    must(uv_timer_init(&p->loop, &n->linger_timer) == 0);
    must(uv_timer_init(&p->loop, &n->accept_timer) == 0);
    n->linger_timer.data = n->accept_timer.data = n;
}

void net_uv_done(struct net_uv *n) {
    must(n->conns == 0);
    must(list_empty(&n->listeners));
    must(list_empty(&n->finished));
    uv_close((uv_handle_t *)&n->linger_timer, NULL);
    uv_close((uv_handle_t *)&n->accept_timer, NULL);
}
