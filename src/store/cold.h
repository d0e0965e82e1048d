/* What reads beyond the tail need: segments not listed yet, closed files, indexes not in memory. */
#pragma once

#include "base/list.h"
#include "store/plog.h"

struct seg;
struct store;

struct colds {
    uint32_t busy;                 /* needs under way */
    struct list loaded;            /* segs with a loaded index, least recently used first */
    int64_t loaded_bytes;
};

void cold_init(struct store *st);
bool cold_is_busy(const struct store *st);
/* Forget what was loaded of sg's index files. */
void cold_unload(struct store *st, struct seg *sg);

/* A reader's need of the segment that holds offset `at`: listed, file open and pinned, and its indexes in memory
 * when asked. The caller fills lg, at, index, times, rebuild, ready, u and keeps the struct; lg stays until ready
 * ran. ready(OK): the caller unpins nd->seg when done. */
struct cold_need {
    struct plog *lg;
    off64 at;
    bool index, times;
    bool list;                     /* only the directory: all segments are listed, and when each was written last; nothing is pinned */
    bool rebuild;                  /* an index entry proved wrong: build them from the segment */
    void (*ready)(struct cold_need *nd, err e);
    void *u;
    struct seg *seg;               /* answer */
    struct seg *held;              /* private */
    struct disk_req rq;            /* private */
    struct disk_file *file;
    uint8_t *buf;
    uint32_t entries_n;
    bool pinned, loading_times, out_of_memory, listed;
    char path[320];
};
void cold_need_start(struct cold_need *nd);
