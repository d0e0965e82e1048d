/* What settings may be of, as the Kafka API names it: topics, brokers, broker loggers, groups, client metrics subscriptions. Shared by the configuration APIs. */
#pragma once

#include "rq.h"
#include "state/meta.h"

#define RESOURCE_BROKER_LOGGER 8       /* beside the kinds of state/meta: nothing of it is stored */
#define RESOURCE_LOGGER "root"         /* the one logger there is */
#define RESOURCE_SOURCE_LOGGER 6

struct resource {
    int8_t type;
    span name;
};

bool resource_allow(const struct rq *rq, const struct resource *res, enum allow_op op);
/* S16.4, but for the topic's existence: BAD_REQUEST, BAD_TOPIC. *ret_why is one line in the request's arena, or NULL. */
err resource_check(struct rq *rq, const struct resource *res, const char **ret_why);
/* e on the wire: what is not allowed is told by the type (S14.9). */
int16_t resource_code(int8_t type, err e);
