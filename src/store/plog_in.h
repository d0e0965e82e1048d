/* The inside of a log, for the files of this room. */
#pragma once

#include "epochs.h"
#include "names.h"
#include "seg.h"
#include "tail.h"
#include "store/plog.h"

struct heavy;
struct trim;

struct plog_at {                   /* a place in the log, at a batch boundary */
    off64 off;                     /* offset of the next record */
    struct seg *seg;               /* NULL: no segment yet */
    int64_t pos;                   /* bytes of seg below it */
    ms max_ts;                     /* largest timestamp of seg below it (-1: none), and its batch's last offset */
    off64 max_ts_offset;
};

struct plog_heavy_at {             /* the last heavy checkpoint */
    off64 off;                     /* -1: none */
    off64 segment;
    int64_t pos;
    uint32_t index_n, times_n;
    ms times_last;                 /* last timestamp in its time index */
    ms max_ts;                     /* largest timestamp of the segment then, and its batch's last offset */
    off64 max_ts_offset;
};

#define PLOG_DAMAGE_MAX 16         /* places told of one by one */

struct plog_damage {               /* bad places that readers met, each said once */
    uint32_t n;
    struct {
        off64 base;                /* of the segment */
        int64_t at;                /* byte in it; -1: the file as a whole */
    } v[PLOG_DAMAGE_MAX];
};

struct plog {
    struct store *st;
    struct plog_id id;
    const struct log_conf *conf;
    void *u;                       /* the broker's */
    struct list all;               /* st->logs */
    struct list dirty;             /* st->dirty: has queued bytes and no write in flight */
    struct list unsynced;          /* st->sync: idle, wanted or covered: written > stable */
    struct list moved;             /* st->marks.moved: the durable mark lags */
    struct list heavies;           /* st->heavy.due, or .aging */
    off64 start, next;
    int64_t base_bytes;            /* of the segments before the one that holds `start` */
    off64 want_to;                 /* a sync up to here is waited for */
    struct plog_at written, syncing, stable;
    struct list segs;
    struct tail tail;
    struct epochs epochs;
    int64_t queued_bytes, unsynced_bytes, syncing_bytes, since_heavy;
    ms unsynced_since;
    struct trim *trim;             /* its beginning is on its way out; NULL mostly */
    struct heavy *heavy_job;       /* a heavy checkpoint on its way */
    struct plog_heavy_at heavy;
    const struct datadir_mark *mark;             /* as the last run left it; NULL: none */
    struct plog_damage *damage;    /* NULL: none so far */
    uint32_t inflight;             /* requests that hold lg */
    uint32_t base_segs;            /* segments before the one that holds `start` */
    uint8_t sync_in;               /* enum sync_in: which list of st->sync `unsynced` is on */
    bool fenced : 1, dead : 1;
    bool topic_owned : 1;          /* dead: id.topic is our copy, for the broker's may be gone */
    bool heavy_producers : 1;      /* a producer snapshot was written at heavy.off */
    bool unrecovered : 1; /* the last run did not end cleanly for it, and plog_recover did not put it right (yet) */
    bool writing : 1, cutting : 1; /* a write job is under way; it cuts back a refused write */
    bool dir_made : 1, fresh : 1;  /* fresh: never synced, its directory may not be durable */
    bool new_names : 1;            /* files were created since the last sync was submitted */
    bool segs_partial : 1;         /* older segments exist that were not listed yet */
    bool rolled : 1;               /* since the last heavy checkpoint */
    bool epochs_changed : 1;       /* since leader-epoch-checkpoint was written */
    bool heavy_due : 1, touched : 1; /* `heavies` is on .due; appended to since the aging logs were last looked at */
    bool ahead : 1;                /* plog_ahead forgot what the cache held of its last segment above the mark */
    bool held : 1;                 /* plog_hold */
    bool heavy_off : 1;            /* a side file failed to sync: no heavy checkpoint of it in this run */
};

static inline struct seg *plog_active(const struct plog *lg) {
    return list_empty(&lg->segs) ? NULL : list_entry(lg->segs.prev, struct seg, link);
}
static inline struct seg *plog_next_seg(const struct plog *lg, const struct seg *sg) {
    return sg->link.next == &lg->segs ? NULL : list_entry(sg->link.next, struct seg, link);
}
struct seg *plog_seg_for(const struct plog *lg, off64 at);     /* the segment that holds offset `at`, or NULL */
off64 plog_bound(const struct plog *lg);
/* Begin an empty segment at the log's end; false without memory. The caller moves the ends to it. */
bool plog_roll(struct plog *lg);

/* A reader met a bad place: says so, once per place (a consumer asks for it again and again). */
void plog_damaged(struct plog *lg, off64 base, int64_t at, const char *what);
/* Storage failed under this log: everything not yet bound is taken back, nothing more is written or synced (DESIGN
 * 4). */
void plog_fence(struct plog *lg, const char *what, int sys_errno);
/* Take back everything at and above `from`, which is lg->written.off or below it. */
void plog_take_back(struct plog *lg, off64 from);
void plog_get(struct plog *lg);
void plog_put(struct plog *lg);                /* the last put of a dead log frees it */
void plog_free(struct plog *lg);               /* store_free, plog_put */
void plog_check(const struct plog *lg);        /* invariants of the three ends */
