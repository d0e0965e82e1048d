/* A set of values over the table of settings.
 * Happy path: conf_put parses, checks and keeps the text with its origin; getters find value, older key or default.
 * Failure modes: BAD_SETTING with one line for a person; a getter asked for a name that is no broker key is a must().
 * Runs on: any; boot fills it, then it is read-only. */
#include "state/conf.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "text.h"

struct conf_slot {
    char *text;                        /* NULL: not set */
    enum conf_origin origin;
};

struct conf {
    struct conf_slot *slots;           /* one per row of conf_keys */
};

/* Older or coarser keys that answer when a key is not set; factor converts their unit. */
struct conf_fallback {
    const char *name, *other;
    int64_t factor;
};
static const struct conf_fallback fallbacks[] = {
    {"log.dirs", "log.dir", 1},
    {"log.flush.interval.ms", "log.flush.scheduler.interval.ms", 1},
    {"log.retention.minutes", "log.retention.hours", 60},
    {"log.retention.ms", "log.retention.minutes", 60000},
    {"log.roll.jitter.ms", "log.roll.jitter.hours", 3600000},
    {"log.roll.ms", "log.roll.hours", 3600000},
};
/* broker.id's own default -1 says "none": it answers only when it was set. */
static const struct conf_fallback broker_id = {"node.id", "broker.id", 1};

err conf_new(struct conf **ret_c) {
    struct conf *c = mem_zalloc(MEM_MISC, sizeof *c);
    struct conf_slot *slots = mem_zalloc(MEM_MISC, conf_keys_n * sizeof *slots);
    if (c == NULL || slots == NULL) {
        mem_free(c);
        mem_free(slots);
        return ERR_NOMEM;
    }
    c->slots = slots;
    *ret_c = c;
    return ERR_OK;
}

void conf_free(struct conf *c) {
    if (c == NULL) {
        return;
    }
    for (size_t i = 0; i < conf_keys_n; i++) {
        mem_free(c->slots[i].text);
    }
    mem_free(c->slots);
    mem_free(c);
}

static err unknown(span name, char *why, size_t cap) {
    char shown[128];
    span_printable(name, shown, sizeof shown);
    const char *near = conf_key_nearest(name, CONF_BROKER);
    if (conf_key_find(name, CONF_TOPIC) != NULL) {
        const char *broker = conf_key_find(name, CONF_TOPIC)->broker_name;
        snprintf(why, cap, "%s is a setting of topics, not of the broker%s%s", shown, broker == NULL ? "" : "; its default for all topics is ",
                 broker == NULL ? "" : broker);
    } else if (near != NULL) {
        snprintf(why, cap, "unknown setting '%s': did you mean %s?", shown, near);
    } else {
        snprintf(why, cap, "unknown setting '%s'", shown);
    }
    return ERR_BAD_SETTING;
}

static err check_listeners(const struct conf_key *k, span value, char *why, size_t cap) {
    static const char suffix[] = "listeners";
    size_t n = strlen(k->name), m = sizeof suffix - 1;
    if (k->type != CONF_LIST || n < m || strcmp(k->name + n - m, suffix) != 0 || strcmp(k->name, "early.start.listeners") == 0) {
        return ERR_OK;
    }
    struct conf_listener list[CONF_LISTENERS_MAX];
    char inner[200];
    size_t count;
    err e = conf_parse_listeners(value, list, &count, inner, sizeof inner);
    if (e != ERR_OK) {
        snprintf(why, cap, "%s: %s", k->name, inner);
    }
    return e;
}

err conf_put(struct conf *c, span name, span value, enum conf_origin origin, char *ret_why, size_t cap) {
    span key = conf_value_trim(name);
    const struct conf_key *k = conf_key_find(key, CONF_BROKER);
    if (k == NULL) {
        return conf_key_is_foreign(key) ? ERR_OK : unknown(key, ret_why, cap);
    }
    span v = conf_value_trim(value);
    bool unset = v.n == 0 && k->value == NULL;     /* "key=" puts a key without a default back to unset */
    err e = unset ? ERR_OK : conf_value_check(k, v, ret_why, cap);
    e = e == ERR_OK ? check_listeners(k, v, ret_why, cap) : e;
    if (e != ERR_OK) {
        return e;
    }
    struct conf_slot *s = &c->slots[k - conf_keys];
    if (s->text != NULL && s->origin > origin) {
        return ERR_OK;
    }
    char *text = mem_alloc(MEM_MISC, v.n + 1);
    if (text == NULL) {
        snprintf(ret_why, cap, "out of memory");
        return ERR_NOMEM;
    }
    memcpy(text, v.n == 0 ? (const uint8_t *)"" : v.p, v.n);
    text[v.n] = '\0';
    mem_free(s->text);
    *s = (struct conf_slot){text, origin};
    return ERR_OK;
}

struct conf_put_lines {
    struct conf *c;
    void (*on)(void *u, int line, const char *why);
    void *u;
    err e;
};

static void put_line(void *u, int line, span name, span value, const char *bad) {
    struct conf_put_lines *l = u;
    char why[400];
    err e = ERR_BAD_SETTING;
    if (bad == NULL) {
        e = conf_put(l->c, name, value, CONF_FILE, why, sizeof why);
        bad = why;
    }
    if (e != ERR_OK) {
        l->e = l->e == ERR_NOMEM ? ERR_NOMEM : e;
        l->on(l->u, line, bad);
    }
}

err conf_put_file(struct conf *c, span text, void (*on_line_error)(void *u, int line, const char *why), void *u) {
    struct conf_put_lines l = {.c = c, .on = on_line_error, .u = u, .e = ERR_OK};
    err e = conf_file_each(text, put_line, &l);
    return e != ERR_OK ? e : l.e;
}

/* ---- getters ---- */

static size_t index_of(const char *name) {
    const struct conf_key *k = conf_key_find(span_str(name), CONF_BROKER);
    must(k != NULL);
    return (size_t)(k - conf_keys);
}

/* What the key would answer without a value of its own: the other key, or NULL. */
static const struct conf_fallback *fallback_of(const struct conf *c, size_t i) {
    const char *name = conf_keys[i].name;
    if (c->slots[i].text != NULL && c->slots[i].text[0] != '\0') {
        return NULL;
    }
    if (strcmp(name, broker_id.name) == 0) {
        const char *id = c->slots[index_of(broker_id.other)].text;
        return id != NULL && id[0] != '-' ? &broker_id : NULL;
    }
    for (size_t f = 0; f < sizeof fallbacks / sizeof fallbacks[0]; f++) {
        if (strcmp(fallbacks[f].name, name) == 0) {
            return &fallbacks[f];
        }
    }
    return NULL;
}

static size_t in_effect(const struct conf *c, size_t i, int64_t *ret_factor) {
    *ret_factor = 1;
    for (const struct conf_fallback *f = fallback_of(c, i); f != NULL; f = fallback_of(c, i)) {
        i = index_of(f->other);
        *ret_factor *= f->factor;
    }
    return i;
}

static const char *text_at(const struct conf *c, size_t i) { return c->slots[i].text != NULL ? c->slots[i].text : conf_keys[i].value; }

const char *conf_str(const struct conf *c, const char *name) {
    int64_t factor;
    return text_at(c, in_effect(c, index_of(name), &factor));
}

int64_t conf_int(const struct conf *c, const char *name) {
    int64_t factor, v, scaled;
    char why[200];
    size_t i = in_effect(c, index_of(name), &factor);
    must(conf_keys[i].type == CONF_INT || conf_keys[i].type == CONF_LONG);
    const char *text = text_at(c, i);
    if (text == NULL || text[0] == '\0' || conf_value_int(&conf_keys[i], span_str(text), &v, why, sizeof why) != ERR_OK) {
        return INT64_MIN;                          /* conf_put let nothing else in */
    }
    if (v < 0) {
        return v;                                  /* -1 means the same in every unit */
    }
    return __builtin_mul_overflow(v, factor, &scaled) ? INT64_MAX : scaled;
}

bool conf_bool(const struct conf *c, const char *name) {
    size_t i = index_of(name);
    bool b = false;
    char why[200];
    must(conf_keys[i].type == CONF_BOOL);
    must(conf_value_bool(&conf_keys[i], span_str(text_at(c, i)), &b, why, sizeof why) == ERR_OK);
    return b;
}

const char *conf_own(const struct conf *c, const char *name) { return c->slots[index_of(name)].text; }

const char *conf_older(const char *name, int64_t *ret_factor) {
    *ret_factor = 1;
    if (strcmp(name, broker_id.name) == 0) {
        return broker_id.other;
    }
    for (size_t f = 0; f < sizeof fallbacks / sizeof fallbacks[0]; f++) {
        if (strcmp(fallbacks[f].name, name) == 0) {
            *ret_factor = fallbacks[f].factor;
            return fallbacks[f].other;
        }
    }
    return NULL;
}

static enum conf_origin origin_at(const struct conf *c, size_t i) { return c->slots[i].text == NULL ? CONF_DEFAULT : c->slots[i].origin; }

enum conf_origin conf_origin(const struct conf *c, const char *name) {
    int64_t factor;
    return origin_at(c, in_effect(c, index_of(name), &factor));
}

const char *conf_origin_name(enum conf_origin o) {
    static const char *const names[] = {"default", "file", "environment", "--set", "dynamic"};
    return names[o];
}

void conf_show(const struct conf *c, void (*on)(void *u, const struct conf_key *k, const char *value, enum conf_origin o), void *u) {
    for (size_t i = 0; i < conf_keys_n; i++) {
        if ((conf_keys[i].flags & CONF_BROKER) == 0) {
            continue;
        }
        int64_t factor;
        size_t at = in_effect(c, i, &factor);
        char buf[32];
        const char *value = text_at(c, at);
        if (factor != 1) {
            snprintf(buf, sizeof buf, "%lld", (long long)conf_int(c, conf_keys[i].name));
            value = buf;
        }
        on(u, &conf_keys[i], value, origin_at(c, at));
    }
}

/* ---- listeners ---- */

static err bad_listener(span item, const char *what, char *why, size_t cap) {
    char shown[100];
    snprintf(why, cap, "'%s' %s; the form is NAME://host:port, for example PLAINTEXT://127.0.0.1:9092", span_printable(item, shown, sizeof shown), what);
    return ERR_BAD_SETTING;
}

static bool parse_port(span s, uint16_t *ret) {
    unsigned v = 0;
    if (s.n == 0 || s.n > 5) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (!text_is_digit(s.p[i])) {
            return false;
        }
        v = v * 10 + (unsigned)(s.p[i] - '0');
    }
    *ret = (uint16_t)v;
    return v <= 65535;
}

static bool parse_name(span s, char *ret, size_t cap) {
    if (s.n == 0 || s.n >= cap) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (!text_is_alnum(s.p[i]) && s.p[i] != '_' && s.p[i] != '-' && s.p[i] != '.') {
            return false;
        }
        ret[i] = text_upper(s.p[i]);
    }
    ret[s.n] = '\0';
    return true;
}

static bool parse_host(span s, char *ret, size_t cap) {
    bool six = s.n >= 2 && s.p[0] == '[' && s.p[s.n - 1] == ']';
    span h = six ? span_of(s.p + 1, s.n - 2) : s;
    if (h.n >= cap || (six && h.n == 0)) {
        return false;
    }
    for (size_t i = 0; i < h.n; i++) {
        bool ok = text_is_alnum(h.p[i]) || h.p[i] == '.' || (six ? h.p[i] == ':' || h.p[i] == '%' : h.p[i] == '-' || h.p[i] == '_');
        if (!ok) {
            return false;
        }
        ret[i] = (char)h.p[i];
    }
    ret[h.n] = '\0';
    return true;
}

static err parse_listener(span item, struct conf_listener *ret, char *why, size_t cap) {
    size_t at = 0, colon = item.n;
    while (at + 3 <= item.n && memcmp(item.p + at, "://", 3) != 0) {
        at++;
    }
    if (at + 3 > item.n) {
        return bad_listener(item, "has no ://", why, cap);
    }
    if (!parse_name(span_of(item.p, at), ret->name, sizeof ret->name)) {
        return bad_listener(item, "has no usable name before ://", why, cap);
    }
    while (colon > at + 3 && item.p[colon - 1] != ':') {
        colon--;
    }
    if (colon <= at + 3 || !parse_port(span_of(item.p + colon, item.n - colon), &ret->port)) {
        return bad_listener(item, "does not end in :port with a port from 0 to 65535", why, cap);
    }
    if (!parse_host(span_of(item.p + at + 3, colon - 1 - (at + 3)), ret->host, sizeof ret->host)) {
        return bad_listener(item, "has no usable host; an IPv6 address stands in brackets", why, cap);
    }
    return ERR_OK;
}

err conf_parse_listeners(span text, struct conf_listener *ret, size_t *ret_n, char *ret_why, size_t cap) {
    span left = conf_value_trim(text), item;
    size_t n = 0;
    if (left.n == 0) {
        *ret_n = 0;
        return ERR_OK;
    }
    while (conf_value_next(&left, &item)) {
        if (n == CONF_LISTENERS_MAX) {
            snprintf(ret_why, cap, "more than %d listeners", CONF_LISTENERS_MAX);
            return ERR_BAD_SETTING;
        }
        err e = parse_listener(item, &ret[n], ret_why, cap);
        if (e != ERR_OK) {
            return e;
        }
        for (size_t i = 0; i < n; i++) {
            if (strcmp(ret[i].name, ret[n].name) == 0) {
                snprintf(ret_why, cap, "the name %s stands twice; each listener needs its own", ret[n].name);
                return ERR_BAD_SETTING;
            }
        }
        n++;
    }
    *ret_n = n;
    return ERR_OK;
}
