/* The world: its clock, its heap of events, its trace, its clients' timers.
 *
 * Happy path: world_step takes the earliest event, moves the clock to it and fires it; everything else happens in the event's owner.
 * Failure modes: world_fail ends the process with the seed in the message; a run is repeated with the same seed and a trace.
 * Runs on: one thread; several worlds may follow each other in a process, each on its own. */
#include "port_sim/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/must.h"
#include "world_client.h"
#include "world_sim.h"

#define PCM 100000
#define NOTE_CAP 512

struct timer {
    struct list link;
    struct event_sim ev;
    struct world *w;
    void (*fn)(void *u);
    void *u;
};

struct world *world_new(uint64_t seed) {
    log_limit_per_second(0);
    struct world *w = world_mem_new(sizeof *w);
    w->seed = seed;
    prng_seed(&w->rng, seed);
    list_init(&w->nodes);
    list_init(&w->clients);
    list_init(&w->timers);
    list_init(&w->grave);
    w->next_port = 20000;
    world_peer_host(w, "127.0.0.1");
    world_faults_set(w, &(struct world_faults){0});
    return w;
}

static void empty_grave(struct world *w) {
    for (struct list *it; (it = list_pop_front(&w->grave));) {
        mem_free(it);
    }
}

uint64_t world_seed(const struct world *w) {
    return w->seed;
}

struct prng *world_rng(struct world *w) {
    return &w->rng;
}

int64_t world_now_us(const struct world *w) {
    return w->now;
}

static int64_t or_else(int64_t v, int64_t instead) {
    return v > 0 ? v : instead;
}

void world_faults_set(struct world *w, const struct world_faults *f) {
    w->faults = *f;
    w->faults.disk_us_max = or_else(f->disk_us_max, 100);
    w->faults.sync_us_max = or_else(f->sync_us_max, 1000);
    w->faults.net_us_max = or_else(f->net_us_max, 200);
    w->faults.loop_us_max = or_else(f->loop_us_max, 50);
    w->faults.space_bytes = or_else(f->space_bytes, INT64_MAX / 2);
    w->faults.files_max = f->files_max > 0 ? f->files_max : UINT32_MAX;
}

void world_peer_host(struct world *w, const char *host) {
    must(strlen(host) < sizeof w->peer_host);
    (void)snprintf(w->peer_host, sizeof w->peer_host, "%s", host);
}

void world_trace(struct world *w, void (*on_line)(void *u, const char *line), void *u) {
    w->trace.on_line = on_line;
    w->trace.u = u;
}

void world_note(struct world *w, const char *fmt, ...) {
    char text[NOTE_CAP];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    world_sim_trace(w, &(struct trace_ev){.kind = TRACE_NOTE, .name = text});
}

uint64_t world_trace_hash(const struct world *w) {
    return w->trace.hash;
}

uint64_t world_events(const struct world *w) {
    return w->trace.events;
}

void world_fail(struct world *w, const char *fmt, ...) {
    char text[NOTE_CAP];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    world_note(w, "FAILED: %s", text);
    (void)fprintf(stderr, "simulation failed: seed=%llu at=%lldus: %s\n", (unsigned long long)w->seed, (long long)w->now, text);
    abort();
}

void world_on_error_line(struct world *w, bool (*expected)(void *u, struct world_node *n, const char *event, const char *text),
                         void *u) {
    w->expected = expected;
    w->expected_u = u;
}

int64_t world_sim_delay(struct world *w, int64_t max) {
    int64_t most = prng_chance(&w->rng, 1, 8) ? max : max / 4;
    return 1 + (int64_t)prng_below(&w->rng, (uint64_t)(most > 1 ? most : 1));
}

bool world_sim_strikes(struct world *w, uint32_t per_cent_mille) {
    return per_cent_mille > 0 && prng_chance(&w->rng, per_cent_mille, PCM);
}

void world_sim_trace(struct world *w, const struct trace_ev *ev) {
    trace_sim_put(&w->trace, w->now, ev);
}

void world_sim_bury(struct world *w, struct list *grave) {
    list_push_back(&w->grave, grave);
}

static void timer_free(struct timer *t) {
    event_sim_done(&t->w->heap, &t->ev);
    list_remove(&t->link);
    mem_free(t);
}

static void timer_fire(struct event_sim *e) {
    struct timer *t = list_entry(e, struct timer, ev);
    void (*fn)(void *u) = t->fn;
    void *u = t->u;
    world_sim_trace(t->w, &(struct trace_ev){.kind = TRACE_TIMER});
    timer_free(t);
    fn(u);
}

void world_after(struct world *w, ms delay, void (*fn)(void *u), void *u) {
    struct timer *t = world_mem_new(sizeof *t);
    t->w = w;
    t->fn = fn;
    t->u = u;
    list_push_back(&w->timers, &t->link);
    event_sim_init(&w->heap, &t->ev, timer_fire);
    event_sim_at(&w->heap, &t->ev, w->now + (delay > 0 ? delay : 0) * 1000);
}

bool world_step(struct world *w) {
    must(!w->running);
    empty_grave(w);
    int64_t at;
    struct event_sim *e = event_sim_pop(&w->heap, &at);
    if (!e) {
        return false;
    }
    must(at >= w->now);
    w->now = at;
    e->fire(e);
    return true;
}

bool world_run(struct world *w, bool (*pred)(void *u), void *u, ms limit) {
    int64_t end = w->now + limit * 1000;
    for (;;) {
        if (pred && pred(u)) {
            return true;
        }
        if (event_sim_next(&w->heap) > end) {
            w->now = end;
            return false;
        }
        (void)world_step(w);               /* there is one */
    }
}

void world_free(struct world *w) {
    if (!w) {
        return;
    }
    must(!w->running);
    world_node_free_all(w);
    world_client_free_all(w);
    while (!list_empty(&w->timers)) {
        timer_free(list_entry(w->timers.next, struct timer, link));
    }
    empty_grave(w);
    event_sim_heap_done(&w->heap);
    mem_free(w);
}
