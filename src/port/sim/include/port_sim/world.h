/* The simulated machine: one thread, one seed. A heap of (time, sequence, event); world_step pops one. Several nodes (brokers), each with a
 * disk and one or more shards; scripted clients talk to them through simulated sockets. Same seed, same run, same trace hash.
 *
 * Disk: writes sit in a page cache; a sync makes durable what was completed when it was submitted, and no more. Power loss keeps, per file,
 * any subset of unsynced 4 KiB pages (one may be torn at 512 B; the size may have grown before the data) and, per directory, any prefix of
 * the unsynced operations on its names (a rename is atomic). kill -9 keeps the cache, and what was unsynced stays so. A crash may find the
 * disk further than the process knew: requests in flight happened wholly, in part or not at all. Lanes complete in any order.
 * Net: delays, random splits, bounded socket buffers, cut mid-frame, half-open, RST; never reorders within a connection.
 *
 * Everything here is for tests. The caller's code and a node's code run on one thread; "outside" below means: not from a node's code. */
#pragma once

#include "port/port.h"

struct world;
struct world_node;

struct world_faults {                      /* per cent mille (1/100,000) of the named requests, unless said otherwise; 0 = never */
    uint32_t write_eio, read_eio, sync_eio;
    uint32_t sync_slow;                    /* takes up to half a second */
    uint32_t sync_lost;                    /* says OK, but one page it covered never reached the platter */
    uint32_t write_astray;                 /* lands some pages away */
    uint32_t read_rot;                     /* one bit of what is read has rotten, for good */
    uint32_t net_cut;                      /* per delivered piece: the connection is reset, often mid-frame */
    /* Latencies are drawn in [1, max] microseconds; 0 = a default (100, 1000, 200, 50). loop: how late a shard's poll may run. */
    int64_t disk_us_max, sync_us_max, net_us_max, loop_us_max;
    int64_t space_bytes;                   /* size of each node's file system; 0 = unlimited */
    uint32_t files_max;                    /* open descriptors of one node; 0 = unlimited */
};

struct world *world_new(uint64_t seed);
void world_free(struct world *w);                              /* crashes what is up; NULL-safe. Outside */
uint64_t world_seed(const struct world *w);
struct prng *world_rng(struct world *w);
int64_t world_now_us(const struct world *w);
void world_faults_set(struct world *w, const struct world_faults *f);

/* Trace: every event is hashed; on_line (may be NULL) also gets it as text. Text costs nothing when nobody listens and never changes
 * the hash. world_note adds a line of the test's own. */
void world_trace(struct world *w, void (*on_line)(void *u, const char *line), void *u);
void world_note(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
uint64_t world_trace_hash(const struct world *w);
uint64_t world_events(const struct world *w);                  /* lines hashed so far */

/* The run has failed: prints the seed, the time and the text, and aborts. */
_Noreturn void world_fail(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* An error-level log line of a node fails the run unless `expected` says true (it may look and note, not crash the node). */
void world_on_error_line(struct world *w, bool (*expected)(void *u, struct world_node *n, const char *event, const char *text),
                         void *u);

/* A node: its disk survives crashes. Start gives the shards' ports; boot(u) runs inside the node's heap, log sink and crash guard, with
 * disk_call. CANCELLED when the node crashed in boot. A node that calls port.stop on every shard ends cleanly: then nothing may be
 * left allocated, open, listening or in flight, else the run fails. Outside. A log line of the node goes to the trace (INFO and above). */
struct world_node *world_node_new(struct world *w, const char *name);
err world_node_start(struct world_node *n, uint32_t shards, void (*boot)(void *u, struct port **ports, uint32_t shards), void *u);
/* Runs in the node's heap when its last loop has ended cleanly, before the check for leftovers: frees what boot made. */
void world_node_on_ended(struct world_node *n, void (*on_ended)(void *u), void *u);
/* Told from the world, after each crash (not after a clean end). */
void world_node_on_down(struct world_node *n, void (*on_down)(void *u, struct world_node *n, bool lost_unsynced), void *u);
bool world_node_is_up(const struct world_node *n);
uint64_t world_node_starts(const struct world_node *n);        /* how often it was started */
/* Run fn(u) as the node's code on that shard, as a signal would, and give the shard a turn. False when the node is down afterwards. Outside. */
bool world_node_call(struct world_node *n, uint32_t shard, void (*fn)(void *u), void *u);
/* Power loss (lose unsynced) or kill -9 (keep the page cache). Frees the node's heap; its sockets die. Callable from anywhere; from the
 * node's own code it does not return. */
void world_node_crash(struct world_node *n, bool lose_unsynced);
/* Crash at the k-th disk operation from now (1 = the next; counted over all lanes and calls): it is never reported, but may have
 * happened wholly or in part. 0 = off. */
void world_node_crash_at(struct world_node *n, uint64_t k, bool lose_unsynced);
uint64_t world_node_disk_ops(const struct world_node *n);      /* executed or crashed at, since the node was made */
/* Sees each disk operation of the node right before it is executed (path: of the request, or the file's when it was opened; may be
 * NULL); true crashes the node there, as crash_at does. */
void world_node_on_op(struct world_node *n, bool (*on_op)(void *u, const struct disk_req *rq, const char *path), void *u,
                      bool lose_unsynced);
/* Fail the k-th operation of this kind from now with e, once. 0 = off. */
void world_node_fail_op(struct world_node *n, enum disk_op op, uint64_t k, err e);
/* Hold all sync completions until released (tests: "the first sync hangs"). disk_call is not held. */
void world_node_hold_syncs(struct world_node *n, bool hold);
/* SIGSTOP for so long: no poll, no turn; the disk and the clock go on. */
void world_node_pause(struct world_node *n, ms how_long);
void world_node_wall_jump(struct world_node *n, ms by);

/* The disk as seen from outside: disk_call only, neither counted nor failing, whether the node is up or not. */
struct disk *world_node_disk(struct world_node *n);
/* Damage at rest: flip bits of one byte, in the cache and on the platter; a mask of 0 cuts the file at `at` instead. */
err world_node_corrupt(struct world_node *n, const char *path, int64_t at, uint8_t xor_mask);
int64_t world_node_unsynced(const struct world_node *n);       /* bytes of pages, plus one per name operation, not covered by a sync */

/* Scripted clients: a byte pipe to a listener of a node. Callbacks come from world_step; they may call anything of the client's,
 * world_client_close too. `down` is the last callback; the client is still to be closed. */
struct world_client;
struct world_client_events {
    void (*up)(void *u);
    void (*data)(void *u, const uint8_t *p, size_t n);
    void (*down)(void *u, err why);        /* OK: the node closed in order; UNREACHABLE: never connected; IO: reset */
};
struct world_client *world_connect(struct world *w, struct world_node *n, uint16_t port, const struct world_client_events *ev, void *u);
void world_peer_host(struct world *w, const char *host);       /* numeric address of the clients made from now on; default 127.0.0.1 */
void world_client_send(struct world_client *c, const void *p, size_t n);   /* copied */
size_t world_client_unsent(const struct world_client *c);                  /* bytes that found no room in the socket yet */
void world_client_pause(struct world_client *c, bool pause);               /* a reader that stops reading */
void world_client_shut(struct world_client *c);                            /* sends no more (FIN after what is queued), still reads */
void world_client_close(struct world_client *c);                           /* in order (FIN); frees; no callback afterwards. NULL-safe */
void world_client_reset(struct world_client *c);                           /* RST; frees */
void world_client_vanish(struct world_client *c);                          /* half-open: the node never hears of it again; frees */

void world_after(struct world *w, ms delay, void (*fn)(void *u), void *u); /* a script's own event */
bool world_step(struct world *w);                                          /* false when nothing is left */
/* Step until pred(u) (may be NULL: never) held, or `limit` of simulated time (at most some years) has passed; true when pred held. */
bool world_run(struct world *w, bool (*pred)(void *u), void *u, ms limit);
