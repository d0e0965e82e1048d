/* The simulated machine: one thread, one seed. A heap of (time, sequence, event); world_step pops one. Several nodes (brokers), each with a
 * disk and one or more shards; scripted clients talk to them through simulated sockets. Same seed, same run, same trace hash.
 *
 * Disk: writes sit in a cache; sync makes them durable. A crash keeps any subset of unsynced 4 KiB pages per file, tears one at 512 B, and
 * loses any suffix of unsynced directory operations (creation, rename, unlink) consistent with ordering per directory. Lanes complete in any
 * order. Faults by knob: latency, EIO on the n-th request of a kind, short space (ENOSPC), slow syncs, lost write (sync says ok), rot.
 * Net: delay, cut mid-frame, half-open, slow reader; never reorders within a connection. */
#pragma once

#include "port/port.h"

struct world;
struct world_node;

struct world_faults {                      /* per cent mille (1/100,000) unless named; 0 = never */
    uint32_t write_eio, sync_eio, read_eio, sync_slow, net_cut;
    ms disk_us_max, sync_us_max, net_us_max;   /* latencies drawn in [1, max] microseconds */
    int64_t space_bytes;                   /* size of the file system; 0 = unlimited */
};

struct world *world_new(uint64_t seed);
void world_free(struct world *w);
struct prng *world_rng(struct world *w);
int64_t world_now_us(const struct world *w);
void world_faults_set(struct world *w, const struct world_faults *f);
/* Trace: every event is hashed; on_line (may be NULL) also gets it as text. */
void world_trace(struct world *w, void (*on_line)(void *u, const char *line), void *u);
void world_note(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));   /* add a line to the trace and its hash */
uint64_t world_trace_hash(const struct world *w);

/* A node: its disk survives crashes. Start gives shards' ports; boot(u) runs inside the node's heap and crash guard. */
struct world_node *world_node_new(struct world *w, const char *name);
err world_node_start(struct world_node *n, uint32_t shards, void (*boot)(void *u, struct port **ports, uint32_t shards), void *u);
bool world_node_is_up(const struct world_node *n);
/* Power loss (lose unsynced) or kill -9 (keep the page cache). Frees the node's heap; its sockets die. Callable from anywhere. */
void world_node_crash(struct world_node *n, bool lose_unsynced);
/* Crash right before the k-th disk operation from now (counted over all lanes and calls); 0 = off. */
void world_node_crash_at(struct world_node *n, uint64_t k, bool lose_unsynced);
uint64_t world_node_disk_ops(const struct world_node *n);
struct disk *world_node_disk(struct world_node *n);            /* disk_call only: look at the files from outside */
/* Fail the k-th operation of this kind from now with e (once). */
void world_node_fail_op(struct world_node *n, enum disk_op op, uint64_t k, err e);
/* Hold all sync completions until released (tests: "the first sync hangs"). */
void world_node_hold_syncs(struct world_node *n, bool hold);
/* Flip bits / cut durable bytes of a file, for damage tests. */
err world_node_corrupt(struct world_node *n, const char *path, int64_t at, uint8_t xor_mask);
void world_node_wall_jump(struct world_node *n, ms by);

/* Scripted clients: a byte pipe to a listener of a node. Callbacks come from world_step. */
struct world_client;
struct world_client_events {
    void (*up)(void *u);
    void (*data)(void *u, const uint8_t *p, size_t n);
    void (*down)(void *u, err why);
};
struct world_client *world_connect(struct world *w, struct world_node *n, uint16_t port, const struct world_client_events *ev, void *u);
void world_client_send(struct world_client *c, const void *p, size_t n);   /* copied */
void world_client_pause(struct world_client *c, bool pause);               /* a reader that stops reading */
void world_client_close(struct world_client *c);                           /* frees; no callback afterwards */

void world_after(struct world *w, ms delay, void (*fn)(void *u), void *u); /* a script's own event */
bool world_step(struct world *w);                                          /* false when nothing is left */
/* Step until pred(u) or `limit` of simulated time; true when pred held. */
bool world_run(struct world *w, bool (*pred)(void *u), void *u, ms limit);
