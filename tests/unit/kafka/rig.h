/* A whole broker on the simulated machine: node_boot and the Kafka door on 1, 2 or 4 shards, started, stopped and crashed by a test.
 * Whoever scripts the whole broker can use it, and say.h beside it, by linking kafka_rig.
 *
 *   struct rig r;  rig_init(&r, seed, shards);  rig_set(&r, "num.partitions", "3");  rig_start(&r);  ...  rig_stop(&r);  rig_done(&r);
 *
 * Connections are handed out round robin from shard 0, so that the n-th one of a start has shard n mod shards as its home. A clean
 * end with memory, files or sockets left over fails the run, as does an error-level log line that is not expected. */
#pragma once

#include "base/mem.h"
#include "broker/node.h"
#include "port_sim/world.h"

#define RIG_PORT 9092

struct rig {
    struct world *w;
    struct world_node *n;
    struct conf *settings;
    struct node_conf conf;
    uint32_t shards;
    struct node *node;             /* its memory is the node's: gone after a stop or a crash */
    struct mem_heap *heap;         /* the node's */
    struct net_listener *bell;     /* a second listener, whose knocks run `call` on shard 0's thread */
    void (*call)(struct rig *r);
    err boot, ready;               /* of the last start */
    bool is_ready, is_stopped, is_fatal, errors_expected;
    char why[512];
    uint32_t opened;               /* connections so far of this start */
    struct rig_fail {              /* see rig_fail_op */
        enum disk_op op;
        const char *in;
        uint64_t k, seen;
        err e;
    } fail;
    uint64_t error_lines;
    char error_line[256];          /* the last one */
};

void rig_init(struct rig *r, uint64_t seed, uint32_t shards);
void rig_done(struct rig *r);
void rig_set(struct rig *r, const char *key, const char *value);       /* before a start */
/* Boot without waiting; then the node may be crashed, stopped, or waited for with rig_wait_ready. */
void rig_boot(struct rig *r);
/* False when it crashed, or did not start (r->boot, r->ready and r->why say why). */
bool rig_wait_ready(struct rig *r);
void rig_start(struct rig *r);                     /* boot and wait; it must start */
void rig_stop(struct rig *r);                      /* clean stop, until the process has ended */
/* node_stop without waiting, and how long the process then took to end (simulated). */
void rig_stop_begin(struct rig *r);
ms rig_stop_wait(struct rig *r);
void rig_crash(struct rig *r, bool lose_unsynced);
/* Run f(r) on shard 0's thread, as the node. */
void rig_call(struct rig *r, void (*f)(struct rig *r));
/* The k-th disk operation of this kind from now, on a file whose path contains `in`, fails with e. r->fail.seen counts them. */
void rig_fail_op(struct rig *r, struct rig_fail f);
size_t rig_live(struct rig *r);                    /* bytes allocated by the node */
void rig_budget(struct rig *r, size_t bytes);      /* ceiling of that; 0: none */
ms rig_now(const struct rig *r);                   /* simulated ms since the world began */
void rig_run(struct rig *r, ms how_long);
