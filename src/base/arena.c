/* Bump allocation for one request.
 *
 * Happy path: the pointer moves. The first block is small (2 KiB), later ones big (32 KiB); both come from the shard's pool and go back
 * there, so a steady state allocates nothing. What would waste most of a block gets one of its own, behind the block in use.
 * Failure modes: NULL at the ceiling (counted in block bytes, heads included) or without memory; the arena stays usable.
 * Runs on: whoever holds the request; the pool belongs to the shard's thread. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/must.h"

#define ARENA_SMALL_BYTES ((size_t)2 << 10)
#define ARENA_BIG_BYTES ((size_t)32 << 10)
#define ARENA_ALIGN 8

struct arena_block {
    struct arena_block *next;
    size_t bytes;                /* with this head */
};
static_assert(sizeof(struct arena_block) % ARENA_ALIGN == 0, "data starts aligned");

void arena_pool_init(struct arena_pool *p, size_t kept_bytes_max) {
    *p = (struct arena_pool){.kept_bytes_max = kept_bytes_max};
}

static void free_all(struct arena_block *b) {
    for (struct arena_block *next; b; b = next) {
        next = b->next;
        mem_free(b);
    }
}

void arena_pool_done(struct arena_pool *p) {
    free_all(p->free_small);
    free_all(p->free_big);
    *p = (struct arena_pool){.kept_bytes_max = p->kept_bytes_max};
}

/* The pool's list for blocks of this size; NULL: not pooled. */
static struct arena_block **shelf_of(struct arena_pool *p, size_t bytes) {
    if (!p) {
        return NULL;
    }
    return bytes == ARENA_SMALL_BYTES ? &p->free_small : bytes == ARENA_BIG_BYTES ? &p->free_big : NULL;
}

static struct arena_block *block_new(struct arena_pool *p, size_t bytes) {
    struct arena_block **shelf = shelf_of(p, bytes);
    struct arena_block *b = shelf ? *shelf : NULL;
    if (b) {
        *shelf = b->next;
        p->kept_bytes -= bytes;
        return b;
    }
    b = mem_alloc(MEM_ARENA, bytes);
    if (b) {
        b->bytes = bytes;
    }
    return b;
}

static void block_free(struct arena_pool *p, struct arena_block *b) {
    struct arena_block **shelf = shelf_of(p, b->bytes);
    if (!shelf || p->kept_bytes + b->bytes > p->kept_bytes_max) {
        mem_free(b);
        return;
    }
    b->next = *shelf;
    *shelf = b;
    p->kept_bytes += b->bytes;
}

void arena_init(struct arena *a, struct arena_pool *pool, size_t ceiling) {
    *a = (struct arena){.pool = pool, .ceiling = ceiling};
}

void arena_done(struct arena *a) {
    for (struct arena_block *b = a->blocks, *next; b; b = next) {
        next = b->next;
        block_free(a->pool, b);
    }
    arena_init(a, a->pool, a->ceiling);
}

/* How large a block should be that must hold n bytes: the usual size, or just n when that is much, or what is left to the ceiling. */
static size_t block_bytes(const struct arena *a, size_t n) {
    size_t exact = sizeof(struct arena_block) + n;
    size_t usual = a->blocks ? ARENA_BIG_BYTES : ARENA_SMALL_BYTES;
    if (exact > ARENA_SMALL_BYTES) {
        usual = ARENA_BIG_BYTES;
    }
    size_t room = a->ceiling - a->total;
    if (exact > ARENA_BIG_BYTES / 4) {
        return exact;
    }
    return usual < room ? usual : room;
}

static void *alloc_slow(struct arena *a, size_t n) {
    size_t room = a->ceiling - a->total;
    if (room < sizeof(struct arena_block) || n > room - sizeof(struct arena_block)) {
        return NULL;
    }
    struct arena_block *b = block_new(a->pool, block_bytes(a, n));
    if (!b) {
        a->starved = true;
        return NULL;
    }
    a->total += b->bytes;
    uint8_t *data = (uint8_t *)(b + 1);
    uint8_t *end = (uint8_t *)b + b->bytes;
    bool keep_current = a->blocks && (size_t)(end - data) - n < (size_t)(a->end - a->at);
    if (keep_current) {                            /* the block in use has more room left than the new one will have */
        b->next = a->blocks->next;
        a->blocks->next = b;
        return data;
    }
    b->next = a->blocks;
    a->blocks = b;
    a->at = data + n;
    a->end = end;
    return data;
}

void *arena_alloc(struct arena *a, size_t n) {
    if (n > SIZE_MAX / 2) {
        return NULL;
    }
    n = n ? (n + ARENA_ALIGN - 1) & ~(size_t)(ARENA_ALIGN - 1) : ARENA_ALIGN;
    if (n > (size_t)(a->end - a->at)) {
        return alloc_slow(a, n);
    }
    void *p = a->at;
    a->at += n;
    return p;
}

void *arena_zalloc(struct arena *a, size_t n) {
    void *p = arena_alloc(a, n);
    return p ? memset(p, 0, n) : NULL;
}

span arena_copy(struct arena *a, span s) {
    uint8_t *p = span_is_null(s) ? NULL : arena_alloc(a, s.n);
    return p ? span_of(memcpy(p, s.p, s.n), s.n) : SPAN_NULL;
}

char *arena_str(struct arena *a, span s) {
    char *p = s.n < SIZE_MAX ? arena_alloc(a, s.n + 1) : NULL;
    if (!p) {
        return NULL;
    }
    if (s.n > 0) {
        memcpy(p, s.p, s.n);
    }
    p[s.n] = 0;
    return p;
}

char *arena_printf(struct arena *a, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    must(n >= 0);
    char *p = arena_alloc(a, (size_t)n + 1);
    if (p) {
        (void)vsnprintf(p, (size_t)n + 1, fmt, again);   /* the same text as measured above */
    }
    va_end(again);
    va_end(args);
    return p;
}
