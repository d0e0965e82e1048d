#pragma once
/* ssync.h: making written bytes durable before the answer: inline, or as group commit on a second thread. */

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "slog.h"

enum { SSYNC_EACH_MAX = 8 }; /* more dirty files than this: one syncfs */

struct ssync {
    enum sconf_sync how;
    int *fds; /* the job: filled by the loop while no sync is in flight */
    unsigned fd_n;
    bool busy;            /* a sync is in flight (the loop's view) */
    uint64_t taken, done; /* commit numbers: covered by the sync in flight; finished */
    uint64_t current;     /* the number that appends of this turn get */
    int event_fd;         /* thread -> loop: finished */
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool job; /* under mutex: there is something to do */
};

void ssync_init(struct ssync *sy, enum sconf_sync how);

/* After the turn's writes: starts a sync if one is wanted and none is in flight (inline: runs it). */
void ssync_turn(struct ssync *sy, struct slog *lg);

/* The loop saw event_fd: marks the sync in flight as finished. */
void ssync_finished(struct ssync *sy, struct slog *lg);
