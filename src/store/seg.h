/* One segment of a log: a file of batches back to back, its index, and when to start the next one. */
#pragma once

#include "base/list.h"
#include "port/disk.h"
#include "segidx.h"
#include "store/plog.h"

struct seg {
    struct list link;              /* lg->segs, by base offset */
    struct list lru;               /* st->files.lru while `file` is open */
    struct list loaded;            /* st->cold.loaded while a part of an index file is in memory */
    struct plog *lg;
    off64 base;
    int64_t size;                  /* bytes, queued ones included */
    int64_t before;                /* bytes of all segments before it */
    uint32_t ordinal;              /* segments before it */
    uint32_t pins;                 /* requests that use `file`: it stays open */
    uint32_t holds;                /* readers that name it: it stays in memory */
    ms first_ts;                   /* timestamp that its age counts from; -1: none yet */
    ms max_ts;                     /* largest timestamp, queued batches included; -1: none */
    off64 max_ts_offset;           /* last offset of the batch that brought it */
    ms mtime;                      /* wall clock when its file was written last; 0: not known yet */
    ms born;                       /* monotonic: made or opened; age of batches without timestamps */
    ms jitter;
    ms time_last;                  /* last timestamp in the time index; -1: none */
    int64_t since_index;           /* bytes since the last index entry */
    off64 cold_off; /* where the last cold read of it ended (-1: none): sequential readers need no index */
    int64_t cold_pos;
    bool made;                     /* the file exists */
    bool indexed;                  /* its index files exist */
    bool index_bad;                /* they are missing or nonsense: to be built from the segment */
    bool dirty;                    /* written since the last sync was submitted */
    bool syncing;                  /* covered by the sync in flight */
    bool gone;                     /* below the log start and out of lg->segs: the last pin or hold frees it */
    bool ts_unknown;               /* a closed segment found by listing: its timestamps are not known yet */
    struct disk_file *file;        /* NULL: closed */
    struct segidx index, times;
};

struct seg *seg_new(off64 base);                       /* NULL without memory */
void seg_free(struct seg *sg);                         /* the file must be closed */
/* S18.2: must a new segment begin before this batch? now is monotonic. */
bool seg_is_full(const struct seg *sg, const struct batch_head *h, const struct log_conf *conf, ms now);
/* A batch was queued at sg->size: index entries, timestamps, size. */
void seg_note(struct seg *sg, const struct batch_head *h, int32_t index_interval_bytes);
/* The time index tells the largest timestamp so far: at a roll (as Kafka's onBecomeInactiveSegment) and at a heavy
 * checkpoint. */
void seg_seal(struct seg *sg);
