/* Three lanes of disk work per shard (DESIGN 4): write, sync and read never wait for each other, each is one thread
 * and one FIFO.
 *
 * Happy path: submit puts a request on its lane's queue; the lane's thread takes the whole queue, runs one after
 * the other and puts each on the `done` list; the first on an empty list wakes the loop, which takes the whole list
 * and runs the callbacks before the turn. So a batch of completions costs one wake-up, and an unused lane costs no
 * thread.
 * Failure modes: a request's own failure is its err. When a lane's thread cannot be made, the request comes home
 * with LIMIT, never inside submit. Freeing a disk with requests in flight is a broken invariant: their memory would
 * be written after its owner is gone.
 * Runs on: submit, deliver, init, done: the shard; run_lane: a disk thread.
 * Signals are blocked there, so that no wait is cut. */
#include "disk_uv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/must.h"
#include "disk_fault.h"
#include "disk_ops.h"
#include "thread_uv.h"

#define LANE_STACK_BYTES (256 << 10)

static void complete(struct disk_uv *d, struct disk_req *rq) {
    must(pthread_mutex_lock(&d->done_lock) == 0);
    bool first = list_empty(&d->done);
    list_push_back(&d->done, &rq->link);
    must(pthread_mutex_unlock(&d->done_lock) == 0);
    if (first) {
        d->wake(d->wake_u);
    }
}

/* Everything queued, moved to *ret; waits for something. False: the lane is to end and its queue is empty. */
static bool lane_take(struct disk_lane_uv *ln, struct list *ret) {
    must(pthread_mutex_lock(&ln->lock) == 0);
    while (list_empty(&ln->queue) && !ln->quit) {
        must(pthread_cond_wait(&ln->filled, &ln->lock) == 0);
    }
    list_splice_back(ret, &ln->queue);
    must(pthread_mutex_unlock(&ln->lock) == 0);
    return !list_empty(ret);
}

static void *run_lane(void *u) {
    struct disk_lane_uv *ln = u;
    struct list work;
    list_init(&work);
    while (lane_take(ln, &work)) {
        for (struct list *it; (it = list_pop_front(&work));) {
            struct disk_req *rq = list_entry(it, struct disk_req, link);
            (void)disk_ops_run(ln->disk->root, rq);        /* its err is in the request */
            complete(ln->disk, rq);
        }
    }
    return NULL;
}

static bool lane_start(struct disk_uv *d, enum disk_lane which) {
    static const char *const names[DISK_LANES] = {"write", "sync", "read"};
    struct disk_lane_uv *ln = &d->lanes[which];
    if (ln->started) {
        return true;
    }
    char name[16];
    (void)snprintf(name, sizeof name, "d%u-%s", d->shard, names[which]);
    ln->started = thread_uv_start(&ln->thread, name, LANE_STACK_BYTES, run_lane, ln);
    return ln->started;
}

static void submit(struct disk *disk, struct disk_req *rq) {
    struct disk_uv *d = (struct disk_uv *)disk;
    must(d->wake);
    must(rq->done);
    must(rq->lane < DISK_LANES);
    d->in_flight++;
    if (!lane_start(d, rq->lane)) {
        rq->err = ERR_LIMIT;
        rq->sys_errno = EAGAIN;
        complete(d, rq);
        return;
    }
    struct disk_lane_uv *ln = &d->lanes[rq->lane];
    must(pthread_mutex_lock(&ln->lock) == 0);
    bool sleeping = list_empty(&ln->queue);
    list_push_back(&ln->queue, &rq->link);
    must(pthread_mutex_unlock(&ln->lock) == 0);
    if (sleeping) {
        must(pthread_cond_signal(&ln->filled) == 0);
    }
}

static err call(struct disk *disk, struct disk_req *rq) {
    struct disk_uv *d = (struct disk_uv *)disk;
    return disk_ops_run(d->root, rq);
}

err disk_uv_init(struct disk_uv *d, const char *root, void (*wake)(void *u), void *wake_u) {
    disk_fault_init();
    int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return disk_ops_err(errno);
    }
    *d = (struct disk_uv){.disk = {.submit = submit, .call = call}, .root = fd, .wake = wake, .wake_u = wake_u};
    must(pthread_mutex_init(&d->done_lock, NULL) == 0);
    list_init(&d->done);
    for (int i = 0; i < DISK_LANES; i++) {
        struct disk_lane_uv *ln = &d->lanes[i];
        must(pthread_mutex_init(&ln->lock, NULL) == 0);
        must(pthread_cond_init(&ln->filled, NULL) == 0);
        list_init(&ln->queue);
        ln->disk = d;
    }
    return ERR_OK;
}

size_t disk_uv_deliver(struct disk_uv *d) {
    struct list home;
    list_init(&home);
    must(pthread_mutex_lock(&d->done_lock) == 0);
    list_splice_back(&home, &d->done);
    must(pthread_mutex_unlock(&d->done_lock) == 0);
    size_t n = 0;
    for (struct list *it; (it = list_pop_front(&home)); n++) {
        struct disk_req *rq = list_entry(it, struct disk_req, link);
        must(d->in_flight > 0);
        d->in_flight--;
        rq->done(rq);
    }
    return n;
}

static void lane_end(struct disk_lane_uv *ln) {
    if (ln->started) {
        must(pthread_mutex_lock(&ln->lock) == 0);
        ln->quit = true;
        must(pthread_mutex_unlock(&ln->lock) == 0);
        must(pthread_cond_signal(&ln->filled) == 0);
        must(pthread_join(ln->thread, NULL) == 0);
    }
    must(pthread_cond_destroy(&ln->filled) == 0);
    must(pthread_mutex_destroy(&ln->lock) == 0);
}

void disk_uv_done(struct disk_uv *d) {
    must(d->in_flight == 0);
    for (int i = 0; i < DISK_LANES; i++) {
        lane_end(&d->lanes[i]);
    }
    must(pthread_mutex_destroy(&d->done_lock) == 0);
    (void)close(d->root);              /* a directory, opened for reading */
}
