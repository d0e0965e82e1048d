/* Goal: a topic's compression.type decides how batches are stored (S5.16): records, times, order and everything of the producer stay, the CRC is right, the limit is held before and
 * after, sequences are judged as ever (S6.2, S6.3); batches that go through the worker keep their order among all others of their connection (S5.27, S1.2); memory is bounded by admission, and
 * neither a client that goes nor a broker that stops is held up.
 * Method: a whole broker on the simulated machine; every codec against every setting, read back record by record. */
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/run.h"
#include "say.h"
#include "wire/zip.h"

#define CODECS (CODEC_ZSTD + 1)

static const char *const names[CODECS] = {"uncompressed", "gzip", "snappy", "lz4", "zstd"};
static struct rig r;
static struct say *s;
static ms now;

static struct say_to at(enum batch_codec codec) { return (struct say_to){names[codec], 0}; }

static void start(void) {
    rig_init(&r, 11, 2);
    rig_start(&r);
    s = say_open(&r);
    for (int i = 0; i < CODECS; i++) {
        ck_assert_int_eq(say_create_with(s, names[i], "compression.type", names[i]), 0);
    }
    ck_assert_int_eq(say_create_with(s, "time", "message.timestamp.type", "LogAppendTime"), 0);
    say_produce(s, (struct say_to){"time", 0}, -1, say_batch(s, &(struct say_batch){0}));
    now = say_produced(s)->log_append_ms;
}

static void finish(void) {
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}

/* n records with keys, nulls, headers and times that go back and forth. */
static span build(int32_t n, enum batch_codec codec, size_t value_n, int64_t pid, int32_t seq) {
    struct record_build b;
    span batch;
    uint8_t *value = arena_zalloc(&s->arena, value_n + 1);
    const struct record_header headers[] = {{SPAN_LIT("h"), SPAN_LIT("1")}, {SPAN_LIT("h"), SPAN_NULL}};
    record_build_init(&b, &s->arena, codec);
    if (pid >= 0) {
        b.producer_id = pid;
        b.producer_epoch = 3;
        b.base_sequence = seq;
    }
    for (int32_t i = 0; i < n; i++) {
        for (size_t k = 0; k < value_n; k++) {
            value[k] = (uint8_t)((size_t)i * 7 + k / 5);
        }
        record_build_add(&b, now - (i % 3) * 10, i % 4 == 0 ? SPAN_NULL : span_of(value, 4 < value_n ? 4 : value_n), i % 5 == 1 ? SPAN_NULL : span_of(value, value_n), headers,
                         (size_t)i % 3);
    }
    ck_assert_int_eq(record_build_finish(&b, &batch), ERR_OK);
    return batch;
}

struct got {
    struct batch_head h;
    span batch;
    int n;
};

static void on_batch(void *u, const struct batch_head *h, span batch) {
    struct got *g = u;
    ck_assert(batch_crc_ok(batch));
    g->h = *h;
    g->batch = arena_copy(&s->arena, batch);
    g->n++;
}

static struct got last(struct say_to to, int64_t from) {
    struct got g = {.n = 0};
    (void)say_read_all(s, to, from, on_batch, &g);
    return g;
}

static void same_records(span a, span b, int64_t base) {
    struct record_walk x, y;
    struct record p, q;
    ck_assert_int_eq(record_walk_init(&x, a, &s->arena, 64 << 20), ERR_OK);
    ck_assert_int_eq(record_walk_init(&y, b, &s->arena, 64 << 20), ERR_OK);
    while (record_walk_next(&x, &p)) {
        ck_assert(record_walk_next(&y, &q));
        ck_assert_int_eq(p.delta, q.delta);
        ck_assert_int_eq(q.offset, base + p.delta);
        ck_assert_int_eq(p.ts_ms, q.ts_ms);
        ck_assert(span_eq(p.key, q.key) && span_eq(p.value, q.value) && span_eq(p.headers, q.headers));
    }
    ck_assert(!x.bad && !y.bad && !record_walk_next(&y, &q));
}

START_TEST(S5_16_every_codec_becomes_the_topics) {
    enum batch_codec to = (enum batch_codec)_i;
    int64_t base = 0;
    for (int from = 0; from < CODECS; from++) {
        for (int32_t n = 1; n <= 200; n += 199) {
            span sent = build(n, (enum batch_codec)from, 50, 900 + from, n == 1 ? 0 : 1);
            struct batch_head h;
            ck_assert_int_eq(batch_head_get(sent, &h), ERR_OK);
            say_produce(s, at(to), -1, sent);
            const struct k_produce_resp_topic_part *p = say_produced(s);
            ck_assert_int_eq(p->error_code, 0);
            ck_assert_int_eq(p->base_offset, base);
            struct got g = last(at(to), base);
            ck_assert_int_eq(batch_codec(&g.h), to);
            ck_assert_int_eq(g.h.base_offset, base);
            ck_assert_int_eq(g.h.count, h.count);
            ck_assert_int_eq(g.h.last_offset_delta, h.last_offset_delta);
            ck_assert_int_eq(g.h.base_ts_ms, h.base_ts_ms);
            ck_assert_int_eq(g.h.max_ts_ms, h.max_ts_ms);
            ck_assert_int_eq(g.h.producer_id, h.producer_id);
            ck_assert_int_eq(g.h.producer_epoch, h.producer_epoch);
            ck_assert_int_eq(g.h.base_sequence, h.base_sequence);
            ck_assert_int_eq(g.h.attributes & ~BATCH_ATTR_CODEC, h.attributes & ~BATCH_ATTR_CODEC);
            same_records(sent, g.batch, base);
            if ((int)to == from) {                 /* as it was sent, to the byte */
                ck_assert_uint_eq(g.batch.n, sent.n);
                ck_assert_int_eq(memcmp(g.batch.p + 16, sent.p + 16, sent.n - 16), 0);
            }
            base += n;
        }
    }
}
END_TEST

START_TEST(S6_2_S6_3_sequences_are_judged_as_ever) {
    enum batch_codec to = (enum batch_codec)_i, from = to == CODEC_ZSTD ? CODEC_GZIP : CODEC_ZSTD;
    span first = build(3, from, 20, 77, 0), second = build(2, from, 20, 77, 3);
    int64_t end = say_latest(s, at(to));
    for (int i = 0; i < 2; i++) {                  /* the second time: a duplicate, answered with the first offset */
        say_produce(s, at(to), -1, first);
        ck_assert_int_eq(say_produced(s)->base_offset, end);
    }
    say_produce(s, at(to), -1, build(2, from, 20, 77, 4));
    ck_assert_int_eq(say_produced(s)->error_code, 45);
    say_produce(s, at(to), -1, second);
    ck_assert_int_eq(say_produced(s)->base_offset, end + 3);
    ck_assert_int_eq(say_latest(s, at(to)), end + 5);
}
END_TEST

/* What is packed anew goes another way than what is stored as it came; a client that sends without waiting must not see them change places. */
START_TEST(S5_27_order_is_kept_among_batches_that_go_different_ways) {
    enum { N = 40 };
    static const enum batch_codec turns[] = {CODEC_GZIP, CODEC_ZSTD, CODEC_NONE, CODEC_ZSTD, CODEC_ZSTD, CODEC_LZ4};
    int32_t seq = 0;
    for (int i = 0; i < N; i++) {
        say_produce(s, at(CODEC_ZSTD), i % 7 == 3 ? 1 : -1, build(2, turns[i % 6], i % 5 == 0 ? 20000 : 10, 55, seq));
        seq += 2;
    }
    for (int i = 0; i < N; i++) {
        const struct k_produce_resp_topic_part *p = say_produced(s);
        ck_assert_int_eq(p->error_code, 0);        /* an idempotent producer's, so a gap would be 45 */
        ck_assert_int_eq(p->base_offset, 2 * i);
    }
}
END_TEST

/* A request whose partitions go both ways, one of them refused, one unknown, and several times the same. */
START_TEST(S5_21_S5_22_S5_27_partitions_of_one_request) {
    ck_assert_int_eq(say_create(s, "plain", 2), 0);
    struct k_produce_req *q = (struct k_produce_req *)(uintptr_t)say_produce_req(s, at(CODEC_LZ4), -1, SPAN_NULL);
    span bad = build(3, CODEC_GZIP, 30, -1, 0);
    ((uint8_t *)(uintptr_t)bad.p)[bad.n - 1] ^= 1;
    struct k_produce_req_topic_part packed[] = {{.index = 0, .records = build(3, CODEC_GZIP, 30, -1, 0)}, {.index = 0, .records = build(2, CODEC_LZ4, 30, -1, 0)}, {.index = 0, .records = bad}, {.index = 5, .records = build(1, CODEC_GZIP, 30, -1, 0)},
                                                {.index = 0, .records = build(4, CODEC_NONE, 30, -1, 0)}};
    struct k_produce_req_topic_part plain[] = {{.index = 1, .records = build(3, CODEC_GZIP, 30, -1, 0)}, {.index = 0, .records = build(1, CODEC_NONE, 30, -1, 0)}};
    struct k_produce_req_topic topics[] = {{.name = SPAN_LIT("lz4"), .partitions = packed, .partitions_n = 5}, {.name = SPAN_LIT("plain"), .partitions = plain, .partitions_n = 2}};
    q->topics = topics;
    q->topics_n = 2;
    const struct k_produce_resp *a = say_ask(s, K_PRODUCE, 9, q);
    static const int16_t codes[] = {0, 0, 2, 3, 0};
    static const int64_t offsets[] = {0, 3, -1, -1, 5};
    ck_assert_int_eq(a->topics_n, 2);
    ck_assert_int_eq(a->topics[0].partitions_n, 5);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(a->topics[0].partitions[i].error_code, codes[i]);
        ck_assert_int_eq(a->topics[0].partitions[i].base_offset, offsets[i]);
    }
    ck_assert_int_eq(a->topics[1].partitions[0].error_code, 0);
    ck_assert_int_eq(a->topics[1].partitions[1].error_code, 0);
    ck_assert_int_eq(say_latest(s, at(CODEC_LZ4)), 9);
}
END_TEST

static int16_t create_two(const char *name, const char *const kv[4]) {
    struct k_create_topics_req q;
    struct k_create_topics_req_topic t;
    struct k_create_topics_req_topic_config c[2];
    k_create_topics_req_init(&q);
    k_create_topics_req_topic_init(&t);
    for (int i = 0; i < 2; i++) {
        k_create_topics_req_topic_config_init(&c[i]);
        c[i].name = span_str(kv[2 * i]);
        c[i].value = span_str(kv[2 * i + 1]);
    }
    t.name = span_str(name);
    t.partitions = t.replication_factor = 1;
    t.configs = c;
    t.configs_n = 2;
    q.topics = &t;
    q.topics_n = 1;
    q.timeout_ms = 30000;
    say_send(s, K_CREATE_TOPICS, 7, &q);
    return say_created(s);
}

/* S5.8: Kafka holds the limit against the batch as it came and as it will be stored. */
START_TEST(S5_8_S5_16_the_limit_before_and_after) {
    ck_assert_int_eq(create_two("small", (const char *const[]){"compression.type", "uncompressed", "max.message.bytes", "10000"}), 0);
    struct say_to small = {"small", 0};
    span zeros = say_batch(s, &(struct say_batch){.value_n = 9000, .codec = CODEC_GZIP}), more = say_batch(s, &(struct say_batch){.value_n = 20000, .codec = CODEC_GZIP});
    ck_assert_uint_lt(more.n, 1000);
    say_produce(s, small, -1, zeros);
    ck_assert_int_eq(say_produced(s)->error_code, 0);
    ck_assert_uint_gt(last(small, 0).h.bytes, 9000);
    say_produce(s, small, -1, more);
    const struct k_produce_resp_topic_part *p = say_produced(s);
    ck_assert_int_eq(p->error_code, 10);
    ck_assert_int_eq(p->base_offset, -1);
    char text[200];
    ck_assert_ptr_nonnull(strstr(span_printable(p->error_message, text, sizeof text), "compression.type"));
    ck_assert_int_eq(create_two("tight", (const char *const[]){"compression.type", "gzip", "max.message.bytes", "10000"}), 0);
    say_produce(s, (struct say_to){"tight", 0}, -1, say_batch(s, &(struct say_batch){.value_n = 20000}));
    ck_assert_int_eq(say_produced(s)->error_code, 10);           /* too large as it came, however well it would pack */
    ck_assert_int_eq(say_latest(s, small), 1);
    ck_assert_int_eq(say_latest(s, (struct say_to){"tight", 0}), 0);
}
END_TEST

START_TEST(S5_12_S5_16_broker_time_and_another_codec) {
    ck_assert_int_eq(create_two("both", (const char *const[]){"compression.type", "lz4", "message.timestamp.type", "LogAppendTime"}), 0);
    struct say_to both = {"both", 0};
    say_produce(s, both, -1, build(5, CODEC_GZIP, 30, -1, 0));
    int64_t told = say_produced(s)->log_append_ms;
    ck_assert_int_ge(told, now);
    struct got g = last(both, 0);
    ck_assert_int_eq(batch_codec(&g.h), CODEC_LZ4);
    ck_assert(g.h.attributes & BATCH_ATTR_LOG_APPEND_TIME);
    ck_assert_int_eq(g.h.max_ts_ms, told);
    ck_assert_int_eq(g.h.count, 5);
}
END_TEST

START_TEST(S5_15_S5_16_keys_are_needed_and_the_codec_changes) {
    ck_assert_int_eq(create_two("keys", (const char *const[]){"compression.type", "zstd", "cleanup.policy", "compact"}), 0);
    struct say_to keys = {"keys", 0};
    for (int from = 0; from < CODECS; from++) {
        say_produce(s, keys, -1, build(6, (enum batch_codec)from, 30, -1, 0));
        const struct k_produce_resp_topic_part *p = say_produced(s);
        ck_assert_int_eq(p->error_code, 87);
        ck_assert_int_eq(p->record_errors_n, 2);
        ck_assert_int_eq(p->record_errors[0].batch_index, 0);
        ck_assert_int_eq(p->record_errors[1].batch_index, 4);
    }
    ck_assert_int_eq(say_latest(s, keys), 0);
}
END_TEST

/* A batch whose header lies about its largest time: what the records have is stored. */
START_TEST(S5_11_S5_16_the_largest_time_is_that_of_the_records) {
    span lie = build(5, CODEC_GZIP, 30, -1, 0);
    batch_stamp_max_ts((uint8_t *)(uintptr_t)lie.p, lie.n, now + 1000);
    say_produce(s, at(CODEC_SNAPPY), -1, lie);
    ck_assert_int_eq(say_produced(s)->error_code, 0);
    ck_assert_int_eq(last(at(CODEC_SNAPPY), 0).h.max_ts_ms, now);
}
END_TEST

/* ---- the long way and the rest of the broker */

START_TEST(clients_that_leave_lose_nothing_that_came_whole) {
    struct say *gone = say_open(&r);
    for (int i = 0; i < 20; i++) {
        say_send_mute(gone, K_PRODUCE, 9, say_produce_req(gone, at(CODEC_GZIP), 0, build(1, CODEC_ZSTD, 5000, -1, 0)));
    }
    say_close(gone);
    rig_run(&r, 2000);
    ck_assert_int_eq(say_latest(s, at(CODEC_GZIP)), 20);
}
END_TEST

START_TEST(a_topic_goes_while_its_batch_is_with_the_worker) {
    struct say *other = say_open(&r);
    for (int i = 0; i < 10; i++) {
        span b = build(3, CODEC_GZIP, 30000, -1, 0);
        ck_assert_int_eq(say_create_with(other, "shortlived", "compression.type", "zstd"), 0);
        say_produce(s, (struct say_to){"shortlived", 0}, -1, b);
        say_produce(s, at(CODEC_ZSTD), -1, build(1, CODEC_GZIP, 10, -1, 0));
        rig_run(&r, i);
        ck_assert_int_eq(say_delete(other, "shortlived"), 0);
        int16_t code = say_produced(s)->error_code;
        ck_assert(code == 0 || code == 3);
        ck_assert_int_eq(say_produced(s)->base_offset, i);
    }
    say_close(other);
}
END_TEST

/* A stop in the middle: what is answered is stored, nothing is left over (the rig looks). */
START_TEST(a_stop_while_batches_are_with_the_worker) {
    for (int i = 0; i < 30; i++) {
        say_produce(s, at(CODEC_ZSTD), -1, build(2, CODEC_GZIP, 20000, -1, 0));
    }
    rig_run(&r, _i * 3);
    rig_stop_begin(&r);
    ck_assert_int_lt(rig_stop_wait(&r), 5000);
    int answered = 0;
    while (say_has(s)) {
        answered += say_produced(s)->error_code == 0;
    }
    say_close(s);
    rig_start(&r);
    s = say_open(&r);
    ck_assert_int_ge(say_latest(s, at(CODEC_ZSTD)), 2 * answered);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("produce_pack");
    tcase_add_checked_fixture(tc, start, finish);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, S5_16_every_codec_becomes_the_topics, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, S6_2_S6_3_sequences_are_judged_as_ever, CODEC_NONE, CODECS);
    tcase_add_test(tc, S5_27_order_is_kept_among_batches_that_go_different_ways);
    tcase_add_test(tc, S5_21_S5_22_S5_27_partitions_of_one_request);
    tcase_add_test(tc, S5_8_S5_16_the_limit_before_and_after);
    tcase_add_test(tc, S5_12_S5_16_broker_time_and_another_codec);
    tcase_add_test(tc, S5_15_S5_16_keys_are_needed_and_the_codec_changes);
    tcase_add_test(tc, S5_11_S5_16_the_largest_time_is_that_of_the_records);
    tcase_add_test(tc, clients_that_leave_lose_nothing_that_came_whole);
    tcase_add_test(tc, a_topic_goes_while_its_batch_is_with_the_worker);
    tcase_add_loop_test(tc, a_stop_while_batches_are_with_the_worker, 0, 10);
    return run_suite("produce_pack", tc);
}
