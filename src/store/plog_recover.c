/* Recovery of one log at start (DESIGN 4, S18.16).
 *
 * Happy path after a clean stop: the mark is the whole truth; only a producer snapshot is loaded. Otherwise: list
 * the directory, compare it with the durable mark, drop what the page cache holds above the mark, scan from the last
 * heavy checkpoint batch by batch with CRC, hand each header to the broker, note it in the indexes, and cut behind
 * the last good batch.
 * Failure modes: anything wrong below the mark is damage: the log stays fenced, its files stay untouched, the line
 * names file and position. Above the mark it is a torn tail: cut, and said. Side files that are missing or damaged
 * are rebuilt from their segment. Nothing here depends on having run only once: a second crash meets the same or
 * fewer bytes above the same mark (T4). What was cut is synced by store_begin, before any mark is written.
 * Runs on: boot, synchronous. */
#include <stdio.h>
#include <string.h>

#include "base/be.h"
#include "base/log.h"
#include "base/mark.h"
#include "base/mem.h"
#include "base/must.h"
#include "call.h"
#include "datadir_in.h"
#include "recover.h"
#include "scan.h"
#include "seglist.h"
#include "store_in.h"

#define PIECE_BYTES (1 << 20)
#define AHEAD_BYTES (256 << 10)

struct scan_state {
    struct plog *lg;
    const struct datadir_mark *m;  /* NULL: everything is above the mark */
    struct disk_file *file;
    struct seg *sg;
    char path[NAMES_PATH_CAP];
    uint8_t *buf;
    size_t cap;
    off64 expect;                  /* base offset of the next batch */
    off64 replay_from;             /* producer states below are known */
    int32_t epoch;                 /* of the last batch */
    bool torn;                     /* nothing after this place counts */
    struct plog_recovery *ret;
};

/* ---- damage ---- */

static err damaged(const char *path, int64_t at, const char *what) {
    log_error("seg.damaged", "path='%s' at=%lld what='%s'", path, (long long)at, what);
    mark("recover.damaged");
    return ERR_DAMAGED;
}

static void drop_all_segs(struct plog *lg) {
    while (!list_empty(&lg->segs)) {
        seg_free(list_entry(lg->segs.next, struct seg, link));
    }
    lg->written.seg = lg->stable.seg = NULL;
    lg->written.pos = lg->stable.pos = 0;
    lg->segs_partial = false;
}

static err give_up(struct plog *lg, err e) {
    if (e != ERR_DAMAGED) {        /* that was said where it was found */
        log_error("recover.failed", "log='%s-%d' why='%s' effect='not served until the next start'", lg->id.topic,
                  lg->id.partition, err_text(e));
    }
    drop_all_segs(lg);
    lg->fenced = lg->unrecovered = true;
    lg->st->stats.fenced_logs++;
    return e == ERR_DAMAGED || e == ERR_NOMEM || e == ERR_LIMIT ? e : ERR_IO;
}

/* ---- the directory against the mark ---- */

static struct seg *seg_at(const struct plog *lg, off64 base) {
    struct seg *sg = plog_seg_for(lg, base);
    return sg && sg->base == base ? sg : NULL;
}

/* The first segment that the mark counts: the one that holds the log start. */
static struct seg *first_counted(const struct plog *lg, const struct datadir_mark *m) {
    struct seg *sg = plog_seg_for(lg, m->start);
    return sg ? sg : list_empty(&lg->segs) ? NULL : list_entry(lg->segs.next, struct seg, link);
}

static err check_against_mark(struct plog *lg, const struct datadir_mark *m, const char *dir) {
    char path[NAMES_PATH_CAP];
    struct seg *active = m->segments > 0 ? seg_at(lg, m->segment) : NULL;
    if (m->segments == 0) {
        return ERR_OK;
    }
    names_segment(&lg->id, m->segment, ".log", path);
    if (!active && m->position > 0) {
        return damaged(path, 0, "missing although the durable mark says that it held bytes");
    }
    if (active && active->size < m->position) {
        return damaged(path, active->size, "shorter than its durable mark");
    }
    if (m->segment <= m->start) {  /* nothing before it counts, whether its file was made or not */
        return m->segments == 1 && m->bytes == m->position ? ERR_OK : damaged(dir, 0, "the durable mark contradicts itself");
    }
    struct seg *first = first_counted(lg, m), *before = plog_seg_for(lg, m->segment);
    int64_t bytes = active ? active->before + m->position - first->before : before ? before->before + before->size - first->before : 0;
    uint32_t n = active ? active->ordinal + 1 - first->ordinal : before ? before->ordinal + 2 - first->ordinal : 1;
    if (bytes != m->bytes || n != m->segments) {   /* without bytes the active one may be gone: a recovery that did not end dropped it */
        return damaged(dir, 0, "segments are missing or have other sizes than the durable mark says");
    }
    return ERR_OK;
}

/* Whose directory is it? NOT_FOUND: nobody says; FOREIGN: another topic's; else it cannot be told now. */
static err check_metadata(struct plog *lg) {
    char path[NAMES_PATH_CAP], text[64], b[64];
    struct disk_file *f;
    int64_t size;
    size_t n;
    names_in_dir(&lg->id, "partition.metadata", path);
    names_metadata_text(&lg->id, text, sizeof text);
    err e = call_open(lg->st->disk, path, DISK_RDONLY, &f, &size);
    if (e == ERR_OK) {
        e = call_read(lg->st->disk, f, 0, (struct iovec){b, size < (int64_t)sizeof b ? (size_t)size : sizeof b}, &n);
        call_close(lg->st->disk, f);
    }
    if (e != ERR_OK) {
        return e;
    }
    uuid id;
    bool whole = n == strlen(text) && size == (int64_t)n, same = whole && memcmp(b, text, n) == 0;
    bool other = !same && whole && memcmp(b, text, n - UUID_TEXT_CAP) == 0 &&
                 uuid_parse(span_of(b + n - UUID_TEXT_CAP, UUID_TEXT_CAP - 1), &id) == ERR_OK;
    return same ? ERR_OK : other ? ERR_FOREIGN : ERR_NOT_FOUND;
}

static void write_metadata(struct plog *lg) {
    char path[NAMES_PATH_CAP], text[64];
    struct disk_file *f;
    names_in_dir(&lg->id, "partition.metadata", path);
    names_metadata_text(&lg->id, text, sizeof text);
    err e = call_open(lg->st->disk, path, DISK_RDWR | DISK_CREATE | DISK_TRUNC, &f, NULL);
    if (e == ERR_OK) {
        e = call_write(lg->st->disk, f, 0, text, strlen(text));
        call_close(lg->st->disk, f);
    }
    if (e != ERR_OK) {
        log_warn("store.metadata", "path='%s' err=%s", path, err_name(e));     /* the next recovery tries again */
    }
}

/* A deleted topic's directory of the same name, whose renaming a crash undid: out of the way, not away. */
static err move_aside(struct plog *lg, const char *dir) {
    char aside[NAMES_DIR_CAP];
    names_aside(&lg->id, "-stray", aside);
    log_warn("store.stray", "path='%s' belongs to another topic id, renamed to '%s'", dir, aside);
    return call_path(lg->st->disk, DISK_RENAME, dir, aside);
}

/* ---- scanning ---- */

static bool is_below_mark(const struct scan_state *sc, int64_t pos) {
    const struct datadir_mark *m = sc->m;
    return m && m->segments > 0 && (sc->sg->base < m->segment || (sc->sg->base == m->segment && pos < m->position));
}

static err take_batch(struct scan_state *sc, const struct batch_head *h) {
    struct plog *lg = sc->lg;
    err e = epochs_reserve(&lg->epochs);
    if (e != ERR_OK) {
        return e;
    }
    lg->epochs_changed = epochs_add(&lg->epochs, h->leader_epoch, h->base_offset) || lg->epochs_changed;
    seg_note(sc->sg, h, lg->conf->index_interval_bytes);
    if (h->base_offset >= sc->replay_from) {
        lg->st->hooks.replay(lg->st->hooks.u, lg, h);
    }
    sc->epoch = h->leader_epoch;
    sc->expect = batch_last_offset(h) + 1;
    sc->ret->scanned_bytes += (int64_t)h->bytes;
    return ERR_OK;
}

static err grow(struct scan_state *sc, size_t n) {
    if (n > sc->cap) {
        uint8_t *p = mem_realloc(MEM_LOG, sc->buf, n);
        if (!p) {
            return ERR_NOMEM;
        }
        sc->buf = p;
        sc->cap = n;
    }
    return ERR_OK;
}

/* The leader epoch lies outside the CRC; below the mark it must be the one that the mark tells. */
static bool epoch_ok(const struct scan_state *sc, const struct batch_head *h) {
    const struct datadir_mark *m = sc->m;
    if (h->leader_epoch < sc->epoch) {
        return false;
    }
    return !m || h->base_offset >= m->end ||
           (h->base_offset >= m->epoch_start ? h->leader_epoch == m->leader_epoch : h->leader_epoch < m->leader_epoch);
}

/* Good batches at the front of n bytes, which begin at sg->size. OK: all of them; TORN: *ret_need bytes are needed
 * for the next; CORRUPT. */
static err take_piece(struct scan_state *sc, size_t n, size_t *ret_need) {
    size_t used = 0;
    struct batch_head h;
    while (used < n) {
        err e = scan_batch(span_of(sc->buf + used, n - used), sc->expect, true, &h);
        e = e == ERR_OK && !epoch_ok(sc, &h) ? ERR_CORRUPT : e;
        e = e == ERR_OK ? take_batch(sc, &h) : e;
        if (e != ERR_OK) {
            *ret_need = h.bytes ? h.bytes : BATCH_HEAD_BYTES;
            return e;
        }
        used += h.bytes;
    }
    return ERR_OK;
}

/* Reads on from sg->size to the file's end. CORRUPT: what stands at sg->size is no batch that belongs there. */
static err scan_file(struct scan_state *sc, int64_t end) {
    size_t need = 0, did;
    while (sc->sg->size < end) {
        size_t left = (size_t)(end - sc->sg->size);
        if (need > left) {
            return ERR_CORRUPT;
        }
        size_t piece = left < PIECE_BYTES ? left : PIECE_BYTES;
        err e = grow(sc, need > piece ? need : piece);
        e = e == ERR_OK ? call_read(sc->lg->st->disk, sc->file, sc->sg->size,
                                    (struct iovec){sc->buf, left < sc->cap ? left : sc->cap}, &did)
                        : e;
        if (e != ERR_OK) {
            return e;
        }
        if (did == 0) {
            return ERR_CORRUPT;
        }
        need = 0;
        e = take_piece(sc, did, &need);
        if (e != ERR_OK && e != ERR_TORN) {
            return e;
        }
    }
    return ERR_OK;
}

static err cut_file(struct scan_state *sc, int64_t end) {
    int64_t at = sc->sg->size;
    if (is_below_mark(sc, at)) {
        return damaged(sc->path, at, "not the batch that was written there, below the durable mark");
    }
    log_warn("seg.torn", "path='%s' at=%lld cut=%lld", sc->path, (long long)at, (long long)(end - at));
    mark("recover.torn");
    sc->torn = true;
    sc->ret->cut_bytes += end - at;
    return call_truncate(sc->lg->st->disk, sc->file, at);
}

/* Remove a segment that lies behind the torn place, or an empty one that is none, with its side files. */
static err remove_seg(struct scan_state *sc, struct seg *sg) {
    static const char *const suffixes[] = {".log", ".index", ".timeindex", ".snapshot"};
    char path[NAMES_PATH_CAP];
    names_segment(&sc->lg->id, sg->base, ".log", path);
    if (sg->size > 0) {
        log_warn("seg.torn", "path='%s' at=0 cut=%lld", path, (long long)sg->size);
    }
    sc->ret->cut_bytes += sg->size;
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        names_segment(&sc->lg->id, sg->base, suffixes[i], path);
        err e = call_path(sc->lg->st->disk, DISK_UNLINK, path, NULL);
        if (e != ERR_OK && e != ERR_NOT_FOUND) {
            return e;
        }
    }
    seg_free(sg);
    return ERR_OK;
}

/* The segment that plog_ahead looked at: the one that recovery reads in nearly every log. */
static off64 ahead_base(const struct datadir_mark *m) {
    return m ? m->segment : 0;
}

/* The page cache must not show what the disk may not have (T5); datadir_settle came before. */
static void forget_above_mark(struct scan_state *sc, int64_t end) {
    const struct datadir_mark *m = sc->m;
    int64_t from = m && sc->sg->base < m->segment ? end : m && sc->sg->base == m->segment ? m->position : 0;
    if (from < end && !(sc->lg->ahead && sc->sg->base == ahead_base(m))) {
        call_forget(sc->lg->st->disk, sc->file, from);
    }
}

/* sg->size says where to begin; on return it is where the good batches end. */
static err scan_seg(struct scan_state *sc, int64_t end) {
    err e = call_open(sc->lg->st->disk, sc->path, DISK_RDWR, &sc->file, NULL);
    if (e != ERR_OK) {
        return e;
    }
    forget_above_mark(sc, end);
    e = scan_file(sc, end);
    if (e == ERR_CORRUPT) {
        e = cut_file(sc, end);
    }
    call_close(sc->lg->st->disk, sc->file);
    sc->file = NULL;
    return e;
}

/* What the index files hold beyond the heavy checkpoint came from a run that did not get to sync it. */
static void trim_index(struct plog *lg, const struct seg *sg, const char *suffix, int64_t size) {
    char path[NAMES_PATH_CAP];
    struct disk_file *f;
    int64_t now;
    names_segment(&lg->id, sg->base, suffix, path);
    if (call_open(lg->st->disk, path, DISK_RDWR, &f, &now) == ERR_OK) {
        if (now > size) {
            (void)call_truncate(lg->st->disk, f, size);    /* readers count entries and do not look behind them */
        }
        call_close(lg->st->disk, f);
    }
}

/* The timestamp that the segment's age counts from. */
static ms first_ts_of(struct plog *lg, const struct seg *sg) {
    char path[NAMES_PATH_CAP];
    struct disk_file *f;
    uint8_t b[BATCH_HEAD_BYTES];
    struct batch_head h;
    size_t did = 0;
    names_segment(&lg->id, sg->base, ".log", path);
    if (call_open(lg->st->disk, path, DISK_RDONLY, &f, NULL) != ERR_OK) {
        return -1;
    }
    err e = call_read(lg->st->disk, f, 0, (struct iovec){b, sizeof b}, &did);
    call_close(lg->st->disk, f);
    return e == ERR_OK && batch_peek(span_of(b, did), &h) == ERR_OK ? h.max_ts_ms : -1;
}

/* Can the scan begin at the heavy checkpoint? Then sg is as it was there. Else its index is built from its
 * beginning. */
static bool begin_at_heavy(struct plog *lg, const struct datadir_mark *m, struct seg *sg) {
    bool files = m->index_entries > 0 || m->timeindex_entries > 0;     /* a small log has none, and needs none */
    if (m->heavy < 0 ||
        (files && (sg->index_bad || sg->index.file_n < m->index_entries || sg->times.file_n < m->timeindex_entries))) {
        return false;
    }
    if (sg->index.file_n > m->index_entries) {
        trim_index(lg, sg, ".index", (int64_t)m->index_entries * SEGIDX_OFFSET_BYTES);
    }
    if (sg->times.file_n > m->timeindex_entries) {
        trim_index(lg, sg, ".timeindex", (int64_t)m->timeindex_entries * SEGIDX_TIME_BYTES);
    }
    sg->index.file_n = m->index_entries;
    sg->times.file_n = m->timeindex_entries;
    sg->index_bad = sg->indexed = false;
    sg->time_last = m->timeindex_ts;
    sg->max_ts = m->heavy_max_ts;
    sg->max_ts_offset = m->heavy_max_ts_offset;
    sg->first_ts = m->heavy_position == 0                       ? -1
                   : m->segment == sg->base && m->first_ts >= 0 ? m->first_ts
                                                                : first_ts_of(lg, sg);
    return true;
}

/* Nothing was written since the heavy checkpoint, and the mark knows of it. */
static bool is_untouched(const struct plog *lg, const struct datadir_mark *m) {
    const struct seg *sg = plog_active(lg);
    return sg && m->heavy == m->end && m->heavy_segment == m->segment && sg->base == m->segment &&
           sg->size == m->position && m->heavy_position == m->position;
}

static void begin_at_zero(struct seg *sg) {
    segidx_done(&sg->index);
    segidx_done(&sg->times);
    sg->index_bad = sg->ts_unknown = false;
    sg->size = 0;
    sg->first_ts = sg->max_ts = sg->max_ts_offset = sg->time_last = -1;
    sg->since_index = 0;
    sg->indexed = false;           /* the next heavy checkpoint writes its index files whole */
}

/* A file without bytes in front of whose base others went on: a roll found no room there (seglist.c). Not a gap. */
static bool is_left_over(const struct scan_state *sc, const struct seg *sg) {
    return !sc->torn && sg->size == 0 && sg->base < sc->expect;
}

/* Scan sg and all after it. */
static err scan_from(struct scan_state *sc, struct seg *sg, bool at_heavy) {
    struct plog *lg = sc->lg;
    int64_t before = sg ? sg->before : 0;
    uint32_t ordinal = sg ? sg->ordinal : 0;
    while (sg) {
        struct seg *after = plog_next_seg(lg, sg);
        int64_t end = sg->size;
        sc->sg = sg;
        names_segment(&lg->id, sg->base, ".log", sc->path);
        if (sc->torn || sg->base != sc->expect) {
            sc->torn = !is_left_over(sc, sg);
            bool lost = sc->torn && is_below_mark(sc, 0);
            err e = lost ? damaged(sc->path, 0, "segments before it are missing or cut, below the durable mark")
                         : remove_seg(sc, sg);
            if (e != ERR_OK) {
                return e;
            }
            sg = after;
            continue;
        }
        if (at_heavy) {
            sg->size = sc->m->heavy_position;
            sc->expect = sc->m->heavy;
            sg->ts_unknown = false;
        } else {
            begin_at_zero(sg);
        }
        at_heavy = false;
        err e = sg->size < end ? scan_seg(sc, end) : ERR_OK;
        if (e != ERR_OK) {
            return e;
        }
        sg->before = before;
        sg->ordinal = ordinal++;
        before += sg->size;
        if (after && !sc->torn) {
            seg_seal(sg);
            lg->rolled = true;
        }
        sg = after;
    }
    return ERR_OK;
}

/* An empty file behind another segment is what a roll leaves that a crash met; its predecessor goes on instead. */
static err drop_empty_last(struct scan_state *sc) {
    struct seg *last = plog_active(sc->lg);
    bool drop = last && last->size == 0 && last->link.prev != &sc->lg->segs && sc->torn;
    return drop ? remove_seg(sc, last) : ERR_OK;
}

/* ---- putting it together ---- */

static void settle(struct plog *lg, off64 end) {
    struct seg *sg = plog_active(lg);
    lg->next = end;
    lg->stable = (struct plog_at){.off = end, .seg = sg, .pos = sg ? sg->size : 0, .max_ts = sg ? sg->max_ts : -1,
                                  .max_ts_offset = sg ? sg->max_ts_offset : -1};
    lg->written = lg->stable;
    lg->since_heavy = lg->heavy.off == end ? 0 : 1;        /* a clean stop writes its side files */
    lg->unrecovered = false;
    lg->new_names = sg && sg->size == 0;           /* nothing has synced its name for its own sake */
    heavy_note(lg);
}

static struct seg *heavy_seg(const struct plog *lg, const struct datadir_mark *m) {
    return m && m->heavy >= 0 ? seg_at(lg, m->heavy_segment) : NULL;
}

static err scan_log(struct plog *lg, struct plog_recovery *ret) {
    const struct datadir_mark *m = lg->mark;
    struct scan_state sc = {.lg = lg, .m = m, .ret = ret, .epoch = -1};
    struct seg *sg = heavy_seg(lg, m);
    bool from_heavy = sg != NULL, at_heavy = sg && begin_at_heavy(lg, m, sg);
    if (!sg && !list_empty(&lg->segs)) {
        bool covered = m && m->heavy >= m->start;      /* else producer states come from below the start, too */
        sg = covered ? first_counted(lg, m) : list_entry(lg->segs.next, struct seg, link);
    }
    sc.expect = sg && (from_heavy || sg->base <= lg->start) ? sg->base : lg->start;      /* else the segment that begins there is lost */
    off64 from = at_heavy ? m->heavy : sc.expect;
    bool known = m && m->heavy >= 0 && from <= m->heavy;       /* else records between snapshot and log start are deleted: it cannot be continued */
    bool snapshot = known && m->has_producers;
    sc.replay_from = known ? m->heavy : from;
    epochs_done(&lg->epochs);
    err e = recover_epochs(lg, from);
    sc.epoch = epochs_at(&lg->epochs, from);
    e = e == ERR_OK && snapshot ? recover_producers(lg, m->heavy) : e;
    e = e == ERR_OK ? scan_from(&sc, sg, at_heavy) : e;
    e = e == ERR_OK ? drop_empty_last(&sc) : e;
    mem_free(sc.buf);
    if (e != ERR_OK) {
        return e;
    }
    if (m && sc.expect < m->end) {
        names_dir(&lg->id, sc.path);
        return damaged(sc.path, 0, "ends before its durable mark");
    }
    ret->above_mark = ret->cut_bytes > 0 || sc.expect > (m ? m->end : lg->start);
    lg->epochs_changed = lg->epochs_changed || ret->above_mark;
    lg->st->recovered = lg->st->recovered || !m || ret->cut_bytes > 0 || !is_untouched(lg, m);
    settle(lg, sc.expect);
    return ERR_OK;
}

/* Files of segments that the log start has left behind, and what was about to be removed: they held nothing of this log when it was last seen. */
static err remove_left_over(struct plog *lg, const struct disk_entry *en, size_t n, off64 low) {
    off64 base;
    char path[NAMES_PATH_CAP];
    err e = ERR_OK;
    for (size_t i = 0; i < n && e == ERR_OK; i++) {
        if (en[i].is_dir || !seglist_is_left_over(&en[i], low) || strlen(en[i].name) >= NAMES_PATH_CAP - NAMES_DIR_CAP ||
            names_is_segment(en[i].name, ".log", &base)) {
            continue;              /* segments may be large and many: they go once the log is served (trim_left_over) */
        }
        names_in_dir(&lg->id, en[i].name, path);
        log_info("seg.left_over", "path='%s' start=%lld", path, (long long)lg->start);
        mark("recover.left_over");
        e = call_path(lg->st->disk, DISK_UNLINK, path, NULL);
        e = e == ERR_NOT_FOUND ? ERR_OK : e;
    }
    return e;
}

/* The directory exists: en[n] is its listing. */
static err recover_listed(struct plog *lg, const char *dir, const struct disk_entry *en, size_t n,
                          struct plog_recovery *ret) {
    const struct datadir_mark *m = lg->mark;
    const off64 active = !m ? 0 : m->segments > 0 ? m->segment : m->start;         /* an empty log goes on where it starts */
    drop_all_segs(lg);
    err e = seglist_add(lg, en, n, INT64_MAX, active);
    if (e != ERR_OK) {
        return e;
    }
    if (!m && !list_empty(&lg->segs) && list_entry(lg->segs.next, struct seg, link)->base != 0) {
        return damaged(dir, 0, "its first segment is missing and no durable mark speaks of it");
    }
    e = m ? check_against_mark(lg, m, dir) : ERR_OK;
    const off64 low = m ? seglist_low(lg, en, n, active) : -1;
    e = e == ERR_OK ? remove_left_over(lg, en, n, low) : e;
    e = e == ERR_OK ? scan_log(lg, ret) : e;
    if (e == ERR_OK) {
        off64 *bases = NULL;
        size_t bases_n = seglist_left_over(low, en, n, &bases);
        trim_left_over(lg, bases, bases_n);
    }
    return e;
}

static err recover_unclean(struct plog *lg, struct plog_recovery *ret) {
    const struct datadir_mark *m = lg->mark;
    char dir[NAMES_DIR_CAP];
    struct disk_entry *en = NULL;
    size_t n = 0;
    names_dir(&lg->id, dir);
    err e = datadir_has_dir(lg->st->dd, dir) ? call_list(lg->st->disk, dir, &en, &n) : ERR_NOT_FOUND;
    err whose = e == ERR_OK ? check_metadata(lg) : ERR_OK;
    bool had_bytes = m && m->bytes > 0;
    if (whose != ERR_OK && whose != ERR_FOREIGN && whose != ERR_NOT_FOUND) {
        e = whose;                 /* it may be another topic's: not ours to cut and to fill */
    }
    if (whose == ERR_FOREIGN && !had_bytes) {
        disk_entries_free(en, n);
        e = move_aside(lg, dir);
        e = e == ERR_OK ? ERR_NOT_FOUND : e;
        en = NULL;
        n = 0;
    } else if (whose == ERR_FOREIGN) {
        e = damaged(dir, 0, "belongs to another topic id although the durable mark says that this log held bytes");
    }
    if (e == ERR_NOT_FOUND) {
        lg->dir_made = false;
        lg->fresh = true;
        e = had_bytes ? damaged(dir, 0, "missing although the durable mark says that it held bytes") : ERR_OK;
        if (e == ERR_OK) {
            lg->unrecovered = false;
        }
        return e;
    }
    lg->dir_made = e == ERR_OK;    /* else a deletion of this topic must leave it alone: the next start knows more */
    lg->fresh = false;
    e = e == ERR_OK ? recover_listed(lg, dir, en, n, ret) : e;
    disk_entries_free(en, n);
    if (e == ERR_OK && whose == ERR_NOT_FOUND) {
        write_metadata(lg);
    }
    return e;
}

static err recover_clean(struct plog *lg) {
    if (!lg->mark) {
        return ERR_OK;
    }
    err e = recover_epochs(lg, lg->mark->end);
    return e == ERR_OK && lg->mark->has_producers ? recover_producers(lg, lg->mark->heavy) : e;
}

static bool is_unclean(const struct plog *lg, const char *dir) {
    const struct datadir *dd = lg->st->dd;
    return lg->unrecovered || !datadir_is_clean(dd) || (!lg->mark && datadir_has_dir(dd, dir));
}

/* What recovery will read of this segment, once its pages above the mark are forgotten. */
static void read_ahead(struct plog *lg, struct disk_file *f, int64_t size) {
    const struct datadir_mark *m = lg->mark;
    int64_t above = m ? m->position : 0;
    int64_t from = m && m->heavy >= 0 && m->heavy_segment == m->segment ? m->heavy_position : 0;
    if (above >= size) {
        return;
    }
    call_forget(lg->st->disk, f, above);
    struct disk_req rq = {.op = DISK_AHEAD, .file = f, .at = from};
    rq.len = size - from < AHEAD_BYTES ? (size_t)(size - from) : AHEAD_BYTES;
    (void)disk_call(lg->st->disk, &rq);            /* a hint */
    lg->ahead = true;
}

void plog_ahead(struct plog *lg) {
    char dir[NAMES_DIR_CAP], path[NAMES_PATH_CAP];
    struct disk_file *f;
    int64_t size;
    names_dir(&lg->id, dir);
    if (!is_unclean(lg, dir) || !datadir_has_dir(lg->st->dd, dir) || (lg->mark && lg->mark->segments == 0)) {
        return;
    }
    names_segment(&lg->id, ahead_base(lg->mark), ".log", path);
    if (call_open(lg->st->disk, path, DISK_RDONLY, &f, &size) == ERR_OK) {     /* else recovery will say what is wrong */
        read_ahead(lg, f, size);
        call_close(lg->st->disk, f);
    }
}

err plog_recover(struct plog *lg, struct plog_recovery *ret) {
    char dir[NAMES_DIR_CAP];
    struct plog_recovery got = {0};
    names_dir(&lg->id, dir);
    bool unclean = is_unclean(lg, dir);
    got.unclean = unclean;
    err e = unclean ? recover_unclean(lg, &got) : recover_clean(lg);
    if (e != ERR_OK) {
        return give_up(lg, e);
    }
    e = trim_resume(lg);
    if (e != ERR_OK) {
        return give_up(lg, e);
    }
    plog_check(lg);
    *ret = got;
    return ERR_OK;
}
