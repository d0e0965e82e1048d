/* The worker of one shard: a queue, a thread once it was used, and the list on which requests come home. */
#pragma once

#include <pthread.h>

#include "port/work.h"

struct work_uv {
    struct work work;                  /* first */
    uint32_t shard;                    /* for the thread's name */
    pthread_mutex_t lock;              /* guards queue, home, quit */
    pthread_cond_t filled;
    struct list queue, home;           /* work_req, oldest first */
    pthread_t thread;
    bool started;                      /* shard's thread only */
    bool quit;
    void (*wake)(void *u);             /* any thread: something is on `home` */
    void *wake_u;
    size_t in_flight;                  /* submitted and not delivered; shard's thread only */
};

void work_uv_init(struct work_uv *wk, uint32_t shard, void (*wake)(void *u), void *wake_u);
/* Runs `done` of what has come home. Shard's thread. */
void work_uv_deliver(struct work_uv *wk);
/* Ends the thread; nothing may be in flight. */
void work_uv_done(struct work_uv *wk);
