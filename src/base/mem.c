/* The allocator's front: malloc with a tag, a budget, a way to fail on purpose and, for a simulated broker, a way to drop everything.
 *
 * Layout: every block is preceded by a 16-byte head (heap, tag and size). A block of a tracked heap has 16 bytes more in front of
 * that, its place in the heap's list. So any block can be freed on any thread without knowing where it came from.
 *
 * Happy path: on the process heap one malloc and one relaxed addition to the tag's counter, which has a cache line of its own; no lock.
 * A tracked heap has a spin lock around its list; the simulator runs on one thread, so it is never contended there.
 * Failure modes: NULL for budget, machine, size overflow or mem_fail_nth; callers say what then. An allocation between mem_forbid and
 * mem_permit is a broken invariant and aborts in debug builds.
 * Runs on: any thread. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/must.h"

#define MEM_SIZE_BITS 56
#define MEM_SIZE_MAX (((uint64_t)1 << MEM_SIZE_BITS) - 1)

struct head {
    struct mem_heap *heap;       /* NULL: the process heap */
    uint64_t tag_size;           /* tag in the top byte, payload bytes below */
};
static_assert(sizeof(struct head) == 16, "payload stays aligned to 16");
static_assert(sizeof(struct list) == 16, "payload stays aligned to 16");

struct mem_heap {
    atomic_flag busy;            /* guards all below */
    struct list blocks;
    size_t live, budget;         /* payload bytes; budget 0 = none */
};

struct counter {
    _Alignas(64) _Atomic size_t live;
};

static struct counter process_live[MEM_TAG_COUNT];
static _Atomic size_t process_budget;

static _Thread_local struct mem_heap *here;
static _Thread_local uint64_t calls, fail_in;
static _Thread_local bool fail_tracked;        /* fail_in counts what is asked of tracked heaps only */
static _Thread_local unsigned forbidden;

static const char *const tag_names[MEM_TAG_COUNT] = {
    [MEM_MISC] = "misc", [MEM_ARENA] = "arena", [MEM_CHUNK] = "chunk", [MEM_MAP] = "map",   [MEM_CONN] = "conn",
    [MEM_PART] = "part", [MEM_LOG] = "log",     [MEM_TAIL] = "tail",   [MEM_INDEX] = "index", [MEM_META] = "meta",
    [MEM_PROD] = "prod", [MEM_SESSION] = "session", [MEM_WAIT] = "wait", [MEM_DISK] = "disk", [MEM_NET] = "net",
    [MEM_SIM] = "sim",   [MEM_TEST] = "test",
};

static void lock(struct mem_heap *h) {
    while (atomic_flag_test_and_set_explicit(&h->busy, memory_order_acquire)) {
    }
}

static void unlock(struct mem_heap *h) {
    atomic_flag_clear_explicit(&h->busy, memory_order_release);
}

static struct head *head_of(void *p) {
    return (struct head *)p - 1;
}

static struct list *link_of(struct head *hd) {
    return (struct list *)(void *)hd - 1;
}

static size_t size_of(const struct head *hd) {
    return (size_t)(hd->tag_size & MEM_SIZE_MAX);
}

static enum mem_tag tag_of(const struct head *hd) {
    return (enum mem_tag)(hd->tag_size >> MEM_SIZE_BITS);
}

static size_t front_bytes(const struct mem_heap *h) {
    return sizeof(struct head) + (h ? sizeof(struct list) : 0);
}

/* The address that malloc gave for this block. */
static void *base_of(struct head *hd) {
    return hd->heap ? (void *)link_of(hd) : (void *)hd;
}

struct mem_heap *mem_heap_new(void) {
    struct mem_heap *h = malloc(sizeof *h);
    if (!h) {
        return NULL;
    }
    *h = (struct mem_heap){.busy = ATOMIC_FLAG_INIT};
    list_init(&h->blocks);
    return h;
}

void mem_heap_drop(struct mem_heap *h) {
    if (!h) {
        return;
    }
    must(here != h);
    for (struct list *it; (it = list_pop_front(&h->blocks));) {
        free(it);
    }
    free(h);
}

struct mem_heap *mem_use(struct mem_heap *h) {
    struct mem_heap *former = here;
    here = h;
    return former;
}

void mem_budget(size_t bytes) {
    if (here) {
        lock(here);
        here->budget = bytes;
        unlock(here);
    } else {
        atomic_store_explicit(&process_budget, bytes, memory_order_relaxed);
    }
}

static bool process_affords(size_t n) {
    size_t budget = atomic_load_explicit(&process_budget, memory_order_relaxed);
    if (budget == 0) {
        return true;
    }
    size_t live = mem_live_all();
    return n <= budget && live <= budget - n;
}

static bool heap_affords(struct mem_heap *h, size_t n) {
    if (!h) {
        return process_affords(n);
    }
    lock(h);
    bool yes = h->budget == 0 || (n <= h->budget && h->live <= h->budget - n);
    unlock(h);
    return yes;
}

/* Whether this call may go on to the machine: counts it, fails it when its turn to fail has come, asks the budget for `more` bytes. */
static bool admit(struct mem_heap *h, size_t n, size_t more) {
#ifdef PERIGEE_DEBUG
    must(forbidden == 0);
#endif
    calls++;
    if (fail_in > 0 && (h || !fail_tracked) && --fail_in == 0) {
        return false;
    }
    return n <= MEM_SIZE_MAX - 64 && heap_affords(h, more);
}

/* Enter a block into, or take it out of, its heap's books. */
static void book(struct head *hd) {
    struct mem_heap *h = hd->heap;
    if (!h) {
        atomic_fetch_add_explicit(&process_live[tag_of(hd)].live, size_of(hd), memory_order_relaxed);
        return;
    }
    lock(h);
    list_push_back(&h->blocks, link_of(hd));
    h->live += size_of(hd);
    unlock(h);
}

static void unbook(struct head *hd) {
    struct mem_heap *h = hd->heap;
    if (!h) {
        atomic_fetch_sub_explicit(&process_live[tag_of(hd)].live, size_of(hd), memory_order_relaxed);
        return;
    }
    lock(h);
    list_remove(link_of(hd));
    h->live -= size_of(hd);
    unlock(h);
}

static struct head *finish(void *base, struct mem_heap *h, enum mem_tag tag, size_t n) {
    struct head *hd = (struct head *)(void *)((char *)base + front_bytes(h)) - 1;
    *hd = (struct head){.heap = h, .tag_size = (uint64_t)tag << MEM_SIZE_BITS | n};
    book(hd);
    return hd;
}

void *mem_alloc(enum mem_tag tag, size_t n) {
    if (!admit(here, n, n)) {
        return NULL;
    }
    void *base = malloc(front_bytes(here) + n);
    return base ? finish(base, here, tag, n) + 1 : NULL;
}

void *mem_zalloc(enum mem_tag tag, size_t n) {
    if (!admit(here, n, n)) {
        return NULL;
    }
    void *base = calloc(1, front_bytes(here) + n);   /* fresh pages come zeroed: cheaper than memset for large blocks */
    return base ? finish(base, here, tag, n) + 1 : NULL;
}

void *mem_realloc(enum mem_tag tag, void *p, size_t n) {
    if (!p) {
        return mem_alloc(tag, n);
    }
    struct head *hd = head_of(p);
    struct mem_heap *h = hd->heap;
    size_t before = size_of(hd);
    if (!admit(h, n, n > before ? n - before : 0)) {
        return NULL;
    }
    unbook(hd);
    void *base = realloc(base_of(hd), front_bytes(h) + n);
    if (!base) {
        book(hd);
        return NULL;
    }
    return finish(base, h, tag, n) + 1;
}

void mem_free(void *p) {
    if (!p) {
        return;
    }
    struct head *hd = head_of(p);
    unbook(hd);
    free(base_of(hd));
}

char *mem_strdup(enum mem_tag tag, const char *s) {
    size_t n = strlen(s) + 1;
    char *copy = mem_alloc(tag, n);
    return copy ? memcpy(copy, s, n) : NULL;
}

size_t mem_live(enum mem_tag tag) {
    return atomic_load_explicit(&process_live[tag].live, memory_order_relaxed);
}

size_t mem_live_all(void) {
    size_t sum = 0;
    for (unsigned tag = 0; tag < MEM_TAG_COUNT; tag++) {
        sum += mem_live((enum mem_tag)tag);
    }
    return sum;
}

uint64_t mem_calls(void) {
    return calls;
}

const char *mem_tag_name(enum mem_tag tag) {
    return (unsigned)tag < MEM_TAG_COUNT ? tag_names[tag] : "unknown";
}

void mem_forbid(void) {
    forbidden++;
}

void mem_permit(void) {
    must(forbidden > 0);
    forbidden--;
}

void mem_fail_nth(uint64_t n) {
    fail_in = n;
    fail_tracked = false;
}

void mem_fail_nth_tracked(uint64_t n) {
    fail_in = n;
    fail_tracked = true;
}

uint64_t mem_fail_left(void) {
    return fail_in;
}
