/* Goal: the simulated port keeps the contract that the real one keeps. Method: the shared cases (tests/unit/port) on a world of one node,
 * under several seeds. */
#include "port/contract.h"

#include <stdlib.h>

#include "port_sim/world.h"

#define SIMULATED_MS 60000
#define CONTRACT_SEEDS 3

struct contract_client {
    struct world_client *wc;
    const struct contract_client_events *ev;
    void *u;
};

static struct world *w;
static struct world_node *n;
static uint64_t seed;

static bool ended(void *u) {
    (void)u;
    return !world_node_is_up(n);
}

static bool run(uint32_t shards, void (*boot)(void *u, struct port **ports, uint32_t count), void *u) {
    w = world_new(seed);
    n = world_node_new(w, "node");
    bool done = world_node_start(n, shards, boot, u) == ERR_OK && world_run(w, ended, NULL, SIMULATED_MS);
    (void)world_run(w, NULL, NULL, 1000);              /* what the node's kernel still holds reaches the clients */
    world_free(w);
    return done;
}

static void on_up(void *u) {
    struct contract_client *c = u;
    c->ev->up(c->u);
}

static void on_data(void *u, const uint8_t *p, size_t bytes) {
    struct contract_client *c = u;
    c->ev->data(c->u, p, bytes);
}

static void on_down(void *u, err why) {
    struct contract_client *c = u;
    (void)why;
    c->ev->down(c->u);
    world_client_close(c->wc);
    free(c);
}

static void client_connect(uint16_t port, const struct contract_client_events *ev, void *u, struct contract_client **ret_c) {
    static const struct world_client_events events = {on_up, on_data, on_down};
    struct contract_client *c = calloc(1, sizeof *c);
    c->ev = ev;
    c->u = u;
    c->wc = world_connect(w, n, port, &events, c);
    *ret_c = c;
}

static void client_send(struct contract_client *c, const void *p, size_t bytes) {
    world_client_send(c->wc, p, bytes);
}

static void client_pause(struct contract_client *c, bool pause) {
    world_client_pause(c->wc, pause);
}

static void client_close(struct contract_client *c) {
    world_client_close(c->wc);
    free(c);
}

static void hold_syncs(bool hold) {
    world_node_hold_syncs(n, hold);
}

int main(void) {
    static const struct contract_rig rig = {"port_sim", run, client_connect, client_send, client_pause, client_close, hold_syncs};
    int failed = 0;
    for (seed = 1; seed <= CONTRACT_SEEDS; seed++) {
        failed += contract_main(&rig);
    }
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
