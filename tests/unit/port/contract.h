/* What every port must keep, whoever implements it: the same tests run on port_uv and on port_sim.
 *
 * How to use. Fill one struct contract_rig with what only the implementation can do (start ports, be a client from
 * outside, hold syncs), link the library port_contract (tests/unit/port/CMakeLists.txt; room_tests(port_X
 * port_contract)) and write
 *
 *     int main(void) {
 *         return contract_main(&rig);
 *     }
 *
 * in tests/unit/port_X/test_contract.c. The cases know nothing else of the implementation: inside a case
 * everything happens in callbacks of ports and clients, and the case judges when `run` has returned. Each case
 * runs in a process of its own, with a time limit that stands for "it hangs". Server and clients of a case share
 * no memory but atomics, for on port_uv they are threads; a case speaks with its clients in bytes.
 *
 * Memory: what a case allocates in a port's callback it frees in a port's callback, so a rig may run these in a heap of its own. */
#pragma once

#include <check.h>

#include "port/port.h"

struct contract_client;

/* Callbacks of a client: all of them on one thread (or in the world's steps), never from within the rig's functions. */
struct contract_client_events {
    void (*up)(void *u);
    void (*data)(void *u, const uint8_t *p, size_t n);
    void (*down)(void *u);                 /* refused, closed or reset by the other side; the client is freed, nothing follows */
};

struct contract_rig {
    const char *name;
    /* Make `shards` ports over one empty data directory, call boot(u, ports, shards) while nothing polls yet, then
     * run all loops until each of them was stopped, and free everything. Clients left open are closed without a
     * callback. False: it did not come to an end (nothing left to do, or a minute of simulated time is over). */
    bool (*run)(uint32_t shards, void (*boot)(void *u, struct port **ports, uint32_t shards), void *u);
    /* To 127.0.0.1:port, from boot, a port's callback or a client's callback. *ret_c is set before `up` or `down`
     * follows. */
    void (*connect)(uint16_t port, const struct contract_client_events *ev, void *u, struct contract_client **ret_c);
    /* From clients' callbacks only. */
    void (*send)(struct contract_client *c, const void *p, size_t n);      /* copied */
    void (*pause)(struct contract_client *c, bool pause);                  /* stop reading, read again */
    void (*close)(struct contract_client *c);                              /* frees; no callback follows */
    /* Syncs that are submitted from now on do not complete until hold_syncs(false). From boot or a port's callback.
     * NULL: cannot. */
    void (*hold_syncs)(bool hold);
};

int contract_main(const struct contract_rig *rig);

/* The cases, by noun. */
TCase *contract_loop(const struct contract_rig *rig);
TCase *contract_disk(const struct contract_rig *rig);
TCase *contract_net(const struct contract_rig *rig);
TCase *contract_work(const struct contract_rig *rig);
