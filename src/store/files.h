/* Open segment descriptors of a shard, at most files_max beyond those that unsynced logs need. */
#pragma once

#include "base/list.h"
#include "base/types.h"
#include "port/disk.h"

struct seg;
struct store;

struct files {
    struct list lru;               /* segs with an open file, least recently used first */
    uint32_t open;
};

void files_init(struct store *st);
/* sg->file was just opened. */
void files_opened(struct store *st, struct seg *sg);
void files_touch(struct store *st, struct seg *sg);
void files_pin(struct seg *sg);
/* lane: the caller's own; closes wait on it (as in files_trim and files_close). */
void files_unpin(struct store *st, struct seg *sg, enum disk_lane lane);
/* Close what may be closed until at most `max` are open. */
void files_trim(struct store *st, uint32_t max, enum disk_lane lane);
/* sg is gone (seg.h): close its descriptor and free it, now or when nobody uses it any more. */
void files_bury(struct store *st, struct seg *sg);
/* Close sg's descriptor now; it must be open and unpinned. */
void files_close(struct store *st, struct seg *sg, enum disk_lane lane);
