/* Heavy checkpoints (DESIGN 4): off the acknowledgement path, batched, at most one batch per checkpoint_age.
 *
 * A log without index entries to write, with one epoch and without producers needs no file for that: its durable
 * mark tells everything.
 * Happy path: a log is due after heavy_bytes, a roll, when it was left alone for half a minute or more, and at a
 * clean stop. The pass captures its state as of `next` (how many index entries, the producer states) into a job,
 * waits until `stable` has reached that offset, then writes on the write lane: each segment's new index entries,
 * "<offset>.snapshot", and leader-epoch-checkpoint.tmp when the epochs changed. One sync serves the batch; then the
 * checkpoint files are renamed and their directories synced; then lg->heavy moves and the durable mark carries it.
 * The epochs of a small log are written in place: should a crash leave half of them, they are read from its batches, which costs nothing there, and a
 * stop of thousands of logs saves a rename each and a sync.
 * Old snapshots go: the two newest stay, and those at a segment's base (as Kafka keeps them). A stop with many logs
 * leaves that to a later checkpoint.
 * Failure modes: no space or memory: the job is dropped and the log stays due. A failed sync: this log has no more
 * heavy checkpoints in this run (its side files are rebuilt from the log at need); a failed SYNCFS is fatal. A cut
 * of the log below the captured offset drops the job.
 * Runs on: owner shard. */
#include "heavy.h"

#include <string.h>

#include "base/log.h"
#include "base/mark.h"
#include "base/mem.h"
#include "base/must.h"
#include "base/str.h"
#include "store_in.h"

#define JOB_FILES_MAX 8            /* kept open for the sync; a job with more closes them and needs a SYNCFS */
#define SNAPSHOT_BYTES_MAX (8 << 20)
#define AGING_MS 30000
#define IN_PLACE_PART 4            /* a log of less than such a part of heavy_bytes is small */
#define EPOCHS_FILE "leader-epoch-checkpoint"

enum stage {
    STAGE_WAIT,
    STAGE_OFFSETS,
    STAGE_TIMES,
    STAGE_ADVANCE,
    STAGE_SNAPSHOT,
    STAGE_EPOCHS,
    STAGE_LAST,
    STAGE_WRITTEN
};

struct heavy {
    struct list link;              /* st->heavy.jobs */
    struct plog *lg;
    enum stage stage;
    struct plog_heavy_at at;       /* what lg->heavy becomes */
    struct seg *seg;               /* whose index is being written */
    struct seg *active;            /* of the capture; its entries beyond the captured ones are not written */
    struct str snapshot, epochs;
    uint8_t *entries;              /* copied: the log goes on while they are written */
    size_t entries_n;
    struct disk_req rq;
    struct iovec iov;
    struct disk_file *files[JOB_FILES_MAX];
    uint32_t files_n;
    bool files_left_out;           /* closed before the sync */
    bool has_epochs, failed, listed, wrote;
    bool renames;                  /* the epochs are written beside the old ones first */
    int64_t since;                 /* lg->since_heavy at the capture */
    struct disk_entry *found;      /* while old snapshots are removed */
    size_t found_n, found_at;
    char path[NAMES_PATH_CAP], path2[NAMES_PATH_CAP];
};

static void step(struct heavy *hj);
static void batch_step(struct store *st);
static void rename_all(struct store *st);

void heavy_init(struct store *st) {
    struct heavies *hs = &st->heavy;
    *hs = (struct heavies){0};
    list_init(&hs->due);
    list_init(&hs->aging);
    list_init(&hs->jobs);
}

/* ---- what is due ---- */

static bool has_work(const struct plog *lg) {
    return lg->stable.seg && !lg->fenced && !lg->dead && !lg->heavy_off && !lg->heavy_job &&
           (lg->heavy.off != lg->next || lg->rolled || (lg->epochs_changed && lg->epochs.n > 1));
}

static void make_due(struct plog *lg) {
    list_remove(&lg->heavies);
    list_push_back(&lg->st->heavy.due, &lg->heavies);
    lg->heavy_due = true;
}

void heavy_note(struct plog *lg) {
    struct store *st = lg->st;
    struct heavies *hs = &st->heavy;
    lg->touched = true;
    if (lg->heavy_due || lg->heavy_off || lg->heavy_job) {
        return;
    }
    if (lg->since_heavy >= st->conf.heavy_bytes || lg->rolled) {
        make_due(lg);
    } else if (lg->since_heavy > 0 && list_empty(&lg->heavies)) {
        hs->aging_next = list_empty(&hs->aging) ? store_now(st) + AGING_MS : hs->aging_next;
        list_push_back(&hs->aging, &lg->heavies);
    }
}

ms heavy_due(const struct store *st) {
    const struct heavies *hs = &st->heavy;
    if (hs->phase != HEAVY_IDLE || !list_empty(&hs->jobs)) {
        return INT64_MAX;
    }
    ms due = list_empty(&hs->due) ? INT64_MAX : hs->next;
    return !list_empty(&hs->aging) && hs->aging_next < due ? hs->aging_next : due;
}

/* Logs that nobody wrote to since the last look. */
static void age(struct store *st, ms now) {
    struct heavies *hs = &st->heavy;
    if (list_empty(&hs->aging) || now < hs->aging_next) {
        return;
    }
    hs->aging_next = now + AGING_MS;
    list_each_safe(it, &hs->aging) {
        struct plog *lg = list_entry(it, struct plog, heavies);
        if (!lg->touched) {
            make_due(lg);
        }
        lg->touched = false;
    }
}

bool heavy_is_idle(const struct store *st) {
    return st->heavy.jobs_n == 0 && st->heavy.phase == HEAVY_IDLE;
}

bool heavy_is_due(const struct store *st) {
    return st->begun && !st->dead && !list_empty(&st->heavy.due);
}

/* ---- capture ---- */

/* The next segment with entries to write, from `sg` on; NULL after the captured one. */
static struct seg *seg_with_work(const struct heavy *hj, struct seg *sg) {
    for (; sg; sg = sg == hj->active ? NULL : plog_next_seg(hj->lg, sg)) {
        if (sg->index.pend_n > 0 || sg->times.pend_n > 0 || (!sg->indexed && sg != hj->active)) {
            return sg;
        }
    }
    return NULL;
}

static struct seg *first_seg(const struct plog *lg) {
    return list_empty(&lg->segs) ? NULL : list_entry(lg->segs.next, struct seg, link);
}

static void job_free(struct heavy *hj) {
    struct plog *lg = hj->lg;
    struct store *st = lg->st;
    must(hj->files_n == 0);
    list_remove(&hj->link);
    st->heavy.jobs_n--;
    lg->heavy_job = NULL;
    str_done(&hj->snapshot);
    str_done(&hj->epochs);
    mem_free(hj->entries);
    disk_entries_free(hj->found, hj->found_n);
    mem_free(hj);
    plog_put(lg);
}

/* The segment that holds the last batch: the active one, unless a refused roll left it empty. The mark must not tell
 * of a later one than its own. */
static struct seg *last_filled(const struct plog *lg) {
    struct seg *sg = plog_active(lg);
    return sg->size == 0 && sg->link.prev != &lg->segs ? list_entry(sg->link.prev, struct seg, link) : sg;
}

static bool capture(struct plog *lg) {
    struct store *st = lg->st;
    struct heavy *hj = mem_zalloc(MEM_LOG, sizeof *hj);
    if (!hj) {
        return false;
    }
    struct seg *sg = last_filled(lg);
    hj->lg = lg;
    hj->active = sg;
    hj->since = lg->since_heavy;
    str_init(&hj->snapshot, SNAPSHOT_BYTES_MAX);
    str_init(&hj->epochs, SNAPSHOT_BYTES_MAX);
    list_push_back(&st->heavy.jobs, &hj->link);
    st->heavy.jobs_n++;
    lg->heavy_job = hj;
    plog_get(lg);
    if (st->hooks.snapshot(st->hooks.u, lg, &hj->snapshot) != ERR_OK || hj->snapshot.bad) {
        log_warn("store.snapshot", "log='%s-%d' not written: too large or no memory", lg->id.topic, lg->id.partition);
        job_free(hj);
        return false;
    }
    bool files = hj->snapshot.n > 0 || lg->epochs.n > 1 || seg_with_work(hj, first_seg(lg));
    if (lg->epochs_changed && files) {
        epochs_print(&lg->epochs, &hj->epochs);
        hj->has_epochs = !hj->epochs.bad;
        hj->renames = hj->has_epochs && sg->before + sg->size - lg->base_bytes >= st->conf.heavy_bytes / IN_PLACE_PART;
        lg->epochs_changed = !hj->has_epochs;
    }
    hj->at = (struct plog_heavy_at){.off = lg->next,
                                    .segment = sg->base,
                                    .pos = sg->size,
                                    .index_n = segidx_count(&sg->index),
                                    .times_n = segidx_count(&sg->times),
                                    .times_last = sg->time_last,
                                    .max_ts = sg->max_ts,
                                    .max_ts_offset = sg->max_ts_offset};
    lg->rolled = false;
    return true;
}

void heavy_cancel(struct plog *lg, off64 from) {
    struct heavy *hj = lg->heavy_job;
    if (hj && hj->stage == STAGE_WAIT && (hj->at.off > from || lg->fenced || lg->dead)) {
        lg->rolled = true;         /* still due */
        lg->epochs_changed = lg->epochs_changed || hj->has_epochs;
        job_free(hj);
    }
    if (lg->fenced || lg->dead) {
        list_remove(&lg->heavies);
        lg->heavy_due = false;
    }
}

void heavy_spoil(struct plog *lg) {
    if (lg->heavy_job) {
        lg->heavy_job->failed = true;
    }
}

/* ---- one job: files one after the other ---- */

static void submit(struct heavy *hj, enum disk_op op, void (*done)(struct disk_req *rq)) {
    hj->rq.op = op;
    hj->rq.lane = DISK_LANE_WRITE;
    hj->rq.done = done;
    hj->rq.u = hj;
    hj->rq.path = hj->path;
    disk_submit(hj->lg->st->disk, &hj->rq);
}

/* Too many jobs for their files to be synced one by one. */
static bool is_large(const struct store *st) {
    return st->heavy.jobs_n * 4 > SYNC_FILES_MAX;
}

static void on_file_closed(struct disk_req *rq) {
    step(rq->u);
}

static void close_now(struct heavy *hj, struct disk_file *file) {
    hj->files_left_out = true;
    hj->rq.file = file;
    submit(hj, DISK_CLOSE, on_file_closed);
}

/* The file is as it shall be: keep it for the sync, or let the SYNCFS cover it. */
static void file_written(struct heavy *hj, struct disk_file *file) {
    if (hj->files_n == JOB_FILES_MAX || is_large(hj->lg->st)) {
        close_now(hj, file);
    } else {
        hj->files[hj->files_n++] = file;
        step(hj);
    }
}

static void on_file_written(struct disk_req *rq) {
    struct heavy *hj = rq->u;
    hj->failed = hj->failed || rq->err != ERR_OK;
    file_written(hj, rq->file);
}

static void on_file_opened(struct disk_req *rq) {
    struct heavy *hj = rq->u;
    if (rq->err != ERR_OK) {
        hj->failed = true;
        step(hj);
        return;
    }
    hj->wrote = true;
    if (hj->iov.iov_len == 0) {
        file_written(hj, rq->file);
        return;
    }
    hj->rq.iov = &hj->iov;
    hj->rq.iov_n = 1;
    submit(hj, DISK_WRITE, on_file_written);
}

static void on_file_put(struct disk_req *rq) {
    struct heavy *hj = rq->u;
    hj->failed = hj->failed || rq->err != ERR_OK;
    hj->wrote = hj->files_left_out = true;
    step(hj);
}

/* A whole file of one of many jobs, which a SYNCFS covers, takes one request. */
static void write_file(struct heavy *hj, uint32_t flags, int64_t at, const void *p, size_t n) {
    hj->iov = (struct iovec){.iov_base = (void *)(uintptr_t)p, .iov_len = n};
    hj->rq = (struct disk_req){.flags = DISK_RDWR | DISK_CREATE | flags, .at = at};
    if (at == 0 && is_large(hj->lg->st)) {
        hj->rq.iov = &hj->iov;
        hj->rq.iov_n = 1;
        submit(hj, DISK_PUT, on_file_put);
    } else {
        submit(hj, DISK_OPEN, on_file_opened);
    }
}

/* Entries of one index that are not in the file and belong to this checkpoint. */
static uint32_t entries_to_write(const struct heavy *hj, const struct segidx *ix, uint32_t captured) {
    return hj->seg == hj->active ? captured - ix->file_n : ix->pend_n;
}

/* False when there is nothing to write for this index. */
static bool write_index(struct heavy *hj, const struct segidx *ix, uint32_t n, size_t entry_bytes, const char *suffix) {
    if (n == 0 && (ix->file_n > 0 || hj->seg == hj->active)) {
        return false;              /* an empty file is only made for a closed segment, as Kafka has it */
    }
    mem_free(hj->entries);
    hj->entries = mem_alloc(MEM_LOG, n * entry_bytes);
    if (!hj->entries) {
        hj->failed = true;
        return false;
    }
    if (n > 0) {
        memcpy(hj->entries, ix->pend, n * entry_bytes);
    }
    names_segment(&hj->lg->id, hj->seg->base, suffix, hj->path);
    write_file(hj, ix->file_n == 0 ? DISK_TRUNC : 0, (int64_t)ix->file_n * (int64_t)entry_bytes, hj->entries,
               n * entry_bytes);
    return true;
}

static bool write_offsets(struct heavy *hj) {
    const struct segidx *ix = &hj->seg->index;
    return write_index(hj, ix, entries_to_write(hj, ix, hj->at.index_n), SEGIDX_OFFSET_BYTES, ".index");
}

static bool write_times(struct heavy *hj) {
    const struct segidx *ix = &hj->seg->times;
    return write_index(hj, ix, entries_to_write(hj, ix, hj->at.times_n), SEGIDX_TIME_BYTES, ".timeindex");
}

static bool write_snapshot(struct heavy *hj) {
    if (hj->snapshot.n == 0) {
        return false;
    }
    names_segment(&hj->lg->id, hj->at.off, ".snapshot", hj->path);
    write_file(hj, DISK_TRUNC, 0, hj->snapshot.p, hj->snapshot.n);
    return true;
}

static bool write_epochs(struct heavy *hj) {
    if (!hj->has_epochs) {
        return false;
    }
    names_in_dir(&hj->lg->id, hj->renames ? EPOCHS_FILE ".tmp" : EPOCHS_FILE, hj->path);
    write_file(hj, DISK_TRUNC, 0, hj->epochs.p, hj->epochs.n);
    return true;
}

/* One stage; true when a request is on its way. */
static bool run_stage(struct heavy *hj) {
    switch (hj->stage) {
    case STAGE_WAIT:
        hj->seg = seg_with_work(hj, first_seg(hj->lg));
        hj->stage = hj->seg ? STAGE_OFFSETS : STAGE_SNAPSHOT;
        return false;
    case STAGE_OFFSETS:
        hj->stage = STAGE_TIMES;
        return write_offsets(hj);
    case STAGE_TIMES:
        hj->stage = STAGE_ADVANCE;
        return write_times(hj);
    case STAGE_ADVANCE:
        hj->seg = hj->seg == hj->active ? NULL : seg_with_work(hj, plog_next_seg(hj->lg, hj->seg));
        hj->stage = hj->seg ? STAGE_OFFSETS : STAGE_SNAPSHOT;
        return false;
    case STAGE_SNAPSHOT:
        hj->stage = STAGE_EPOCHS;
        return write_snapshot(hj);
    case STAGE_EPOCHS:
        hj->stage = STAGE_LAST;
        return write_epochs(hj);
    case STAGE_LAST:
        hj->stage = STAGE_WRITTEN;
        return false;
    case STAGE_WRITTEN:
        break;
    }
    return true;
}

static void step(struct heavy *hj) {
    bool running = false;
    while (!running && hj->stage != STAGE_WRITTEN) {
        hj->failed = hj->failed || hj->lg->dead || hj->lg->fenced;
        if (hj->failed) {
            hj->stage = STAGE_WRITTEN;
        } else {
            running = run_stage(hj);
        }
    }
    if (!running) {
        hj->lg->st->heavy.running--;
        batch_step(hj->lg->st);
    }
}

/* ---- the end of a job: close its files, remove old snapshots ---- */

static void tidy(struct heavy *hj);

static void on_tidied(struct disk_req *rq) {
    struct heavy *hj = rq->u;
    if (rq->op == DISK_LIST && rq->err == ERR_OK) {
        hj->found = rq->entries;
        hj->found_n = rq->entries_n;
    }
    tidy(hj);
}

static bool is_base(const struct heavy *hj, off64 at) {
    off64 base;
    for (size_t i = 0; i < hj->found_n; i++) {
        if (names_is_segment(hj->found[i].name, ".log", &base) && base == at) {
            return true;
        }
    }
    return false;
}

/* The second newest snapshot: older ones may go. */
static off64 second_newest(const struct heavy *hj) {
    off64 newest = -1, second = -1, at;
    for (size_t i = 0; i < hj->found_n; i++) {
        if (names_is_segment(hj->found[i].name, ".snapshot", &at)) {
            second = at > newest ? newest : at > second ? at : second;
            newest = at > newest ? at : newest;
        }
    }
    return second;
}

/* The next old snapshot's path in hj->path; false when there is none. */
static bool next_old(struct heavy *hj) {
    off64 keep = second_newest(hj), at;
    for (; hj->found_at < hj->found_n; hj->found_at++) {
        if (names_is_segment(hj->found[hj->found_at].name, ".snapshot", &at) && at < keep && !is_base(hj, at)) {
            names_segment(&hj->lg->id, at, ".snapshot", hj->path);
            hj->found_at++;
            return true;
        }
    }
    return false;
}

static void tidy(struct heavy *hj) {
    struct store *st = hj->lg->st;
    if (hj->files_n > 0) {
        hj->rq = (struct disk_req){.file = hj->files[--hj->files_n]};
        submit(hj, DISK_CLOSE, on_tidied);
    } else if (!hj->failed && !hj->lg->dead && hj->snapshot.n > 0 && !hj->listed &&
               st->heavy.batch_n <= HEAVY_BATCH_MAX) {
        hj->listed = true;
        names_dir(&hj->lg->id, hj->path);
        submit(hj, DISK_LIST, on_tidied);
    } else if (!hj->lg->dead && next_old(hj)) {
        submit(hj, DISK_UNLINK, on_tidied);        /* left over on failure: the next checkpoint tries again */
    } else {
        job_free(hj);
        batch_step(st);
    }
}

/* ---- the batch ---- */

static void job_failed(struct heavy *hj) {
    struct plog *lg = hj->lg;
    hj->failed = true;
    lg->rolled = true;             /* still due */
    lg->epochs_changed = lg->epochs_changed || hj->has_epochs;
    lg->heavy_off = lg->heavy_off || lg->st->stopping;
    mark("heavy.failed");
}

static void indexes_written(struct heavy *hj) {
    for (struct seg *sg = first_seg(hj->lg); sg; sg = sg == hj->active ? NULL : plog_next_seg(hj->lg, sg)) {
        hj->seg = sg;
        cold_unload(hj->lg->st, sg);
        segidx_wrote(&sg->index, entries_to_write(hj, &sg->index, hj->at.index_n), SEGIDX_OFFSET_BYTES);
        segidx_wrote(&sg->times, entries_to_write(hj, &sg->times, hj->at.times_n), SEGIDX_TIME_BYTES);
        sg->indexed = sg != hj->active;
    }
}

static void job_succeeded(struct heavy *hj) {
    struct plog *lg = hj->lg;
    must(hj->at.off <= lg->stable.off);            /* T6: side files never speak of what a sync did not cover */
    indexes_written(hj);
    lg->heavy = hj->at;
    lg->heavy_producers = hj->snapshot.n > 0;
    lg->since_heavy -= hj->since;
    marks_note(lg, 0);
    mark("heavy.done");
}

static void tidy_all(struct store *st) {
    struct heavies *hs = &st->heavy;
    hs->phase = HEAVY_TIDYING;
    list_each_safe(it, &hs->jobs) {
        struct heavy *hj = list_entry(it, struct heavy, link);
        if (hj->failed || hj->lg->dead || hj->lg->fenced) {
            job_failed(hj);
        } else {
            job_succeeded(hj);
        }
    }
    hs->holding = true;            /* a tidy may free its job at once; the batch does not end under our feet */
    for (struct list *it = hs->jobs.next; it != &hs->jobs;) {
        struct heavy *hj = list_entry(it, struct heavy, link);
        it = it->next;
        tidy(hj);
    }
    hs->holding = false;
    batch_step(st);
}

/* The sync of these jobs' files failed: final for them in this run. */
static void fail_all(struct store *st) {
    list_each(it, &st->heavy.jobs) {
        struct heavy *hj = list_entry(it, struct heavy, link);
        if (!hj->failed) {
            hj->failed = hj->lg->heavy_off = true;
        }
    }
}

static void on_batch_synced(struct sync_other *so, err e) {
    struct store *st = so->u;
    struct heavies *hs = &st->heavy;
    if (e != ERR_OK && so->rq.op == DISK_SYNCFS) {
        store_fatal(st, "sync of the file system failed: nothing written since the last one is proven");
    }
    if (e != ERR_OK) {
        fail_all(st);
    }
    if (hs->phase == HEAVY_SYNCING) {
        rename_all(st);
    } else {
        tidy_all(st);
    }
}

/* Every file and directory of the jobs that did not fail; too many, or some closed already: the whole file system. */
static void sync_batch(struct store *st, bool names_only) {
    struct heavies *hs = &st->heavy;
    size_t files = 0, dirs = 0;
    bool fs = false;
    for (struct list *it = hs->jobs.next; it != &hs->jobs; it = it->next) {
        struct heavy *hj = list_entry(it, struct heavy, link);
        if (hj->failed || !hj->wrote || (names_only && !hj->renames)) {
            continue;
        }
        fs = dirs == SYNC_FILES_MAX || files + hj->files_n > SYNC_FILES_MAX || (hj->files_left_out && !names_only);
        if (fs) {
            break;                 /* there is no room for one more */
        }
        for (uint32_t i = 0; i < hj->files_n && !names_only; i++) {
            hs->files[files++] = hj->files[i];
        }
        names_dir(&hj->lg->id, hj->path2);
        hs->dirs[dirs++] = hj->path2;
    }
    hs->phase = names_only ? HEAVY_SYNCING_NAMES : HEAVY_SYNCING;
    hs->sync = (struct sync_other){.rq = {.op = fs ? DISK_SYNCFS : DISK_SYNC,
                                          .files = hs->files,
                                          .files_n = fs ? 0 : files,
                                          .dirs = hs->dirs,
                                          .dirs_n = fs ? 0 : dirs},
                                   .done = on_batch_synced,
                                   .u = st};
    sync_other_submit(st, &hs->sync);
    sync_pass(st, store_now(st));
}

static void on_renamed(struct disk_req *rq) {
    struct heavy *hj = rq->u;
    hj->failed = hj->failed || rq->err != ERR_OK;
    hj->lg->st->heavy.running--;
    batch_step(hj->lg->st);
}

/* The new leader-epoch-checkpoint takes its name, now that its bytes are durable. */
static void rename_all(struct store *st) {
    struct heavies *hs = &st->heavy;
    hs->phase = HEAVY_RENAMING;
    list_each(it, &hs->jobs) {
        struct heavy *hj = list_entry(it, struct heavy, link);
        if (hj->failed || !hj->renames || hj->lg->dead) {
            continue;
        }
        hs->running++;
        names_in_dir(&hj->lg->id, EPOCHS_FILE ".tmp", hj->path);
        names_in_dir(&hj->lg->id, EPOCHS_FILE, hj->path2);
        hj->rq = (struct disk_req){.path2 = hj->path2};
        submit(hj, DISK_RENAME, on_renamed);
    }
    batch_step(st);
}

static bool any(const struct store *st, bool with_renames) {
    list_each(it, &st->heavy.jobs) {
        const struct heavy *hj = list_entry(it, struct heavy, link);
        if (!hj->failed && hj->wrote && (!with_renames || hj->renames)) {
            return true;
        }
    }
    return false;
}

static void batch_step(struct store *st) {
    struct heavies *hs = &st->heavy;
    if (hs->running > 0) {
        return;
    }
    if (hs->phase == HEAVY_WRITING) {
        if (any(st, false)) {
            sync_batch(st, false);
        } else {
            tidy_all(st);
        }
    } else if (hs->phase == HEAVY_RENAMING) {
        if (any(st, true)) {
            sync_batch(st, true);
        } else {
            tidy_all(st);
        }
    } else if (hs->phase == HEAVY_TIDYING && list_empty(&hs->jobs) && !hs->holding) {
        hs->phase = HEAVY_IDLE;
        hs->next = store_now(st) + st->conf.checkpoint_age;
        store_settle(st);
    }
}

/* ---- the pass ---- */

static void enlist_all(struct store *st) {
    list_each(it, &st->logs) {
        struct plog *lg = list_entry(it, struct plog, all);
        if (has_work(lg) && !lg->heavy_due) {
            make_due(lg);
        }
    }
}

static void capture_batch(struct store *st, uint32_t max) {
    struct heavies *hs = &st->heavy;
    while (hs->jobs_n < max && !list_empty(&hs->due)) {
        struct plog *lg = list_entry(list_pop_front(&hs->due), struct plog, heavies);
        lg->heavy_due = false;
        if (has_work(lg) && !capture(lg) && st->stopping) {
            lg->heavy_off = true;
        }
    }
}

/* Jobs whose captured offset is stable start to write; the batch as a whole starts when all of them may. */
static void start_jobs(struct store *st) {
    struct heavies *hs = &st->heavy;
    list_each(it, &hs->jobs) {
        struct heavy *hj = list_entry(it, struct heavy, link);
        if (hj->lg->stable.off < hj->at.off) {
            return;
        }
    }
    hs->phase = HEAVY_WRITING;
    uint32_t n = hs->running = hs->batch_n = hs->jobs_n;
    for (struct list *it = hs->jobs.next; n > 0; n--) {
        struct heavy *hj = list_entry(it, struct heavy, link);
        it = it->next;
        step(hj);
    }
}

void heavy_pass(struct store *st, ms now, bool all) {
    struct heavies *hs = &st->heavy;
    if (hs->phase != HEAVY_IDLE || !st->begun || st->dead) {
        return;
    }
    age(st, now);
    if (hs->jobs_n == 0 && all) {
        enlist_all(st);
    }
    if (hs->jobs_n == 0 && !list_empty(&hs->due) && (all || hs->next <= now)) {
        capture_batch(st, all ? HEAVY_BATCH_STOP_MAX : HEAVY_BATCH_MAX);
    }
    if (hs->jobs_n > 0) {
        start_jobs(st);
    }
}
