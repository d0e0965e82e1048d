/* Reading what lies in memory: the tail of a log, lent to readers by reference.
 *
 * Happy path: plog_read finds the piece and the batch that hold the wanted offset and hands out spans of whole
 * batches with a reference on their chunks; nothing is copied. What is older than the tail is COLD and goes through
 * plog_cold.c.
 * Failure modes: OFFSET_RANGE outside [start, next]; NOMEM when a list of pieces cannot grow (then fewer are given,
 * if any).
 * Runs on: owner shard; plog_got_done on any. */
#include <string.h>

#include "base/be.h"
#include "base/mem.h"
#include "base/must.h"
#include "store_in.h"

void plog_got_init(struct plog_got *g) {
    g->v = g->inline_;
    g->n = 0;
    g->cap = PLOG_PIECES_INLINE;
    g->bytes = 0;
    g->next = -1;
}

void plog_got_done(struct plog_got *g) {
    for (uint32_t i = 0; i < g->n; i++) {
        chunk_unref(g->v[i].chunk);
    }
    if (g->v != g->inline_) {
        mem_free(g->v);
    }
    plog_got_init(g);
}

static bool got_grow(struct plog_got *g) {
    uint32_t cap = g->cap * 2;
    struct plog_piece *v = mem_realloc(MEM_LOG, g->v == g->inline_ ? NULL : g->v, cap * sizeof *v);
    if (!v) {
        return false;
    }
    if (g->v == g->inline_) {
        memcpy(v, g->inline_, g->n * sizeof *v);
    }
    g->v = v;
    g->cap = cap;
    return true;
}

/* Adds bytes of chunk (a reference is taken). */
static bool got_add(struct plog_got *g, struct chunk *chunk, span bytes) {
    if (g->n == g->cap && !got_grow(g)) {
        return false;
    }
    g->v[g->n++] = (struct plog_piece){.chunk = chunk_ref(chunk), .bytes = bytes};
    g->bytes += bytes.n;
    return true;
}

static size_t batch_bytes(const uint8_t *p) {
    return (size_t)be32_get(p + 8) + BATCH_OVERHEAD_BYTES;
}

static off64 batch_end(const uint8_t *p) {
    return (off64)be64_get(p) + (int32_t)be32_get(p + 23) + 1;
}

struct take {
    off64 below;
    size_t room;                   /* bytes that may still be taken */
    bool min_one;
    bool full;                     /* stop: a batch did not fit or ends above `below` */
    off64 next;
};

/* How many bytes of whole batches at the front of b may be taken. */
static size_t take_from(struct take *t, span b) {
    size_t n = 0;
    while (n < b.n) {
        const uint8_t *p = b.p + n;
        size_t bytes = batch_bytes(p);
        if (batch_end(p) > t->below || (bytes > t->room && !t->min_one)) {
            t->full = true;
            break;
        }
        t->room = bytes > t->room ? 0 : t->room - bytes;
        t->min_one = false;
        t->next = batch_end(p);
        n += bytes;
    }
    return n;
}

/* A whole piece at once, when all of it may be taken: no walk. */
static size_t take_piece(struct take *t, const struct tail_piece *pc, span rest) {
    if (pc->end <= t->below && rest.n <= t->room) {
        t->room -= rest.n;
        t->min_one = false;
        t->next = pc->end;
        return rest.n;
    }
    return take_from(t, rest);
}

static const struct tail_piece *first_piece(const struct plog *lg, off64 from, span *ret_rest) {
    const struct tail_piece *pc = tail_piece_at(lg, from);
    if (pc) {
        size_t skip = tail_seek(span_of(pc->p, pc->n), from);
        must(skip < pc->n);
        *ret_rest = span_of(pc->p + skip, pc->n - skip);
    }
    return pc;
}

err plog_read(struct plog *lg, const struct plog_want *w, struct plog_got *ret) {
    if (plog_is_lost(lg)) {
        return ERR_FENCED;
    }
    if (w->from < lg->start || w->from > lg->next) {
        return ERR_OFFSET_RANGE;
    }
    ret->next = w->from;
    if (w->from >= w->below || w->from == lg->next) {
        return ERR_OK;
    }
    if (w->from < tail_start(lg)) {
        return ERR_COLD;
    }
    struct take t = {.below = w->below, .room = w->bytes_max, .min_one = w->min_one, .next = w->from};
    span rest;
    for (const struct tail_piece *pc = first_piece(lg, w->from, &rest); pc && !t.full; pc = pc->next) {
        off64 before = t.next;
        size_t n = take_piece(&t, pc, rest);
        if (n > 0 && !got_add(ret, pc->chunk, span_of(rest.p, n))) {
            ret->next = before;
            return ret->n > 0 ? ERR_OK : ERR_NOMEM;
        }
        if (pc->next) {
            rest = span_of(pc->next->p, pc->next->n);
        }
    }
    ret->next = t.next;
    return ERR_OK;
}

static size_t available_hot(const struct plog *lg, off64 from, off64 below, size_t max) {
    struct take t = {.below = below, .room = SIZE_MAX / 2, .next = from};
    size_t sum = 0;
    span rest;
    for (const struct tail_piece *pc = first_piece(lg, from, &rest); pc && !t.full && sum < max; pc = pc->next) {
        sum += take_piece(&t, pc, rest);
        if (pc->next) {
            rest = span_of(pc->next->p, pc->next->n);
        }
    }
    return sum;
}

/* Where in the whole log an offset lies, in bytes, as the indexes in memory tell; never past the truth by more than
 * an index interval. */
static int64_t position_about(const struct plog *lg, off64 at) {
    const struct seg *sg = plog_seg_for(lg, at);
    if (!sg) {
        return 0;                  /* in a segment not listed yet */
    }
    const struct seg *after = plog_next_seg(lg, sg);
    off64 end = after ? after->base : lg->next;
    struct segidx_at found;
    bool cold;
    if (at >= end) {
        return sg->before + sg->size;
    }
    if (segidx_find(&sg->index, (uint32_t)(at - sg->base), &found, &cold)) {
        return sg->before + found.position;
    }
    if (cold && end > sg->base) {
        return sg->before + (int64_t)((double)sg->size * ((double)(at - sg->base) / (double)(end - sg->base)));
    }
    return sg->before;
}

size_t plog_available(const struct plog *lg, off64 from, off64 below, size_t max) {
    if (from < lg->start || from >= below || from >= lg->next) {
        return 0;
    }
    off64 hot = tail_start(lg);
    size_t sum = 0;
    if (from < hot) {
        int64_t n = position_about(lg, below < hot ? below : hot) - position_about(lg, from);
        sum = n > 0 ? (size_t)n : 1;
    }
    if (below > hot && sum < max) {
        sum += available_hot(lg, from > hot ? from : hot, below, max - sum);
    }
    return sum < max ? sum : max;
}
