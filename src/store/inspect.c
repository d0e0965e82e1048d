/* The offline look at a data or partition directory: `perigee log dump|verify`.
 *
 * Happy path: read the durable marks (when there are any), walk each partition's segments, print or judge. Nothing
 * is opened for writing and no lock is taken, so a live broker is not disturbed; what it has not written yet is
 * simply not there.
 * Failure modes: below the mark a bad batch, a gap or a missing file is damage (counted, named with file and
 * position); above it, it is a torn tail, which the next start cuts.
 * Runs on: an offline tool's thread. */
#include "store/inspect.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "call.h"
#include "frames.h"
#include "inspect_in.h"
#include "marks_file.h"
#include "names.h"

#define INSPECT_FILE_MAX ((size_t)1 << 30)

void inspect_bad(struct inspect *in, const char *path, int64_t at, const char *what) {
    in->bad++;
    if (!in->json) {
        fprintf(in->out, "DAMAGED %s at %" PRId64 ": %s\n", path, at, what);
        return;
    }
    fprintf(in->out, "{\"finding\":\"damaged\",\"position\":%" PRId64, at);
    inspect_bytes(in->out, "file", span_str(path), true);
    inspect_bytes(in->out, "reason", span_str(what), true);
    fputs("}\n", in->out);
}

void inspect_torn(struct inspect *in, const char *path, int64_t at, int64_t bytes) {
    in->torn++;
    if (!in->json) {
        fprintf(in->out, "torn tail %s at %" PRId64 ": %" PRId64 " bytes above the durable mark, cut at the next start\n", path, at, bytes);
        return;
    }
    fprintf(in->out, "{\"finding\":\"torn\",\"position\":%" PRId64 ",\"bytes\":%" PRId64, at, bytes);
    inspect_bytes(in->out, "file", span_str(path), true);
    fputs("}\n", in->out);
}

void inspect_left(struct inspect *in, const char *path) {
    if (!in->json) {
        fprintf(in->out, "deleted %s: below the log start, removed by the broker\n", path);
        return;
    }
    fputs("{\"finding\":\"deleted\"", in->out);
    inspect_bytes(in->out, "file", span_str(path), true);
    fputs("}\n", in->out);
}

/* ---- durable marks ---- */

static struct inspect_mark *mark_at(struct inspect *in, uuid id, int32_t partition) {
    for (size_t i = 0; i < in->marks_n; i++) {
        if (in->marks[i].mark.partition == partition && uuid_eq(in->marks[i].mark.topic_id, id)) {
            return &in->marks[i];
        }
    }
    return NULL;
}

static err take_mark(struct inspect *in, const struct inspect_mark *m) {
    struct inspect_mark *known = mark_at(in, m->mark.topic_id, m->mark.partition);
    if (known) {
        bool newer = m->generation != known->generation ? m->generation > known->generation
                                                        : m->sequence >= known->sequence;
        *known = newer ? *m : *known;
        return ERR_OK;
    }
    if (in->marks_n == in->marks_cap) {
        size_t cap = in->marks_cap ? 2 * in->marks_cap : 64;
        void *p = mem_realloc(MEM_INDEX, in->marks, cap * sizeof *in->marks);
        if (!p) {
            return ERR_NOMEM;
        }
        in->marks = p;
        in->marks_cap = cap;
    }
    in->marks[in->marks_n++] = *m;
    return ERR_OK;
}

static err on_frame(void *u, const struct frames_head *h, span payload) {
    if (h->kind != MARKS_MOVED && h->kind != MARKS_CLEAN && h->kind != MARKS_OPEN) {
        return ERR_DAMAGED;
    }
    for (size_t at = 0; at + MARKS_ENTRY_BYTES <= payload.n; at += MARKS_ENTRY_BYTES) {
        struct inspect_mark m = {.generation = h->generation, .sequence = h->sequence};
        err e = marks_file_get(payload.p + at, &m.mark, &m.gone);
        e = e == ERR_OK ? take_mark(u, &m) : e;
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

static err read_marks_file(struct inspect *in, const char *name) {
    char path[NAMES_PATH_CAP];
    snprintf(path, sizeof path, "perigee.meta/%s", name);
    void *buf = NULL;
    size_t n = 0, good = 0;
    err e = disk_read_all(in->disk, path, INSPECT_FILE_MAX, &buf, &n);
    if (e != ERR_OK) {
        return e;
    }
    e = frames_walk(span_of(buf, n), on_frame, in, &good);
    mem_free(buf);
    if (e == ERR_DAMAGED) {
        inspect_bad(in, path, (int64_t)good, "a durable mark is unreadable");
        return ERR_OK;
    }
    return e == ERR_TORN ? ERR_OK : e;
}

static err read_marks(struct inspect *in) {
    struct disk_entry *entries = NULL;
    size_t n = 0;
    err e = call_list(in->disk, "perigee.meta", &entries, &n);
    if (e == ERR_NOT_FOUND) {
        return ERR_OK;                 /* one partition's directory, or another broker's */
    }
    for (size_t i = 0; i < n && e == ERR_OK; i++) {
        if (strncmp(entries[i].name, "marks.", 6) == 0 && entries[i].name[6] >= '0' && entries[i].name[6] <= '9') {
            e = read_marks_file(in, entries[i].name);
        }
    }
    disk_entries_free(entries, n);
    return e;
}

/* The topic id of a partition directory; zero when there is none. */
static uuid topic_id_of(struct inspect *in, const char *dir) {
    char path[NAMES_PATH_CAP];
    uuid id = {{0}};
    void *buf = NULL;
    size_t n = 0;
    snprintf(path, sizeof path, "%s/partition.metadata", dir);
    if (disk_read_all(in->disk, path, 4096, &buf, &n) != ERR_OK) {
        return id;
    }
    const char *at = memmem(buf, n, "topic_id: ", 10);
    if (at && (size_t)((const char *)buf + n - at) >= 10 + 22 && uuid_parse(span_of(at + 10, 22), &id) != ERR_OK) {
        inspect_bad(in, path, (int64_t)(at - (const char *)buf), "the topic id is unreadable");
    }
    mem_free(buf);
    return id;
}

/* ---- directories ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct disk_entry *)a)->name, ((const struct disk_entry *)b)->name);
}

static err look_at(struct inspect *in, const char *dir) {
    size_t topic_n;
    int32_t partition = -1;
    const char *slash = strrchr(dir, '/');
    const char *name = slash ? slash + 1 : dir;
    struct inspect_mark *m = NULL;
    if (names_split_dir(name, &topic_n, &partition)) {
        m = mark_at(in, topic_id_of(in, dir), partition);
    }
    in->partitions++;
    return inspect_log(in, dir, m && !m->gone ? &m->mark : NULL);
}

static err look_at_all(struct inspect *in, const struct disk_entry *entries, size_t n) {
    err e = ERR_OK;
    for (size_t i = 0; i < n && e == ERR_OK; i++) {
        size_t topic_n;
        int32_t partition;
        if (entries[i].is_dir && names_split_dir(entries[i].name, &topic_n, &partition)) {
            e = look_at(in, entries[i].name);
        }
    }
    return e;
}

static bool has_segments(const struct disk_entry *entries, size_t n) {
    for (size_t i = 0; i < n; i++) {
        off64 base;
        if (names_is_segment(entries[i].name, ".log", &base)) {
            return true;
        }
    }
    return false;
}

static err look(struct inspect *in, const char *dir) {
    struct disk_entry *entries = NULL;
    size_t n = 0;
    err e = call_list(in->disk, dir, &entries, &n);
    if (e != ERR_OK) {
        return e;
    }
    qsort(entries, n, sizeof *entries, by_name);
    e = read_marks(in);
    if (e == ERR_OK) {
        e = has_segments(entries, n) || strcmp(dir, ".") != 0 ? look_at(in, dir) : look_at_all(in, entries, n);
    }
    disk_entries_free(entries, n);
    mem_free(in->marks);
    return e;
}

err inspect_dump(struct disk *disk, const char *dir, const struct inspect_opts *o, FILE *out) {
    struct inspect in = {.disk = disk, .out = out, .opts = o, .json = o->json};
    return look(&in, dir);
}

err inspect_verify(struct disk *disk, const char *dir, bool json, FILE *out) {
    struct inspect in = {.disk = disk, .out = out, .json = json};
    err e = look(&in, dir);
    if (e != ERR_OK) {
        return e;
    }
    fprintf(out,
            json ? "{\"verdict\":\"%s\",\"partitions\":%" PRIu64 ",\"batches\":%" PRIu64 ",\"records\":%" PRIu64
                   ",\"torn_tails\":%" PRIu64 ",\"damaged_places\":%" PRIu64 "}\n"
                 : "%s: %" PRIu64 " partitions, %" PRIu64 " batches, %" PRIu64 " records, %" PRIu64 " torn tails, %" PRIu64
                   " damaged places\n",
            in.bad ? "damaged" : "sound", in.partitions, in.batches, in.records, in.torn, in.bad);
    return in.bad ? ERR_DAMAGED : ERR_OK;
}
