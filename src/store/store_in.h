/* The inside of a shard's store, for the files of this room. */
#pragma once

#include "cold.h"
#include "files.h"
#include "heavy.h"
#include "marks.h"
#include "plog_in.h"
#include "sync.h"
#include "trim.h"
#include "write.h"
#include "store/store.h"

struct store {
    struct port *port;
    struct disk *disk;
    struct datadir *dd;
    struct store_conf conf;
    struct store_hooks hooks;
    struct chunk_pool *chunks;     /* tail blocks and cold reads */
    struct list logs;              /* every plog, by `all` */
    struct list dirty;
    uint32_t reserved;             /* plog_reserve calls of this turn whose plog_append did not come yet */
    /* tail */
    struct list tail_age;
    struct tail_piece *tail_spare;
    uint32_t tail_spare_n;
    struct list seg_spares;        /* plog_append cannot fail: segments for rolls */
    uint32_t seg_spares_n;
    int64_t tail_bytes;
    struct write write;
    struct sync sync;
    struct marks marks;
    struct heavies heavy;
    struct files files;
    struct colds cold;
    struct trims trims;
    int64_t unsynced_bytes;        /* queued or written, and not stable */
    /* free space */
    struct disk_req space_rq;
    bool space_busy, space_low;
    ms space_next;                 /* when to look again */
    /* stop */
    bool begun, stopping, dead;
    int stop_step;
    void (*stop_done)(void *u, err e);
    void *stop_u;
    err stop_err;
    int64_t pending;               /* closes and deletions that a stop waits for */
    bool settling, root_changed, names_busy;   /* root_changed: directories were renamed since its last sync */
    struct list renamed, removing; /* deleted directories that wait for a sync of the root; for the one in flight */
    struct list doomed;            /* directories that wait to be removed, one after the other */
    struct plog_delete_doom *removing_now;
    struct disk_req removal;
    ms stop_began;
    struct sync_other names;
    const char *root_dir;
    bool recovered;                /* store_begin must sync what recovery cut */
    struct store_stats stats;
};

ms store_now(const struct store *st);
void store_fatal(struct store *st, const char *why);           /* once; nothing is submitted afterwards */
void plog_delete_sync(struct store *st);                       /* of the root directory, when names in it changed */
void plog_delete_dir(struct store *st, const char *name);      /* the directory waits to be removed */
void plog_delete_pass(struct store *st);                       /* go on removing directories */
void plog_delete_drop(struct store *st);                       /* forget those that wait: the next start removes them */
void store_settle(struct store *st);                           /* a request came home: go on with a stop */
