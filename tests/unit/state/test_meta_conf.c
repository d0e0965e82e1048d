/* Goal: settings that change while the broker runs (S16.2, S16.6 to S16.10): the rules, the records, what they do to topics, a snapshot that keeps them, and apply that is total over
 * hostile bytes.
 * Method: wishes with their err and words; fixed bytes of the records; random changes against a naive twin; mutated frames; every allocation fails in turn. */
#include "state/meta.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/prng.h"

#define NODE 7

static struct conf *conf;
static struct topicconf defaults;
static struct meta *m;
static struct str frame;
static char why[500];

static uuid id_of(uint8_t n) {
    uuid u = {{0}};
    memset(u.b, n, sizeof u.b);
    return u;
}

static struct meta *fresh(void) {
    struct meta *x;
    ck_assert_int_eq(meta_new(&defaults, 5, &x), ERR_OK);
    return x;
}

static void apply_frame(struct meta *to) {
    ck_assert_int_eq(meta_apply(to, str_span(&frame)), ERR_OK);
    str_clear(&frame);
}

static void create(struct meta *to, const char *name, uint8_t id, const struct topicconf_entry *e, size_t n) {
    struct meta_create in = {.name = span_str(name), .partitions = 2, .replication = -1, .id = id_of(id), .num_partitions_default = 1, .entries = e, .entries_n = n};
    int32_t parts;
    ck_assert_msg(meta_decide_create(to, &in, &frame, &parts, why, sizeof why) == ERR_OK, "%s", why);
    apply_frame(to);
}

static void setup(void) {
    ck_assert_int_eq(conf_new(&conf), ERR_OK);
    topicconf_defaults(conf, &defaults);
    str_init(&frame, LIMIT_META_RECORD_BYTES);
    m = fresh();
    ck_assert_int_eq(meta_decide_format(id_of(9), NODE, &frame), ERR_OK);
    apply_frame(m);
    create(m, "t", 1, NULL, 0);
}

static void teardown(void) {
    meta_free(m);
    str_done(&frame);
    conf_free(conf);
    ck_assert_uint_eq(mem_live(MEM_META), 0);
}

static struct meta_topic *topic(const char *name) { return meta_topic_by_name(m, span_str(name)); }

/* ---- one change in short: kind, name, then "+key=value" set, "-key" delete, ">key=value" append, "<key=value" subtract ---- */

static struct meta_conf_change change_of(const char *text) {
    static const char signs[] = "+->\x3c";
    const char *equals = strchr(text, '=');
    struct meta_conf_change c = {.op = (int8_t)(strchr(signs, text[0]) - signs)};
    c.name = equals == NULL ? span_str(text + 1) : span_of(text + 1, (size_t)(equals - text - 1));
    c.value = equals == NULL ? SPAN_NULL : span_str(equals + 1);
    return c;
}

static err decide(enum meta_kind kind, const char *name, bool replace, const char *const *texts) {
    struct meta_conf_change changes[16];
    struct meta_conf in = {.kind = kind, .name = span_str(name), .changes = changes, .replace = replace, .conf = conf};
    for (; texts[in.changes_n] != NULL; in.changes_n++) {
        changes[in.changes_n] = change_of(texts[in.changes_n]);
    }
    why[0] = '\0';
    return meta_conf_decide(m, &in, &frame, why, sizeof why);
}

#define TEXTS(...) (const char *const[]){__VA_ARGS__ __VA_OPT__(,) NULL}

static void change(enum meta_kind kind, const char *name, const char *const *texts) {
    err e = decide(kind, name, false, texts);
    ck_assert_msg(e == ERR_OK, "%s: %s", texts[0], why);
    apply_frame(m);
}

static void refused(enum meta_kind kind, const char *name, const char *const *texts, err want, const char *words) {
    err e = decide(kind, name, false, texts);
    ck_assert_msg(e == want, "%s: %s instead of %s (%s)", texts[0], err_name(e), err_name(want), why);
    ck_assert_msg(strstr(why, words) != NULL, "'%s' does not say '%s'", why, words);
    ck_assert_uint_eq(frame.n, 0);
}

static const char *own(const char *topic_name, const char *key) {
    static char buf[300];
    struct meta_topic *t = topic(topic_name);
    for (size_t i = 0; i < t->entries_n; i++) {
        if (span_eq_str(t->entries[i].name, key)) {
            snprintf(buf, sizeof buf, "%.*s", (int)t->entries[i].value.n, (const char *)t->entries[i].value.p);
            return buf;
        }
    }
    return NULL;
}

/* ---- topics ---- */

/* S16.6, S16.9 */
START_TEST(topic_operations) {
    change(META_TOPIC, "t", TEXTS("+segment.bytes=1MiB", "+retention.ms=1d"));
    ck_assert_int_eq(topic("t")->conf.segment_bytes, 1 << 20);
    ck_assert_int_eq(topic("t")->conf.retention_age, 86400000);
    change(META_TOPIC, "t", TEXTS("-segment.bytes", "+flush.ms= 5 "));
    ck_assert_int_eq(topic("t")->conf.segment_bytes, 1073741824);
    ck_assert_int_eq(topic("t")->conf.retention_age, 86400000);          /* what is not named stays */
    ck_assert_ptr_null(own("t", "segment.bytes"));
    ck_assert_str_eq(own("t", "flush.ms"), "5");
    ck_assert_uint_eq(topic("t")->entries_n, 2);
    change(META_TOPIC, "t", TEXTS("-segment.bytes"));            /* deleting what is not there is fine */
    change(META_TOPIC, "t", TEXTS("-flush.ms", "-retention.ms"));
    ck_assert_uint_eq(topic("t")->entries_n, 0);
}
END_TEST

/* S16.6: lists begin with what is in effect, and hold nothing twice. */
START_TEST(lists) {
    change(META_TOPIC, "t", TEXTS(">cleanup.policy=compact"));
    ck_assert_str_eq(own("t", "cleanup.policy"), "delete,compact");
    change(META_TOPIC, "t", TEXTS(">cleanup.policy= compact , delete,compact"));
    ck_assert_str_eq(own("t", "cleanup.policy"), "delete,compact");
    change(META_TOPIC, "t", TEXTS("\x3c" "cleanup.policy=delete"));
    ck_assert_str_eq(own("t", "cleanup.policy"), "compact");
    ck_assert(topic("t")->conf.cleanup_compact && !topic("t")->conf.cleanup_delete);
    change(META_TOPIC, "t", TEXTS(">leader.replication.throttled.replicas=0:1"));
    ck_assert_str_eq(own("t", "leader.replication.throttled.replicas"), "0:1");
    change(META_BROKER, "", TEXTS("+log.cleanup.policy=compact"));
    create(m, "u", 2, NULL, 0);
    change(META_TOPIC, "u", TEXTS(">cleanup.policy=delete"));
    ck_assert_str_eq(own("u", "cleanup.policy"), "compact,delete");
    refused(META_TOPIC, "t", TEXTS(">retention.ms=1"), ERR_BAD_SETTING, "retention.ms is no list");
    refused(META_TOPIC, "t", TEXTS("\x3c" "retention.ms=1"), ERR_BAD_SETTING, "retention.ms is no list");
    refused(META_TOPIC, "t", TEXTS(">cleanup.policy=shred"), ERR_BAD_SETTING, "shred");
    refused(META_TOPIC, "t", TEXTS(">cleanup.policy"), ERR_BAD_REQUEST, "null");
}
END_TEST

/* S16.6, S16.8: all or nothing. */
START_TEST(topic_refusals) {
    refused(META_TOPIC, "nowhere", TEXTS("+flush.ms=1"), ERR_NO_TOPIC, "does not exist");
    refused(META_TOPIC, "t", TEXTS("+flush.ms=1", "+retention.sm=1"), ERR_BAD_SETTING, "unknown topic setting 'retention.sm': did you mean retention.ms?");
    refused(META_TOPIC, "t", TEXTS("+flush.ms=1", "+retention.ms=soon"), ERR_BAD_SETTING, "retention.ms: 'soon'");
    refused(META_TOPIC, "t", TEXTS("+retention.ms"), ERR_BAD_REQUEST, "null");
    refused(META_TOPIC, "t", TEXTS("+leader.replication.throttled.replicas=0:1,x"), ERR_BAD_SETTING, "'x' is not partition:broker");
    refused(META_TOPIC, "t", TEXTS("+leader.replication.throttled.replicas=:1"), ERR_BAD_SETTING, "is not partition:broker");
    refused(META_TOPIC, "t", TEXTS("+remote.storage.enable=true"), ERR_BAD_SETTING, "no tiered storage");
    change(META_TOPIC, "t", TEXTS("+max.compaction.lag.ms=5"));
    refused(META_TOPIC, "t", TEXTS("+min.compaction.lag.ms=6"), ERR_BAD_SETTING, "min.compaction.lag.ms is above");
    struct meta_conf_change odd = {.name = SPAN_LIT("flush.ms"), .value = SPAN_LIT("1"), .op = 9};
    struct meta_conf in = {.kind = META_TOPIC, .name = SPAN_LIT("t"), .changes = &odd, .changes_n = 1, .conf = conf};
    ck_assert_int_eq(meta_conf_decide(m, &in, &frame, why, sizeof why), ERR_BAD_REQUEST);
    ck_assert_ptr_null(own("t", "flush.ms"));
}
END_TEST

/* S16.7 */
START_TEST(replaced) {
    change(META_TOPIC, "t", TEXTS("+segment.bytes=1MiB", "+retention.ms=1d"));
    ck_assert_int_eq(decide(META_TOPIC, "t", true, TEXTS("+flush.ms=5")), ERR_OK);
    apply_frame(m);
    ck_assert_uint_eq(topic("t")->entries_n, 1);
    ck_assert_int_eq(topic("t")->conf.segment_bytes, 1073741824);
    ck_assert_int_eq(decide(META_TOPIC, "t", true, TEXTS("+flush.ms=never")), ERR_BAD_SETTING);
    ck_assert_int_eq(decide(META_TOPIC, "t", true, TEXTS()), ERR_OK);
    apply_frame(m);
    ck_assert_uint_eq(topic("t")->entries_n, 0);
    change(META_BROKER, "7", TEXTS("+log.retention.ms=1000"));
    ck_assert_int_eq(decide(META_BROKER, "7", true, TEXTS()), ERR_OK);
    apply_frame(m);
    ck_assert_uint_eq(m->resources_n, 0);
}
END_TEST

/* ---- brokers ---- */

/* S16.2, S16.9: this broker before all brokers before the file, and a topic's own above them. */
START_TEST(broker_layers) {
    struct topicconf_entry e = {SPAN_LIT("segment.bytes"), SPAN_LIT("3000")};
    create(m, "own", 3, &e, 1);
    change(META_BROKER, "", TEXTS("+log.segment.bytes=1000", "+log.retention.ms=5"));
    ck_assert_int_eq(topic("t")->conf.segment_bytes, 1000);
    ck_assert_int_eq(topic("t")->conf.retention_age, 5);
    ck_assert_int_eq(topic("own")->conf.segment_bytes, 3000);
    ck_assert_int_eq(topic("own")->conf.retention_age, 5);
    change(META_BROKER, "7", TEXTS("+log.segment.bytes=2000"));
    ck_assert_int_eq(topic("t")->conf.segment_bytes, 2000);
    ck_assert_int_eq(m->effective.segment_bytes, 2000);
    create(m, "late", 4, NULL, 0);
    ck_assert_int_eq(topic("late")->conf.segment_bytes, 2000);
    change(META_BROKER, "8", TEXTS("+log.segment.bytes=9000"));  /* another broker's */
    ck_assert_int_eq(topic("t")->conf.segment_bytes, 2000);
    change(META_BROKER, "7", TEXTS("-log.segment.bytes"));
    ck_assert_int_eq(topic("t")->conf.segment_bytes, 1000);
    change(META_BROKER, "", TEXTS("-log.segment.bytes"));
    ck_assert_int_eq(topic("t")->conf.segment_bytes, 1073741824);
    ck_assert_int_eq(topic("t")->conf.retention_age, 5);
    ck_assert_int_eq(topic("own")->conf.segment_bytes, 3000);
}
END_TEST

START_TEST(broker_numbers) {
    ck_assert_int_eq(meta_conf_int(m, "max.connections", 77), 77);
    change(META_BROKER, "", TEXTS("+max.connections=5"));
    ck_assert_int_eq(meta_conf_int(m, "max.connections", 77), 5);
    change(META_BROKER, "7", TEXTS("+max.connections=6"));
    ck_assert_int_eq(meta_conf_int(m, "max.connections", 77), 6);
    ck_assert_ptr_eq(meta_conf_find(m, META_BROKER, SPAN_LIT("7")), meta_conf_broker(m));
    ck_assert_ptr_ne(meta_conf_broker(m), meta_conf_brokers(m));
}
END_TEST

START_TEST(broker_refusals) {
    refused(META_BROKER, "", TEXTS("+num.partitions=3"), ERR_BAD_REQUEST, "num.partitions is read when the broker starts");
    refused(META_BROKER, "7", TEXTS("+log.dirs=/x"), ERR_BAD_REQUEST, "restart");
    change(META_BROKER, "7", TEXTS("-log.dirs", "-no.such"));    /* nothing is there to be deleted: fine, as in Kafka */
    refused(META_BROKER, "7", TEXTS("+max.connections=0"), ERR_BAD_REQUEST, "nobody could connect");
    refused(META_BROKER, "7", TEXTS("+ssl.keystore.password=x"), ERR_BAD_REQUEST, "ssl.keystore.password");
    refused(META_BROKER, "", TEXTS("+log.retension.ms=3"), ERR_BAD_SETTING, "did you mean log.retention.ms?");
    refused(META_BROKER, "", TEXTS("+retention.ms=3"), ERR_BAD_SETTING, "its default for all topics is log.retention.ms");
    refused(META_BROKER, "", TEXTS("+listener.name.x.ssl.keystore.type=JKS"), ERR_BAD_SETTING, "no effect");
    refused(META_BROKER, "", TEXTS("+log.retention.ms=soon"), ERR_BAD_REQUEST, "'soon'");
    refused(META_BROKER, "", TEXTS("+log.retention.ms"), ERR_BAD_REQUEST, "null");
}
END_TEST

/* ---- groups and subscriptions ---- */

/* S16.10 */
START_TEST(other_kinds) {
    change(META_GROUP, "g", TEXTS("+consumer.session.timeout.ms=50000"));
    change(META_METRICS, "g", TEXTS("+interval.ms=5000", ">metrics=a,b", ">metrics=b,c"));
    const struct meta_resource *res = meta_conf_find(m, META_METRICS, SPAN_LIT("g"));
    ck_assert_ptr_nonnull(res);
    ck_assert_uint_eq(res->entries_n, 2);
    ck_assert(span_eq_str(res->entries[1].name, "metrics") && span_eq_str(res->entries[1].value, "a,b,c"));
    ck_assert_ptr_nonnull(meta_conf_find(m, META_GROUP, SPAN_LIT("g")));
    ck_assert_ptr_null(meta_conf_find(m, META_GROUP, SPAN_LIT("h")));
    refused(META_GROUP, "g", TEXTS("+interval.ms=5000"), ERR_BAD_SETTING, "unknown group setting 'interval.ms'");
    refused(META_METRICS, "g", TEXTS("+retention.ms=5000"), ERR_BAD_REQUEST, "unknown client metrics setting");
    refused(META_METRICS, "g", TEXTS("+interval.ms=5"), ERR_BAD_REQUEST, "interval.ms");
    refused(META_METRICS, "g", TEXTS("+match=foo=bar"), ERR_BAD_SETTING, "'foo=bar' is not selector=pattern");
    refused(META_METRICS, "g", TEXTS("+match=client_id"), ERR_BAD_SETTING, "is not selector=pattern");
    change(META_METRICS, "h", TEXTS("+match=client_id=a.*,client_source_port=9092"));
    change(META_METRICS, "h", TEXTS("-match"));
    refused(META_GROUP, "g", TEXTS("+consumer.session.timeout.ms=1"), ERR_BAD_SETTING, "below group.consumer.min.session.timeout.ms, which is 45000");
    refused(META_GROUP, "g", TEXTS("+share.partition.max.record.locks=5000"), ERR_BAD_SETTING, "above group.share.max.partition.max.record.locks, which is 4000");
    refused(META_GROUP, "g", TEXTS("+streams.num.standby.replicas=3"), ERR_BAD_SETTING, "above group.streams.max.standby.replicas");
    change(META_METRICS, "g", TEXTS("-interval.ms", "-metrics"));
    ck_assert_ptr_null(meta_conf_find(m, META_METRICS, SPAN_LIT("g")));
    ck_assert_uint_eq(m->resources_n, 1);
}
END_TEST

/* D12 */
START_TEST(limits) {
    m->resources_n += LIMIT_RESOURCES;
    refused(META_GROUP, "one.more", TEXTS("+consumer.session.timeout.ms=50000"), ERR_LIMIT, "the most is 10000");
    m->resources_n -= LIMIT_RESOURCES;
    static char value[40000];
    memset(value, '1', sizeof value - 1);
    value[1] = ':';
    struct meta_conf_change ch = {.name = SPAN_LIT("leader.replication.throttled.replicas"), .value = span_str(value)};
    struct meta_conf in = {.kind = META_TOPIC, .name = SPAN_LIT("t"), .changes = &ch, .changes_n = 1, .conf = conf};
    ck_assert_int_eq(meta_conf_decide(m, &in, &frame, why, sizeof why), ERR_LIMIT);
    ck_assert_ptr_nonnull(strstr(why, "too long"));
}
END_TEST

/* ---- who is told ---- */

static int told_topics, told_brokers;
static void on_conf(void *u, struct meta_topic *t) {
    ck_assert_ptr_eq(u, &told_topics);
    ck_assert_ptr_nonnull(t);
    told_topics++;
}
static void on_broker_conf(void *u) {
    ck_assert_ptr_eq(u, &told_topics);
    told_brokers++;
}

START_TEST(shards_are_told) {
    create(m, "u", 2, NULL, 0);
    m->on_conf = on_conf;
    m->on_broker_conf = on_broker_conf;
    m->u = &told_topics;
    change(META_TOPIC, "t", TEXTS("+flush.ms=1"));
    ck_assert_int_eq(told_topics, 1);
    change(META_GROUP, "g", TEXTS("+consumer.session.timeout.ms=50000"));
    ck_assert_int_eq(told_topics + told_brokers, 1);
    change(META_BROKER, "", TEXTS("+log.retention.ms=1000"));
    ck_assert_int_eq(told_topics, 3);
    ck_assert_int_eq(told_brokers, 1);
}
END_TEST

/* ---- bytes ---- */

/* The stored form is a promise: a change of these bytes needs a new version of the record. */
START_TEST(stored_bytes) {
    ck_assert_int_eq(decide(META_TOPIC, "t", false, TEXTS("+flush.ms=5")), ERR_OK);
    static const uint8_t topic_bytes[] = {0, 0, 0, 34, 0, 7, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                                          2, 9, 'f', 'l', 'u', 's', 'h', '.', 'm', 's', 2, '5', 0, 0};
    ck_assert_uint_eq(frame.n, sizeof topic_bytes);
    ck_assert_mem_eq(frame.p, topic_bytes, sizeof topic_bytes);
    str_clear(&frame);
    ck_assert_int_eq(decide(META_METRICS, "s", false, TEXTS("+match=")), ERR_OK);
    static const uint8_t metrics_bytes[] = {0, 0, 0, 17, 0, 8, 0, 0, 16, 2, 's', 2, 6, 'm', 'a', 't', 'c', 'h', 1, 0, 0};
    ck_assert_uint_eq(frame.n, sizeof metrics_bytes);
    ck_assert_mem_eq(frame.p, metrics_bytes, sizeof metrics_bytes);
    str_clear(&frame);
}
END_TEST

START_TEST(newer_and_damaged) {
    static const uint8_t unknown_topic[] = {0, 0, 0, 22, 0, 7, 0, 0, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 1, 0};
    static const uint8_t newer_kind[] = {0, 0, 0, 9, 0, 8, 0, 0, 64, 2, 's', 1, 0};
    static const uint8_t topic_kind[] = {0, 0, 0, 9, 0, 8, 0, 0, 2, 2, 's', 1, 0};
    static const uint8_t gone_already[] = {0, 0, 0, 9, 0, 8, 0, 0, 32, 2, 's', 1, 0};
    ck_assert_int_eq(meta_apply(m, span_of(unknown_topic, sizeof unknown_topic)), ERR_DAMAGED);
    ck_assert_int_eq(meta_apply(m, span_of(newer_kind, sizeof newer_kind)), ERR_NEWER);
    ck_assert_int_eq(meta_apply(m, span_of(topic_kind, sizeof topic_kind)), ERR_DAMAGED);
    ck_assert_int_eq(meta_apply(m, span_of(gone_already, sizeof gone_already)), ERR_OK);
    ck_assert_uint_eq(m->resources_n, 0);
}
END_TEST

static void expect_entries(const struct topicconf_entry *a, size_t n, const struct topicconf_entry *b, size_t bn) {
    ck_assert_uint_eq(n, bn);
    for (size_t i = 0; i < n; i++) {
        ck_assert(span_eq(a[i].name, b[i].name) && a[i].value.n == b[i].value.n && (a[i].value.n == 0 || memcmp(a[i].value.p, b[i].value.p, a[i].value.n) == 0));
    }
}

static void expect_same(const struct meta *a, const struct meta *b) {
    ck_assert_uint_eq(a->resources_n, b->resources_n);
    ck_assert_mem_eq(&a->effective, &b->effective, sizeof a->effective);
    list_each(it, &a->resources) {
        const struct meta_resource *r = list_entry(it, struct meta_resource, link), *o = meta_conf_find(b, r->kind, r->name);
        ck_assert_ptr_nonnull(o);
        expect_entries(r->entries, r->entries_n, o->entries, o->entries_n);
    }
    list_each(it, &a->topics) {
        const struct meta_topic *t = list_entry(it, struct meta_topic, link), *o = meta_topic_by_id(b, t->id);
        ck_assert_ptr_nonnull(o);
        expect_entries(t->entries, t->entries_n, o->entries, o->entries_n);
        ck_assert_mem_eq(&t->conf, &o->conf, sizeof t->conf);
    }
}

/* A snapshot restores everything; written again it is the same bytes. */
static void expect_round_trip(const struct meta *from) {
    struct str a, b;
    struct meta *copy = fresh();
    str_init(&a, SIZE_MAX);
    str_init(&b, SIZE_MAX);
    ck_assert_int_eq(meta_snapshot(from, &a), ERR_OK);
    ck_assert_int_eq(meta_apply(copy, str_span(&a)), ERR_OK);
    expect_same(from, copy);
    ck_assert_int_eq(meta_snapshot(copy, &b), ERR_OK);
    ck_assert(span_eq(str_span(&a), str_span(&b)));
    str_done(&a);
    str_done(&b);
    meta_free(copy);
}

/* A setting that a newer version stored is kept, does no harm, and may be deleted; it does not stand in the way of other changes. */
START_TEST(settings_of_another_version) {
    ck_assert_int_eq(decide(META_TOPIC, "t", false, TEXTS("+flush.ms=5")), ERR_OK);
    memcpy(memmem(frame.p, frame.n, "flush.ms", 8), "flash.ms", 8);
    apply_frame(m);
    ck_assert_str_eq(own("t", "flash.ms"), "5");
    change(META_TOPIC, "t", TEXTS("+retention.ms=1000"));
    ck_assert_str_eq(own("t", "flash.ms"), "5");
    expect_round_trip(m);
    change(META_TOPIC, "t", TEXTS("-flash.ms"));
    ck_assert_ptr_null(own("t", "flash.ms"));
}
END_TEST

/* ---- model ---- */

static const char *const model_keys[] = {"flush.ms", "retention.ms", "segment.bytes", "max.message.bytes"};
static const char *const model_broker_keys[] = {"log.flush.interval.ms", "log.retention.ms", "log.segment.bytes", "message.max.bytes"};
struct twin {
    int topic[3][4], all[4], one[4];               /* 0: not set */
};

static int64_t *model_field(struct topicconf *t, int key, int64_t *max_message) {
    *max_message = t->max_message_bytes;
    return key == 0 ? &t->flush_age : key == 1 ? &t->retention_age : key == 2 ? &t->segment_bytes : max_message;
}

static void model_compare(const struct twin *tw) {
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "m%d", i);
        for (int k = 0; k < 4; k++) {
            int64_t room;
            int64_t builtin = *model_field(&defaults, k, &room);
            int want = tw->topic[i][k] != 0 ? tw->topic[i][k] : tw->one[k] != 0 ? tw->one[k] : tw->all[k];
            ck_assert_int_eq(*model_field(&topic(name)->conf, k, &room), want != 0 ? want : builtin);
        }
    }
}

START_TEST(model) {
    struct prng r;
    struct twin tw = {0};
    prng_seed(&r, (uint64_t)_i);
    for (uint8_t i = 0; i < 3; i++) {
        create(m, (const char *const[]){"m0", "m1", "m2"}[i], (uint8_t)(20 + i), NULL, 0);
    }
    for (int step = 0; step < 2000; step++) {
        int key = (int)prng_below(&r, 4), value = prng_chance(&r, 1, 3) ? 0 : 1000 + (int)prng_below(&r, 1000), who = (int)prng_below(&r, 5);
        const char *name = (const char *const[]){"m0", "m1", "m2", "7", ""}[who];
        char text[60];
        const char *key_name = who < 3 ? model_keys[key] : model_broker_keys[key];
        snprintf(text, sizeof text, value == 0 ? "-%s" : "+%s=%d", key_name, value);
        change(who < 3 ? META_TOPIC : META_BROKER, name, TEXTS(text));
        (who < 3 ? tw.topic[who] : who == 3 ? tw.one : tw.all)[key] = value;
        model_compare(&tw);
        if (step % 100 == 0) {
            expect_round_trip(m);
        }
    }
}
END_TEST

/* ---- hostile ---- */

START_TEST(hostile_frames) {
    struct prng r;
    struct str good;
    prng_seed(&r, (uint64_t)_i);
    str_init(&good, SIZE_MAX);
    change(META_TOPIC, "t", TEXTS("+segment.bytes=1MiB", "+cleanup.policy=compact"));
    change(META_BROKER, "", TEXTS("+log.retention.ms=1000"));
    change(META_BROKER, "7", TEXTS("+log.segment.bytes=5000"));
    change(META_GROUP, "g", TEXTS("+consumer.session.timeout.ms=50000"));
    ck_assert_int_eq(meta_snapshot(m, &good), ERR_OK);
    ck_assert_int_eq(decide(META_TOPIC, "t", false, TEXTS("-segment.bytes")), ERR_OK);
    str_add(&good, str_span(&frame));
    uint8_t *bytes = mem_alloc(MEM_TEST, good.n);
    int taken = 0, refusals = 0;
    for (int round = 0; round < 2000; round++) {
        memcpy(bytes, good.p, good.n);
        size_t n = prng_chance(&r, 1, 4) ? prng_below(&r, good.n + 1) : good.n;
        for (uint64_t i = prng_below(&r, 4); i > 0; i--) {
            bytes[prng_below(&r, good.n)] = (uint8_t)(prng_chance(&r, 1, 2) ? prng_next(&r) : prng_below(&r, 3) * 127);
        }
        struct meta *x = fresh();
        err er = meta_apply(x, span_of(bytes, n));
        ck_assert(er == ERR_OK || er == ERR_DAMAGED || er == ERR_NEWER || er == ERR_NOMEM);
        er == ERR_OK ? taken++ : refusals++;
        expect_round_trip(x);
        meta_free(x);
    }
    ck_assert_int_gt(taken, 50);
    ck_assert_int_gt(refusals, 300);
    mem_free(bytes);
    str_done(&good);
}
END_TEST

/* Every allocation fails in turn: NOMEM and nothing done, or done. */
START_TEST(torture) {
    int failed = 0;
    change(META_BROKER, "", TEXTS("+log.retention.ms=1000"));
    for (uint64_t nth = 1; nth < 60; nth++) {
        bool broker = nth % 2 == 0;
        mem_fail_nth(nth / 2 + 1);
        err er = broker ? decide(META_BROKER, "", false, TEXTS("+log.retention.ms=2000")) : decide(META_TOPIC, "t", false, TEXTS("+segment.bytes=5000", ">cleanup.policy=compact"));
        er = er == ERR_OK ? meta_apply(m, str_span(&frame)) : er;
        mem_fail_nth(0);
        ck_assert(er == ERR_OK || er == ERR_NOMEM || er == ERR_LIMIT);
        ck_assert_int_eq(topic("t")->conf.segment_bytes, er == ERR_OK && !broker ? 5000 : 1073741824);
        ck_assert_int_eq(topic("t")->conf.retention_age, er == ERR_OK && broker ? 2000 : 1000);
        failed += er != ERR_OK;
        str_done(&frame);
        str_init(&frame, LIMIT_META_RECORD_BYTES);
        if (er == ERR_OK) {
            change(META_TOPIC, "t", TEXTS("-segment.bytes", "-cleanup.policy"));
            change(META_BROKER, "", TEXTS("+log.retention.ms=1000"));
        }
    }
    ck_assert_int_gt(failed, 6);
}
END_TEST

int main(void) {
    Suite *s = suite_create("meta_conf");
    TCase *t = tcase_create("meta_conf");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, topic_operations);
    tcase_add_test(t, lists);
    tcase_add_test(t, topic_refusals);
    tcase_add_test(t, replaced);
    tcase_add_test(t, broker_layers);
    tcase_add_test(t, broker_numbers);
    tcase_add_test(t, broker_refusals);
    tcase_add_test(t, other_kinds);
    tcase_add_test(t, limits);
    tcase_add_test(t, shards_are_told);
    tcase_add_test(t, stored_bytes);
    tcase_add_test(t, newer_and_damaged);
    tcase_add_test(t, settings_of_another_version);
    tcase_add_loop_test(t, model, 0, 3);
    tcase_add_loop_test(t, hostile_frames, 0, 3);
    tcase_add_test(t, torture);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
