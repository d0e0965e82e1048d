/* ListConfigResources v0-1: which resources have, or may have, settings of their own.
 *
 * Behaviour: topics and brokers that exist, the broker's loggers, and groups and metrics subscriptions that have settings; an empty list of types means all (S16.11). An unknown type: 35.
 * Versions: v0 metrics subscriptions only; v1+ by type.
 * Runs on: home shard, from its own copy of the metadata. */
#include <stdio.h>

#include "api.h"
#include "resource.h"
#include "wire/k_list_config_resources.h"

#define LIST_CONFIG_RESOURCES_EACH 320             /* of the answer, charged per resource: struct and encoded name */

struct list_config_resources_work {
    struct k_list_config_resources_resp resp;
    bool topics, brokers, loggers, metrics, groups;
};

static bool list_config_resources_add(struct rq *rq, int8_t type, span name) {
    struct list_config_resources_work *w = rq->work;
    struct k_list_config_resources_resp_resource *to = &w->resp.resources[w->resp.resources_n++];
    k_list_config_resources_resp_resource_init(to);
    to->type = type;
    to->name = arena_copy(&rq->arena, name);
    return !span_is_null(to->name);
}

static bool list_config_resources_topics(struct rq *rq) {
    struct meta_topic **list;
    size_t n;
    if (meta_topics_sorted(rq->sh->meta, &rq->arena, &list, &n) != ERR_OK) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (!list_config_resources_add(rq, META_TOPIC, span_str(list[i]->name))) {
            return false;
        }
    }
    return true;
}

static bool list_config_resources_us(struct rq *rq, int8_t type) {
    char id[16];
    int n = snprintf(id, sizeof(id), "%d", rq->sh->node->conf.node_id);
    return list_config_resources_add(rq, type, span_of(id, (size_t)n));
}

static bool list_config_resources_kept(struct rq *rq) {
    const struct list_config_resources_work *w = rq->work;
    list_each(it, &rq->sh->meta->resources) {
        const struct meta_resource *res = list_entry(it, struct meta_resource, link);
        bool wanted = (res->kind == META_METRICS && w->metrics) || (res->kind == META_GROUP && w->groups);
        if (wanted && !list_config_resources_add(rq, (int8_t)res->kind, res->name)) {
            return false;
        }
    }
    return true;
}

static void list_config_resources_answer(struct rq *rq) {
    struct list_config_resources_work *w = rq->work;
    if (rq->abandoned) {
        rq_silent(rq);
        return;
    }
    w->resp.resources = rq_array(rq, rq->sh->meta->topics_n + rq->sh->meta->resources_n + 2, sizeof(*w->resp.resources));
    bool ok = w->resp.resources != NULL;
    ok = ok && (!w->topics || list_config_resources_topics(rq));
    ok = ok && (!w->brokers || list_config_resources_us(rq, META_BROKER));
    ok = ok && (!w->loggers || list_config_resources_us(rq, RESOURCE_BROKER_LOGGER));
    ok = ok && list_config_resources_kept(rq);
    if (!ok) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    rq_reply(rq, &w->resp);
}

/* What is asked for; false: a type that does not exist. */
static bool list_config_resources_types(struct list_config_resources_work *w, const struct rq *rq) {
    const struct k_list_config_resources_req *q = rq->body;
    bool all = rq->version >= 1 && q->resource_types_n <= 0;
    w->topics = w->brokers = w->loggers = w->groups = all;
    w->metrics = all || rq->version == 0;
    for (int32_t i = 0; rq->version >= 1 && i < q->resource_types_n; i++) {
        switch (q->resource_types[i]) {
        case META_TOPIC: w->topics = true; break;
        case META_BROKER: w->brokers = true; break;
        case RESOURCE_BROKER_LOGGER: w->loggers = true; break;
        case META_METRICS: w->metrics = true; break;
        case META_GROUP: w->groups = true; break;
        default: return false;
        }
    }
    return true;
}

void list_config_resources_run(struct rq *rq) {
    struct list_config_resources_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    if (w == NULL) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    k_list_config_resources_resp_init(&w->resp);
    if (!rq_allow(rq, ALLOW_DESCRIBE_CONFIGS, ALLOW_CLUSTER, SPAN_LIT("kafka-cluster"))) {
        w->resp.error_code = 31;
        rq_reply(rq, &w->resp);
        return;
    }
    if (!list_config_resources_types(w, rq)) {
        w->resp.error_code = errmap_code(ERR_BAD_VERSION);
        rq_reply(rq, &w->resp);
        return;
    }
    const struct meta *m = rq->sh->meta;
    size_t bytes = ((w->topics ? m->topics_n : 0) + m->resources_n + 2) * LIST_CONFIG_RESOURCES_EACH;
    rq->arena.ceiling += bytes * 2;
    rq_charge(rq, bytes, list_config_resources_answer);
}
