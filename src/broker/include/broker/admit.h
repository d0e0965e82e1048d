/* Admission: a frame's size is charged whole before its body is read; what the budget cannot hold is not read (D12). One budget per shard. Frames up to
 * LIMIT_FRAME_SMALL_BYTES may use a reserve, so that admin and small requests go on under load. A single frame above the whole budget is let in alone.
 * Runs on: the shard. */
#pragma once

#include "base/list.h"

struct admit {
    size_t used, max, reserve;
    struct list waiting;               /* admit_wait, first come first served */
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
void admit_give(struct admit *a, size_t bytes);
/* Charge as much of `want` as there is room for without waiting (reply bytes); at least `least`, even above the budget. Returns the charge. */
size_t admit_upto(struct admit *a, size_t want, size_t least);
