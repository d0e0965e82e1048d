/* The metadata log (D11): every change of topics, settings and the like is a frame here before anybody is told of it.
 *
 * Files in perigee.meta: metadata.log (frames), metadata.snapshot (frames, replaces what the log held up to its
 * sequence), metadata.mark (two slots that say how much of the log was synced).
 * Happy path: appends that arrive while a write or sync is in flight are gathered into the next write; one sync
 * serves them all, then their `done` run in order. After a sync the proven end goes into metadata.mark without a
 * sync of its own: it may lag, never lead. A snapshot is written beside, synced and renamed; then an empty log with
 * a new generation takes the old one's place the same way; frames at or below the snapshot's sequence are skipped.
 * Failure modes: a torn tail is what no sync had returned for: cut and said. Anything else wrong (a bad frame that
 * is proven, a log shorter than the mark, a missing file) is DAMAGED and touches nothing (T12). No space: the write
 * is cut off and its appends are refused, and with them those that came behind. A failed write or sync is fatal.
 * Runs on: shard 0's thread; metalog_open at boot. */
#include "store/metalog.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/be.h"
#include "base/crc.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mark.h"
#include "base/mem.h"
#include "base/must.h"
#include "call.h"
#include "frames.h"
#include "names.h"

#define LOG_PATH NAMES_META_DIR "/metadata.log"
#define LOG_TEMP NAMES_META_DIR "/metadata.log.tmp"
#define SNAP_PATH NAMES_META_DIR "/metadata.snapshot"
#define SNAP_TEMP NAMES_META_DIR "/metadata.snapshot.tmp"
#define MARK_PATH NAMES_META_DIR "/metadata.mark"
#define FILE_BYTES_MAX ((size_t)1 << 30)
#define MARK_BYTES_MAX (1 << 20)   /* of a mark file that somebody made longer */
#define SLOT_BYTES 512             /* a sector: two slots cannot be torn by one write */
#define SLOT_USED 24               /* crc u32, magic u32, generation u64, proven u64 */
#define SLOT_MAGIC 0x70676d6bu     /* "pgmk" */

enum { KIND_BEGIN = 1, KIND_RECORDS = 2, KIND_SNAPSHOT = 3, KIND_END = 4 };

struct metalog {
    struct disk *disk;
    struct port *port;
    void (*fatal)(void *u, const char *why);
    void *fatal_u;
    struct disk_file *log, *mark, *temp;
    uint64_t generation;           /* of the log file */
    uint64_t sequence;             /* of the last frame, snapshot included */
    uint64_t sequence_back;        /* before the write under way */
    int64_t end, proven;
    int64_t room;                  /* the file system keeps blocks for the log up to here; 0: not known */
    struct list waiting, flying;   /* appends not yet written; in the write or sync under way */
    bool busy, dead, stopping;
    bool torn;                     /* a refused write must be cut back first */
    uint8_t *buf;
    size_t buf_n, buf_cap;
    uint8_t slot[SLOT_BYTES];
    bool slot_busy;
    uint32_t slot_next;
    struct disk_req rq, slot_rq;
    struct iovec iov, slot_iov;
    const char *dir;
    /* a snapshot that waits or is under way */
    void *snap;
    size_t snap_n;
    void (*snap_done)(void *u, err e);
    void *snap_u;
    err snap_err;
    void (*stop_done)(void *u);
    void *stop_u;
};

static void advance(struct metalog *ml);

/* ---- open ---- */

struct opening {
    struct metalog *ml;
    err (*on_record)(void *u, span record);
    void *u;
    char *why;
    size_t cap;
    uint64_t skip_to;              /* frames up to this sequence are in the snapshot */
    uint64_t last;                 /* sequence of the log's last good frame */
    bool begun, ended;
};

static err say(struct opening *op, err e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static err say(struct opening *op, err e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(op->why, op->cap, fmt, ap);
    va_end(ap);
    return e;
}

static err on_snapshot_frame(void *u, const struct frames_head *h, span payload) {
    struct opening *op = u;
    if (op->ended) {
        return ERR_DAMAGED;
    }
    if (h->kind == KIND_END && payload.n == 8) {
        op->ended = true;
        op->skip_to = op->ml->sequence = be64_get(payload.p);
        return ERR_OK;
    }
    return h->kind == KIND_SNAPSHOT ? op->on_record(op->u, payload) : ERR_DAMAGED;
}

static err on_log_frame(void *u, const struct frames_head *h, span payload) {
    struct opening *op = u;
    struct metalog *ml = op->ml;
    op->last = h->sequence;
    if (!op->begun) {
        op->begun = true;
        ml->generation = h->generation;
        if (h->kind != KIND_BEGIN || h->sequence > op->skip_to) { /* records between snapshot and log are missing */
            return ERR_DAMAGED;
        }
        return ERR_OK;
    }
    if (h->kind != KIND_RECORDS || h->generation != ml->generation) {
        return ERR_DAMAGED;
    }
    if (h->sequence <= op->skip_to) {
        return ERR_OK;
    }
    ml->sequence = h->sequence;
    return op->on_record(op->u, payload);
}

static err read_snapshot(struct opening *op, bool *ret_exists) {
    void *buf;
    size_t n, good = 0;
    err e = disk_read_all(op->ml->disk, SNAP_PATH, FILE_BYTES_MAX, &buf, &n);
    *ret_exists = e != ERR_NOT_FOUND;
    if (e == ERR_NOT_FOUND) {
        return ERR_OK;
    }
    if (e != ERR_OK) {
        return say(op, e, "cannot read %s: %s", SNAP_PATH, err_text(e));
    }
    e = frames_walk(span_of(buf, n), on_snapshot_frame, op, &good);
    mem_free(buf);
    if (e == ERR_TORN || (e == ERR_OK && !op->ended)) {
        e = ERR_DAMAGED;           /* it was synced before it got its name */
    }
    return e == ERR_OK ? e : say(op, e, "%s: %s at byte %zu", SNAP_PATH, err_text(e), good);
}

/* How much of this log was synced, as far as the slots tell. Only a file that is not there tells nothing. */
static err read_mark(struct metalog *ml, uint64_t *ret_proven) {
    void *buf;
    size_t n;
    uint64_t proven = 0;
    err e = disk_read_all(ml->disk, MARK_PATH, MARK_BYTES_MAX, &buf, &n);
    if (e != ERR_OK) {
        *ret_proven = 0;
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    }
    for (size_t at = 0; at + SLOT_USED <= n && at < 2 * SLOT_BYTES; at += SLOT_BYTES) {
        const uint8_t *p = (const uint8_t *)buf + at;
        if (be32_get(p) == crc32c(p + 4, SLOT_USED - 4) && be32_get(p + 4) == SLOT_MAGIC &&
            be64_get(p + 8) == ml->generation) {
            proven = be64_get(p + 16) > proven ? be64_get(p + 16) : proven;
        }
    }
    mem_free(buf);
    *ret_proven = proven;
    return ERR_OK;
}

static err cut_tail(struct opening *op, size_t good, size_t size) {
    struct metalog *ml = op->ml;
    log_warn("meta.torn", "path='%s' at=%zu cut=%zu", LOG_PATH, good, size - good);
    mark("metalog.torn");
    err e = call_truncate(ml->disk, ml->log, (int64_t)good);
    return e == ERR_OK ? e : say(op, e, "cannot cut the torn end of %s: %s", LOG_PATH, err_text(e));
}

static err read_log(struct opening *op) {
    struct metalog *ml = op->ml;
    void *buf;
    size_t n, good = 0;
    err e = call_read_all(ml->disk, LOG_PATH, FILE_BYTES_MAX, &buf, &n);
    if (e != ERR_OK) {
        return say(op, e == ERR_NOT_FOUND ? ERR_DAMAGED : e, "%s: %s", LOG_PATH,
                   e == ERR_NOT_FOUND ? "missing" : err_text(e));
    }
    e = frames_walk(span_of(buf, n), on_log_frame, op, &good);
    mem_free(buf);
    if (e != ERR_OK && e != ERR_TORN) {
        return say(op, e, "%s: %s at byte %zu", LOG_PATH, err_text(e), good);
    }
    uint64_t proven;
    e = read_mark(ml, &proven);
    if (e != ERR_OK) {
        return say(op, e, "%s: %s", MARK_PATH, err_text(e));
    }
    if (!op->begun || good < proven) {             /* its first frame was synced before the file got its name */
        return say(op, ERR_DAMAGED, "%s: damaged or cut at byte %zu, below what was synced", LOG_PATH, good);
    }
    if (op->last < op->skip_to) {                  /* what is appended must follow both */
        return say(op, ERR_DAMAGED, "%s: ends before its snapshot %s, which was written behind it", LOG_PATH, SNAP_PATH);
    }
    e = call_open(ml->disk, LOG_PATH, DISK_RDWR, &ml->log, NULL);
    if (e != ERR_OK) {
        return say(op, e, "%s: %s", LOG_PATH, err_text(e));
    }
    ml->end = ml->proven = (int64_t)good;
    if (good < n && (e = cut_tail(op, good, n)) != ERR_OK) {
        return e;
    }
    e = call_sync(ml->disk, ml->log,
                  ml->dir); /* what was replayed, and its name, must be durable before it is served (T5) */
    return e == ERR_OK ? e : say(op, e, "%s: %s", LOG_PATH, err_text(e));
}

static size_t begin_frame(uint8_t *p, uint64_t generation, uint64_t sequence) {
    struct frames_head h = {.kind = KIND_BEGIN, .generation = generation, .sequence = sequence};
    frames_seal(p, &h);
    return frames_size(0);
}

/* Marks without metadata, its own or those of logs: it was lost, and a new one would orphan every partition. */
static err has_marks(struct metalog *ml, bool *ret) {
    struct disk_entry *en;
    size_t n;
    bool any = false;
    err e = call_list(ml->disk, NAMES_META_DIR, &en, &n);
    if (e != ERR_OK) {
        return e;
    }
    for (size_t i = 0; i < n; i++) {
        any = any || (strncmp(en[i].name, "marks.", 6) == 0 && !names_ends_with(en[i].name, ".tmp")) ||
              (strcmp(en[i].name, "metadata.mark") == 0 && en[i].size > 0);
    }
    disk_entries_free(en, n);
    *ret = any;
    return ERR_OK;
}

static err create_log(struct opening *op) {
    struct metalog *ml = op->ml;
    uint8_t frame[FRAMES_HEAD_BYTES];
    bool marks;
    err e = has_marks(ml, &marks);
    if (e != ERR_OK) {
        return say(op, e, "cannot list %s: %s", NAMES_META_DIR, err_text(e));
    }
    if (marks) {
        return say(op, ERR_DAMAGED,
                   "%s is missing, but the directory has durable marks: restore it, nothing was changed", LOG_PATH);
    }
    ml->generation = 1;
    size_t n = begin_frame(frame, 1, 0);
    e = disk_replace_all(ml->disk, LOG_PATH, frame, n);
    e = e == ERR_OK ? call_open(ml->disk, LOG_PATH, DISK_RDWR, &ml->log, NULL) : e;
    ml->end = ml->proven = (int64_t)n;
    return e == ERR_OK ? e : say(op, e, "cannot create %s: %s", LOG_PATH, err_text(e));
}

static err open_files(struct opening *op) {
    struct metalog *ml = op->ml;
    bool snapshot;
    struct disk_req st = {.op = DISK_STAT, .path = LOG_PATH};
    err e = read_snapshot(op, &snapshot);
    if (e != ERR_OK) {
        return e;
    }
    e = disk_call(ml->disk, &st);
    e = e == ERR_NOT_FOUND && !snapshot ? create_log(op) : read_log(op);
    if (e == ERR_OK && (e = call_open(ml->disk, MARK_PATH, DISK_RDWR | DISK_CREATE, &ml->mark, NULL)) != ERR_OK) {
        return say(op, e, "cannot open %s: %s", MARK_PATH, err_text(e));
    }
    return e;
}

err metalog_open(struct disk *disk, err (*on_record)(void *u, span record), void *u, struct metalog **ret_ml,
                 struct why ret_why) {
    struct metalog *ml = mem_zalloc(MEM_META, sizeof *ml);
    if (!ml) {
        return ERR_NOMEM;
    }
    ml->disk = disk;
    ml->dir = NAMES_META_DIR;
    list_init(&ml->waiting);
    list_init(&ml->flying);
    struct opening op = {.ml = ml, .on_record = on_record, .u = u, .why = ret_why.text, .cap = ret_why.cap};
    err e = open_files(&op);
    if (e != ERR_OK) {
        metalog_free(ml);
        return e;
    }
    *ret_ml = ml;
    return ERR_OK;
}

void metalog_bind(struct metalog *ml, struct port *port, void (*fatal)(void *u, const char *why), void *u) {
    ml->port = port;
    ml->disk = port->disk;
    ml->fatal = fatal;
    ml->fatal_u = u;
}

void metalog_free(struct metalog *ml) {
    if (!ml) {
        return;
    }
    call_close(ml->disk, ml->log);
    call_close(ml->disk, ml->mark);
    call_close(ml->disk, ml->temp);
    mem_free(ml->buf);
    mem_free(ml->snap);
    mem_free(ml);
}

int64_t metalog_grown(const struct metalog *ml) {
    return ml->end - (int64_t)FRAMES_HEAD_BYTES;
}

/* ---- appending ---- */

static void die(struct metalog *ml, const char *why) {
    if (!ml->dead) {
        ml->dead = true;
        log_error("meta.fatal", "why='%s'", why);
        ml->fatal(ml->fatal_u, why);
    }
}

static bool is_refusal(err e) {
    return e == ERR_NOSPACE || e == ERR_LIMIT || e == ERR_NOMEM;
}

static void submit(struct metalog *ml, enum disk_lane lane, enum disk_op o, void (*done)(struct disk_req *rq)) {
    ml->rq.op = o;
    ml->rq.lane = lane;
    ml->rq.done = done;
    ml->rq.u = ml;
    disk_submit(ml->disk, &ml->rq);
}

/* The appends under way are durable, or refused; each may append again from its callback. */
static void complete(struct metalog *ml, err e) {
    struct list done;
    list_init(&done);
    list_splice_back(&done, &ml->flying);
    ml->busy = false;
    for (struct list *it; (it = list_pop_front(&done));) {
        struct metalog_append *a = list_entry(it, struct metalog_append, link);
        a->err = e;
        a->done(a);
    }
    advance(ml);
}

static void on_slot_written(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    ml->slot_busy = false;         /* an error leaves an older slot: it proves less */
    advance(ml);
}

/* Note how much is synced; not synced itself. */
static void write_slot(struct metalog *ml) {
    if (ml->slot_busy) {
        return;                    /* the next sync notes more */
    }
    memset(ml->slot, 0, sizeof ml->slot);
    be32_put(ml->slot + 4, SLOT_MAGIC);
    be64_put(ml->slot + 8, ml->generation);
    be64_put(ml->slot + 16, (uint64_t)ml->proven);
    be32_put(ml->slot, crc32c(ml->slot + 4, SLOT_USED - 4));
    ml->slot_iov = (struct iovec){.iov_base = ml->slot, .iov_len = sizeof ml->slot};
    ml->slot_rq = (struct disk_req){.op = DISK_WRITE,
                                    .lane = DISK_LANE_WRITE,
                                    .file = ml->mark,
                                    .at = (int64_t)ml->slot_next * SLOT_BYTES,
                                    .iov = &ml->slot_iov,
                                    .iov_n = 1,
                                    .done = on_slot_written,
                                    .u = ml};
    ml->slot_next = 1 - ml->slot_next;
    ml->slot_busy = true;
    disk_submit(ml->disk, &ml->slot_rq);
}

static void on_synced(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    if (rq->err != ERR_OK) {
        die(ml, "sync of the metadata log failed");
        return;
    }
    ml->proven = ml->end;
    write_slot(ml);
    complete(ml, ERR_OK);
}

static void sync_file(struct metalog *ml, struct disk_file **file, const char **dir,
                      void (*done)(struct disk_req *rq)) {
    ml->rq = (struct disk_req){.files = file, .files_n = file != NULL, .dirs = dir, .dirs_n = dir != NULL};
    submit(ml, DISK_LANE_SYNC, DISK_SYNC, done);
}

static void on_written(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    if (rq->err == ERR_OK) {
        ml->end += (int64_t)ml->buf_n;
        sync_file(ml, &ml->log, NULL, on_synced);
    } else if (is_refusal(rq->err)) {
        mark("metalog.refused");
        ml->room = 0;
        ml->torn = true;
        ml->sequence = ml->sequence_back;          /* the frames are not in the file */
        list_splice_back(&ml->flying, &ml->waiting);           /* what came behind was decided upon them */
        complete(ml, ERR_NOSPACE);
    } else {
        die(ml, "writing the metadata log failed");
    }
}

static void write_buf(struct metalog *ml, struct disk_file *file, int64_t at, void (*done)(struct disk_req *rq)) {
    ml->iov = (struct iovec){.iov_base = ml->buf, .iov_len = ml->buf_n};
    ml->rq = (struct disk_req){.file = file, .at = at, .iov = &ml->iov, .iov_n = 1};
    submit(ml, DISK_LANE_WRITE, DISK_WRITE, done);
}

static bool buf_room(struct metalog *ml, size_t n) {
    if (n > ml->buf_cap) {
        uint8_t *p = mem_realloc(MEM_META, ml->buf, n);
        if (!p) {
            return false;
        }
        ml->buf = p;
        ml->buf_cap = n;
    }
    return true;
}

/* All that waits becomes one frame per append, in one write: each applies whole or not at all. */
static bool build(struct metalog *ml) {
    size_t total = 0;
    list_each(it, &ml->waiting) {
        total += frames_size(list_entry(it, struct metalog_append, link)->records.n);
    }
    if (!buf_room(ml, total)) {
        return false;
    }
    ml->buf_n = 0;
    list_each(it, &ml->waiting) {
        const struct metalog_append *a = list_entry(it, struct metalog_append, link);
        struct frames_head h = {.kind = KIND_RECORDS,
                                .bytes = (uint32_t)a->records.n,
                                .generation = ml->generation,
                                .sequence = ++ml->sequence,
                                .proven = (uint64_t)ml->proven};
        memcpy(ml->buf + ml->buf_n + FRAMES_HEAD_BYTES, a->records.p, a->records.n);
        frames_seal(ml->buf + ml->buf_n, &h);
        ml->buf_n += frames_size(a->records.n);
    }
    return true;
}

static void on_cut(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    if (rq->err != ERR_OK) {
        die(ml, "cutting back the metadata log failed");
        return;
    }
    ml->torn = false;
    ml->busy = false;
    advance(ml);
}

static void on_room(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    if (rq->err == ERR_OK) {
        ml->room = rq->at + (int64_t)rq->len;
    } else {
        mark("metalog.no_room");   /* the write shows whether there is enough */
    }
    write_buf(ml, ml->log, ml->end, on_written);
}

/* A full disk must not keep anybody from deleting a topic, or a start from raising epochs: blocks for that are kept behind the log's end. */
static void write_log(struct metalog *ml) {
    int64_t end = ml->end + (int64_t)ml->buf_n;
    if (end + LIMIT_META_ROOM_BYTES / 2 <= ml->room) {
        write_buf(ml, ml->log, ml->end, on_written);
        return;
    }
    ml->rq = (struct disk_req){.file = ml->log, .at = ml->end, .len = ml->buf_n + LIMIT_META_ROOM_BYTES};
    submit(ml, DISK_LANE_WRITE, DISK_ROOM, on_room);
}

static void write_waiting(struct metalog *ml) {
    ml->busy = true;
    uint64_t sequence = ml->sequence;
    bool built = build(ml);
    list_splice_back(&ml->flying, &ml->waiting);
    if (!built) {
        ml->sequence = sequence;
        complete(ml, ERR_NOMEM);
        return;
    }
    ml->sequence_back = sequence;
    write_log(ml);
}

void metalog_append(struct metalog *ml, struct metalog_append *a) {
    must(!ml->stopping && a->records.n <= UINT32_MAX - FRAMES_HEAD_BYTES - FRAMES_ALIGN);
    list_push_back(&ml->waiting, &a->link);
    advance(ml);
}

/* ---- snapshot: new files take the old ones' place ---- */

static void snap_end(struct metalog *ml, err e) {
    void (*done)(void *u, err r) = ml->snap_done;
    mem_free(ml->snap);
    ml->snap = NULL;
    ml->snap_done = NULL;
    ml->busy = false;
    done(ml->snap_u, e);
    advance(ml);
}

static void on_temp_dropped(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    ml->temp = NULL;
    snap_end(ml, ml->snap_err);
}

/* Before the rename a refusal changes nothing: snapshot and log stay as they are. */
static void snap_refused(struct metalog *ml, err e) {
    if (!is_refusal(e)) {
        die(ml, "writing the metadata snapshot failed");
        return;
    }
    mark("metalog.snapshot_refused");
    ml->snap_err = ERR_NOSPACE;
    if (!ml->temp) {
        snap_end(ml, ml->snap_err);
        return;
    }
    ml->rq = (struct disk_req){.file = ml->temp};
    submit(ml, DISK_LANE_WRITE, DISK_CLOSE, on_temp_dropped);
}

static void on_old_log_closed(struct disk_req *rq) {
    snap_end(rq->u, ERR_OK);
}

static void on_log_named(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    if (rq->err != ERR_OK) {
        die(ml, "sync of the metadata directory failed");
        return;
    }
    struct disk_file *old = ml->log;
    ml->log = ml->temp;
    ml->temp = NULL;
    ml->room = 0;
    ml->generation++;
    ml->end = ml->proven = (int64_t)frames_size(0);
    ml->torn = false;
    ml->rq = (struct disk_req){.file = old};
    submit(ml, DISK_LANE_WRITE, DISK_CLOSE, on_old_log_closed);
}

static void on_log_renamed(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    if (rq->err != ERR_OK) {
        die(ml, "the metadata log cannot be replaced");
        return;
    }
    sync_file(ml, NULL, &ml->dir, on_log_named);
}

static void on_log_temp_synced(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    if (rq->err != ERR_OK) {
        die(ml, "sync of the metadata log failed");
        return;
    }
    ml->rq = (struct disk_req){.path = LOG_TEMP, .path2 = LOG_PATH};
    submit(ml, DISK_LANE_WRITE, DISK_RENAME, on_log_renamed);
}

static void on_log_temp_written(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    if (rq->err != ERR_OK) {
        snap_refused(ml, rq->err);
    } else {
        sync_file(ml, &ml->temp, NULL, on_log_temp_synced);
    }
}

static void on_log_temp_opened(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    if (rq->err != ERR_OK) {
        snap_refused(ml, rq->err);
        return;
    }
    ml->temp = rq->file;
    ml->buf_n = begin_frame(ml->buf, ml->generation + 1, ml->sequence);
    write_buf(ml, ml->temp, 0, on_log_temp_written);
}

/* The snapshot is in place; the log's frames are all in it: an empty log may follow. */
static void on_snap_named(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    if (rq->err != ERR_OK) {
        die(ml, "sync of the metadata directory failed");
        return;
    }
    ml->rq = (struct disk_req){.path = LOG_TEMP, .flags = DISK_RDWR | DISK_CREATE | DISK_TRUNC};
    submit(ml, DISK_LANE_WRITE, DISK_OPEN, on_log_temp_opened);
}

static void on_snap_renamed(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    if (rq->err != ERR_OK) {
        die(ml, "the metadata snapshot cannot be replaced");
        return;
    }
    sync_file(ml, NULL, &ml->dir, on_snap_named);
}

static void on_snap_closed(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    ml->temp = NULL;
    ml->rq = (struct disk_req){.path = SNAP_TEMP, .path2 = SNAP_PATH};
    submit(ml, DISK_LANE_WRITE, DISK_RENAME, on_snap_renamed);
}

static void on_snap_synced(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    if (rq->err != ERR_OK) {
        die(ml, "sync of the metadata snapshot failed");
        return;
    }
    ml->rq = (struct disk_req){.file = ml->temp};
    submit(ml, DISK_LANE_WRITE, DISK_CLOSE, on_snap_closed);
}

static void on_snap_written(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    if (rq->err != ERR_OK) {
        snap_refused(ml, rq->err);
    } else {
        sync_file(ml, &ml->temp, NULL, on_snap_synced);
    }
}

static void on_snap_opened(struct disk_req *rq) {
    struct metalog *ml = rq->u;
    if (rq->err != ERR_OK) {
        snap_refused(ml, rq->err);
        return;
    }
    ml->temp = rq->file;
    write_buf(ml, ml->temp, 0, on_snap_written);
}

/* The state as one frame, then a frame that says up to which sequence it speaks. */
static bool build_snapshot(struct metalog *ml) {
    size_t first = frames_size(ml->snap_n);
    if (!buf_room(ml, first + frames_size(8))) {
        return false;
    }
    struct frames_head h = {
        .kind = KIND_SNAPSHOT, .bytes = (uint32_t)ml->snap_n, .generation = ml->generation, .sequence = 1};
    memcpy(ml->buf + FRAMES_HEAD_BYTES, ml->snap, ml->snap_n);
    frames_seal(ml->buf, &h);
    be64_put(ml->buf + first + FRAMES_HEAD_BYTES, ml->sequence);
    h = (struct frames_head){.kind = KIND_END, .bytes = 8, .generation = ml->generation, .sequence = 2};
    frames_seal(ml->buf + first, &h);
    ml->buf_n = first + frames_size(8);
    return true;
}

static void write_snapshot(struct metalog *ml) {
    ml->busy = true;
    if (!build_snapshot(ml)) {
        snap_refused(ml, ERR_NOMEM);
        return;
    }
    ml->rq = (struct disk_req){.path = SNAP_TEMP, .flags = DISK_RDWR | DISK_CREATE | DISK_TRUNC};
    submit(ml, DISK_LANE_WRITE, DISK_OPEN, on_snap_opened);
}

void metalog_snapshot(struct metalog *ml, void *records, size_t n, void (*done)(void *u, err e), void *u) {
    must(!ml->snap && n <= UINT32_MAX - FRAMES_HEAD_BYTES - FRAMES_ALIGN);
    must(list_empty(&ml->waiting) && list_empty(&ml->flying));     /* the records hold every append */
    ml->snap = records;
    ml->snap_n = n;
    ml->snap_done = done;
    ml->snap_u = u;
    advance(ml);
}

/* ---- what is next ---- */

static void on_stop_synced(struct disk_req *rq) {
    struct metalog *ml = rq->u;    /* the mark is a hint: its sync may fail */
    void (*done)(void *u) = ml->stop_done;
    ml->stop_done = NULL;
    done(ml->stop_u);
}

static void advance(struct metalog *ml) {
    if (ml->busy || ml->dead) {
        return;
    }
    if (ml->torn) {
        ml->busy = true;
        ml->rq = (struct disk_req){.file = ml->log, .at = ml->end};
        submit(ml, DISK_LANE_WRITE, DISK_TRUNCATE, on_cut);
    } else if (ml->snap) {
        write_snapshot(ml);
    } else if (!list_empty(&ml->waiting)) {
        write_waiting(ml);
    } else if (ml->stopping && ml->stop_done && !ml->slot_busy) {
        ml->busy = true;
        sync_file(ml, &ml->mark, NULL, on_stop_synced);
    }
}

void metalog_stop(struct metalog *ml, void (*done)(void *u), void *u) {
    ml->stopping = true;
    ml->stop_done = done;
    ml->stop_u = u;
    advance(ml);
}
