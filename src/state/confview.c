/* See confview.h. Happy path: own settings of the resource, then this broker's dynamic ones, those of all brokers, the static ones, the built-in default; where a key has older names, each
 * layer is asked under all of them. Failure modes: NOMEM. Runs on: any shard, with its own copy of the metadata. */
#include "state/confview.h"

#include <stdio.h>
#include <string.h>

#include "base/must.h"

struct collector {
    const struct confview *v;
    struct arena *arena;
    struct confview_layer *layers;
    size_t n;
    bool bad;
};

uint32_t confview_where(enum meta_kind kind) {
    return kind == META_TOPIC ? CONF_TOPIC : kind == META_BROKER ? CONF_BROKER : kind == META_GROUP ? CONF_GROUP : CONF_METRICS;
}

void confview_init(struct confview *v, const struct meta *m, const struct conf *c, enum meta_kind kind) {
    *v = (struct confview){.conf = c, .kind = kind, .one = meta_conf_broker(m), .all = meta_conf_brokers(m)};
}

/* As Kafka prints it. */
static span plain(struct collector *co, const struct conf_key *k, span text) {
    char buf[32];
    if (span_is_null(text) || (k->type != CONF_INT && k->type != CONF_LONG && k->type != CONF_BOOL)) {
        return span_is_null(text) ? text : conf_value_trim(text);
    }
    if (conf_value_trim(text).n == 0) {
        return SPAN_NULL;
    }
    span s = arena_copy(co->arena, span_str(conf_value_plain(k, text, buf, sizeof buf)));
    co->bad = co->bad || span_is_null(s);
    return s;
}

static void layer(struct collector *co, const struct conf_key *k, span text, enum confview_source source) {
    must(co->n < CONFVIEW_LAYERS_MAX);
    span value = (k->flags & CONF_SENSITIVE) != 0 ? SPAN_NULL : plain(co, k, text);
    co->layers[co->n++] = (struct confview_layer){k->name, value, source};
}

static void layer_of_entries(struct collector *co, const struct conf_key *k, const struct topicconf_entry *e, size_t n, enum confview_source source) {
    for (size_t i = n; i > 0; i--) {               /* of a name that stands twice (a wish, not a stored set) the last counts */
        if (span_eq_str(e[i - 1].name, k->name)) {
            layer(co, k, e[i - 1].value, source);
            return;
        }
    }
}

static void layer_of_resource(struct collector *co, const struct conf_key *k, const struct meta_resource *res, enum confview_source source) {
    if (res != NULL) {
        layer_of_entries(co, k, res->entries, res->entries_n, source);
    }
}

static void layer_of_file(struct collector *co, const struct conf_key *k, const struct meta_resource *unused, enum confview_source source) {
    (void)unused;
    const char *text = conf_own(co->v->conf, k->name);
    if (text != NULL && (text[0] != '\0' || k->value != NULL)) {
        layer(co, k, span_str(text), source);
    }
}

static void layer_of_default(struct collector *co, const struct conf_key *k, const struct meta_resource *unused, enum confview_source source) {
    (void)unused;
    if (k->value != NULL) {
        layer(co, k, span_str(k->value), source);
    }
}

typedef void layer_fn(struct collector *co, const struct conf_key *k, const struct meta_resource *res, enum confview_source source);

/* The key and its older names, newest first. */
static void each_name(struct collector *co, const char *name, layer_fn *fn, const struct meta_resource *res, enum confview_source source) {
    int64_t factor;
    for (; name != NULL; name = conf_older(name, &factor)) {
        const struct conf_key *k = conf_key_find(span_str(name), CONF_BROKER);
        must(k != NULL);
        fn(co, k, res, source);
    }
}

static void broker_layers(struct collector *co, const char *name) {
    if (!co->v->brokers) {
        each_name(co, name, layer_of_resource, co->v->one, CONFVIEW_BROKER);
    }
    each_name(co, name, layer_of_resource, co->v->all, CONFVIEW_BROKERS);
    each_name(co, name, layer_of_file, NULL, CONFVIEW_STATIC);
    each_name(co, name, layer_of_default, NULL, CONFVIEW_DEFAULT);
}

/* A layer that speaks under an older name speaks in its unit. */
static span converted(struct collector *co, const struct conf_key *k, const struct confview_layer *l) {
    const char *name = k->flags & CONF_BROKER ? k->name : k->broker_name;
    int64_t all = 1, v, scaled;
    char why[8], buf[24];
    while (name != NULL && strcmp(name, l->name) != 0) {
        int64_t factor = 1;
        name = conf_older(name, &factor);
        all *= factor;
    }
    if (name == NULL || all == 1 || span_is_null(l->value)) {
        return l->value;
    }
    const struct conf_key *older = conf_key_find(span_str(l->name), CONF_BROKER);
    if (conf_value_int(older, l->value, &v, why, sizeof why) != ERR_OK || v < 0) {
        return l->value;                           /* -1 means the same in every unit */
    }
    scaled = __builtin_mul_overflow(v, all, &scaled) ? INT64_MAX : scaled;
    snprintf(buf, sizeof buf, "%lld", (long long)scaled);
    span s = arena_copy(co->arena, span_str(buf));
    co->bad = co->bad || span_is_null(s);
    return s;
}

static enum confview_source own_source(enum meta_kind kind) {
    return kind == META_TOPIC ? CONFVIEW_TOPIC : kind == META_GROUP ? CONFVIEW_GROUP : CONFVIEW_METRICS;
}

err confview_get(const struct confview *v, const struct conf_key *k, struct arena *a, struct confview_told *ret) {
    struct collector co = {.v = v, .arena = a, .layers = ret->layers};
    must((k->flags & confview_where(v->kind)) != 0);
    if (v->kind == META_BROKER) {
        broker_layers(&co, k->name);
    } else {
        layer_of_entries(&co, k, v->own, v->own_n, own_source(v->kind));
        if (k->broker_name != NULL) {
            broker_layers(&co, k->broker_name);
        } else {
            layer_of_default(&co, k, NULL, CONFVIEW_DEFAULT);
        }
    }
    if (co.n == 0) {
        layer(&co, k, SPAN_NULL, CONFVIEW_DEFAULT);
    }
    ret->value = converted(&co, k, &ret->layers[0]);
    ret->n = co.n;
    return co.bad ? ERR_NOMEM : ERR_OK;
}
