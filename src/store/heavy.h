/* Heavy checkpoints: index entries, producer snapshot and leader epochs of a log go to disk, so that recovery need
 * not start before them. */
#pragma once

#include "base/list.h"
#include "sync.h"

struct store;
struct plog;
struct heavy;

#define HEAVY_BATCH_MAX 64         /* logs of one batch, which one sync serves */
#define HEAVY_BATCH_STOP_MAX 1024  /* at a clean stop */

enum heavy_phase { HEAVY_IDLE, HEAVY_WRITING, HEAVY_SYNCING, HEAVY_RENAMING, HEAVY_SYNCING_NAMES, HEAVY_TIDYING };

struct heavies {
    struct list due;               /* logs that want one */
    struct list aging; /* logs with bytes since the last one; those that were left alone for a while get one, too */
    ms aging_next;                 /* when to look at them again */
    struct list jobs;              /* of the batch under way */
    uint32_t jobs_n, batch_n;      /* now; when the batch began */
    uint32_t running;              /* jobs with something to write or to rename on its way */
    enum heavy_phase phase;
    bool holding;                  /* jobs are being walked */
    ms next;                       /* not before: one batch per checkpoint_age at most */
    struct sync_other sync;
    struct disk_file *files[SYNC_FILES_MAX];
    const char *dirs[SYNC_FILES_MAX];
};

void heavy_init(struct store *st);
void heavy_note(struct plog *lg);                  /* bytes were queued or the log rolled: is one due? */
void heavy_pass(struct store *st, ms now, bool all);   /* all: every log with something to write, at once */
void heavy_cancel(struct plog *lg, off64 from);    /* what a job captured above `from` is not to be */
void heavy_spoil(struct plog *lg);                 /* index entries were renumbered: a job under way comes to nothing */
ms heavy_due(const struct store *st);
bool heavy_is_idle(const struct store *st);
bool heavy_is_due(const struct store *st);         /* would a pass now begin a batch? */
