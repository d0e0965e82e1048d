/* What the node needs of the settings, as plain values.
 * Happy path: node_conf_from reads keys of state/conf. Failure modes: contradictory listeners (BR-040, BR-041): BAD_SETTING with one line.
 * Runs on: boot. */
#include <stdio.h>

#include "base/limits.h"
#include "broker/node.h"

void node_conf_defaults(struct node_conf *c) {
    *c = (struct node_conf){
        .node_id = 1,
        .num_partitions = 1,
        .replication_default = 1,
        .auto_create_topics = true,
        .delete_topics = true,
        .protected_mode = true,
        .frame_bytes_max = LIMIT_FRAME_BYTES,
        .fetch_bytes_max = LIMIT_FETCH_BYTES,
        .describe_parts_max = 2000,
        .fetch_sessions_max = LIMIT_FETCH_SESSIONS,
        .admit_bytes = LIMIT_ADMIT_BYTES,
        .conns_max = LIMIT_CONNS,
        .conn_idle_max = 600000,
        .retention_every = 300000,
        .producer_expiry = 86400000,
        .sync_age_max = 100,
        .unsynced_bytes_max = LIMIT_UNSYNCED_BYTES,
        .tail_bytes_max = LIMIT_TAIL_BYTES,
        .files_max = 4096,
    };
}

static err node_conf_listeners(const struct conf *c, struct node_conf *ret, char *why, size_t cap) {
    struct conf_doors doors = {0};
    err e = conf_endpoints(c, &doors, why, cap);
    for (size_t i = 0; e == ERR_OK && i < doors.n; i++) {
        const struct conf_endpoint *at = &doors.v[i];
        struct node_listener *l = &ret->listeners[ret->listeners_n++];
        snprintf(l->name, sizeof(l->name), "%s", at->listen.name);
        snprintf(l->host, sizeof(l->host), "%s", at->listen.host);
        snprintf(l->advertised_host, sizeof(l->advertised_host), "%s", at->advertised_host);
        l->port = at->listen.port;
        l->advertised_port = at->advertised_port;
    }
    return e;
}

err node_conf_from(const struct conf *c, struct node_conf *ret, char *ret_why, size_t cap) {
    node_conf_defaults(ret);
    ret->conf = c;
    topicconf_defaults(c, &ret->topic_defaults);
    ret->node_id = (int32_t)conf_int(c, "node.id");
    ret->num_partitions = (int32_t)conf_int(c, "num.partitions");
    ret->replication_default = (int16_t)conf_int(c, "default.replication.factor");
    ret->auto_create_topics = conf_bool(c, "auto.create.topics.enable");
    ret->delete_topics = conf_bool(c, "delete.topic.enable");
    ret->protected_mode = conf_bool(c, "protected.mode");
    ret->frame_bytes_max = (size_t)conf_int(c, "socket.request.max.bytes");
    ret->fetch_bytes_max = (size_t)conf_int(c, "fetch.max.bytes");
    ret->describe_parts_max = (int32_t)conf_int(c, "max.request.partition.size.limit");
    ret->fetch_sessions_max = (size_t)conf_int(c, "max.incremental.fetch.session.cache.slots");
    if (conf_int(c, "queued.max.request.bytes") > 0) {
        ret->admit_bytes = (size_t)conf_int(c, "queued.max.request.bytes");
    }
    ret->conns_max = (uint32_t)conf_int(c, "max.connections");
    ret->conn_idle_max = conf_int(c, "connections.max.idle.ms");
    ret->retention_every = conf_int(c, "log.retention.check.interval.ms");
    ret->producer_expiry = conf_int(c, "producer.id.expiration.ms");
    ret->sync_age_max = conf_int(c, "store.sync.age.ms");
    ret->unsynced_bytes_max = conf_int(c, "store.unsynced.max");
    ret->tail_bytes_max = conf_int(c, "store.tail.bytes");
    ret->space_reserve_bytes = conf_int(c, "store.space.reserve");
    ret->files_max = (uint32_t)conf_int(c, "store.files.max");
    return node_conf_listeners(c, ret, ret_why, cap);
}
