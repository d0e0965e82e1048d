/* A move of the log start that somebody waits for (DeleteRecords).
 *
 * Happy path: the segments are known, trim_begin notes where the start is to go and asks for a block of durable marks at once; when that is synced
 * plog_move_finish tells everybody whose offset is reached. Segments of a former run are listed first.
 * Failure modes: a directory that cannot be listed fails those that wait; a log that is deleted meanwhile, too.
 * Runs on: owner shard. */
#include "base/mem.h"
#include "base/must.h"
#include "store_in.h"

void plog_move_finish(struct trim *t, err e) {
    struct plog *lg = t->lg;
    struct list over;
    list_init(&over);
    list_each_safe(it, &t->moves) {
        if (e != ERR_OK || list_entry(it, struct plog_move, link)->to <= lg->start) {
            list_remove(it);
            list_push_back(&over, it);
        }
    }
    for (struct list *it; (it = list_pop_front(&over));) {
        struct plog_move *mv = list_entry(it, struct plog_move, link);
        mv->err = e;
        mv->done(mv);
    }
}

static void on_listed(struct cold_need *nd, err e) {
    struct trim *t = nd->u;
    struct plog *lg = t->lg;
    off64 to = lg->start;
    mem_free(nd);
    t->need = NULL;
    list_each(it, &t->moves) {
        const struct plog_move *mv = list_entry(it, struct plog_move, link);
        to = mv->to > to ? mv->to : to;
    }
    e = lg->dead ? ERR_NO_TOPIC : lg->fenced ? ERR_FENCED : e;
    e = e == ERR_OK ? trim_begin(lg, to, true) : e;
    if (e != ERR_OK) {
        plog_move_finish(t, e);
    }
    trim_rest(t);
}

/* The segments of a former run must be known first. */
static void list_segs(struct trim *t, struct plog_move *mv) {
    if (t->need) {
        return;                        /* under way */
    }
    t->need = mem_alloc(MEM_LOG, sizeof *t->need);
    if (t->need) {
        *t->need = (struct cold_need){.lg = t->lg, .list = true, .ready = on_listed, .u = t};
        cold_need_start(t->need);
        return;
    }
    list_remove(&mv->link);
    mv->err = ERR_NOMEM;
    mv->done(mv);
    trim_rest(t);
}

void plog_move_start(struct plog *lg, struct plog_move *mv) {
    struct trim *t = lg->fenced || lg->dead ? NULL : trim_of(lg);
    must(mv->to <= lg->stable.off || lg->fenced);
    list_init(&mv->link);
    mv->err = !t ? (lg->fenced || lg->dead ? ERR_FENCED : ERR_NOMEM) : ERR_OK;
    if (!t || mv->to <= lg->start) {
        mv->done(mv);
        return;
    }
    list_push_back(&t->moves, &mv->link);
    if (lg->segs_partial) {
        list_segs(t, mv);
    } else {
        err e = trim_begin(lg, mv->to, true);
        must(e == ERR_OK);             /* it has its struct */
    }
}

void plog_move_cancel(struct plog_move *mv) {
    list_remove(&mv->link);
}
