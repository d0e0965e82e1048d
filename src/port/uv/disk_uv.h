/* The disk of one shard: three lanes, each a queue and (once used) a thread, and the list on which completions come
 * home. */
#pragma once

#include <pthread.h>

#include "port/disk.h"

struct disk_lane_uv {
    pthread_mutex_t lock;              /* guards queue, quit */
    pthread_cond_t filled;
    struct list queue;                 /* disk_req, oldest first */
    struct disk_uv *disk;
    pthread_t thread;
    bool started;                      /* shard's thread only */
    bool quit;
};

struct disk_uv {
    struct disk disk;                  /* first */
    int root;                          /* the data directory */
    uint32_t shard;                    /* for the threads' names */
    struct disk_lane_uv lanes[DISK_LANES];
    pthread_mutex_t done_lock;         /* guards done */
    struct list done;                  /* completed, waiting for disk_uv_deliver */
    void (*wake)(void *u);             /* any thread: something is on `done`. NULL: no loop, only disk_call works */
    void *wake_u;
    size_t in_flight;                  /* submitted and not delivered; shard's thread only */
};

/* Opens root, starts nothing. NOT_FOUND, IO, LIMIT. */
err disk_uv_init(struct disk_uv *d, const char *root, void (*wake)(void *u), void *wake_u);
/* Runs `done` of what has completed. Shard's thread. Returns how many. */
size_t disk_uv_deliver(struct disk_uv *d);
/* Ends the lanes' threads after their queues are empty; nothing may be in flight. */
void disk_uv_done(struct disk_uv *d);
