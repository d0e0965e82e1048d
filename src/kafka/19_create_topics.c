/* CreateTopics v0-7.
 *
 * Behaviour: per topic its own verdict (S4.11); the rules are state/meta's. The answer leaves when every shard has the topic (S4.12). validate_only checks and creates nothing (S4.8).
 * Versions: v1+ validate_only and a message; v4+ -1 takes the broker's defaults (BR-049), below it is 37 or 38; v5+ partition count, replication factor and effective settings sorted by name
 * (S4.9); v7+ the topic id (S4.10).
 * Runs on: home shard; decided on shard 0. */
#include <string.h>

#include "api.h"
#include "broker/topics.h"
#include "seen.h"
#include "state/confview.h"
#include "wire/k_create_topics.h"

struct create_topics_one {
    struct topics_change change;
    struct rq *rq;
    const struct k_create_topics_req_topic *from;
    struct k_create_topics_resp_topic *to;
};

struct create_topics_work {
    struct k_create_topics_resp resp;
    uint32_t *first, *times;           /* per entry: the first one of its name; how often the request names it, told of the first (S4.4) */
    struct k_create_topics_resp_topic_config *defaults;        /* effective settings of a topic that has none of its own; shared */
    int32_t configs_n;                 /* keys of a topic */
    size_t left;
};

#define CREATE_TOPICS_MAX 10000        /* in one request */

static void create_topics_refuse(struct k_create_topics_resp_topic *to, err e, const char *why) {
    to->error_code = errmap_code(e);
    to->error_message = span_str(why[0] == '\0' ? err_text(e) : why);
    to->topic_id = (uuid){{0}};
    to->partitions = -1;
    to->replication_factor = -1;
    to->configs_n = -1;
}

/* Effective settings, as DescribeConfigs would tell them; NULL without memory. */
static struct k_create_topics_resp_topic_config *create_topics_list(struct rq *rq, const struct topicconf_entry *entries, size_t entries_n) {
    struct create_topics_work *w = rq->work;
    struct confview v;
    confview_init(&v, rq->sh->meta, rq->sh->node->conf.conf, META_TOPIC);
    v.own = entries;
    v.own_n = entries_n;
    struct k_create_topics_resp_topic_config *list = rq_array(rq, (size_t)w->configs_n, sizeof(*list)), *c = list;
    for (size_t i = 0; i < conf_keys_n && list != NULL; i++) {
        struct confview_told told;
        if ((conf_keys[i].flags & CONF_TOPIC) == 0) {
            continue;
        }
        k_create_topics_resp_topic_config_init(c);
        if (confview_get(&v, &conf_keys[i], &rq->arena, &told) != ERR_OK) {
            return NULL;
        }
        c->name = span_str(conf_keys[i].name);
        c->value = told.value;
        c->config_source = (int8_t)told.layers[0].source;
        c++;
    }
    return list;
}

static void create_topics_configs(struct create_topics_one *one) {
    struct create_topics_work *w = one->rq->work;
    const struct meta_create *in = &one->change.create;
    if (in->entries_n > 0) {
        one->to->configs = create_topics_list(one->rq, in->entries, in->entries_n);
    } else {
        w->defaults = w->defaults != NULL ? w->defaults : create_topics_list(one->rq, NULL, 0);
        one->to->configs = w->defaults;
    }
    one->to->configs_n = one->to->configs == NULL ? -1 : w->configs_n;
}

/* S4.9: sizes and settings are for those who may see them. */
static void create_topics_show(struct create_topics_one *one) {
    if (!rq_allow(one->rq, ALLOW_DESCRIBE_CONFIGS, ALLOW_TOPIC, one->to->name)) {
        one->to->config_error_code = errmap_code(ERR_DENIED);
        one->to->partitions = -1;
        one->to->replication_factor = -1;
        one->to->configs_n = -1;
        return;
    }
    one->to->partitions = one->change.partitions;
    one->to->replication_factor = 1;
    create_topics_configs(one);
}

static void create_topics_done(struct ask *ask) {
    struct create_topics_one *one = list_entry(list_entry(ask, struct topics_change, ask), struct create_topics_one, change);
    struct create_topics_work *w = one->rq->work;
    if (ask->err != ERR_OK) {
        create_topics_refuse(one->to, ask->err, one->change.why);
    } else {
        one->to->topic_id = one->change.validate_only ? (uuid){{0}} : one->change.topic_id;
        create_topics_show(one);
    }
    if (--w->left == 0) {
        rq_reply(one->rq, &w->resp);
    }
}

static bool create_topics_input(struct create_topics_one *one) {
    struct rq *rq = one->rq;
    const struct k_create_topics_req_topic *from = one->from;
    struct meta_create *in = &one->change.create;
    size_t an = from->assignments_n > 0 ? (size_t)from->assignments_n : 0, cn = from->configs_n > 0 ? (size_t)from->configs_n : 0;
    int32_t *ids = rq_array(rq, an, sizeof(*ids));
    span *brokers = rq_array(rq, an, sizeof(*brokers));
    struct topicconf_entry *entries = rq_array(rq, cn, sizeof(*entries));
    if (ids == NULL || brokers == NULL || entries == NULL) {
        return false;
    }
    for (size_t i = 0; i < an; i++) {
        ids[i] = from->assignments[i].partition;
        size_t bn = from->assignments[i].brokers_n > 0 ? (size_t)from->assignments[i].brokers_n : 0;
        brokers[i] = span_of(from->assignments[i].brokers, bn * sizeof(int32_t));
    }
    for (size_t i = 0; i < cn; i++) {
        entries[i] = (struct topicconf_entry){from->configs[i].name, from->configs[i].value};
    }
    *in = (struct meta_create){
        .name = from->name,
        .partitions = from->partitions,
        .replication = from->replication_factor,
        .assignments_n = (int32_t)an,
        .assignment_parts = ids,
        .assignment_brokers = brokers,
        .entries = entries,
        .entries_n = cn,
        .num_partitions_default = rq->sh->node->conf.num_partitions,
        .has_manual = an > 0,
    };
    return true;
}

static bool create_topics_send(struct rq *rq, const struct k_create_topics_req_topic *from, struct k_create_topics_resp_topic *to) {
    const struct k_create_topics_req *q = rq->body;
    struct create_topics_work *w = rq->work;
    struct create_topics_one *one = rq_array(rq, 1, sizeof(*one));
    if (one == NULL) {
        return false;
    }
    topics_init(&one->change, TOPICS_CREATE, create_topics_done);
    one->rq = rq;
    one->from = from;
    one->to = to;
    if (!create_topics_input(one)) {
        return false;
    }
    uint8_t random[16];
    rq->sh->port->secret(rq->sh->port, random, sizeof(random));
    one->change.topic_id = uuid_from_random(random);
    one->change.validate_only = rq->version >= 1 && q->validate_only;
    w->left++;
    topics_send(rq->sh, &one->change);
    return true;
}

static err create_topics_judge(const struct rq *rq, const struct k_create_topics_req_topic *from, size_t times, const char **why) {
    if (!rq_allow(rq, ALLOW_CREATE, ALLOW_CLUSTER, SPAN_LIT("kafka-cluster")) && !rq_allow(rq, ALLOW_CREATE, ALLOW_TOPIC, from->name)) {
        return ERR_DENIED;
    }
    if (times > 1) {
        *why = "the request names this topic more than once";
        return ERR_BAD_REQUEST;
    }
    if (((const struct k_create_topics_req *)rq->body)->topics_n > CREATE_TOPICS_MAX) {
        *why = "more than 10000 topics in one request";
        return ERR_LIMIT;
    }
    if (rq->version < 4 && from->assignments_n <= 0 && from->partitions == -1) {
        *why = "-1 partitions (the broker's default) needs CreateTopics version 4";
        return ERR_BAD_PARTITIONS;
    }
    if (rq->version < 4 && from->assignments_n <= 0 && from->replication_factor == -1) {
        *why = "replication factor -1 (the broker's default) needs CreateTopics version 4";
        return ERR_BAD_REPLICATION;
    }
    return ERR_OK;
}

/* One entry per name in the answer. */
static void create_topics_entry(struct rq *rq, size_t i) {
    const struct k_create_topics_req *q = rq->body;
    struct create_topics_work *w = rq->work;
    struct k_create_topics_resp_topic *to = &w->resp.topics[w->resp.topics_n++];
    k_create_topics_resp_topic_init(to);
    to->name = q->topics[i].name;
    const char *why = "";
    err e = create_topics_judge(rq, &q->topics[i], w->times[i], &why);
    if (e == ERR_OK && !create_topics_send(rq, &q->topics[i], to)) {
        e = ERR_NOMEM;
    }
    if (e != ERR_OK) {
        create_topics_refuse(to, e, why);
    }
}

static bool create_topics_same(const void *u, uint32_t a, uint32_t b) {
    const struct k_create_topics_req *q = u;
    return span_eq(q->topics[a].name, q->topics[b].name);
}

static bool create_topics_count(struct rq *rq, size_t n) {
    const struct k_create_topics_req *q = rq->body;
    struct create_topics_work *w = rq->work;
    struct seen seen;
    w->first = rq_array(rq, n, sizeof(*w->first));
    w->times = rq_array(rq, n, sizeof(*w->times));
    if (w->first == NULL || w->times == NULL || !seen_init(&seen, rq, n)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        w->first[i] = seen_add(&seen, seen_hash(&seen, q->topics[i].name), i, create_topics_same, q);
        w->times[w->first[i]]++;
    }
    return true;
}

void create_topics_run(struct rq *rq) {
    const struct k_create_topics_req *q = rq->body;
    size_t n = q->topics_n > 0 ? (size_t)q->topics_n : 0;
    struct create_topics_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    struct k_create_topics_resp_topic *topics = rq_array(rq, n, sizeof(*topics));
    if (w == NULL || topics == NULL || !create_topics_count(rq, n)) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    for (size_t i = 0; i < conf_keys_n; i++) {
        w->configs_n += (conf_keys[i].flags & CONF_TOPIC) != 0;
    }
    rq->arena.ceiling += (n < CREATE_TOPICS_MAX ? n : CREATE_TOPICS_MAX) *
                         (sizeof(struct create_topics_one) + (size_t)w->configs_n * (sizeof(struct k_create_topics_resp_topic_config) + 96));
    k_create_topics_resp_init(&w->resp);
    w->resp.topics = topics;
    w->left = 1;
    for (size_t i = 0; i < n; i++) {
        if (w->first[i] == i) {
            create_topics_entry(rq, i);
        }
    }
    if (--w->left == 0) {
        rq_reply(rq, &w->resp);
    }
}
