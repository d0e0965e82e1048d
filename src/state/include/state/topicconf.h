/* The settings of one topic as the broker obeys them: broker defaults overlaid by the topic's own. Quiet. */
#pragma once

#include "state/conf.h"

enum topicconf_ts_type { TS_CREATE_TIME, TS_LOG_APPEND_TIME };

struct topicconf {
    int32_t max_message_bytes;
    int64_t segment_bytes;
    ms segment_age, segment_jitter;
    int32_t index_interval_bytes, index_bytes_max;
    enum topicconf_ts_type ts_type;
    ms ts_before_max, ts_after_max;            /* INT64_MAX = unlimited */
    int32_t min_insync_replicas;
    int8_t codec;                              /* -1 producer, else enum batch_codec */
    bool cleanup_delete, cleanup_compact;
    bool write_caching;
    ms retention_age;                          /* -1 unlimited */
    int64_t retention_bytes;                   /* -1 unlimited */
    ms local_retention_age;                    /* -2: as retention_age; there is no tiered storage */
    int64_t local_retention_bytes;
    ms delete_retention;                       /* how long compaction keeps a deletion marker */
    ms file_delete_delay;
    ms compaction_lag_min, compaction_lag_max;
    int32_t dirty_ppm;                         /* min.cleanable.dirty.ratio, in parts per million */
    int32_t gzip_level, lz4_level, zstd_level; /* gzip -1: the library's */
    int64_t flush_messages;
    ms flush_age;
    bool unclean_election, preallocate;
};

struct topicconf_entry {
    span name, value;
};

/* Broker-wide defaults from c (log.segment.bytes, log.message.timestamp.type, …). */
void topicconf_defaults(const struct conf *c, struct topicconf *ret);
/* Overlay. Entries have passed topicconf_check; one that a stored log holds and this version would refuse is left out. */
void topicconf_overlay(struct topicconf *t, const struct topicconf_entry *e, size_t n);
/* The same for broker settings that are defaults of topics (log.segment.bytes, ...); others are passed over. */
void topicconf_overlay_broker(struct topicconf *t, const struct topicconf_entry *e, size_t n);
/* S4.7: BAD_SETTING with one line naming the key. A null value is refused. */
err topicconf_check(const struct topicconf_entry *e, size_t n, char *ret_why, size_t cap);
/* What no single entry shows; entries that this version would refuse are passed over. */
err topicconf_check_pairs(const struct topicconf_entry *e, size_t n, char *ret_why, size_t cap);
