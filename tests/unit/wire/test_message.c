/* Goal: the generated code as its users see it: the table, defaults of absent fields, versions,
 * printing. Method: examples. */
#include "base/run.h"
#include "wire/k_api.h"
#include "wire/k_create_topics.h"
#include "wire/k_fetch.h"
#include "wire/k_list_offsets.h"
#include "wire/k_produce.h"

START_TEST(the_table_has_the_target_versions) {
    /* versions.md, column "target"; S2.8: Produce 0-2 is listed and refused. */
    static const struct msg_api want[] = {
        {0, 0, 13, 3, 13, 9, "produce", NULL, NULL},
        {1, 4, 18, 4, 18, 12, "fetch", NULL, NULL},
        {2, 0, 11, 0, 11, 6, "list_offsets", NULL, NULL},
        {3, 0, 13, 0, 13, 9, "metadata", NULL, NULL},
        {10, 0, 6, 0, 6, 3, "find_coordinator", NULL, NULL},
        {18, 0, 4, 0, 4, 3, "api_versions", NULL, NULL},
        {19, 0, 7, 0, 7, 5, "create_topics", NULL, NULL},
        {20, 0, 6, 0, 6, 4, "delete_topics", NULL, NULL},
        {21, 0, 2, 0, 2, 2, "delete_records", NULL, NULL},
        {22, 0, 5, 0, 5, 2, "init_producer_id", NULL, NULL},
        {23, 2, 4, 2, 4, 4, "offset_for_leader_epoch", NULL, NULL},
        {32, 0, 4, 0, 4, 4, "describe_configs", NULL, NULL},
        {33, 0, 2, 0, 2, 2, "alter_configs", NULL, NULL},
        {35, 1, 4, 1, 4, 2, "describe_log_dirs", NULL, NULL},
        {37, 0, 3, 0, 3, 2, "create_partitions", NULL, NULL},
        {44, 0, 1, 0, 1, 1, "incremental_alter_configs", NULL, NULL},
        {60, 0, 2, 0, 2, 0, "describe_cluster", NULL, NULL},
        {74, 0, 1, 0, 1, 0, "list_config_resources", NULL, NULL},
        {75, 0, 0, 0, 0, 0, "describe_topic_partitions", NULL, NULL},
    };
    ck_assert_uint_eq(K_APIS, sizeof want / sizeof *want);
    for (size_t i = 0; i < K_APIS; i++) {
        const struct msg_api *a = &k_apis[i];
        ck_assert_int_eq(a->key, want[i].key);
        ck_assert_int_eq(a->min, want[i].min);
        ck_assert_int_eq(a->max, want[i].max);
        ck_assert_int_eq(a->serve_min, want[i].serve_min);
        ck_assert_int_eq(a->serve_max, want[i].serve_max);
        ck_assert_int_eq(a->flexible, want[i].flexible);
        ck_assert_str_eq(a->name, want[i].name);
        ck_assert_ptr_eq(k_api_find(a->key), a);
        ck_assert_int_eq(a->req->min, a->min);
        ck_assert_int_eq(a->resp->max, a->max);
    }
    ck_assert_ptr_null(k_api_find(4));
    ck_assert_ptr_null(k_api_find(-1));
}
END_TEST

START_TEST(absent_fields_have_their_defaults) {
    /* ListOffsets v0: replica -1, one topic "t", partition 2 at -1, at most 9 offsets. */
    static const uint8_t v0[] = {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 2,
                                 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 9};
    struct arena a;
    arena_init(&a, NULL, 1 << 16);
    struct rd r;
    rd_init(&r, span_of(v0, sizeof v0), &a);
    struct k_list_offsets_req m;
    memset(&m, 0x55, sizeof m);
    ck_assert_int_eq(k_list_offsets_req_get(&m, &r, 0), ERR_OK);
    ck_assert_int_eq(m.isolation_level, 0);
    ck_assert_int_eq(m.timeout_ms, 0);
    ck_assert_ptr_null(m.unknown);
    const struct k_list_offsets_req_topic_part *p = &m.topics[0].partitions[0];
    ck_assert_int_eq(p->index, 2);
    ck_assert_int_eq(p->current_leader_epoch, -1);
    ck_assert_int_eq(p->timestamp, -1);
    ck_assert_int_eq(p->max_offsets, 9);
    rd_init(&r, span_of(v0, sizeof v0 - 4), &a);
    ck_assert_int_eq(k_list_offsets_req_get(&m, &r, 1), ERR_OK);
    ck_assert_int_eq(m.topics[0].partitions[0].max_offsets, 1);
    arena_done(&a);
}
END_TEST

START_TEST(a_fresh_answer_says_nothing) {
    struct k_fetch_resp_topic_part p;
    memset(&p, 0x55, sizeof p);
    k_fetch_resp_topic_part_init(&p);
    ck_assert_int_eq(p.last_stable_offset, -1);
    ck_assert_int_eq(p.log_start_offset, -1);
    ck_assert_int_eq(p.preferred_read_replica, -1);
    ck_assert_int_eq(p.diverging_epoch.end_offset, -1);
    ck_assert(!span_is_null(p.records));         /* S7.8 */
    ck_assert_int_eq(p.aborted_n, 0);
    struct k_create_topics_resp_topic t;
    k_create_topics_resp_topic_init(&t);
    ck_assert(span_is_null(t.error_message));
    ck_assert(uuid_is_zero(t.topic_id));
    struct k_fetch_req q;
    k_fetch_req_init(&q);
    ck_assert_int_eq(q.max_bytes, INT32_MAX);
    ck_assert_int_eq(q.session_epoch, -1);
}
END_TEST

START_TEST(versions_outside_the_range_are_refused) {
    static const uint8_t zeros[64];
    struct k_fetch_req m;
    const int refused[] = {-1, 0, 3, 19, INT16_MAX};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct rd r;
        rd_init(&r, span_of(zeros, sizeof zeros), NULL);
        ck_assert_int_eq(k_fetch_req_get(&m, &r, refused[i]), ERR_BAD_VERSION);
    }
}
END_TEST

START_TEST(printing_is_one_safe_line) {
    struct k_produce_req_topic_part part;
    k_produce_req_topic_part_init(&part);
    part.records = SPAN_LIT("12345");
    struct k_produce_req_topic topics[2];
    k_produce_req_topic_init(&topics[0]);
    k_produce_req_topic_init(&topics[1]);
    topics[0].name = SPAN_LIT("a\nb");
    topics[0].partitions = &part;
    topics[0].partitions_n = 1;
    struct rd_unknown u = {NULL, 9, SPAN_LIT("x")};
    struct k_produce_req m;
    k_produce_req_init(&m);
    m.acks = -1;
    m.topics = topics;
    m.topics_n = 2;
    m.unknown = &u;
    struct str s;
    str_init(&s, 4096);
    k_produce_req_print(&m, &s);
    ck_assert_str_eq(s.p, "{transactional_id=null acks=-1 timeout_ms=0 topics=[2:{name='a?b' topic_id=AAAAAAAAAAAAAAAAAAAAAA "
                          "partitions=[1:{index=0 records=<5>}]}{name='' topic_id=AAAAAAAAAAAAAAAAAAAAAA partitions=[0:]}] tag9=<1>}");
    str_done(&s);
}
END_TEST

int main(void) {
    return RUN("message", the_table_has_the_target_versions, absent_fields_have_their_defaults, a_fresh_answer_says_nothing,
               versions_outside_the_range_are_refused, printing_is_one_safe_line);
}
