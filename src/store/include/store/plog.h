/* One partition's log (DESIGN 4). Single writer: its owner shard. Asserted at every update: written >= stable, and
 * committed <= (write_caching ? written : stable).
 *
 * Life of a batch: reserve (may refuse, nothing happened) -> append (cannot fail: queued, `next` moves) -> store_pass writes it (`written` moves)
 * -> a sync covers it (`stable` moves). Struct is small: directories, descriptors, index and tail appear at first use. */
#pragma once

#include "base/chain.h"
#include "store/store.h"

struct log_conf {                  /* settings of a topic that the log obeys; immutable, outlives the plog or is replaced by plog_conf */
    int64_t segment_bytes;         /* segment.bytes */
    ms segment_age;                /* segment.ms */
    ms segment_jitter;             /* segment.jitter.ms */
    int32_t index_interval_bytes;  /* index.interval.bytes */
    int32_t index_bytes_max;       /* segment.index.bytes */
    bool write_caching;            /* write.caching: bound is written, not stable */
    bool internal;                 /* the broker's own topic: may use the last store_conf.space_reserve_bytes */
};

struct plog_id {
    const char *topic;             /* borrowed for the life of the plog */
    uuid topic_id;
    int32_t partition;
};

struct plog_ends {
    off64 start;                   /* log start offset */
    off64 next;                    /* log end: the next record's offset, queued ones included */
    off64 written;                 /* below: in the page cache */
    off64 stable;                  /* below: survives power loss */
    off64 bound;                   /* write_caching ? written : stable; the high watermark may not pass it */
    int64_t bytes;                 /* size of all segments, queued bytes included */
};

/* boot or turn; no I/O. A log the marks know nothing of is new and empty. The plog belongs to st. u is the broker's own pointer. */
err plog_open(struct store *st, const struct plog_id *id, const struct log_conf *conf, void *u, struct plog **ret_lg);
void *plog_user(const struct plog *lg);
const struct plog_id *plog_ident(const struct plog *lg);
void plog_conf(struct plog *lg, const struct log_conf *conf);
void plog_ends(const struct plog *lg, struct plog_ends *ret);
bool plog_is_fenced(const struct plog *lg);
/* Recovery gave this log up (DAMAGED, IO): nobody knows what it holds, so nothing may be answered from it; fenced, too. A log that a failed write or
 * sync fenced is not lost: what is below its bound is read on. */
bool plog_is_lost(const struct plog *lg);

/* boot, before plog_recover, and for many logs before the first of these: recovery waits for the disk log by log, this begins the reading of what it will
 * want, so that the disk works on many at once. A hint; nothing when the log was left cleanly. */
void plog_ahead(struct plog *lg);

struct plog_recovery {
    bool above_mark;               /* bytes lay above the durable mark: raise the leader epoch before serving (DESIGN 4) */
    bool unclean;                  /* the last run did not end cleanly for this log: with write.caching, readers may have seen what is gone */
    int64_t cut_bytes;             /* torn tail removed */
    int64_t scanned_bytes;
};
/* boot, synchronous. After a clean stop: loads the producer snapshot only. Else scans from the last heavy checkpoint: damage below the mark gives
 * DAMAGED (log line names file and position; the log stays fenced, its files untouched), a torn tail is cut. Rebuilds side files. IO: the disk refused
 * something (said, fenced likewise). NOMEM, LIMIT (descriptors): the start cannot go on. */
err plog_recover(struct plog *lg, struct plog_recovery *ret);

/* May a batch of n bytes be appended now? FENCED, NOSPACE, SEGMENT_TOO_SMALL, NOMEM; AGAIN while a failed write is being cut back. */
err plog_reserve(struct plog *lg, size_t n);
/* Queue one batch already stamped with lg's `next` and the leader epoch; bytes lie in chunk (a reference is taken, or the bytes are copied into
 * the tail block when small: below 16 KiB or a quarter of the chunk). Must follow a plog_reserve of the same size in the same turn. */
void plog_append(struct plog *lg, struct chunk *chunk, span bytes, const struct batch_head *h, ms now);
/* Somebody waits for stable >= next as it is now (D6 a, b). Cheap, idempotent. */
void plog_sync_wanted(struct plog *lg);
/* Remember that the leader epoch is `epoch` from the next append on (leader-epoch-checkpoint). */
void plog_epoch(struct plog *lg, int32_t epoch);
/* boot, after plog_recover: readers only (plog_reserve says NOSPACE) until the next plog_epoch, because the epoch that is to rise is not durable. Its mark says
 * unsettled meanwhile: the next start must not take a clean stop for the whole truth. */
void plog_hold(struct plog *lg);
/* S4.20: largest known epoch <= asked and where the next one starts (log end for the current). -1/-1 when unknown. */
void plog_epoch_end(const struct plog *lg, int32_t asked, int32_t *ret_epoch, off64 *ret_end);
/* Epoch of the batch at or before offset, for ListOffsets answers; -1 when unknown. */
int32_t plog_epoch_at(const struct plog *lg, off64 at);

/* ---- reading ---- */
struct plog_want {
    off64 from;                    /* first offset wanted; the batch that holds it comes whole (S7.1) */
    off64 below;                   /* only batches that end below this (high watermark, last stable offset) */
    size_t bytes_max;              /* whole batches up to this many bytes … */
    bool min_one;                  /* … but the first one even when larger (S7.2) */
};
struct plog_piece {
    struct chunk *chunk;           /* one reference held */
    span bytes;
};
#define PLOG_PIECES_INLINE 8
struct plog_got {
    struct plog_piece inline_[PLOG_PIECES_INLINE], *v;
    uint32_t n, cap;
    size_t bytes;
    off64 next;                    /* where to read on */
};
void plog_got_init(struct plog_got *g);
void plog_got_done(struct plog_got *g);        /* drops the references. Any thread */

/* Bytes of whole batches in [from, below) if they lie in memory: OK (perhaps 0 bytes). COLD: use plog_cold. OFFSET_RANGE outside [start, next].
 * FENCED: the log is lost (so do the other reads).
 * How many bytes are there to read at most, without reading: plog_available. */
err plog_read(struct plog *lg, const struct plog_want *w, struct plog_got *ret);
size_t plog_available(const struct plog *lg, off64 from, off64 below, size_t max);   /* exact in the tail, from the index else; capped at max */

/* A read through the disk's read lane; header, offsets and CRC of what comes back are checked (IO or DAMAGED when they lie, FENCED is not set by
 * a bad read). The caller embeds it and keeps it until done; lg may be deleted meanwhile (then NO_TOPIC). */
struct plog_cold {
    struct list link;
    struct plog *lg;
    struct plog_want want;
    struct plog_got got;
    err err;
    void (*done)(struct plog_cold *c);
    void *u;
    struct disk_req rq;            /* private from here */
    struct plog_cold_work *work;
};
void plog_cold_read(struct plog *lg, struct plog_cold *c);

/* S8.3, S8.6: first record, by offset, whose timestamp is >= ts (ts >= 0), or the first one carrying the largest timestamp (ts == PLOG_MAX_TS);
 * looks inside batches, unpacking at most zip_bytes_max of each, in little memory. found=false: nothing below `below`. */
#define PLOG_MAX_TS (-3)
struct plog_find {
    struct plog *lg;
    ms ts;
    off64 below;
    bool found;
    off64 offset;
    ms found_ts;
    err err;
    void (*done)(struct plog_find *f);         /* may run before plog_find_time returns */
    void *u;
    struct plog_find_work *work;               /* private */
};
void plog_find_time(struct plog *lg, struct plog_find *f);
/* S8.7 (ListOffsets v0): `end`, when ts is -1 or not before `wall`, then the base offsets of segments, newest first, that were not written after ts (-1: any);
 * -2: the log start alone. Returns how many. All segments are known after plog_look only. */
struct plog_old {
    ms ts, wall;                   /* wall: now */
    off64 end;                     /* high watermark */
};
size_t plog_old_offsets(const struct plog *lg, const struct plog_old *o, off64 *ret, size_t cap);
/* Learn of all segments of the log, and when each was written last. done may run before this returns; lg may be deleted meanwhile (NO_TOPIC). IO, NOMEM. */
void plog_look(struct plog *lg, void (*done)(void *u, err e), void *u);

/* ---- the beginning goes ---- */

/* Move the log start offset to `to` (DeleteRecords): done once that survives a power loss; segments wholly below go afterwards. `to` is at most the stable end;
 * below the start it is done at once. done may run before plog_move_start returns. NO_TOPIC: lg was deleted meanwhile; FENCED; IO, DAMAGED: its directory cannot
 * be read; NOMEM. The caller embeds it and keeps it until done, or until plog_move_cancel (then the start may still move). */
struct plog_move {
    struct list link;
    off64 to;
    err err;
    void (*done)(struct plog_move *mv);
    void *u;
};
void plog_move_start(struct plog *lg, struct plog_move *mv);
void plog_move_cancel(struct plog_move *mv);

/* One look at a log by the rules of retention (S18.3 to S18.6); what is to go goes by itself afterwards. -1: no limit. */
struct plog_retain {
    struct plog *lg;
    ms wall;                       /* now */
    ms age;                        /* retention.ms */
    int64_t bytes;                 /* retention.bytes */
    off64 below;                   /* high watermark: nothing at or above goes */
    off64 to;                      /* answer: where the log start goes, or stays */
    void (*done)(struct plog_retain *q);       /* may run before plog_retain returns; lg may be deleted meanwhile */
    void *u;
};
void plog_retain(struct plog *lg, struct plog_retain *q);

/* ---- end of life ---- */
/* The topic is gone: fail what is queued (CANCELLED to hooks->failed), rename the directory, unlink it off the turn. lg is freed when its last
 * request came home; the caller must not use it afterwards. */
void plog_delete(struct plog *lg);
