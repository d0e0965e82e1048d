/* The table of what is served, and what handlers share. */
#pragma once

#include "rq.h"

/* A row of facts. The versions stand in the schema (wire/k_api.h: min, max, serve_min, serve_max). */
struct api_row {
    int16_t key;
    bool overlaps;                     /* may run beside an earlier request of its kind on the same connection: Produce only */
    void (*run)(struct rq *rq);
};

extern const struct api_row api_rows[];
extern const size_t api_rows_n;
const struct api_row *api_row_find(int key);

/* errmap.c: our errors as Kafka's codes. */
int16_t errmap_code(err e);

/* node.c of this room: how this node is named to a client on this connection (S3.10, BR-040, BR-041). */
struct api_self {
    int32_t node_id;
    span host;
    int32_t port;
};
struct api_self api_self(const struct rq *rq);

/* What may be done to a topic, and to the cluster, as a set of operation codes (S3.14). */
#define API_OPS_UNASKED INT32_MIN
#define API_TOPIC_OPS 0xdf8            /* READ 3, WRITE 4, CREATE 5, DELETE 6, ALTER 7, DESCRIBE 8, DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11 */
#define API_CLUSTER_OPS 0x1fa0         /* CREATE 5, ALTER 7, DESCRIBE 8, CLUSTER_ACTION 9, DESCRIBE_CONFIGS 10, ALTER_CONFIGS 11, IDEMPOTENT_WRITE 12 */

/* Topic by name or, where the id is not zero, by id. NULL and NO_TOPIC / NO_TOPIC_ID. */
struct meta_topic *api_topic(const struct rq *rq, span name, uuid id, bool by_id, err *ret_e);

/* Handlers, one file an API: NN_name.c. */
void produce_run(struct rq *rq);
void fetch_run(struct rq *rq);
void list_offsets_run(struct rq *rq);
void metadata_run(struct rq *rq);
void find_coordinator_run(struct rq *rq);
void api_versions_run(struct rq *rq);
void create_topics_run(struct rq *rq);
void delete_topics_run(struct rq *rq);
void delete_records_run(struct rq *rq);
void init_producer_id_run(struct rq *rq);
void describe_log_dirs_run(struct rq *rq);
void offset_for_leader_epoch_run(struct rq *rq);
void describe_configs_run(struct rq *rq);
void alter_configs_run(struct rq *rq);
void incremental_alter_configs_run(struct rq *rq);
void list_config_resources_run(struct rq *rq);
void create_partitions_run(struct rq *rq);
void describe_cluster_run(struct rq *rq);
void describe_topic_partitions_run(struct rq *rq);
