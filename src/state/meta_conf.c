/* Dynamic settings of topics, brokers and the other resources: what may be changed (S16.6-16.8), and the change.
 * Happy path: the resource's settings, overlaid by the wish, are checked as a whole; one record with all of them follows. Applying it replaces them and
 * every effective setting that depends on them (S16.9). Failure modes: the err of the first rule that is broken, with one line for whoever asked.
 * Runs on: decide: the shard whose copy it is (the metadata writer's); apply: every shard; boot. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "meta_frame.h"
#include "meta_in.h"
#include "wire/r_meta.h"

/* ---- look-ups ---- */

struct resource_key {
    enum meta_kind kind;
    span name;
};

static bool resource_eq(const struct map_node *node, const void *key) {
    const struct meta_resource *res = list_entry(node, const struct meta_resource, node);
    const struct resource_key *k = key;
    return res->kind == k->kind && res->name.n == k->name.n && (k->name.n == 0 || memcmp(res->name.p, k->name.p, k->name.n) == 0);
}

static uint64_t resource_hash(const struct meta *m, enum meta_kind kind, span name) {
    return map_hash_u64(&m->by_resource, map_hash(&m->by_resource, span_of(name.n == 0 ? (const uint8_t *)"" : name.p, name.n)) ^ (uint64_t)kind);
}

static struct meta_resource *resource_find(const struct meta *m, enum meta_kind kind, span name) {
    struct resource_key key = {kind, name};
    struct map_node *n = map_find(&m->by_resource, resource_hash(m, kind, name), resource_eq, &key);
    return n == NULL ? NULL : list_entry(n, struct meta_resource, node);
}

const struct meta_resource *meta_conf_find(const struct meta *m, enum meta_kind kind, span name) { return resource_find(m, kind, name); }

const struct meta_resource *meta_conf_broker(const struct meta *m) {
    char id[16];
    int n = snprintf(id, sizeof id, "%d", m->node_id);
    return resource_find(m, META_BROKER, span_of(id, (size_t)n));
}

const struct meta_resource *meta_conf_brokers(const struct meta *m) { return resource_find(m, META_BROKER, SPAN_LIT("")); }

static const struct topicconf_entry *entry_of(const struct meta_resource *res, const char *name) {
    for (size_t i = 0; res != NULL && i < res->entries_n; i++) {
        if (span_eq_str(res->entries[i].name, name)) {
            return &res->entries[i];
        }
    }
    return NULL;
}

int64_t meta_conf_int(const struct meta *m, const char *name, int64_t otherwise) {
    const struct conf_key *k = conf_key_find(span_str(name), CONF_BROKER);
    const struct topicconf_entry *own = entry_of(meta_conf_broker(m), name), *all = entry_of(meta_conf_brokers(m), name);
    char why[8];
    int64_t v;
    must(k != NULL);
    if (own != NULL && conf_value_int(k, own->value, &v, why, sizeof why) == ERR_OK) {      /* a stored value of another version is left out */
        return v;
    }
    return all != NULL && conf_value_int(k, all->value, &v, why, sizeof why) == ERR_OK ? v : otherwise;
}

/* ---- decide ---- */

/* A change under way: the settings as they will be, in no order. */
struct draft {
    const struct meta *m;
    const struct meta_conf *in;
    const struct meta_topic *topic;                /* META_TOPIC */
    struct arena arena;
    struct topicconf_entry *v;
    size_t n;
    uint32_t where;                                /* CONF_TOPIC, ... */
    char *why;
    size_t cap;
};

#define refuse(d, e, ...) (snprintf((d)->why, (d)->cap, __VA_ARGS__), (e))

static const char *where_name(uint32_t where) {
    return where == CONF_TOPIC ? "topic" : where == CONF_BROKER ? "broker" : where == CONF_GROUP ? "group" : "client metrics";
}

static err unknown_key(struct draft *d, span name) {
    char shown[128];
    const char *near = conf_key_nearest(name, d->where);
    span_printable(name, shown, sizeof shown);
    err e = d->where == CONF_METRICS ? ERR_BAD_REQUEST : ERR_BAD_SETTING;
    const struct conf_key *topic = d->where == CONF_BROKER ? conf_key_find(name, CONF_TOPIC) : NULL;
    if (topic != NULL && topic->broker_name != NULL) {
        return refuse(d, ERR_BAD_SETTING, "%s is a setting of topics; its default for all topics is %s", shown, topic->broker_name);
    }
    if (d->where == CONF_BROKER && conf_key_is_foreign(name)) {
        return refuse(d, ERR_BAD_SETTING, "'%s' belongs to a part of Kafka that is not here: it would have no effect", shown);
    }
    return near == NULL ? refuse(d, e, "unknown %s setting '%s'", where_name(d->where), shown)
                        : refuse(d, e, "unknown %s setting '%s': did you mean %s?", where_name(d->where), shown, near);
}

/* What a broker lets be changed while it runs, and for whom. */
static err check_live(struct draft *d, const struct conf_key *k) {
    if (d->where != CONF_BROKER) {
        return ERR_OK;
    }
    if ((k->flags & (CONF_LIVE | CONF_LIVE_NODE)) == 0) {
        return refuse(d, ERR_BAD_REQUEST, "%s is read when the broker starts and cannot be changed while it runs: set it in the settings file and restart", k->name);
    }
    if ((k->flags & CONF_LIVE) == 0 && d->in->name.n == 0) {
        return refuse(d, ERR_BAD_REQUEST, "%s belongs to one broker and cannot be set for all: name the broker", k->name);
    }
    return ERR_OK;
}

static struct topicconf_entry *draft_find(struct draft *d, span name) {
    for (size_t i = 0; i < d->n; i++) {
        if (span_eq(d->v[i].name, name)) {
            return &d->v[i];
        }
    }
    return NULL;
}

static void draft_drop(struct draft *d, span name) {
    struct topicconf_entry *e = draft_find(d, name);
    if (e != NULL) {
        *e = d->v[--d->n];
    }
}

static void draft_set(struct draft *d, span name, span value) {
    struct topicconf_entry *e = draft_find(d, name);
    e = e != NULL ? e : &d->v[d->n++];
    *e = (struct topicconf_entry){name, conf_value_trim(value)};
}

static bool list_has(span list, span item) {
    span one;
    while (conf_value_next(&list, &one)) {
        if (one.n > 0 && span_eq(one, item)) {
            return true;
        }
    }
    return false;
}

/* The items of `from` that are not in `without` nor in out already, added to out. */
static void list_add(struct str *out, span from, span without) {
    span item;
    while (conf_value_next(&from, &item)) {
        if (item.n == 0 || list_has(without, item) || list_has(span_of(out->p == NULL ? "" : out->p, out->n), item)) {
            continue;
        }
        if (out->n > 0) {
            str_add(out, SPAN_LIT(","));
        }
        str_add(out, item);
    }
}

/* The list that an APPEND or SUBTRACT begins with: the resource's own, else what is in effect without it. */
static span list_before(struct draft *d, const struct conf_key *k) {
    const struct topicconf_entry *own = draft_find(d, span_str(k->name));
    const char *name = d->where == CONF_TOPIC || d->where == CONF_GROUP ? k->broker_name : k->name;
    if (own != NULL) {
        return own->value;
    }
    if (name == NULL || d->where == CONF_METRICS) {
        return span_str(k->value);
    }
    const struct topicconf_entry *e = d->where == CONF_BROKER ? NULL : entry_of(meta_conf_broker(d->m), name);
    e = e != NULL ? e : entry_of(meta_conf_brokers(d->m), name);
    return e != NULL ? e->value : span_str(conf_str(d->in->conf, name));
}

static err change_list(struct draft *d, const struct conf_key *k, const struct meta_conf_change *ch) {
    struct str text;
    if (k->type != CONF_LIST) {
        return refuse(d, ERR_BAD_SETTING, "%s is no list: only a list can be appended to or subtracted from", k->name);
    }
    str_init(&text, LIMIT_META_RECORD_BYTES);
    span before = list_before(d, k);
    if (ch->op == META_CONF_APPEND) {
        list_add(&text, before, SPAN_NULL);
        list_add(&text, ch->value, SPAN_NULL);
    } else {
        list_add(&text, before, ch->value);
    }
    span kept = arena_copy(&d->arena, span_of(text.p == NULL ? "" : text.p, text.n));
    err e = span_is_null(kept) || text.bad ? refuse(d, ERR_NOMEM, "out of memory") : ERR_OK;
    str_done(&text);
    if (e == ERR_OK) {
        draft_set(d, span_str(k->name), kept);
    }
    return e;
}

static err change_one(struct draft *d, const struct meta_conf_change *ch) {
    const struct conf_key *k = conf_key_find(ch->name, d->where);
    if (ch->op == META_CONF_DELETE) {              /* whatever it is: what is not there is gone already, and a newer version's may go */
        draft_drop(d, ch->name);
        return ERR_OK;
    }
    if (k == NULL) {
        return unknown_key(d, ch->name);
    }
    err e = check_live(d, k);
    if (e != ERR_OK) {
        return e;
    }
    if (span_is_null(ch->value)) {
        return refuse(d, ERR_BAD_REQUEST, "%s: null is no value; DELETE puts a setting back to its default", k->name);
    }
    if (ch->op == META_CONF_APPEND || ch->op == META_CONF_SUBTRACT) {
        return change_list(d, k, ch);
    }
    if (ch->op != META_CONF_SET) {
        return refuse(d, ERR_BAD_REQUEST, "%s: operation %d does not exist", k->name, ch->op);
    }
    draft_set(d, span_str(k->name), ch->value);
    return ERR_OK;
}

/* What is there already passes, whatever version wrote it; what the wish names does not. */
static err check_values(struct draft *d) {
    for (size_t i = 0; i < d->in->changes_n; i++) {
        const struct topicconf_entry *e = draft_find(d, d->in->changes[i].name);
        const struct conf_key *k = e == NULL ? NULL : conf_key_find(e->name, d->where);
        err er = k == NULL ? ERR_OK : meta_conf_check(d->in, k, e->value, (struct meta_conf_why){d->why, d->cap});
        if (er != ERR_OK) {
            return er;
        }
    }
    return d->where == CONF_TOPIC ? topicconf_check_pairs(d->v, d->n, d->why, d->cap) : ERR_OK;
}

static int by_name(const void *a, const void *b) {
    return span_cmp(((const struct topicconf_entry *)a)->name, ((const struct topicconf_entry *)b)->name);
}

static err draft_begin(struct draft *d) {
    const struct topicconf_entry *now = NULL;
    size_t n = 0;
    if (d->in->kind == META_TOPIC) {
        d->topic = meta_topic_by_name(d->m, d->in->name);
        if (d->topic == NULL) {
            char shown[LIMIT_TOPIC_NAME + 1];
            return refuse(d, ERR_NO_TOPIC, "topic '%s' does not exist", span_printable(d->in->name, shown, sizeof shown));
        }
        now = d->topic->entries;
        n = d->topic->entries_n;
    } else {
        const struct meta_resource *res = resource_find(d->m, d->in->kind, d->in->name);
        now = res == NULL ? NULL : res->entries;
        n = res == NULL ? 0 : res->entries_n;
    }
    n = d->in->replace ? 0 : n;
    d->v = arena_alloc(&d->arena, (n + d->in->changes_n) * sizeof *d->v);
    if (d->v == NULL) {
        return refuse(d, ERR_NOMEM, "out of memory");
    }
    if (n > 0) {
        memcpy(d->v, now, n * sizeof *d->v);
    }
    d->n = n;
    return ERR_OK;
}

static err draft_put_topic(struct draft *d, struct str *out) {
    struct r_meta_topic_settings rec;
    r_meta_topic_settings_init(&rec);
    rec.topic_id = d->topic->id;
    rec.configs = arena_alloc(&d->arena, d->n * sizeof *rec.configs);
    if (rec.configs == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < d->n; i++) {
        r_meta_topic_settings_config_init(&rec.configs[i]);
        rec.configs[i].name = d->v[i].name;
        rec.configs[i].value = d->v[i].value;
    }
    rec.configs_n = (int32_t)d->n;
    return meta_frame_put(out, R_META_TOPIC_SETTINGS_KEY, &r_meta_topic_settings_msg, &rec);
}

static err draft_put_resource(struct draft *d, struct str *out) {
    struct r_meta_resource_settings rec;
    r_meta_resource_settings_init(&rec);
    rec.kind = (int8_t)d->in->kind;
    rec.name = d->in->name;
    rec.configs = arena_alloc(&d->arena, d->n * sizeof *rec.configs);
    if (rec.configs == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < d->n; i++) {
        r_meta_resource_settings_config_init(&rec.configs[i]);
        rec.configs[i].name = d->v[i].name;
        rec.configs[i].value = d->v[i].value;
    }
    rec.configs_n = (int32_t)d->n;
    return meta_frame_put(out, R_META_RESOURCE_SETTINGS_KEY, &r_meta_resource_settings_msg, &rec);
}

static err draft_finish(struct draft *d, struct str *out) {
    if (d->n > LIMIT_TOPIC_SETTINGS) {
        return refuse(d, ERR_LIMIT, "%zu settings are too many, the most is %d", d->n, LIMIT_TOPIC_SETTINGS);
    }
    bool is_new = d->topic == NULL && resource_find(d->m, d->in->kind, d->in->name) == NULL;
    if (is_new && d->n > 0 && d->m->resources_n >= LIMIT_RESOURCES) {
        return refuse(d, ERR_LIMIT, "there are settings of %zu groups, brokers and subscriptions already, the most is %d", d->m->resources_n, LIMIT_RESOURCES);
    }
    qsort(d->v, d->n, sizeof *d->v, by_name);
    err e = d->topic != NULL ? draft_put_topic(d, out) : draft_put_resource(d, out);
    return e == ERR_OK ? e : refuse(d, e, "%s", e == ERR_NOMEM ? "out of memory" : "the settings are too long to be stored");
}

err meta_conf_decide(const struct meta *m, const struct meta_conf *in, struct str *ret_frame, char *ret_why, size_t cap) {
    struct draft d = {.m = m, .in = in, .why = ret_why, .cap = cap};
    d.where = in->kind == META_TOPIC ? CONF_TOPIC : in->kind == META_BROKER ? CONF_BROKER : in->kind == META_GROUP ? CONF_GROUP : CONF_METRICS;
    arena_init(&d.arena, NULL, LIMIT_ARENA_BYTES);
    err e = draft_begin(&d);
    for (size_t i = 0; e == ERR_OK && i < in->changes_n; i++) {
        e = change_one(&d, &in->changes[i]);
    }
    e = e == ERR_OK ? check_values(&d) : e;
    e = e == ERR_OK ? draft_finish(&d, ret_frame) : e;
    arena_done(&d.arena);
    return e;
}

/* ---- apply ---- */

static size_t text_bytes(const struct topicconf_entry *e, size_t n) {
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        bytes += e[i].name.n + e[i].value.n;
    }
    return bytes;
}

static span keep(uint8_t **at, span text) {
    span kept = span_of(*at, text.n);
    if (text.n > 0) {
        memcpy(*at, text.p, text.n);
    }
    *at += text.n;
    return kept;
}

/* Room for n entries lies at `to`, for their texts at *at. */
static void keep_entries(struct topicconf_entry *to, const struct topicconf_entry *from, size_t n, uint8_t **at) {
    for (size_t i = 0; i < n; i++) {
        to[i].name = keep(at, from[i].name);
        to[i].value = keep(at, from[i].value);
    }
}

/* Both records have the same shape of settings; this one reads either. */
static struct topicconf_entry *entries_of(struct arena *a, const struct r_meta_topic_settings_config *v, int32_t n) {
    struct topicconf_entry *e = arena_alloc(a, (size_t)n * sizeof *e);
    for (int32_t i = 0; e != NULL && i < n; i++) {
        e[i] = (struct topicconf_entry){v[i].name, v[i].value};
    }
    return e;
}

static void refresh_topic(struct meta *m, struct meta_topic *t) {
    t->conf = m->effective;
    topicconf_overlay(&t->conf, t->entries, t->entries_n);
    if (m->on_conf != NULL) {
        m->on_conf(m->u, t);
    }
}

err meta_conf_apply_topic(struct meta *m, const void *body) {
    const struct r_meta_topic_settings *rec = body;
    struct meta_topic *t = meta_topic_by_id(m, rec->topic_id);
    struct arena a;
    if (t == NULL || rec->configs_n < 0) {
        return ERR_DAMAGED;
    }
    size_t n = (size_t)rec->configs_n;
    arena_init(&a, NULL, LIMIT_ARENA_BYTES);
    struct topicconf_entry *from = entries_of(&a, rec->configs, rec->configs_n);
    struct topicconf_entry *to = from == NULL ? NULL : mem_alloc(MEM_META, n * sizeof *to + text_bytes(from, n) + 1);
    if (to == NULL) {
        arena_done(&a);
        return ERR_NOMEM;
    }
    uint8_t *text = (uint8_t *)(to + n);
    keep_entries(to, from, n, &text);
    arena_done(&a);
    mem_free(t->entries_block);
    t->entries_block = t->entries = to;
    t->entries_n = n;
    refresh_topic(m, t);
    return ERR_OK;
}

static err resource_new(const struct r_meta_resource_settings *rec, struct meta_resource **ret_res) {
    size_t n = (size_t)rec->configs_n, bytes = sizeof(struct meta_resource) + n * sizeof(struct topicconf_entry) + rec->name.n + 1;
    for (size_t i = 0; i < n; i++) {
        bytes += rec->configs[i].name.n + rec->configs[i].value.n;
    }
    struct meta_resource *res = mem_zalloc(MEM_META, bytes);
    if (res == NULL) {
        return ERR_NOMEM;
    }
    res->entries = (struct topicconf_entry *)(void *)(res + 1);
    res->entries_n = n;
    uint8_t *text = (uint8_t *)(res->entries + n);
    for (size_t i = 0; i < n; i++) {
        res->entries[i].name = keep(&text, rec->configs[i].name);
        res->entries[i].value = keep(&text, rec->configs[i].value);
    }
    res->kind = (enum meta_kind)rec->kind;
    res->name = keep(&text, rec->name);
    list_init(&res->link);
    *ret_res = res;
    return ERR_OK;
}

static void resource_free(struct meta *m, struct meta_resource *res) {
    map_remove(&m->by_resource, &res->node);
    list_remove(&res->link);
    m->resources_n--;
    mem_free(res);
}

/* In the place of the old one, so that a snapshot is the same whoever writes it. */
static err resource_put(struct meta *m, const struct r_meta_resource_settings *rec, struct meta_resource *old) {
    struct meta_resource *res;
    err e = resource_new(rec, &res);
    if (e != ERR_OK) {
        return e;
    }
    struct list *before = old == NULL ? m->resources.prev : old->link.prev;
    if (old != NULL) {
        map_remove(&m->by_resource, &old->node);
    }
    e = map_insert(&m->by_resource, &res->node, resource_hash(m, res->kind, res->name));
    if (e != ERR_OK) {                             /* not after a removal: a slot array is there then */
        mem_free(res);
        return e;
    }
    list_insert_after(before, &res->link);
    if (old != NULL) {
        list_remove(&old->link);
        mem_free(old);
    } else {
        m->resources_n++;
    }
    return ERR_OK;
}

err meta_conf_apply_resource(struct meta *m, const void *body) {
    const struct r_meta_resource_settings *rec = body;
    if (rec->kind != META_BROKER && rec->kind != META_METRICS && rec->kind != META_GROUP) {
        return rec->kind == META_TOPIC ? ERR_DAMAGED : ERR_NEWER;
    }
    if (rec->configs_n < 0) {
        return ERR_DAMAGED;
    }
    struct meta_resource *old = resource_find(m, (enum meta_kind)rec->kind, rec->name);
    err e = ERR_OK;
    if (rec->configs_n > 0) {
        e = resource_put(m, rec, old);
    } else if (old != NULL) {
        resource_free(m, old);
    }
    if (e == ERR_OK && rec->kind == META_BROKER) {
        meta_conf_refresh(m);
    }
    return e;
}

void meta_conf_refresh(struct meta *m) {
    const struct meta_resource *all = meta_conf_brokers(m), *one = meta_conf_broker(m);
    m->effective = *m->defaults;
    topicconf_overlay_broker(&m->effective, all == NULL ? NULL : all->entries, all == NULL ? 0 : all->entries_n);
    topicconf_overlay_broker(&m->effective, one == NULL ? NULL : one->entries, one == NULL ? 0 : one->entries_n);
    list_each(it, &m->topics) {
        refresh_topic(m, list_entry(it, struct meta_topic, link));
    }
    if (m->on_broker_conf != NULL) {
        m->on_broker_conf(m->u);
    }
}
