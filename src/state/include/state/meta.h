/* The cluster's metadata: a pure state machine over records (D4, D11). Each shard holds its own copy, changed only by meta_apply on its own thread;
 * shard 0 decides, makes the records durable, and then every shard applies the same bytes. Quiet. Five verbs: decide (const), apply.
 *
 * Records (schema/records/meta.msg): format and cluster id; broker; topic (id, name, settings); partitions of a topic (leader epoch, replica set);
 * partition epoch change; topic growth; topic removal; producer-id block; settings of a topic, a broker, a group, a metrics subscription. A propose is one frame of
 * records, applied whole. */
#pragma once

#include "base/arena.h"
#include "base/list.h"
#include "base/map.h"
#include "base/uuid.h"
#include "state/topicconf.h"

struct meta_part {
    int32_t leader, leader_epoch;              /* replica set of one today: {leader} */
};

struct meta_topic {
    struct map_node by_name, by_id;
    struct list link;                          /* in meta->topics, order of name is not kept */
    uint32_t refs;                             /* parts and the meta itself; this shard's thread only */
    bool gone;                                 /* removed; kept only by references */
    char *name;
    uuid id;
    int32_t parts_n;
    struct meta_part *parts;                   /* growth moves them */
    void *parts_block;                         /* what holds them since the topic grew; NULL: the topic's own block */
    struct topicconf_entry *entries;           /* own settings, sorted by name; a change of settings moves them: copy what outlives the turn */
    size_t entries_n;
    void *entries_block;                       /* what holds them since they changed; NULL: the topic's own block */
    struct topicconf conf;                     /* effective */
    bool internal;                             /* S3.15 */
};

enum meta_kind { META_TOPIC = 2, META_BROKER = 4, META_METRICS = 16, META_GROUP = 32 };        /* as the Kafka API numbers them; stored */

/* Dynamic settings of what is no topic; one that has none does not exist. */
struct meta_resource {
    struct map_node node;                      /* in meta->by_resource */
    struct list link;                          /* in meta->resources, oldest first */
    enum meta_kind kind;
    span name;                                 /* META_BROKER: the broker's id, or "" for all brokers */
    struct topicconf_entry *entries;           /* sorted by name; values are never null */
    size_t entries_n;
};

struct meta {
    struct map by_name, by_id, by_resource;
    struct list topics, resources;
    size_t topics_n, resources_n;
    int64_t partitions_n;
    uuid cluster_id;
    int32_t node_id;                           /* ours */
    int64_t producer_ids_next;                 /* first id of the next block */
    uint64_t seen;                             /* frames applied */
    const struct topicconf *defaults;          /* what file, environment and flags say; borrowed */
    struct topicconf effective;                /* defaults, overlaid by the broker's dynamic settings: what a topic without own settings obeys */
    /* Called by meta_apply after the change, so that a shard opens and drops its parts. May be NULL. */
    void (*on_topic)(void *u, struct meta_topic *t, bool removed);
    void (*on_epoch)(void *u, struct meta_topic *t, int32_t partition);
    void (*on_growth)(void *u, struct meta_topic *t, int32_t first);       /* partitions from `first` on are new */
    void (*on_conf)(void *u, struct meta_topic *t);            /* t->conf is new: the topic's settings or those of the broker changed (S16.9) */
    void (*on_broker_conf)(void *u);           /* dynamic broker settings changed; each topic's on_conf came before */
    void *u;
};

err meta_new(const struct topicconf *defaults, uint64_t seed, struct meta **ret_m);
void meta_free(struct meta *m);
struct meta_topic *meta_topic_by_name(const struct meta *m, span name);
struct meta_topic *meta_topic_by_id(const struct meta *m, uuid id);
void meta_topic_ref(struct meta_topic *t);
void meta_topic_unref(struct meta_topic *t);
/* Names of all topics, sorted, as an array in the arena (ListTopics, Metadata all). NOMEM. */
err meta_topics_sorted(const struct meta *m, struct arena *a, struct meta_topic ***ret, size_t *ret_n);

/* ---- decide: read-only; frames of records go to `ret_frame` (appended) ---- */
struct meta_create {
    span name;
    int32_t partitions;                        /* -1: num_partitions_default */
    int16_t replication;                       /* -1: default */
    int32_t assignments_n;                     /* manual: partition ids and their brokers (S4.6) */
    const int32_t *assignment_parts;
    const span *assignment_brokers;            /* each a packed array of int32 in host order */
    const struct topicconf_entry *entries;
    size_t entries_n;
    uuid id;                                   /* fresh, from the port's secret source */
    int32_t num_partitions_default;
    bool has_manual;
    bool system;                               /* the broker itself asks: names of internal topics are allowed (BR-050) */
};
/* The rules of CreateTopics (S4.1–4.8, 4.10): BAD_TOPIC, TOPIC_EXISTS, BAD_PARTITIONS, BAD_REPLICATION, BAD_ASSIGNMENT, BAD_SETTING, BAD_REQUEST, LIMIT, NOMEM;
 * one line in ret_why. *ret_partitions is what it would have. Twice the same name in one request (S4.4) is the caller's to see. */
err meta_decide_create(const struct meta *m, const struct meta_create *in, struct str *ret_frame, int32_t *ret_partitions, char *ret_why, size_t cap);

struct meta_grow {
    const struct meta_topic *topic;
    int32_t count;                             /* the new total */
    bool has_manual;
    int32_t assignments_n;                     /* one for each partition that is new, in order */
    const span *assignment_brokers;            /* each a packed array of int32 in host order */
};
/* The rules of CreatePartitions (S4.16): BAD_PARTITIONS, BAD_ASSIGNMENT, LIMIT, NOMEM; one line in ret_why. */
err meta_grow_decide(const struct meta *m, const struct meta_grow *in, struct str *ret_frame, char *ret_why, size_t cap);
err meta_decide_delete(const struct meta *m, const struct meta_topic *t, struct str *ret_frame);
err meta_decide_epoch(const struct meta *m, const struct meta_topic *t, int32_t partition, struct str *ret_frame);       /* leader epoch + 1 */
err meta_decide_format(uuid cluster_id, int32_t node_id, struct str *ret_frame);
err meta_decide_producer_block(const struct meta *m, int64_t n, struct str *ret_frame);

/* ---- settings: S16 ---- */
enum meta_conf_op { META_CONF_SET, META_CONF_DELETE, META_CONF_APPEND, META_CONF_SUBTRACT };   /* as the Kafka API numbers them */
struct meta_conf_change {
    span name, value;                          /* value may be null for DELETE */
    int8_t op;
};
struct meta_conf {
    enum meta_kind kind;
    span name;                                 /* of the resource */
    const struct meta_conf_change *changes;    /* no name twice: the caller's to see (S16.6) */
    size_t changes_n;
    bool replace;                              /* S16.7: what is not named goes back to its default; all are SET */
    const struct conf *conf;                   /* what file, environment and flags say: the list that an APPEND begins with */
};
/* All or nothing (S16.8). NO_TOPIC, BAD_SETTING, BAD_REQUEST, LIMIT, NOMEM; one line in ret_why. */
err meta_conf_decide(const struct meta *m, const struct meta_conf *in, struct str *ret_frame, char *ret_why, size_t cap);
/* NULL: it has no settings. */
const struct meta_resource *meta_conf_find(const struct meta *m, enum meta_kind kind, span name);
/* The broker's dynamic settings: its own, and those of all brokers. Each may be NULL. */
const struct meta_resource *meta_conf_broker(const struct meta *m);
const struct meta_resource *meta_conf_brokers(const struct meta *m);
/* A broker setting that is a number, as it was changed while the broker runs; otherwise: it was not. */
int64_t meta_conf_int(const struct meta *m, const char *name, int64_t otherwise);

/* S4.1; also for auto-creation. */
bool meta_topic_name_ok(span name);
bool meta_topic_name_is_internal(span name);   /* S3.15 */

/* ---- apply: the only writer; total over frames that decide made. DAMAGED on nonsense (a stored frame of another or newer version: NEWER), NOMEM. The
 * record that failed changed nothing; each decide makes one record, but for the format. The first broker record sets node_id if it is -1 ---- */
err meta_apply(struct meta *m, span frame);
/* The whole state as one frame, for a snapshot: applied to a new meta it gives an equal one. NOMEM, LIMIT. */
err meta_snapshot(const struct meta *m, struct str *ret_frames);
