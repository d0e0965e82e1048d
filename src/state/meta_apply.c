/* The only writer of the metadata: records in, state out. Replay after a start is this in a loop.
 * Happy path: each record of the frame is decoded, checked and done. Failure modes: DAMAGED for what no decide ever made, NEWER for a record
 * or version this program does not know, NOMEM; the failing record changed nothing, records before it in the frame stay done (what decide
 * makes has one record, but for the format frame). Runs on: the shard whose copy it is; boot. */
#include "state/meta.h"

#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "meta_frame.h"
#include "meta_in.h"
#include "wire/r_meta.h"

static err apply_format(struct meta *m, const void *body) {
    const struct r_meta_format *f = body;
    if (uuid_is_zero(f->cluster_id) || (!uuid_is_zero(m->cluster_id) && !uuid_eq(m->cluster_id, f->cluster_id))) {
        return ERR_DAMAGED;
    }
    m->cluster_id = f->cluster_id;
    return ERR_OK;
}

static err apply_broker(struct meta *m, const void *body) {
    const struct r_meta_broker *b = body;
    if (b->id < 0) {
        return ERR_DAMAGED;
    }
    if (m->node_id >= 0 && m->node_id != b->id) {
        return ERR_NEWER;                          /* a cluster of several brokers */
    }
    if (m->node_id < 0) {
        m->node_id = b->id;
        meta_conf_refresh(m);
    }
    return ERR_OK;
}

/* ---- topics ---- */

err meta_apply_check_run(const struct meta *m, const struct r_meta_topic_run *r) {
    if (r->count <= 0 || r->count > LIMIT_PARTITIONS_PER_TOPIC || r->leader_epoch < 0 || r->replicas_n < 1 || r->isr_n < 0) {
        return ERR_DAMAGED;
    }
    if (r->replicas_n > 1 || r->replicas[0] != m->node_id) {
        return ERR_NEWER;                          /* a cluster of several brokers */
    }
    return r->leader == -1 || r->leader == r->replicas[0] ? ERR_OK : ERR_DAMAGED;
}

static err check_topic(const struct meta *m, const struct r_meta_topic *rec, int64_t *ret_parts) {
    int64_t parts = 0;
    if (m->node_id < 0 || !meta_topic_name_ok(rec->name) || uuid_is_zero(rec->id)) {
        return ERR_DAMAGED;
    }
    if (meta_topic_by_name(m, rec->name) != NULL || meta_topic_by_id(m, rec->id) != NULL) {
        return ERR_DAMAGED;
    }
    for (int32_t i = 0; i < rec->runs_n; i++) {
        err e = meta_apply_check_run(m, &rec->runs[i]);
        if (e != ERR_OK) {
            return e;
        }
        parts += rec->runs[i].count;
    }
    *ret_parts = parts;
    return parts > 0 && parts <= LIMIT_PARTITIONS_PER_TOPIC ? ERR_OK : ERR_DAMAGED;
}

/* Copy text to *at and move on. */
static span keep(uint8_t **at, span text) {
    span kept = span_of(*at, text.n);
    if (text.n > 0) {
        memcpy(*at, text.p, text.n);
    }
    *at += text.n;
    return kept;
}

/* One block: the topic, its own settings, its partitions, and all texts. */
static struct meta_topic *topic_new(const struct r_meta_topic *rec, int64_t parts) {
    size_t entries_at = sizeof(struct meta_topic);
    size_t parts_at = entries_at + (size_t)rec->configs_n * sizeof(struct topicconf_entry);
    size_t text_at = parts_at + (size_t)parts * sizeof(struct meta_part);
    size_t bytes = text_at + rec->name.n + 1;
    for (int32_t i = 0; i < rec->configs_n; i++) {
        bytes += rec->configs[i].name.n + rec->configs[i].value.n;
    }
    struct meta_topic *t = mem_zalloc(MEM_META, bytes);
    if (t == NULL) {
        return NULL;
    }
    uint8_t *base = (uint8_t *)t, *text = base + text_at;
    t->name = (char *)text;
    keep(&text, rec->name);
    text++;                                        /* the name's NUL */
    t->id = rec->id;
    t->parts = (struct meta_part *)(void *)(base + parts_at);
    t->parts_n = (int32_t)parts;
    t->entries = (struct topicconf_entry *)(void *)(base + entries_at);
    t->entries_n = (size_t)rec->configs_n;
    for (int32_t i = 0; i < rec->configs_n; i++) {
        t->entries[i].name = keep(&text, rec->configs[i].name);
        t->entries[i].value = keep(&text, rec->configs[i].value);
    }
    return t;
}

static void fill_parts(struct meta_topic *t, const struct r_meta_topic *rec) {
    int32_t at = 0;
    for (int32_t i = 0; i < rec->runs_n; i++) {
        for (int32_t k = 0; k < rec->runs[i].count; k++) {
            t->parts[at++] = (struct meta_part){.leader = rec->runs[i].leader, .leader_epoch = rec->runs[i].leader_epoch};
        }
    }
    must(at == t->parts_n);
}

static err index_topic(struct meta *m, struct meta_topic *t) {
    char folded[LIMIT_TOPIC_NAME];
    err e = map_insert(&m->by_name, &t->by_name, meta_name_hash(m, span_str(t->name), folded));
    if (e != ERR_OK) {
        return e;
    }
    e = map_insert(&m->by_id, &t->by_id, map_hash(&m->by_id, span_of(t->id.b, sizeof t->id.b)));
    if (e != ERR_OK) {
        map_remove(&m->by_name, &t->by_name);
    }
    return e;
}

static err apply_topic(struct meta *m, const void *body) {
    const struct r_meta_topic *rec = body;
    int64_t parts;
    err e = check_topic(m, rec, &parts);
    if (e != ERR_OK) {
        return e;
    }
    struct meta_topic *t = topic_new(rec, parts);
    if (t == NULL) {
        return ERR_NOMEM;
    }
    e = index_topic(m, t);
    if (e != ERR_OK) {
        mem_free(t);
        return e;
    }
    fill_parts(t, rec);
    t->refs = 1;
    t->internal = meta_topic_name_is_internal(rec->name);
    t->conf = m->effective;
    topicconf_overlay(&t->conf, t->entries, t->entries_n);
    list_push_back(&m->topics, &t->link);
    m->topics_n++;
    m->partitions_n += parts;
    if (m->on_topic != NULL) {
        m->on_topic(m->u, t, false);
    }
    return ERR_OK;
}

static err apply_topic_removal(struct meta *m, const void *body) {
    struct meta_topic *t = meta_topic_by_id(m, ((const struct r_meta_topic_removal *)body)->id);
    if (t == NULL) {
        return ERR_DAMAGED;
    }
    map_remove(&m->by_name, &t->by_name);
    map_remove(&m->by_id, &t->by_id);
    list_remove(&t->link);
    m->topics_n--;
    m->partitions_n -= t->parts_n;
    t->gone = true;
    if (m->on_topic != NULL) {
        m->on_topic(m->u, t, true);
    }
    meta_topic_unref(t);
    return ERR_OK;
}

static err apply_partition_change(struct meta *m, const void *body) {
    const struct r_meta_partition_change *c = body;
    struct meta_topic *t = meta_topic_by_id(m, c->topic_id);
    if (t == NULL || c->index < 0 || c->index >= t->parts_n || c->leader < -1) {
        return ERR_DAMAGED;
    }
    if (c->leader >= 0 && c->leader != m->node_id) {
        return ERR_NEWER;
    }
    struct meta_part *p = &t->parts[c->index];
    if (c->leader_epoch < p->leader_epoch) {       /* S3.9: never backwards */
        return ERR_DAMAGED;
    }
    *p = (struct meta_part){.leader = c->leader, .leader_epoch = c->leader_epoch};
    if (m->on_epoch != NULL) {
        m->on_epoch(m->u, t, c->index);
    }
    return ERR_OK;
}

static err apply_producer_ids(struct meta *m, const void *body) {
    const struct r_meta_producer_ids *p = body;
    if (p->next < m->producer_ids_next) {          /* S6.10: ids never repeat */
        return ERR_DAMAGED;
    }
    m->producer_ids_next = p->next;
    return ERR_OK;
}

/* ---- the table ---- */

struct meta_apply_row {
    uint16_t key;
    const struct msg *msg;
    err (*apply)(struct meta *m, const void *body);
};
static const struct meta_apply_row rows[] = {
    {R_META_FORMAT_KEY, &r_meta_format_msg, apply_format},
    {R_META_BROKER_KEY, &r_meta_broker_msg, apply_broker},
    {R_META_TOPIC_KEY, &r_meta_topic_msg, apply_topic},
    {R_META_TOPIC_REMOVAL_KEY, &r_meta_topic_removal_msg, apply_topic_removal},
    {R_META_PARTITION_CHANGE_KEY, &r_meta_partition_change_msg, apply_partition_change},
    {R_META_PRODUCER_IDS_KEY, &r_meta_producer_ids_msg, apply_producer_ids},
    {R_META_TOPIC_GROWTH_KEY, &r_meta_topic_growth_msg, meta_grow_apply},
    {R_META_TOPIC_SETTINGS_KEY, &r_meta_topic_settings_msg, meta_conf_apply_topic},
    {R_META_RESOURCE_SETTINGS_KEY, &r_meta_resource_settings_msg, meta_conf_apply_resource},
};

/* Room for the decoded root of any record. */
union meta_apply_body {
    struct r_meta_format format;
    struct r_meta_broker broker;
    struct r_meta_topic topic;
    struct r_meta_topic_removal removal;
    struct r_meta_partition_change change;
    struct r_meta_producer_ids ids;
    struct r_meta_topic_growth growth;
    struct r_meta_topic_settings topic_settings;
    struct r_meta_resource_settings resource_settings;
};

static err apply_record(struct meta *m, const struct meta_frame_record *rec) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].key != rec->key) {
            continue;
        }
        union meta_apply_body body;
        struct arena a;
        arena_init(&a, NULL, LIMIT_ARENA_BYTES);
        err e = meta_frame_get(rec, rows[i].msg, &body, &a);
        e = e == ERR_OK ? rows[i].apply(m, &body) : e;
        arena_done(&a);
        return e;
    }
    return rec->key == 0 ? ERR_DAMAGED : ERR_NEWER;
}

err meta_apply(struct meta *m, span frame) {
    struct meta_frame_record rec;
    err e;
    while ((e = meta_frame_next(&frame, &rec)) == ERR_OK) {
        e = apply_record(m, &rec);
        if (e != ERR_OK) {
            return e;
        }
    }
    if (e != ERR_NOT_FOUND) {
        return e;
    }
    m->seen++;
    return ERR_OK;
}
