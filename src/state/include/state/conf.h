/* Every setting of the broker and of a topic, in one table: key, type, default, range, where it may be set, documentation in our own words. `--help`,
 * man pages, `config show`, and later DescribeConfigs come from it. Parsing is pure: text in, values out. Quiet; any thread.
 *
 * Order of origins: built-in < file < environment < --set < dynamic. Units: 64MiB, 7d, 100ms. Kafka's vocabulary (D9); our own keys under native., admin.,
 * store., queue., peer., and shards, protected.mode, write.caching. */
#pragma once

#include "base/err.h"
#include "base/span.h"
#include "base/str.h"

enum conf_type { CONF_BOOL, CONF_INT, CONF_LONG, CONF_DOUBLE, CONF_STRING, CONF_LIST, CONF_ENUM };
enum conf_unit { CONF_PLAIN, CONF_BYTES, CONF_MS, CONF_MINUTES, CONF_HOURS, CONF_SECONDS };
enum conf_origin { CONF_DEFAULT, CONF_FILE, CONF_ENV, CONF_SET, CONF_DYNAMIC };
#define CONF_BROKER 0x1            /* a broker setting */
#define CONF_TOPIC 0x2             /* may be set per topic */
#define CONF_IGNORED 0x4           /* accepted for Kafka's sake, without effect; doc says so */
#define CONF_OURS 0x8              /* not a Kafka key */
#define CONF_SENSITIVE 0x10
#define CONF_LIVE 0x20             /* a broker setting that may change while the broker runs, for one broker and for all */
#define CONF_LIVE_NODE 0x40        /* likewise, but only for one broker by its id */
#define CONF_CLASS 0x80            /* Kafka's type CLASS: the name of a plug-in */
#define CONF_OLD 0x100             /* a key of older versions: understood, but listed only when it is set */
#define CONF_GROUP 0x200           /* a setting of groups */
#define CONF_METRICS 0x400         /* a setting of client metrics subscriptions */
#define CONF_SHORT 0x800           /* Kafka's type SHORT */

struct conf_key {
    const char *name, *value;      /* value: default as text, NULL = none */
    enum conf_type type;
    enum conf_unit unit;
    uint32_t flags;
    int64_t min, max;              /* inclusive, for numbers */
    const char *choices;           /* CONF_ENUM and some lists: "delete,compact" */
    const char *broker_name;       /* topic keys: the broker-wide default (segment.bytes <- log.segment.bytes); NULL = none */
    const char *doc;
};

extern const struct conf_key conf_keys[];      /* sorted by name */
extern const size_t conf_keys_n;
const struct conf_key *conf_key_find(span name, uint32_t where);       /* where = CONF_BROKER, CONF_TOPIC, CONF_GROUP or CONF_METRICS */
const char *conf_key_nearest(span name, uint32_t where);               /* for "did you mean"; NULL when nothing is near */
/* Belongs to a family of keys that only Kafka's plug-ins or removed parts know (zookeeper.*, listener.name.*, ...): accepted and ignored whole. */
bool conf_key_is_foreign(span name);

/* A set of values over the table: what file, environment and flags gave. */
struct conf;
err conf_new(struct conf **ret_c);             /* NOMEM */
void conf_free(struct conf *c);
/* BAD_SETTING (unknown key or value) with one line in ret_why; unknown keys may be kept as a warning by the caller. A value does not displace one
 * of a higher origin; of equal origins the last wins. Foreign keys are OK and dropped. NOMEM. */
err conf_put(struct conf *c, span name, span value, enum conf_origin origin, char *ret_why, size_t cap);
/* A whole properties file (conf_file_each). on_line_error is called per offending line (number from 1) and parsing goes on; returns BAD_SETTING if it
 * was called at all. */
err conf_put_file(struct conf *c, span text, void (*on_line_error)(void *u, int line, const char *why), void *u);

/* Values in effect. The name must be a broker key. A key that is not set answers with the older key it falls back to (log.dirs <- log.dir,
 * node.id <- broker.id, log.retention.ms <- .minutes <- .hours, log.roll.ms <- .hours, ...), then with its default. */
bool conf_bool(const struct conf *c, const char *name);
int64_t conf_int(const struct conf *c, const char *name);              /* bytes, ms as the key's unit says, after units are applied; INT64_MIN: unset */
const char *conf_str(const struct conf *c, const char *name);          /* as it was written; NULL when unset */
const char *conf_own(const struct conf *c, const char *name);          /* what file, environment or --set said of this very key, or NULL */
const char *conf_older(const char *name, int64_t *ret_factor);         /* the key that answers when this one is not set, and what its numbers are multiplied with; NULL: none */
enum conf_origin conf_origin(const struct conf *c, const char *name);
const char *conf_origin_name(enum conf_origin o);                      /* "default", "file", "environment", "--set", "dynamic" */
/* Every broker key in order of name with its value in effect (NULL: unset). Sensitive ones too: the caller hides them. */
void conf_show(const struct conf *c, void (*on)(void *u, const struct conf_key *k, const char *value, enum conf_origin o), void *u);

/* ---- one value ---- */
span conf_value_trim(span s);                                          /* without blanks at both ends */
bool conf_value_next(span *list, span *ret_item);                      /* walks "a, b,c"; an empty list has one empty item, a null one none */
/* Parse one value of a key: number with unit, bool. BAD_SETTING with a reason that names the key. */
err conf_value_int(const struct conf_key *k, span text, int64_t *ret, char *ret_why, size_t cap);
err conf_value_bool(const struct conf_key *k, span text, bool *ret, char *ret_why, size_t cap);
err conf_value_check(const struct conf_key *k, span text, char *ret_why, size_t cap);
/* A CONF_DOUBLE that passed conf_value_check, in parts per million. */
int32_t conf_value_ppm(span text);
/* The value as Kafka prints it, units applied ("7d" -> "604800000", "yes" -> "true"), into buf; returns buf. */
const char *conf_value_plain(const struct conf_key *k, span text, char *buf, size_t cap);

/* ---- a properties file ---- */
/* key=value or key:value, '#' and '!' comments, continuation lines, \uXXXX, spaces trimmed. bad is NULL, or says what is wrong with the line (name and
 * value are null then). Spans live until the callback returns. LIMIT above LIMIT_SETTINGS_FILE_BYTES; NOMEM. */
err conf_file_each(span text, void (*on)(void *u, int line, span name, span value, const char *bad), void *u);

/* ---- listeners=PLAINTEXT://host:port,NAME://[::1]:port,... ---- */
struct conf_listener {
    char name[32];                 /* listener name, upper case */
    char host[256];                /* "" = all addresses; IPv6 without brackets */
    uint16_t port;
};
#define CONF_LISTENERS_MAX 16
/* Names are unique. An empty text gives none. */
err conf_parse_listeners(span text, struct conf_listener *ret, size_t *ret_n, char *ret_why, size_t cap);

/* One door of `listeners`, with what its clients are told. */
struct conf_endpoint {
    struct conf_listener listen;
    char advertised_host[256];     /* "" = the address the client used (BR-040) */
    uint16_t advertised_port;      /* 0 = the port listened on */
};
struct conf_doors {
    struct conf_endpoint v[CONF_LISTENERS_MAX];
    size_t n;
    size_t skipped;                /* listeners of a controller, left out */
};
/* `listeners` without those of controller.listener.names, joined with advertised.listeners by name. BAD_SETTING: an advertised wildcard (BR-040), an
 * advertised name that does not listen (BR-041), a security protocol that is not served. */
err conf_endpoints(const struct conf *c, struct conf_doors *ret, char *ret_why, size_t cap);
/* What no single value shows: process.roles, exactly one data directory, and conf_endpoints. */
err conf_check(const struct conf *c, char *ret_why, size_t cap);
