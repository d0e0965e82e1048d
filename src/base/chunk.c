/* Refcounted bytes, shared by shards, with a pool to come home to.
 *
 * Size classes: 256 B to 64 KiB by doubling, then four steps per doubling up to 4 MiB (so that a 1.05 MiB frame costs 1.25 MiB, not 2);
 * larger chunks go straight to and from mem_alloc.
 *
 * Happy path: chunk_new pops its class's free list. The last chunk_unref, on any thread, pushes the chunk on the pool's return stack;
 * the home thread takes that stack in one exchange when a free list is empty, so nothing is ever popped singly and ABA cannot arise.
 * Kept bytes are bounded: a chunk that would pass the bound is freed where it is, and a home thread that misses a class throws kept chunks
 * of other classes out first.
 * Life of the pool: `holders` counts its owner and every chunk that is out; who lets go last frees it.
 * Failure modes: NULL without memory. A reference count that would fall below zero is a must.
 * Runs on: home thread (new, trim, free); any thread (ref, unref, out_bytes). */
#include "base/chunk.h"

#include "base/mem.h"
#include "base/must.h"

#define CHUNK_LOG_MIN 8
#define CHUNK_LOG_FINE 16
#define CHUNK_LOG_MAX 22
#define CHUNK_COARSE (CHUNK_LOG_FINE - CHUNK_LOG_MIN + 1)
#define CHUNK_CLASSES (CHUNK_COARSE + (CHUNK_LOG_MAX - CHUNK_LOG_FINE) * 4)
#define CHUNK_NO_CLASS UINT32_MAX

static_assert(sizeof(struct chunk) % 16 == 0, "data is aligned to 16");

struct chunk_pool {
    struct chunk *free[CHUNK_CLASSES];          /* home thread only */
    uint32_t victim;                            /* class that gives up a kept chunk next */
    _Atomic(struct chunk *) returned;           /* pushed by any thread, taken whole by the home thread */
    _Atomic size_t kept_bytes, kept_bytes_max;  /* free lists and return stack together */
    _Atomic size_t out_bytes;
    _Atomic size_t holders;
};

static size_t class_bytes(uint32_t class_) {
    if (class_ < CHUNK_COARSE) {
        return (size_t)1 << (CHUNK_LOG_MIN + class_);
    }
    uint32_t fine = class_ - CHUNK_COARSE;
    return (size_t)(5 + fine % 4) << (CHUNK_LOG_FINE - 2 + fine / 4);
}

static uint32_t class_for(size_t n) {
    if (n > (size_t)1 << CHUNK_LOG_MAX) {
        return CHUNK_NO_CLASS;
    }
    if (n <= (size_t)1 << CHUNK_LOG_MIN) {
        return 0;
    }
    uint32_t top = 63 - (uint32_t)__builtin_clzll(n - 1);   /* n lies in (2^top, 2^(top + 1)] */
    if (top < CHUNK_LOG_FINE) {
        return top + 1 - CHUNK_LOG_MIN;
    }
    uint32_t quarter = (uint32_t)((n - 1) >> (top - 2)) & 3;
    return CHUNK_COARSE + (top - CHUNK_LOG_FINE) * 4 + quarter;
}

struct chunk_pool *chunk_pool_new(size_t kept_bytes_max) {
    struct chunk_pool *p = mem_zalloc(MEM_CHUNK, sizeof *p);
    if (p) {
        atomic_init(&p->kept_bytes_max, kept_bytes_max);
        atomic_init(&p->holders, 1);
    }
    return p;
}

/* Shelve what came back since the last look. Home thread, or the last holder. */
static void take_returned(struct chunk_pool *p) {
    struct chunk *c = atomic_exchange_explicit(&p->returned, NULL, memory_order_acquire);
    for (struct chunk *next; c; c = next) {
        next = c->next;
        c->next = p->free[c->class_];
        p->free[c->class_] = c;
    }
}

static void free_kept(struct chunk_pool *p, uint32_t class_) {
    struct chunk *c = p->free[class_];
    p->free[class_] = c->next;
    atomic_fetch_sub_explicit(&p->kept_bytes, c->cap, memory_order_relaxed);
    mem_free(c);
}

void chunk_pool_trim(struct chunk_pool *p) {
    take_returned(p);
    for (uint32_t i = 0; i < CHUNK_CLASSES; i++) {
        while (p->free[i]) {
            free_kept(p, i);
        }
    }
}

static void pool_let_go(struct chunk_pool *p) {
    if (atomic_fetch_sub_explicit(&p->holders, 1, memory_order_acq_rel) == 1) {
        chunk_pool_trim(p);
        mem_free(p);
    }
}

void chunk_pool_free(struct chunk_pool *p) {
    if (!p) {
        return;
    }
    atomic_store_explicit(&p->kept_bytes_max, 0, memory_order_relaxed);
    chunk_pool_trim(p);
    pool_let_go(p);
}

size_t chunk_pool_out_bytes(const struct chunk_pool *p) {
    return atomic_load_explicit(&p->out_bytes, memory_order_relaxed);
}

/* Before asking the machine for `need` bytes: throw out kept chunks of classes that traffic no longer uses, until `need` could be kept. */
static void make_way(struct chunk_pool *p, size_t need) {
    size_t max = atomic_load_explicit(&p->kept_bytes_max, memory_order_relaxed);
    for (uint32_t idle = 0; idle < CHUNK_CLASSES; p->victim = (p->victim + 1) % CHUNK_CLASSES) {
        if (atomic_load_explicit(&p->kept_bytes, memory_order_relaxed) + need <= max) {
            return;
        }
        if (p->free[p->victim]) {
            free_kept(p, p->victim);
            idle = 0;
        } else {
            idle++;
        }
    }
}

static struct chunk *pop(struct chunk_pool *p, uint32_t class_) {
    struct chunk *c = p->free[class_];
    if (!c) {
        take_returned(p);
        c = p->free[class_];
    }
    if (c) {
        p->free[class_] = c->next;
        atomic_fetch_sub_explicit(&p->kept_bytes, c->cap, memory_order_relaxed);
    }
    return c;
}

static struct chunk *chunk_make(struct chunk_pool *p, uint32_t class_, size_t cap) {
    if (cap > SIZE_MAX / 2) {
        return NULL;
    }
    struct chunk *c = mem_alloc(MEM_CHUNK, sizeof *c + cap);
    if (c) {
        *c = (struct chunk){.class_ = class_, .cap = cap, .home = p};
    }
    return c;
}

struct chunk *chunk_new(struct chunk_pool *p, size_t n) {
    uint32_t class_ = class_for(n);
    struct chunk *c = NULL;
    if (class_ == CHUNK_NO_CLASS) {
        c = chunk_make(p, class_, n);
    } else {
        c = pop(p, class_);
        if (!c) {
            make_way(p, class_bytes(class_));
            c = chunk_make(p, class_, class_bytes(class_));
        }
    }
    if (!c) {
        return NULL;
    }
    c->next = NULL;
    atomic_store_explicit(&c->refs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->holders, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->out_bytes, c->cap, memory_order_relaxed);
    return c;
}

struct chunk *chunk_ref(struct chunk *c) {
    uint32_t before = atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
    must(before > 0);
    return c;
}

/* Keep the chunk for its home thread if the bound allows, else free it here. */
static void come_home(struct chunk_pool *p, struct chunk *c) {
    size_t max = atomic_load_explicit(&p->kept_bytes_max, memory_order_relaxed);
    size_t kept = c->class_ == CHUNK_NO_CLASS ? max : atomic_fetch_add_explicit(&p->kept_bytes, c->cap, memory_order_relaxed);
    if (c->class_ == CHUNK_NO_CLASS || kept + c->cap > max) {
        if (c->class_ != CHUNK_NO_CLASS) {
            atomic_fetch_sub_explicit(&p->kept_bytes, c->cap, memory_order_relaxed);
        }
        mem_free(c);
        return;
    }
    c->next = atomic_load_explicit(&p->returned, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&p->returned, &c->next, c, memory_order_release, memory_order_relaxed)) {
    }
}

void chunk_unref(struct chunk *c) {
    if (!c) {
        return;
    }
    uint32_t before = atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel);
    must(before > 0);
    if (before == 1) {
        struct chunk_pool *p = c->home;
        atomic_fetch_sub_explicit(&p->out_bytes, c->cap, memory_order_relaxed);
        come_home(p, c);
        pool_let_go(p);          /* last: until here this chunk holds the pool */
    }
}
