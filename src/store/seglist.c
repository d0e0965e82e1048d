/* The segments of a log as its directory shows them: bases, sizes, what their index files hold.
 *
 * A closed segment's index files must exist and hold whole entries; else the segment is noted as index_bad and gets
 * new ones when it is read (T10, T11). Other files are nobody's business here.
 * Failure modes: NOMEM. Whether the segments make sense together is the caller's to judge.
 * Runs on: owner shard, boot. */
#include "seglist.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "plog_in.h"
#include "store_in.h"

struct found {
    off64 base;
    int64_t size;
    ms mtime;
};

static int by_base(const void *a, const void *b) {
    const struct found *x = a, *y = b;
    return (x->base > y->base) - (x->base < y->base);
}

static const struct disk_entry *entry_named(const struct disk_entry *entries, size_t n, off64 base,
                                            const char *suffix) {
    off64 at;
    for (size_t i = 0; i < n; i++) {
        if (names_is_segment(entries[i].name, suffix, &at) && at == base) {
            return &entries[i];
        }
    }
    return NULL;
}

static void take_index(struct seg *sg, struct segidx *ix, const struct disk_entry *file, size_t entry_bytes) {
    if (!file || file->size % (int64_t)entry_bytes != 0) {
        sg->index_bad = true;
    } else {
        ix->file_n = (uint32_t)(file->size / (int64_t)entry_bytes);
    }
}

static struct seg *seg_from(struct plog *lg, const struct found *f, const struct disk_entry *entries, size_t n) {
    struct seg *sg = seg_new(f->base);
    if (!sg) {
        return NULL;
    }
    sg->lg = lg;
    sg->size = f->size;
    sg->mtime = f->mtime;
    sg->born = store_now(lg->st);
    sg->made = sg->indexed = sg->ts_unknown = true;
    take_index(sg, &sg->index, entry_named(entries, n, f->base, ".index"), SEGIDX_OFFSET_BYTES);
    take_index(sg, &sg->times, entry_named(entries, n, f->base, ".timeindex"), SEGIDX_TIME_BYTES);
    return sg;
}

static void free_all(struct list *segs) {
    for (struct list *it; (it = list_pop_front(segs));) {
        seg_free(list_entry(it, struct seg, link));
    }
}

static err add_found(struct plog *lg, const struct found *found, size_t found_n, const struct disk_entry *entries,
                     size_t n) {
    struct list segs;
    int64_t before = 0;
    list_init(&segs);
    for (size_t i = 0; i < found_n; i++) {
        struct seg *sg = seg_from(lg, &found[i], entries, n);
        if (!sg) {
            free_all(&segs);
            return ERR_NOMEM;
        }
        sg->before = before;
        sg->ordinal = (uint32_t)i;
        before += sg->size;
        list_push_back(&segs, &sg->link);
    }
    list_splice_back(&segs, &lg->segs);
    list_splice_back(&lg->segs, &segs);
    return ERR_OK;
}

/* A closed file without bytes is what a roll left that found no room, before smaller batches went on where it began:
 * no offsets are in it. */
static size_t drop_empty(struct found *found, size_t n, off64 closed) {
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (found[i].size > 0 || found[i].base >= closed) {
            found[kept++] = found[i];
        }
    }
    return kept;
}

off64 seglist_low(const struct plog *lg, const struct disk_entry *entries, size_t n, off64 active) {
    off64 low = active <= lg->start ? active : -1, base;
    if (lg->unrecovered && lg->heavy.off < lg->start) {
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        if (entries[i].size > 0 && names_is_segment(entries[i].name, ".log", &base) && base <= lg->start && base > low) {
            low = base;
        }
    }
    return low;
}

bool seglist_is_left_over(const struct disk_entry *en, off64 low) {
    off64 base;
    return names_ends_with(en->name, NAMES_DELETED) ||
           ((names_is_segment(en->name, ".log", &base) || names_is_segment(en->name, ".index", &base) || names_is_segment(en->name, ".timeindex", &base)) &&
            base < low);
}

size_t seglist_left_over(off64 low, const struct disk_entry *entries, size_t n, off64 **ret_bases) {
    off64 base;
    size_t found = 0;
    off64 *v = NULL;
    for (size_t i = 0; i < n; i++) {
        if (names_is_segment(entries[i].name, ".log", &base) && base < low && (v || (v = mem_alloc(MEM_LOG, n * sizeof *v)))) {
            v[found++] = base;
        }
    }
    *ret_bases = v;
    return found;
}

void seglist_times(struct plog *lg, const struct disk_entry *entries, size_t n) {
    list_each(it, &lg->segs) {
        struct seg *sg = list_entry(it, struct seg, link);
        const struct disk_entry *en = sg->mtime == 0 ? entry_named(entries, n, sg->base, ".log") : NULL;
        sg->mtime = en ? en->mtime : sg->mtime;
    }
}

err seglist_add(struct plog *lg, const struct disk_entry *entries, size_t n, off64 below, off64 closed) {
    struct found *found = mem_alloc(MEM_LOG, n * sizeof *found);
    size_t found_n = 0;
    if (!found) {
        return ERR_NOMEM;
    }
    const off64 low = seglist_low(lg, entries, n, closed);
    for (size_t i = 0; i < n; i++) {
        off64 base;
        if (names_is_segment(entries[i].name, ".log", &base) && base < below && base >= low) {
            found[found_n++] = (struct found){.base = base, .size = entries[i].size, .mtime = entries[i].mtime};
        }
    }
    if (found_n > 0) {
        qsort(found, found_n, sizeof *found, by_base);
        found_n = drop_empty(found, found_n, closed);
    }
    err e = add_found(lg, found, found_n, entries, n);
    mem_free(found);
    return e;
}
