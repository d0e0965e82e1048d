/* One connection: bytes in where the door wants them, chains out in order, and an end that is told exactly once.
 *
 * Reading: libuv asks for a buffer (room), reads into it, tells the door (data). Room 0 stops reading until
 * read_more.
 * Writing: sends queue up; after the turn net_conn_flush gathers all of them into one writev. When the socket is
 * full, libuv gets a small write of at most four pieces (so it allocates nothing) and thereby waits for POLLOUT;
 * its completion flushes the rest.
 * The end: an orderly one (FIN) only stops reading: replies can still leave. A broken one gives the socket back at
 * once, for then no byte that a send lent is looked at any more, ends all sends with IO and tells `gone`; `closed`
 * waits for the door's close.
 * close_after_send: when all is written but the peer's bytes lie unread, close() would reset the connection and
 * take the last reply with it; so the sending side is shut and the rest is read to nowhere until the peer closes or
 * the linger time is over.
 * Failure modes: every error of the socket ends in `gone`; sends after the end come back with IO or CANCELLED.
 * Runs on: the shard's thread. */
#include "net_conn.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/must.h"
#include "net_listen.h"
#include "port_uv_loop.h"

#define KEEPALIVE_IDLE_S 120
#define KEEPALIVE_INTERVAL_S 60
#define KEEPALIVE_PROBES 3
#define WAITING_PIECES 4               /* what uv_write_t holds without an allocation */
#define WAITING_BYTES (64 << 10)       /* little, so that a send is done soon after the kernel took it */

static_assert(sizeof(uv_buf_t) == sizeof(struct iovec), "uv_buf_t is an iovec");
static_assert(offsetof(uv_buf_t, base) == offsetof(struct iovec, iov_base), "uv_buf_t is an iovec");
static_assert(offsetof(uv_buf_t, len) == offsetof(struct iovec, iov_len), "uv_buf_t is an iovec");

static uv_stream_t *stream_of(struct net_conn *c) {
    return (uv_stream_t *)&c->tcp;
}

static int fd_of(const struct net_conn *c) {
    uv_os_fd_t fd = -1;
    return uv_fileno((const uv_handle_t *)&c->tcp, &fd) == 0 ? fd : -1;
}

static void mark_dirty(struct net_conn *c) {
    if (list_empty(&c->dirty)) {
        list_push_back(&c->net->dirty, &c->dirty);
    }
    net_uv_kick(c->net);
}

/* The send is over; its `done` runs in the next net_uv_deliver. */
static void finish(struct net_conn *c, struct net_send *s, err e) {
    s->err = e;
    list_push_back(&c->net->finished, &s->link);
    net_uv_kick(c->net);
}

static void end_sends(struct net_conn *c, err e) {
    for (struct list *it; (it = list_pop_front(&c->sends));) {
        finish(c, list_entry(it, struct net_send, link), e);
    }
    c->unsent = 0;
}

static void tell_later(struct net_conn *c) {
    if (list_empty(&c->telling)) {
        list_push_back(&c->net->telling, &c->telling);
    }
    net_uv_kick(c->net);
}

static void on_shut(uv_handle_t *h) {
    struct net_conn *c = h->data;
    struct net_uv *n = c->net;
    c->is_shut = true;
    if (c->is_closing) {
        tell_later(c);
        net_uv_deliver(n);             /* may free c */
    }
    net_listen_freed(n);
}

/* Closes the descriptor now; libuv looks at no lent byte any more. Not inside room: on_read follows and calls again. */
static void shut(struct net_conn *c) {
    if (!c->is_in_room && !uv_is_closing((uv_handle_t *)&c->tcp)) {
        uv_close((uv_handle_t *)&c->tcp, on_shut);
    }
}

void net_conn_tell(struct net_conn *c) {
    if (!c->is_closing) {
        c->ev->gone(c->u, c->why);
        return;
    }
    const struct net_events *ev = c->ev;
    void *u = c->u;
    must(c->is_shut);
    c->net->conns--;
    mem_free(c);
    if (ev) {
        ev->closed(u);
    }
}

void net_conn_close(struct net_conn *c) {
    if (c->is_closing) {
        return;
    }
    c->is_closing = true;
    end_sends(c, ERR_CANCELLED);
    list_remove(&c->dirty);
    list_remove(&c->telling);
    list_remove(&c->lingering);
    shut(c);
    if (c->is_shut) {                  /* it broke earlier: libuv will not call again */
        tell_later(c);
    }
}

static void break_off(struct net_conn *c, int status) {
    if (c->is_broken || c->is_closing) {
        return;
    }
    if (c->is_ending) {                /* nobody to tell: the door has closed already */
        net_conn_close(c);
        return;
    }
    c->is_broken = true;
    shut(c);
    end_sends(c, ERR_IO);
    list_remove(&c->dirty);
    if (!c->is_gone) {
        c->is_gone = true;
        c->why = net_uv_err(status);
        tell_later(c);
    }
}

/* Up to cap pieces of what is to be written next, over all sends; *ret_bytes is their sum. */
static size_t gather(const struct net_conn *c, struct iovec *iov, size_t cap, size_t *ret_bytes) {
    size_t n = 0, bytes = 0;
    list_each(it, &c->sends) {
        const struct net_send *s = list_entry(it, struct net_send, link);
        if (s->err != ERR_OK) {
            break;
        }
        n += chain_iov(s->chain, s->sent, iov + n, cap - n);
        if (n == cap) {
            break;
        }
    }
    for (size_t i = 0; i < n; i++) {
        bytes += iov[i].iov_len;
    }
    *ret_bytes = bytes;
    return n;
}

/* The kernel took n more bytes: credit them to the sends in order. */
static void settle(struct net_conn *c, size_t n) {
    must(n <= c->unsent);
    c->unsent -= n;
    while (!list_empty(&c->sends)) {
        struct net_send *s = list_entry(c->sends.next, struct net_send, link);
        size_t left = s->err == ERR_OK ? s->chain->bytes - s->sent : 0;
        if (n < left) {
            s->sent += n;
            return;
        }
        n -= left;
        s->sent += left;
        list_remove(&s->link);
        finish(c, s, s->err);
    }
    must(n == 0);
}

static void on_written(uv_write_t *req, int status) {
    struct net_conn *c = list_entry(req, struct net_conn, waiting);
    size_t n = c->in_waiting;
    c->is_waiting = false;
    c->in_waiting = 0;
    if (c->is_closing || c->is_broken) {
        return;
    }
    if (status < 0) {
        break_off(c, status);
    } else {
        settle(c, n);
        net_conn_flush(c);
    }
    net_uv_deliver(c->net);
}

static void wait_writable(struct net_conn *c) {
    struct iovec iov[WAITING_PIECES];
    size_t n = gather(c, iov, WAITING_PIECES, &c->in_waiting);
    for (; c->in_waiting > WAITING_BYTES; n -= iov[n - 1].iov_len == 0) {
        size_t over = c->in_waiting - WAITING_BYTES;
        size_t cut = iov[n - 1].iov_len < over ? iov[n - 1].iov_len : over;
        iov[n - 1].iov_len -= cut;
        c->in_waiting -= cut;
    }
    int r = uv_write(&c->waiting, stream_of(c), (uv_buf_t *)iov, (unsigned)n, on_written);
    if (r != 0) {
        c->in_waiting = 0;
        break_off(c, r);
        return;
    }
    c->is_waiting = true;
}

static void write_queued(struct net_conn *c) {
    while (!list_empty(&c->sends) && !c->is_waiting && !c->is_broken && !c->is_closing) {
        struct iovec iov[LIMIT_IOV];
        size_t bytes;
        size_t n = gather(c, iov, LIMIT_IOV, &bytes);
        int took = n > 0 ? uv_try_write(stream_of(c), (uv_buf_t *)iov, (unsigned)n) : 0;
        if (took < 0 && took != UV_EAGAIN) {
            break_off(c, took);
            return;
        }
        settle(c, took > 0 ? (size_t)took : 0);
        if (took < 0 || (size_t)took < bytes) {
            wait_writable(c);
        }
    }
}

/* All is written and the door wants an end. */
static void end(struct net_conn *c) {
    int fd = fd_of(c);
    int unread = 0;
    bool must_drain = ioctl(fd, FIONREAD, &unread) == 0 && unread > 0 && shutdown(fd, SHUT_WR) == 0;
    if (!must_drain) {
        net_conn_close(c);
    } else {
        net_conn_read_more(c);
    }
}

void net_conn_flush(struct net_conn *c) {
    write_queued(c);
    if (c->is_ending && !c->is_closing && list_empty(&c->sends)) {
        end(c);
    }
}

static void on_room(uv_handle_t *h, size_t suggested, uv_buf_t *ret_buf) {
    (void)suggested;
    struct net_conn *c = h->data;
    *ret_buf = uv_buf_init(NULL, 0);
    if (c->is_ending) {
        *ret_buf = uv_buf_init((char *)c->net->scratch, NET_SCRATCH_BYTES);
        return;
    }
    uint8_t *p = NULL;
    net_uv_kick(c->net);
    c->is_in_room = true;
    size_t n = c->ev->room(c->u, &p);
    c->is_in_room = false;
    if (n > 0 && !c->is_ending && !c->is_closing) {
        ret_buf->base = (char *)p;
        ret_buf->len = n;
    }
}

static void stop_reading(struct net_conn *c) {
    if (!c->is_in_room) {
        (void)uv_read_stop(stream_of(c));          /* always 0 */
    }
}

/* What a door decided inside room, where libuv cannot stop: room gave nothing, so this comes right after. */
static void on_no_room(struct net_conn *c) {
    if (c->is_closing) {
        shut(c);
        return;
    }
    c->is_paused = !c->is_ending;
    stop_reading(c);
}

static void on_read(uv_stream_t *h, ssize_t n, const uv_buf_t *buf) {
    (void)buf;
    struct net_conn *c = h->data;
    if (n == UV_ENOBUFS) {
        on_no_room(c);
        return;
    }
    if (c->is_closing || n == 0) {
        return;
    }
    if (c->is_ending) {
        if (n < 0) {
            net_conn_close(c);
        }
        return;
    }
    net_uv_kick(c->net);
    if (n > 0) {
        c->ev->data(c->u, (size_t)n);
    } else if (n == UV_EOF) {
        stop_reading(c);
        c->is_gone = true;
        c->ev->gone(c->u, ERR_OK);
    } else {
        break_off(c, (int)n);
        net_uv_deliver(c->net);
    }
}

void net_conn_read_more(struct net_conn *c) {
    bool wanted = c->is_ending || (c->is_paused && !c->is_gone);
    if (!wanted || c->is_closing) {
        return;
    }
    c->is_paused = false;
    int r = uv_read_start(stream_of(c), on_room, on_read);
    if (r != 0 && r != UV_EALREADY) {
        break_off(c, r);
    }
}

void net_conn_send(struct net_conn *c, struct net_send *s) {
    must(chain_ok(s->chain));
    s->sent = 0;
    s->err = ERR_OK;
    if (c->is_closing) {
        finish(c, s, ERR_CANCELLED);
    } else if (c->is_broken) {
        finish(c, s, ERR_IO);
    } else {
        if (c->is_ending) {
            s->err = ERR_CANCELLED;    /* too late, but told in its turn */
        } else {
            c->unsent += s->chain->bytes;
        }
        list_push_back(&c->sends, &s->link);
        mark_dirty(c);
    }
}

static ms mono(void) {
    return (ms)(uv_hrtime() / 1000000);
}

static void on_linger(uv_timer_t *t);

/* Have on_linger run at `due`; uv_now is the same clock, cached. */
static void linger_until(uv_timer_t *t, ms due) {
    ms now = (ms)uv_now(t->loop);
    must(uv_timer_start(t, on_linger, due > now ? (uint64_t)(due - now) : 0, 0) == 0);
}

static void on_linger(uv_timer_t *t) {
    struct net_uv *n = t->data;
    ms now = mono();
    ms next = INT64_MAX;
    list_each_safe(it, &n->lingering) {
        struct net_conn *c = list_entry(it, struct net_conn, lingering);
        if (c->deadline <= now) {
            net_conn_close(c);
        } else if (c->deadline < next) {
            next = c->deadline;
        }
    }
    if (next != INT64_MAX) {
        linger_until(t, next);
    }
}

void net_conn_close_after_send(struct net_conn *c, ms linger) {
    if (c->is_closing || c->is_ending) {
        return;
    }
    if (c->is_broken) {
        net_conn_close(c);
        return;
    }
    stop_reading(c);
    c->is_ending = true;
    uv_timer_t *t = &c->net->linger_timer;
    c->deadline = mono() + (linger > 0 ? linger : 0);
    list_push_back(&c->net->lingering, &c->lingering);
    if (!uv_is_active((uv_handle_t *)t) || (ms)(uv_now(t->loop) + uv_timer_get_due_in(t)) > c->deadline) {
        linger_until(t, c->deadline);
    }
    mark_dirty(c);
}

void net_conn_addr(const struct net_conn *c, struct net_addr *ret_local, struct net_addr *ret_peer) {
    net_uv_addr(&c->local, ret_local);
    net_uv_addr(&c->peer, ret_peer);
}

size_t net_conn_unsent(const struct net_conn *c) {
    if (!c->is_waiting || c->unsent == 0) {
        return c->unsent;
    }
    return c->unsent - c->in_waiting + uv_stream_get_write_queue_size((const uv_stream_t *)&c->tcp);
}

/* What a broker wants of every socket: no delayed small packets, and dead peers noticed (BR-058). It works without. */
static void tune(int fd) {
    const struct {
        int level, name, value;
    } wants[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
    };
    for (size_t i = 0; i < sizeof wants / sizeof wants[0]; i++) {
        (void)setsockopt(fd, wants[i].level, wants[i].name, &wants[i].value, sizeof wants[i].value);
    }
}

static struct net_conn *conn_new(struct net_uv *n, const struct net_accepted *a) {
    struct net_conn *c = mem_zalloc(MEM_NET, sizeof *c);
    if (!c) {
        return NULL;
    }
    c->net = n;
    c->peer = a->peer;
    list_init(&c->dirty);
    list_init(&c->telling);
    list_init(&c->lingering);
    list_init(&c->sends);
    must(uv_tcp_init(&n->port->loop, &c->tcp) == 0);
    c->tcp.data = c;
    n->conns++;
    return c;
}

/* Gives the descriptor to libuv and starts reading; 0 or a negative errno, then the descriptor is closed. */
static int open_socket(struct net_conn *c, int fd) {
    socklen_t len = sizeof c->local;
    int r = getsockname(fd, &c->local.sa, &len) == 0 ? uv_tcp_open(&c->tcp, fd) : -errno;
    if (r != 0) {
        (void)close(fd);               /* libuv did not take it */
        return r;
    }
    tune(fd);
    return uv_read_start(stream_of(c), on_room, on_read);
}

err net_conn_adopt(struct net *net, struct net_accepted *a, const struct net_events *ev, void *u,
                   struct net_conn **ret_c) {
    struct net_uv *n = (struct net_uv *)net;
    struct net_conn *c = conn_new(n, a);
    if (!c) {
        net->refuse(net, a);
        return ERR_NOMEM;
    }
    int r = open_socket(c, a->fd);
    mem_free(a);
    if (r != 0) {
        net_conn_close(c);
        return net_uv_err(r);
    }
    c->ev = ev;
    c->u = u;
    *ret_c = c;
    return ERR_OK;
}
