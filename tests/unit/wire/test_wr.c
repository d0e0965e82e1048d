/* Goal: what is written is what the schema says and moves no big bytes (S2.9, S2.11, S2.12,
 * S7.8; D1). Method: small messages against bytes counted by hand; the chain's nodes are looked
 * at for what was copied and what was lent. */
#include "wire/wr.h"

#include "base/mem.h"
#include "base/run.h"
#include "wire/k_fetch.h"
#include "wire/k_metadata.h"
#include "wire/k_produce.h"

#define BYTES(...) ((span){(const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})})

static struct arena arena;
static struct chain out;
static struct wr w;

static void start(void) {
    arena_init(&arena, NULL, 8 << 20);
    chain_init(&out, &arena);
    w = wr_to(&out);
}

static void finish(void) {
    chain_done(&out);
    arena_done(&arena);
}

static span flat(void) {
    uint8_t *p = arena_alloc(&arena, out.bytes);
    chain_flatten(&out, p);
    return span_of(p, out.bytes);
}

static void expect(span bytes) {
    ck_assert(chain_ok(&out));
    span got = flat();
    ck_assert_uint_eq(got.n, bytes.n);
    ck_assert_mem_eq(got.p, bytes.p, bytes.n);
}

START_TEST(S2_12_null_only_where_the_schema_has_it) {
    start();
    wr_string(&w, SPAN_NULL, false, true);
    wr_string(&w, SPAN_NULL, false, false);
    wr_string(&w, SPAN_LIT(""), false, true);
    wr_string(&w, SPAN_NULL, true, true);
    wr_string(&w, SPAN_NULL, true, false);
    wr_bytes(&w, SPAN_NULL, false, true);
    wr_bytes(&w, SPAN_LIT(""), true, true);
    wr_count(&w, -1, false, true);
    wr_count(&w, -1, false, false);
    wr_count(&w, -1, true, true);
    wr_count(&w, 0, true, true);
    wr_present(&w, false, false);
    wr_present(&w, true, false);
    wr_present(&w, false, true);
    wr_present(&w, true, true);
    expect(BYTES(0xff, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 1, 0, 1));
    finish();
}
END_TEST

START_TEST(metadata_keeps_null_apart_from_no_topics) {
    struct k_metadata_req m;
    k_metadata_req_init(&m);
    for (int n = -1; n <= 0; n++) {
        start();
        m.topics_n = n;
        k_metadata_req_put(&m, &w, 1);
        expect(n < 0 ? BYTES(0xff, 0xff, 0xff, 0xff) : BYTES(0, 0, 0, 0));
        finish();
    }
}
END_TEST

START_TEST(S2_9_a_tag_at_its_default_is_not_written) {
    struct k_produce_resp_topic_part part;
    k_produce_resp_topic_part_init(&part);
    struct k_produce_resp_topic topic;
    k_produce_resp_topic_init(&topic);
    topic.name = SPAN_LIT("t");
    topic.partitions = &part;
    topic.partitions_n = 1;
    struct k_produce_resp m;
    k_produce_resp_init(&m);
    m.topics = &topic;
    m.topics_n = 1;
    enum { HEAD = 1 + 2 + 1 + 4 + 2 + 8 + 8 + 8 + 1 + 1, TAIL = 1 + 4 + 1 };
    for (int led = 0; led <= 1; led++) {
        start();
        part.current_leader.leader_epoch = led ? 5 : -1;
        k_produce_resp_put(&m, &w, 10);
        span got = flat();
        ck_assert_uint_eq(got.n, HEAD + 1 + (led ? 2 + 9 : 0) + TAIL);
        span tags = span_of(got.p + HEAD, got.n - HEAD - TAIL);
        ck_assert(span_eq(tags, led ? BYTES(1, 0, 9, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 5, 0) : BYTES(0)));
        finish();
    }
}
END_TEST

START_TEST(S2_9_tags_ascend_with_unknown_ones_between) {
    struct rd_unknown nine = {NULL, 9, SPAN_LIT("9")}, one = {&nine, 1, SPAN_LIT("one")};
    struct k_fetch_req m;
    k_fetch_req_init(&m);
    m.cluster_id = SPAN_LIT("c");                /* tag 0 */
    m.unknown = &one;
    start();
    k_fetch_req_put(&m, &w, 12);
    span got = flat();
    span want = BYTES(3, 0, 2, 2, 'c', 1, 3, 'o', 'n', 'e', 9, 1, '9');
    ck_assert(span_eq(span_of(got.p + got.n - want.n, want.n), want));
    finish();
    one.tag = 4;                                 /* behind the known tag 1 of version 15 */
    m.replica_state.replica_epoch = 3;
    start();
    k_fetch_req_put(&m, &w, 15);
    got = flat();
    want = BYTES(4, 0, 2, 2, 'c', 1, 13, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 3, 0, 4, 3, 'o', 'n', 'e', 9, 1, '9');
    ck_assert(span_eq(span_of(got.p + got.n - want.n, want.n), want));
    finish();
}
END_TEST

START_TEST(small_bytes_are_copied_and_big_ones_lent) {
    static uint8_t big[4096];
    start();
    wr_bytes(&w, span_of(big, WR_LEND_MIN - 1), false, false);
    ck_assert_uint_eq(out.nodes, 1);
    wr_bytes(&w, span_of(big, WR_LEND_MIN), false, false);
    ck_assert_uint_eq(out.nodes, 2);
    ck_assert_ptr_eq(out.tail->p, big);
    wr_string(&w, span_of(big, 1000), false, false);     /* names outlive their frame: they are copied at any length */
    ck_assert_ptr_ne(out.tail->p, big);
    ck_assert_uint_eq(out.bytes, 4 + 128 + 4 + 129 + 2 + 1000);
    finish();
}
END_TEST

START_TEST(lent_bytes_keep_their_chunk) {
    struct chunk_pool *pool = chunk_pool_new(1 << 20);
    struct chunk *c = chunk_new(pool, 5000);
    start();
    w.chunk = c;
    wr_bytes(&w, span_of(c->data, 5000), true, false);
    wr_bytes(&w, span_of(c->data, 10), true, false);
    ck_assert_uint_eq(atomic_load(&c->refs), 2);
    ck_assert_ptr_eq(out.head->next->p, c->data);
    finish();
    ck_assert_uint_eq(atomic_load(&c->refs), 1);
    chunk_unref(c);
    chunk_pool_free(pool);
}
END_TEST

/* A fetch answer whose records are pieces of a log. */
START_TEST(records_of_a_fetch_are_moved_and_never_copied) {
    enum { PARTS = 200 };
    static uint8_t log[3][2000];
    start();
    struct k_fetch_resp_topic_part parts[PARTS];
    struct chain pieces[PARTS];
    for (int i = 0; i < PARTS; i++) {
        k_fetch_resp_topic_part_init(&parts[i]);
        chain_init(&pieces[i], &arena);
        for (int k = 0; k < 3 && i != 7; k++) {
            chain_lend(&pieces[i], span_of(log[k], sizeof log[k]), NULL);
        }
        parts[i].records = SPAN_LIT("not this");
        parts[i].records_chain = &pieces[i];
    }
    struct k_fetch_resp_topic topic;
    k_fetch_resp_topic_init(&topic);
    topic.partitions = parts;
    topic.partitions_n = PARTS;
    struct k_fetch_resp m;
    k_fetch_resp_init(&m);
    m.topics = &topic;
    m.topics_n = 1;
    struct wr size = wr_measure();
    k_fetch_resp_put(&m, &size, 11);
    size_t before = arena.total;
    k_fetch_resp_put(&m, &w, 11);
    ck_assert(chain_ok(&out));
    ck_assert_uint_eq(out.bytes, size.measured);
    ck_assert_uint_le(arena.total - before, 96 << 10);   /* ink goes on where it was before the pieces were joined */
    unsigned lent = 0;
    for (const struct chain_node *n = out.head; n; n = n->next) {
        lent += n->p == log[0] || n->p == log[1] || n->p == log[2];
    }
    ck_assert_uint_eq(lent, 3 * (PARTS - 1));
    ck_assert_uint_eq(pieces[0].bytes, 0);
    span got = flat();
    struct rd r;
    rd_init(&r, got, &arena);
    ck_assert_int_eq(k_fetch_resp_get(&m, &r, 11), ERR_OK);
    ck_assert_uint_eq(m.topics[0].partitions[0].records.n, 6000);
    ck_assert(!span_is_null(m.topics[0].partitions[7].records));     /* S7.8: no records is empty, not null */
    ck_assert_uint_eq(m.topics[0].partitions[7].records.n, 0);
    finish();
}
END_TEST

START_TEST(what_a_length_cannot_say_makes_the_chain_bad) {
    static char long_name[40000];
    start();
    wr_string(&w, span_of(long_name, 32767), false, false);
    ck_assert(chain_ok(&out));
    wr_string(&w, span_of(long_name, 32768), true, false);
    ck_assert(!chain_ok(&out));
    finish();
}
END_TEST

START_TEST(without_memory_the_chain_goes_bad_and_nothing_leaks) {
    struct k_metadata_resp_broker brokers[400];
    struct k_metadata_resp m;
    k_metadata_resp_init(&m);
    for (size_t i = 0; i < 400; i++) {
        k_metadata_resp_broker_init(&brokers[i]);
        brokers[i].host = SPAN_LIT("a-host-with-some-name.example");
    }
    m.brokers = brokers;
    m.brokers_n = 400;
    bool done = false;
    unsigned refused = 0;
    for (uint64_t n = 1; !done; n++) {
        start();
        mem_fail_nth(n);
        k_metadata_resp_put(&m, &w, 9);
        mem_fail_nth(0);
        done = chain_ok(&out);
        refused += !done;
        finish();
    }
    ck_assert_uint_gt(refused, 0);
}
END_TEST

int main(void) {
    return RUN("wr", S2_12_null_only_where_the_schema_has_it, metadata_keeps_null_apart_from_no_topics,
               S2_9_a_tag_at_its_default_is_not_written, S2_9_tags_ascend_with_unknown_ones_between,
               small_bytes_are_copied_and_big_ones_lent, lent_bytes_keep_their_chunk, records_of_a_fetch_are_moved_and_never_copied,
               what_a_length_cannot_say_makes_the_chain_bad, without_memory_the_chain_goes_bad_and_nothing_leaks);
}
