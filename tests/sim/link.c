/* Keeping a connection to the broker.
 *
 * Happy path: connect, on_up. Failure modes: the broker is down or the connection ends: on_down (only after an on_up), then another
 * attempt a little later, for as long as the link is open.
 * Runs on: the test. */
#include "link.h"

#include <string.h>

static void connect_now(void *u);

static void again(struct link *l) {
    l->kc = NULL;
    world_after(l->s->w, sim_soon(l->s), connect_now, l);
}

static void up(void *u) {
    struct link *l = u;
    l->on_up(l->u);
}

static void down(void *u) {
    struct link *l = u;
    kclient_close(l->kc);
    if (l->on_down) {
        l->on_down(l->u);
    }
    again(l);
}

static void connect_now(void *u) {
    static const struct kclient_events events = {up, down};
    struct link *l = u;
    l->kc = kclient_open(l->s->w, l->s->n, SIM_PORT, l->versions);
    kclient_listen(l->kc, &events, l);
}

void link_open(struct link *l, struct sim *s, void (*on_up)(void *u), void (*on_down)(void *u), void *u) {
    *l = (struct link){.s = s, .on_up = on_up, .on_down = on_down, .u = u};
    kclient_draw_versions(&s->rng, l->versions);
    world_after(s->w, 0, connect_now, l);
}

void link_at_least(struct link *l, int key, int16_t version) {
    l->versions[key] = l->versions[key] < version ? version : l->versions[key];
}

void link_close(struct link *l) {
    kclient_close(l->kc);
    l->kc = NULL;
}

bool link_is_up(const struct link *l) {
    return kclient_is_up(l->kc);
}

void link_break(struct link *l) {
    if (link_is_up(l)) {
        kclient_break(l->kc);
    }
}
