/* The only allocator: counted by tag, budgeted, failable. base/mem.c is the one place where malloc may be found.
 *
 * Each process (or, in the simulator, each simulated broker) has a heap; a thread works on the heap set by mem_use(). All blocks of a
 * simulated broker can be dropped in one call, which is how a crash frees its memory. Blocks may be freed on any thread. */
#pragma once

#include "base/types.h"

enum mem_tag {
    MEM_MISC, MEM_ARENA, MEM_CHUNK, MEM_MAP, MEM_CONN, MEM_PART, MEM_LOG, MEM_TAIL, MEM_INDEX, MEM_META, MEM_PROD, MEM_SESSION,
    MEM_WAIT, MEM_DISK, MEM_NET, MEM_SIM, MEM_TEST, MEM_TAG_COUNT
};

struct mem_heap;
struct mem_heap *mem_heap_new(void);             /* tracked: blocks are linked so that mem_heap_drop can free them all. NULL without memory */
void mem_heap_drop(struct mem_heap *h);          /* frees every live block of h, then h; nobody uses h any more. NULL-safe */
/* Set the calling thread's heap; NULL is the process heap (untracked). Returns the former one. */
struct mem_heap *mem_use(struct mem_heap *h);
/* Ceiling of live bytes on the heap the calling thread uses; 0 = none (the default). Threads racing for the last bytes may pass it by
 * a block each. */
void mem_budget(size_t bytes);

/* n bytes, uninitialised (mem_zalloc: zeroed), aligned to 16; NULL when the budget or the machine refuses. n == 0 gives a unique block. */
void *mem_alloc(enum mem_tag tag, size_t n);
void *mem_zalloc(enum mem_tag tag, size_t n);
/* Grow or shrink, on the heap p came from; p may be NULL. On NULL the old block is untouched. */
void *mem_realloc(enum mem_tag tag, void *p, size_t n);
void mem_free(void *p);                          /* NULL-safe */
char *mem_strdup(enum mem_tag tag, const char *s);

size_t mem_live(enum mem_tag tag);               /* live bytes of a tag on the process heap (all threads), as asked for: without heads */
size_t mem_live_all(void);
uint64_t mem_calls(void);                        /* allocations (alloc, zalloc, realloc; refused ones too) so far by the calling thread */
const char *mem_tag_name(enum mem_tag tag);

/* Between forbid and permit an allocation on this thread aborts (debug and sim builds): the hot path's proof. Nestable. */
void mem_forbid(void);
void mem_permit(void);
/* Fail the n-th allocation from now on the calling thread (0 = off); torture tests. */
void mem_fail_nth(uint64_t n);
void mem_fail_nth_tracked(uint64_t n);           /* the same, of those asked of tracked heaps: a simulated broker's, not its test's */
uint64_t mem_fail_left(void);                    /* how many are left until it fails; 0: it did, or none was to */
