/* Messages to this shard from all shards, itself included.
 *
 * Happy path: post appends under the lock and wakes the owner's poll; wake-ups of one turn fall together. drain
 * swaps the list out under the lock once and hands out from there, so the owner holds the lock for a few
 * instructions per turn. One list for all senders keeps the order of each of them.
 * Failure modes: none; admission bounds what can be posted (DESIGN 3). What drain leaves behind brings another turn
 * by itself.
 * Runs on: post on any shard's thread, the rest on the owner's. */
#include "inbox_uv.h"

#include "base/must.h"

static void post(struct inbox *to, struct inbox_item *it) {
    struct inbox_uv *ib = (struct inbox_uv *)to;
    must(pthread_mutex_lock(&ib->lock) == 0);
    list_push_back(&ib->posted, &it->link);
    must(pthread_mutex_unlock(&ib->lock) == 0);
    ib->wake(ib->u);
}

static size_t drain(struct inbox *own, struct list *ret, size_t n_max) {
    struct inbox_uv *ib = (struct inbox_uv *)own;
    must(pthread_mutex_lock(&ib->lock) == 0);
    list_splice_back(&ib->taken, &ib->posted);
    must(pthread_mutex_unlock(&ib->lock) == 0);
    size_t n = 0;
    for (struct list *it; n < n_max && (it = list_pop_front(&ib->taken)); n++) {
        list_push_back(ret, it);
    }
    if (!list_empty(&ib->taken)) {
        ib->again(ib->u);
    }
    return n;
}

void inbox_uv_init(struct inbox_uv *ib, void (*wake)(void *u), void (*again)(void *u), void *u) {
    *ib = (struct inbox_uv){.inbox = {.post = post, .drain = drain}, .wake = wake, .again = again, .u = u};
    must(pthread_mutex_init(&ib->lock, NULL) == 0);
    list_init(&ib->posted);
    list_init(&ib->taken);
}

void inbox_uv_done(struct inbox_uv *ib) {
    must(pthread_mutex_destroy(&ib->lock) == 0);
}
