/* One partition as its owner shard sees it: log, producer window, high watermark, and who waits for it. */
#pragma once

#include "broker/shard.h"
#include "state/prodwin.h"
#include "store/plog.h"

struct part {
    struct map_node node;              /* in sh->parts */
    struct list moved;                 /* in sh->moved while step 4 is owed */
    struct list appends;               /* append_ask.wait, in order of wait_below */
    struct list watches;               /* watch_node.link */
    struct list bounds;                /* offsets_wait.link: waiting for the high watermark */
    struct shard *sh;
    struct meta_topic *topic;          /* one reference */
    struct plog *log;
    struct prodwin *win;               /* NULL until an idempotent producer comes */
    struct log_conf log_conf;
    off64 committed;                   /* high watermark; never above the log's bound */
    off64 log_start;                   /* as step 4 saw it last: whoever moves it calls marks_touch */
    off64 seen;                        /* while uncaching: what readers saw before it was synced */
    bool uncaching;                    /* write.caching went off, and the disk does not hold all that was seen */
    int32_t index, leader_epoch;
};

struct part *part_find(struct shard *sh, uuid topic_id, int32_t index);
/* For whoever wants something of it: one that could not be opened when its topic came, for want of memory, is opened now. NO_TOPIC, NOMEM. */
err part_get(struct shard *sh, uuid topic_id, int32_t index, struct part **ret_pt);
/* boot or turn: no I/O. */
err part_open(struct shard *sh, struct meta_topic *t, int32_t index, struct part **ret_pt);
/* The topic is gone: whoever waits gets NO_TOPIC, the log is deleted, the part freed. */
void part_remove(struct part *pt);
void part_epoch(struct part *pt, int32_t leader_epoch);
/* The topic's settings changed (S16.9). */
void part_conf(struct part *pt);
/* How far the high watermark may rise. */
off64 part_bound(struct part *pt, const struct plog_ends *ends);
void part_free(struct part *pt);       /* shutdown: nobody waits any more; the log belongs to the store */
/* D6 a, b: somebody waits for what is appended to become visible. With write.caching it is once it is written. */
void part_want_visible(struct part *pt);
/* May anything be answered from pt? FENCED: its log is lost (an answer as if it were empty would send consumers back to its start). Then S7.13:
 * current_epoch of the request against ours; -1 is not checked. */
err part_check(const struct part *pt, int32_t current_epoch);
