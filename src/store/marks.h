/* The durable marks of one shard: blocks appended to perigee.meta/marks.<shard> (FORMAT.md). */
#pragma once

#include "store/datadir.h"
#include "sync.h"

struct store;
struct plog;

struct marks {
    struct list starting;          /* struct trim: logs whose start the block on its way moves */
    struct list moved;             /* logs whose stable end or heavy checkpoint is ahead of their mark */
    struct disk_file *file, *fresh;    /* fresh: the compacted file that takes over */
    char path[64], temp[72];
    int64_t end, proven;           /* bytes of the file; of these synced */
    uint64_t sequence;             /* of the next frame */
    uint64_t sequence_back; /* of the first frame of the block on its way: where to go back to when it is refused */
    const char *dir;
    int64_t moved_bytes;           /* stable bytes since the last block */
    ms moved_since;                /* when the first log of `moved` moved */
    bool busy;                     /* a block is on its way */
    bool at_once;                  /* somebody waits for the next block */
    bool finishing;                /* the stop asked for the CLEAN block */
    bool torn;                     /* the last block did not fit on the disk: cut before the next */
    struct disk_req rq;
    struct sync_other sync;
    struct iovec iov;
    uint8_t *buf;
    size_t buf_n, buf_cap;
    uint8_t *foreign;              /* entries of logs that another shard owns now and may not have written yet */
    size_t foreign_n;
    struct datadir_mark *gone;     /* deleted logs, to be said in the next block */
    size_t gone_n, gone_cap;
    void (*done)(struct store *st, err e);
};

err marks_begin(struct store *st);             /* boot: a new file with an OPEN block and every mark of this shard */
void marks_init(struct store *st);
void marks_free(struct store *st);
/* lg's stable end moved by so many bytes, or its heavy checkpoint did (0). */
void marks_note(struct plog *lg, int64_t bytes);
void marks_gone(struct plog *lg);              /* deleted */
void marks_pass(struct store *st, ms now);
ms marks_due(const struct store *st);
void marks_finish(struct store *st,
                  void (*done)(struct store *st, err e)); /* the CLEAN block; nothing is moved afterwards */
void marks_of(const struct plog *lg, struct datadir_mark *ret);
