/* A settings file. Input: its text.
 *
 * Holds: each line is a setting, a comment or an error with a line number that exists; what was taken can be asked for in every way that a start
 * asks; written down as plain lines and read again it gives the same values. BR-062, T53. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "fuzz.h"
#include "state/topicconf.h"

#define TEXT_BYTES_MAX ((size_t)1 << 20)

struct reading {
    int lines;
    int errors;
};

static void on_error(void *u, int line, const char *why) {
    struct reading *r = u;
    must(line >= 1 && line <= r->lines && why[0] != 0);
    r->errors++;
}

static struct conf *read_text(span text, struct reading *r) {
    struct conf *c;
    *r = (struct reading){.lines = 1};
    for (size_t i = 0; i < text.n; i++) {
        r->lines += text.p[i] == '\n' || text.p[i] == '\r';
    }
    must(conf_new(&c) == ERR_OK);
    err e = conf_put_file(c, text, on_error, r);
    must(e == (r->errors > 0 ? ERR_BAD_SETTING : ERR_OK));
    return c;
}

/* As a properties file wants it: what could be misread becomes \uXXXX. */
static void put_escaped(struct str *s, const char *text) {
    for (const char *p = text; *p; p++) {
        unsigned char ch = (unsigned char)*p;
        if (ch <= ' ' || ch == '\\' || ch == 0x7f) {
            str_addf(s, "\\u%04x", ch);
        } else {
            str_addf(s, "%c", *p);
        }
    }
}

static void put_line(void *u, const struct conf_key *k, const char *value, enum conf_origin o) {
    struct str *s = u;
    if (o == CONF_FILE && value != NULL) {
        str_addf(s, "%s=", k->name);
        put_escaped(s, value);
        str_addf(s, "\n");
    }
}

static void put_value(void *u, const struct conf_key *k, const char *value, enum conf_origin o) {
    str_addf(u, "%s %d %s\n", k->name, (int)o, value ? value : "(unset)");
}

/* Every key in the way its type asks for. */
static void ask(const struct conf *c) {
    for (size_t i = 0; i < conf_keys_n; i++) {
        const struct conf_key *k = &conf_keys[i];
        if (!(k->flags & CONF_BROKER)) {
            continue;
        }
        if (k->type == CONF_BOOL) {
            (void)conf_bool(c, k->name);
        } else if (k->type == CONF_INT || k->type == CONF_LONG) {
            int64_t v = conf_int(c, k->name);
            must(v == INT64_MIN || (v >= k->min && v <= k->max));
        }
        const char *text = conf_str(c, k->name);
        char buf[300];
        if (text != NULL) {
            (void)conf_value_plain(k, span_str(text), buf, sizeof buf);
        }
    }
    struct topicconf t;
    topicconf_defaults(c, &t);
    must(t.segment_bytes > 0 && t.index_interval_bytes >= 0);
    char why[300] = "";
    struct conf_doors doors;
    must(conf_check(c, why, sizeof why) == ERR_OK || why[0] != 0);
    if (conf_endpoints(c, &doors, why, sizeof why) == ERR_OK) {
        must(doors.n <= CONF_LISTENERS_MAX);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct reading r;
    struct str lines, values, again;
    struct conf *c = read_text(span_of(data, n), &r);
    ask(c);
    str_init(&lines, TEXT_BYTES_MAX);
    str_init(&values, TEXT_BYTES_MAX);
    str_init(&again, TEXT_BYTES_MAX);
    conf_show(c, put_line, &lines);
    conf_show(c, put_value, &values);
    conf_free(c);
    c = read_text(str_span(&lines), &r);
    must(r.errors == 0);
    conf_show(c, put_value, &again);
    must(span_eq(str_span(&values), str_span(&again)));
    conf_free(c);
    str_done(&lines);
    str_done(&values);
    str_done(&again);
    return 0;
}

void fuzz_seeds(void (*on)(void *u, span input), void *u) {
    static const char *const texts[] = {
        "# server.properties\nbroker.id=1\nlisteners=PLAINTEXT://:9092,SSL://[::1]:9093\nadvertised.listeners=PLAINTEXT://host:9092\n"
        "log.dirs=/tmp/kafka-logs\nnum.partitions=3\nlog.retention.hours=168\nlog.segment.bytes=1GiB\n",
        "process.roles=broker,controller\ncontroller.listener.names=CONTROLLER\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\n"
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n",
        "! a comment\n\n  log.dirs : a\\\n   b,c \n\\u006eode.id\\t = 7\r\nshards 2\nbad\\u12\n=nothing\nno.such.key=1\nmessage.max.bytes=1MiB\\\\\n",
        "log.retention.ms=7d\nlog.cleanup.policy=delete, compact\ncompression.type=zstd\nprotected.mode=no\nstore.sync.age.ms=100ms\n"
        "zookeeper.connect=x:1\nlog.message.timestamp.type=LogAppendTime\nunclean.leader.election.enable=true",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        on(u, span_str(texts[i]));
    }
    for (size_t i = 0; i < conf_keys_n; i++) {     /* a line per key, for a fuzzer's dictionary */
        char line[300];
        int got = snprintf(line, sizeof line, "%s=%s\n", conf_keys[i].name, conf_keys[i].value ? conf_keys[i].value : "");
        on(u, span_of(line, (size_t)got < sizeof line ? (size_t)got : sizeof line - 1));
    }
}
