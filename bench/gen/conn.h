#pragma once
/* conn.h: one non-blocking connection: cuts reply frames out of what arrives. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"

struct conn {
    int fd, ep;      /* ep: the epoll it belongs to */
    bool want_write; /* EPOLLOUT is asked for */
    uint8_t *in;     /* what was received and not yet cut */
    size_t in_len, in_cap;
    void *owner; /* the load this connection works for */
    /* One whole frame without its length; `p` is valid during the call only. */
    void (*on_frame)(struct conn *c, const uint8_t *p, size_t n);
    void (*on_writable)(struct conn *c);
};

/* Connects (blocking), then goes non-blocking and joins `ep`. Dies if it cannot. */
void conn_open(struct conn *c, const struct conf *cf, int ep);
void conn_close(struct conn *c);

/* One receive; calls on_frame for every whole frame. A closed connection dies: no load survives that. */
void conn_receive(struct conn *c);

/* Asks for, or stops asking for, on_writable. */
void conn_want_write(struct conn *c, bool want);

/* Waits up to timeout_ms and dispatches one round of events. */
void conn_poll(int ep, int timeout_ms);
