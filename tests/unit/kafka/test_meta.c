/* Goal: metadata changes (D11) are seen by every shard once they are answered, ten thousand times; a change that the disk refuses is
 * refused whole and the next ones work; and over every step of creating and deleting a topic a crash leaves either the old or the new
 * state, with everything that was answered (T3, T4, T12). S4.10, S4.12, BR-042, BR-044.
 * Method: a whole broker on the simulated machine; two connections with different homes; a crash at each disk operation, one after the
 * other, with and without loss of what was not synced. */
#include <stdio.h>
#include <string.h>

#include "base/mark.h"
#include "base/run.h"
#include "say.h"

static struct rig r;

static void begin(uint32_t shards, uint64_t seed) {
    rig_init(&r, seed, shards);
    rig_start(&r);
}

static void end(void) {
    rig_stop(&r);
    rig_done(&r);
}

#define CHANGES 10000

START_TEST(D11_a_client_on_another_shard_sees_each_change_at_once_10000_times) {
    begin(2, 7);
    struct say *change = say_open(&r), *look = say_open(&r);
    ck_assert_uint_ne(change->home, look->home);
    uuid last = {{0}};
    for (int i = 0; i < CHANGES; i++) {
        bool create = i % 2 == 0;
        ck_assert_int_eq(create ? say_create(change, "t", 2) : say_delete(change, "t"), 0);
        const struct k_metadata_resp_topic *t = say_describe(look, "t");
        ck_assert_int_eq(t->error_code, create ? 0 : 3);
        ck_assert_int_eq(t->partitions_n, create ? 2 : 0);
        if (create) {
            ck_assert(!uuid_eq(t->topic_id, last));            /* S4.10: a new id each time */
            last = t->topic_id;
        }
        say_forget(change);
        say_forget(look);
    }
    ck_assert_uint_eq(r.node->shards[1]->meta->topics_n, 0);
    say_close(change);
    say_close(look);
    end();
}
END_TEST

/* The same with a record in each life of the topic, on 1, 2 and 4 shards: the new one starts empty (BR-042). */
START_TEST(BR_042_a_topic_created_again_is_empty_and_usable_at_once) {
    static const uint32_t counts[] = {1, 2, 4};
    begin(counts[_i], 8);
    struct say *change = say_open(&r), *use = say_open(&r);
    for (int i = 0; i < 60; i++) {
        ck_assert_int_eq(say_create(change, "t", 3), 0);
        for (int32_t p = 0; p < 3; p++) {
            say_produce(use, (struct say_to){"t", p}, i % 2 == 0 ? -1 : 1, say_batch(use, &(struct say_batch){0}));
        }
        for (int32_t p = 0; p < 3; p++) {
            const struct k_produce_resp_topic_part *a = say_produced(use);
            ck_assert_int_eq(a->error_code, 0);
            ck_assert_int_eq(a->base_offset, 0);
        }
        ck_assert_int_eq(say_delete(change, "t"), 0);
        if (i % 3 == 0) {
            say_produce(use, (struct say_to){"t", 0}, -1, say_batch(use, &(struct say_batch){0}));
            ck_assert_int_eq(say_produced(use)->error_code, 3);
        }
        say_forget(use);
    }
    say_close(change);
    say_close(use);
    end();
}
END_TEST

/* ---- a refused metadata write ---- */

static void refuse_next_append(void) {
    rig_fail_op(&r, (struct rig_fail){.op = DISK_WRITE, .in = "metadata.log", .k = 1, .e = ERR_NOSPACE});
}

START_TEST(D11_a_change_that_the_disk_refuses_is_refused_and_the_next_ones_work) {
    begin(2, 9 + (uint64_t)_i);
    struct say *a = say_open(&r), *b = say_open(&r);
    ck_assert_int_eq(say_create(a, "old", 1), 0);
    refuse_next_append();
    ck_assert_int_eq(say_create(a, "t", 1), 56);
    ck_assert_int_eq(say_describe(a, "t")->error_code, 3);
    ck_assert_int_eq(say_describe(b, "t")->error_code, 3);
    refuse_next_append();
    ck_assert_int_eq(say_delete(b, "old"), 56);
    ck_assert_int_eq(say_describe(a, "old")->error_code, 0);
    refuse_next_append();
    struct k_init_producer_id_req q;
    k_init_producer_id_req_init(&q);
    q.transactional_id = SPAN_NULL;
    const struct k_init_producer_id_resp *pid = say_ask(a, K_INIT_PRODUCER_ID, 4, &q);
    ck_assert_int_eq(pid->error_code, 56);
    ck_assert_int_eq(pid->producer_id, -1);
    ck_assert_int_ge(say_producer_id(a), 0);
    ck_assert_int_eq(say_create(b, "t", 1), 0);
    ck_assert_int_eq(say_delete(a, "old"), 0);
    say_close(a);
    say_close(b);
    if (_i == 0) {
        rig_stop(&r);
    } else {
        rig_crash(&r, _i == 1);
    }
    rig_start(&r);                                 /* what is on disk agrees */
    a = say_open(&r);
    ck_assert_int_eq(say_describe(a, "t")->error_code, 0);
    ck_assert_int_eq(say_describe(a, "old")->error_code, 3);
    say_close(a);
    end();
}
END_TEST

/* Decided on top of a change that is then refused: the follower is refused with it, whatever it is, since what it saw never was. */
static void behind_refused(bool (*first)(struct say *s), void (*second)(struct say *s), int16_t (*verdict)(struct say *s), int16_t want) {
    begin(2, 11);
    world_faults_set(r.w, &(struct world_faults){.disk_us_max = 50000});
    struct say *a = say_open(&r), *b = say_open(&r);
    ck_assert_int_eq(say_create(a, "old", 1), 0);
    refuse_next_append();
    bool create = first(a);
    rig_run(&r, 1);                                /* its write is under way */
    ck_assert(!say_has(a));
    second(b);
    ck_assert_int_eq(create ? say_created(a) : say_deleted(a), 56);
    ck_assert_int_eq(verdict(b), want);
    ck_assert_int_eq(say_describe(b, "old")->error_code, 0);
    ck_assert_int_eq(say_describe(b, "t")->error_code, 3);
    ck_assert_int_eq(say_create(a, "t", 1), 0);    /* and the next ones work */
    ck_assert_int_eq(say_delete(b, "old"), 0);
    say_close(a);
    say_close(b);
    rig_stop(&r);
    rig_start(&r);
    a = say_open(&r);
    ck_assert_int_eq(say_describe(a, "t")->error_code, 0);
    ck_assert_int_eq(say_describe(a, "old")->error_code, 3);
    say_close(a);
    end();
}

static bool create_t(struct say *s) {
    say_create_send(s, "t", 1);
    return true;
}

static void create_t_too(struct say *s) { say_create_send(s, "t", 1); }

static bool delete_old(struct say *s) {
    say_delete_send(s, "old");
    return false;
}

static void create_old(struct say *s) { say_create_send(s, "old", 1); }

static void delete_old_too(struct say *s) { say_delete_send(s, "old"); }

START_TEST(D11_exists_is_not_said_of_a_topic_whose_creation_was_refused) { behind_refused(create_t, create_t_too, say_created, 56); }
END_TEST

START_TEST(D11_created_again_behind_a_refused_deletion_is_refused) { behind_refused(delete_old, create_old, say_created, 56); }
END_TEST

START_TEST(D11_unknown_is_not_said_of_a_topic_whose_deletion_was_refused) { behind_refused(delete_old, delete_old_too, say_deleted, 56); }
END_TEST

/* ---- crashes ---- */

/* One life: create "t" with two partitions, a record in each, delete it, create it again. Each answer is noted. */
struct life {
    bool created, wrote[2], deleted, again;        /* answered */
    bool asked_create, asked_delete, asked_again;
};

/* The next answer, or false when the node fell. */
static bool answered(struct say *s) { return say_await(s, 60000); }

static void live(struct say *s, struct life *l) {
    l->asked_create = true;
    say_create_send(s, "t", 2);
    if (!answered(s)) {
        return;
    }
    ck_assert_int_eq(say_created(s), 0);
    l->created = true;
    for (int32_t p = 0; p < 2; p++) {
        say_produce(s, (struct say_to){"t", p}, -1, say_batch(s, &(struct say_batch){.fill = (uint8_t)('0' + p)}));
    }
    for (int32_t p = 0; p < 2; p++) {
        if (!answered(s)) {
            return;
        }
        ck_assert_int_eq(say_produced(s)->error_code, 0);
        l->wrote[p] = true;
    }
    l->asked_delete = true;
    say_delete_send(s, "t");
    if (!answered(s)) {
        return;
    }
    ck_assert_int_eq(say_deleted(s), 0);
    l->deleted = true;
    l->asked_again = true;
    say_create_send(s, "t", 3);
    if (!answered(s)) {
        return;
    }
    ck_assert_int_eq(say_created(s), 0);
    l->again = true;
}

/* What the restarted broker shows must be a state between the last answered one and the last asked one. */
static void judge(struct say *s, const struct life *l) {
    const struct k_metadata_resp_topic *t = say_describe(s, "t");
    bool first = t->partitions_n == 2, second = t->partitions_n == 3, none = t->error_code == 3;
    ck_assert_int_eq(first + second + none, 1);
    ck_assert(!none || !l->created || l->asked_delete);        /* answered creation: there */
    ck_assert(!none || !l->again);
    ck_assert(!first || !l->deleted);                          /* answered deletion: gone */
    ck_assert(!first || l->asked_create);
    ck_assert(!second || l->asked_again);
    for (int32_t p = 0; p < t->partitions_n; p++) {
        ck_assert_int_eq(t->partitions[p].error_code, 0);
        int64_t end = say_latest(s, (struct say_to){"t", p});
        ck_assert_msg(end <= (first ? 1 : 0), "%s-%d of the second life ends at %ld", "t", p, end);    /* nothing of the first is in it */
        ck_assert(!first || end == 1 || !l->wrote[p]);         /* acknowledged: there */
        ck_assert_int_eq(say_read_all(s, (struct say_to){"t", p}, 0, NULL, NULL), end);
    }
}

/* It works: change and write whatever was left. */
static void go_on(struct say *s) {
    int16_t e = say_delete(s, "t");
    ck_assert(e == 0 || e == 3);
    ck_assert_int_eq(say_create(s, "t", 2), 0);
    say_produce(s, (struct say_to){"t", 1}, -1, say_batch(s, &(struct say_batch){0}));
    const struct k_produce_resp_topic_part *a = say_produced(s);
    ck_assert_int_eq(a->error_code, 0);
    ck_assert_int_eq(a->base_offset, 0);
}

static uint64_t second_crashes;

/* Crash at the k-th operation of a life; then, if second > 0, at the second-th one of the start that follows. False: the life ended before. */
static bool crash_life(uint64_t k, uint64_t second, bool power, uint32_t shards) {
    struct life l = {0};
    begin(shards, 1000 + k);
    struct say *s = say_open(&r);
    world_node_crash_at(r.n, k, power);
    live(s, &l);
    if (world_node_is_up(r.n)) {
        rig_run(&r, 20);                           /* removals off the turn */
    }
    bool fell = !world_node_is_up(r.n);
    world_node_crash_at(r.n, 0, false);
    say_close(s);
    if (!fell) {
        rig_crash(&r, power);
    }
    if (second > 0) {
        world_node_crash_at(r.n, second, power);
        rig_boot(&r);
        bool up = rig_wait_ready(&r);
        ck_assert_msg(up || !world_node_is_up(r.n), "%s", r.why);
        world_node_crash_at(r.n, 0, false);
        second_crashes += !up;
        if (up) {
            rig_crash(&r, power);
        } else {
            ck_assert_msg(r.boot == ERR_OK || r.boot == ERR_CANCELLED, "crash %lu, then %lu: does not start: %s", k, second, r.why);
        }
    }
    rig_boot(&r);
    ck_assert_msg(rig_wait_ready(&r), "crash at %lu, then %lu, power %d: does not start: %s", k, second, power, r.why);
    s = say_open(&r);
    judge(s, &l);
    go_on(s);
    say_close(s);
    end();
    return fell;
}

START_TEST(T3_a_crash_at_any_step_of_create_and_delete_leaves_old_or_new) {
    bool power = _i % 2 == 0;
    uint32_t shards = _i < 2 ? 1 : 2;
    uint64_t k = 1;
    while (crash_life(k, 0, power, shards)) {
        k++;
    }
    printf("RESULT create/delete, %u shards, power=%d: a crash at each of %lu disk operations\n", shards, power, k - 1);
    ck_assert_uint_gt(k, 20);
}
END_TEST

START_TEST(T4_a_second_crash_while_starting_changes_nothing) {
    bool power = _i % 2 == 0;
    bool fell = true;
    for (uint64_t k = 1 + (uint64_t)_i; fell; k += 7) {
        uint64_t before;
        uint64_t second = 1;
        do {
            before = second_crashes;
            fell = crash_life(k, second, power, 2);
            second += 3;
        } while (second_crashes > before);
    }
    printf("RESULT second crash: %lu starts crashed\n", second_crashes);
    ck_assert_uint_gt(second_crashes, 50);
}
END_TEST

/* T12: whatever single byte of the metadata log is spoilt at rest, the broker refuses to start with one line that names the file, or
 * starts with every answered change; and no file of data goes. */
static int64_t size_of(const char *path) {
    struct disk_req rq = {.op = DISK_STAT, .path = path};
    return disk_call(world_node_disk(r.n), &rq) == ERR_OK ? rq.size : -1;
}

START_TEST(T12_a_damaged_metadata_log_is_refused_and_no_data_is_deleted) {
    const char *log = "perigee.meta/metadata.log";
    int64_t n = 0;
    int refused = 0, served = 0;
    for (int64_t at = 0; at == 0 || at < n; at += 3) {
        begin(1, 5);
        struct say *s = say_open(&r);
        ck_assert_int_eq(say_create(s, "a", 1), 0);
        ck_assert_int_eq(say_create(s, "b", 1), 0);
        say_produce(s, (struct say_to){"a", 0}, -1, say_batch(s, &(struct say_batch){0}));
        ck_assert_int_eq(say_produced(s)->error_code, 0);
        say_close(s);
        rig_stop(&r);
        n = size_of(log);
        int64_t data = size_of("a-0/00000000000000000000.log");
        ck_assert_int_gt(data, 0);
        ck_assert_int_eq(world_node_corrupt(r.n, log, at, 0x40), ERR_OK);
        rig_boot(&r);
        if (rig_wait_ready(&r)) {
            served++;
            s = say_open(&r);
            ck_assert_int_eq(say_describe(s, "a")->error_code, 0);
            ck_assert_int_eq(say_describe(s, "b")->error_code, 0);
            ck_assert_int_eq(say_latest(s, (struct say_to){"a", 0}), 1);
            say_close(s);
            rig_stop(&r);
        } else {
            refused++;
            ck_assert_int_eq(r.boot, ERR_DAMAGED);
            ck_assert_ptr_nonnull(strstr(r.why, "metadata.log"));
            ck_assert_ptr_null(strchr(r.why, '\n'));
            ck_assert(rig_wait_ready(&r) == false);
            ck_assert_int_eq(size_of("a-0/00000000000000000000.log"), data);
            ck_assert_int_eq(size_of(log), n);
        }
        rig_done(&r);
    }
    printf("RESULT damaged metadata log: %d refused, %d served\n", refused, served);
    ck_assert_int_gt(refused, served);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("meta");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, D11_a_client_on_another_shard_sees_each_change_at_once_10000_times);
    tcase_add_loop_test(tc, BR_042_a_topic_created_again_is_empty_and_usable_at_once, 0, 3);
    tcase_add_loop_test(tc, D11_a_change_that_the_disk_refuses_is_refused_and_the_next_ones_work, 0, 3);
    tcase_add_test(tc, D11_exists_is_not_said_of_a_topic_whose_creation_was_refused);
    tcase_add_test(tc, D11_created_again_behind_a_refused_deletion_is_refused);
    tcase_add_test(tc, D11_unknown_is_not_said_of_a_topic_whose_deletion_was_refused);
    tcase_add_loop_test(tc, T3_a_crash_at_any_step_of_create_and_delete_leaves_old_or_new, 0, 4);
    tcase_add_loop_test(tc, T4_a_second_crash_while_starting_changes_nothing, 0, 2);
    tcase_add_test(tc, T12_a_damaged_metadata_log_is_refused_and_no_data_is_deleted);
    return run_suite("meta", tc);
}
