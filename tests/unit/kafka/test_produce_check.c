/* Goal: what a topic demands of each record holds for compressed batches too, the answer lists the records at fault, and a bomb is refused in
 * little memory (S5.10, S5.11, S5.13-5.15, S5.17, T54, T55).
 * Method: a whole broker on the simulated machine; batches built record by record with every codec, with headers that lie, sent to topics
 * with and without such demands; the log's end tells whether anything was stored. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/run.h"
#include "say.h"
#include "wire/zip.h"

#define CODECS (CODEC_ZSTD + 1)
#define HOUR ((ms)3600 * 1000)
#define PLAIN ((struct say_to){"plain", 0})
#define COMPACT ((struct say_to){"compact", 0})
#define OLD ((struct say_to){"old", 0})                  /* message.timestamp.before.max.ms: an hour */
#define AHEAD ((struct say_to){"ahead", 0})              /* message.timestamp.after.max.ms: a minute */
#define BROKER_TIME ((struct say_to){"broker-time", 0})

static struct rig r;
static struct say *s;
static ms now;

static void start(void) {
    rig_init(&r, 7, 1);
    rig_start(&r);
    s = say_open(&r);
    ck_assert_int_eq(say_create(s, "plain", 1), 0);
    ck_assert_int_eq(say_create_with(s, "compact", "cleanup.policy", "compact"), 0);
    ck_assert_int_eq(say_create_with(s, "old", "message.timestamp.before.max.ms", "3600000"), 0);
    ck_assert_int_eq(say_create_with(s, "ahead", "message.timestamp.after.max.ms", "60000"), 0);
    ck_assert_int_eq(say_create_with(s, "broker-time", "message.timestamp.type", "LogAppendTime"), 0);
    say_produce(s, BROKER_TIME, -1, say_batch(s, &(struct say_batch){0}));
    now = say_produced(s)->log_append_ms;
    ck_assert_int_gt(now, HOUR * 24);
}

static void finish(void) {
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}

struct item {
    const char *key;                   /* NULL: none */
    ms ts;
};

static span build(const struct item *v, size_t n, enum batch_codec codec) {
    struct record_build b;
    span batch;
    record_build_init(&b, &s->arena, codec);
    for (size_t i = 0; i < n; i++) {
        record_build_add(&b, v[i].ts, span_str(v[i].key), SPAN_LIT("value"), NULL, 0);
    }
    ck_assert_int_eq(record_build_finish(&b, &batch), ERR_OK);
    return batch;
}

/* These bytes behind that header. */
static span wrap(span body, enum batch_codec codec, struct batch_head h) {
    uint8_t *p = arena_alloc(&s->arena, BATCH_HEAD_BYTES + body.n);
    memcpy(p + BATCH_HEAD_BYTES, body.p, body.n);
    h.length = (int32_t)(BATCH_HEAD_BYTES + body.n) - BATCH_OVERHEAD_BYTES;
    h.attributes = (int16_t)((h.attributes & ~BATCH_ATTR_CODEC) | (int16_t)codec);
    batch_head_put(p, &h);
    return span_of(p, BATCH_HEAD_BYTES + body.n);
}

static span body_of(span batch) { return span_of(batch.p + BATCH_HEAD_BYTES, batch.n - BATCH_HEAD_BYTES); }

static struct batch_head head_of(span batch) {
    struct batch_head h;
    ck_assert_int_eq(batch_head_get(batch, &h), ERR_OK);
    return h;
}

static span pack(span records, enum batch_codec codec) {
    span packed;
    ck_assert_int_eq(zip_pack(codec, records, &s->arena, &packed), ERR_OK);
    return packed;
}

static const struct k_produce_resp_topic_part *ask(struct say_to to, span batch) {
    say_produce(s, to, -1, batch);
    return say_produced(s);
}

static void stored(struct say_to to, span batch) {
    int64_t before = say_latest(s, to);
    int32_t count = head_of(batch).count;
    const struct k_produce_resp_topic_part *p = ask(to, batch);
    ck_assert_int_eq(p->error_code, 0);
    ck_assert_int_eq(p->base_offset, before);
    ck_assert_int_eq(p->record_errors_n, 0);
    ck_assert_int_eq(say_latest(s, to), before + count);
}

/* Refused with this code, these records are listed, nothing is stored. */
static const struct k_produce_resp_topic_part *refused(struct say_to to, span batch, int16_t code, const char *listed) {
    int64_t before = say_latest(s, to);
    const struct k_produce_resp_topic_part *p = ask(to, batch);
    char list[200] = "";
    size_t at = 0;
    ck_assert_int_eq(p->error_code, code);
    ck_assert_int_eq(p->base_offset, -1);
    ck_assert_uint_gt(p->error_message.n, 0);
    for (int32_t i = 0; i < p->record_errors_n && at < 150; i++) {
        at += (size_t)snprintf(list + at, sizeof list - at, i > 0 ? " %d" : "%d", p->record_errors[i].batch_index);
        ck_assert_uint_gt(p->record_errors[i].message.n, 0);
    }
    if (listed) {
        ck_assert_str_eq(list, listed);
    }
    ck_assert_int_eq(say_latest(s, to), before);
    return p;
}

#define BUILD(codec, ...) build((const struct item[]){__VA_ARGS__}, sizeof((const struct item[]){__VA_ARGS__}) / sizeof(struct item), codec)

/* ---- keys */

START_TEST(S5_15_every_record_without_a_key_is_listed) {
    enum batch_codec codec = (enum batch_codec)_i;
    refused(COMPACT, BUILD(codec, {"k", now}, {NULL, now}, {"k", now}, {NULL, now}), 87, "1 3");
    refused(COMPACT, BUILD(codec, {NULL, now}), 87, "0");
    stored(COMPACT, BUILD(codec, {"k", now}, {"", now}));                /* an empty key is a key */
    stored(PLAIN, BUILD(codec, {"k", now}, {NULL, now}));
}
END_TEST

static span keyless(int32_t n, enum batch_codec codec) {
    struct item *v = arena_zalloc(&s->arena, (size_t)n * sizeof *v);
    for (int32_t i = 0; i < n; i++) {
        v[i] = (struct item){NULL, now};
    }
    return build(v, (size_t)n, codec);
}

START_TEST(S5_15_the_list_is_bounded) {
    enum batch_codec codec = (enum batch_codec)_i;
    ck_assert_int_eq(LIMIT_RECORD_ERRORS, 1000);
    const struct k_produce_resp_topic_part *p = refused(COMPACT, keyless(3000, codec), 87, NULL);
    ck_assert_int_eq(p->record_errors_n, 1000);
    for (int32_t i = 0; i < 1000; i++) {
        ck_assert_int_eq(p->record_errors[i].batch_index, i);
    }
    /* All partitions of an answer together. */
    struct k_produce_req *q = (struct k_produce_req *)(uintptr_t)say_produce_req(s, COMPACT, -1, keyless(700, codec));
    struct k_produce_req_topic_part three[3] = {q->topics[0].partitions[0], q->topics[0].partitions[0], q->topics[0].partitions[0]};
    q->topics[0].partitions = three;
    q->topics[0].partitions_n = 3;
    const struct k_produce_resp *a = say_ask(s, K_PRODUCE, 9, q);
    static const int32_t want[] = {700, 300, 0};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(a->topics[0].partitions[i].error_code, 87);
        ck_assert_int_eq(a->topics[0].partitions[i].record_errors_n, want[i]);
    }
}
END_TEST

START_TEST(S5_15_broker_time_does_not_excuse_from_keys) {
    struct k_create_topics_req q;
    struct k_create_topics_req_topic t;
    struct k_create_topics_req_topic_config c[2];
    k_create_topics_req_init(&q);
    k_create_topics_req_topic_init(&t);
    for (int i = 0; i < 2; i++) {
        k_create_topics_req_topic_config_init(&c[i]);
    }
    c[0].name = SPAN_LIT("cleanup.policy");
    c[0].value = SPAN_LIT("compact");
    c[1].name = SPAN_LIT("message.timestamp.type");
    c[1].value = SPAN_LIT("LogAppendTime");
    t.name = SPAN_LIT("both");
    t.partitions = 1;
    t.replication_factor = 1;
    t.configs = c;
    t.configs_n = 2;
    q.topics = &t;
    q.topics_n = 1;
    q.timeout_ms = 30000;
    say_send(s, K_CREATE_TOPICS, 7, &q);
    ck_assert_int_eq(say_created(s), 0);
    struct say_to both = {"both", 0};
    refused(both, BUILD((enum batch_codec)_i, {"k", 5}, {NULL, INT64_MAX}), 87, "1");
    stored(both, BUILD((enum batch_codec)_i, {"k", 5}, {"k", INT64_MAX}));
}
END_TEST

/* ---- counts and deltas */

/* Three records with these offset deltas, uncompressed. */
static span records_with(int32_t a, int32_t b, int32_t c) {
    const int32_t delta[] = {a, b, c};
    uint8_t *p = arena_alloc(&s->arena, 3 * 9), *at = p;
    for (int i = 0; i < 3; i++, at += 9) {
        memcpy(at, (const uint8_t[]){16, 0, 0, 0, 2, 'k', 2, 'v', 0}, 9);
        at[3] = (uint8_t)(delta[i] << 1);
    }
    return span_of(p, 27);
}

START_TEST(S5_10_T54_counts_and_deltas_inside_a_compressed_batch) {
    enum batch_codec codec = (enum batch_codec)_i;
    struct batch_head h = {.last_offset_delta = 2, .count = 3, .max_ts_ms = now, .base_ts_ms = now, .producer_id = -1, .producer_epoch = -1, .base_sequence = -1};
    struct batch_head four = h, two = h;
    four.count = 4, four.last_offset_delta = 3;
    two.count = 2, two.last_offset_delta = 1;
    span good = pack(records_with(0, 1, 2), codec), gap = pack(records_with(0, 1, 1), codec), swapped = pack(records_with(1, 0, 2), codec);
    span cut = records_with(0, 1, 2);
    stored(COMPACT, wrap(good, codec, h));
    refused(COMPACT, wrap(good, codec, four), 87, "");
    refused(COMPACT, wrap(good, codec, two), 87, "");
    refused(COMPACT, wrap(gap, codec, h), 87, "");
    refused(COMPACT, wrap(swapped, codec, h), 87, "");
    refused(COMPACT, wrap(pack(span_of(cut.p, cut.n - 1), codec), codec, h), 87, "");
    refused(COMPACT, wrap(pack(span_of(cut.p, 0), codec), codec, h), 87, "");
    stored(PLAIN, wrap(good, codec, four));        /* the header's word is taken where nothing depends on the records */
}
END_TEST

START_TEST(S5_17_T54_packed_nonsense_on_a_compacted_topic) {
    enum batch_codec codec = (enum batch_codec)_i;
    span batch = BUILD(codec, {"k", now}, {"k", now});
    span body = body_of(batch);
    uint8_t *noise = arena_zalloc(&s->arena, 300);
    memset(noise, 0xa5, 300);
    refused(COMPACT, wrap(span_of(noise, 300), codec, head_of(batch)), 2, "");
    refused(COMPACT, wrap(span_of(noise, 0), codec, head_of(batch)), 2, "");
    refused(COMPACT, wrap(span_of(body.p, body.n - 1), codec, head_of(batch)), 2, "");
    uint8_t *longer = arena_zalloc(&s->arena, body.n + 5);
    memcpy(longer, body.p, body.n);
    refused(COMPACT, wrap(span_of(longer, body.n + 5), codec, head_of(batch)), 2, NULL);
}
END_TEST

/* ---- times */

static span lie_max(span batch, ms max_ts) {
    batch_stamp_max_ts((uint8_t *)(uintptr_t)batch.p, batch.n, max_ts);
    return batch;
}

START_TEST(S5_14_own_limits_are_held_against_each_record) {
    enum batch_codec codec = (enum batch_codec)_i;
    stored(OLD, BUILD(codec, {NULL, now}, {NULL, -1}, {NULL, now - HOUR / 2}));
    refused(OLD, BUILD(codec, {NULL, now}, {NULL, now - 2 * HOUR}, {NULL, -1}, {NULL, 0}), 32, "1 3");
    refused(OLD, BUILD(codec, {NULL, -1}, {NULL, 0}), 32, "1");          /* -1 hides nobody behind it */
    refused(OLD, BUILD(codec, {NULL, INT64_MIN}), 32, "0");
    refused(OLD, lie_max(BUILD(codec, {NULL, now}, {NULL, now - 2 * HOUR}), now), 32, "1");
    stored(AHEAD, BUILD(codec, {NULL, now + 30000}, {NULL, 0}, {NULL, -1}));
    refused(AHEAD, BUILD(codec, {NULL, now}, {NULL, now + 10 * 60000}), 32, "1");
    refused(AHEAD, lie_max(BUILD(codec, {NULL, now}, {NULL, now + 10 * 60000}), now), 32, "1");
    refused(AHEAD, BUILD(codec, {NULL, INT64_MAX}), 32, "0");
    stored(AHEAD, lie_max(BUILD(codec, {NULL, now}), now + 10 * HOUR));  /* S5.11: the records count, not the header's word */
}
END_TEST

START_TEST(S5_14_default_limits_by_the_header_where_records_are_packed) {
    enum batch_codec codec = (enum batch_codec)_i;
    bool packed = codec != CODEC_NONE;
    stored(PLAIN, BUILD(codec, {NULL, now + HOUR / 2}, {NULL, 0}, {NULL, -1}));
    refused(PLAIN, BUILD(codec, {NULL, now}, {NULL, now + 2 * HOUR}), 32, packed ? "" : "1");
    refused(PLAIN, BUILD(codec, {NULL, INT64_MAX}), 32, packed ? "" : "0");
    stored(BROKER_TIME, BUILD(codec, {NULL, now + 2 * HOUR}));
}
END_TEST

START_TEST(S5_15_a_fault_of_time_makes_the_whole_32) {
    enum batch_codec codec = (enum batch_codec)_i;
    const struct k_produce_resp_topic_part *p = refused(COMPACT, BUILD(codec, {NULL, now}, {"k", now + 2 * HOUR}, {"k", now}, {NULL, now + 2 * HOUR}), 32, "0 1 3");
    ck_assert(span_eq(p->record_errors[0].message, p->record_errors[2].message));       /* a record has one fault: the key comes first */
    ck_assert(!span_eq(p->record_errors[0].message, p->record_errors[1].message));
    ck_assert(span_eq(p->error_message, p->record_errors[1].message));
}
END_TEST

START_TEST(S5_13_a_batch_marked_with_broker_time_lists_all_its_records) {
    span batch = BUILD((enum batch_codec)_i, {"k", now}, {"k", now}, {"k", now});
    struct batch_head h = head_of(batch);
    h.attributes |= BATCH_ATTR_LOG_APPEND_TIME;
    refused(PLAIN, wrap(body_of(batch), (enum batch_codec)_i, h), 32, "0 1 2");
    refused(COMPACT, wrap(body_of(batch), (enum batch_codec)_i, h), 32, "0 1 2");
    h.count = INT32_MAX;
    h.last_offset_delta = INT32_MAX - 1;
    if (_i != CODEC_NONE) {
        ck_assert_int_eq(refused(PLAIN, wrap(body_of(batch), (enum batch_codec)_i, h), 32, NULL)->record_errors_n, 1000);
    }
}
END_TEST

static void on_batch(void *u, const struct batch_head *h, span batch) {
    ck_assert(batch_crc_ok(batch));
    *(struct batch_head *)u = *h;
}

START_TEST(S5_11_the_largest_timestamp_is_corrected_where_records_were_seen) {
    enum batch_codec codec = (enum batch_codec)_i;
    struct batch_head h;
    span body = body_of(BUILD(codec, {"k", now - 50}, {"k", now - 10}, {"k", now - 20}));
    stored(COMPACT, lie_max(BUILD(codec, {"k", now - 50}, {"k", now - 10}, {"k", now - 20}), now + 5));
    ck_assert_int_eq(say_read_all(s, COMPACT, 0, on_batch, &h), 3);
    ck_assert_int_eq(h.max_ts_ms, now - 10);
    ck_assert_int_eq(h.base_ts_ms, now - 50);
    ck_assert_uint_eq(h.bytes, BATCH_HEAD_BYTES + body.n);
    stored(PLAIN, lie_max(BUILD(codec, {"k", now - 50}), now + 5));
    ck_assert_int_eq(say_read_all(s, PLAIN, 0, on_batch, &h), 1);
    ck_assert_int_eq(h.max_ts_ms, codec == CODEC_NONE ? now - 50 : now + 5);
}
END_TEST

/* ---- bombs */

/* A record whose value is n zeros. */
static span big_record(size_t n) {
    struct record_build b;
    span batch;
    uint8_t *zeros = arena_zalloc(&s->arena, n);
    record_build_init(&b, &s->arena, CODEC_NONE);
    record_build_add(&b, now, SPAN_LIT("k"), span_of(zeros, n), NULL, 0);
    ck_assert_int_eq(record_build_finish(&b, &batch), ERR_OK);
    return body_of(batch);
}

START_TEST(T55_a_bomb_on_a_compacted_topic_is_refused_in_little_memory) {
    enum batch_codec codec = (enum batch_codec)_i;
    struct batch_head h = {.count = 1, .max_ts_ms = now, .base_ts_ms = now, .producer_id = -1, .producer_epoch = -1, .base_sequence = -1};
    struct arena *a = &s->arena;
    say_forget(s);
    a->ceiling = (size_t)2 << 30;
    span bomb = pack(big_record((size_t)100 << 20), codec), fair = pack(big_record((size_t)15 << 20), codec);
    span zeros = pack(span_of(arena_zalloc(a, 80 << 20), 80 << 20), codec);
    ck_assert_int_eq(say_create_with(s, "bombed", "cleanup.policy", "compact"), 0);
    struct say_to bombed = {"bombed", 0};
    if (codec == CODEC_SNAPPY) {                   /* 21:1 and no more: too large for the default limit even when packed */
        refused(bombed, wrap(bomb, codec, h), 10, "");
        refused(bombed, wrap(zeros, codec, h), 10, "");
        uint8_t claim[30] = {0xff, 0xff, 0xff, 0xff, 0x0f};
        refused(bombed, wrap(span_of(claim, sizeof claim), codec, h), 2, "");
    } else {
        rig_budget(&r, rig_live(&r) + ((size_t)16 << 20));
        refused(bombed, wrap(bomb, codec, h), 87, "");
        refused(bombed, wrap(zeros, codec, h), 87, "");
        rig_budget(&r, 0);
    }
    stored(bombed, wrap(fair, codec, h));          /* a large record that packs well is no bomb */
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("produce_check");
    tcase_add_checked_fixture(tc, start, finish);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, S5_15_every_record_without_a_key_is_listed, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, S5_15_the_list_is_bounded, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, S5_15_broker_time_does_not_excuse_from_keys, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, S5_10_T54_counts_and_deltas_inside_a_compressed_batch, CODEC_GZIP, CODECS);
    tcase_add_loop_test(tc, S5_17_T54_packed_nonsense_on_a_compacted_topic, CODEC_GZIP, CODECS);
    tcase_add_loop_test(tc, S5_14_own_limits_are_held_against_each_record, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, S5_14_default_limits_by_the_header_where_records_are_packed, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, S5_15_a_fault_of_time_makes_the_whole_32, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, S5_13_a_batch_marked_with_broker_time_lists_all_its_records, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, S5_11_the_largest_timestamp_is_corrected_where_records_were_seen, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, T55_a_bomb_on_a_compacted_topic_is_refused_in_little_memory, CODEC_GZIP, CODECS);
    return run_suite("produce_check", tc);
}
