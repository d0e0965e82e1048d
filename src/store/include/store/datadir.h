/* The data directory as a whole: whose it is, its lock, its durable marks from the last run. boot and offline tools; synchronous.
 *
 *   <data>/.lock  meta.properties  <topic>-<partition>/...  perigee.meta/{format, metadata.log, metadata.snapshot, marks.<shard>} */
#pragma once

#include "base/map.h"
#include "base/uuid.h"
#include "base/why.h"
#include "port/disk.h"

#define DATADIR_FORMAT 1

struct datadir_mark {              /* the durable mark of one partition: everything below survives power loss */
    uuid topic_id;
    int32_t partition;
    int32_t leader_epoch;          /* of the last batch */
    off64 epoch_start;             /* first offset of leader_epoch */
    off64 start, end;              /* log start, and the mark itself */
    off64 segment;                 /* base offset of the active segment */
    int64_t position;              /* bytes of the active segment below the mark */
    int64_t bytes;                 /* size of all segments */
    ms first_ts;                   /* timestamp that the active segment's age counts from; -1: none yet */
    ms max_ts;                     /* largest timestamp in the active segment below the mark (-1: none), and the last offset of its batch */
    off64 max_ts_offset;
    off64 heavy;                   /* offset of the last heavy checkpoint (index and producer snapshot) */
    off64 heavy_segment;           /* the segment that was active then, and where in it `heavy` lies */
    int64_t heavy_position;
    uint32_t index_entries, timeindex_entries;   /* of that segment's index files, complete up to `heavy` */
    ms timeindex_ts;               /* last timestamp in that time index; -1: empty */
    ms heavy_max_ts;               /* like max_ts and max_ts_offset, as of the heavy checkpoint */
    off64 heavy_max_ts_offset;
    bool has_producers;            /* a producer snapshot exists at `heavy` */
    bool unsettled;                /* this log was fenced when the others stopped cleanly: scan it even so */
    uint32_t segments;             /* how many segment files */
};

struct datadir;
/* Opens or creates. LOCKED, FOREIGN (a Kafka data directory, or somebody's files: said in plain words in ret_why), NEWER, DAMAGED, IO, NOSPACE.
 * ret_why gets one line for the user on failure. node_id and cluster_id are checked against meta.properties when it exists. */
err datadir_open(struct disk *disk, int32_t node_id, uuid fresh_cluster_id, struct datadir **ret_dd, struct why ret_why);
void datadir_free(struct datadir *dd);
uuid datadir_cluster_id(const struct datadir *dd);
bool datadir_is_clean(const struct datadir *dd);           /* the last run stopped cleanly: marks are the whole truth */
uint64_t datadir_generation(const struct datadir *dd);     /* of this run; marks of a higher generation win */
const struct datadir_mark *datadir_mark_find(const struct datadir *dd, uuid topic_id, int32_t partition);
/* Every mark of the last run (NULL starts, NULL ends). */
const struct datadir_mark *datadir_mark_next(const struct datadir *dd, const struct datadir_mark *after);
/* After an unclean stop, before anything is read: syncfs (T5). */
err datadir_settle(struct datadir *dd);
/* Partition directories that no known topic claims; kept and reported, never deleted. */
err datadir_strays(struct datadir *dd, bool (*known)(void *u, const char *dir_name), void *u, void (*on)(void *u, const char *dir_name));
/* Finish deletions whose record is durable but whose files a crash kept: directories "<topic>-<partition>" of a topic that `named` knows and whose
 * partition.metadata holds an id that `gone` confirms. IO, NOSPACE. */
err datadir_bury(struct datadir *dd, bool (*named)(void *u, span topic), bool (*gone)(void *u, span topic, uuid topic_id), void *u);
/* Finish deletions that a crash or a stop interrupted (directories ending in -delete): the first of them. IO. */
err datadir_sweep(struct datadir *dd);
/* The others, for store_remove_dir: a start does not wait for thousands of them. */
void datadir_doomed(const struct datadir *dd, void (*on)(void *u, const char *dir_name), void *u);
