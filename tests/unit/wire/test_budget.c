/* Goal: the hot path of the messages costs what it should: no allocation in a steady state
 * (asserted), and microseconds for a hundred partitions (printed, not asserted). Method: a
 * produce request and its answer, a fetch answer, over and over on one arena pool. */
#include <stdio.h>
#include <time.h>

#include "base/mem.h"
#include "base/run.h"
#include "wire/k_fetch.h"
#include "wire/k_produce.h"
#include "wire/record.h"

enum { PARTS = 100, ROUNDS = 2000 };

static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static struct arena_pool pool;

/* Run `once` often; print microseconds, demand no allocation after the first round. */
static void measure(const char *what, void (*once)(struct arena *a)) {
    struct arena a;
    arena_init(&a, &pool, 4 << 20);
    once(&a);
    arena_done(&a);
    uint64_t calls = mem_calls();
    double began = now_us();
    for (int i = 0; i < ROUNDS; i++) {
        once(&a);
        arena_done(&a);
    }
    double us = (now_us() - began) / ROUNDS;
    ck_assert_uint_eq(mem_calls() - calls, 0);
    printf("%-40s %7.2f us\n", what, us);
}

static uint8_t request[64 << 10];
static size_t request_n;
static struct k_produce_resp_topic_part answers[PARTS];
static struct k_fetch_resp_topic_part fetched[PARTS];
static uint8_t records[4096];
static span batch;

static void decode_produce(struct arena *a) {
    struct rd r;
    struct k_produce_req m;
    rd_init(&r, span_of(request, request_n), a);
    ck_assert_int_eq(k_produce_req_get(&m, &r, 9), ERR_OK);
    ck_assert_int_eq(m.topics[0].partitions_n, PARTS);
}

static void encode_produce(struct arena *a) {
    struct k_produce_resp_topic topic;
    struct k_produce_resp m;
    k_produce_resp_topic_init(&topic);
    k_produce_resp_init(&m);
    topic.name = SPAN_LIT("topic");
    topic.partitions = answers;
    topic.partitions_n = PARTS;
    m.topics = &topic;
    m.topics_n = 1;
    struct chain c;
    chain_init(&c, a);
    struct wr w = wr_to(&c);
    k_produce_resp_put(&m, &w, 9);
    ck_assert(chain_ok(&c));
    chain_done(&c);
}

static void encode_fetch(struct arena *a) {
    struct k_fetch_resp_topic topic;
    struct k_fetch_resp m;
    struct chain pieces[PARTS];
    k_fetch_resp_topic_init(&topic);
    k_fetch_resp_init(&m);
    for (int i = 0; i < PARTS; i++) {
        chain_init(&pieces[i], a);
        chain_lend(&pieces[i], span_of(records, sizeof records), NULL);
        fetched[i].records_chain = &pieces[i];
    }
    topic.partitions = fetched;
    topic.partitions_n = PARTS;
    m.topics = &topic;
    m.topics_n = 1;
    struct chain c;
    chain_init(&c, a);
    struct wr w = wr_to(&c);
    k_fetch_resp_put(&m, &w, 12);
    ck_assert(chain_ok(&c));
    chain_done(&c);
}

static void check_batch(struct arena *a) {
    (void)a;                                     /* nothing is unpacked */
    struct batch_head h;
    const char *text;
    ck_assert_int_eq(batch_check_produced(batch, &h, &text), ERR_OK);
}

static void prepare(struct arena *a) {
    struct k_produce_req_topic_part parts[PARTS];
    struct k_produce_req_topic topic;
    struct k_produce_req m;
    for (int i = 0; i < PARTS; i++) {
        k_produce_req_topic_part_init(&parts[i]);
        k_produce_resp_topic_part_init(&answers[i]);
        k_fetch_resp_topic_part_init(&fetched[i]);
        parts[i].index = answers[i].index = fetched[i].partition = i;
        parts[i].records = span_of(records, 100);
    }
    k_produce_req_topic_init(&topic);
    k_produce_req_init(&m);
    topic.name = SPAN_LIT("topic");
    topic.partitions = parts;
    topic.partitions_n = PARTS;
    m.topics = &topic;
    m.topics_n = 1;
    struct chain c;
    chain_init(&c, a);
    struct wr w = wr_to(&c);
    k_produce_req_put(&m, &w, 9);
    ck_assert_uint_le(c.bytes, sizeof request);
    chain_flatten(&c, request);
    request_n = c.bytes;
    struct record_build b;
    record_build_init(&b, a, CODEC_NONE);
    for (int i = 0; i < 100; i++) {
        record_build_add(&b, 1700000000000 + i, SPAN_LIT("key"), span_of(records, 100), NULL, 0);
    }
    ck_assert_int_eq(record_build_finish(&b, &batch), ERR_OK);
}

START_TEST(steady_state_allocates_nothing) {
    struct arena a;
    arena_pool_init(&pool, 1 << 20);
    arena_init(&a, NULL, 4 << 20);
    prepare(&a);
    measure("decode a produce of 100 partitions", decode_produce);
    measure("encode its answer", encode_produce);
    measure("encode a fetch answer of 100 partitions", encode_fetch);
    measure("check a batch of 100 records", check_batch);
    arena_done(&a);
    arena_pool_done(&pool);
}
END_TEST

int main(void) {
    return RUN("budget", steady_state_allocates_nothing);
}
