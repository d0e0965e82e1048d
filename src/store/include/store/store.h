/* One shard's share of the data directory: its logs' descriptors, tail memory, write pass, sync policy, checkpoints and durable marks.
 * Runs on: the owner shard, except where a comment says boot. The broker calls store_pass once a turn (step 3). */
#pragma once

#include "base/str.h"
#include "port/port.h"
#include "store/datadir.h"
#include "wire/batch.h"

struct store;
struct plog;

struct store_conf {
    ms sync_age_max;               /* store.sync.age.ms: the oldest unsynced byte waits no longer for a sync (D6 c) */
    int64_t unsynced_bytes_max;    /* store.unsynced.max: a sync is wanted above; above twice that producers are not read (D6 d) */
    int64_t tail_bytes_max;        /* fresh data kept in memory for readers, all logs of the shard together */
    int64_t checkpoint_bytes;      /* move a log's durable mark after so many synced bytes … */
    ms checkpoint_age;             /* … or after this time, whichever is first */
    int64_t heavy_bytes;           /* write index and producer snapshot (heavy checkpoint) after so many bytes; also at a roll and a stop */
    uint32_t files_max;            /* open segment descriptors kept, logs with unsynced bytes excepted */
    int64_t space_reserve_bytes;   /* below this much free space producers get NOSPACE; reads, commits and admin go on */
};

/* What the store asks of the broker. All on the shard's thread. */
struct store_hooks {
    void *u;
    /* written or stable of lg moved (from the poll or the pass). May come several times a turn: note it, act in step 4. */
    void (*moved)(void *u, struct plog *lg);
    /* Everything queued from offset `from` on was not appended (lg->next is `from` again) and never will be. why = NOSPACE: the log goes on;
     * IO: it is fenced (FENCED from now on). Rebuild producer windows, fail who waits. Before the next plog_reserve of lg. */
    void (*failed)(void *u, struct plog *lg, off64 from, err why);
    /* Producer states of lg as of lg->next, in Kafka's producer snapshot file format; empty when there are none. */
    err (*snapshot)(void *u, struct plog *lg, struct str *ret_file);
    /* Recovery (boot): load a snapshot file taken at offset `at`, then each batch header after it, in order. */
    err (*snapshot_load)(void *u, struct plog *lg, span file, off64 at);
    void (*replay)(void *u, struct plog *lg, const struct batch_head *h);
    /* Something is lost for all (marks, everything): the process must exit with 74 after saying why. */
    void (*fatal)(void *u, const char *why);
};

/* boot. dd outlives the store. Reads nothing. */
err store_new(struct store **ret_st, struct port *port, struct datadir *dd, const struct store_conf *conf, const struct store_hooks *hooks);
/* boot, after every log of this shard is opened and recovered: writes the OPEN block (the directory is dirty from here on). */
err store_begin(struct store *st);

/* boot: a directory whose topic is gone (datadir_doomed) is removed once the shard runs, off the turn. */
void store_remove_dir(struct store *st, const char *dir_name);

/* Turn step 3: one gathered write per dirty log without one in flight, at most one sync request in flight, checkpoints that are due. */
void store_pass(struct store *st, ms now);
/* When store_pass has something to do by time alone; INT64_MAX when never. */
ms store_due(const struct store *st);
/* Producers must not be read now (unsynced bytes above twice the maximum). */
bool store_is_full(const struct store *st);

/* Clean stop: write, sync, heavy checkpoint of all logs, CLEAN block, close descriptors; then done(u, err). Appends are over. */
void store_stop(struct store *st, void (*done)(void *u, err e), void *u);
void store_free(struct store *st);             /* after stop's done; frees remaining plogs */

/* The logs of this shard in turn, one a call, over and over: for whoever must look at all of them a few at a time. NULL: there are none. */
struct plog *store_next_log(struct store *st);

struct store_stats {
    uint64_t writes, write_bytes, syncs, sync_files, syncfs, cold_reads, cold_bytes, tail_bytes, unsynced_bytes, checkpoints, logs, files_open;
    int64_t sync_us_last, sync_us_max;
    uint64_t fenced_logs;
};
void store_stats_get(const struct store *st, struct store_stats *ret);
