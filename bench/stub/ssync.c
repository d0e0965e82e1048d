/* ssync.c: the sync lane.
 *
 * Purpose: one sync serves everybody who waits; the next starts the moment the last has returned.
 * Happy path: the loop hands over the descriptors written so far, goes on receiving, and is told by an eventfd; answers
 * up to the commit number taken may then leave.
 * Failure modes: a failed sync dies: an upper bound has no error path.
 * Runs on: the loop's thread, and ssync_thread on its own; `job` is the only word shared while the thread works. */
#include "ssync.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "../common/die.h"

static void ssync_work(struct ssync *sy) {
    if (sy->fd_n > SSYNC_EACH_MAX) {
        if (syncfs(sy->fds[0]) != 0) {
            die("syncfs");
        }
        return;
    }
    for (unsigned i = 0; i < sy->fd_n; i++) {
        if (fdatasync(sy->fds[i]) != 0) {
            die("fdatasync");
        }
    }
}

static void *ssync_thread(void *arg) {
    struct ssync *sy = arg;
    for (;;) {
        pthread_mutex_lock(&sy->mutex);
        while (!sy->job) {
            pthread_cond_wait(&sy->cond, &sy->mutex);
        }
        sy->job = false;
        pthread_mutex_unlock(&sy->mutex);
        ssync_work(sy);
        uint64_t one = 1;
        if (write(sy->event_fd, &one, sizeof one) != sizeof one) {
            die("eventfd");
        }
    }
    return NULL;
}

void ssync_init(struct ssync *sy, enum sconf_sync how) {
    *sy = (struct ssync){.how = how, .current = 1, .event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    sy->fds = die_alloc(SCONF_PARTS_MAX + 1, sizeof sy->fds[0]);
    if (sy->event_fd < 0) {
        die("eventfd");
    }
    if (how == SCONF_THREAD) {
        pthread_t thread;
        pthread_mutex_init(&sy->mutex, NULL);
        pthread_cond_init(&sy->cond, NULL);
        if (pthread_create(&thread, NULL, ssync_thread, sy) != 0) {
            die("pthread_create");
        }
    }
}

void ssync_turn(struct ssync *sy, struct slog *lg) {
    if (sy->how == SCONF_NONE) {
        sy->done = sy->current++;
        return;
    }
    if (sy->busy) {
        return;
    }
    sy->fd_n = slog_take_unsynced(lg, sy->fds);
    sy->taken = sy->current++;
    if (sy->fd_n == 0) {
        sy->done = sy->taken;
        return;
    }
    if (sy->how == SCONF_INLINE) {
        ssync_work(sy);
        sy->done = sy->taken;
        slog_synced(lg);
        return;
    }
    sy->busy = true;
    pthread_mutex_lock(&sy->mutex);
    sy->job = true;
    pthread_cond_signal(&sy->cond);
    pthread_mutex_unlock(&sy->mutex);
}

void ssync_finished(struct ssync *sy, struct slog *lg) {
    uint64_t n;
    if (read(sy->event_fd, &n, sizeof n) == sizeof n) {
        sy->busy = false;
        sy->done = sy->taken;
        slog_synced(lg);
    }
}
