/* Goal: every API asks whether it may, and refuses with the code of the resource (S14.8, S14.9: 29 topic, 30 group, 31 cluster, 53
 * transactional id), without a hint whether a thing exists (S3.7, S4.13, S5.23). Method: a build in which every question is answered no
 * (PERIGEE_DENY, see scripts/deny.sh); a topic is there because the broker itself made it. */
#ifndef PERIGEE_DENY
#error "this program belongs to the deny-all build"
#endif

#include "base/run.h"
#include "broker/topics.h"
#include "say.h"
#include "wire/k_alter_configs.h"
#include "wire/k_api_versions.h"
#include "wire/k_create_partitions.h"
#include "wire/k_delete_records.h"
#include "wire/k_describe_cluster.h"
#include "wire/k_describe_log_dirs.h"
#include "wire/k_describe_configs.h"
#include "wire/k_describe_topic_partitions.h"
#include "wire/k_find_coordinator.h"
#include "wire/k_incremental_alter_configs.h"
#include "wire/k_list_config_resources.h"

static struct rig r;
static struct topics_change change;
static bool made;
static uuid topic_id;

static void on_made(struct ask *ask) {
    ck_assert_int_eq(ask->err, ERR_OK);
    topic_id = change.topic_id;
    made = true;
}

static void make_topic(struct rig *x) {
    topics_init(&change, TOPICS_CREATE, on_made);
    change.topic_id = (uuid){{9, 8, 7, 6, 5, 4, 0x43, 2, 0x81}};
    change.create.name = SPAN_LIT("t");
    change.create.partitions = 1;
    change.create.replication = -1;
    topics_send(x->node->shards[0], &change);
}

static bool is_made(void *u) {
    (void)u;
    return made;
}

static struct say *begin(void) {
    rig_init(&r, 1, 2);
    rig_start(&r);
    made = false;
    rig_call(&r, make_topic);
    ck_assert(world_run(r.w, is_made, NULL, 10000));
    (void)say_open(&r);                            /* the second connection is not on shard 0 */
    return say_open(&r);
}

static void end(void) {
    rig_stop(&r);
    rig_done(&r);
}

static const char *const names[] = {"t", "nope"};      /* one that exists, one that does not: the answers are the same */

START_TEST(S14_9_produce_is_refused_with_29) {
    struct say *s = begin();
    span b = say_batch(s, &(struct say_batch){0});
    for (int i = 0; i < 2; i++) {
        for (int v = 3; v <= 12; v++) {
            const struct k_produce_resp *a = say_ask(s, K_PRODUCE, v, say_produce_req(s, (struct say_to){names[i], 0}, -1, b));
            ck_assert_int_eq(a->topics[0].partitions[0].error_code, 29);
            ck_assert_int_eq(a->topics[0].partitions[0].base_offset, -1);
        }
    }
    struct k_produce_req *q = (struct k_produce_req *)(uintptr_t)say_produce_req(s, (struct say_to){"t", 0}, -1, b);
    q->topics[0].topic_id = topic_id;
    const struct k_produce_resp *a = say_ask(s, K_PRODUCE, 13, q);
    ck_assert_int_eq(a->topics[0].partitions[0].error_code, 29);
    say_produce(s, (struct say_to){"t", 0}, 0, b);
    ck_assert(say_await_down(s, 1000));            /* acks=0: S1.8 */
    end();
}
END_TEST

START_TEST(S14_9_fetch_is_refused_with_29) {
    struct say *s = begin();
    for (int i = 0; i < 2; i++) {
        for (int v = 4; v <= 12; v++) {
            const struct k_fetch_resp *f = say_ask(s, K_FETCH, v, say_fetch_req(s, (struct say_to){names[i], 0}, 0, 10000, 1));
            ck_assert_int_eq(f->topics[0].partitions[0].error_code, 29);
            ck_assert_int_eq(f->topics[0].partitions[0].high_watermark, -1);
        }
    }
    struct k_fetch_req *q = (struct k_fetch_req *)(uintptr_t)say_fetch_req(s, (struct say_to){"t", 0}, 0, 0, 1);
    q->topics[0].topic_id = topic_id;
    for (int v = 13; v <= 18; v++) {
        const struct k_fetch_resp *f = say_ask(s, K_FETCH, v, q);
        ck_assert_int_eq(f->topics[0].partitions[0].error_code, 29);
    }
    end();
}
END_TEST

START_TEST(S14_9_offsets_are_refused_with_29) {
    struct say *s = begin();
    for (int i = 0; i < 2; i++) {
        struct k_list_offsets_req_topic_part p = {.current_leader_epoch = -1, .timestamp = -1, .max_offsets = 1};
        struct k_list_offsets_req_topic t = {.name = span_str(names[i]), .partitions = &p, .partitions_n = 1};
        struct k_list_offsets_req q = {.replica_id = -1, .topics = &t, .topics_n = 1};
        for (int v = 0; v <= 11; v++) {
            const struct k_list_offsets_resp *a = say_ask(s, K_LIST_OFFSETS, v, &q);
            ck_assert_int_eq(a->topics[0].partitions[0].error_code, 29);
        }
        struct k_offset_for_leader_epoch_req_topic_part ep = {.current_leader_epoch = -1};
        struct k_offset_for_leader_epoch_req_topic et = {.topic = span_str(names[i]), .partitions = &ep, .partitions_n = 1};
        struct k_offset_for_leader_epoch_req eq = {.replica_id = -1, .topics = &et, .topics_n = 1};
        for (int v = 2; v <= 4; v++) {
            const struct k_offset_for_leader_epoch_resp *a = say_ask(s, K_OFFSET_FOR_LEADER_EPOCH, v, &eq);
            ck_assert_int_eq(a->topics[0].partitions[0].error_code, 29);
        }
    }
    end();
}
END_TEST

START_TEST(S3_7_metadata_leaves_topics_out_or_says_29) {
    struct say *s = begin();
    for (int v = 0; v <= 13; v++) {
        struct k_metadata_req all = {.topics_n = v == 0 ? 0 : -1};
        ck_assert_int_eq(((const struct k_metadata_resp *)say_ask(s, K_METADATA, v, &all))->topics_n, 0);
        for (int i = 0; i < 2; i++) {
            struct k_metadata_req_topic t = {.name = span_str(names[i])};
            struct k_metadata_req q = {.topics = &t, .topics_n = 1, .allow_auto_create = true, .with_cluster_ops = true};
            const struct k_metadata_resp *m = say_ask(s, K_METADATA, v, &q);
            ck_assert_int_eq(m->topics_n, 1);
            ck_assert_int_eq(m->topics[0].error_code, 29);
            ck_assert_int_eq(m->topics[0].partitions_n, 0);
            ck_assert(uuid_is_zero(m->topics[0].topic_id));
            ck_assert_int_eq(m->brokers_n, 1);
            ck_assert(v < 8 || v > 10 || m->cluster_authorized_ops == 0);      /* S3.14 */
        }
        if (v >= 12) {                             /* an id is no hint either */
            struct k_metadata_req_topic t = {.topic_id = topic_id, .name = SPAN_NULL};
            struct k_metadata_req q = {.topics = &t, .topics_n = 1};
            const struct k_metadata_resp *m = say_ask(s, K_METADATA, v, &q);
            ck_assert_int_eq(m->topics[0].error_code, 100);
            ck_assert(span_is_null(m->topics[0].name));
        }
    }
    ck_assert_uint_eq(r.node->shards[0]->meta->topics_n, 1);   /* nothing was created on the way */
    end();
}
END_TEST

START_TEST(S3_7_S3_14_descriptions_of_topics_are_refused_and_operations_are_none) {
    struct say *s = begin();
    for (int v = 0; v <= 2; v++) {
        struct k_describe_cluster_req q = {.with_cluster_ops = true, .endpoint_type = 1};
        const struct k_describe_cluster_resp *a = say_ask(s, K_DESCRIBE_CLUSTER, v, &q);
        ck_assert_int_eq(a->error_code, 0);
        ck_assert_int_eq(a->brokers_n, 1);
        ck_assert_int_eq(a->cluster_authorized_ops, 0);
    }
    struct k_describe_topic_partitions_req all = {.response_partition_limit = 2000};
    ck_assert_int_eq(((const struct k_describe_topic_partitions_resp *)say_ask(s, K_DESCRIBE_TOPIC_PARTITIONS, 0, &all))->topics_n, 0);
    for (int i = 0; i < 2; i++) {
        struct k_describe_topic_partitions_req_topic t = {.name = span_str(names[i])};
        struct k_describe_topic_partitions_req q = {.topics = &t, .topics_n = 1, .response_partition_limit = 2000};
        const struct k_describe_topic_partitions_resp *a = say_ask(s, K_DESCRIBE_TOPIC_PARTITIONS, 0, &q);
        ck_assert_int_eq(a->topics_n, 1);
        ck_assert_int_eq(a->topics[0].error_code, 29);
        ck_assert_int_eq(a->topics[0].partitions_n, 0);
        ck_assert(uuid_is_zero(a->topics[0].topic_id));
        ck_assert(a->next_cursor == NULL);
    }
    end();
}
END_TEST

START_TEST(S14_9_topics_are_neither_created_nor_deleted) {
    struct say *s = begin();
    for (int i = 0; i < 2; i++) {
        for (int v = 0; v <= 7; v++) {
            struct k_create_topics_req_topic t = {.name = span_str(names[i]), .partitions = 1, .replication_factor = 1};
            struct k_create_topics_req q = {.topics = &t, .topics_n = 1, .timeout_ms = 1000};
            const struct k_create_topics_resp *a = say_ask(s, K_CREATE_TOPICS, v, &q);
            ck_assert_int_eq(a->topics[0].error_code, 29);
        }
        for (int v = 0; v <= 6; v++) {
            span name = span_str(names[i]);
            struct k_delete_topics_req_topic t = {.name = name};
            struct k_delete_topics_req q = {.topics = &t, .topics_n = 1, .topic_names = &name, .topic_names_n = 1, .timeout_ms = 1000};
            const struct k_delete_topics_resp *a = say_ask(s, K_DELETE_TOPICS, v, &q);
            ck_assert_int_eq(a->topics[0].error_code, 29);
        }
    }
    struct k_delete_topics_req_topic t = {.name = SPAN_NULL, .topic_id = topic_id};
    struct k_delete_topics_req q = {.topics = &t, .topics_n = 1, .timeout_ms = 1000};
    const struct k_delete_topics_resp *a = say_ask(s, K_DELETE_TOPICS, 6, &q);
    ck_assert_int_eq(a->topics[0].error_code, 29);
    ck_assert(span_is_null(a->topics[0].name));    /* S4.13: the id does not tell the name */
    ck_assert_uint_eq(r.node->shards[0]->meta->topics_n, 1);
    end();
}
END_TEST

START_TEST(S14_9_topics_do_not_grow) {
    struct say *s = begin();
    for (int i = 0; i < 2; i++) {
        for (int v = 0; v <= 3; v++) {
            struct k_create_partitions_req_topic t = {.name = span_str(names[i]), .count = 5, .assignments_n = -1};
            struct k_create_partitions_req q = {.topics = &t, .topics_n = 1, .timeout_ms = 1000};
            const struct k_create_partitions_resp *a = say_ask(s, K_CREATE_PARTITIONS, v, &q);
            ck_assert_int_eq(a->results[0].error_code, 29);
        }
    }
    ck_assert_int_eq(r.node->shards[0]->meta->partitions_n, 1);
    end();
}
END_TEST

START_TEST(S14_9_records_are_not_deleted_nor_directories_described) {
    struct say *s = begin();
    for (int i = 0; i < 2; i++) {
        for (int v = 0; v <= 2; v++) {
            struct k_delete_records_req_topic_part p = {.index = 0, .offset = -1};
            struct k_delete_records_req_topic t = {.name = span_str(names[i]), .partitions = &p, .partitions_n = 1};
            struct k_delete_records_req q = {.topics = &t, .topics_n = 1, .timeout_ms = 1000};
            const struct k_delete_records_resp *a = say_ask(s, K_DELETE_RECORDS, v, &q);
            ck_assert_int_eq(a->topics[0].partitions[0].error_code, 29);
            ck_assert_int_eq(a->topics[0].partitions[0].low_watermark, -1);
        }
    }
    for (int v = 1; v <= 4; v++) {
        struct k_describe_log_dirs_req q = {.topics_n = -1};
        const struct k_describe_log_dirs_resp *a = say_ask(s, K_DESCRIBE_LOG_DIRS, v, &q);
        ck_assert_int_eq(a->results_n, 0);
        ck_assert_int_eq(a->error_code, v >= 3 ? 31 : 0);
    }
    end();
}
END_TEST

START_TEST(S14_9_settings_are_neither_told_nor_changed) {
    static const struct {
        int8_t type;
        const char *name;
        int16_t code;
    } rows[] = {{2, "t", 29}, {2, "nope", 29}, {4, "1", 31}, {4, "", 31}, {8, "1", 31}, {16, "m", 31}, {32, "g", 30}};
    struct say *s = begin();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct k_describe_configs_req_resource d = {.type = rows[i].type, .name = span_str(rows[i].name), .keys_n = -1};
        struct k_describe_configs_req dq = {.resources = &d, .resources_n = 1};
        for (int v = 0; v <= 4; v++) {
            const struct k_describe_configs_resp *a = say_ask(s, K_DESCRIBE_CONFIGS, v, &dq);
            ck_assert_int_eq(a->results[0].error_code, rows[i].code);
            ck_assert_int_eq(a->results[0].configs_n, 0);
        }
        struct k_alter_configs_req_resource w = {.type = rows[i].type, .name = span_str(rows[i].name)};
        struct k_alter_configs_req wq = {.resources = &w, .resources_n = 1};
        for (int v = 0; v <= 2; v++) {
            ck_assert_int_eq(((const struct k_alter_configs_resp *)say_ask(s, K_ALTER_CONFIGS, v, &wq))->responses[0].error_code, rows[i].code);
        }
        struct k_incremental_alter_configs_req_resource n = {.type = rows[i].type, .name = span_str(rows[i].name)};
        struct k_incremental_alter_configs_req nq = {.resources = &n, .resources_n = 1};
        for (int v = 0; v <= 1; v++) {
            const struct k_incremental_alter_configs_resp *a = say_ask(s, K_INCREMENTAL_ALTER_CONFIGS, v, &nq);
            ck_assert_int_eq(a->responses[0].error_code, rows[i].code);
        }
    }
    struct k_list_config_resources_req lq = {0};
    for (int v = 0; v <= 1; v++) {
        const struct k_list_config_resources_resp *a = say_ask(s, K_LIST_CONFIG_RESOURCES, v, &lq);
        ck_assert_int_eq(a->error_code, 31);
        ck_assert_int_eq(a->resources_n, 0);
    }
    end();
}
END_TEST

START_TEST(S14_9_coordinators_and_producer_ids_are_refused_by_resource) {
    static const int16_t codes[] = {30, 53, 31};   /* group, transactional id, share (cluster) */
    struct say *s = begin();
    for (int v = 0; v <= 6; v++) {
        for (int type = 0; type < (v >= 6 ? 3 : v >= 1 ? 2 : 1); type++) {
            span key = SPAN_LIT("g");
            struct k_find_coordinator_req q = {.key = key, .key_type = (int8_t)type, .keys = &key, .keys_n = 1};
            const struct k_find_coordinator_resp *a = say_ask(s, K_FIND_COORDINATOR, v, &q);
            int16_t code = v >= 4 ? a->coordinators[0].error_code : a->error_code;
            ck_assert_int_eq(code, codes[type]);
        }
    }
    for (int v = 0; v <= 5; v++) {
        struct k_init_producer_id_req q;
        k_init_producer_id_req_init(&q);
        q.transactional_id = SPAN_NULL;
        ck_assert_int_eq(((const struct k_init_producer_id_resp *)say_ask(s, K_INIT_PRODUCER_ID, v, &q))->error_code, 31);
        q.transactional_id = SPAN_LIT("tx");
        ck_assert_int_eq(((const struct k_init_producer_id_resp *)say_ask(s, K_INIT_PRODUCER_ID, v, &q))->error_code, 53);
    }
    end();
}
END_TEST

START_TEST(everything_that_is_served_is_in_this_program) {
    static const int16_t known[] = {K_PRODUCE, K_FETCH, K_LIST_OFFSETS, K_METADATA, K_FIND_COORDINATOR, K_API_VERSIONS,
                                    K_CREATE_TOPICS, K_DELETE_TOPICS, K_INIT_PRODUCER_ID, K_CREATE_PARTITIONS, K_DELETE_RECORDS, K_DESCRIBE_LOG_DIRS, K_OFFSET_FOR_LEADER_EPOCH,
                                    K_DESCRIBE_CONFIGS, K_ALTER_CONFIGS, K_INCREMENTAL_ALTER_CONFIGS, K_LIST_CONFIG_RESOURCES,
                                    K_DESCRIBE_CLUSTER, K_DESCRIBE_TOPIC_PARTITIONS};
    struct say *s = begin();
    struct k_api_versions_req q = {.client_software_name = SPAN_LIT("deny"), .client_software_version = SPAN_LIT("1")};
    const struct k_api_versions_resp *a = say_ask(s, K_API_VERSIONS, 3, &q);       /* refused to nobody (S2.7) */
    ck_assert_int_eq(a->error_code, 0);
    ck_assert_int_eq(a->api_keys_n, (int)(sizeof known / sizeof *known));
    for (int32_t i = 0; i < a->api_keys_n; i++) {
        bool found = false;
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
            found = found || a->api_keys[i].api_key == known[k];
        }
        ck_assert_msg(found, "api key %d is served and its refusal is not tested", a->api_keys[i].api_key);
    }
    end();
}
END_TEST

int main(void) {
    return RUN("deny", S14_9_produce_is_refused_with_29, S14_9_fetch_is_refused_with_29, S14_9_offsets_are_refused_with_29,
               S3_7_metadata_leaves_topics_out_or_says_29, S3_7_S3_14_descriptions_of_topics_are_refused_and_operations_are_none,
               S14_9_topics_are_neither_created_nor_deleted, S14_9_topics_do_not_grow, S14_9_settings_are_neither_told_nor_changed, S14_9_records_are_not_deleted_nor_directories_described,
               S14_9_coordinators_and_producer_ids_are_refused_by_resource, everything_that_is_served_is_in_this_program);
}
