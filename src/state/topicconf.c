/* One topic's settings as the broker obeys them, and their rules.
 * Happy path: defaults from the broker's settings, overlaid by the topic's own texts, which topicconf_check let in.
 * Failure modes: BAD_SETTING with one line that names the key (S4.7). Runs on: any. */
#include "state/topicconf.h"

#include <stdio.h>
#include <string.h>

#include "base/must.h"
#include "wire/batch.h"

/* Where a topic key lands in struct topicconf. */
struct topicconf_field {
    const char *name;
    void (*set)(struct topicconf *t, const struct conf_key *k, span value);
};

/* The texts have passed conf_value_check. */
static int64_t number(const struct conf_key *k, span value) {
    int64_t v = 0;
    char why[200];
    must(conf_value_int(k, value, &v, why, sizeof why) == ERR_OK);
    return v;
}

static bool truth(const struct conf_key *k, span value) {
    bool b = false;
    char why[200];
    must(conf_value_bool(k, value, &b, why, sizeof why) == ERR_OK);
    return b;
}

static void set_cleanup(struct topicconf *t, const struct conf_key *k, span value) {
    (void)k;
    span item;
    t->cleanup_delete = t->cleanup_compact = false;
    while (conf_value_next(&value, &item)) {
        t->cleanup_delete = t->cleanup_delete || span_eq_str(item, "delete");
        t->cleanup_compact = t->cleanup_compact || span_eq_str(item, "compact");
    }
}

static void set_codec(struct topicconf *t, const struct conf_key *k, span value) {
    (void)k;
    static const struct { const char *name; int8_t codec; } names[] = {
        {"producer", -1}, {"uncompressed", CODEC_NONE}, {"gzip", CODEC_GZIP}, {"snappy", CODEC_SNAPPY}, {"lz4", CODEC_LZ4}, {"zstd", CODEC_ZSTD},
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (span_eq_str(conf_value_trim(value), names[i].name)) {
            t->codec = names[i].codec;
        }
    }
}

static void set_ts_type(struct topicconf *t, const struct conf_key *k, span value) {
    (void)k;
    t->ts_type = span_eq_str(conf_value_trim(value), "LogAppendTime") ? TS_LOG_APPEND_TIME : TS_CREATE_TIME;
}

static void set_dirty(struct topicconf *t, const struct conf_key *k, span value) {
    (void)k;
    t->dirty_ppm = conf_value_ppm(value);
}

#define SET_NUMBER(field, type) \
    static void set_##field(struct topicconf *t, const struct conf_key *k, span value) { t->field = (type)number(k, value); }
SET_NUMBER(max_message_bytes, int32_t)
SET_NUMBER(segment_bytes, int64_t)
SET_NUMBER(segment_age, ms)
SET_NUMBER(segment_jitter, ms)
SET_NUMBER(index_interval_bytes, int32_t)
SET_NUMBER(index_bytes_max, int32_t)
SET_NUMBER(ts_before_max, ms)
SET_NUMBER(ts_after_max, ms)
SET_NUMBER(min_insync_replicas, int32_t)
SET_NUMBER(retention_age, ms)
SET_NUMBER(retention_bytes, int64_t)
SET_NUMBER(local_retention_age, ms)
SET_NUMBER(local_retention_bytes, int64_t)
SET_NUMBER(delete_retention, ms)
SET_NUMBER(file_delete_delay, ms)
SET_NUMBER(compaction_lag_min, ms)
SET_NUMBER(compaction_lag_max, ms)
SET_NUMBER(gzip_level, int32_t)
SET_NUMBER(lz4_level, int32_t)
SET_NUMBER(zstd_level, int32_t)
SET_NUMBER(flush_messages, int64_t)
SET_NUMBER(flush_age, ms)

static void set_write_caching(struct topicconf *t, const struct conf_key *k, span value) { t->write_caching = truth(k, value); }
static void set_unclean(struct topicconf *t, const struct conf_key *k, span value) { t->unclean_election = truth(k, value); }
static void set_preallocate(struct topicconf *t, const struct conf_key *k, span value) { t->preallocate = truth(k, value); }

static const struct topicconf_field fields[] = {
    {"cleanup.policy", set_cleanup},
    {"compression.gzip.level", set_gzip_level},
    {"compression.lz4.level", set_lz4_level},
    {"compression.type", set_codec},
    {"compression.zstd.level", set_zstd_level},
    {"delete.retention.ms", set_delete_retention},
    {"file.delete.delay.ms", set_file_delete_delay},
    {"flush.messages", set_flush_messages},
    {"flush.ms", set_flush_age},
    {"index.interval.bytes", set_index_interval_bytes},
    {"local.retention.bytes", set_local_retention_bytes},
    {"local.retention.ms", set_local_retention_age},
    {"max.compaction.lag.ms", set_compaction_lag_max},
    {"max.message.bytes", set_max_message_bytes},
    {"message.timestamp.after.max.ms", set_ts_after_max},
    {"message.timestamp.before.max.ms", set_ts_before_max},
    {"message.timestamp.type", set_ts_type},
    {"min.cleanable.dirty.ratio", set_dirty},
    {"min.compaction.lag.ms", set_compaction_lag_min},
    {"min.insync.replicas", set_min_insync_replicas},
    {"preallocate", set_preallocate},
    {"retention.bytes", set_retention_bytes},
    {"retention.ms", set_retention_age},
    {"segment.bytes", set_segment_bytes},
    {"segment.index.bytes", set_index_bytes_max},
    {"segment.jitter.ms", set_segment_jitter},
    {"segment.ms", set_segment_age},
    {"unclean.leader.election.enable", set_unclean},
    {"write.caching", set_write_caching},
};
#define FIELDS_N (sizeof fields / sizeof fields[0])

/* The broker-wide default of topic key k as plain text. */
static const char *default_text(const struct conf *c, const struct conf_key *k, char *buf, size_t cap) {
    if (k->broker_name == NULL) {
        return conf_value_plain(k, span_str(k->value == NULL ? "" : k->value), buf, cap);
    }
    if (k->type == CONF_INT || k->type == CONF_LONG) {
        snprintf(buf, cap, "%lld", (long long)conf_int(c, k->broker_name));        /* older keys may answer, in another unit */
        return buf;
    }
    const char *text = conf_str(c, k->broker_name);
    return conf_value_plain(k, span_str(text == NULL ? "" : text), buf, cap);
}

void topicconf_defaults(const struct conf *c, struct topicconf *ret) {
    struct topicconf t = {.codec = -1};
    for (size_t i = 0; i < FIELDS_N; i++) {
        const struct conf_key *k = conf_key_find(span_str(fields[i].name), CONF_TOPIC);
        char buf[64];
        must(k != NULL);
        fields[i].set(&t, k, span_str(default_text(c, k, buf, sizeof buf)));
    }
    *ret = t;
}

void topicconf_overlay(struct topicconf *t, const struct topicconf_entry *e, size_t n) {
    for (size_t i = 0; i < n; i++) {
        for (size_t f = 0; f < FIELDS_N; f++) {
            const struct conf_key *k = span_eq_str(e[i].name, fields[f].name) ? conf_key_find(e[i].name, CONF_TOPIC) : NULL;
            char why[200];
            if (k != NULL && conf_value_check(k, e[i].value, why, sizeof why) == ERR_OK) {
                fields[f].set(t, k, e[i].value);
            }
        }
    }
}

void topicconf_overlay_broker(struct topicconf *t, const struct topicconf_entry *e, size_t n) {
    for (size_t f = 0; n > 0 && f < FIELDS_N; f++) {
        const struct conf_key *k = conf_key_find(span_str(fields[f].name), CONF_TOPIC);
        for (size_t i = 0; i < n; i++) {
            char why[200];
            if (k->broker_name != NULL && span_eq_str(e[i].name, k->broker_name) && conf_value_check(k, e[i].value, why, sizeof why) == ERR_OK) {
                fields[f].set(t, k, e[i].value);
            }
        }
    }
}

static err unknown(span name, char *why, size_t cap) {
    char shown[128];
    const char *near = conf_key_nearest(name, CONF_TOPIC);
    span_printable(name, shown, sizeof shown);
    if (near == NULL) {
        snprintf(why, cap, "unknown topic setting '%s'", shown);
    } else {
        snprintf(why, cap, "unknown topic setting '%s': did you mean %s?", shown, near);
    }
    return ERR_BAD_SETTING;
}

/* "*", or partition:broker pairs. */
static err check_throttled(const struct conf_key *k, span list, char *why, size_t cap) {
    span item;
    list = conf_value_trim(list);
    while (list.n > 0 && !span_eq_str(list, "*") && conf_value_next(&list, &item)) {
        size_t colons = 0, others = 0;
        for (size_t i = 0; i < item.n; i++) {
            colons += item.p[i] == ':';
            others += item.p[i] != ':' && (item.p[i] < '0' || item.p[i] > '9');
        }
        if (colons != 1 || others > 0 || item.p[0] == ':' || item.p[item.n - 1] == ':') {
            char shown[64];
            snprintf(why, cap, "%s: '%s' is not partition:broker; the value is a list of such pairs, or *", k->name, span_printable(item, shown, sizeof shown));
            return ERR_BAD_SETTING;
        }
    }
    return ERR_OK;
}

static err check_entry(const struct topicconf_entry *e, char *why, size_t cap) {
    const struct conf_key *k = conf_key_find(e->name, CONF_TOPIC);
    if (k == NULL) {
        return unknown(e->name, why, cap);
    }
    if (span_is_null(e->value)) {
        snprintf(why, cap, "%s: null is no value", k->name);
        return ERR_BAD_SETTING;
    }
    if (strcmp(k->name, "remote.storage.enable") == 0 && span_eq_str(conf_value_trim(e->value), "true")) {
        snprintf(why, cap, "remote.storage.enable: there is no tiered storage here");
        return ERR_BAD_SETTING;
    }
    err er = conf_value_check(k, e->value, why, cap);
    return er == ERR_OK && strstr(k->name, ".throttled.replicas") != NULL ? check_throttled(k, e->value, why, cap) : er;
}

static int64_t number_of(const struct topicconf_entry *e, size_t n, const char *name, int64_t otherwise) {
    int64_t v = otherwise;
    for (size_t i = 0; i < n; i++) {
        int64_t got;
        char why[200];
        if (span_eq_str(e[i].name, name) && conf_value_int(conf_key_find(e[i].name, CONF_TOPIC), e[i].value, &got, why, sizeof why) == ERR_OK) {
            v = got;
        }
    }
    return v;
}

err topicconf_check_pairs(const struct topicconf_entry *e, size_t n, char *ret_why, size_t cap) {
    if (number_of(e, n, "min.compaction.lag.ms", 0) > number_of(e, n, "max.compaction.lag.ms", INT64_MAX)) {
        snprintf(ret_why, cap, "min.compaction.lag.ms is above max.compaction.lag.ms");
        return ERR_BAD_SETTING;
    }
    return ERR_OK;
}

err topicconf_check(const struct topicconf_entry *e, size_t n, char *ret_why, size_t cap) {
    for (size_t i = 0; i < n; i++) {
        err er = check_entry(&e[i], ret_why, cap);
        if (er != ERR_OK) {
            return er;
        }
    }
    return topicconf_check_pairs(e, n, ret_why, cap);
}
