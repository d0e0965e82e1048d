/* The whole metadata as one frame, from which an empty copy becomes equal to this one.
 * Happy path: identity, producer ids, settings of brokers and the like, topics in the order of their creation. Failure modes: NOMEM, LIMIT (the text's ceiling).
 * Runs on: the shard whose copy it is. */
#include "meta_frame.h"
#include "meta_in.h"
#include "wire/r_meta.h"

static bool same_part(const struct meta_part *a, const struct meta_part *b) { return a->leader == b->leader && a->leader_epoch == b->leader_epoch; }

static int32_t count_runs(const struct meta_topic *t) {
    int32_t n = 0;
    for (int32_t i = 0; i < t->parts_n; i++) {
        n += i == 0 || !same_part(&t->parts[i], &t->parts[i - 1]);
    }
    return n;
}

/* rec->runs has room for count_runs; replica sets are this node alone. */
static void fill_runs(const struct meta_topic *t, int32_t *node_id, struct r_meta_topic *rec) {
    rec->runs_n = 0;
    for (int32_t i = 0; i < t->parts_n; i++) {
        if (i > 0 && same_part(&t->parts[i], &t->parts[i - 1])) {
            rec->runs[rec->runs_n - 1].count++;
            continue;
        }
        struct r_meta_topic_run *r = &rec->runs[rec->runs_n++];
        r_meta_topic_run_init(r);
        r->count = 1;
        r->leader = t->parts[i].leader;
        r->leader_epoch = t->parts[i].leader_epoch;
        r->replicas = r->isr = node_id;
        r->replicas_n = r->isr_n = 1;
    }
}

static err put_topic(const struct meta *m, const struct meta_topic *t, struct str *out) {
    struct r_meta_topic rec;
    struct arena a;
    int32_t node_id = m->node_id;
    r_meta_topic_init(&rec);
    arena_init(&a, NULL, SIZE_MAX);
    rec.name = span_str(t->name);
    rec.id = t->id;
    rec.configs_n = (int32_t)t->entries_n;
    rec.configs = arena_alloc(&a, t->entries_n * sizeof *rec.configs);
    rec.runs = arena_alloc(&a, (size_t)count_runs(t) * sizeof *rec.runs);
    if (rec.configs == NULL || rec.runs == NULL) {
        arena_done(&a);
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < t->entries_n; i++) {
        r_meta_topic_config_init(&rec.configs[i]);
        rec.configs[i].name = t->entries[i].name;
        rec.configs[i].value = t->entries[i].value;
    }
    fill_runs(t, &node_id, &rec);
    err e = meta_frame_put(out, R_META_TOPIC_KEY, &r_meta_topic_msg, &rec);
    arena_done(&a);
    return e;
}

static err put_resource(const struct meta_resource *res, struct str *out) {
    struct r_meta_resource_settings rec;
    struct arena a;
    r_meta_resource_settings_init(&rec);
    arena_init(&a, NULL, SIZE_MAX);
    rec.kind = (int8_t)res->kind;
    rec.name = res->name;
    rec.configs_n = (int32_t)res->entries_n;
    rec.configs = arena_alloc(&a, res->entries_n * sizeof *rec.configs);
    err e = rec.configs == NULL ? ERR_NOMEM : ERR_OK;
    for (size_t i = 0; e == ERR_OK && i < res->entries_n; i++) {
        r_meta_resource_settings_config_init(&rec.configs[i]);
        rec.configs[i].name = res->entries[i].name;
        rec.configs[i].value = res->entries[i].value;
    }
    e = e == ERR_OK ? meta_frame_put(out, R_META_RESOURCE_SETTINGS_KEY, &r_meta_resource_settings_msg, &rec) : e;
    arena_done(&a);
    return e;
}

static err put_identity(const struct meta *m, struct str *out) {
    struct r_meta_format format;
    struct r_meta_broker broker;
    struct r_meta_producer_ids ids;
    r_meta_format_init(&format);
    r_meta_broker_init(&broker);
    r_meta_producer_ids_init(&ids);
    format.cluster_id = m->cluster_id;
    broker.id = m->node_id;
    ids.next = m->producer_ids_next;
    err e = uuid_is_zero(m->cluster_id) ? ERR_OK : meta_frame_put(out, R_META_FORMAT_KEY, &r_meta_format_msg, &format);
    e = e == ERR_OK && m->node_id >= 0 ? meta_frame_put(out, R_META_BROKER_KEY, &r_meta_broker_msg, &broker) : e;
    return e == ERR_OK && ids.next > 0 ? meta_frame_put(out, R_META_PRODUCER_IDS_KEY, &r_meta_producer_ids_msg, &ids) : e;
}

err meta_snapshot(const struct meta *m, struct str *ret_frames) {
    err e = put_identity(m, ret_frames);
    list_each(it, &m->resources) {
        if (e != ERR_OK) {
            break;
        }
        e = put_resource(list_entry(it, struct meta_resource, link), ret_frames);
    }
    list_each(it, &m->topics) {
        if (e != ERR_OK) {
            break;
        }
        e = put_topic(m, list_entry(it, struct meta_topic, link), ret_frames);
    }
    return e;
}
