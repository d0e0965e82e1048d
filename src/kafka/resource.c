/* See resource.h. Happy path: a kind that exists, a name that fits it. Failure modes: 42 with one line; 17 for a topic name that cannot be.
 * Runs on: home shard. */
#include "resource.h"

#include "api.h"

bool resource_allow(const struct rq *rq, const struct resource *res, enum allow_op op) {
    switch (res->type) {
    case META_TOPIC: return rq_allow(rq, op, ALLOW_TOPIC, res->name);
    case META_GROUP: return rq_allow(rq, op, ALLOW_GROUP, res->name);
    default: return rq_allow(rq, op, ALLOW_CLUSTER, SPAN_LIT("kafka-cluster"));
    }
}

static bool resource_is_us(const struct rq *rq, span name) {
    int64_t id = 0;
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] < '0' || name.p[i] > '9' || id > INT32_MAX) {
            return false;
        }
        id = id * 10 + (name.p[i] - '0');
    }
    return name.n > 0 && id == rq->sh->node->conf.node_id;
}

static err resource_refuse(const char **ret_why, const char *why) {
    *ret_why = why;
    return ERR_BAD_REQUEST;
}

err resource_check(struct rq *rq, const struct resource *res, const char **ret_why) {
    char shown[64];
    span_printable(res->name, shown, sizeof(shown));
    *ret_why = NULL;
    switch (res->type) {
    case META_TOPIC:
        if (!meta_topic_name_ok(res->name)) {
            *ret_why = arena_printf(&rq->arena, "'%s' cannot be the name of a topic", shown);
            return ERR_BAD_TOPIC;
        }
        return ERR_OK;
    case META_BROKER:
        if (res->name.n > 0 && !resource_is_us(rq, res->name)) {
            return resource_refuse(ret_why, arena_printf(&rq->arena, "this is broker %d, and the request names broker '%s': ask that one, or leave the name empty for all brokers",
                                                         rq->sh->node->conf.node_id, shown));
        }
        return ERR_OK;
    case RESOURCE_BROKER_LOGGER:
        if (!resource_is_us(rq, res->name)) {
            return resource_refuse(ret_why, arena_printf(&rq->arena, "loggers belong to one broker: this is broker %d, and the request names '%s'", rq->sh->node->conf.node_id, shown));
        }
        return ERR_OK;
    case META_METRICS:
    case META_GROUP:
        if (res->name.n == 0) {
            return resource_refuse(ret_why, arena_printf(&rq->arena, "the name of the %s is empty", res->type == META_GROUP ? "group" : "metrics subscription"));
        }
        return ERR_OK;
    default:
        return resource_refuse(ret_why, arena_printf(&rq->arena, "resource type %d has no settings here", res->type));
    }
}

int16_t resource_code(int8_t type, err e) {
    if (e == ERR_DENIED && type != META_TOPIC) {
        return type == META_GROUP ? 30 : 31;
    }
    return errmap_code(e);
}
