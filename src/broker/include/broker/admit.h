/* Admission: a frame's size is charged whole before its body is read; what the budget cannot hold is not read (D12). One budget per shard. Frames up to
 * LIMIT_FRAME_SMALL_BYTES have a pool of their own (the reserve), so that admin and small requests go on while large ones hold everything. A single frame above the whole
 * budget is let in alone.
 * Runs on: the shard. */
#pragma once

#include "base/list.h"

struct admit {
    struct admit_pool {
        size_t used, max;
        struct list waiting;           /* admit_wait, first come first served */
    } big, small;
};

struct admit_wait {
    struct list link;
    size_t bytes;
    void (*ready)(struct admit_wait *w);           /* charged; from admit_give, on the shard */
};

void admit_init(struct admit *a, size_t max, size_t reserve);
/* True: charged. False: w waits and `ready` comes later (or admit_cancel). */
bool admit_take(struct admit *a, struct admit_wait *w, size_t bytes, void (*ready)(struct admit_wait *w));
void admit_cancel(struct admit_wait *w);           /* no-op when not waiting */
void admit_give(struct admit *a, size_t bytes, bool small);         /* small: as admit_is_small said when it was taken */
bool admit_is_small(size_t bytes);
/* Somebody waits for large frames' memory: who holds some should hurry. */
bool admit_is_tight(const struct admit *a);
/* Charge as much of `want` as there is room for in the big pool without waiting (reply bytes); at least `least`, even above the budget. Returns the charge. */
size_t admit_upto(struct admit *a, size_t want, size_t least);
