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
    int64_t retention_bytes;
};

struct topicconf_entry {
    span name, value;
};

/* Broker-wide defaults from c (log.segment.bytes, log.message.timestamp.type, …). */
void topicconf_defaults(const struct conf *c, struct topicconf *ret);
/* Overlay. Entries have passed topicconf_check; one that a stored log holds and this version would refuse is left out. */
void topicconf_overlay(struct topicconf *t, const struct topicconf_entry *e, size_t n);
/* S4.7: BAD_SETTING with one line naming the key. A null value is refused. */
err topicconf_check(const struct topicconf_entry *e, size_t n, char *ret_why, size_t cap);
/* Effective value as text of a topic key, for CreateTopics answers (S4.9): own entry, else the broker's default. *ret_own says which. */
const char *topicconf_value(const struct conf *c, const struct topicconf_entry *e, size_t n, const struct conf_key *k, bool *ret_own, char *buf, size_t cap);
