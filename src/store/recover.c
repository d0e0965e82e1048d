/* Rebuilding what side files hold from the log itself: producer states, leader epochs.
 *
 * Happy path: the file is there and sane and nothing is read but it. A snapshot is the broker's, in Kafka's format;
 * its CRC is checked here.
 * Failure modes: a missing or damaged snapshot falls back to the next older one, and the headers from there on are
 * replayed; without any, all headers of the log are (KAFKA-5829: no body is read for it). The same for the epoch file.
 * Runs on: boot. */
#include "recover.h"

#include <string.h>

#include "base/be.h"
#include "base/crc.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mark.h"
#include "base/mem.h"
#include "call.h"
#include "scan.h"
#include "seglist.h"
#include "store_in.h"

#define HOP_BYTES (64 << 10)
#define SNAPSHOT_BYTES_MAX (64 << 20)
#define EPOCHS_BYTES_MAX (1 << 20)

struct hop {
    struct disk *disk;
    struct disk_file *file;
    uint8_t *buf;
    int64_t at, end;               /* bytes */
    off64 expect, upto;            /* offsets */
    void (*on_head)(void *u, const struct batch_head *h);
    void *u;
};

static err hop(struct hop *hp) {
    size_t have = 0;
    int64_t from = -1;
    while (hp->at < hp->end && hp->expect < hp->upto) {
        struct batch_head h;
        if (from < 0 || hp->at + BATCH_HEAD_BYTES > from + (int64_t)have) {
            int64_t want = hp->end - hp->at < HOP_BYTES ? hp->end - hp->at : HOP_BYTES;
            err e = call_read(hp->disk, hp->file, hp->at, (struct iovec){hp->buf, (size_t)want}, &have);
            if (e != ERR_OK) {
                return e;
            }
            from = hp->at;
        }
        err e = scan_batch(span_of(hp->buf + (hp->at - from), have - (size_t)(hp->at - from)), hp->expect, false, &h);
        if ((e != ERR_OK && e != ERR_TORN) || h.bytes == 0 || hp->at + (int64_t)h.bytes > hp->end) {
            return ERR_DAMAGED;
        }
        hp->on_head(hp->u, &h);
        hp->expect = batch_last_offset(&h) + 1;
        hp->at += (int64_t)h.bytes;
    }
    return ERR_OK;
}

/* The headers of a segment below offset `upto`. */
static err heads_of(struct plog *lg, struct seg *sg, off64 upto, void (*on_head)(void *u, const struct batch_head *h),
                    void *u) {
    char path[NAMES_PATH_CAP];
    struct hop hp = {.disk = lg->st->disk,
                     .buf = mem_alloc(MEM_LOG, HOP_BYTES),
                     .end = sg->size,
                     .expect = sg->base,
                     .upto = upto,
                     .on_head = on_head,
                     .u = u};
    if (!hp.buf) {
        return ERR_NOMEM;
    }
    names_segment(&lg->id, sg->base, ".log", path);
    err e = call_open(hp.disk, path, DISK_RDONLY, &hp.file, NULL);
    if (e == ERR_OK) {
        e = hop(&hp);
        call_close(hp.disk, hp.file);
    }
    mem_free(hp.buf);
    if (e == ERR_DAMAGED || e == ERR_NOT_FOUND) {
        log_error("seg.damaged", "path='%s' at=%lld%s", path, (long long)hp.at,
                  e == ERR_NOT_FOUND ? " what='missing'" : "");
    }
    return e == ERR_NOT_FOUND ? ERR_DAMAGED : e;
}

/* The segments must be listed for what follows. */
static err list_segs(struct plog *lg) {
    char dir[NAMES_DIR_CAP];
    struct disk_entry *en;
    size_t n;
    if (!lg->segs_partial) {
        return ERR_OK;
    }
    names_dir(&lg->id, dir);
    err e = call_list(lg->st->disk, dir, &en, &n);
    if (e == ERR_NOT_FOUND) {
        log_error("seg.damaged", "path='%s' what='missing although the durable mark says that it held bytes'", dir);
        return ERR_DAMAGED;
    }
    if (e == ERR_OK) {
        off64 known = list_entry(lg->segs.next, struct seg, link)->base;
        e = seglist_add(lg, en, n, known, known);
        disk_entries_free(en, n);
        lg->segs_partial = e != ERR_OK;
    }
    return e;
}

/* ---- headers in a range of offsets ---- */

struct range {
    struct plog *lg;
    off64 from, upto;
    void (*on_head)(struct plog *lg, const struct batch_head *h);
};

static void in_range(void *u, const struct batch_head *h) {
    struct range *r = u;
    if (h->base_offset >= r->from && h->base_offset < r->upto) {
        r->on_head(r->lg, h);
    }
}

static err heads_between(struct plog *lg, off64 from, off64 upto,
                         void (*on_head)(struct plog *lg, const struct batch_head *h)) {
    struct range r = {.lg = lg, .from = from, .upto = upto, .on_head = on_head};
    err e = list_segs(lg);
    list_each(it, &lg->segs) {
        struct seg *sg = list_entry(it, struct seg, link);
        const struct seg *after = plog_next_seg(lg, sg);
        if (e == ERR_OK && sg->base < upto && (!after || after->base > from)) {
            e = heads_of(lg, sg, upto, in_range, &r);
        }
    }
    return e;
}

/* ---- producers ---- */

static void replay(struct plog *lg, const struct batch_head *h) {
    lg->st->hooks.replay(lg->st->hooks.u, lg, h);
}

/* Version 1 and the CRC of what follows. */
static bool snapshot_ok(span s) {
    return s.n >= 10 && be16_get(s.p) == 1 && be32_get(s.p + 2) == crc32c(s.p + 6, s.n - 6);
}

static err load_snapshot(struct plog *lg, off64 at) {
    char path[NAMES_PATH_CAP];
    void *buf;
    size_t n;
    names_segment(&lg->id, at, ".snapshot", path);
    err e = disk_read_all(lg->st->disk, path, SNAPSHOT_BYTES_MAX, &buf, &n);
    if (e != ERR_OK) {
        return e;
    }
    e = snapshot_ok(span_of(buf, n)) ? lg->st->hooks.snapshot_load(lg->st->hooks.u, lg, span_of(buf, n), at)
                                     : ERR_DAMAGED;
    mem_free(buf);
    return e;
}

/* The newest snapshot below `upto` that can be loaded; -1 when there is none. */
static off64 load_older(struct plog *lg, off64 upto) {
    char dir[NAMES_DIR_CAP];
    struct disk_entry *en;
    size_t n;
    names_dir(&lg->id, dir);
    if (call_list(lg->st->disk, dir, &en, &n) != ERR_OK) {
        return -1;
    }
    off64 loaded = -1;
    for (bool more = true; more && loaded < 0;) {
        off64 best = -1, at;
        for (size_t i = 0; i < n; i++) {
            if (names_is_segment(en[i].name, ".snapshot", &at) && at < upto && at > best) {
                best = at;
            }
        }
        more = best >= 0;
        loaded = more && load_snapshot(lg, best) == ERR_OK ? best : -1;
        upto = best;
    }
    disk_entries_free(en, n);
    return loaded;
}

err recover_producers(struct plog *lg, off64 upto) {
    err e = load_snapshot(lg, upto);
    if (e == ERR_OK || e == ERR_NOMEM) {
        return e;
    }
    off64 from = load_older(lg, upto);
    mark("recover.producers");
    log_warn("snapshot.rebuilt", "log='%s-%d' at=%lld why=%s replayed_from=%lld", lg->id.topic, lg->id.partition,
             (long long)upto, err_name(e), (long long)(from < 0 ? 0 : from));
    return heads_between(lg, from < 0 ? 0 : from, upto, replay);
}

/* ---- leader epochs ---- */

static void note_epoch(struct plog *lg, const struct batch_head *h) {
    if (epochs_reserve(&lg->epochs) == ERR_OK) {
        epochs_add(&lg->epochs, h->leader_epoch, h->base_offset);
    }
}

static err read_epochs(struct plog *lg) {
    char path[NAMES_PATH_CAP];
    void *buf;
    size_t n;
    names_in_dir(&lg->id, "leader-epoch-checkpoint", path);
    err e = disk_read_all(lg->st->disk, path, EPOCHS_BYTES_MAX, &buf, &n);
    if (e == ERR_OK) {
        e = epochs_parse(&lg->epochs, span_of(buf, n));
        mem_free(buf);
    }
    return e;
}

err recover_epochs(struct plog *lg, off64 upto) {
    const struct datadir_mark *m = lg->mark;
    if (!m || m->leader_epoch < 0) {
        return ERR_OK;
    }
    bool one = m->epoch_start <= m->start;         /* one epoch, which the mark tells: no file is read */
    err e = one ? ERR_OK : read_epochs(lg);
    if (e != ERR_OK) {
        mark("recover.epochs");
        log_warn("epochs.rebuilt", "log='%s-%d' why=%s", lg->id.topic, lg->id.partition, err_name(e));
        epochs_done(&lg->epochs);
        lg->epochs_changed = true;
        e = heads_between(lg, 0, upto, note_epoch);
    }
    epochs_drop(&lg->epochs, upto);                /* the file may be newer than the mark */
    if (e == ERR_OK && m->epoch_start < upto && (e = epochs_reserve(&lg->epochs)) == ERR_OK) {
        bool news = epochs_add(&lg->epochs, m->leader_epoch, m->epoch_start);
        lg->epochs_changed = lg->epochs_changed ||
                             (news && !one); /* the file lags the mark, which will tell of the next epoch only */
    }
    return e;
}
