/* One worker per shard for computation that is too long for a turn.
 *
 * Happy path: submit queues; the thread takes one request after the other, runs it and puts it on the list that the loop empties before its next turn. A worker that
 * nobody used costs no thread.
 * Failure modes: where no thread can be made, the request runs on the loop when it is delivered: a long turn is better than none.
 * Runs on: submit, deliver, init, done: the shard; run_worker: the worker, signals blocked. */
#include "work_uv.h"

#include <stdio.h>

#include "base/must.h"
#include "thread_uv.h"

#define WORK_STACK_BYTES (512 << 10)

static void put_home(struct work_uv *wk, struct work_req *rq) {
    must(pthread_mutex_lock(&wk->lock) == 0);
    bool first = list_empty(&wk->home);
    list_push_back(&wk->home, &rq->link);
    must(pthread_mutex_unlock(&wk->lock) == 0);
    if (first) {
        wk->wake(wk->wake_u);
    }
}

/* The next one; waits for it. NULL: the worker is to end. */
static struct work_req *take(struct work_uv *wk) {
    must(pthread_mutex_lock(&wk->lock) == 0);
    while (list_empty(&wk->queue) && !wk->quit) {
        must(pthread_cond_wait(&wk->filled, &wk->lock) == 0);
    }
    struct list *it = list_pop_front(&wk->queue);
    must(pthread_mutex_unlock(&wk->lock) == 0);
    return it != NULL ? list_entry(it, struct work_req, link) : NULL;
}

static void *run_worker(void *u) {
    struct work_uv *wk = u;
    for (struct work_req *rq; (rq = take(wk)) != NULL;) {
        rq->run(rq);
        rq->ran = true;
        put_home(wk, rq);
    }
    return NULL;
}

static bool start(struct work_uv *wk) {
    char name[16];
    (void)snprintf(name, sizeof name, "d%u-work", wk->shard);
    wk->started = wk->started || thread_uv_start(&wk->thread, name, WORK_STACK_BYTES, run_worker, wk);
    return wk->started;
}

static void submit(struct work *work, struct work_req *rq) {
    struct work_uv *wk = (struct work_uv *)work;
    must(rq->run && rq->done);
    rq->ran = false;
    wk->in_flight++;
    if (!start(wk)) {
        put_home(wk, rq);
        return;
    }
    must(pthread_mutex_lock(&wk->lock) == 0);
    list_push_back(&wk->queue, &rq->link);
    must(pthread_mutex_unlock(&wk->lock) == 0);
    must(pthread_cond_signal(&wk->filled) == 0);
}

void work_uv_deliver(struct work_uv *wk) {
    struct list home;
    list_init(&home);
    must(pthread_mutex_lock(&wk->lock) == 0);
    list_splice_back(&home, &wk->home);
    must(pthread_mutex_unlock(&wk->lock) == 0);
    for (struct list *it; (it = list_pop_front(&home));) {
        struct work_req *rq = list_entry(it, struct work_req, link);
        must(wk->in_flight > 0);
        wk->in_flight--;
        if (!rq->ran) {
            rq->run(rq);
        }
        rq->done(rq);
    }
}

void work_uv_init(struct work_uv *wk, uint32_t shard, void (*wake)(void *u), void *wake_u) {
    *wk = (struct work_uv){.work = {.submit = submit}, .shard = shard, .wake = wake, .wake_u = wake_u};
    must(pthread_mutex_init(&wk->lock, NULL) == 0);
    must(pthread_cond_init(&wk->filled, NULL) == 0);
    list_init(&wk->queue);
    list_init(&wk->home);
}

void work_uv_done(struct work_uv *wk) {
    must(wk->in_flight == 0);
    if (wk->started) {
        must(pthread_mutex_lock(&wk->lock) == 0);
        wk->quit = true;
        must(pthread_mutex_unlock(&wk->lock) == 0);
        must(pthread_cond_signal(&wk->filled) == 0);
        must(pthread_join(wk->thread, NULL) == 0);
    }
    must(pthread_cond_destroy(&wk->filled) == 0);
    must(pthread_mutex_destroy(&wk->lock) == 0);
}
