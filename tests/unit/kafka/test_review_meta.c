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

int main(void) {
    TCase *tc = tcase_create("review_meta");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, T16_changes_go_on_when_the_snapshot_finds_no_room, 0, 2);
    return run_suite("review_meta", tc);
}
