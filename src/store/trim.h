/* The beginning of a log on its way out: its log start offset moves, and the segments wholly below it go. */
#pragma once

#include "cold.h"
#include "store/plog.h"

struct trims {
    struct list due;               /* struct trim: segments to be taken out of their log, or files to be removed */
    uint32_t running;              /* jobs that remove files */
};

struct trim {                      /* of one log, while there is something to do */
    struct list link;              /* st->trims.due */
    struct list starting;          /* st->marks.starting: the block on its way carries `sent` */
    struct plog *lg;
    struct list moves;             /* struct plog_move, in any order */
    off64 want, sent;              /* where the log start goes; what the block of marks on its way says, -1: nothing */
    int64_t want_bytes, sent_bytes;    /* of the segments before it */
    uint32_t want_segs, sent_segs;
    off64 covered;                 /* up to here durable marks speak of a heavy checkpoint above: recovery needs no file below; -1 */
    bool sent_covers;              /* so does the block on its way */
    struct cold_need *need;        /* while the directory is listed */
    struct trim_job *job;          /* while files are removed */
    off64 *bases;                  /* segments out of the log whose files are still there */
    size_t n;
};

void trim_init(struct store *st);
struct trim *trim_of(struct plog *lg);         /* lg's, made when there is none; NULL without memory */
void trim_rest(struct trim *t);                /* frees it when there is nothing left to do */
/* plog_move.c: tell those whose offset the log start has reached, or, with an error, all who wait. */
void plog_move_finish(struct trim *t, err e);
/* Move lg's start to `to`, at most its stable end and above what is wanted already; durable with a block of marks. The segments must be listed.
 * at_once: a block is due now. NOMEM. */
err trim_begin(struct plog *lg, off64 to, bool at_once);
/* lg goes on in sg: when its log start is where sg begins, nothing before that counts any more. */
void trim_rolled(struct plog *lg, const struct seg *sg);
/* boot: after recovery, segments below the log start are still listed. NOMEM. */
err trim_resume(struct plog *lg);
/* Where the next mark of lg says that it starts, how many bytes and segments lie before. */
void trim_said(const struct plog *lg, off64 *ret_start, int64_t *ret_bytes, uint32_t *ret_segs);
void trim_sent(struct plog *lg);               /* a block with that was built */
void trim_durable(struct store *st, bool ok);  /* that block is durable, or was refused */
void trim_pass(struct store *st);
bool trim_is_idle(const struct store *st);
bool trim_is_over(const struct plog *lg);      /* no file of lg waits to be removed */
void trim_dead(struct plog *lg);               /* the log is gone: who waits gets NO_TOPIC */
void trim_free(struct plog *lg);
/* Files of segments that lie wholly below lg's start and are not in its list: found when its directory was listed. Taken over. */
void trim_left_over(struct plog *lg, off64 *bases, size_t n);
