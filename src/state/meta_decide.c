/* What may become of the metadata: read-only, records out.
 * Happy path: every rule of S4.1-4.8 holds and one record follows from the wish. Failure modes: the err of the first rule that is broken,
 * with one line for whoever asked. Runs on: the shard whose copy it is (the metadata writer's). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/be.h"
#include "base/mem.h"
#include "base/must.h"
#include "meta_frame.h"
#include "meta_in.h"
#include "wire/r_meta.h"

#define META_BROKERS 1                             /* this node; a cluster counts its registrations */

/* Where the reason goes. */
struct meta_decide_why {
    char *text;
    size_t cap;
};

#define refuse(why, e, ...) (snprintf((why).text, (why).cap, __VA_ARGS__), (e))

static const char *shown(span name, char buf[LIMIT_TOPIC_NAME + 8]) { return span_printable(name, buf, LIMIT_TOPIC_NAME + 8); }

/* ---- names ---- */

static err check_name(span name, struct meta_decide_why why) {
    char buf[LIMIT_TOPIC_NAME + 8];
    if (span_eq_str(name, "__cluster_metadata")) {             /* S4.4 */
        return refuse(why, ERR_BAD_REQUEST, "topic name __cluster_metadata is reserved");
    }
    if (meta_topic_name_ok(name)) {
        return ERR_OK;
    }
    if (name.n == 0) {
        return refuse(why, ERR_BAD_TOPIC, "the topic name is empty");
    }
    if (name.n > LIMIT_TOPIC_NAME) {
        return refuse(why, ERR_BAD_TOPIC, "the topic name has %zu characters, the most is %d", name.n, LIMIT_TOPIC_NAME);
    }
    if (name.n <= 2 && name.p[0] == '.' && name.p[name.n - 1] == '.') {
        return refuse(why, ERR_BAD_TOPIC, "a topic cannot be named '.' or '..'");
    }
    return refuse(why, ERR_BAD_TOPIC, "topic name '%s' may hold only letters, digits, '.', '_' and '-'", shown(name, buf));
}

struct meta_decide_folded {
    char text[LIMIT_TOPIC_NAME];
    size_t n;
};

static bool folded_eq(const struct map_node *node, const void *key) {
    const struct meta_topic *t = (const struct meta_topic *)(const void *)((const char *)node - offsetof(struct meta_topic, by_name));
    const struct meta_decide_folded *f = key;
    return meta_folds_to(span_str(t->name), f->text, f->n);
}

static const struct meta_topic *collides_with(const struct meta *m, span name) {
    struct meta_decide_folded f = {.n = name.n};
    uint64_t hash = meta_name_hash(m, name, f.text);
    return meta_by_name_node(map_find(&m->by_name, hash, folded_eq, &f));
}

static err check_free(const struct meta *m, const struct meta_create *in, struct meta_decide_why why) {
    char buf[LIMIT_TOPIC_NAME + 8];
    if (meta_topic_by_name(m, in->name) != NULL) {
        return refuse(why, ERR_TOPIC_EXISTS, "topic '%s' already exists", shown(in->name, buf));
    }
    const struct meta_topic *other = collides_with(m, in->name);
    if (other != NULL) {
        return refuse(why, ERR_BAD_TOPIC, "topic '%s' collides with topic '%s': names that differ only in '.' and '_' cannot both exist",
                      shown(in->name, buf), other->name);
    }
    if (!in->system && meta_topic_name_is_internal(in->name)) {
        return refuse(why, ERR_BAD_TOPIC, "topic name %s is reserved for the broker itself", shown(in->name, buf));
    }
    return ERR_OK;
}

/* ---- sizes ---- */

static err check_assignment(const struct meta *m, int32_t part, span brokers, struct meta_decide_why why) {
    size_t n = brokers.n / sizeof(int32_t);
    if (n == 0) {
        return refuse(why, ERR_BAD_ASSIGNMENT, "partition %d has no replicas", part);
    }
    for (size_t i = 0; i < n; i++) {
        int32_t id;
        memcpy(&id, brokers.p + i * sizeof id, sizeof id);
        if (id != m->node_id) {
            return refuse(why, ERR_BAD_ASSIGNMENT, "partition %d is assigned to broker %d, which does not exist", part, id);
        }
    }
    if (n > META_BROKERS) {                        /* all of them are this broker */
        return refuse(why, ERR_BAD_ASSIGNMENT, "partition %d is assigned to broker %d twice", part, m->node_id);
    }
    return ERR_OK;
}

/* S4.6. seen: a zeroed flag per partition. */
static err check_assignments(const struct meta *m, const struct meta_create *in, bool *seen, struct meta_decide_why why) {
    for (int32_t i = 0; i < in->assignments_n; i++) {
        int32_t part = in->assignment_parts[i];
        if (part < 0 || part >= in->assignments_n) {
            return refuse(why, ERR_BAD_ASSIGNMENT, "partition %d is assigned, but %d assignments must number 0 to %d", part, in->assignments_n,
                          in->assignments_n - 1);
        }
        if (seen[part]) {
            return refuse(why, ERR_BAD_ASSIGNMENT, "partition %d is assigned twice", part);
        }
        seen[part] = true;
        err e = check_assignment(m, part, in->assignment_brokers[i], why);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

static err size_manual(const struct meta *m, const struct meta_create *in, int32_t *ret_parts, struct meta_decide_why why) {
    if (in->replication != -1) {
        return refuse(why, ERR_BAD_REQUEST, "with a manual assignment the replication factor must be -1, not %d", in->replication);
    }
    if (in->partitions != -1) {
        return refuse(why, ERR_BAD_REQUEST, "with a manual assignment the number of partitions must be -1, not %d", in->partitions);
    }
    if (in->assignments_n <= 0 || in->assignments_n > LIMIT_PARTITIONS_PER_TOPIC) {
        return refuse(why, ERR_BAD_ASSIGNMENT, "%d partitions are assigned: one topic can have 1 to %d", in->assignments_n, LIMIT_PARTITIONS_PER_TOPIC);
    }
    bool *seen = mem_zalloc(MEM_META, (size_t)in->assignments_n);
    if (seen == NULL) {
        return refuse(why, ERR_NOMEM, "out of memory");
    }
    err e = check_assignments(m, in, seen, why);
    mem_free(seen);
    if (e == ERR_OK) {
        *ret_parts = in->assignments_n;
    }
    return e;
}

/* S4.5, BR-049. */
static err size_counted(const struct meta_create *in, int32_t *ret_parts, struct meta_decide_why why) {
    if (in->replication == 0 || in->replication < -1) {
        return refuse(why, ERR_BAD_REPLICATION, "replication factor %d is not possible: it is 1 or more, or -1 for the default", in->replication);
    }
    if (in->replication > META_BROKERS) {
        return refuse(why, ERR_BAD_REPLICATION, "replication factor %d is larger than the number of brokers, which is %d", in->replication, META_BROKERS);
    }
    int32_t parts = in->partitions == -1 ? in->num_partitions_default : in->partitions;
    if (parts <= 0) {
        return refuse(why, ERR_BAD_PARTITIONS, "%d partitions are not possible: it is 1 or more, or -1 for the default", in->partitions);
    }
    if (parts > LIMIT_PARTITIONS_PER_TOPIC) {
        return refuse(why, ERR_BAD_PARTITIONS, "%d partitions are too many: the most for one topic is %d", parts, LIMIT_PARTITIONS_PER_TOPIC);
    }
    *ret_parts = parts;
    return ERR_OK;
}

static err check_settings(const struct meta_create *in, struct meta_decide_why why) {
    if (in->entries_n > LIMIT_TOPIC_SETTINGS) {
        return refuse(why, ERR_LIMIT, "%zu settings are too many for a topic", in->entries_n);
    }
    return topicconf_check(in->entries, in->entries_n, why.text, why.cap);
}

static err check_limits(const struct meta *m, int32_t parts, struct meta_decide_why why) {
    if (m->topics_n >= LIMIT_TOPICS) {
        return refuse(why, ERR_LIMIT, "there are %zu topics already, the most is %d", m->topics_n, LIMIT_TOPICS);
    }
    if (m->partitions_n + parts > LIMIT_PARTITIONS) {
        return refuse(why, ERR_LIMIT, "%d more partitions would make %lld, the most is %d", parts, (long long)(m->partitions_n + parts), LIMIT_PARTITIONS);
    }
    return ERR_OK;
}

/* ---- create ---- */

static int by_config_name(const void *a, const void *b) {
    return span_cmp(((const struct r_meta_topic_config *)a)->name, ((const struct r_meta_topic_config *)b)->name);
}

/* The topic's own settings, sorted; a key given twice counts with its last value. */
static err put_configs(const struct meta_create *in, struct r_meta_topic *rec, struct arena *a) {
    rec->configs = arena_alloc(a, in->entries_n * sizeof *rec->configs);
    if (rec->configs == NULL) {
        return ERR_NOMEM;
    }
    for (size_t i = 0; i < in->entries_n; i++) {
        int32_t at = 0;
        while (at < rec->configs_n && !span_eq(rec->configs[at].name, in->entries[i].name)) {
            at++;
        }
        r_meta_topic_config_init(&rec->configs[at]);
        rec->configs[at].name = in->entries[i].name;
        rec->configs[at].value = conf_value_trim(in->entries[i].value);
        rec->configs_n += at == rec->configs_n;
    }
    qsort(rec->configs, (size_t)rec->configs_n, sizeof *rec->configs, by_config_name);
    return ERR_OK;
}

static err put_topic(const struct meta *m, const struct meta_create *in, int32_t parts, struct str *out) {
    struct r_meta_topic rec;
    struct r_meta_topic_run run;
    struct arena a;
    int32_t node_id = m->node_id;
    r_meta_topic_init(&rec);
    r_meta_topic_run_init(&run);
    arena_init(&a, NULL, LIMIT_ARENA_BYTES);
    run.count = parts;
    run.leader = node_id;
    run.replicas = run.isr = &node_id;
    run.replicas_n = run.isr_n = 1;
    rec.name = in->name;
    rec.id = in->id;
    rec.runs = &run;
    rec.runs_n = 1;
    err e = put_configs(in, &rec, &a);
    e = e == ERR_OK ? meta_frame_put(out, R_META_TOPIC_KEY, &r_meta_topic_msg, &rec) : e;
    arena_done(&a);
    return e;
}

err meta_decide_create(const struct meta *m, const struct meta_create *in, struct str *ret_frame, int32_t *ret_partitions, char *ret_why, size_t cap) {
    struct meta_decide_why why = {ret_why, cap};
    int32_t parts = 0;
    must(!uuid_is_zero(in->id));
    err e = check_name(in->name, why);
    e = e == ERR_OK ? check_free(m, in, why) : e;
    e = e == ERR_OK && in->has_manual ? size_manual(m, in, &parts, why) : e == ERR_OK ? size_counted(in, &parts, why) : e;
    e = e == ERR_OK ? check_settings(in, why) : e;
    e = e == ERR_OK ? check_limits(m, parts, why) : e;
    if (e != ERR_OK) {
        return e;
    }
    e = put_topic(m, in, parts, ret_frame);
    if (e != ERR_OK) {
        return refuse(why, e, "%s", e == ERR_NOMEM ? "out of memory" : "the topic's settings are too long to be stored");
    }
    *ret_partitions = parts;
    return ERR_OK;
}

/* ---- the others ---- */

err meta_decide_delete(const struct meta *m, const struct meta_topic *t, struct str *ret_frame) {
    (void)m;
    struct r_meta_topic_removal rec;
    must(!t->gone);
    r_meta_topic_removal_init(&rec);
    rec.id = t->id;
    return meta_frame_put(ret_frame, R_META_TOPIC_REMOVAL_KEY, &r_meta_topic_removal_msg, &rec);
}

err meta_decide_epoch(const struct meta *m, const struct meta_topic *t, int32_t partition, struct str *ret_frame) {
    struct r_meta_partition_change rec;
    must(!t->gone);
    must(partition >= 0 && partition < t->parts_n);
    if (t->parts[partition].leader_epoch == INT32_MAX) {
        return ERR_LIMIT;
    }
    r_meta_partition_change_init(&rec);
    rec.topic_id = t->id;
    rec.index = partition;
    rec.leader = m->node_id;
    rec.leader_epoch = t->parts[partition].leader_epoch + 1;
    return meta_frame_put(ret_frame, R_META_PARTITION_CHANGE_KEY, &r_meta_partition_change_msg, &rec);
}

err meta_decide_format(uuid cluster_id, int32_t node_id, struct str *ret_frame) {
    struct r_meta_format format;
    struct r_meta_broker broker;
    must(!uuid_is_zero(cluster_id));
    must(node_id >= 0);
    r_meta_format_init(&format);
    r_meta_broker_init(&broker);
    format.cluster_id = cluster_id;
    broker.id = node_id;
    err e = meta_frame_put(ret_frame, R_META_FORMAT_KEY, &r_meta_format_msg, &format);
    return e == ERR_OK ? meta_frame_put(ret_frame, R_META_BROKER_KEY, &r_meta_broker_msg, &broker) : e;
}

err meta_decide_producer_block(const struct meta *m, int64_t n, struct str *ret_frame) {
    struct r_meta_producer_ids rec;
    must(n > 0);
    r_meta_producer_ids_init(&rec);
    if (__builtin_add_overflow(m->producer_ids_next, n, &rec.next)) {
        return ERR_LIMIT;
    }
    return meta_frame_put(ret_frame, R_META_PRODUCER_IDS_KEY, &r_meta_producer_ids_msg, &rec);
}
