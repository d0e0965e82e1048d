/* Threads for shards: one body each, named for top and gdb, joined by who started them.
 *
 * Happy path: start, run, join; signals stay as they are, a shard's thread may take any of them.
 * Failure modes: no memory or no thread left: NOMEM, LIMIT.
 * Runs on: start and join on the composition root's thread. */
#include <pthread.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/must.h"
#include "port_uv/port_uv.h"

struct port_uv_thread {
    pthread_t id;
    void (*body)(void *u);
    void *u;
};

static void *run(void *u) {
    struct port_uv_thread *t = u;
    t->body(t->u);
    return NULL;
}

err port_uv_thread_start(const char *name, void (*body)(void *u), void *u, struct port_uv_thread **ret_t) {
    struct port_uv_thread *t = mem_alloc(MEM_MISC, sizeof *t);
    if (!t) {
        return ERR_NOMEM;
    }
    t->body = body;
    t->u = u;
    if (pthread_create(&t->id, NULL, run, t) != 0) {
        mem_free(t);
        return ERR_LIMIT;
    }
    char cut[16];
    (void)snprintf(cut, sizeof cut, "%s", name);
    (void)pthread_setname_np(t->id, cut);          /* only for people */
    *ret_t = t;
    return ERR_OK;
}

void port_uv_thread_join(struct port_uv_thread *t) {
    must(pthread_join(t->id, NULL) == 0);
    mem_free(t);
}
