/* Goal: the offline look says "sound" of what a store wrote, names file and position of damage below the durable
 * mark, reports a torn tail without calling it damage, and notices an index or snapshot that disagrees. Method:
 * directories that a store left on the simulated disk, looked at from outside. */
#include "rig.h"
#include "store/inspect.h"

static char *text;
static size_t text_n;
static bool as_json;

static err verify(struct rig *r, const char *dir) {
    FILE *f = open_memstream(&text, &text_n);
    err e = inspect_verify(world_node_disk(r->n), dir, as_json, f);
    (void)fclose(f);
    return e;
}

static void dump(struct rig *r, const char *dir, const struct inspect_opts *o) {
    FILE *f = open_memstream(&text, &text_n);
    ck_assert_int_eq(inspect_dump(world_node_disk(r->n), dir, o, f), ERR_OK);
    (void)fclose(f);
}

static bool says(const char *what) {
    bool yes = text && strstr(text, what);
    if (!yes) {
        (void)fprintf(stderr, "not said: %s\n%s\n", what, text);
    }
    free(text);
    text = NULL;
    return yes;
}

/* Two logs, one with several segments, indexes, producers and a second epoch; down. */
static void made(struct rig *r, bool clean) {
    rig_init(r, 3);
    struct rig_log *l = rig_log(r, "big", 0), *s = rig_log(r, "small", 7);
    r->log_conf.segment_bytes = 20000;
    r->log_conf.index_interval_bytes = 1000;
    r->conf.heavy_bytes = 5000;
    r->conf.checkpoint_age = 20;
    ck_assert_int_eq(rig_start(r), ERR_OK);
    for (int i = 0; i < 60; i++) {
        r->epoch = i / 30;
        ck_assert_int_eq(rig_append(r, l, 2, 300, true), ERR_OK);
        rig_run(r, 10);
    }
    ck_assert_int_eq(rig_append(r, s, 3, 10, true), ERR_OK);
    rig_settle(r);
    rig_run(r, 200);
    if (clean) {
        ck_assert(rig_stop(r));
    } else {
        rig_crash(r, true);
    }
}

START_TEST(sound) {
    for (int clean = 0; clean < 2; clean++) {
        struct rig r;
        made(&r, clean);
        ck_assert_int_eq(verify(&r, "."), ERR_OK);
        ck_assert(says("sound: 2 partitions, 61 batches, 123 records, 0 torn tails, 0 damaged places"));
        ck_assert_int_eq(verify(&r, "small-7"), ERR_OK);
        ck_assert(says("sound: 1 partitions, 1 batches"));
        rig_done(&r);
    }
}
END_TEST

START_TEST(damage_below_the_mark_is_named) {
    struct rig r;
    made(&r, false);
    ck_assert_int_eq(world_node_corrupt(r.n, "small-7/00000000000000000000.log", 80, 4), ERR_OK);
    ck_assert_int_eq(verify(&r, "."), ERR_DAMAGED);
    ck_assert(says("small-7/00000000000000000000.log at 0"));
    as_json = true;
    ck_assert_int_eq(verify(&r, "."), ERR_DAMAGED);
    as_json = false;
    ck_assert(text && strstr(text, "{\"finding\":\"damaged\",\"position\":0,\"file\":\"small-7/00000000000000000000.log\",\"reason\":\""));
    ck_assert(says("{\"verdict\":\"damaged\","));
    rig_done(&r);
    made(&r, false);
    ck_assert_int_eq(world_node_corrupt(r.n, "small-7/00000000000000000000.log", 70, 0), ERR_OK);      /* cut short */
    ck_assert_int_eq(verify(&r, "."), ERR_DAMAGED);
    ck_assert(says("small-7/00000000000000000000.log"));
    rig_done(&r);
}
END_TEST

START_TEST(a_torn_tail_is_no_damage) {
    struct rig r;
    uint8_t zeros[100] = {0};
    made(&r, false);
    struct disk *d = world_node_disk(r.n);
    struct disk_req o = {.op = DISK_OPEN, .path = "small-7/00000000000000000000.log", .flags = DISK_RDWR};
    ck_assert_int_eq(disk_call(d, &o), ERR_OK);
    struct iovec iov = {.iov_base = zeros, .iov_len = sizeof zeros};
    struct disk_req w = {.op = DISK_WRITE, .file = o.file, .at = o.size, .iov = &iov, .iov_n = 1},
                    c = {.op = DISK_CLOSE, .file = o.file};
    ck_assert(disk_call(d, &w) == ERR_OK && disk_call(d, &c) == ERR_OK);
    ck_assert_int_eq(verify(&r, "."), ERR_OK);
    ck_assert(says("1 torn tails, 0 damaged places"));
    as_json = true;
    ck_assert_int_eq(verify(&r, "."), ERR_OK);
    as_json = false;
    ck_assert(text && strstr(text, "{\"finding\":\"torn\",\"position\":"));
    ck_assert(text && strstr(text, "\"file\":\"small-7/00000000000000000000.log\"}\n"));
    ck_assert(says("{\"verdict\":\"sound\",\"partitions\":2,"));
    rig_done(&r);
}
END_TEST

START_TEST(side_files_that_disagree) {
    static const struct {
        const char *suffix;
        int64_t at;
    } v[] = {{".index", 3}, {".index", 6}, {".timeindex", 7}, {".timeindex", 11}, {".snapshot", 12}};
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        struct rig r;
        made(&r, true);
        struct disk_req ls = {.op = DISK_LIST, .path = "big-0"};
        char path[100] = "";
        ck_assert_int_eq(disk_call(world_node_disk(r.n), &ls), ERR_OK);
        for (size_t k = 0; k < ls.entries_n; k++) {
            if (names_ends_with(ls.entries[k].name, v[i].suffix) && ls.entries[k].size > v[i].at) {
                (void)snprintf(path, sizeof path, "big-0/%s", ls.entries[k].name);
            }
        }
        disk_entries_free(ls.entries, ls.entries_n);
        ck_assert(path[0]);
        ck_assert_int_eq(world_node_corrupt(r.n, path, v[i].at, 0x5), ERR_OK);
        ck_assert_msg(verify(&r, ".") == ERR_DAMAGED, "%s at %lld", path, (long long)v[i].at);
        ck_assert_msg(says(path), "%s", path);
        rig_done(&r);
    }
}
END_TEST

START_TEST(dump_shows_batches_and_records) {
    struct rig r;
    made(&r, true);
    struct inspect_opts heads = {0}, records = {.records = true}, json = {.json = true};
    dump(&r, "small-7", &heads);
    ck_assert(says("00000000000000000000.log"));
    size_t heads_n = text_n;
    dump(&r, "small-7", &records);
    ck_assert_uint_gt(text_n, heads_n);
    ck_assert(says("k"));
    dump(&r, "small-7", &json);
    ck_assert(says("{"));
    rig_done(&r);
}
END_TEST

START_TEST(nothing_there) {
    struct rig r;
    made(&r, true);
    ck_assert_int_eq(verify(&r, "absent-0"), ERR_NOT_FOUND);
    free(text);
    rig_done(&r);
}
END_TEST

/* The log start: what lies below is no gap and no damage, and the dump says where the log begins. */
START_TEST(s18_6_log_start) {
    struct rig r;
    made(&r, true);
    struct rig_log *l = &r.logs[0];
    struct disk *d = world_node_disk(r.n);
    struct iovec iov = {.iov_base = (void *)(uintptr_t)"x", .iov_len = 1};
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert_int_eq(rig_move(&r, l, 91), ERR_OK);
    rig_run(&r, 1000);
    rig_crash(&r, true);
    ck_assert_int_eq(verify(&r, "."), ERR_OK);
    ck_assert(says("sound: 2 partitions"));
    static const char *const names[] = {"big-0/00000000000000000000.log", "big-0/00000000000000000007.log.deleted"};
    for (size_t i = 0; i < 2; i++) {
        struct disk_req put = {.op = DISK_PUT, .path = names[i], .flags = DISK_RDWR | DISK_CREATE, .iov = &iov, .iov_n = 1};
        ck_assert_int_eq(disk_call(d, &put), ERR_OK);
        ck_assert_int_eq(verify(&r, "."), ERR_OK);
        ck_assert(text && strstr(text, "sound: 2 partitions"));
        char line[100];
        (void)snprintf(line, sizeof line, "deleted %s: below the log start", names[i]);
        ck_assert(says(line));
    }
    struct inspect_opts o = {0};
    dump(&r, "big-0", &o);
    ck_assert(says("big-0\tlogStartOffset=91"));
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    rig_check_recovered(&r);
    ck_assert_int_eq(rig_move(&r, l, rig_end(l)), ERR_OK);         /* all of it: an empty segment is left */
    rig_run(&r, 1000);
    ck_assert(rig_stop(&r));
    ck_assert_int_eq(verify(&r, "."), ERR_OK);
    ck_assert(says("sound: 2 partitions, 1 batches"));
    rig_done(&r);
}
END_TEST

int main(void) {
    return RIG_RUN("inspect", sound, damage_below_the_mark_is_named, a_torn_tail_is_no_damage, side_files_that_disagree,
                   dump_shows_batches_and_records, nothing_there, s18_6_log_start);
}
