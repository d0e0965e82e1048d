/* The one object that shards share: refcounted bytes. Immutable after its owner's stamp. The count is atomic; the last release, on
 * whatever thread, gives the chunk back to its home pool (a lock-free return stack, emptied by the home thread on its next chunk_new). */
#pragma once

#include <stdatomic.h>

#include "base/span.h"

struct chunk;

struct chunk_pool;
struct chunk_pool *chunk_pool_new(size_t kept_bytes_max);
/* The pool dies when its last chunk has come home: safe to call while chunks are out. */
void chunk_pool_free(struct chunk_pool *p);
size_t chunk_pool_out_bytes(const struct chunk_pool *p);       /* capacity of chunks now out. Any thread */
void chunk_pool_trim(struct chunk_pool *p);                    /* home thread: free all kept chunks */

struct chunk {
    _Atomic uint32_t refs;
    uint32_t class_;             /* size class, private to chunk.c */
    size_t cap;                  /* usable bytes in data */
    struct chunk_pool *home;
    struct chunk *next;          /* while pooled */
    uint8_t data[];
};

/* At least n bytes, one reference held by the caller, or NULL. Home thread of p only. Data is aligned to 16. */
struct chunk *chunk_new(struct chunk_pool *p, size_t n);
struct chunk *chunk_ref(struct chunk *c);                      /* any thread that already holds a reference */
void chunk_unref(struct chunk *c);                             /* any thread; NULL-safe */
