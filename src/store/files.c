/* Open segment descriptors, least recently used first.
 *
 * Happy path: whoever opens a segment's file says so here; when more than files_max are open, the oldest that nobody
 * pins and whose bytes are synced is closed. A descriptor with unsynced bytes stays: an error of its pages may be
 * told to it alone (RELIABILITY 6, rule 4).
 * A close is queued on the lane of whoever made room, before that one's next open: closes that wait for a slow lane
 * while another opens file after file would use up the descriptors.
 * Failure modes: more than files_max may be open while that many logs are unsynced; the sync policy brings them down.
 * Runs on: owner shard. */
#include "files.h"

#include "base/mem.h"
#include "base/must.h"
#include "store_in.h"

#define TRIM_LOOKS_MAX 64          /* descriptors that cannot be closed and that one trim steps over */

void files_init(struct store *st) {
    list_init(&st->files.lru);
}

void files_opened(struct store *st, struct seg *sg) {
    must(sg->file != NULL);
    list_push_back(&st->files.lru, &sg->lru);
    st->files.open++;
}

void files_touch(struct store *st, struct seg *sg) {
    list_remove(&sg->lru);
    list_push_back(&st->files.lru, &sg->lru);
}

void files_pin(struct seg *sg) {
    must(sg->file != NULL);
    sg->pins++;
}

void files_unpin(struct store *st, struct seg *sg, enum disk_lane lane) {
    must(sg->pins > 0);
    sg->pins--;
    if (sg->gone) {
        files_bury(st, sg);
    }
    if (st->files.open > st->conf.files_max) {
        files_trim(st, st->conf.files_max, lane);
    }
}

static void closed(struct disk_req *rq) {
    struct store *st = rq->u;
    st->pending--;
    mem_free(rq);
    store_settle(st);
}

void files_close(struct store *st, struct seg *sg, enum disk_lane lane) {
    must(sg->file && sg->pins == 0);
    struct disk_req *rq = mem_zalloc(MEM_LOG, sizeof *rq);
    if (!rq) {
        return;                    /* stays open; the next trim tries again */
    }
    rq->op = DISK_CLOSE;
    rq->lane = lane;
    rq->file = sg->file;
    rq->done = closed;
    rq->u = st;
    sg->file = NULL;
    list_remove(&sg->lru);
    st->files.open--;
    st->pending++;
    disk_submit(st->disk, rq);
}

void files_bury(struct store *st, struct seg *sg) {
    must(sg->gone);
    if (sg->pins > 0 || sg->holds > 0) {
        return;
    }
    if (sg->file) {
        files_close(st, sg, DISK_LANE_READ);
    }
    if (!sg->file) {               /* else files_trim comes again */
        seg_free(sg);
    }
}

void files_trim(struct store *st, uint32_t max, enum disk_lane lane) {
    uint32_t looks = 0;
    for (struct list *it = st->files.lru.next; it != &st->files.lru && st->files.open > max;) {
        struct seg *sg = list_entry(it, struct seg, lru);
        it = it->next;
        if (sg->gone && sg->pins == 0) {
            files_bury(st, sg);
        } else if (sg->pins == 0 && !sg->dirty && !sg->syncing) {
            files_close(st, sg, lane);
        } else if (++looks > TRIM_LOOKS_MAX) {
            return;
        }
    }
}
