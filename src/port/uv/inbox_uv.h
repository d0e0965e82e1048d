/* The inbox of one shard: a list behind a small lock, swapped whole. */
#pragma once

#include <pthread.h>

#include "port/inbox.h"

struct inbox_uv {
    struct inbox inbox;                /* first */
    pthread_mutex_t lock;              /* guards posted */
    struct list posted;
    struct list taken;                 /* swapped out and not yet drained; owner's thread only */
    void (*wake)(void *u);             /* any thread: after each post */
    void (*again)(void *u);            /* owner's thread: a drain left something behind */
    void *u;
};

void inbox_uv_init(struct inbox_uv *ib, void (*wake)(void *u), void (*again)(void *u), void *u);
void inbox_uv_done(struct inbox_uv *ib);
