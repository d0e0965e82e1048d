/* The sync policy (D6): when, of what, and what it means when it returns. One request in flight per shard. */
#pragma once

#include "base/list.h"
#include "port/disk.h"

struct store;
struct plog;

#define SYNC_LOGS_MAX 8            /* more dirty logs than this: one SYNCFS instead of a fdatasync each */
#define SYNC_FILES_MAX 32

enum sync_in { SYNC_IN_NONE, SYNC_IN_IDLE, SYNC_IN_WANTED, SYNC_IN_COVERED };
enum sync_what { SYNC_LOGS, SYNC_ALL, SYNC_OTHER };

struct sync {
    struct disk_req rq;
    bool busy;
    enum sync_what what;
    struct list idle, wanted;      /* logs with written > stable: nobody waits; somebody waits. Each oldest first */
    struct list covered;           /* by the request in flight */
    uint32_t idle_n, wanted_n;
    ms submitted;
    struct disk_file *files[SYNC_FILES_MAX];
    const char *dirs[SYNC_LOGS_MAX];
    char *dir_names;               /* SYNC_LOGS_MAX names of NAMES_DIR_CAP bytes */
    struct list others;            /* requests of marks and heavy checkpoints that wait for the slot */
    struct sync_other *other;      /* the one in flight */
    bool other_last;               /* the slot served one of `others` last: logs first now */
};

/* A sync that marks or a heavy checkpoint needs; takes its turn in the one slot. rq is filled by the caller (SYNC or
 * SYNCFS). */
struct sync_other {
    struct list link;
    struct disk_req rq;
    void (*done)(struct sync_other *so, err e);
    void *u;
};

err sync_init(struct store *st);
void sync_done(struct store *st);
/* Bytes of lg were written: it is unsynced now. */
void sync_note_written(struct plog *lg);
void sync_want(struct plog *lg);
void sync_forget(struct plog *lg); /* fenced or deleted: in no list any more, unless covered by the one in flight */
void sync_other_submit(struct store *st, struct sync_other *so);
void sync_pass(struct store *st, ms now);
ms sync_due(const struct store *st);
/* Would anything still be unsynced or in flight? */
bool sync_is_idle(const struct store *st);
