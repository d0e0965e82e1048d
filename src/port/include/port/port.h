/* Everything impure a shard may touch. Implementations: port_uv (libuv, threads) and port_sim (one thread, one seed).
 *
 * The loop: poll (net and disk callbacks run here) -> turn(u) -> poll ... The turn runs after every poll that delivered anything, when
 * `wake_at` has come, and after an inbox post. Nothing else calls into the shard. */
#pragma once

#include "base/prng.h"
#include "port/clock.h"
#include "port/disk.h"
#include "port/inbox.h"
#include "port/net.h"
#include "port/work.h"

struct port {
    struct clock *clock;
    struct disk *disk;
    struct net *net;
    struct inbox *inbox;                       /* this shard's own */
    struct work *work;                         /* computation off the turn */
    struct prng *rng;                          /* decisions, hash seeds */
    void (*secret)(struct port *p, uint8_t *buf, size_t n);   /* ids, nonces, keys: secure (seeded in simulation) */
    void (*on_turn)(struct port *p, void (*turn)(void *u), void *u);
    void (*wake_at)(struct port *p, ms due);   /* run a turn no later than `due` (monotonic); INT64_MAX = no need. Replaces the former */
    void (*again)(struct port *p);             /* run another turn right after the next poll, which will not block */
    void (*stop)(struct port *p);              /* the loop ends after this turn; call once everything is closed */
    uint32_t shard;                            /* index of this shard */
};
