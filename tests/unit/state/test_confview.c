/* Goal: what is told of one setting (S16.1, S16.2): the value in effect in its own unit, and every layer below it, most specific first; secrets are never told.
 * Method: settings put into file and metadata, layers compared as text. */
#include "state/confview.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

static struct conf *conf;
static struct topicconf defaults;
static struct meta *m;
static struct arena arena;
static char why[400];

static void setup(void) {
    struct str frame;
    uuid id = {{1}};
    str_init(&frame, LIMIT_META_RECORD_BYTES);
    arena_init(&arena, NULL, 1 << 20);
    ck_assert_int_eq(conf_new(&conf), ERR_OK);
    topicconf_defaults(conf, &defaults);
    ck_assert_int_eq(meta_new(&defaults, 5, &m), ERR_OK);
    ck_assert_int_eq(meta_decide_format(id, 7, &frame), ERR_OK);
    ck_assert_int_eq(meta_apply(m, str_span(&frame)), ERR_OK);
    str_done(&frame);
}

static void teardown(void) {
    meta_free(m);
    conf_free(conf);
    arena_done(&arena);
}

static void put(const char *name, const char *value) {
    ck_assert_msg(conf_put(conf, span_str(name), span_str(value), CONF_FILE, why, sizeof why) == ERR_OK, "%s", why);
}

static void live(const char *broker, const char *name, const char *value) {
    struct meta_conf_change ch = {.name = span_str(name), .value = span_str(value)};
    struct meta_conf in = {.kind = META_BROKER, .name = span_str(broker), .changes = &ch, .changes_n = 1, .conf = conf};
    struct str frame;
    str_init(&frame, LIMIT_META_RECORD_BYTES);
    ck_assert_msg(meta_conf_decide(m, &in, &frame, why, sizeof why) == ERR_OK, "%s", why);
    ck_assert_int_eq(meta_apply(m, str_span(&frame)), ERR_OK);
    str_done(&frame);
}

/* "value | name=value(source) ..." */
static const char *told(struct confview v, const char *key) {
    static char buf[1000];
    struct confview_told t;
    const struct conf_key *k = conf_key_find(span_str(key), confview_where(v.kind));
    ck_assert_ptr_nonnull(k);
    struct confview all;
    confview_init(&all, m, conf, v.kind);
    all.own = v.own;
    all.own_n = v.own_n;
    all.brokers = v.brokers;
    ck_assert_int_eq(confview_get(&all, k, &arena, &t), ERR_OK);
    size_t at = (size_t)snprintf(buf, sizeof buf, "%.*s |", t.value.p == NULL ? 4 : (int)t.value.n, t.value.p == NULL ? "null" : (const char *)t.value.p);
    for (size_t i = 0; i < t.n; i++) {
        span s = t.layers[i].value;
        at += (size_t)snprintf(buf + at, sizeof buf - at, " %s=%.*s(%d)", t.layers[i].name, s.p == NULL ? 4 : (int)s.n, s.p == NULL ? "null" : (const char *)s.p,
                               t.layers[i].source);
    }
    return buf;
}

static struct confview topic_of(const struct topicconf_entry *e, size_t n) { return (struct confview){.kind = META_TOPIC, .own = e, .own_n = n}; }
static const struct confview broker = {.kind = META_BROKER}, brokers = {.kind = META_BROKER, .brokers = true};

START_TEST(defaults_only) {
    ck_assert_str_eq(told(topic_of(NULL, 0), "segment.bytes"), "1073741824 | log.segment.bytes=1073741824(5)");
    ck_assert_str_eq(told(topic_of(NULL, 0), "retention.ms"), "604800000 | log.retention.hours=168(5)");
    ck_assert_str_eq(told(topic_of(NULL, 0), "segment.jitter.ms"), "0 | log.roll.jitter.hours=0(5)");
    ck_assert_str_eq(told(broker, "log.retention.ms"), "604800000 | log.retention.hours=168(5)");
    ck_assert_str_eq(told(broker, "log.retention.minutes"), "10080 | log.retention.hours=168(5)");
    ck_assert_str_eq(told(broker, "socket.request.max.bytes"), "104857600 | socket.request.max.bytes=104857600(5)");
    ck_assert_str_eq(told(broker, "broker.rack"), "null | broker.rack=null(5)");
    ck_assert_str_eq(told(topic_of(NULL, 0), "min.cleanable.dirty.ratio"), "0.5 | log.cleaner.min.cleanable.ratio=0.5(5)");
}
END_TEST

/* S16.2 */
START_TEST(every_layer) {
    struct topicconf_entry e = {SPAN_LIT("retention.ms"), SPAN_LIT("7d")};
    put("log.retention.hours", "100");
    put("log.retention.minutes", "5h");
    live("", "log.retention.ms", "200000");
    live("7", "log.retention.ms", "300000");
    live("8", "log.retention.ms", "400000");
    const char *below = " log.retention.ms=300000(2) log.retention.ms=200000(3) log.retention.minutes=300(4) log.retention.hours=100(4) log.retention.hours=168(5)";
    char want[400];
    snprintf(want, sizeof want, "604800000 | retention.ms=604800000(1)%s", below);
    ck_assert_str_eq(told(topic_of(&e, 1), "retention.ms"), want);
    snprintf(want, sizeof want, "300000 |%s", below);
    ck_assert_str_eq(told(topic_of(NULL, 0), "retention.ms"), want);
    ck_assert_str_eq(told(broker, "log.retention.ms"), want);
    ck_assert_str_eq(told(brokers, "log.retention.ms"),
                     "200000 | log.retention.ms=200000(3) log.retention.minutes=300(4) log.retention.hours=100(4) log.retention.hours=168(5)");
    ck_assert_str_eq(told(broker, "log.retention.minutes"), "300 | log.retention.minutes=300(4) log.retention.hours=100(4) log.retention.hours=168(5)");
}
END_TEST

/* S16.1: -1 means the same in every unit. */
START_TEST(unlimited) {
    put("log.retention.hours", "-1");
    ck_assert_str_eq(told(broker, "log.retention.ms"), "-1 | log.retention.hours=-1(4) log.retention.hours=168(5)");
    put("log.roll.hours", "2147483647");
    ck_assert_str_eq(told(topic_of(NULL, 0), "segment.ms"), "7730941129200000 | log.roll.hours=2147483647(4) log.roll.hours=168(5)");
}
END_TEST

/* Values as Kafka prints them. */
START_TEST(plain_values) {
    struct topicconf_entry e[] = {{SPAN_LIT("preallocate"), SPAN_LIT("YES")}, {SPAN_LIT("cleanup.policy"), SPAN_LIT(" compact ")}, {SPAN_LIT("segment.bytes"), SPAN_LIT("64MiB")}};
    ck_assert_str_eq(told(topic_of(e, 3), "preallocate"), "true | preallocate=true(1) log.preallocate=false(5)");
    ck_assert_str_eq(told(topic_of(e, 3), "cleanup.policy"), "compact | cleanup.policy=compact(1) log.cleanup.policy=delete(5)");
    ck_assert_str_eq(told(topic_of(e, 3), "segment.bytes"), "67108864 | segment.bytes=67108864(1) log.segment.bytes=1073741824(5)");
    ck_assert_str_eq(told(broker, "node.id"), "1 | node.id=1(5) broker.id=-1(5)");
    put("broker.id", "7");
    ck_assert_str_eq(told(broker, "node.id"), "7 | broker.id=7(4) node.id=1(5) broker.id=-1(5)");
    put("listeners", "PLAINTEXT://:1");
    ck_assert_str_eq(told(broker, "listeners"), "PLAINTEXT://:1 | listeners=PLAINTEXT://:1(4) listeners=PLAINTEXT://127.0.0.1:9092(5)");
}
END_TEST

/* CreateTopics shows what it was asked for: of a key that stands twice the last counts. */
START_TEST(twice) {
    struct topicconf_entry e[] = {{SPAN_LIT("flush.ms"), SPAN_LIT("1")}, {SPAN_LIT("flush.ms"), SPAN_LIT("2")}};
    ck_assert_str_eq(told(topic_of(e, 2), "flush.ms"), "2 | flush.ms=2(1) log.flush.scheduler.interval.ms=9223372036854775807(5)");
}
END_TEST

START_TEST(secrets) {
    put("ssl.keystore.password", "hush");
    ck_assert_str_eq(told(broker, "ssl.keystore.password"), "null | ssl.keystore.password=null(4)");
}
END_TEST

/* S16.10 */
START_TEST(groups_and_subscriptions) {
    struct topicconf_entry e = {SPAN_LIT("consumer.session.timeout.ms"), SPAN_LIT("50s")};
    struct confview g = {.kind = META_GROUP, .own = &e, .own_n = 1}, s = {.kind = META_METRICS};
    ck_assert_str_eq(told(g, "consumer.session.timeout.ms"), "50000 | consumer.session.timeout.ms=50000(8) group.consumer.session.timeout.ms=45000(5)");
    ck_assert_str_eq(told(g, "share.isolation.level"), "read_uncommitted | share.isolation.level=read_uncommitted(5)");
    ck_assert_str_eq(told(s, "interval.ms"), "300000 | interval.ms=300000(5)");
    ck_assert_str_eq(told(s, "match"), " | match=(5)");
}
END_TEST

/* Every key of every kind has at least one layer, and memory that fails is said. */
START_TEST(every_key) {
    static const enum meta_kind kinds[] = {META_TOPIC, META_BROKER, META_METRICS, META_GROUP};
    struct confview_told t;
    for (size_t i = 0; i < conf_keys_n; i++) {
        for (size_t k = 0; k < 4; k++) {
            struct confview v;
            confview_init(&v, m, conf, kinds[k]);
            if ((conf_keys[i].flags & confview_where(v.kind)) != 0) {
                ck_assert_int_eq(confview_get(&v, &conf_keys[i], &arena, &t), ERR_OK);
                ck_assert_uint_gt(t.n, 0);
                ck_assert_msg(v.kind != META_TOPIC || t.value.p != NULL, "%s has no value", conf_keys[i].name);
            }
        }
    }
    struct arena none;
    arena_init(&none, NULL, 0);
    struct confview v;
    confview_init(&v, m, conf, META_BROKER);
    ck_assert_int_eq(confview_get(&v, conf_key_find(SPAN_LIT("num.partitions"), CONF_BROKER), &none, &t), ERR_NOMEM);
    arena_done(&none);
}
END_TEST

int main(void) {
    Suite *s = suite_create("confview");
    TCase *t = tcase_create("confview");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, defaults_only);
    tcase_add_test(t, every_layer);
    tcase_add_test(t, unlimited);
    tcase_add_test(t, plain_values);
    tcase_add_test(t, twice);
    tcase_add_test(t, secrets);
    tcase_add_test(t, groups_and_subscriptions);
    tcase_add_test(t, every_key);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
