/* Side files held against what the segments say.
 *
 * Happy path: every index entry names a batch's place and an offset in it, every time entry an offset of the segment
 * and a growing time, every snapshot has its checksum, the epochs parse.
 * Failure modes: whatever disagrees is damage of that file; the broker rebuilds it from its segment at the next
 * unclean start.
 * Runs on: an offline tool's thread. */
#include <stdio.h>
#include <string.h>

#include "base/be.h"
#include "base/crc.h"
#include "base/mem.h"
#include "epochs.h"
#include "inspect_in.h"
#include "names.h"

#define SIDE_BYTES_MAX ((size_t)64 << 20)
#define SNAPSHOT_CRC_AT 2
#define SNAPSHOT_BODY_AT 6

static const struct inspect_place *place_at(const struct inspect_places *pl, int64_t position) {
    size_t lo = 0, hi = pl->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (pl->v[mid].position < position) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo < pl->n && pl->v[lo].position == position ? &pl->v[lo] : NULL;
}

static span read_side(struct inspect *in, const char *path) {
    void *buf = NULL;
    size_t n = 0;
    err e = disk_read_all(in->disk, path, SIDE_BYTES_MAX, &buf, &n);
    if (e != ERR_OK && e != ERR_NOT_FOUND) {
        inspect_bad(in, path, 0, err_text(e));
    }
    return e == ERR_OK ? span_of(buf, n) : SPAN_NULL;
}

static void free_side(span s) { mem_free((void *)(uintptr_t)s.p); }

static void check_offsets(struct inspect *in, const char *path, off64 base, const struct inspect_places *pl) {
    span s = read_side(in, path);
    if (s.n % 8 != 0) {
        inspect_bad(in, path, (int64_t)(s.n - s.n % 8), "half an index entry");
    }
    for (size_t at = 0; at + 8 <= s.n; at += 8) {
        off64 offset = base + be32_get(s.p + at);
        const struct inspect_place *p = place_at(pl, be32_get(s.p + at + 4));
        if (!p || offset != p->last) {
            inspect_bad(in, path, (int64_t)at, "an index entry that names no batch of the segment");
            break;
        }
    }
    free_side(s);
}

static void check_times(struct inspect *in, const char *path, off64 base, const struct inspect_places *pl) {
    span s = read_side(in, path);
    ms before = INT64_MIN;
    size_t next = 0;
    if (s.n % 12 != 0) {
        inspect_bad(in, path, (int64_t)(s.n - s.n % 12), "half a time index entry");
    }
    for (size_t at = 0; at + 12 <= s.n; at += 12) {
        ms ts = (ms)be64_get(s.p + at);
        off64 offset = base + be32_get(s.p + at + 8);
        while (next < pl->n && pl->v[next].last < offset) {
            next++;
        }
        if (ts <= before || next == pl->n || pl->v[next].last != offset || pl->v[next].max_ts != ts) {
            inspect_bad(in, path, (int64_t)at, "a time index entry out of order, or not of a batch of the segment");
            break;
        }
        before = ts;
    }
    free_side(s);
}

void inspect_indexes(struct inspect *in, const char *dir, off64 base, const struct inspect_places *pl) {
    char path[NAMES_PATH_CAP];
    names_path_join(dir, base, ".index", path);
    check_offsets(in, path, base, pl);
    names_path_join(dir, base, ".timeindex", path);
    check_times(in, path, base, pl);
}

static void check_snapshot(struct inspect *in, const char *path) {
    span s = read_side(in, path);
    if (s.n > 0 && (s.n < SNAPSHOT_BODY_AT ||
                    be32_get(s.p + SNAPSHOT_CRC_AT) != crc32c(s.p + SNAPSHOT_BODY_AT, s.n - SNAPSHOT_BODY_AT))) {
        inspect_bad(in, path, 0, "the producer snapshot's checksum is wrong");
    }
    free_side(s);
}

static void check_epochs(struct inspect *in, const char *path) {
    span s = read_side(in, path);
    struct epochs es;
    epochs_init(&es);
    if (!span_is_null(s) && epochs_parse(&es, s) == ERR_DAMAGED) {
        inspect_bad(in, path, 0, "the leader epochs are unreadable");
    }
    epochs_done(&es);
    free_side(s);
}

void inspect_sides(struct inspect *in, const char *dir, const struct disk_entry *entries, size_t n) {
    for (size_t i = 0; i < n; i++) {
        char path[NAMES_PATH_CAP];
        off64 base;
        snprintf(path, sizeof path, "%s/%s", dir, entries[i].name);
        if (names_ends_with(entries[i].name, NAMES_DELETED)) {
            inspect_left(in, path);
        } else if (names_is_segment(entries[i].name, ".snapshot", &base)) {
            check_snapshot(in, path);
        } else if (strcmp(entries[i].name, "leader-epoch-checkpoint") == 0) {
            check_epochs(in, path);
        }
    }
}
