/* sconn.c: bytes between a socket and the stub.
 *
 * Purpose: one receive and one send per turn; a large frame is received up to its end, so it never moves.
 * Happy path: receive, frames handled in place, compact at the end of the turn, send what is durable.
 * Failure modes: an absurd length or a lost peer closes this connection, no other.
 * Runs on: the loop's thread. */
#include "sconn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../common/die.h"
#include "sconf.h"

enum { SCONN_IN_MIN = 128 << 10, SCONN_LARGE = 64 << 10 };

struct sconn *sconn_new(int fd) {
    struct sconn *c = die_alloc(1, sizeof *c);
    c->fd = fd;
    c->in_cap = SCONN_IN_MIN;
    c->in = die_alloc(c->in_cap, 1);
    return c;
}

void sconn_free(struct sconn *c) {
    close(c->fd);
    kbuf_done(&c->out);
    free(c->holds);
    free(c->in);
    free(c);
}

bool sconn_receive(struct sconn *c) {
    size_t room = c->in_cap - c->in_len;
    if (c->in_len >= 4) {
        size_t frame = (size_t)kbuf_get32(c->in) + 4;
        if (frame > SCONF_FRAME_MAX) {
            return false;
        }
        if (frame > c->in_cap) {
            c->in = realloc(c->in, frame);
            if (!c->in) {
                die("out of memory: %zu bytes", frame);
            }
            c->in_cap = frame;
        }
        room = frame >= SCONN_LARGE && frame > c->in_len ? frame - c->in_len : c->in_cap - c->in_len;
    }
    if (room == 0) {
        return true;
    }
    ssize_t r = recv(c->fd, c->in + c->in_len, room, 0);
    if (r < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    if (r <= 0) {
        return false;
    }
    c->in_len += (size_t)r;
    return true;
}

bool sconn_frame(struct sconn *c, uint8_t **ret_p, size_t *ret_n) {
    size_t have = c->in_len - c->in_at;
    if (have < 4) {
        return false;
    }
    size_t n = kbuf_get32(c->in + c->in_at);
    if (have - 4 < n) {
        return false;
    }
    *ret_p = c->in + c->in_at + 4;
    *ret_n = n;
    return true;
}

void sconn_consume(struct sconn *c) {
    c->in_at += 4 + (size_t)kbuf_get32(c->in + c->in_at);
}

void sconn_compact(struct sconn *c) {
    if (c->in_at == 0) {
        return;
    }
    c->in_len -= c->in_at;
    if (c->in_len > 0) {
        memmove(c->in, c->in + c->in_at, c->in_len);
    }
    c->in_at = 0;
}

void sconn_hold(struct sconn *c, uint64_t seq) {
    uint64_t end = c->out_base + c->out.len;
    if (c->hold_n > c->hold_at && c->holds[c->hold_n - 1].seq >= seq) {
        c->holds[c->hold_n - 1].end = end;
        return;
    }
    if (c->hold_n == c->hold_cap && c->hold_at > 0) {
        c->hold_n -= c->hold_at;
        memmove(c->holds, c->holds + c->hold_at, c->hold_n * sizeof c->holds[0]);
        c->hold_at = 0;
    }
    if (c->hold_n == c->hold_cap) {
        c->hold_cap = c->hold_cap ? c->hold_cap * 2 : 16;
        c->holds = realloc(c->holds, c->hold_cap * sizeof c->holds[0]);
        if (!c->holds) {
            die("out of memory");
        }
    }
    c->holds[c->hold_n++] = (struct sconn_hold){seq, end};
}

/* Drops what was sent from the front of `out`, when that is cheap. */
static void sconn_out_compact(struct sconn *c) {
    size_t sent = (size_t)(c->out_sent - c->out_base), left = c->out.len - sent;
    if (left > 0 && sent < 2 * left + 4096) {
        return;
    }
    if (left > 0) {
        memmove(c->out.p, c->out.p + sent, left);
    }
    c->out.len = left;
    c->out_base = c->out_sent;
}

bool sconn_send(struct sconn *c, uint64_t done, bool *ret_blocked) {
    *ret_blocked = false;
    while (c->hold_at < c->hold_n && c->holds[c->hold_at].seq <= done) {
        c->out_free = c->holds[c->hold_at++].end;
    }
    if (c->hold_at == c->hold_n) {
        c->hold_at = c->hold_n = 0;
    }
    while (c->out_sent < c->out_free) {
        size_t n = (size_t)(c->out_free - c->out_sent);
        ssize_t w = send(c->fd, c->out.p + (c->out_sent - c->out_base), n, MSG_NOSIGNAL);
        if (w < 0 && (errno == EAGAIN || errno == EINTR)) {
            *ret_blocked = true;
            break;
        }
        if (w <= 0) {
            return false;
        }
        c->out_sent += (uint64_t)w;
    }
    sconn_out_compact(c);
    return true;
}

bool sconn_holding(const struct sconn *c) {
    return c->hold_at < c->hold_n;
}
