/* Step 4 of the turn: marks moved, release whoever waited.
 *
 * Happy path: the store says that a log's written or stable end moved (marks_on_moved), the part is noted once, and marks_settle raises the high watermark and lets
 * appends, watches and offset waits go. Failure: marks_on_failed takes back the producer window and fails the appends above `from`.
 * Runs on: owner shard. */
#include "base/must.h"
#include "inside.h"

void marks_touch(struct part *pt) {
    if (list_empty(&pt->moved)) {
        list_push_back(&pt->sh->moved, &pt->moved);
        shard_again(pt->sh);
    }
}

static void marks_on_moved(void *u, struct plog *lg) {
    (void)u;
    marks_touch(plog_user(lg));
}

static void marks_on_failed(void *u, struct plog *lg, off64 from, err why) {
    (void)u;
    struct part *pt = plog_user(lg);
    prod_undo(pt, from);
    append_fail(pt, from, why);
    if (why == ERR_NOSPACE) {
        marks_touch(pt);                           /* offset waits: the end that they wait for came down */
    } else {
        offsets_fail(pt, ERR_FENCED);
    }
}

static void marks_part(struct part *pt) {
    struct plog_ends ends;
    plog_ends(pt->log, &ends);
    off64 bound = part_bound(pt, &ends);
    must(pt->committed <= bound);
    bool rose = pt->committed < bound;
    pt->committed = bound;
    prodwin_stable(pt->win, ends.stable);
    append_settle(pt, ends.written);
    offsets_settle(pt);
    if (rose || pt->log_start != ends.start) {     /* who waits below the new start has nothing to wait for; sessions tell it (S7.35) */
        pt->log_start = ends.start;
        watch_wake(pt);
    }
}

void marks_settle(struct shard *sh) {
    struct list *link;
    while ((link = list_pop_front(&sh->moved)) != NULL) {
        marks_part(list_entry(link, struct part, moved));
    }
}

static err marks_snapshot(void *u, struct plog *lg, struct str *ret_file) {
    (void)u;
    const struct part *pt = plog_user(lg);
    return pt->win == NULL ? ERR_OK : prodwin_snapshot(pt->win, ret_file);
}

static err marks_snapshot_load(void *u, struct plog *lg, span file, off64 at) {
    (void)u, (void)at;
    struct part *pt = plog_user(lg);
    return prod_load(pt, file);
}

/* Replay is note in a loop. A producer too many is dropped, oldest first, by prodwin itself. */
static void marks_replay(void *u, struct plog *lg, const struct batch_head *h) {
    (void)u;
    struct part *pt = plog_user(lg);
    if (h->producer_id < 0 || (h->attributes & BATCH_ATTR_CONTROL) != 0) {
        return;
    }
    prodwin_stable(pt->win, h->base_offset);       /* what is read back is stable: at the ceiling the oldest go, not the newest */
    if (prod_reserve(pt, h) == ERR_OK) {
        prod_note(pt, h);
    }
}

static void marks_on_fatal(void *u, const char *why) {
    struct shard *sh = u;
    sh->node->on_fatal(sh->node->u, why);
}

void marks_hooks(struct shard *sh, struct store_hooks *ret) {
    *ret = (struct store_hooks){
        .u = sh,
        .moved = marks_on_moved,
        .failed = marks_on_failed,
        .snapshot = marks_snapshot,
        .snapshot_load = marks_snapshot_load,
        .replay = marks_replay,
        .fatal = marks_on_fatal,
    };
}
