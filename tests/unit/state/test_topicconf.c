/* Goal: a topic's settings: defaults from the broker's, own values over them, refusals (S4.7), BR-052's per-topic limit.
 * Method: tables. */
#include "state/topicconf.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "wire/batch.h"

static struct conf *conf;
static char why[500];

static void setup(void) { ck_assert_int_eq(conf_new(&conf), ERR_OK); }
static void teardown(void) { conf_free(conf); }

static void put(const char *name, const char *value) {
    ck_assert_msg(conf_put(conf, span_str(name), span_str(value), CONF_FILE, why, sizeof why) == ERR_OK, "%s", why);
}

static struct topicconf_entry entry(const char *name, const char *value) { return (struct topicconf_entry){span_str(name), span_str(value)}; }

START_TEST(defaults_are_kafkas) {
    struct topicconf t;
    topicconf_defaults(conf, &t);
    ck_assert_int_eq(t.max_message_bytes, 1048588);
    ck_assert_int_eq(t.segment_bytes, 1073741824);
    ck_assert_int_eq(t.segment_age, 604800000);
    ck_assert_int_eq(t.segment_jitter, 0);
    ck_assert_int_eq(t.index_interval_bytes, 4096);
    ck_assert_int_eq(t.index_bytes_max, 10485760);
    ck_assert_int_eq(t.ts_type, TS_CREATE_TIME);
    ck_assert_int_eq(t.ts_before_max, INT64_MAX);
    ck_assert_int_eq(t.ts_after_max, 3600000);                 /* S5.14: an hour in Kafka 4 */
    ck_assert_int_eq(t.min_insync_replicas, 1);
    ck_assert_int_eq(t.codec, -1);
    ck_assert(t.cleanup_delete && !t.cleanup_compact && !t.write_caching);
    ck_assert_int_eq(t.retention_age, 604800000);
    ck_assert_int_eq(t.retention_bytes, -1);
}
END_TEST

START_TEST(broker_settings_are_defaults) {
    put("message.max.bytes", "2000");
    put("log.segment.bytes", "1MiB");
    put("log.roll.hours", "1");
    put("log.roll.jitter.ms", "5s");
    put("log.message.timestamp.type", "LogAppendTime");
    put("log.message.timestamp.before.max.ms", "1d");
    put("log.retention.minutes", "2");
    put("log.cleanup.policy", "compact,delete");
    put("compression.type", "lz4");
    put("write.caching", "yes");
    put("min.insync.replicas", "2");
    struct topicconf t;
    topicconf_defaults(conf, &t);
    ck_assert_int_eq(t.max_message_bytes, 2000);
    ck_assert_int_eq(t.segment_bytes, 1 << 20);
    ck_assert_int_eq(t.segment_age, 3600000);
    ck_assert_int_eq(t.segment_jitter, 5000);
    ck_assert_int_eq(t.ts_type, TS_LOG_APPEND_TIME);
    ck_assert_int_eq(t.ts_before_max, 86400000);
    ck_assert_int_eq(t.retention_age, 120000);
    ck_assert(t.cleanup_delete && t.cleanup_compact && t.write_caching);
    ck_assert_int_eq(t.codec, CODEC_LZ4);
    ck_assert_int_eq(t.min_insync_replicas, 2);
}
END_TEST

/* BR-052: the topic's limit counts, not the broker's. */
START_TEST(own_values_win) {
    put("message.max.bytes", "2000");
    struct topicconf t;
    topicconf_defaults(conf, &t);
    struct topicconf_entry e[] = {
        entry("cleanup.policy", "compact"),     entry("compression.type", "uncompressed"),
        entry("flush.ms", "1000"),              entry("max.message.bytes", "100kB"),
        entry("retention.bytes", "5GiB"),       entry("retention.ms", "-1"),
        entry("message.timestamp.type", "LogAppendTime"), entry("write.caching", "true"),
        entry("segment.ms", "10m"),
    };
    size_t n = sizeof e / sizeof e[0];
    ck_assert_int_eq(topicconf_check(e, n, why, sizeof why), ERR_OK);
    topicconf_overlay(&t, e, n);
    ck_assert_int_eq(t.max_message_bytes, 100000);
    ck_assert(t.cleanup_compact && !t.cleanup_delete && t.write_caching);
    ck_assert_int_eq(t.codec, CODEC_NONE);
    ck_assert_int_eq(t.retention_bytes, INT64_C(5) << 30);
    ck_assert_int_eq(t.retention_age, -1);
    ck_assert_int_eq(t.ts_type, TS_LOG_APPEND_TIME);
    ck_assert_int_eq(t.segment_age, 600000);
    ck_assert_int_eq(t.segment_bytes, 1073741824);
}
END_TEST

static void refused(struct topicconf_entry e, const char *words) {
    ck_assert_int_eq(topicconf_check(&e, 1, why, sizeof why), ERR_BAD_SETTING);
    ck_assert_msg(strstr(why, words) != NULL, "'%s' does not say '%s'", why, words);
}

/* S4.7: unknown or malformed keys are refused, and the line names the key. */
START_TEST(refusals) {
    refused(entry("cleanup.polcy", "delete"), "unknown topic setting 'cleanup.polcy': did you mean cleanup.policy?");
    refused(entry("", "x"), "unknown topic setting ''");
    refused(entry("num.partitions", "3"), "unknown topic setting 'num.partitions'");
    refused(entry("cleanup.policy", "shred"), "cleanup.policy: 'shred'");
    refused(entry("retention.ms", "soon"), "retention.ms: 'soon'");
    refused(entry("retention.ms", "-2"), "retention.ms: '-2' is too small: the least is -1");
    refused(entry("segment.bytes", "0"), "segment.bytes");
    refused(entry("compression.type", "rar"), "compression.type");
    refused(entry("preallocate", "perhaps"), "preallocate");
    refused(entry("min.cleanable.dirty.ratio", "2"), "min.cleanable.dirty.ratio");
    refused(entry("remote.storage.enable", "true"), "no tiered storage");
    refused((struct topicconf_entry){SPAN_LIT("retention.ms"), SPAN_NULL}, "retention.ms: null is no value");
    refused((struct topicconf_entry){SPAN_NULL, SPAN_NULL}, "unknown topic setting");
    struct topicconf_entry lag[] = {entry("max.compaction.lag.ms", "5"), entry("min.compaction.lag.ms", "6")};
    ck_assert_int_eq(topicconf_check(lag, 2, why, sizeof why), ERR_BAD_SETTING);
    ck_assert_int_eq(topicconf_check(lag, 1, why, sizeof why), ERR_OK);
    ck_assert_int_eq(topicconf_check(NULL, 0, why, sizeof why), ERR_OK);
}
END_TEST

/* Every topic key that Kafka knows can be set to its own default, honoured or not. */
START_TEST(every_key_takes_its_default) {
    int n = 0;
    for (size_t i = 0; i < conf_keys_n; i++) {
        if ((conf_keys[i].flags & CONF_TOPIC) != 0) {
            struct topicconf_entry e = {span_str(conf_keys[i].name), span_str(conf_keys[i].value == NULL ? "" : conf_keys[i].value)};
            ck_assert_msg(topicconf_check(&e, 1, why, sizeof why) == ERR_OK, "%s", why);
            n++;
        }
    }
    ck_assert_int_eq(n, 34);                                  /* 33 of Kafka 4.2 and write.caching */
}
END_TEST

/* Broker settings that changed while it runs are defaults of topics; a value that this version would refuse, and what is no such default, is passed over. */
START_TEST(live_broker_settings) {
    struct topicconf t;
    topicconf_defaults(conf, &t);
    struct topicconf_entry e[] = {
        entry("log.retention.ms", "5000"), entry("message.max.bytes", "2kB"),    entry("log.segment.bytes", "much"), entry("num.io.threads", "3"),
        entry("retention.bytes", "7"),     entry("log.cleanup.policy", "compact"), entry("write.caching", "yes"),   entry("no.such", "1"),
    };
    topicconf_overlay_broker(&t, e, sizeof e / sizeof e[0]);
    ck_assert_int_eq(t.retention_age, 5000);
    ck_assert_int_eq(t.max_message_bytes, 2000);
    ck_assert_int_eq(t.segment_bytes, 1073741824);
    ck_assert_int_eq(t.retention_bytes, -1);       /* that is a topic's key */
    ck_assert(t.cleanup_compact && !t.cleanup_delete && t.write_caching);
    struct topicconf before = t;
    topicconf_overlay_broker(&t, NULL, 0);
    ck_assert_mem_eq(&before, &t, sizeof t);
}
END_TEST

/* Every honoured key reaches its field. */
START_TEST(every_field) {
    struct topicconf t;
    topicconf_defaults(conf, &t);
    ck_assert_int_eq(t.delete_retention, 86400000);
    ck_assert_int_eq(t.file_delete_delay, 60000);
    ck_assert_int_eq(t.local_retention_age, -2);
    ck_assert_int_eq(t.local_retention_bytes, -2);
    ck_assert_int_eq(t.compaction_lag_min, 0);
    ck_assert_int_eq(t.compaction_lag_max, INT64_MAX);
    ck_assert_int_eq(t.dirty_ppm, 500000);
    ck_assert_int_eq(t.gzip_level, -1);
    ck_assert_int_eq(t.lz4_level, 9);
    ck_assert_int_eq(t.zstd_level, 3);
    ck_assert_int_eq(t.flush_messages, INT64_MAX);
    ck_assert_int_eq(t.flush_age, INT64_MAX);
    ck_assert(!t.unclean_election && !t.preallocate);
    struct topicconf_entry e[] = {
        entry("delete.retention.ms", "1"), entry("file.delete.delay.ms", "2"), entry("local.retention.ms", "3"), entry("local.retention.bytes", "4"),
        entry("min.compaction.lag.ms", "5"), entry("max.compaction.lag.ms", "6"), entry("min.cleanable.dirty.ratio", " 0.25 "), entry("compression.gzip.level", "7"),
        entry("compression.lz4.level", "8"), entry("compression.zstd.level", "-9"), entry("flush.messages", "10"), entry("flush.ms", "11"),
        entry("unclean.leader.election.enable", "true"), entry("preallocate", "true"), entry("min.insync.replicas", "3"), entry("index.interval.bytes", "12"),
        entry("segment.index.bytes", "13"), entry("segment.jitter.ms", "14"), entry("message.timestamp.before.max.ms", "15"), entry("message.timestamp.after.max.ms", "16"),
    };
    ck_assert_int_eq(topicconf_check(e, sizeof e / sizeof e[0], why, sizeof why), ERR_OK);
    topicconf_overlay(&t, e, sizeof e / sizeof e[0]);
    int64_t got[] = {t.delete_retention, t.file_delete_delay, t.local_retention_age, t.local_retention_bytes, t.compaction_lag_min, t.compaction_lag_max};
    for (int64_t i = 0; i < 6; i++) {
        ck_assert_int_eq(got[i], i + 1);
    }
    ck_assert_int_eq(t.dirty_ppm, 250000);
    ck_assert_int_eq(t.gzip_level + t.lz4_level + t.zstd_level, 7 + 8 - 9);
    ck_assert_int_eq(t.flush_messages, 10);
    ck_assert_int_eq(t.flush_age, 11);
    ck_assert(t.unclean_election && t.preallocate);
    ck_assert_int_eq(t.min_insync_replicas, 3);
    ck_assert_int_eq(t.index_interval_bytes, 12);
    ck_assert_int_eq(t.index_bytes_max, 13);
    ck_assert_int_eq(t.segment_jitter, 14);
    ck_assert_int_eq(t.ts_before_max, 15);
    ck_assert_int_eq(t.ts_after_max, 16);
}
END_TEST

int main(void) {
    Suite *s = suite_create("topicconf");
    TCase *t = tcase_create("topicconf");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, defaults_are_kafkas);
    tcase_add_test(t, broker_settings_are_defaults);
    tcase_add_test(t, own_values_win);
    tcase_add_test(t, refusals);
    tcase_add_test(t, every_key_takes_its_default);
    tcase_add_test(t, live_broker_settings);
    tcase_add_test(t, every_field);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
