/* A script's end of a connection.
 *
 * Happy path: connect, `up`, bytes both ways, close. What is sent waits here until the socket has room for it.
 * Failure modes: nobody listens: `down` with UNREACHABLE; the node dies or closes: `down` behind the bytes that arrived.
 * A callback may close the client: its memory lasts until the next step.
 * Runs on: the world's thread, from world_step. */
#include "world_client.h"

#include <string.h>

#include "base/crc.h"
#include "base/must.h"
#include "net_sim.h"

struct world_client {
    struct list grave;
    struct list link;            /* world's clients */
    struct world *w;
    struct wire_sim *wire;
    const struct world_client_events *ev;
    void *u;
    uint16_t port;
    struct event_sim due;        /* the connection is made; later: paused bytes are looked at again */
    uint8_t *out;                /* sent and without room in the socket: [out_off, out_off + out_n) */
    size_t out_off, out_n, out_cap;
    size_t in_data;              /* bytes that the running data callback has been given */
    bool up, down, paused, shut, closed;
};

static void trace(const struct world_client *c, enum trace_kind kind, int64_t b, int64_t x) {
    world_sim_trace(c->w, &(struct trace_ev){.kind = kind, .a = c->wire->id, .b = b, .c = x});
}

static void go_down(struct world_client *c, err why) {
    if (!c->down) {
        c->down = true;
        trace(c, TRACE_CLIENT_DOWN, why, 0);
        c->ev->down(c->u, why);
    }
}

static void pump(struct world_client *c) {
    struct pipe_sim *p = &c->wire->up;
    size_t room = c->up && !c->down ? pipe_sim_room(p) : 0;
    size_t n = room < c->out_n ? room : c->out_n;
    if (n > 0) {
        pipe_sim_put(p, c->out + c->out_off, n);
        c->out_n -= n;
        c->out_off = c->out_n > 0 ? c->out_off + n : 0;
    }
    if (c->up && c->shut && c->out_n == 0) {
        pipe_sim_finish(p, PIPE_FIN, 0);
    }
}

void world_client_room(struct world_client *c) {
    pump(c);
}

void world_client_arrived(struct world_client *c) {
    struct pipe_sim *p = &c->wire->down;
    while (c->up && !c->closed && !c->paused && p->arrived > 0) {
        size_t n = p->arrived;
        trace(c, TRACE_CLIENT_DATA, (int64_t)n, crc32c(pipe_sim_bytes(p), n));
        c->in_data = n;
        c->ev->data(c->u, pipe_sim_bytes(p), n);
        c->in_data = 0;
        if (!c->closed) {
            pipe_sim_took(p, n);
        }
    }
    if (c->up && !c->closed && p->ended && p->arrived == 0 && (!c->paused || p->end == PIPE_RST)) {
        go_down(c, p->end == PIPE_FIN ? ERR_OK : ERR_IO);
    }
}

static void due(struct event_sim *e) {
    struct world_client *c = list_entry(e, struct world_client, due);
    if (c->up) {
        world_client_arrived(c);
        return;
    }
    if (!net_sim_knock(c->wire, c->port)) {
        go_down(c, ERR_UNREACHABLE);
        return;
    }
    c->up = true;
    trace(c, TRACE_CLIENT_UP, 0, 0);
    if (c->ev->up) {
        c->ev->up(c->u);
    }
    if (!c->closed) {
        pump(c);
        world_client_arrived(c);
    }
}

struct world_client *world_connect(struct world *w, struct world_node *n, uint16_t port, const struct world_client_events *ev, void *u) {
    struct world_client *c = world_mem_new(sizeof *c);
    c->w = w;
    c->ev = ev;
    c->u = u;
    c->port = port;
    c->wire = pipe_sim_wire(w, n, c);
    list_push_back(&w->clients, &c->link);
    event_sim_init(&w->heap, &c->due, due);
    event_sim_at(&w->heap, &c->due, w->now + world_sim_delay(w, w->faults.net_us_max));
    trace(c, TRACE_CONNECT, port, 0);
    return c;
}

void world_client_send(struct world_client *c, const void *p, size_t n) {
    must(!c->closed && !c->shut);
    trace(c, TRACE_CLIENT_SEND, (int64_t)n, crc32c(p, n));
    if (c->down || n == 0) {
        return;
    }
    if (c->out_off > 0 && c->out_off + c->out_n + n > c->out_cap) {
        memmove(c->out, c->out + c->out_off, c->out_n);
        c->out_off = 0;
    }
    if (c->out_n + n > c->out_cap) {
        c->out_cap = (c->out_n + n) * 2;
        c->out = world_mem_grow(c->out, c->out_cap);
    }
    memcpy(c->out + c->out_off + c->out_n, p, n);
    c->out_n += n;
    pump(c);
}

size_t world_client_unsent(const struct world_client *c) {
    return c->out_n;
}

void world_client_pause(struct world_client *c, bool pause) {
    c->paused = pause;
    if (!pause && c->up && !event_sim_is_set(&c->due)) {
        event_sim_at(&c->w->heap, &c->due, c->w->now + 1);
    }
}

void world_client_shut(struct world_client *c) {
    c->shut = true;
    pump(c);
}

static void end(struct world_client *c, enum pipe_end how) {
    trace(c, TRACE_CLIENT_END, how, 0);
    c->closed = true;
    if (how == PIPE_OPEN) {
        c->wire->vanished = true;
    } else {
        pipe_sim_finish(&c->wire->up, how, 0);
    }
    event_sim_done(&c->w->heap, &c->due);
    pipe_sim_drop_side(c->wire, true);
    mem_free(c->out);
    list_remove(&c->link);
    world_sim_bury(c->w, &c->grave);
}

void world_client_close(struct world_client *c) {
    if (c) {
        end(c, c->out_n > 0 || c->wire->down.n > c->in_data ? PIPE_RST : PIPE_FIN);
    }
}

void world_client_reset(struct world_client *c) {
    end(c, PIPE_RST);
}

void world_client_vanish(struct world_client *c) {
    end(c, PIPE_OPEN);
}

void world_client_free_all(struct world *w) {
    while (!list_empty(&w->clients)) {
        world_client_vanish(list_entry(w->clients.next, struct world_client, link));
    }
}
