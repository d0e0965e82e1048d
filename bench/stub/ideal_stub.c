/* ideal_stub.c: the broker that a real one is measured against: one thread, one epoll, no features.
 *
 * Purpose: the ceiling of this machine for "receive a frame, check its CRC, append it, answer" (PERFORMANCE 1 and 3).
 * Happy path: each turn: one receive per readable connection and its frames handled, one write per file, one sync
 * if one is wanted, waiting fetches asked again if something became visible, one send per connection.
 * Failure modes: a lost or foreign peer loses its connection; everything else dies. SIGTERM ends it; the files stay.
 * Runs on: one thread; with --sync thread a second one syncs. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "../common/die.h"
#include "sconf.h"
#include "sconn.h"
#include "skafka.h"
#include "slog.h"
#include "ssync.h"

enum { STUB_EVENTS = 512 };

struct ideal_stub {
    struct sconf cf;
    struct slog lg;
    struct ssync sy;
    struct skafka sk;
    int ep, listener;
    struct sconn **active; /* to be finished this turn, or waiting for a sync */
    unsigned active_n;
    struct sconn **parked;
    unsigned parked_n, conn_n;
};

static uint64_t stub_now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void stub_watch(struct ideal_stub *s, int op, int fd, uint32_t events, void *ptr) {
    struct epoll_event ev = {.events = events, .data.ptr = ptr};
    if (epoll_ctl(s->ep, op, fd, &ev) != 0) {
        die("epoll_ctl");
    }
}

static void stub_listen(struct ideal_stub *s) {
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(s->cf.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int one = 1;
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(s->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (s->listener < 0 || bind(s->listener, (struct sockaddr *)&a, sizeof a) != 0 || listen(s->listener, 4096) != 0 ||
        getsockname(s->listener, (struct sockaddr *)&a, &n) != 0) {
        die("listen");
    }
    s->cf.port = ntohs(a.sin_port);
    s->sk.port = s->cf.port;
    stub_watch(s, EPOLL_CTL_ADD, s->listener, EPOLLIN, &s->listener);
}

static void stub_ready(const struct ideal_stub *s) {
    if (!s->cf.ready_file) {
        printf("127.0.0.1:%u\n", s->cf.port);
        fflush(stdout);
        return;
    }
    char temp[4096];
    snprintf(temp, sizeof temp, "%s.tmp", s->cf.ready_file);
    FILE *f = fopen(temp, "w");
    if (!f) {
        die("open %s", temp);
    }
    fprintf(f,
            "{\"kafka\":[\"127.0.0.1:%u\"],\"native\":[],\"admin\":[],\"peer\":[],\"pid\":%d,\"version\":\"stub\"}\n",
            s->cf.port, getpid());
    if (fclose(f) != 0 || rename(temp, s->cf.ready_file) != 0) {
        die("rename %s", temp);
    }
}

static void stub_accept(struct ideal_stub *s) {
    for (;;) {
        int fd = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            return;
        }
        if (s->conn_n == SCONF_CONNS_MAX) {
            close(fd);
            continue;
        }
        int one = 1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        stub_watch(s, EPOLL_CTL_ADD, fd, EPOLLIN, sconn_new(fd));
        s->conn_n++;
    }
}

static void stub_activate(struct ideal_stub *s, struct sconn *c) {
    if (!c->active) {
        c->active = true;
        s->active[s->active_n++] = c;
    }
}

static void stub_park(struct ideal_stub *s, struct sconn *c, bool was_parked) {
    if (!was_parked) {
        s->parked[s->parked_n++] = c;
    }
}

static void stub_unpark(struct ideal_stub *s, const struct sconn *c) {
    for (unsigned i = 0; i < s->parked_n; i++) {
        if (s->parked[i] == c) {
            s->parked[i] = s->parked[--s->parked_n];
            return;
        }
    }
}

/* Handles whole frames until one parks. */
static void stub_frames(struct ideal_stub *s, struct sconn *c) {
    uint8_t *p;
    size_t n;
    while (!c->closed && sconn_frame(c, &p, &n)) {
        bool was_parked = c->parked;
        enum skafka_verdict v = skafka_handle(&s->sk, c, p, n);
        if (v == SKAFKA_PARKED) {
            stub_park(s, c, was_parked);
            return;
        }
        if (was_parked) {
            stub_unpark(s, c);
        }
        if (v == SKAFKA_REFUSED) {
            c->closed = true;
            return;
        }
        sconn_hold(c, v == SKAFKA_WRITTEN ? s->sy.current : 0);
        sconn_consume(c);
    }
}

static void stub_event(struct ideal_stub *s, const struct epoll_event *ev) {
    if (ev->data.ptr == &s->listener) {
        stub_accept(s);
        return;
    }
    if (ev->data.ptr == &s->sy) {
        ssync_finished(&s->sy, &s->lg);
        return;
    }
    struct sconn *c = ev->data.ptr;
    stub_activate(s, c);
    if (ev->events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        if (!sconn_receive(c)) {
            c->closed = true;
        } else if (!c->parked) {
            stub_frames(s, c);
        }
    }
}

/* Waiting fetches: all of them when something became visible, else those whose time is up. */
static void stub_parked(struct ideal_stub *s) {
    bool moved = s->lg.moved;
    s->lg.moved = false;
    if (s->parked_n == 0) {
        return;
    }
    s->sk.now_ns = stub_now();
    for (unsigned i = s->parked_n; i-- > 0;) {
        struct sconn *c = s->parked[i];
        if (moved || s->sk.now_ns >= c->parked_until) {
            stub_activate(s, c);
            stub_frames(s, c);
        }
    }
}

static void stub_conn_close(struct ideal_stub *s, struct sconn *c) {
    if (c->parked) {
        stub_unpark(s, c);
    }
    sconn_free(c);
    s->conn_n--;
}

/* Sends and compacts; true while the connection still waits for a sync. The connection may be gone afterwards. */
static bool stub_finish(struct ideal_stub *s, struct sconn *c) {
    bool blocked = false;
    sconn_compact(c);
    if (!c->closed && !sconn_send(c, s->sy.done, &blocked)) {
        c->closed = true;
    }
    if (c->closed) {
        stub_conn_close(s, c);
        return false;
    }
    if (blocked != c->want_write) {
        c->want_write = blocked;
        stub_watch(s, EPOLL_CTL_MOD, c->fd, EPOLLIN | (blocked ? (uint32_t)EPOLLOUT : 0u), c);
    }
    c->active = sconn_holding(c);
    return c->active;
}

static int stub_timeout(const struct ideal_stub *s) {
    if (s->parked_n == 0) {
        return -1;
    }
    uint64_t now = stub_now(), first = UINT64_MAX;
    for (unsigned i = 0; i < s->parked_n; i++) {
        first = s->parked[i]->parked_until < first ? s->parked[i]->parked_until : first;
    }
    return first <= now ? 0 : (int)((first - now) / 1000000u) + 1;
}

static void stub_turn(struct ideal_stub *s) {
    struct epoll_event ev[STUB_EVENTS];
    int n = epoll_wait(s->ep, ev, STUB_EVENTS, stub_timeout(s));
    if (n < 0 && errno != EINTR) {
        die("epoll_wait");
    }
    s->sk.now_ns = stub_now();
    for (int i = 0; i < n; i++) {
        stub_event(s, &ev[i]);
    }
    do { /* A frame behind a fetch that was answered may append again, so until nothing moves. */
        slog_flush(&s->lg);
        ssync_turn(&s->sy, &s->lg);
        stub_parked(s);
    } while (s->lg.moved || s->lg.dirty_n > 0);
    unsigned kept = 0;
    for (unsigned i = 0; i < s->active_n; i++) {
        struct sconn *c = s->active[i];
        if (stub_finish(s, c)) {
            s->active[kept++] = c;
        }
    }
    s->active_n = kept;
}

int main(int argc, char **argv) {
    static struct ideal_stub s;
    sconf_parse(&s.cf, argc, argv);
    signal(SIGPIPE, SIG_IGN);
    struct rlimit rl;
    if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
        rl.rlim_cur = rl.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &rl);
    }
    s.ep = epoll_create1(EPOLL_CLOEXEC);
    s.active = die_alloc(SCONF_CONNS_MAX, sizeof s.active[0]);
    s.parked = die_alloc(SCONF_CONNS_MAX, sizeof s.parked[0]);
    slog_init(&s.lg, &s.cf);
    ssync_init(&s.sy, s.cf.sync);
    s.sk.lg = &s.lg;
    s.sk.producer_next = 1;
    stub_watch(&s, EPOLL_CTL_ADD, s.sy.event_fd, EPOLLIN, &s.sy);
    stub_listen(&s);
    stub_ready(&s);
    for (;;) {
        stub_turn(&s);
    }
}
