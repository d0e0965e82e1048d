/* DescribeConfigs v0-4.
 *
 * Behaviour: every setting of a topic, a broker, a group or a metrics subscription with its value in effect, where that comes from, and on request every layer below it and what it means
 * (S16.1, S16.2, S16.5). Keys may be picked; unknown ones are left out (S16.3). For all brokers (the empty name) only what was set for them is listed. A resource that is named twice is
 * answered once. Per resource an error of its own: 3, 17, 42 (S16.4), 29, 30, 31; 44 for what does not fit into one answer.
 * Versions: v0 only says whether a value is the default; v1+ sources and synonyms; v3+ types and documentation; v4 flexible.
 * Runs on: home shard, from its own copy of the metadata. */
#include <stdio.h>
#include <string.h>

#include "api.h"
#include "base/limits.h"
#include "base/log.h"
#include "resource.h"
#include "seen.h"
#include "state/confview.h"
#include "wire/k_describe_configs.h"

#define DESCRIBE_CONFIGS_KEY_BYTES ((size_t)192)             /* of the answer, charged per setting: struct and encoded bytes */
#define DESCRIBE_CONFIGS_LAYER_BYTES ((size_t)288)           /* its synonyms */
#define DESCRIBE_CONFIGS_DOC_BYTES ((size_t)160)
#define DESCRIBE_CONFIGS_RESOURCE_BYTES ((size_t)512)

enum { TYPE_BOOLEAN = 1, TYPE_STRING, TYPE_INT, TYPE_SHORT, TYPE_LONG, TYPE_DOUBLE, TYPE_LIST, TYPE_CLASS, TYPE_PASSWORD };

struct describe_configs_work {
    struct k_describe_configs_resp resp;
    const struct k_describe_configs_req *q;
    uint32_t *first;                   /* per entry: the first one of its type and name */
    uint32_t within;                   /* entries before this one are answered, the others are too many (D12) */
    const struct k_describe_configs_resp_result *plain;        /* all keys of a topic without own settings; its list is shared */
    bool *picked;                      /* by index in conf_keys: the keys asked for, of one resource at a time */
};

static int8_t describe_configs_type(const struct conf_key *k) {
    if ((k->flags & CONF_SENSITIVE) != 0) {
        return TYPE_PASSWORD;
    }
    switch (k->type) {
    case CONF_BOOL: return TYPE_BOOLEAN;
    case CONF_INT: return (k->flags & CONF_SHORT) != 0 ? TYPE_SHORT : TYPE_INT;
    case CONF_LONG: return TYPE_LONG;
    case CONF_DOUBLE: return TYPE_DOUBLE;
    case CONF_LIST: return TYPE_LIST;
    case CONF_STRING:
    case CONF_ENUM: break;
    }
    return (k->flags & CONF_CLASS) != 0 ? TYPE_CLASS : TYPE_STRING;
}

/* ---- one setting ---- */

static err describe_configs_synonyms(struct rq *rq, const struct confview_layer *l, size_t n, struct k_describe_configs_resp_result_config *to) {
    to->synonyms = rq_array(rq, n, sizeof(*to->synonyms));
    if (to->synonyms == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        struct k_describe_configs_resp_result_config_synonym *s = &to->synonyms[to->synonyms_n++];
        k_describe_configs_resp_result_config_synonym_init(s);
        s->name = span_str(l[i].name);
        s->value = l[i].value;
        s->source = (int8_t)l[i].source;
    }
    return ERR_OK;
}

static bool describe_configs_read_only(const struct confview *v, const struct conf_key *k) {
    return v->kind == META_BROKER && !v->brokers && (k->flags & (CONF_LIVE | CONF_LIVE_NODE)) == 0;
}

/* An older key that nobody set is not listed, nor, for all brokers, what was not set for them. */
static bool describe_configs_listed(const struct confview *v, const struct conf_key *k, enum confview_source source) {
    if (v->kind == META_BROKER && v->brokers) {
        return source == CONFVIEW_BROKERS;
    }
    return (k->flags & CONF_OLD) == 0 || source != CONFVIEW_DEFAULT;
}

static err describe_configs_one(struct rq *rq, const struct confview *v, const struct conf_key *k, struct k_describe_configs_resp_result *to) {
    struct describe_configs_work *w = rq->work;
    struct confview_told told;
    err e = confview_get(v, k, &rq->arena, &told);
    enum confview_source source = e == ERR_OK ? told.layers[0].source : CONFVIEW_DEFAULT;
    if (e != ERR_OK || !describe_configs_listed(v, k, source)) {
        return e;
    }
    struct k_describe_configs_resp_result_config *c = &to->configs[to->configs_n++];
    k_describe_configs_resp_result_config_init(c);
    c->name = span_str(k->name);
    c->value = told.value;
    c->read_only = describe_configs_read_only(v, k);
    c->is_default = source == CONFVIEW_DEFAULT;
    c->source = (int8_t)source;
    c->is_sensitive = (k->flags & CONF_SENSITIVE) != 0;
    c->type = describe_configs_type(k);
    c->documentation = w->q->with_docs ? span_str(k->doc) : SPAN_NULL;
    bool nothing = source == CONFVIEW_DEFAULT && span_is_null(told.layers[0].value);
    return w->q->with_synonyms && !nothing ? describe_configs_synonyms(rq, told.layers, told.n, c) : ERR_OK;
}

/* ---- one resource ---- */

static size_t describe_configs_count(uint32_t where) {
    size_t n = 0;
    for (size_t i = 0; i < conf_keys_n; i++) {
        n += (conf_keys[i].flags & where) != 0;
    }
    return n;
}

/* Marks the keys asked for; returns how many. */
static size_t describe_configs_pick(struct describe_configs_work *w, const struct k_describe_configs_req_resource *from, uint32_t where) {
    size_t n = 0;
    for (size_t i = 0; from->keys_n <= 0 && i < conf_keys_n; i++) {
        w->picked[i] = (conf_keys[i].flags & where) != 0;
        n += w->picked[i];
    }
    if (from->keys_n <= 0) {
        return n;
    }
    memset(w->picked, 0, conf_keys_n * sizeof(*w->picked));
    for (int32_t i = 0; i < from->keys_n; i++) {
        const struct conf_key *k = conf_key_find(from->keys[i], where);
        n += k != NULL && !w->picked[k - conf_keys];
        if (k != NULL) {
            w->picked[k - conf_keys] = true;
        }
    }
    return n;
}

static err describe_configs_list(struct rq *rq, const struct confview *v, const struct k_describe_configs_req_resource *from, struct k_describe_configs_resp_result *to) {
    struct describe_configs_work *w = rq->work;
    bool plain = v->kind == META_TOPIC && v->own_n == 0 && from->keys_n <= 0;
    if (plain && w->plain != NULL) {
        to->configs = w->plain->configs;
        to->configs_n = w->plain->configs_n;
        return ERR_OK;
    }
    size_t n = describe_configs_pick(w, from, confview_where(v->kind));
    to->configs = rq_array(rq, n, sizeof(*to->configs));
    err e = to->configs == NULL ? ERR_NOMEM : ERR_OK;
    for (size_t i = 0; i < conf_keys_n && e == ERR_OK; i++) {
        e = w->picked[i] ? describe_configs_one(rq, v, &conf_keys[i], to) : ERR_OK;
    }
    w->plain = plain && e == ERR_OK ? to : w->plain;
    return e;
}

/* The one logger there is. */
static err describe_configs_logger(struct rq *rq, const struct k_describe_configs_req_resource *from, struct k_describe_configs_resp_result *to) {
    bool asked = from->keys_n <= 0;
    for (int32_t i = 0; i < from->keys_n; i++) {
        asked = asked || span_eq_str(from->keys[i], RESOURCE_LOGGER);
    }
    struct k_describe_configs_resp_result_config *c = to->configs = rq_array(rq, 1, sizeof(*c));
    if (c == NULL) {
        return ERR_NOMEM;
    }
    to->configs_n = asked;
    k_describe_configs_resp_result_config_init(c);
    c->name = SPAN_LIT(RESOURCE_LOGGER);
    c->value = span_str(log_level_name(log_level_least()));
    c->source = RESOURCE_SOURCE_LOGGER;
    c->type = TYPE_STRING;
    c->documentation = rq->version >= 3 && ((const struct k_describe_configs_req *)rq->body)->with_docs ?
        SPAN_LIT("The least level of the lines that the broker logs: DEBUG, INFO, WARN or ERROR. Lasts until the broker stops.") : SPAN_NULL;
    return ERR_OK;
}

static err describe_configs_resource(struct rq *rq, const struct k_describe_configs_req_resource *from, struct k_describe_configs_resp_result *to) {
    const struct shard *sh = rq->sh;
    struct confview v;
    if (from->type == RESOURCE_BROKER_LOGGER) {
        return describe_configs_logger(rq, from, to);
    }
    confview_init(&v, sh->meta, sh->node->conf.conf, (enum meta_kind)from->type);
    if (from->type == META_TOPIC) {
        const struct meta_topic *t = meta_topic_by_name(sh->meta, from->name);
        v.own = t->entries;
        v.own_n = t->entries_n;
    } else if (from->type == META_BROKER) {
        v.brokers = from->name.n == 0;
    } else {
        const struct meta_resource *res = meta_conf_find(sh->meta, v.kind, from->name);
        v.own = res == NULL ? NULL : res->entries;
        v.own_n = res == NULL ? 0 : res->entries_n;
    }
    return describe_configs_list(rq, &v, from, to);
}

static err describe_configs_judge(struct rq *rq, const struct k_describe_configs_req_resource *from, const char **ret_why) {
    struct resource res = {.type = from->type, .name = from->name};
    err e = resource_allow(rq, &res, ALLOW_DESCRIBE_CONFIGS) ? resource_check(rq, &res, ret_why) : ERR_DENIED;
    if (e == ERR_OK && from->type == META_TOPIC && meta_topic_by_name(rq->sh->meta, from->name) == NULL) {
        char shown[LIMIT_TOPIC_NAME + 1];
        *ret_why = arena_printf(&rq->arena, "topic '%s' does not exist", span_printable(from->name, shown, sizeof(shown)));
        e = ERR_NO_TOPIC;
    }
    return e;
}

static bool describe_configs_entry(struct rq *rq, uint32_t i) {
    struct describe_configs_work *w = rq->work;
    const struct k_describe_configs_req_resource *from = &w->q->resources[i];
    struct k_describe_configs_resp_result *to = &w->resp.results[w->resp.results_n++];
    const char *why = NULL;
    k_describe_configs_resp_result_init(to);
    to->type = from->type;
    to->name = from->name;
    err e = describe_configs_judge(rq, from, &why);
    if (e == ERR_OK && i >= w->within) {
        e = ERR_LIMIT;
        why = "the answer would be too large: ask for fewer resources at once, or for single keys";
    }
    if (e != ERR_OK) {
        to->error_code = resource_code(from->type, e);
        to->error_message = span_str(why == NULL ? err_text(e) : why);
        return true;
    }
    return describe_configs_resource(rq, from, to) == ERR_OK;
}

/* ---- the request ---- */

static void describe_configs_answer(struct rq *rq) {
    struct describe_configs_work *w = rq->work;
    if (rq->abandoned) {
        rq_silent(rq);
        return;
    }
    for (int32_t i = 0; i < w->q->resources_n; i++) {
        if (w->first[i] == (uint32_t)i && !describe_configs_entry(rq, (uint32_t)i)) {
            rq_fail(rq, ERR_NOMEM);
            return;
        }
    }
    rq_reply(rq, &w->resp);
}

/* An answer is charged before it is built, as Metadata's (BR-060), and has a ceiling. */
static void describe_configs_charge(struct rq *rq) {
    struct describe_configs_work *w = rq->work;
    size_t bytes = 0, each = DESCRIBE_CONFIGS_KEY_BYTES + (w->q->with_synonyms ? DESCRIBE_CONFIGS_LAYER_BYTES : 0) + (w->q->with_docs ? DESCRIBE_CONFIGS_DOC_BYTES : 0);
    size_t topic_keys = describe_configs_count(CONF_TOPIC), broker_keys = describe_configs_count(CONF_BROKER);
    for (int32_t i = 0; i < w->q->resources_n; i++) {
        const struct k_describe_configs_req_resource *from = &w->q->resources[i];
        size_t keys = from->type == META_BROKER ? broker_keys : topic_keys;
        keys = from->keys_n > 0 && (size_t)from->keys_n < keys ? (size_t)from->keys_n : keys;
        bytes += w->first[i] == (uint32_t)i ? DESCRIBE_CONFIGS_RESOURCE_BYTES + keys * each : 0;
        w->within += bytes <= LIMIT_FRAME_BYTES;
    }
    bytes = bytes < LIMIT_FRAME_BYTES ? bytes : LIMIT_FRAME_BYTES;
    rq->arena.ceiling += bytes * 2;
    rq_charge(rq, bytes, describe_configs_answer);
}

static bool describe_configs_same(const void *u, uint32_t a, uint32_t b) {
    const struct k_describe_configs_req *q = u;
    return q->resources[a].type == q->resources[b].type && span_eq(q->resources[a].name, q->resources[b].name);
}

static bool describe_configs_distinct(struct rq *rq, size_t n) {
    struct describe_configs_work *w = rq->work;
    struct seen seen;
    w->first = rq_array(rq, n, sizeof(*w->first));
    if (w->first == NULL || !seen_init(&seen, rq, n)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint64_t hash = seen_hash_part(&seen, seen_hash(&seen, w->q->resources[i].name), w->q->resources[i].type);
        w->first[i] = seen_add(&seen, hash, i, describe_configs_same, w->q);
    }
    return true;
}

void describe_configs_run(struct rq *rq) {
    const struct k_describe_configs_req *q = rq->body;
    size_t n = q->resources_n > 0 ? (size_t)q->resources_n : 0;
    struct describe_configs_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    struct k_describe_configs_resp_result *results = rq_array(rq, n, sizeof(*results));
    if (w == NULL || results == NULL) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    k_describe_configs_resp_init(&w->resp);
    w->q = q;
    w->resp.results = results;
    w->picked = rq_array(rq, conf_keys_n, sizeof(*w->picked));
    if (w->picked == NULL || !describe_configs_distinct(rq, n)) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    describe_configs_charge(rq);
}
