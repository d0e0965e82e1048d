/* The world's allocations, kept apart from those of the nodes that it simulates.
 *
 * Happy path: switch to the process heap, allocate, switch back. Freeing is mem_free, wherever it is called.
 * Failure modes: mem_fail_nth counts the thread's allocations without knowing whose they are; it fails one only, so a second try
 * succeeds. A machine that is truly out of memory ends the run.
 * Runs on: the world's thread. */
#include "world_mem.h"

#include <string.h>

#include "base/must.h"

void *world_mem_new(size_t n) {
    struct mem_heap *former = mem_use(NULL);
    void *p = mem_zalloc(MEM_SIM, n);
    if (!p) {
        p = mem_zalloc(MEM_SIM, n);
    }
    (void)mem_use(former);
    must(p != NULL);
    return p;
}

void *world_mem_grow(void *p, size_t n) {
    struct mem_heap *former = mem_use(NULL);
    void *q = mem_realloc(MEM_SIM, p, n);
    if (!q) {
        q = mem_realloc(MEM_SIM, p, n);
    }
    (void)mem_use(former);
    must(q != NULL);
    return q;
}

char *world_mem_str(const char *s) {
    if (!s) {
        return NULL;
    }
    size_t n = strlen(s) + 1;
    char *copy = world_mem_new(n);
    return memcpy(copy, s, n);
}
