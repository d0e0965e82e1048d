/* What the files of the offline look share. */
#pragma once

#include "store/datadir.h"
#include "store/inspect.h"
#include "wire/batch.h"

struct inspect_mark {
    struct datadir_mark mark;
    uint64_t generation, sequence;
    bool gone;
};

struct inspect {
    struct disk *disk;
    FILE *out;
    const struct inspect_opts *opts;   /* NULL: verify */
    bool json;
    struct inspect_mark *marks;        /* newest of each partition */
    size_t marks_n, marks_cap;
    uint64_t partitions, batches, records, bad, torn;
};

/* One problem below the mark (or in a side file): counted, printed with file and position. */
void inspect_bad(struct inspect *in, const char *path, int64_t at, const char *what);
/* Bytes above the mark that are no batch: counted, printed; no damage. */
void inspect_torn(struct inspect *in, const char *path, int64_t at, int64_t bytes);
/* A file of what was deleted that is still there: told; no damage. */
void inspect_left(struct inspect *in, const char *path);
/* inspect_log.c: ,"name":"…" or tab name='…', escaped. */
void inspect_bytes(FILE *out, const char *name, span s, bool json);
/* inspect_log.c: dump or verify one partition's directory; m is NULL when no mark is known. NOMEM, IO. */
err inspect_log(struct inspect *in, const char *dir, const struct datadir_mark *m);

/* Where the batches of a segment begin, as the walk found them; the side files are held against it. */
struct inspect_places {
    struct inspect_place {
        off64 base, last;
        int64_t position;
        ms max_ts;
    } *v;
    size_t n, cap;
};
/* inspect_side.c: indexes of one segment, producer snapshots and epochs of one directory. */
void inspect_indexes(struct inspect *in, const char *dir, off64 base, const struct inspect_places *pl);
void inspect_sides(struct inspect *in, const char *dir, const struct disk_entry *entries, size_t n);
