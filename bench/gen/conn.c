/* conn.c: framing over a non-blocking socket.
 *
 * Purpose: one receive per readiness, and no copying of large replies: inside a large frame the receive ends
 * exactly at the frame's end, so nothing has to be moved to the front afterwards.
 * Happy path: conn_poll -> conn_receive -> on_frame per frame; on_writable continues a blocked send.
 * Failure modes: end of stream, an error or an absurd length dies: a load that lost a connection is no figure.
 * Runs on: the main thread. */
#include "conn.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/die.h"
#include "../common/kbuf.h"
#include "rpc.h"

enum { CONN_IN_MIN = 16 << 10, CONN_LARGE = 64 << 10, CONN_EVENTS = 256 };

void conn_open(struct conn *c, const struct conf *cf, int ep) {
    c->fd = rpc_connect(cf, 30);
    c->ep = ep;
    int flags = fcntl(c->fd, F_GETFL);
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
    if (flags < 0 || fcntl(c->fd, F_SETFL, flags | O_NONBLOCK) != 0 || epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev) != 0) {
        die("connection set-up");
    }
    c->in_cap = CONN_IN_MIN;
    c->in = die_alloc(c->in_cap, 1);
}

void conn_close(struct conn *c) {
    close(c->fd);
    free(c->in);
    c->in = NULL;
}

/* How much to receive: to the end of a large frame, else whatever fits. Grows the buffer for the frame. */
static size_t conn_room(struct conn *c) {
    if (c->in_len >= 4) {
        size_t frame = (size_t)kbuf_get32(c->in) + 4;
        if (frame > KBUF_BYTES_MAX) {
            die("a reply frame of %zu bytes", frame);
        }
        if (frame > c->in_cap) {
            uint8_t *p = realloc(c->in, frame);
            if (!p) {
                die("out of memory: %zu bytes", frame);
            }
            c->in = p;
            c->in_cap = frame;
        }
        if (frame >= CONN_LARGE) {
            return frame - c->in_len;
        }
    }
    return c->in_cap - c->in_len;
}

void conn_receive(struct conn *c) {
    ssize_t r = recv(c->fd, c->in + c->in_len, conn_room(c), 0);
    if (r < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (r <= 0) {
        die("the broker closed a connection");
    }
    c->in_len += (size_t)r;
    size_t at = 0;
    while (c->in_len - at >= 4) {
        size_t n = kbuf_get32(c->in + at);
        if (c->in_len - at - 4 < n) {
            break;
        }
        c->on_frame(c, c->in + at + 4, n);
        at += n + 4;
    }
    c->in_len -= at;
    if (at > 0 && c->in_len > 0) {
        memmove(c->in, c->in + at, c->in_len);
    }
}

void conn_want_write(struct conn *c, bool want) {
    if (c->want_write == want) {
        return;
    }
    struct epoll_event ev = {.events = EPOLLIN | (want ? (uint32_t)EPOLLOUT : 0u), .data.ptr = c};
    if (epoll_ctl(c->ep, EPOLL_CTL_MOD, c->fd, &ev) != 0) {
        die("epoll_ctl");
    }
    c->want_write = want;
}

void conn_poll(int ep, int timeout_ms) {
    struct epoll_event ev[CONN_EVENTS];
    int n = epoll_wait(ep, ev, CONN_EVENTS, timeout_ms);
    if (n < 0 && errno != EINTR) {
        die("epoll_wait");
    }
    for (int i = 0; i < n; i++) {
        struct conn *c = ev[i].data.ptr;
        if (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
            conn_receive(c);
        }
        if (ev[i].events & EPOLLOUT) {
            c->on_writable(c);
        }
    }
}
