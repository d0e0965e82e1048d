/* What is served: one row an API. The advertised list (18_api_versions.c) is made from this table and the schema, so it is the truth (S2.8).
 * Runs on: home shard. */
#include "api.h"

#include <string.h>

const struct api_row api_rows[] = {
    {K_PRODUCE, true, produce_run},
    {K_FETCH, false, fetch_run},
    {K_LIST_OFFSETS, false, list_offsets_run},
    {K_METADATA, false, metadata_run},
    {K_FIND_COORDINATOR, false, find_coordinator_run},
    {K_API_VERSIONS, false, api_versions_run},
    {K_CREATE_TOPICS, false, create_topics_run},
    {K_DELETE_TOPICS, false, delete_topics_run},
    {K_DELETE_RECORDS, false, delete_records_run},
    {K_INIT_PRODUCER_ID, false, init_producer_id_run},
    {K_OFFSET_FOR_LEADER_EPOCH, false, offset_for_leader_epoch_run},
    {K_DESCRIBE_CONFIGS, false, describe_configs_run},
    {K_ALTER_CONFIGS, false, alter_configs_run},
    {K_INCREMENTAL_ALTER_CONFIGS, false, incremental_alter_configs_run},
    {K_LIST_CONFIG_RESOURCES, false, list_config_resources_run},
    {K_DESCRIBE_LOG_DIRS, false, describe_log_dirs_run},
    {K_CREATE_PARTITIONS, false, create_partitions_run},
    {K_DESCRIBE_CLUSTER, false, describe_cluster_run},
    {K_DESCRIBE_TOPIC_PARTITIONS, false, describe_topic_partitions_run},
};
const size_t api_rows_n = sizeof(api_rows) / sizeof(api_rows[0]);

const struct api_row *api_row_find(int key) {
    for (size_t i = 0; i < api_rows_n; i++) {
        if (api_rows[i].key == key) {
            return &api_rows[i];
        }
    }
    return NULL;
}

struct api_self api_self(const struct rq *rq) {
    const struct node *n = rq->sh->node;
    const struct node_listener *l = rq->cn->listener;
    const char *host = l->advertised_host[0] != '\0' ? l->advertised_host : rq->cn->local.host;
    uint16_t port = l->advertised_port != 0 ? l->advertised_port : l->bound_port;
    return (struct api_self){.node_id = n->conf.node_id, .host = span_str(host), .port = port};
}

struct meta_topic *api_topic(const struct rq *rq, span name, uuid id, bool by_id, err *ret_e) {
    struct meta_topic *t = by_id ? meta_topic_by_id(rq->sh->meta, id) : meta_topic_by_name(rq->sh->meta, name);
    if (t == NULL) {
        *ret_e = by_id ? ERR_NO_TOPIC_ID : ERR_NO_TOPIC;
    }
    return t;
}
