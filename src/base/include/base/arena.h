/* Bump allocation for one request: everything is freed in one call. Blocks come from the shard's arena_pool so that steady state
 * allocates nothing. Not thread-safe; an arena belongs to whoever holds the request. */
#pragma once

#include "base/span.h"

struct arena_block;
struct arena_pool {
    struct arena_block *free_small, *free_big;   /* 2 KiB and 32 KiB blocks kept for reuse */
    size_t kept_bytes, kept_bytes_max;
};
void arena_pool_init(struct arena_pool *p, size_t kept_bytes_max);
void arena_pool_done(struct arena_pool *p);

struct arena {
    struct arena_pool *pool;     /* may be NULL: straight from mem_alloc */
    struct arena_block *blocks;
    uint8_t *at, *end;
    size_t total, ceiling;       /* bytes taken from the allocator; refuse above ceiling */
    bool starved;                /* something was refused for want of memory, not at the ceiling */
};

void arena_init(struct arena *a, struct arena_pool *pool, size_t ceiling);
void arena_done(struct arena *a);                        /* gives all blocks back; a may be used again */
/* n bytes aligned to 8, or NULL at the ceiling or without memory. arena_zalloc zeroes. n == 0 gives a non-NULL pointer. */
void *arena_alloc(struct arena *a, size_t n);
void *arena_zalloc(struct arena *a, size_t n);
span arena_copy(struct arena *a, span s);                /* SPAN_NULL without memory (or when s is null) */
char *arena_str(struct arena *a, span s);                /* NUL-terminated copy or NULL */
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
