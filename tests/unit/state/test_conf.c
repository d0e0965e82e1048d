/* Goal: the table of settings, values with units, properties files, listeners, and what `config check` says of them (BR-040, BR-041, D9).
 * Method: tables of texts with the value or the words of the refusal; the server.properties that Kafka 4 ships with. */
#include "state/conf.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/prng.h"

static struct conf *conf;
static char why[500];

static void setup(void) { ck_assert_int_eq(conf_new(&conf), ERR_OK); }
static void teardown(void) { conf_free(conf); }

static err put(const char *name, const char *value) {
    why[0] = '\0';
    return conf_put(conf, span_str(name), span_str(value), CONF_FILE, why, sizeof why);
}

static void must_put(const char *name, const char *value) { ck_assert_msg(put(name, value) == ERR_OK, "%s=%s: %s", name, value, why); }

static void refused(const char *name, const char *value, const char *words) {
    ck_assert_msg(put(name, value) == ERR_BAD_SETTING, "%s=%s was taken", name, value);
    ck_assert_msg(strstr(why, words) != NULL, "'%s' does not say '%s'", why, words);
    ck_assert_msg(strstr(why, name) != NULL || strstr(words, "unknown") != NULL, "'%s' does not name %s", why, name);
}

/* ---- the table ---- */

START_TEST(table_is_sorted_and_whole) {
    for (size_t i = 0; i < conf_keys_n; i++) {
        const struct conf_key *k = &conf_keys[i];
        ck_assert_msg(i == 0 || strcmp(conf_keys[i - 1].name, k->name) < 0, "%s is out of order", k->name);
        ck_assert_ptr_eq(conf_key_find(span_str(k->name), CONF_BROKER | CONF_TOPIC | CONF_GROUP | CONF_METRICS), k);
        ck_assert_msg((k->flags & (CONF_BROKER | CONF_TOPIC | CONF_GROUP | CONF_METRICS)) != 0, "%s belongs nowhere", k->name);
        ck_assert_msg((k->flags & (CONF_LIVE | CONF_LIVE_NODE | CONF_OLD)) == 0 || (k->flags & CONF_BROKER) != 0, "%s: only broker settings are live or old", k->name);
        ck_assert_msg(strlen(k->doc) > 15 && k->doc[strlen(k->doc) - 1] == '.', "%s is not documented", k->name);
        if (k->value != NULL) {
            ck_assert_msg(conf_value_check(k, span_str(k->value), why, sizeof why) == ERR_OK, "default of %s: %s", k->name, why);
        }
        bool number = k->type == CONF_INT || k->type == CONF_LONG;
        ck_assert_msg(number ? k->min < k->max : true, "%s has no range", k->name);
        ck_assert_msg(k->unit == CONF_PLAIN || number, "%s has a unit but is no number", k->name);
        ck_assert_msg(k->type != CONF_ENUM || k->choices != NULL, "%s has no choices", k->name);
        if ((k->flags & CONF_IGNORED) != 0) {
            bool said = strstr(k->doc, "gnored") != NULL || strstr(k->doc, "ithout effect") != NULL || strstr(k->doc, "ot acted upon") != NULL ||
                        strstr(k->doc, "ot enforced") != NULL || strstr(k->doc, "not served") != NULL || strstr(k->doc, "not taken") != NULL;
            ck_assert_msg(said, "%s is ignored and does not say so: %s", k->name, k->doc);
        }
        if (k->broker_name != NULL) {
            ck_assert_msg(conf_key_find(span_str(k->broker_name), CONF_BROKER) != NULL, "%s: no broker key %s", k->name, k->broker_name);
        }
    }
}
END_TEST

START_TEST(names_are_found) {
    ck_assert_ptr_nonnull(conf_key_find(SPAN_LIT("listeners"), CONF_BROKER));
    ck_assert_ptr_null(conf_key_find(SPAN_LIT("listeners"), CONF_TOPIC));
    ck_assert_ptr_null(conf_key_find(SPAN_LIT("retention.ms"), CONF_BROKER));
    ck_assert_ptr_nonnull(conf_key_find(SPAN_LIT("write.caching"), CONF_TOPIC));
    ck_assert_ptr_nonnull(conf_key_find(SPAN_LIT("write.caching"), CONF_BROKER));
    ck_assert_ptr_null(conf_key_find(SPAN_LIT(""), CONF_BROKER));
    ck_assert_ptr_null(conf_key_find(SPAN_NULL, CONF_BROKER));
    ck_assert_ptr_null(conf_key_find(SPAN_LIT("zzz"), CONF_BROKER));
}
END_TEST

START_TEST(nearest_name) {
    ck_assert_str_eq(conf_key_nearest(SPAN_LIT("log.retention.hour"), CONF_BROKER), "log.retention.hours");
    ck_assert_str_eq(conf_key_nearest(SPAN_LIT("mesage.max.bytes"), CONF_BROKER), "message.max.bytes");
    ck_assert_str_eq(conf_key_nearest(SPAN_LIT("num_partitions"), CONF_BROKER), "num.partitions");
    ck_assert_str_eq(conf_key_nearest(SPAN_LIT("cleanup.polcy"), CONF_TOPIC), "cleanup.policy");
    ck_assert_ptr_null(conf_key_nearest(SPAN_LIT("quite.something.else.altogether"), CONF_BROKER));
    ck_assert_ptr_null(conf_key_nearest(SPAN_LIT(""), CONF_BROKER));
}
END_TEST

/* ---- values ---- */

START_TEST(numbers_and_units) {
    static const struct { const char *name, *text; int64_t want; } ok[] = {
        {"message.max.bytes", "1048588", 1048588},
        {"message.max.bytes", " 1MiB ", 1 << 20},
        {"message.max.bytes", "64 KiB", 65536},
        {"message.max.bytes", "2MB", 2000000},
        {"message.max.bytes", "3M", 3 << 20},
        {"message.max.bytes", "500B", 500},
        {"log.retention.ms", "7d", 604800000},
        {"log.retention.ms", "-1", -1},
        {"log.retention.ms", "100ms", 100},
        {"log.retention.ms", "2w", 1209600000},
        {"log.retention.ms", "90min", 5400000},
        {"log.retention.hours", "7d", 168},
        {"log.retention.minutes", "2h", 120},
        {"quota.window.size.seconds", "1m", 60},
        {"log.message.timestamp.before.max.ms", "9223372036854775807", INT64_MAX},
        {"num.partitions", "12", 12},
    };
    for (size_t i = 0; i < sizeof ok / sizeof ok[0]; i++) {
        must_put(ok[i].name, ok[i].text);
        ck_assert_msg(conf_int(conf, ok[i].name) == ok[i].want, "%s=%s gave %lld", ok[i].name, ok[i].text, (long long)conf_int(conf, ok[i].name));
    }
    refused("message.max.bytes", "64MX", "64MiB");
    refused("message.max.bytes", "4GiB", "too large");
    refused("message.max.bytes", "-5", "too small");
    refused("message.max.bytes", "", "bytes");
    refused("message.max.bytes", "12abc", "bytes");
    refused("log.retention.ms", "7days", "7d");
    refused("log.retention.ms", "9223372036854775808", "milliseconds");
    refused("log.retention.ms", "9223372036854775807d", "milliseconds");
    refused("log.retention.hours", "90m", "hours");                  /* an hour and a half is no whole number of hours */
    refused("num.partitions", "1k", "whole number");
    refused("num.partitions", "0", "too small: the least is 1");
    refused("shards", "65", "outside 0 to 64");
    refused("num.partitions", "1.5", "whole number");
    refused("num.partitions", "-", "whole number");
}
END_TEST

START_TEST(booleans_enums_lists_doubles) {
    static const char *const yes[] = {"true", "TRUE", "yes", "on"}, *const no[] = {"false", "no", "Off"};
    for (size_t i = 0; i < 4; i++) {
        must_put("protected.mode", yes[i]);
        ck_assert(conf_bool(conf, "protected.mode"));
    }
    for (size_t i = 0; i < 3; i++) {
        must_put("protected.mode", no[i]);
        ck_assert(!conf_bool(conf, "protected.mode"));
    }
    refused("protected.mode", "maybe", "neither true nor false");
    refused("protected.mode", "", "neither true nor false");
    must_put("compression.type", "zstd");
    refused("compression.type", "brotli", "uncompressed,zstd,lz4,snappy,gzip,producer");
    must_put("log.cleanup.policy", "compact, delete");
    must_put("log.cleanup.policy", "");
    refused("log.cleanup.policy", "compact,shred", "'shred' is not one of delete,compact");
    must_put("log.cleaner.min.cleanable.ratio", "0.25");
    refused("log.cleaner.min.cleanable.ratio", "1.5", "outside 0 to 1");
    refused("log.cleaner.min.cleanable.ratio", "half", "not a number");
    refused("log.cleaner.min.cleanable.ratio", "nan", "not a number");
    ck_assert_int_eq(conf_put(conf, SPAN_LIT("broker.rack"), SPAN_LIT("a\0b"), CONF_FILE, why, sizeof why), ERR_BAD_SETTING);
}
END_TEST

START_TEST(unknown_names) {
    refused("log.retention.hour", "1", "unknown setting 'log.retention.hour': did you mean log.retention.hours?");
    refused("completely.made.up.by.nobody", "1", "unknown setting 'completely.made.up.by.nobody'");
    ck_assert(strstr(why, "mean") == NULL);
    refused("retention.ms", "1", "its default for all topics is log.retention.ms");
    must_put("zookeeper.connect", "localhost:2181");                 /* of parts that are not here: dropped without a word */
    must_put("listener.name.internal.sasl.enabled.mechanisms", "PLAIN");
    ck_assert(!conf_key_is_foreign(SPAN_LIT("zookeeper.")));
    ck_assert(!conf_key_is_foreign(SPAN_LIT("zookeeperish")));
}
END_TEST

/* DESIGN 7: built-in < file < environment < --set < dynamic, whatever the order of arrival; the last of equals wins. */
START_TEST(order_of_origins) {
    ck_assert_int_eq(conf_int(conf, "num.partitions"), 1);
    ck_assert_int_eq(conf_origin(conf, "num.partitions"), CONF_DEFAULT);
    ck_assert_int_eq(conf_put(conf, SPAN_LIT("num.partitions"), SPAN_LIT("5"), CONF_SET, why, sizeof why), ERR_OK);
    ck_assert_int_eq(conf_put(conf, SPAN_LIT("num.partitions"), SPAN_LIT("3"), CONF_FILE, why, sizeof why), ERR_OK);
    ck_assert_int_eq(conf_int(conf, "num.partitions"), 5);
    ck_assert_int_eq(conf_put(conf, SPAN_LIT("num.partitions"), SPAN_LIT("6"), CONF_SET, why, sizeof why), ERR_OK);
    ck_assert_int_eq(conf_int(conf, "num.partitions"), 6);
    ck_assert_int_eq(conf_origin(conf, "num.partitions"), CONF_SET);
    ck_assert_str_eq(conf_origin_name(CONF_SET), "--set");
}
END_TEST

START_TEST(older_keys_answer) {
    ck_assert_int_eq(conf_int(conf, "log.retention.ms"), 604800000);
    must_put("log.retention.hours", "2");
    ck_assert_int_eq(conf_int(conf, "log.retention.ms"), 7200000);
    ck_assert_int_eq(conf_int(conf, "log.retention.minutes"), 120);
    ck_assert_int_eq(conf_origin(conf, "log.retention.ms"), CONF_FILE);
    must_put("log.retention.minutes", "3");
    ck_assert_int_eq(conf_int(conf, "log.retention.ms"), 180000);
    must_put("log.retention.ms", "4");
    ck_assert_int_eq(conf_int(conf, "log.retention.ms"), 4);
    must_put("log.roll.hours", "1");
    ck_assert_int_eq(conf_int(conf, "log.roll.ms"), 3600000);
    ck_assert_int_eq(conf_int(conf, "node.id"), 1);
    must_put("broker.id", "7");
    ck_assert_int_eq(conf_int(conf, "node.id"), 7);
    must_put("node.id", "8");
    ck_assert_int_eq(conf_int(conf, "node.id"), 8);
    must_put("log.dir", "/a");
    ck_assert_str_eq(conf_str(conf, "log.dirs"), "/a");
    must_put("log.dirs", "/b");
    ck_assert_str_eq(conf_str(conf, "log.dirs"), "/b");
}
END_TEST

START_TEST(hours_of_minus_one) {
    must_put("log.retention.hours", "-1");
    ck_assert_int_eq(conf_int(conf, "log.retention.ms"), -1);
}
END_TEST

START_TEST(unset_answers) {
    ck_assert_ptr_null(conf_str(conf, "advertised.listeners"));
    ck_assert_ptr_null(conf_str(conf, "native.listeners"));
    ck_assert_int_eq(conf_int(conf, "num.replica.alter.log.dirs.threads"), INT64_MIN);
    must_put("native.listeners", "NATIVE://:9292");
    must_put("native.listeners", "");
    ck_assert_str_eq(conf_str(conf, "native.listeners"), "");
}
END_TEST

static int shown;
static void on_show(void *u, const struct conf_key *k, const char *value, enum conf_origin o) {
    (void)u;
    shown++;
    if (strcmp(k->name, "log.retention.ms") == 0) {
        ck_assert_str_eq(value, "7200000");
        ck_assert_int_eq(o, CONF_FILE);
    }
    ck_assert((k->flags & CONF_BROKER) != 0);
}

START_TEST(show_all) {
    must_put("log.retention.hours", "2");
    conf_show(conf, on_show, NULL);
    ck_assert_int_gt(shown, 300);
}
END_TEST

/* ---- files ---- */

static char seen[2000];
static void on_pair(void *u, int line, span name, span value, const char *bad) {
    (void)u;
    char part[300];
    if (bad != NULL) {
        snprintf(part, sizeof part, "%d!%s\n", line, bad);
    } else {
        snprintf(part, sizeof part, "%d[%.*s][%.*s]\n", line, (int)name.n, (const char *)name.p, (int)value.n, (const char *)value.p);
    }
    size_t n = strlen(seen);
    snprintf(seen + n, sizeof seen - n, "%s", part);
}

static const char *walk(const char *text) {
    seen[0] = '\0';
    ck_assert_int_eq(conf_file_each(span_str(text), on_pair, NULL), ERR_OK);
    return seen;
}

START_TEST(properties_form) {
    ck_assert_str_eq(walk(""), "");
    ck_assert_str_eq(walk("# a\n! b\n\n   \t\n"), "");
    ck_assert_str_eq(walk("a=1\nb : 2\nc 3\r\nd\n"), "1[a][1]\n2[b][2]\n3[c][3]\n4[d][]\n");
    ck_assert_str_eq(walk("  a = 1 = 2  \n"), "1[a][1 = 2]\n");
    ck_assert_str_eq(walk("a=x\\\n   y\\\n\\\nz\nb=1"), "1[a][xyz]\n5[b][1]\n");
    ck_assert_str_eq(walk("a=x\\\\\nb=1\n"), "1[a][x\\]\n2[b][1]\n");
    ck_assert_str_eq(walk("a\\ b\\=c=d\\:e\\n\n"), "1[a b=c][d:e]\n");       /* the value's own line break is trimmed as a blank */
    ck_assert_str_eq(walk("a=\\u00e4\\u20ac\n"), "1[a][\xc3\xa4\xe2\x82\xac]\n");
    ck_assert_str_eq(walk("a=\\u00g4\nb=2\n=3\n"), "1!a \\u needs four hexadecimal digits of a character\n2[b][2]\n3!no name before the value\n");
    ck_assert_str_eq(walk("a=#1\n#x\\\nb=2\rc=3"), "1[a][#1]\n3[b][2]\n4[c][3]\n");
    ck_assert_str_eq(walk("a=1\\"), "1[a][1]\n");
}
END_TEST

static int bad_lines[10], bad_n;
static void on_bad(void *u, int line, const char *text) {
    (void)u;
    (void)text;
    if (bad_n >= 0 && bad_n < 10) {
        bad_lines[bad_n] = line;
    }
    bad_n++;
}

START_TEST(file_errors_have_lines) {
    static const char text[] = "num.partitions=4\nnum.partitons=5\n# fine\nshards=many\nmessage.max.bytes=2MiB\nlisteners=nonsense\n";
    ck_assert_int_eq(conf_put_file(conf, SPAN_LIT(text), on_bad, NULL), ERR_BAD_SETTING);
    ck_assert_int_eq(bad_n, 3);
    ck_assert_int_eq(bad_lines[0], 2);
    ck_assert_int_eq(bad_lines[1], 4);
    ck_assert_int_eq(bad_lines[2], 6);
    ck_assert_int_eq(conf_int(conf, "num.partitions"), 4);
    ck_assert_int_eq(conf_int(conf, "message.max.bytes"), 2 << 20);  /* reading went on */
}
END_TEST

/* D9: what Kafka 4 ships as config/server.properties, settings only. */
static const char kraft_file[] =
    "############################# Server Basics #############################\n"
    "process.roles=broker,controller\n"
    "node.id=1\n"
    "controller.quorum.bootstrap.servers=localhost:9093\n"
    "listeners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
    "inter.broker.listener.name=PLAINTEXT\n"
    "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
    "controller.listener.names=CONTROLLER\n"
    "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL\n"
    "num.network.threads=3\n"
    "num.io.threads=8\n"
    "socket.send.buffer.bytes=102400\n"
    "socket.receive.buffer.bytes=102400\n"
    "socket.request.max.bytes=104857600\n"
    "log.dirs=/tmp/kraft-combined-logs\n"
    "num.partitions=1\n"
    "num.recovery.threads.per.data.dir=1\n"
    "offsets.topic.replication.factor=1\n"
    "share.coordinator.state.topic.replication.factor=1\n"
    "share.coordinator.state.topic.min.isr=1\n"
    "transaction.state.log.replication.factor=1\n"
    "transaction.state.log.min.isr=1\n"
    "#log.flush.interval.messages=10000\n"
    "#log.flush.interval.ms=1000\n"
    "log.retention.hours=168\n"
    "#log.retention.bytes=1073741824\n"
    "log.segment.bytes=1073741824\n"
    "log.retention.check.interval.ms=300000\n";

START_TEST(kraft_server_properties) {
    ck_assert_int_eq(conf_put_file(conf, SPAN_LIT(kraft_file), on_bad, NULL), ERR_OK);
    ck_assert_int_eq(conf_check(conf, why, sizeof why), ERR_OK);
    struct conf_doors d;
    ck_assert_int_eq(conf_endpoints(conf, &d, why, sizeof why), ERR_OK);
    ck_assert_uint_eq(d.n, 1);
    ck_assert_uint_eq(d.skipped, 1);
    ck_assert_str_eq(d.v[0].listen.name, "PLAINTEXT");
    ck_assert_str_eq(d.v[0].listen.host, "");
    ck_assert_uint_eq(d.v[0].listen.port, 9092);
    ck_assert_str_eq(d.v[0].advertised_host, "localhost");
    ck_assert_uint_eq(d.v[0].advertised_port, 9092);
    ck_assert_str_eq(conf_str(conf, "log.dirs"), "/tmp/kraft-combined-logs");
}
END_TEST

/* Hostile bytes: any file is read or refused, never a crash (sanitizers watch). */
START_TEST(file_fuzz) {
    struct prng r;
    prng_seed(&r, (uint64_t)_i);
    char text[sizeof kraft_file];
    for (int round = 0; round < 100; round++) {
        memcpy(text, kraft_file, sizeof text);
        for (int i = 0; i < 12; i++) {
            text[prng_below(&r, sizeof text)] = "\\\n\r=: u#!\0\xff,"[prng_below(&r, 13)];
        }
        struct conf *c;
        ck_assert_int_eq(conf_new(&c), ERR_OK);
        bad_n = -100;
        err e = conf_put_file(c, span_of(text, prng_below(&r, sizeof text)), on_bad, NULL);
        ck_assert(e == ERR_OK || e == ERR_BAD_SETTING);
        (void)conf_check(c, why, sizeof why);
        conf_free(c);
    }
}
END_TEST

/* ---- listeners ---- */

START_TEST(listeners_form) {
    struct conf_listener l[CONF_LISTENERS_MAX];
    size_t n = 99;
    ck_assert_int_eq(conf_parse_listeners(SPAN_LIT("PLAINTEXT://127.0.0.1:9092, internal://:0 ,SIX://[::1]:65535"), l, &n, why, sizeof why), ERR_OK);
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(l[0].name, "PLAINTEXT");
    ck_assert_str_eq(l[0].host, "127.0.0.1");
    ck_assert_uint_eq(l[0].port, 9092);
    ck_assert_str_eq(l[1].name, "INTERNAL");
    ck_assert_str_eq(l[1].host, "");
    ck_assert_uint_eq(l[1].port, 0);
    ck_assert_str_eq(l[2].host, "::1");
    ck_assert_uint_eq(l[2].port, 65535);
    ck_assert_int_eq(conf_parse_listeners(SPAN_LIT("  "), l, &n, why, sizeof why), ERR_OK);
    ck_assert_uint_eq(n, 0);
    static const struct { const char *text, *words; } bad[] = {
        {"localhost:9092", "no ://"},
        {"PLAINTEXT://localhost", ":port"},
        {"PLAINTEXT://localhost:", ":port"},
        {"PLAINTEXT://localhost:65536", ":port"},
        {"PLAINTEXT://localhost:9x", ":port"},
        {"://localhost:9092", "name"},
        {"A B://localhost:9092", "name"},
        {"PLAINTEXT://::1:9092", "brackets"},
        {"PLAINTEXT://[]:9092", "brackets"},
        {"PLAINTEXT://a b:9092", "brackets"},
        {"PLAINTEXT://a:1,", "no ://"},
        {"PLAINTEXT://a:1,plaintext://b:2", "twice"},
        {"A12345678901234567890123456789012://a:1", "name"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        n = 99;
        ck_assert_msg(conf_parse_listeners(span_str(bad[i].text), l, &n, why, sizeof why) == ERR_BAD_SETTING, "%s was taken", bad[i].text);
        ck_assert_msg(strstr(why, bad[i].words) != NULL, "%s: %s", bad[i].text, why);
        ck_assert_uint_eq(n, 99);
    }
}
END_TEST

static void check_says(const char *words) {
    ck_assert_msg(conf_check(conf, why, sizeof why) == ERR_BAD_SETTING, "taken; expected: %s", words);
    ck_assert_msg(strstr(why, words) != NULL, "'%s' does not say '%s'", why, words);
}

/* BR-040: a wildcard is never advertised; without a value it is the address the client used. */
START_TEST(br_040_advertised_wildcard) {
    static const char *const wild[] = {"PLAINTEXT://0.0.0.0:9092", "PLAINTEXT://:9092", "PLAINTEXT://[::]:9092", "PLAINTEXT://[0:0:0:0:0:0:0:0]:9092"};
    struct conf_doors d;
    must_put("listeners", "PLAINTEXT://0.0.0.0:9092");
    ck_assert_int_eq(conf_endpoints(conf, &d, why, sizeof why), ERR_OK);
    ck_assert_str_eq(d.v[0].advertised_host, "");
    for (size_t i = 0; i < 4; i++) {
        must_put("advertised.listeners", wild[i]);
        check_says("no address a client can dial");
    }
    must_put("advertised.listeners", "PLAINTEXT://0.example.org:9092");
    ck_assert_int_eq(conf_check(conf, why, sizeof why), ERR_OK);
}
END_TEST

/* BR-041: advertised names and listener names must match; each listener has its own address; equal ports may be advertised. */
START_TEST(br_041_names_match) {
    struct conf_doors d;
    must_put("listeners", "PLAINTEXT://:9092,OUTSIDE://:19092");
    must_put("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT");
    must_put("advertised.listeners", "OUTSIDE://broker.example.org:9092,PLAINTEXT://broker:9092");
    ck_assert_int_eq(conf_endpoints(conf, &d, why, sizeof why), ERR_OK);
    ck_assert_uint_eq(d.n, 2);
    ck_assert_str_eq(d.v[0].advertised_host, "broker");
    ck_assert_str_eq(d.v[1].advertised_host, "broker.example.org");
    ck_assert_uint_eq(d.v[1].advertised_port, 9092);
    must_put("advertised.listeners", "OUTSID://broker.example.org:9092");
    check_says("advertised.listeners names OUTSID, which listeners does not");
    must_put("advertised.listeners", "OUTSIDE://broker.example.org:9092");     /* the other one: the address the client used */
    ck_assert_int_eq(conf_endpoints(conf, &d, why, sizeof why), ERR_OK);
    ck_assert_str_eq(d.v[0].advertised_host, "");
    must_put("listeners", "PLAINTEXT://:9092,OUTSIDE://127.0.0.1:9092");
    check_says("want the same port 9092");
    must_put("listeners", "PLAINTEXT://:0,OUTSIDE://:0");
    ck_assert_int_eq(conf_check(conf, why, sizeof why), ERR_OK);
}
END_TEST

START_TEST(security_protocols) {
    must_put("listeners", "SSL://:9093");
    check_says("listener SSL asks for SSL, which this version does not serve");
    must_put("listeners", "INTERNAL://:9093");
    check_says("add INTERNAL:PLAINTEXT to listener.security.protocol.map");
    must_put("controller.listener.names", "INTERNAL");
    ck_assert_int_eq(conf_check(conf, why, sizeof why), ERR_OK);
}
END_TEST

START_TEST(one_data_directory) {
    must_put("log.dirs", "/a,/b");
    check_says("several directories");
    must_put("log.dirs", "/a");
    ck_assert_int_eq(conf_check(conf, why, sizeof why), ERR_OK);
}
END_TEST

START_TEST(process_roles) {
    must_put("process.roles", "broker");
    ck_assert_int_eq(conf_check(conf, why, sizeof why), ERR_OK);
    must_put("process.roles", "controller");
    check_says("a controller alone");
    must_put("process.roles", "broker,broom");
    check_says("'broom' is neither");
}
END_TEST

START_TEST(torture) {
    for (uint64_t nth = 1; nth < 60; nth++) {
        struct conf *c = NULL;
        mem_fail_nth(nth);
        err e = conf_new(&c);
        if (e == ERR_OK) {
            bad_n = -100;
            e = conf_put_file(c, SPAN_LIT(kraft_file), on_bad, NULL);
        }
        mem_fail_nth(0);
        ck_assert(e == ERR_OK || e == ERR_NOMEM);
        conf_free(c);
    }
    ck_assert_int_eq(conf_put_file(conf, SPAN_LIT(kraft_file), on_bad, NULL), ERR_OK);
}
END_TEST

int main(void) {
    Suite *s = suite_create("conf");
    TCase *t = tcase_create("conf");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, table_is_sorted_and_whole);
    tcase_add_test(t, names_are_found);
    tcase_add_test(t, nearest_name);
    tcase_add_test(t, numbers_and_units);
    tcase_add_test(t, booleans_enums_lists_doubles);
    tcase_add_test(t, unknown_names);
    tcase_add_test(t, order_of_origins);
    tcase_add_test(t, older_keys_answer);
    tcase_add_test(t, hours_of_minus_one);
    tcase_add_test(t, unset_answers);
    tcase_add_test(t, show_all);
    tcase_add_test(t, properties_form);
    tcase_add_test(t, file_errors_have_lines);
    tcase_add_test(t, kraft_server_properties);
    tcase_add_loop_test(t, file_fuzz, 0, 4);
    tcase_add_test(t, listeners_form);
    tcase_add_test(t, br_040_advertised_wildcard);
    tcase_add_test(t, br_041_names_match);
    tcase_add_test(t, security_protocols);
    tcase_add_test(t, one_data_directory);
    tcase_add_test(t, process_roles);
    tcase_add_test(t, torture);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
