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

int main(void) {
    TCase *tc = tcase_create("review_meta");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, T16_changes_go_on_when_the_snapshot_finds_no_room, 0, 2);
    tcase_add_test(tc, D12_a_topic_asked_100000_times_is_answered_once);
    tcase_add_test(tc, S3_6_names_beside_an_id_are_ignored);
    return run_suite("review_meta", tc);
}
