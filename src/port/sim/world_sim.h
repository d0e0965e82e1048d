/* The insides of the world and its nodes, shared by the files of this room. */
#pragma once

#include <setjmp.h>

#include "event_sim.h"
#include "fs_sim.h"
#include "port_sim/world.h"
#include "trace_sim.h"
#include "world_mem.h"

struct loop_sim;

struct world {
    uint64_t seed;
    struct prng rng;                 /* the world's own decisions; nodes have generators of their own */
    int64_t now;                     /* microseconds since the world began */
    struct event_heap heap;
    struct trace_sim trace;
    struct world_faults faults;      /* latencies filled in */
    struct list nodes, clients, timers;
    struct list grave;               /* freed at the next step: a caller further up may still look at it */
    uint32_t nodes_n, wires_made;
    uint16_t next_port;
    char peer_host[64];
    struct world_node *running;      /* whose code runs right now; NULL: the world's or the test's */
    struct loop_sim *running_loop;   /* NULL in boot */
    jmp_buf guard;                   /* where a crash from inside the node's code goes */
    bool (*expected)(void *u, struct world_node *n, const char *event, const char *text);
    void *expected_u;
};

struct node_fail {                   /* one planned failure of an operation */
    uint64_t in;                     /* 0: none */
    err e;
};

struct node_end {                    /* how a node is to go down */
    bool wanted, power;
};

struct world_node {
    struct list link;                /* world's */
    struct world *w;
    uint32_t id;                     /* from 1 */
    char *name;
    struct fs_sim fs;
    struct mem_heap *heap;           /* while up */
    struct loop_sim **loops;
    uint32_t loops_n, ended;         /* ended: loops that were stopped */
    uint64_t starts;
    bool up;
    int64_t mono_base, wall_base;    /* added to the world's time; microseconds */
    int64_t paused_until;
    struct list files;               /* open descriptors, disk_sim's */
    struct list locks;
    uint32_t files_n;
    struct list wires;               /* connections to this node, net_sim's */
    uint16_t next_port;
    struct disk_sim *outside;
    uint64_t ops;                    /* disk operations so far */
    uint64_t crash_in;               /* 0: off */
    bool crash_power, hook_power;
    bool (*on_op)(void *u, const struct disk_req *rq, const char *path);
    void *on_op_u;
    struct node_fail fail[DISK_LOCK + 1];
    bool hold_syncs, syncfs_failed;
    struct node_end end;             /* set by the node's own code on its way to the guard */
    void (*on_ended)(void *u);
    void *on_ended_u;
    void (*on_down)(void *u, struct world_node *n, bool lost_unsynced);
    void *on_down_u;
};

/* A number in [1, max], small ones more often. */
int64_t world_sim_delay(struct world *w, int64_t max);
bool world_sim_strikes(struct world *w, uint32_t per_cent_mille);
void world_sim_trace(struct world *w, const struct trace_ev *ev);
/* Free `grave`, the first member of its object, at the next step. */
void world_sim_bury(struct world *w, struct list *grave);

/* Run fn(arg) as the node's code: its heap, its log sink, its crash guard; then let the loops (lp, or all when NULL) take what it asked for.
 * False when the node is down afterwards. */
bool world_node_run(struct world_node *n, struct loop_sim *lp, void (*fn)(void *arg), void *arg);
void world_node_loop_ended(struct world_node *n);
void world_node_free_all(struct world *w);
