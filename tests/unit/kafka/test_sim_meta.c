/* Goal: after a failed sync of the metadata log the broker ends, and what the next start serves is
 * on the disk: no topic that is seen vanishes with the next power cut, none that was made later
 * either (T5, T12, T13). Method: a whole broker on the simulated machine; whether the pages of a
 * failed sync reached the platter is drawn from the seed, so each test goes over several. */
#include <stdio.h>
#include <string.h>

#include "base/run.h"
#include "say.h"

#define SEEDS 24

static struct rig r;

static bool is_down(void *u) {
    (void)u;
    return !world_node_is_up(r.n);
}

static bool is_there(const char *topic) {
    struct say *s = say_open(&r);
    int16_t code = say_describe(s, topic)->error_code;
    ck_assert(code == 0 || code == 3);
    say_close(s);
    return code == 0;
}

static void create(const char *topic) {
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, topic, 1), 0);
    say_close(s);
}

/* A topic with a setting of so many bytes; no answer is awaited. */
static void create_send(struct say *s, const char *topic, size_t bytes) {
    static char value[20001];
    struct k_create_topics_req q;
    struct k_create_topics_req_topic t;
    struct k_create_topics_req_topic_config c;
    ck_assert(bytes > 0 && bytes < sizeof value);
    memset(value, '0', bytes - 1);
    value[bytes - 1] = '1';
    value[bytes] = 0;
    k_create_topics_req_init(&q);
    k_create_topics_req_topic_init(&t);
    k_create_topics_req_topic_config_init(&c);
    c = (struct k_create_topics_req_topic_config){.name = SPAN_LIT("retention.ms"), .value = span_str(value)};
    t.name = span_str(topic);
    t.partitions = 1;
    t.replication_factor = -1;
    t.configs = &c;
    t.configs_n = 1;
    q.topics = &t;
    q.topics_n = 1;
    q.timeout_ms = 30000;
    say_send(s, K_CREATE_TOPICS, 7, &q);
}

/* The broker ends at the next sync of such a path, with 74; the machine stays on. */
static void create_at_failing_sync(const char *topic, size_t bytes, const char *in) {
    rig_fail_op(&r, (struct rig_fail){.op = DISK_SYNC, .in = in, .k = 1, .e = ERR_IO});
    struct say *s = say_open(&r);
    create_send(s, topic, bytes);
    ck_assert(world_run(r.w, is_down, NULL, 10000));
    ck_assert(r.is_fatal);
    say_close(s);
    r.node = NULL;
}

START_TEST(T13_a_topic_seen_after_a_failed_sync_stays) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rig_init(&r, seed, 1 + seed % 2);
        r.errors_expected = true;
        rig_start(&r);
        create("a");
        create_at_failing_sync("b", 10, "metadata.log");
        rig_start(&r);
        bool b = is_there("b");
        rig_crash(&r, true);
        rig_start(&r);
        ck_assert_msg(is_there("a") && is_there("b") == b, "seed %llu: b was %d", (unsigned long long)seed, b);
        rig_stop(&r);
        rig_done(&r);
    }
}
END_TEST

START_TEST(T13_what_is_made_behind_the_bytes_of_a_failed_sync_stays) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rig_init(&r, seed, 1);
        r.errors_expected = true;
        rig_start(&r);
        create("a");
        /* several pages: the next frame has its own */
        create_at_failing_sync("b", 20000, "metadata.log");
        rig_start(&r);
        create("c");
        create("d");
        rig_crash(&r, true);
        rig_boot(&r);
        ck_assert_msg(rig_wait_ready(&r), "seed %llu: %s", (unsigned long long)seed, r.why);
        ck_assert(is_there("a") && is_there("c") && is_there("d"));
        rig_stop(&r);
        rig_done(&r);
    }
}
END_TEST

/* ---- what cannot be read is not "not there" ---- */

static int64_t size_of(const char *path) {
    struct disk_req st = {.op = DISK_STAT, .path = path};
    return disk_call(world_node_disk(r.n), &st) == ERR_OK ? st.size : -1;
}

static void check_refused(const char *about) {
    rig_boot(&r);
    ck_assert(!rig_wait_ready(&r));
    ck_assert_int_eq(r.boot, ERR_IO);
    ck_assert_msg(strstr(r.why, about) != NULL, "%s", r.why);
}

/* How much of the log is proven is told by a file that cannot be read: then nothing of the log may
 * be cut. */
START_TEST(T12_an_unreadable_mark_is_not_a_missing_one) {
    rig_init(&r, 31, 1);
    rig_start(&r);
    create("a");
    create("b");
    rig_stop(&r);
    int64_t size = size_of("perigee.meta/metadata.log");
    /* in the last frame */
    ck_assert_int_eq(world_node_corrupt(r.n, "perigee.meta/metadata.log", size - 20, 1), ERR_OK);
    rig_fail_op(&r, (struct rig_fail){.op = DISK_READ, .in = "metadata.mark", .k = 1, .e = ERR_IO});
    check_refused("metadata.mark");
    ck_assert_int_eq(size_of("perigee.meta/metadata.log"), size);
    ck_assert_int_eq(world_node_corrupt(r.n, "perigee.meta/metadata.log", size - 20, 1), ERR_OK);
    rig_start(&r);                 /* repaired from outside */
    ck_assert(is_there("a") && is_there("b"));
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

/* The metadata log is gone. That the directory has durable marks forbids a new one; that it cannot
 * be listed is no answer. */
START_TEST(T12_an_unreadable_directory_is_not_an_empty_one) {
    rig_init(&r, 32, 1);
    rig_start(&r);
    create("a");
    rig_stop(&r);
    struct disk_req rq = {.op = DISK_UNLINK, .path = "perigee.meta/metadata.log"};
    ck_assert_int_eq(disk_call(world_node_disk(r.n), &rq), ERR_OK);
    rig_fail_op(&r, (struct rig_fail){.op = DISK_LIST, .in = "perigee.meta", .k = 2, .e = ERR_IO});
    check_refused("perigee.meta");
    ck_assert_int_eq(size_of("perigee.meta/metadata.log"), -1);
    rig_boot(&r);
    ck_assert(!rig_wait_ready(&r));
    ck_assert_int_eq(r.boot, ERR_DAMAGED);
    rig_done(&r);
}
END_TEST

int main(void) {
    return RUN("sim_meta", T12_an_unreadable_mark_is_not_a_missing_one, T12_an_unreadable_directory_is_not_an_empty_one,
               T13_a_topic_seen_after_a_failed_sync_stays, T13_what_is_made_behind_the_bytes_of_a_failed_sync_stays);
}
