/* Listening sockets: names to addresses, plain bind, accept, and what to do when descriptors run short.
 *
 * Happy path: each address of the host gets one socket (localhost is two); a readable one is accepted from until it
 * is empty, at most ACCEPT_BATCH a poll, and each socket goes to on_accept. Port 0 is chosen for the first address
 * and tried for the others.
 * Failure modes of listening: LOCKED (port in use: bind says so, for SO_REUSEPORT is never set), DENIED, NOT_FOUND
 * (no such name or address here), LIMIT, NOMEM. An address family that this machine has not is skipped while
 * another address works.
 * Short of descriptors (T57): nobody is accepted while fewer than a reserve are free, which is seen at the number that
 * a duplicate of the listening socket gets, for the kernel gives the lowest free one. It is looked at before each accept,
 * for one that was accepted to find out would eat the reserve, one at every pause. Then accepting pauses, as it does
 * when accept finds no descriptor because others ate the reserve. Clients wait in the backlog, none is hung up on, and
 * logs can still roll. A pause ends when this shard closes a connection, else a timer looks every ACCEPT_RETRY_MS.
 * Runs on: the shard that listens. */
#include "net_listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mark.h"
#include "base/mem.h"
#include "base/must.h"
#include "port_uv_loop.h"

#define ACCEPT_BATCH 64
#define ACCEPT_RETRY_MS 50
#define LISTEN_BACKLOG 4096            /* the kernel cuts it to net.core.somaxconn */
#define LISTEN_SOCKS 4

struct listen_sock {
    uv_poll_t poll;                    /* first */
    struct net_listener *listener;
    int fd;
    union net_sa addr;                 /* as bound */
};

struct net_listener {
    struct list link;                  /* in net->listeners, or alone */
    struct net_uv *net;
    void (*on_accept)(void *u, struct net_accepted *a);
    void *u;
    struct listen_sock socks[LISTEN_SOCKS];
    size_t socks_n;
    size_t polls;                      /* handles that libuv still holds */
    bool is_closing;
};

static void on_readable(uv_poll_t *h, int status, int events);

static void watch(struct net_listener *l) {
    for (size_t i = 0; i < l->socks_n; i++) {
        must(uv_poll_start(&l->socks[i].poll, UV_READABLE, on_readable) == 0);
    }
}

static void unwatch(struct net_listener *l) {
    for (size_t i = 0; i < l->socks_n; i++) {
        must(uv_poll_stop(&l->socks[i].poll) == 0);
    }
}

/* Descriptors from this number on are the reserve: what the store keeps open (an eighth, see serve.c) and a few more. */
static int fd_ceiling(void) {
    struct rlimit lim;
    must(getrlimit(RLIMIT_NOFILE, &lim) == 0);
    rlim_t soft = lim.rlim_cur > INT32_MAX ? INT32_MAX : lim.rlim_cur;
    rlim_t want = soft / 8 + LIMIT_FDS_RESERVED;
    return (int)(soft - (want < soft / 4 ? want : soft / 4));
}

static bool has_room(struct net_uv *n) {
    struct net_listener *l = list_entry(n->listeners.next, struct net_listener, link);
    int probe = list_empty(&n->listeners) ? -1 : fcntl(l->socks[0].fd, F_DUPFD_CLOEXEC, 0);
    if (probe >= 0) {
        (void)close(probe);            /* the socket stays open */
    }
    return probe >= 0 && probe < fd_ceiling();
}

static void resume(struct net_uv *n) {
    mark("net.accept_resumed");
    n->paused = false;
    must(uv_timer_stop(&n->accept_timer) == 0);
    list_each(it, &n->listeners) {
        watch(list_entry(it, struct net_listener, link));
    }
}

void net_listen_freed(struct net_uv *n) {
    if (n->paused && has_room(n)) {
        resume(n);
    }
}

static void on_retry(uv_timer_t *t) {
    net_listen_freed(t->data);
}

static void pause_all(struct net_uv *n) {
    if (n->paused) {
        return;
    }
    mark("net.accept_paused");
    n->paused = true;
    list_each(it, &n->listeners) {
        unwatch(list_entry(it, struct net_listener, link));
    }
    must(uv_timer_start(&n->accept_timer, on_retry, ACCEPT_RETRY_MS, ACCEPT_RETRY_MS) == 0);
}

/* Hands one accepted socket out. */
static void hand_out(struct net_listener *l, int fd, const union net_sa *peer) {
    struct net_accepted *a = mem_alloc(MEM_NET, sizeof *a);
    if (!a) {
        (void)close(fd);               /* no memory for a connection either */
        return;
    }
    *a = (struct net_accepted){.fd = fd, .peer = *peer};
    net_uv_kick(l->net);
    l->on_accept(l->u, a);
}

/* False: nothing more to accept for now. */
static bool accept_one(struct listen_sock *s) {
    struct net_uv *n = s->listener->net;
    union net_sa peer = {0};
    socklen_t len = sizeof peer;
    if (!has_room(n)) {
        pause_all(n);
        return false;
    }
    int fd = accept4(s->fd, &peer.sa, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
        hand_out(s->listener, fd, &peer);
        return true;
    }
    switch (errno) {
    case EAGAIN:
        return false;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM:
        mark("net.accept_starved");
        pause_all(n);
        return false;
    default:                           /* this one died while it waited (ECONNABORTED, …): the next may be well */
        return true;
    }
}

static void on_readable(uv_poll_t *h, int status, int events) {
    (void)status, (void)events;        /* an error of the socket shows at accept */
    struct listen_sock *s = (struct listen_sock *)h;
    for (int i = 0; i < ACCEPT_BATCH && !s->listener->is_closing && accept_one(s); i++) {
    }
}

static socklen_t sa_len(const union net_sa *sa) {
    return sa->sa.sa_family == AF_INET ? sizeof sa->in : sizeof sa->in6;
}

/* A bound and listening socket, or a negative errno. */
static int open_bound(const union net_sa *sa, bool dual) {
    int fd = socket(sa->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -errno;
    }
    int yes = 1, v6only = !dual;
    bool ok = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
              (sa->sa.sa_family != AF_INET6 ||
               setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6only, sizeof v6only) == 0) &&
              bind(fd, &sa->sa, sa_len(sa)) == 0 && listen(fd, LISTEN_BACKLOG) == 0;
    if (!ok) {
        int e = errno;
        (void)close(fd);               /* never served */
        return -e;
    }
    return fd;
}

static void on_poll_closed(uv_handle_t *h) {
    struct net_listener *l = ((struct listen_sock *)h)->listener;
    if (--l->polls == 0) {
        mem_free(l);
    }
}

/* 0 or a negative errno. */
static int add_sock(struct net_listener *l, const union net_sa *sa, bool dual) {
    struct listen_sock *s = &l->socks[l->socks_n];
    int fd = open_bound(sa, dual);
    if (fd < 0) {
        return fd;
    }
    socklen_t len = sizeof s->addr;
    int r = getsockname(fd, &s->addr.sa, &len) == 0 ? uv_poll_init(&l->net->port->loop, &s->poll, fd) : -errno;
    if (r != 0) {
        (void)close(fd);               /* never served */
        return r;
    }
    s->listener = l;
    s->fd = fd;
    l->socks_n++;
    l->polls++;
    return 0;
}

void net_listen_close(struct net_listener *l) {
    must(!l->is_closing);
    l->is_closing = true;
    list_remove(&l->link);
    for (size_t i = 0; i < l->socks_n; i++) {
        uv_close((uv_handle_t *)&l->socks[i].poll, on_poll_closed);
        (void)close(l->socks[i].fd);   /* libuv has let go of it; who waits in the backlog is reset */
    }
    if (l->socks_n == 0) {
        mem_free(l);
    }
}

static void set_port(union net_sa *sa, uint16_t port) {
    if (sa->sa.sa_family == AF_INET) {
        sa->in.sin_port = htons(port);
    } else {
        sa->in6.sin6_port = htons(port);
    }
}

static uint16_t port_of(const struct listen_sock *s) {
    return ntohs(s->addr.sa.sa_family == AF_INET ? s->addr.in.sin_port : s->addr.in6.sin6_port);
}

/* Every address: both families where the machine has both, else IPv4. */
static int add_any(struct net_listener *l, uint16_t port) {
    union net_sa v6 = {.in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_ANY_INIT}};
    int r = add_sock(l, &v6, true);
    if (r != -EAFNOSUPPORT && r != -EADDRNOTAVAIL) {
        return r;
    }
    union net_sa v4 = {.in = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_ANY)}}};
    return add_sock(l, &v4, false);
}

/* One socket per address; 0 when at least one listens and none failed for a reason that matters. */
static int add_each(struct net_listener *l, const struct addrinfo *found, uint16_t port) {
    int missing = -EADDRNOTAVAIL;
    for (const struct addrinfo *ai = found; ai && l->socks_n < LISTEN_SOCKS; ai = ai->ai_next) {
        union net_sa sa = {0};
        if (ai->ai_addrlen > sizeof sa) {
            continue;
        }
        memcpy(&sa, ai->ai_addr, ai->ai_addrlen);
        set_port(&sa, port == 0 && l->socks_n > 0 ? port_of(&l->socks[0]) : port);
        int r = add_sock(l, &sa, false);
        if (r != 0 && r != -EAFNOSUPPORT && r != -EADDRNOTAVAIL) {
            return r;
        }
        missing = r != 0 ? r : missing;
    }
    return l->socks_n > 0 ? 0 : missing;
}

static int add_host(struct net_listener *l, const char *host, uint16_t port) {
    if (!host || host[0] == 0 || strcmp(host, "::") == 0) {
        return add_any(l, port);
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};
    struct addrinfo *found = NULL;
    int r = getaddrinfo(host, NULL, &hints, &found);
    if (r == EAI_NONAME) {             /* a name: only now are resolvers loaded and asked */
        hints.ai_flags = 0;
        r = getaddrinfo(host, NULL, &hints, &found);
    }
    if (r != 0) {
        return r == EAI_MEMORY ? -ENOMEM : r == EAI_SYSTEM ? -errno : -EADDRNOTAVAIL;
    }
    r = add_each(l, found, port);
    freeaddrinfo(found);
    return r;
}

err net_listen_open(struct net *net, const char *host, uint16_t port,
                    void (*on_accept)(void *u, struct net_accepted *a), void *u, struct net_listener **ret_l) {
    struct net_uv *n = (struct net_uv *)net;
    struct net_listener *l = mem_zalloc(MEM_NET, sizeof *l);
    if (!l) {
        return ERR_NOMEM;
    }
    *l = (struct net_listener){.net = n, .on_accept = on_accept, .u = u};
    list_init(&l->link);
    int r = add_host(l, host, port);
    if (r != 0) {
        net_listen_close(l);
        return net_uv_err(r);
    }
    list_push_back(&n->listeners, &l->link);
    if (!n->paused) {
        watch(l);
    }
    *ret_l = l;
    return ERR_OK;
}

void net_listen_addr(struct net_listener *l, struct net_addr *ret) {
    net_uv_addr(&l->socks[0].addr, ret);
}
