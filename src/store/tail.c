/* Fresh batches in memory: the write queue and the readers' tail in one list of pieces per log.
 *
 * Happy path: a small batch (below 16 KiB or a quarter of its chunk) is copied behind the last one into the log's
 * open block; blocks start with a few hundred bytes and double up to 64 KiB, so that ten thousand quiet logs cost
 * little. A larger batch is lent: its piece holds the producer's chunk. write.c moves `written` on; written pieces
 * stay for readers until the shard's budget takes the oldest. A block is a chunk: a reader holds it past eviction,
 * and bytes are only ever added behind what any reader was shown.
 * Failure modes: without memory for a block the batch is lent whatever its size; room for the piece itself was
 * reserved.
 * Runs on: owner shard (readers drop chunk references on any thread). */
#include "tail.h"

#include <string.h>

#include "base/be.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/must.h"
#include "store_in.h"

#define SMALL_BYTES (16 << 10)
#define BLOCK_FIRST_BYTES 256
#define PIECE_COST (sizeof(struct tail_piece) + 32)
#define EVICT_SKIPS_MAX 64         /* pieces not yet written that one round steps over */

err tail_reserve(struct store *st) {
    while (st->tail_spare_n <= st->reserved) {
        struct tail_piece *pc = mem_alloc(MEM_TAIL, sizeof *pc);
        if (!pc) {
            return ERR_NOMEM;
        }
        pc->next = st->tail_spare;
        st->tail_spare = pc;
        st->tail_spare_n++;
    }
    return ERR_OK;
}

void tail_pool_free(struct store *st) {
    for (struct tail_piece *pc = st->tail_spare, *next; pc; pc = next) {
        next = pc->next;
        mem_free(pc);
    }
    st->tail_spare = NULL;
    st->tail_spare_n = 0;
}

static void piece_free(struct store *st, struct tail_piece *pc) {
    struct tail *tl = &pc->lg->tail;
    if (tl->block == pc->chunk) {
        tl->block = NULL;
    }
    st->tail_bytes -= (int64_t)(pc->n + PIECE_COST);
    list_remove(&pc->age);
    chunk_unref(pc->chunk);
    if (st->tail_spare_n > 256) {
        mem_free(pc);
        return;
    }
    pc->next = st->tail_spare;
    st->tail_spare = pc;
    st->tail_spare_n++;
}

/* A new last piece of n bytes at p inside chunk, whose reference it takes. */
static struct tail_piece *piece_add(struct plog *lg, struct seg *sg, struct chunk *chunk, const uint8_t *p,
                                    off64 base) {
    struct store *st = lg->st;
    struct tail_piece *pc = st->tail_spare;
    must(pc != NULL);              /* plog_reserve came before */
    st->tail_spare = pc->next;
    st->tail_spare_n--;
    *pc = (struct tail_piece){.prev = lg->tail.last, .lg = lg, .seg = sg, .chunk = chunk, .p = p, .base = base, .end = base};
    list_push_back(&st->tail_age, &pc->age);
    st->tail_bytes += (int64_t)PIECE_COST;
    if (lg->tail.last) {
        lg->tail.last->next = pc;
    } else {
        lg->tail.first = pc;
    }
    lg->tail.last = pc;
    return pc;
}

static void piece_extend(struct plog *lg, struct tail_piece *pc, const struct batch_head *h) {
    pc->n += (uint32_t)h->bytes;
    pc->end = batch_last_offset(h) + 1;
    lg->st->tail_bytes += (int64_t)h->bytes;
    if (!lg->tail.queue) {
        lg->tail.queue = pc;
    }
}

/* An open block with room for n bytes, or NULL without memory. */
static struct chunk *block_for(struct plog *lg, size_t n) {
    struct tail *tl = &lg->tail;
    if (tl->block && tl->block->cap - tl->block_used >= n) {
        return tl->block;
    }
    size_t want = tl->first ? tl->block_next : BLOCK_FIRST_BYTES;
    want = want < n ? n : want;
    tl->block = chunk_new(lg->st->chunks, want);
    if (tl->block) {
        tl->block_used = 0;
        tl->block_next = (uint32_t)(want * 2 > LIMIT_TAIL_BLOCK_BYTES ? LIMIT_TAIL_BLOCK_BYTES : want * 2);
    }
    return tl->block;
}

static bool continues(const struct tail *tl, const struct seg *sg) {
    return tl->last && tl->last->chunk == tl->block && tl->last->seg == sg &&
           tl->last->p + tl->last->n == tl->block->data + tl->block_used;
}

static bool add_copied(struct plog *lg, struct seg *sg, span bytes, const struct batch_head *h) {
    struct tail *tl = &lg->tail;
    struct chunk *old = tl->block, *ck = block_for(lg, bytes.n);
    if (!ck) {
        return false;
    }
    struct tail_piece *pc = tl->last;
    if (ck != old) {
        pc = piece_add(lg, sg, ck, ck->data, h->base_offset);
    } else if (!continues(tl, sg)) {
        pc = piece_add(lg, sg, chunk_ref(ck), ck->data + tl->block_used, h->base_offset);
    }
    memcpy(ck->data + tl->block_used, bytes.p, bytes.n);
    tl->block_used += (uint32_t)bytes.n;
    piece_extend(lg, pc, h);
    return true;
}

void tail_add(struct plog *lg, struct seg *sg, struct chunk *chunk, span bytes, const struct batch_head *h) {
    bool small = bytes.n < SMALL_BYTES || bytes.n < chunk->cap / 4;
    if (small && add_copied(lg, sg, bytes, h)) {
        return;
    }
    struct tail_piece *pc = piece_add(lg, sg, chunk_ref(chunk), bytes.p, h->base_offset);
    piece_extend(lg, pc, h);
}

static void pop_first(struct store *st, struct tail *tl) {
    struct tail_piece *pc = tl->first;
    tl->first = pc->next;
    if (tl->first) {
        tl->first->prev = NULL;
    } else {
        tl->last = NULL;
    }
    if (tl->queue == pc) {
        tl->queue = pc->next;
    }
    piece_free(st, pc);
}

void tail_drop_seg(struct plog *lg, const struct seg *sg) {
    while (lg->tail.first && lg->tail.first->seg == sg) {
        must(lg->tail.first->written == lg->tail.first->n);
        pop_first(lg->st, &lg->tail);
    }
}

void tail_clear(struct plog *lg) {
    while (lg->tail.first) {
        pop_first(lg->st, &lg->tail);
    }
    lg->tail = (struct tail){0};
}

/* Keep the batches of pc below `from`. */
static void piece_shorten(struct store *st, struct tail_piece *pc, off64 from) {
    size_t keep = tail_seek(span_of(pc->p, pc->n), from);
    st->tail_bytes -= (int64_t)(pc->n - keep);
    pc->n = (uint32_t)keep;
    pc->end = from;
    must(pc->written <= pc->n);
}

void tail_cut(struct plog *lg, off64 from) {
    struct tail *tl = &lg->tail;
    struct tail_piece *keep = NULL, *pc = tl->first;
    for (; pc && pc->base < from; pc = pc->next) {
        keep = pc;
    }
    while (pc) {
        struct tail_piece *next = pc->next;
        piece_free(lg->st, pc);
        pc = next;
    }
    tl->last = keep;
    if (keep) {
        keep->next = NULL;
        if (keep->end > from) {
            keep->written = 0;     /* recounted below: what is left counts as written or is gone */
            piece_shorten(lg->st, keep, from);
        }
        keep->written = keep->n;
    } else {
        tl->first = NULL;
    }
    tl->queue = NULL;
    tl->block = NULL;              /* its end may have been shown to a writer: start a new one */
}

void tail_evict(struct store *st) {
    uint32_t skips = 0;
    for (struct list *it = st->tail_age.next; it != &st->tail_age && st->tail_bytes > st->conf.tail_bytes_max;) {
        struct tail_piece *pc = list_entry(it, struct tail_piece, age);
        it = it->next;
        if (pc->lg->tail.first == pc && pc->written == pc->n && pc->lg->tail.queue != pc) {
            pop_first(st, &pc->lg->tail);
        } else if (++skips > EVICT_SKIPS_MAX) {
            return;
        }
    }
}

const struct tail_piece *tail_piece_at(const struct plog *lg, off64 at) {
    const struct tail_piece *pc = lg->tail.last;
    if (!pc || pc->end <= at) {
        return NULL;
    }
    while (pc->base > at) {
        pc = pc->prev;
        must(pc != NULL);          /* at >= tail_start */
    }
    return pc;
}

off64 tail_start(const struct plog *lg) {
    return lg->tail.first ? lg->tail.first->base : lg->next;
}

size_t tail_seek(span bytes, off64 at) {
    size_t pos = 0;
    while (pos + BATCH_HEAD_BYTES <= bytes.n) {
        const uint8_t *p = bytes.p + pos;
        off64 last = (off64)be64_get(p) + (int32_t)be32_get(p + 23);
        if (last >= at) {
            return pos;
        }
        pos += (size_t)be32_get(p + 8) + BATCH_OVERHEAD_BYTES;
    }
    return bytes.n;
}
