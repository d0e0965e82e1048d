/* Byte streams with delays.
 *
 * Happy path: the writer puts bytes into the buffer; an event brings a random part of them to the reader, then the next, then the end.
 * What the reader takes makes room for the writer, who is told at once. Order within a direction never changes.
 * Failure modes: a cut (net_cut) resets both directions in the middle; a side that has gone answers bytes with a reset, as TCP does; a
 * vanished client answers nothing. A reset may overtake bytes that have arrived and were not yet read.
 * Runs on: the world's thread. */
#include "pipe_sim.h"

#include <stdio.h>
#include <string.h>

#include "base/must.h"
#include "net_sim.h"
#include "world_client.h"

#define WINDOW_MIN (64 << 10)
#define WINDOW_MAX (256 << 10)

static void trace(const struct wire_sim *wr, enum trace_kind kind, int64_t b, int64_t c) {
    world_sim_trace(wr->w, &(struct trace_ev){.kind = kind, .node = wr->node->id, .a = wr->id, .b = b, .c = c});
}

static void schedule(struct pipe_sim *p, int64_t after) {
    struct world *w = p->wire->w;
    if (!event_sim_is_set(&p->ev)) {
        event_sim_at(&w->heap, &p->ev, w->now + after + world_sim_delay(w, w->faults.net_us_max));
    }
}

static struct pipe_sim *other_way(struct pipe_sim *p) {
    return p->to_client ? &p->wire->up : &p->wire->down;
}

static bool reader_lives(const struct pipe_sim *p) {
    return p->to_client ? p->wire->client != NULL : p->wire->node_side;
}

void pipe_sim_put(struct pipe_sim *p, const void *bytes, size_t n) {
    must(n <= pipe_sim_room(p));
    if (p->off > 0 && p->off + p->n + n > p->cap) {
        memmove(p->buf, p->buf + p->off, p->n);
        p->off = 0;
    }
    if (p->n + n > p->cap) {
        size_t cap = p->cap ? p->cap : 512;
        while (cap < p->n + n) {
            cap *= 2;
        }
        p->buf = world_mem_grow(p->buf, cap);
        p->cap = cap;
    }
    memcpy(p->buf + p->off + p->n, bytes, n);
    p->n += n;
    schedule(p, 0);
}

void pipe_sim_finish(struct pipe_sim *p, enum pipe_end end, int64_t after) {
    if (p->end != PIPE_OPEN || end == PIPE_OPEN) {
        return;
    }
    p->end = end;
    if (end == PIPE_RST) {
        p->n = p->arrived;
        event_sim_cancel(&p->wire->w->heap, &p->ev);
    }
    schedule(p, after);
}

void pipe_sim_took(struct pipe_sim *p, size_t n) {
    must(n <= p->arrived);
    p->arrived -= n;
    p->n -= n;
    p->off = p->n > 0 ? p->off + n : 0;
    if (p->to_client && p->wire->conn) {
        net_sim_room(p->wire->conn);
    } else if (!p->to_client && p->wire->client) {
        world_client_room(p->wire->client);
    }
}

static void notify(struct pipe_sim *p) {
    if (p->to_client) {
        world_client_arrived(p->wire->client);
    } else if (p->wire->conn) {
        net_sim_arrived(p->wire->conn);
    }
}

/* Nobody reads any more: what comes is answered with a reset. A vanished side answers nothing and takes nothing. */
static void bounce(struct pipe_sim *p) {
    if (p->wire->vanished) {
        return;
    }
    bool bytes = p->n > p->arrived;
    p->n = p->arrived = p->off = 0;
    p->ended = p->end != PIPE_OPEN;
    if (bytes && p->to_client && p->wire->up.ended) {
        net_sim_reset(p->wire->conn);
    } else if (bytes) {
        pipe_sim_finish(other_way(p), PIPE_RST, 0);
    }
}

static void cut(struct pipe_sim *p) {
    trace(p->wire, TRACE_CUT, 0, 0);
    pipe_sim_finish(p, PIPE_RST, 0);
    pipe_sim_finish(other_way(p), PIPE_RST, 0);
}

static void arrive(struct event_sim *e) {
    struct pipe_sim *p = list_entry(e, struct pipe_sim, ev);
    struct world *w = p->wire->w;
    if (!reader_lives(p)) {
        bounce(p);
        return;
    }
    size_t on_way = p->n - p->arrived;
    if (on_way > 0) {
        size_t k = prng_chance(&w->rng, 1, 2) ? on_way : 1 + (size_t)prng_below(&w->rng, on_way);
        p->arrived += k;
        trace(p->wire, TRACE_ARRIVE, (int64_t)k, p->to_client);
        if (world_sim_strikes(w, w->faults.net_cut)) {
            cut(p);
        }
    } else if (p->end != PIPE_OPEN) {
        p->ended = true;
        if (p->end == PIPE_RST && prng_chance(&w->rng, 1, 2)) {
            p->n = p->arrived = p->off = 0;
        }
    }
    if (p->n > p->arrived || (p->end != PIPE_OPEN && !p->ended)) {
        schedule(p, 0);
    }
    notify(p);
}

static void init(struct pipe_sim *p, struct wire_sim *wr, bool to_client) {
    p->wire = wr;
    p->to_client = to_client;
    p->window = WINDOW_MIN + (size_t)prng_below(&wr->w->rng, WINDOW_MAX - WINDOW_MIN);
    event_sim_init(&wr->w->heap, &p->ev, arrive);
}

struct wire_sim *pipe_sim_wire(struct world *w, struct world_node *n, struct world_client *c) {
    struct wire_sim *wr = world_mem_new(sizeof *wr);
    wr->w = w;
    wr->node = n;
    wr->client = c;
    wr->id = ++w->wires_made;
    list_init(&wr->link);
    list_init(&wr->backlog);
    init(&wr->up, wr, false);
    init(&wr->down, wr, true);
    (void)snprintf(wr->host, sizeof wr->host, "%s", w->peer_host);
    wr->client_port = w->next_port;
    w->next_port = w->next_port == UINT16_MAX ? 20000 : (uint16_t)(w->next_port + 1);
    return wr;
}

static void pipe_done(struct pipe_sim *p) {
    event_sim_done(&p->wire->w->heap, &p->ev);
    mem_free(p->buf);
    p->buf = NULL;
}

void pipe_sim_drop_side(struct wire_sim *wr, bool client_side) {
    if (client_side) {
        wr->client = NULL;
    } else {
        wr->node_side = false;
        wr->conn = NULL;
        list_remove(&wr->link);
        list_remove(&wr->backlog);
    }
    if (!wr->client && !wr->node_side) {
        pipe_done(&wr->up);
        pipe_done(&wr->down);
        world_sim_bury(wr->w, &wr->grave);
    }
}
