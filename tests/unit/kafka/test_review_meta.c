/* Goal: metadata changes go on when the metadata log's snapshot finds no room (T16, S4.12), and each answer about topics is bounded and
 * true: a name asked often is answered once (D12), memory that fails is an error of that topic, never a success (S4.11).
 * Method: a whole broker on the simulated machine, faults of its disk and its memory. */
#include <stdio.h>
#include <string.h>

#include "base/run.h"
#include "say.h"

static struct rig r;

static void begin(uint32_t shards) {
    rig_init(&r, 515 + shards, shards);
    rig_start(&r);
}

static void end(void) {
    rig_stop(&r);
    rig_done(&r);
}

/* ---- no room for a snapshot ---- */

static uint64_t snapshot_writes;

static bool refuse_snapshots(void *u, const struct disk_req *rq, const char *path) {
    (void)u;
    if (rq->op == DISK_WRITE && path != NULL && strstr(path, "metadata.snapshot") != NULL) {
        snapshot_writes++;
        world_node_fail_op(r.n, DISK_WRITE, 1, ERR_NOSPACE);
    }
    return false;
}

/* 30 KB each: the log grows to a snapshot's size with few of them. */
static void create_large(struct say *s, int i) {
    static char value[30001];
    memset(value, '0', 30000);
    value[29999] = '1';
    char name[16];
    snprintf(name, sizeof name, "large-%d", i);
    ck_assert_int_eq(say_create_with(s, name, "retention.ms", value), 0);
    say_forget(s);
}

START_TEST(T16_changes_go_on_when_the_snapshot_finds_no_room) {
    begin(1 + (uint32_t)_i);
    struct say *s = say_open(&r);
    snapshot_writes = 0;
    world_node_on_op(r.n, refuse_snapshots, NULL, false);
    for (int i = 0; i < 200; i++) {                /* 6 MB: a snapshot is due at 4 */
        create_large(s, i);
    }
    ck_assert_uint_ge(snapshot_writes, 1);
    ck_assert_uint_le(snapshot_writes, 3);         /* not again and again on a full disk */
    world_node_on_op(r.n, NULL, NULL, false);
    for (int i = 200; i < 420; i++) {              /* room again: the next one that is due is written */
        create_large(s, i);
    }
    struct disk_req rq = {.op = DISK_STAT, .path = "perigee.meta/metadata.snapshot"};
    ck_assert_int_eq(disk_call(world_node_disk(r.n), &rq), ERR_OK);
    say_close(s);
    rig_stop(&r);
    rig_start(&r);
    s = say_open(&r);
    ck_assert_int_eq(say_describe(s, "large-0")->error_code, 0);
    ck_assert_int_eq(say_describe(s, "large-419")->error_code, 0);
    say_close(s);
    end();
}
END_TEST

/* ---- the same name again and again ---- */

#define MANY 100000

static const struct k_metadata_resp *metadata_many(struct say *s, const char *name, uuid id, int version) {
    struct k_metadata_req q;
    k_metadata_req_init(&q);
    q.topics = arena_zalloc(&s->arena, MANY * sizeof *q.topics);
    for (int i = 0; i < MANY; i++) {
        k_metadata_req_topic_init(&q.topics[i]);
        q.topics[i].name = span_str(name);
        q.topics[i].topic_id = id;
    }
    q.topics_n = MANY;
    q.allow_auto_create = true;
    return say_ask(s, K_METADATA, version, &q);
}

/* S3.2: one entry per asked topic. By name, by id, unknown, and one to be created: answered once, whatever the request repeats. */
START_TEST(D12_a_topic_asked_100000_times_is_answered_once) {
    begin(2);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1000), 0);
    uuid none = {{0}}, id = say_describe(s, "t")->topic_id;
    size_t idle = rig_live(&r);
    struct {
        const char *name;
        uuid id;
        int version, parts;
        int16_t code;
    } asks[] = {{"t", none, 9, 1000, 0}, {"t", none, 1, 1000, 0}, {NULL, id, 12, 1000, 0}, {"new", none, 9, 1, 0}, {"a b", none, 9, 0, 17}};
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++) {
        const struct k_metadata_resp *m = metadata_many(s, asks[i].name, asks[i].id, asks[i].version);
        ck_assert_int_eq(m->topics_n, 1);
        ck_assert_int_eq(m->topics[0].error_code, asks[i].code);
        ck_assert_int_eq(m->topics[0].partitions_n, asks[i].parts);
        say_forget(s);
    }
    rig_run(&r, 1000);
    ck_assert_uint_lt(rig_live(&r), idle + (10 << 20));
    say_close(s);
    end();
}
END_TEST

START_TEST(S3_6_names_beside_an_id_are_ignored) {
    begin(1);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    ck_assert_int_eq(say_create(s, "u", 1), 0);
    struct k_metadata_req q;
    struct k_metadata_req_topic topics[2];
    k_metadata_req_init(&q);
    k_metadata_req_topic_init(&topics[0]);
    k_metadata_req_topic_init(&topics[1]);
    topics[0].name = SPAN_LIT("u");
    topics[1].topic_id = say_describe(s, "t")->topic_id;
    topics[1].name = SPAN_NULL;
    q.topics = topics;
    q.topics_n = 2;
    const struct k_metadata_resp *m = say_ask(s, K_METADATA, 12, &q);
    ck_assert_int_eq(m->topics_n, 1);
    ck_assert(span_eq_str(m->topics[0].name, "t"));
    say_close(s);
    end();
}
END_TEST

/* ---- requests of a hundred thousand entries ---- */

static const struct k_create_topics_resp *create_many(struct say *s, int n, bool distinct, bool validate_only) {
    struct k_create_topics_req q;
    k_create_topics_req_init(&q);
    q.topics = arena_zalloc(&s->arena, (size_t)n * sizeof *q.topics);
    for (int i = 0; i < n; i++) {
        k_create_topics_req_topic_init(&q.topics[i]);
        q.topics[i].name = span_str(arena_printf(&s->arena, "a-name-that-is-alike-but-for-its-end-%d", distinct ? i : 0));
        q.topics[i].partitions = 1;
        q.topics[i].replication_factor = 1;
    }
    q.topics_n = n;
    q.timeout_ms = 60000;
    q.validate_only = validate_only;
    return say_ask(s, K_CREATE_TOPICS, 7, &q);
}

START_TEST(S4_4_create_topics_of_100000_entries_is_judged_entry_by_entry) {
    begin(2);
    struct say *s = say_open(&r);
    const struct k_create_topics_resp *a = create_many(s, MANY, false, false);
    ck_assert_int_eq(a->topics_n, 1);
    ck_assert_int_eq(a->topics[0].error_code, 42);
    a = create_many(s, MANY, true, false);         /* more than one request may name: told, not hung up on */
    ck_assert_int_eq(a->topics_n, MANY);
    ck_assert_int_eq(a->topics[0].error_code, 44);
    ck_assert_int_eq(a->topics[MANY - 1].error_code, 44);
    say_forget(s);
    ck_assert_uint_eq(r.node->shards[0]->meta->topics_n, 0);
    size_t idle = rig_live(&r);
    a = create_many(s, 3000, true, true);          /* 150 KB: its answer tells the settings of each topic */
    size_t most = rig_live(&r);
    ck_assert_int_eq(a->topics_n, 3000);
    ck_assert_int_eq(a->topics[2999].error_code, 0);
    ck_assert_int_gt(a->topics[2999].configs_n, 10);
    ck_assert_uint_lt(most, idle + (12 << 20));
    say_close(s);
    end();
}
END_TEST

START_TEST(S4_13_delete_topics_of_100000_entries) {
    begin(2);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    uuid id = say_describe(s, "t")->topic_id;
    struct k_delete_topics_req q;
    k_delete_topics_req_init(&q);
    q.topics = arena_zalloc(&s->arena, MANY * sizeof *q.topics);
    for (int i = 0; i < MANY; i++) {
        k_delete_topics_req_topic_init(&q.topics[i]);
        q.topics[i].name = i == 7 ? SPAN_NULL : i == 5 || i == 6 ? SPAN_LIT("t") : span_str(arena_printf(&s->arena, "unknown-%d", i < 10 ? 0 : i));
        q.topics[i].topic_id = i == 7 ? id : (uuid){{0}};
    }
    q.topics_n = MANY;
    q.timeout_ms = 60000;
    const struct k_delete_topics_resp *a = say_ask(s, K_DELETE_TOPICS, 6, &q);
    ck_assert_int_eq(a->topics_n, MANY);
    for (int i = 0; i < MANY; i++) {
        ck_assert_int_eq(a->topics[i].error_code, i < 10 ? 42 : 3);    /* named twice: by name, by name and id, and though unknown */
    }
    ck_assert_int_eq(say_describe(s, "t")->error_code, 0);
    say_close(s);
    end();
}
END_TEST

START_TEST(S8_8_list_offsets_of_100000_entries) {
    begin(2);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 3000), 0);
    for (int round = 0; round < 2; round++) {
        struct k_list_offsets_req q;
        struct k_list_offsets_req_topic t[2];
        k_list_offsets_req_init(&q);
        for (int k = 0; k < 2; k++) {
            k_list_offsets_req_topic_init(&t[k]);
            t[k].name = SPAN_LIT("t");
            t[k].partitions_n = k == 0 ? 3000 : MANY;
            t[k].partitions = arena_zalloc(&s->arena, (size_t)t[k].partitions_n * sizeof *t[k].partitions);
            for (int i = 0; i < t[k].partitions_n; i++) {
                k_list_offsets_req_topic_part_init(&t[k].partitions[i]);
                t[k].partitions[i].index = k == 0 ? i : 2999;  /* the last one again, in an entry of its own */
                t[k].partitions[i].timestamp = -2;
                t[k].partitions[i].current_leader_epoch = -1;
                t[k].partitions[i].max_offsets = 1000;
            }
        }
        q.replica_id = -1;
        q.topics = t;
        q.topics_n = 2;
        const struct k_list_offsets_resp *a = say_ask(s, K_LIST_OFFSETS, round == 0 ? 7 : 0, &q);
        ck_assert_int_eq(a->topics_n, 2);
        for (int i = 0; i < 3000; i++) {
            ck_assert_int_eq(a->topics[0].partitions[i].error_code, i == 2999 ? 42 : 0);
        }
        ck_assert_int_eq(a->topics[1].partitions[MANY - 1].error_code, 42);
        say_forget(s);
    }
    say_close(s);
    end();
}
END_TEST

/* Memory ends at any point of a creation: whatever is answered with success is there. */
START_TEST(S4_11_no_success_is_told_of_a_topic_that_memory_refused) {
    int told = 0, refused = 0;
    for (size_t room = 100000; room < 2000000; room += 60000) {
        begin(1);
        r.errors_expected = true;
        struct say *s = say_open(&r);
        ck_assert_int_eq(say_create(s, "t", 1), 0);
        rig_budget(&r, rig_live(&r) + room);
        say_forget(s);
        struct k_create_topics_req q;
        k_create_topics_req_init(&q);
        q.topics_n = 800;
        q.topics = arena_zalloc(&s->arena, 800 * sizeof *q.topics);
        for (int i = 0; i < 800; i++) {
            k_create_topics_req_topic_init(&q.topics[i]);
            q.topics[i].name = span_str(arena_printf(&s->arena, "n-%d", i));
            q.topics[i].partitions = q.topics[i].replication_factor = 1;
        }
        q.timeout_ms = 60000;
        world_node_hold_syncs(r.n, true);
        say_send(s, K_CREATE_TOPICS, 7, &q);
        rig_run(&r, 100);                          /* each was looked at, none is durable */
        rig_budget(&r, 0);
        world_node_hold_syncs(r.n, false);
        if (say_await(s, 60000)) {
            const struct k_create_topics_resp *a = say_take(s);
            struct say *look = say_open(&r);
            for (int i = 0; i < a->topics_n; i++) {
                if (a->topics[i].error_code == 0) {
                    told++;
                    ck_assert_msg(say_describe(look, arena_str(&s->arena, a->topics[i].name))->error_code == 0, "room %zu, entry %d", room, i);
                } else {
                    refused++;
                }
            }
            say_close(look);
        }
        say_close(s);
        end();
    }
    ck_assert_int_gt(told, 0);
    ck_assert_int_gt(refused, 0);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("review_meta");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, T16_changes_go_on_when_the_snapshot_finds_no_room, 0, 2);
    tcase_add_test(tc, D12_a_topic_asked_100000_times_is_answered_once);
    tcase_add_test(tc, S3_6_names_beside_an_id_are_ignored);
    tcase_add_test(tc, S4_4_create_topics_of_100000_entries_is_judged_entry_by_entry);
    tcase_add_test(tc, S4_13_delete_topics_of_100000_entries);
    tcase_add_test(tc, S8_8_list_offsets_of_100000_entries);
    tcase_add_test(tc, S4_11_no_success_is_told_of_a_topic_that_memory_refused);
    return run_suite("review_meta", tc);
}
