/* Goal: the metadata machine: every rule of creating, deleting and naming topics (S4.1-4.10, BR-049, BR-050), epochs that never go back (S3.9), ids
 * that never repeat (S6.10), limits, a snapshot that restores all, and apply that is total over hostile bytes.
 * Method: tables of wishes with their err and words; fixed bytes of each record; random changes against a naive twin; mutated frames. */
#include "state/meta.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "base/be.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/prng.h"

#define NODE 7

static struct conf *conf;
static struct topicconf defaults;
static struct meta *m;
static struct str frame;
static char why[500];
static uint8_t next_id;

static uuid id_of(uint8_t n) {
    uuid u = {{0}};
    memset(u.b, n, sizeof u.b);
    return u;
}

static void apply_frame(struct meta *to) {
    ck_assert_int_eq(meta_apply(to, str_span(&frame)), ERR_OK);
    str_clear(&frame);
}

static struct meta *empty(void) {
    struct meta *x;
    ck_assert_int_eq(meta_new(&defaults, 5, &x), ERR_OK);
    return x;
}

static void setup(void) {
    ck_assert_int_eq(conf_new(&conf), ERR_OK);
    topicconf_defaults(conf, &defaults);
    str_init(&frame, LIMIT_META_RECORD_BYTES);
    m = empty();
    ck_assert_int_eq(meta_decide_format(id_of(9), NODE, &frame), ERR_OK);
    apply_frame(m);
    next_id = 10;
}

static void teardown(void) {
    meta_free(m);
    str_done(&frame);
    conf_free(conf);
    ck_assert_uint_eq(mem_live(MEM_META), 0);
}

static struct meta_create wish(const char *name) {
    return (struct meta_create){.name = span_str(name), .partitions = -1, .replication = -1, .id = id_of(next_id++), .num_partitions_default = 3};
}

static int32_t create(struct meta_create in) {
    int32_t parts = 0;
    err e = meta_decide_create(m, &in, &frame, &parts, why, sizeof why);
    ck_assert_msg(e == ERR_OK, "%.*s: %s", (int)in.name.n, (const char *)in.name.p, why);
    apply_frame(m);
    return parts;
}

static void refused(struct meta_create in, err want, const char *words) {
    int32_t parts = -77;
    why[0] = '\0';
    err e = meta_decide_create(m, &in, &frame, &parts, why, sizeof why);
    ck_assert_msg(e == want, "%.40s: %s instead of %s (%s)", (const char *)in.name.p, err_name(e), err_name(want), why);
    ck_assert_msg(strstr(why, words) != NULL, "'%s' does not say '%s'", why, words);
    ck_assert_int_eq(parts, -77);
    ck_assert_uint_eq(frame.n, 0);                 /* nothing is created */
}

static struct meta_topic *topic(const char *name) { return meta_topic_by_name(m, span_str(name)); }

/* ---- names ---- */

/* S4.1, BR-050 */
START_TEST(valid_names) {
    static const char *const good[] = {"a", "server.db_name.table", "A-Z_0.9", "...", "-", "..a"};
    static const char *const bad[] = {"", ".", "..", "a/b", "../x", "a b", "\xc3\xa4", "a\nb", "a:b", "a,b", "*"};
    char longest[LIMIT_TOPIC_NAME + 2];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(meta_topic_name_ok(span_str(good[i])), "%s", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!meta_topic_name_ok(span_str(bad[i])), "%s", bad[i]);
        refused(wish(bad[i]), ERR_BAD_TOPIC, "");
        ck_assert_msg(why[0] != '\0', "no reason for '%s'", bad[i]);
    }
    ck_assert(!meta_topic_name_ok(SPAN_NULL));
    ck_assert(!meta_topic_name_ok(SPAN_LIT("a\0b")));
    memset(longest, 'x', sizeof longest);
    ck_assert(meta_topic_name_ok(span_of(longest, 249)));
    ck_assert(!meta_topic_name_ok(span_of(longest, 250)));
    struct meta_create in = wish("");
    in.name = span_of(longest, 250);
    refused(in, ERR_BAD_TOPIC, "250 characters, the most is 249");
    in.name = span_of(longest, 249);
    create(in);
    ck_assert_ptr_nonnull(meta_topic_by_name(m, span_of(longest, 249)));
    ck_assert_ptr_null(meta_topic_by_name(m, span_of(longest, 250)));
    ck_assert_ptr_null(meta_topic_by_name(m, span_of(longest, 248)));
}
END_TEST

/* S4.2, BR-050: a.b and a_b cannot both exist. */
START_TEST(names_collide) {
    create(wish("a.b_c"));
    refused(wish("a_b.c"), ERR_BAD_TOPIC, "collides with topic 'a.b_c'");
    refused(wish("a_b_c"), ERR_BAD_TOPIC, "collides");
    create(wish("a.b-c"));
    create(wish("A.b_c"));
    ck_assert_ptr_null(topic("a_b_c"));            /* a look-up is exact */
    ck_assert_ptr_nonnull(topic("a.b_c"));
    ck_assert_int_eq(meta_decide_delete(m, topic("a.b_c"), &frame), ERR_OK);
    apply_frame(m);
    create(wish("a_b.c"));
}
END_TEST

/* S4.3: also when names collide with themselves */
START_TEST(name_exists) {
    create(wish("t.x"));
    refused(wish("t.x"), ERR_TOPIC_EXISTS, "already exists");
    struct meta_create in = wish("t.x");
    in.partitions = 0;                             /* whatever else is wrong */
    refused(in, ERR_TOPIC_EXISTS, "already exists");
}
END_TEST

/* S4.4 and BR-050: names the broker keeps for itself */
START_TEST(reserved_names) {
    refused(wish("__cluster_metadata"), ERR_BAD_REQUEST, "reserved");
    refused(wish("__consumer_offsets"), ERR_BAD_TOPIC, "reserved");
    refused(wish("__transaction_state"), ERR_BAD_TOPIC, "reserved");
    refused(wish("__share_group_state"), ERR_BAD_TOPIC, "reserved");
    struct meta_create in = wish("__consumer_offsets");
    in.system = true;
    create(in);
    ck_assert(topic("__consumer_offsets")->internal);          /* S3.15 */
    create(wish("__mine"));
    ck_assert(!topic("__mine")->internal);
}
END_TEST

/* ---- sizes ---- */

/* S4.5, BR-049 */
START_TEST(counts) {
    ck_assert_int_eq(create(wish("defaults")), 3);
    ck_assert_int_eq(topic("defaults")->parts_n, 3);
    struct meta_create in = wish("five");
    in.partitions = 5;
    in.replication = 1;
    ck_assert_int_eq(create(in), 5);
    for (int32_t i = 0; i < 5; i++) {
        ck_assert_int_eq(topic("five")->parts[i].leader, NODE);
        ck_assert_int_eq(topic("five")->parts[i].leader_epoch, 0);
    }
    static const int32_t bad_counts[] = {0, -2, INT32_MIN};
    for (size_t i = 0; i < 3; i++) {
        in = wish("x");
        in.partitions = bad_counts[i];
        refused(in, ERR_BAD_PARTITIONS, "not possible");
        in = wish("x");
        in.replication = i == 2 ? INT16_MIN : (int16_t)bad_counts[i];
        refused(in, ERR_BAD_REPLICATION, "not possible");
    }
    in = wish("x");
    in.replication = 3;
    refused(in, ERR_BAD_REPLICATION, "replication factor 3 is larger than the number of brokers, which is 1");
    in = wish("x");
    in.partitions = LIMIT_PARTITIONS_PER_TOPIC + 1;
    refused(in, ERR_BAD_PARTITIONS, "too many");
}
END_TEST

static struct meta_create manual(const char *name, int32_t n, const int32_t *parts, const span *brokers) {
    struct meta_create in = wish(name);
    in.has_manual = true;
    in.assignments_n = n;
    in.assignment_parts = parts;
    in.assignment_brokers = brokers;
    return in;
}

/* S4.6 */
START_TEST(manual_assignment) {
    static const int32_t here[] = {NODE}, other[] = {8}, twice[] = {NODE, NODE}, both[] = {NODE, 8};
    span h = span_of(here, 4), o = span_of(other, 4), tw = span_of(twice, 8), bo = span_of(both, 8), none = span_of(here, 0);
    ck_assert_int_eq(create(manual("ok", 3, (int32_t[]){2, 0, 1}, (span[]){h, h, h})), 3);
    struct meta_create in = manual("x", 1, (int32_t[]){0}, (span[]){h});
    in.partitions = 1;
    refused(in, ERR_BAD_REQUEST, "partitions must be -1");
    in = manual("x", 1, (int32_t[]){0}, (span[]){h});
    in.replication = 1;
    refused(in, ERR_BAD_REQUEST, "replication factor must be -1");
    refused(manual("x", 2, (int32_t[]){0, 2}, (span[]){h, h}), ERR_BAD_ASSIGNMENT, "must number 0 to 1");
    refused(manual("x", 2, (int32_t[]){0, -1}, (span[]){h, h}), ERR_BAD_ASSIGNMENT, "must number 0 to 1");
    refused(manual("x", 2, (int32_t[]){1, 1}, (span[]){h, h}), ERR_BAD_ASSIGNMENT, "twice");
    refused(manual("x", 1, (int32_t[]){0}, (span[]){none}), ERR_BAD_ASSIGNMENT, "no replicas");
    refused(manual("x", 1, (int32_t[]){0}, (span[]){SPAN_NULL}), ERR_BAD_ASSIGNMENT, "no replicas");
    refused(manual("x", 1, (int32_t[]){0}, (span[]){o}), ERR_BAD_ASSIGNMENT, "broker 8, which does not exist");
    refused(manual("x", 1, (int32_t[]){0}, (span[]){bo}), ERR_BAD_ASSIGNMENT, "broker 8, which does not exist");
    refused(manual("x", 1, (int32_t[]){0}, (span[]){tw}), ERR_BAD_ASSIGNMENT, "twice");
    refused(manual("x", 0, NULL, NULL), ERR_BAD_ASSIGNMENT, "0 partitions");
}
END_TEST

/* ---- settings ---- */

/* S4.7: and nothing is created */
START_TEST(settings_refused) {
    struct topicconf_entry e[] = {{SPAN_LIT("retention.ms"), SPAN_LIT("1000")}, {SPAN_LIT("retention.sm"), SPAN_LIT("1")}};
    struct meta_create in = wish("x");
    in.entries = e;
    in.entries_n = 2;
    refused(in, ERR_BAD_SETTING, "'retention.sm'");
    e[1] = (struct topicconf_entry){SPAN_LIT("segment.bytes"), SPAN_LIT("much")};
    refused(in, ERR_BAD_SETTING, "segment.bytes");
    ck_assert_ptr_null(topic("x"));
}
END_TEST

START_TEST(settings_kept) {
    struct topicconf_entry e[] = {
        {SPAN_LIT("segment.bytes"), SPAN_LIT("1MiB")},
        {SPAN_LIT("cleanup.policy"), SPAN_LIT("delete")},
        {SPAN_LIT("cleanup.policy"), SPAN_LIT(" compact ")},
        {SPAN_LIT("flush.ms"), SPAN_LIT("5")},
    };
    struct meta_create in = wish("x");
    in.entries = e;
    in.entries_n = 4;
    create(in);
    struct meta_topic *t = topic("x");
    ck_assert_uint_eq(t->entries_n, 3);            /* sorted, the last of two wins */
    ck_assert(span_eq_str(t->entries[0].name, "cleanup.policy") && span_eq_str(t->entries[0].value, "compact"));
    ck_assert(span_eq_str(t->entries[1].name, "flush.ms"));
    ck_assert(span_eq_str(t->entries[2].name, "segment.bytes") && span_eq_str(t->entries[2].value, "1MiB"));
    ck_assert_int_eq(t->conf.segment_bytes, 1 << 20);
    ck_assert(t->conf.cleanup_compact && !t->conf.cleanup_delete);
    ck_assert_int_eq(t->conf.max_message_bytes, 1048588);
}
END_TEST

/* S4.8: deciding changes nothing, and says what would be. */
START_TEST(decide_is_read_only) {
    struct meta_create in = wish("x");
    int32_t parts = 0;
    ck_assert_int_eq(meta_decide_create(m, &in, &frame, &parts, why, sizeof why), ERR_OK);
    ck_assert_int_eq(parts, 3);
    ck_assert_ptr_null(topic("x"));
    ck_assert_uint_eq(m->topics_n, 0);
}
END_TEST

/* S4.10: another id each time; the old object lives as long as somebody holds it. */
START_TEST(delete_and_create_again) {
    create(wish("x"));
    struct meta_topic *old = topic("x");
    uuid old_id = old->id;
    meta_topic_ref(old);
    ck_assert_int_eq(meta_decide_delete(m, old, &frame), ERR_OK);
    ck_assert_ptr_eq(topic("x"), old);
    apply_frame(m);
    ck_assert_ptr_null(topic("x"));
    ck_assert_ptr_null(meta_topic_by_id(m, old_id));
    ck_assert(old->gone);
    ck_assert_str_eq(old->name, "x");
    ck_assert_uint_eq(m->topics_n, 0);
    ck_assert_int_eq(m->partitions_n, 0);
    create(wish("x"));
    ck_assert(!uuid_eq(topic("x")->id, old_id));
    ck_assert_ptr_eq(meta_topic_by_id(m, topic("x")->id), topic("x"));
    meta_topic_unref(old);
}
END_TEST

/* D12: limits are clear errors. */
START_TEST(limits) {
    for (int i = 0; i < 4; i++) {
        char name[24];
        snprintf(name, sizeof name, "big%d", i);
        struct meta_create in = wish(name);
        in.partitions = LIMIT_PARTITIONS_PER_TOPIC;
        create(in);
    }
    ck_assert_int_eq(m->partitions_n, LIMIT_PARTITIONS);
    refused(wish("one.more"), ERR_LIMIT, "the most is 400000");
    struct meta_create in = wish("x");
    struct topicconf_entry e[LIMIT_TOPIC_SETTINGS + 1];
    for (size_t i = 0; i <= LIMIT_TOPIC_SETTINGS; i++) {
        e[i] = (struct topicconf_entry){SPAN_LIT("flush.ms"), SPAN_LIT("1")};
    }
    in.entries = e;
    in.entries_n = LIMIT_TOPIC_SETTINGS + 1;
    refused(in, ERR_LIMIT, "too many");
    m->topics_n += LIMIT_TOPICS;
    refused(wish("x"), ERR_LIMIT, "topics already");
    m->topics_n -= LIMIT_TOPICS;
}
END_TEST

START_TEST(setting_too_long_to_store) {
    static char value[40000];
    memset(value, '1', sizeof value);
    value[1] = ':';
    struct topicconf_entry e = {SPAN_LIT("leader.replication.throttled.replicas"), span_of(value, sizeof value)};
    struct meta_create in = wish("x");
    in.entries = &e;
    in.entries_n = 1;
    int32_t parts;
    ck_assert_int_eq(meta_decide_create(m, &in, &frame, &parts, why, sizeof why), ERR_LIMIT);
}
END_TEST

/* ---- the rest ---- */

/* S3.9, BR-042: an epoch grows, and an older one in the log is damage. */
START_TEST(leader_epochs) {
    create(wish("x"));
    struct meta_topic *t = topic("x");
    ck_assert_int_eq(meta_decide_epoch(m, t, 1, &frame), ERR_OK);
    struct str first;
    str_init(&first, 1000);
    str_add(&first, str_span(&frame));
    apply_frame(m);
    ck_assert_int_eq(t->parts[1].leader_epoch, 1);
    ck_assert_int_eq(t->parts[0].leader_epoch, 0);
    ck_assert_int_eq(t->parts[1].leader, NODE);
    ck_assert_int_eq(meta_decide_epoch(m, t, 1, &frame), ERR_OK);
    apply_frame(m);
    ck_assert_int_eq(t->parts[1].leader_epoch, 2);
    ck_assert_int_eq(meta_apply(m, str_span(&first)), ERR_DAMAGED);
    ck_assert_int_eq(t->parts[1].leader_epoch, 2);
    str_done(&first);
}
END_TEST

/* S6.10: blocks follow one another. */
START_TEST(producer_blocks) {
    ck_assert_int_eq(m->producer_ids_next, 0);
    ck_assert_int_eq(meta_decide_producer_block(m, 1000, &frame), ERR_OK);
    apply_frame(m);
    ck_assert_int_eq(m->producer_ids_next, 1000);
    ck_assert_int_eq(meta_decide_producer_block(m, 500, &frame), ERR_OK);
    apply_frame(m);
    ck_assert_int_eq(m->producer_ids_next, 1500);
    ck_assert_int_eq(meta_decide_producer_block(m, INT64_MAX, &frame), ERR_LIMIT);
}
END_TEST

START_TEST(format_is_the_identity) {
    ck_assert(uuid_eq(m->cluster_id, id_of(9)));
    ck_assert_int_eq(m->node_id, NODE);
    ck_assert_uint_eq(m->seen, 1);
    ck_assert_int_eq(meta_decide_format(id_of(8), NODE, &frame), ERR_OK);
    ck_assert_int_eq(meta_apply(m, str_span(&frame)), ERR_DAMAGED);
    str_clear(&frame);
    ck_assert_int_eq(meta_decide_format(id_of(9), NODE + 1, &frame), ERR_OK);
    ck_assert_int_eq(meta_apply(m, str_span(&frame)), ERR_NEWER);
}
END_TEST

static struct meta_topic *told_topic;
static bool told_removed;
static int told_epochs;
static void on_topic(void *u, struct meta_topic *t, bool removed) {
    ck_assert_ptr_eq(u, &told_topic);
    told_topic = t;
    told_removed = removed;
}
static void on_epoch(void *u, struct meta_topic *t, int32_t partition) {
    ck_assert_ptr_eq(u, &told_topic);
    ck_assert_int_eq(t->parts[partition].leader_epoch, 1);
    told_epochs++;
}

START_TEST(shards_are_told) {
    m->on_topic = on_topic;
    m->on_epoch = on_epoch;
    m->u = &told_topic;
    create(wish("x"));
    ck_assert_ptr_eq(told_topic, topic("x"));
    ck_assert(!told_removed);
    ck_assert_int_eq(meta_decide_epoch(m, topic("x"), 2, &frame), ERR_OK);
    apply_frame(m);
    ck_assert_int_eq(told_epochs, 1);
    ck_assert_int_eq(meta_decide_delete(m, topic("x"), &frame), ERR_OK);
    apply_frame(m);
    ck_assert(told_removed);
}
END_TEST

START_TEST(sorted_names) {
    static const char *const names[] = {"b", "a.x", "B", "a"};
    for (size_t i = 0; i < 4; i++) {
        create(wish(names[i]));
    }
    struct arena a;
    arena_init(&a, NULL, 10000);
    struct meta_topic **v;
    size_t n;
    ck_assert_int_eq(meta_topics_sorted(m, &a, &v, &n), ERR_OK);
    ck_assert_uint_eq(n, 4);
    ck_assert_str_eq(v[0]->name, "B");
    ck_assert_str_eq(v[1]->name, "a");
    ck_assert_str_eq(v[2]->name, "a.x");
    ck_assert_str_eq(v[3]->name, "b");
    arena_done(&a);
}
END_TEST

/* ---- bytes ---- */

static void expect_bytes(const uint8_t *want, size_t n) {
    ck_assert_uint_eq(frame.n, n);
    ck_assert_mem_eq(frame.p, want, n);
    str_clear(&frame);
}

/* The stored form is a promise: a change of these bytes needs a new version of the record. */
START_TEST(stored_bytes) {
    ck_assert_int_eq(meta_decide_format(id_of(9), NODE, &frame), ERR_OK);
    expect_bytes((const uint8_t[]){0, 0, 0, 21, 0, 1, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 0, 0, 0, 0, 9, 0, 2, 0, 0, 0, 0, 0, 7, 0}, 38);
    struct topicconf_entry e = {SPAN_LIT("flush.ms"), SPAN_LIT("5")};
    struct meta_create in = wish("x.y");
    int32_t parts;
    in.id = id_of(1);
    in.entries = &e;
    in.entries_n = 1;
    ck_assert_int_eq(meta_decide_create(m, &in, &frame, &parts, why, sizeof why), ERR_OK);
    static const uint8_t topic_bytes[] = {
        0, 0, 0, 62, 0, 3, 0, 0,
        4, 'x', '.', 'y', 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        2, 0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 0, 2, 0, 0, 0, 7, 2, 0, 0, 0, 7, 0,
        2, 9, 'f', 'l', 'u', 's', 'h', '.', 'm', 's', 2, '5', 0,
        0,
    };
    expect_bytes(topic_bytes, sizeof topic_bytes);
    in.entries_n = 0;
    create(in);
    ck_assert_int_eq(meta_decide_epoch(m, topic("x.y"), 2, &frame), ERR_OK);
    expect_bytes((const uint8_t[]){0, 0, 0, 33, 0, 5, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 2, 0, 0, 0, 7, 0, 0, 0, 1, 0}, 37);
    ck_assert_int_eq(meta_decide_delete(m, topic("x.y"), &frame), ERR_OK);
    expect_bytes((const uint8_t[]){0, 0, 0, 21, 0, 4, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0}, 25);
    ck_assert_int_eq(meta_decide_producer_block(m, 1000, &frame), ERR_OK);
    expect_bytes((const uint8_t[]){0, 0, 0, 13, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 3, 232, 0}, 17);
}
END_TEST

/* T10-like: records of another program: newer ones are named as such, nonsense is damage, and neither changes anything. */
START_TEST(newer_and_damaged) {
    static const uint8_t newer_version[] = {0, 0, 0, 13, 0, 6, 0, 1, 0, 0, 0, 0, 0, 0, 3, 232, 0};
    static const uint8_t newer_key[] = {0, 0, 0, 4, 0, 99, 0, 0};
    static const uint8_t key_zero[] = {0, 0, 0, 4, 0, 0, 0, 0};
    static const uint8_t left_over[] = {0, 0, 0, 14, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 3, 232, 0, 0};
    static const uint8_t short_body[] = {0, 0, 0, 12, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 3, 232};
    static const uint8_t short_length[] = {0, 0, 0, 3, 0, 6, 0};
    static const uint8_t half_head[] = {0, 0, 0};
    static const uint8_t lying_length[] = {0xff, 0xff, 0xff, 0xff, 0, 6, 0, 0};
    static const uint8_t extra_tag[] = {0, 0, 0, 16, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 3, 232, 1, 9, 1, 77};
    ck_assert_int_eq(meta_apply(m, span_of(newer_version, sizeof newer_version)), ERR_NEWER);
    ck_assert_int_eq(meta_apply(m, span_of(newer_key, sizeof newer_key)), ERR_NEWER);
    ck_assert_int_eq(meta_apply(m, span_of(key_zero, sizeof key_zero)), ERR_DAMAGED);
    ck_assert_int_eq(meta_apply(m, span_of(left_over, sizeof left_over)), ERR_DAMAGED);
    ck_assert_int_eq(meta_apply(m, span_of(short_body, sizeof short_body)), ERR_DAMAGED);
    ck_assert_int_eq(meta_apply(m, span_of(short_length, sizeof short_length)), ERR_DAMAGED);
    ck_assert_int_eq(meta_apply(m, span_of(half_head, sizeof half_head)), ERR_DAMAGED);
    ck_assert_int_eq(meta_apply(m, span_of(lying_length, sizeof lying_length)), ERR_DAMAGED);
    ck_assert_int_eq(m->producer_ids_next, 0);
    ck_assert_uint_eq(m->seen, 1);
    ck_assert_int_eq(meta_apply(m, span_of(extra_tag, sizeof extra_tag)), ERR_OK);     /* a field that may be skipped */
    ck_assert_int_eq(m->producer_ids_next, 1000);
    ck_assert_int_eq(meta_apply(m, SPAN_NULL), ERR_OK);
}
END_TEST

/* A stored setting that this version would refuse does not keep the broker from starting, and is not lost. */
START_TEST(stored_setting_of_another_version) {
    struct topicconf_entry e = {SPAN_LIT("flush.ms"), SPAN_LIT("5")};
    struct meta_create in = wish("x");
    int32_t parts;
    in.entries = &e;
    in.entries_n = 1;
    ck_assert_int_eq(meta_decide_create(m, &in, &frame, &parts, why, sizeof why), ERR_OK);
    uint8_t *at = memmem(frame.p, frame.n, "flush.ms", 8);
    memcpy(at, "flash.ms", 8);
    apply_frame(m);
    ck_assert(span_eq_str(topic("x")->entries[0].name, "flash.ms"));
    in = wish("y");
    e = (struct topicconf_entry){SPAN_LIT("segment.ms"), SPAN_LIT("5")};
    in.entries = &e;
    in.entries_n = 1;
    ck_assert_int_eq(meta_decide_create(m, &in, &frame, &parts, why, sizeof why), ERR_OK);
    at = memmem(frame.p, frame.n, "segment.ms", 10);
    at[11] = '0';                                  /* segment.ms=0 is below the least */
    apply_frame(m);
    ck_assert_int_eq(topic("y")->conf.segment_age, 604800000);
}
END_TEST

static void expect_same(const struct meta *a, const struct meta *b) {
    ck_assert(uuid_eq(a->cluster_id, b->cluster_id));
    ck_assert_int_eq(a->node_id, b->node_id);
    ck_assert_int_eq(a->producer_ids_next, b->producer_ids_next);
    ck_assert_uint_eq(a->topics_n, b->topics_n);
    ck_assert_int_eq(a->partitions_n, b->partitions_n);
    list_each(it, &a->topics) {
        const struct meta_topic *t = list_entry(it, struct meta_topic, link);
        const struct meta_topic *u = meta_topic_by_name(b, span_str(t->name));
        ck_assert_ptr_nonnull(u);
        ck_assert_ptr_eq(meta_topic_by_id(b, t->id), u);
        ck_assert_int_eq(t->parts_n, u->parts_n);
        ck_assert_mem_eq(t->parts, u->parts, (size_t)t->parts_n * sizeof t->parts[0]);
        ck_assert_uint_eq(t->entries_n, u->entries_n);
        for (size_t i = 0; i < t->entries_n; i++) {
            ck_assert(span_eq(t->entries[i].name, u->entries[i].name) && span_eq(t->entries[i].value, u->entries[i].value));
        }
        ck_assert_mem_eq(&t->conf, &u->conf, sizeof t->conf);
        ck_assert_int_eq(t->internal, u->internal);
    }
}

/* One snapshot frame restores everything; written again it is the same bytes. */
static void expect_round_trip(const struct meta *from) {
    struct str a, b;
    struct meta *copy = empty();
    str_init(&a, SIZE_MAX);
    str_init(&b, SIZE_MAX);
    ck_assert_int_eq(meta_snapshot(from, &a), ERR_OK);
    ck_assert_int_eq(meta_apply(copy, str_span(&a)), ERR_OK);
    expect_same(from, copy);
    expect_same(copy, from);
    ck_assert_int_eq(meta_snapshot(copy, &b), ERR_OK);
    ck_assert(span_eq(str_span(&a), str_span(&b)));
    str_done(&a);
    str_done(&b);
    meta_free(copy);
}

START_TEST(snapshot_of_nothing) {
    struct meta *x = empty();
    struct str s;
    str_init(&s, 100);
    ck_assert_int_eq(meta_snapshot(x, &s), ERR_OK);
    ck_assert_uint_eq(s.n, 0);
    meta_free(x);
    expect_round_trip(m);
}
END_TEST

START_TEST(snapshot_of_many_epochs) {
    struct meta_create in = wish("wide");
    in.partitions = 20000;
    create(in);
    for (int32_t i = 0; i < 20000; i += 2) {
        ck_assert_int_eq(meta_decide_epoch(m, topic("wide"), i, &frame), ERR_OK);
        apply_frame(m);
    }
    expect_round_trip(m);
}
END_TEST

/* ---- model ---- */

#define TWIN_MAX 40
struct twin_topic {
    bool there;
    char name[24];
    uuid id;
    int32_t parts, epoch0;
};
static struct twin_topic twin[TWIN_MAX];

static struct twin_topic *twin_of(const char *name) {
    for (int i = 0; i < TWIN_MAX; i++) {
        if (twin[i].there && strcmp(twin[i].name, name) == 0) {
            return &twin[i];
        }
    }
    return NULL;
}

static bool twin_collides(const char *name) {
    for (int i = 0; i < TWIN_MAX; i++) {
        bool same = twin[i].there && strlen(name) == strlen(twin[i].name);
        for (size_t k = 0; same && name[k] != '\0'; k++) {
            same = name[k] == twin[i].name[k] || (strchr("._", name[k]) != NULL && strchr("._", twin[i].name[k]) != NULL);
        }
        if (same) {
            return true;
        }
    }
    return false;
}

static void twin_create(struct prng *r, const char *name) {
    struct meta_create in = wish("");
    in.name = span_str(name);
    prng_bytes(r, in.id.b, sizeof in.id.b);
    in.partitions = (int32_t)prng_below(r, 6) - 1;
    int32_t parts = 0;
    err want = twin_of(name) != NULL ? ERR_TOPIC_EXISTS : twin_collides(name) ? ERR_BAD_TOPIC : in.partitions == 0 ? ERR_BAD_PARTITIONS : ERR_OK;
    err got = meta_decide_create(m, &in, &frame, &parts, why, sizeof why);
    ck_assert_msg(want == got, "%s: want %s got %s", name, err_name(want), err_name(got));
    if (got == ERR_OK) {
        apply_frame(m);
        for (int i = 0; i < TWIN_MAX; i++) {
            if (!twin[i].there) {
                twin[i] = (struct twin_topic){.there = true, .id = in.id, .parts = parts, .epoch0 = 0};
                snprintf(twin[i].name, sizeof twin[i].name, "%s", name);
                return;
            }
        }
        ck_abort_msg("twin is full");
    }
}

static void twin_compare(void) {
    size_t n = 0;
    int64_t parts = 0;
    for (int i = 0; i < TWIN_MAX; i++) {
        if (twin[i].there) {
            const struct meta_topic *t = meta_topic_by_id(m, twin[i].id);
            ck_assert_ptr_nonnull(t);
            ck_assert_str_eq(t->name, twin[i].name);
            ck_assert_int_eq(t->parts_n, twin[i].parts);
            ck_assert_int_eq(t->parts[0].leader_epoch, twin[i].epoch0);
            n++;
            parts += twin[i].parts;
        }
    }
    ck_assert_uint_eq(m->topics_n, n);
    ck_assert_int_eq(m->partitions_n, parts);
}

START_TEST(meta_model) {
    struct prng r;
    prng_seed(&r, (uint64_t)_i);
    memset(twin, 0, sizeof twin);
    int64_t ids = 0;
    for (int step = 0; step < 4000; step++) {
        char name[4] = {"ab"[prng_below(&r, 2)], "._-x"[prng_below(&r, 4)], "ab._"[prng_below(&r, 4)], 0};
        struct twin_topic *t = twin_of(name);
        ck_assert_int_eq(t != NULL, topic(name) != NULL);
        switch (prng_below(&r, 4)) {
        case 0:
        case 1:
            twin_create(&r, name);
            break;
        case 2:
            if (t != NULL) {
                ck_assert_int_eq(meta_decide_delete(m, topic(name), &frame), ERR_OK);
                apply_frame(m);
                t->there = false;
            }
            break;
        default:
            if (t != NULL) {
                ck_assert_int_eq(meta_decide_epoch(m, topic(name), 0, &frame), ERR_OK);
                t->epoch0++;
            } else {
                ck_assert_int_eq(meta_decide_producer_block(m, 10, &frame), ERR_OK);
                ids += 10;
            }
            apply_frame(m);
        }
        ck_assert_int_eq(m->producer_ids_next, ids);
        if (step % 50 == 0) {
            twin_compare();
            expect_round_trip(m);
        }
    }
}
END_TEST

/* ---- hostile ---- */

/* Any bytes: an answer, never a crash, and the copy stays whole (sanitizers watch). */
START_TEST(hostile_frames) {
    struct prng r;
    struct str good;
    prng_seed(&r, (uint64_t)_i);
    str_init(&good, SIZE_MAX);
    struct topicconf_entry e[] = {{SPAN_LIT("segment.bytes"), SPAN_LIT("1MiB")}, {SPAN_LIT("cleanup.policy"), SPAN_LIT("compact")}};
    for (int i = 0; i < 4; i++) {
        char name[24];
        snprintf(name, sizeof name, "t%d", i);
        struct meta_create in = wish(name);
        in.entries = e;
        in.entries_n = 2;
        create(in);
    }
    ck_assert_int_eq(meta_decide_epoch(m, topic("t1"), 1, &frame), ERR_OK);
    apply_frame(m);
    ck_assert_int_eq(meta_snapshot(m, &good), ERR_OK);
    uint8_t *bytes = mem_alloc(MEM_TEST, good.n);
    int taken = 0, refusals = 0;
    for (int round = 0; round < 3000; round++) {
        memcpy(bytes, good.p, good.n);
        size_t n = prng_chance(&r, 1, 4) ? prng_below(&r, good.n + 1) : good.n;
        for (uint64_t i = prng_below(&r, 4); i > 0; i--) {
            bytes[prng_below(&r, good.n)] = (uint8_t)(prng_chance(&r, 1, 2) ? prng_next(&r) : prng_below(&r, 3) * 127);
        }
        struct meta *x = empty();
        err er = meta_apply(x, span_of(bytes, n));
        ck_assert(er == ERR_OK || er == ERR_DAMAGED || er == ERR_NEWER || er == ERR_NOMEM);
        er == ERR_OK ? taken++ : refusals++;
        expect_round_trip(x);
        meta_free(x);
    }
    ck_assert_int_gt(taken, 50);
    ck_assert_int_gt(refusals, 500);
    mem_free(bytes);
    str_done(&good);
}
END_TEST

/* Every allocation fails in turn: NOMEM and nothing done, or done. */
START_TEST(torture) {
    struct topicconf_entry e = {SPAN_LIT("segment.bytes"), SPAN_LIT("1MiB")};
    int failed = 0;
    for (uint64_t nth = 1; nth < 40; nth++) {
        struct meta *x = empty();
        struct meta *keep = m;
        ck_assert_int_eq(meta_decide_format(id_of(9), NODE, &frame), ERR_OK);
        apply_frame(x);
        m = x;
        struct meta_create in = wish("x");
        in.entries = &e;
        in.entries_n = 1;
        int32_t parts;
        mem_fail_nth(nth);
        err er = meta_decide_create(m, &in, &frame, &parts, why, sizeof why);
        if (er == ERR_OK) {
            er = meta_apply(m, str_span(&frame));
        }
        mem_fail_nth(0);
        ck_assert(er == ERR_OK || er == ERR_NOMEM || er == ERR_LIMIT);
        ck_assert_int_eq(er == ERR_OK, topic("x") != NULL);
        failed += er != ERR_OK;
        str_done(&frame);
        str_init(&frame, LIMIT_META_RECORD_BYTES);
        m = keep;
        meta_free(x);
    }
    ck_assert_int_gt(failed, 3);
}
END_TEST

int main(void) {
    Suite *s = suite_create("meta");
    TCase *t = tcase_create("meta");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, valid_names);
    tcase_add_test(t, names_collide);
    tcase_add_test(t, name_exists);
    tcase_add_test(t, reserved_names);
    tcase_add_test(t, counts);
    tcase_add_test(t, manual_assignment);
    tcase_add_test(t, settings_refused);
    tcase_add_test(t, settings_kept);
    tcase_add_test(t, decide_is_read_only);
    tcase_add_test(t, delete_and_create_again);
    tcase_add_test(t, limits);
    tcase_add_test(t, setting_too_long_to_store);
    tcase_add_test(t, leader_epochs);
    tcase_add_test(t, producer_blocks);
    tcase_add_test(t, format_is_the_identity);
    tcase_add_test(t, shards_are_told);
    tcase_add_test(t, sorted_names);
    tcase_add_test(t, stored_bytes);
    tcase_add_test(t, newer_and_damaged);
    tcase_add_test(t, stored_setting_of_another_version);
    tcase_add_test(t, snapshot_of_nothing);
    tcase_add_test(t, snapshot_of_many_epochs);
    tcase_add_loop_test(t, meta_model, 0, 4);
    tcase_add_loop_test(t, hostile_frames, 0, 4);
    tcase_add_test(t, torture);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
