/* Fresh batches of one log in memory: first the queue of what is not written yet, then a cache for readers, evicted
 * by the shard's budget. */
#pragma once

#include "base/chunk.h"
#include "base/list.h"
#include "wire/batch.h"

struct plog;
struct seg;
struct store;

struct tail_piece {                /* a run of whole batches, contiguous in memory and in one segment */
    struct list age;               /* st->tail_age, oldest first */
    struct tail_piece *next, *prev;    /* of the same log, by offset */
    struct plog *lg;
    struct seg *seg;
    struct chunk *chunk;           /* one reference held */
    const uint8_t *p;
    uint32_t n;                    /* bytes; grows while this is the log's last piece in an open block */
    uint32_t written;              /* of these in the file */
    off64 base, end;               /* first offset; offset after the last */
};

struct tail {
    struct tail_piece *first, *last;
    struct tail_piece *queue;      /* first piece with bytes not written yet */
    struct chunk *block;           /* small batches are copied here; referenced by its pieces only */
    uint32_t block_used, block_next;   /* bytes filled; size of the next block */
};

/* Room for one more piece in the shard's pool. NOMEM. */
err tail_reserve(struct store *st);
void tail_add(struct plog *lg, struct seg *sg, struct chunk *chunk, span bytes, const struct batch_head *h);
/* Drop everything at and after offset `from`, which is a batch boundary. */
void tail_cut(struct plog *lg, off64 from);
/* Drop what lies in the log's first segment; all of it is written. */
void tail_drop_seg(struct plog *lg, const struct seg *sg);
void tail_clear(struct plog *lg);
/* Keep the shard within its budget: the oldest written pieces go. */
void tail_evict(struct store *st);
/* The piece that holds offset `at` (>= tail_start), or NULL; readers are mostly near the end, so it is looked for
 * from there. */
const struct tail_piece *tail_piece_at(const struct plog *lg, off64 at);
/* First offset in memory; lg->next when there is none. */
off64 tail_start(const struct plog *lg);
void tail_pool_free(struct store *st);
/* Walk whole batches in [p, p + n): the one that holds offset `at`. Returns its byte position (n when at lies
 * beyond). */
size_t tail_seek(span bytes, off64 at);
