/* Goal: looking at records without holding them sees what walking sees, finds every lie that walking
 * finds, and costs no more memory than a window (S5.10, S5.12, S5.17, T54, T55).
 * Method: drawn records with every codec against the walk; records laid across the edges of the
 * buffer; the same spoilt bytes with every codec against the check of unpacked records; bombs. */
#include "wire/record_scan.h"

#include "base/prng.h"
#include "base/torture.h"
#include "base/varint.h"
#include "bomb.h"
#include "wire/record.h"
#include "wire/zip.h"

#define UNZIP_MAX ((size_t)8 << 20)
#define CODECS (CODEC_ZSTD + 1)
#define BUFFER ((size_t)64 << 10)                /* what the scan reads at once */

static struct arena arena;
static void start(void) { arena_init(&arena, NULL, 1 << 30); }
static void finish(void) { arena_done(&arena); }

static span draw_span(struct prng *rng, size_t max) {
    if (prng_chance(rng, 1, 7)) {
        return SPAN_NULL;
    }
    size_t n = prng_chance(rng, 1, 5) ? 0 : (size_t)prng_below(rng, max);
    uint8_t *p = arena_alloc(&arena, n);
    prng_bytes(rng, p, n);
    return span_of(p, n);
}

/* A batch of these records, whatever they are, packed with codec; head fields are the caller's. */
static span wrap(span records, enum batch_codec codec, struct batch_head h) {
    span packed;
    ck_assert_int_eq(zip_pack(codec, records, &arena, &packed), ERR_OK);
    uint8_t *p = arena_alloc(&arena, BATCH_HEAD_BYTES + packed.n);
    memcpy(p + BATCH_HEAD_BYTES, packed.p, packed.n);
    h.length = (int32_t)(BATCH_HEAD_BYTES + packed.n - BATCH_OVERHEAD_BYTES);
    h.attributes |= (int16_t)codec;
    batch_head_put(p, &h);
    return span_of(p, BATCH_HEAD_BYTES + packed.n);
}

/* How many records a scan sees, and how it ends. */
struct verdict {
    int32_t n;
    err err;
};

static struct verdict scan(span batch, size_t max) {
    struct record_scan s;
    struct record_seen r;
    struct verdict v = {.err = record_scan_init(&s, batch, max)};
    if (v.err == ERR_OK) {
        while (record_scan_next(&s, &r)) {
            v.n++;
        }
        ck_assert(!record_scan_next(&s, &r));
        ck_assert_int_eq(s.err == ERR_OK, s.why == NULL);
        v.err = s.err;
        record_scan_done(&s);
    }
    return v;
}

#define expect_scan(batch, max, want_err, want_n)          \
    do {                                                   \
        struct verdict v_ = scan(batch, max);              \
        ck_assert_str_eq(err_name(v_.err), err_name(want_err)); \
        ck_assert_int_eq(v_.n, want_n);                    \
    } while (0)

static int32_t bytes_of(span s) { return span_is_null(s) ? -1 : (int32_t)s.n; }

static void expect_as_walked(span batch) {
    struct record_walk w;
    struct record_scan s;
    struct record r;
    struct record_seen seen;
    ck_assert_int_eq(record_walk_init(&w, batch, &arena, UNZIP_MAX), ERR_OK);
    ck_assert_int_eq(record_scan_init(&s, batch, UNZIP_MAX), ERR_OK);
    while (record_walk_next(&w, &r)) {
        ck_assert_msg(record_scan_next(&s, &seen), "record %d: %s", s.n, s.why);
        ck_assert_int_eq(seen.offset, r.offset);
        ck_assert_int_eq(seen.ts_ms, r.ts_ms);
        ck_assert_int_eq(seen.delta, r.delta);
        ck_assert_int_eq(seen.key_bytes, bytes_of(r.key));
        ck_assert_int_eq(seen.value_bytes, bytes_of(r.value));
        ck_assert_int_eq(seen.headers_n, r.headers_n);
    }
    ck_assert(!w.bad);
    ck_assert(!record_scan_next(&s, &seen));
    ck_assert_int_eq(s.err, ERR_OK);
    ck_assert_int_eq(s.n, s.head.count);
    record_scan_done(&s);
}

START_TEST(S5_17_drawn_records_are_seen_as_walking_sees_them) {
    struct prng rng;
    prng_seed(&rng, (uint64_t)_i + 1);
    for (int round = 0; round < 30; round++) {
        struct record_build b;
        record_build_init(&b, &arena, (enum batch_codec)_i);
        for (size_t i = 0, n = 1 + (size_t)prng_below(&rng, 200); i < n; i++) {
            struct record_header headers[3];
            size_t headers_n = (size_t)prng_below(&rng, 4);
            for (size_t k = 0; k < headers_n; k++) {
                span name = draw_span(&rng, 20);
                headers[k] = (struct record_header){span_is_null(name) ? SPAN_LIT("") : name, draw_span(&rng, 50)};
            }
            ms ts = prng_chance(&rng, 1, 10) ? -1 : 1700000000000 + (ms)prng_below(&rng, 1 << 20);
            record_build_add(&b, ts, draw_span(&rng, 100), draw_span(&rng, prng_chance(&rng, 1, 50) ? 200000 : 300), headers, headers_n);
        }
        span batch;
        ck_assert_int_eq(record_build_finish(&b, &batch), ERR_OK);
        batch_stamp((uint8_t *)(uintptr_t)batch.p, 5000, 1);
        expect_as_walked(batch);
        batch_stamp_append_time((uint8_t *)(uintptr_t)batch.p, batch.n, 1234);       /* S5.12 */
        expect_as_walked(batch);
        finish();
        start();
    }
}
END_TEST

START_TEST(records_across_the_edges_of_the_buffer) {
    static uint8_t value[2 * BUFFER];
    for (size_t edge = BUFFER; edge <= 2 * BUFFER; edge += BUFFER) {
        for (size_t short_of = 0; short_of < 60; short_of++) {
            struct record_build b;
            record_build_init(&b, &arena, (enum batch_codec)_i);
            record_build_add(&b, 1, SPAN_NULL, span_of(value, edge - short_of), NULL, 0);
            for (int i = 0; i < 3; i++) {        /* long numbers: each of their bytes comes to lie on the edge */
                struct record_header h = {SPAN_LIT("name"), span_of(value, 70)};
                record_build_add(&b, INT64_MAX - i, span_of(value, 150), span_of(value, 9000), &h, 1);
            }
            span batch;
            ck_assert_int_eq(record_build_finish(&b, &batch), ERR_OK);
            expect_as_walked(batch);
            finish();
            start();
        }
    }
}
END_TEST

/* ---- lies */

static span three_records(struct batch_head *ret_h) {
    struct record_build b;
    span batch;
    struct record_header h = {SPAN_LIT("h"), SPAN_LIT("v")};
    record_build_init(&b, &arena, CODEC_NONE);
    record_build_add(&b, 1000, SPAN_LIT("key"), SPAN_LIT("value"), &h, 1);
    record_build_add(&b, 1020, SPAN_NULL, SPAN_LIT(""), NULL, 0);
    record_build_add(&b, 1010, SPAN_LIT("key"), SPAN_NULL, &h, 1);
    ck_assert_int_eq(record_build_finish(&b, &batch), ERR_OK);
    ck_assert_int_eq(batch_head_get(batch, ret_h), ERR_OK);
    return span_of(batch.p + BATCH_HEAD_BYTES, batch.n - BATCH_HEAD_BYTES);
}

START_TEST(S5_10_T54_counts_that_lie_about_the_bytes) {
    struct batch_head h;
    span records = three_records(&h);
    enum batch_codec codec = (enum batch_codec)_i;
    expect_scan(wrap(records, codec, h), UNZIP_MAX, ERR_OK, 3);
    h.count = 4;
    expect_scan(wrap(records, codec, h), UNZIP_MAX, ERR_BAD_RECORD, 3);
    h.count = 2;
    expect_scan(wrap(records, codec, h), UNZIP_MAX, ERR_BAD_RECORD, 2);
    h.count = INT32_MAX;
    expect_scan(wrap(records, codec, h), UNZIP_MAX, ERR_BAD_RECORD, 3);
    h.count = -1;
    expect_scan(wrap(records, codec, h), UNZIP_MAX, ERR_BAD_RECORD, 0);
    h.count = 0;
    expect_scan(wrap(records, codec, h), UNZIP_MAX, ERR_BAD_RECORD, 0);
    expect_scan(wrap(span_of(records.p, 0), codec, h), UNZIP_MAX, ERR_OK, 0);
    h.count = 3;
    h.last_offset_delta = 1;
    expect_scan(wrap(records, codec, h), UNZIP_MAX, ERR_BAD_RECORD, 2);
    h.last_offset_delta = 2;
    for (size_t n = 0; n < records.n; n++) {
        ck_assert_int_eq(scan(wrap(span_of(records.p, n), codec, h), UNZIP_MAX).err, ERR_BAD_RECORD);
    }
}
END_TEST

START_TEST(T54_spoilt_records_get_the_same_verdict_with_every_codec) {
    struct prng rng;
    prng_seed(&rng, 77);
    unsigned sound = 0, bad = 0;
    for (int round = 0; round < 3000; round++) {
        struct batch_head h;
        struct batch_facts f;
        const char *why;
        span records = three_records(&h);
        for (uint64_t hits = 1 + prng_below(&rng, 3); hits > 0; hits--) {
            ((uint8_t *)(uintptr_t)records.p)[prng_below(&rng, records.n)] = (uint8_t)prng_next(&rng);
        }
        struct verdict plain = scan(wrap(records, CODEC_NONE, h), UNZIP_MAX);
        ck_assert(plain.err == ERR_OK || plain.err == ERR_BAD_RECORD);
        if (batch_check_records(records, &h, &f, &why) == ERR_OK) {      /* which wants the deltas in order, besides */
            ck_assert_int_eq(plain.err, ERR_OK);
        } else if (plain.err == ERR_OK) {
            ck_assert_str_eq(why, "offset deltas are not 0, 1, 2 and so on");
        }
        for (enum batch_codec codec = CODEC_GZIP; codec <= CODEC_ZSTD; codec++) {
            expect_scan(wrap(records, codec, h), UNZIP_MAX, plain.err, plain.n);
        }
        sound += plain.err == ERR_OK;
        bad += plain.err != ERR_OK;
        finish();
        start();
    }
    ck_assert_uint_gt(sound, 100);
    ck_assert_uint_gt(bad, 100);
}
END_TEST

START_TEST(packed_nonsense_ends_the_scan) {
    struct batch_head h;
    span batch = wrap(three_records(&h), (enum batch_codec)_i, h);
    uint8_t *p = arena_alloc(&arena, batch.n + 1);
    memcpy(p, batch.p, batch.n);
    p[batch.n] = 'x';
    be32_put(p + 8, (uint32_t)batch.n + 1 - BATCH_OVERHEAD_BYTES);           /* one byte behind the stream */
    ck_assert_int_eq(scan(span_of(p, batch.n + 1), UNZIP_MAX).err, ERR_CORRUPT);
    for (size_t n = BATCH_HEAD_BYTES; n < batch.n; n++) {
        be32_put(p + 8, (uint32_t)n - BATCH_OVERHEAD_BYTES);
        err e = scan(span_of(p, n), UNZIP_MAX).err;
        bool between_blocks = _i == CODEC_SNAPPY && e == ERR_BAD_RECORD;     /* xerial's framing has no end: the records are missing */
        ck_assert_msg(e == ERR_CORRUPT || between_blocks, "cut at %zu of %zu: %s", n, batch.n, err_name(e));
    }
    ck_assert_int_eq(scan(span_of(p, batch.n - 1), UNZIP_MAX).err, ERR_CORRUPT);
    p[16] = 1;
    ck_assert_int_eq(scan(span_of(p, batch.n), UNZIP_MAX).err, ERR_CORRUPT);
    ck_assert_int_eq(scan(span_of(p, 60), UNZIP_MAX).err, ERR_TORN);
}
END_TEST

START_TEST(codecs_that_do_not_exist_are_corrupt) {
    struct batch_head h;
    span batch = wrap(three_records(&h), CODEC_NONE, h);
    for (uint16_t codec = 5; codec <= 7; codec++) {
        be16_put((uint8_t *)(uintptr_t)batch.p + 21, codec);
        ck_assert_int_eq(scan(batch, UNZIP_MAX).err, ERR_CORRUPT);
    }
}
END_TEST

/* ---- sizes */

/* `head` and zeros, n bytes in all, that unpack as one record with a value of zeros. */
static span one_big_record(size_t value_n) {
    uint8_t *p = calloc(1, value_n + 40);
    size_t tail = 3 + varint_len_i32((int32_t)value_n) + 1;          /* attributes, two deltas; … no headers */
    size_t at = varint_put_i32(p, (int32_t)(tail + 1 + value_n));
    at += 3;
    at += varint_put_i32(p + at, -1);
    at += varint_put_i32(p + at, (int32_t)value_n);
    return span_of(p, at + value_n + 1);
}

START_TEST(a_large_record_that_packs_well_is_looked_through_in_little_memory) {
    enum { VALUE = 50 << 20 };
    span records = one_big_record(VALUE), batch = wrap(records, (enum batch_codec)_i, (struct batch_head){.count = 1, .max_ts_ms = 5});
    free((void *)(uintptr_t)records.p);
    size_t live = mem_live_all();
    struct record_scan s;
    struct record_seen r;
    ck_assert_int_eq(record_scan_init(&s, batch, zip_bytes_max(batch.n)), ERR_OK);
    ck_assert(record_scan_next(&s, &r));
    ck_assert_int_eq(r.value_bytes, VALUE);
    ck_assert_int_eq(r.key_bytes, -1);
    ck_assert_uint_le(mem_live_all() - live, (size_t)3 << 20);
    ck_assert(!record_scan_next(&s, &r));
    ck_assert_int_eq(s.err, ERR_OK);
    record_scan_done(&s);
    ck_assert_uint_eq(mem_live_all(), live);
    expect_scan(batch, records.n, ERR_OK, 1);
    expect_scan(batch, records.n - 1, _i == CODEC_NONE ? ERR_OK : ERR_LIMIT, _i == CODEC_NONE);
}
END_TEST

/* A bomb in a batch is nonsense at its first byte: zeros are no record. One record that is as long as the bomb is unpacked to the ceiling. */
START_TEST(T55_bombs_end_at_once_or_at_the_ceiling) {
    struct sink bomb = bomb_make((enum batch_codec)_i);
    uint8_t *p = malloc(BATCH_HEAD_BYTES + bomb.n);
    memcpy(p + BATCH_HEAD_BYTES, bomb.p, bomb.n);
    batch_head_put(p, &(struct batch_head){.length = (int32_t)(BATCH_HEAD_BYTES + bomb.n) - BATCH_OVERHEAD_BYTES, .count = 1, .attributes = (int16_t)_i});
    size_t live = mem_live_all();
    struct record_scan s;
    struct record_seen r;
    ck_assert_int_eq(record_scan_init(&s, span_of(p, BATCH_HEAD_BYTES + bomb.n), LIMIT_UNZIP_BYTES_MIN), ERR_OK);
    ck_assert(!record_scan_next(&s, &r));
    ck_assert_int_eq(s.err, ERR_BAD_RECORD);
    ck_assert_uint_le(s.z.out, BUFFER);
    ck_assert_uint_le(mem_live_all() - live, (size_t)9 << 20);
    record_scan_done(&s);
    ck_assert_uint_eq(mem_live_all(), live);
    free(p);
    free(bomb.p);

    span records = one_big_record(100 << 20), batch = wrap(records, (enum batch_codec)_i, (struct batch_head){.count = 1});
    free((void *)(uintptr_t)records.p);
    live = mem_live_all();
    ck_assert_int_eq(record_scan_init(&s, batch, LIMIT_UNZIP_BYTES_MIN), ERR_OK);
    ck_assert(!record_scan_next(&s, &r));
    ck_assert_int_eq(s.err, ERR_LIMIT);
    ck_assert_uint_eq(s.z.out, LIMIT_UNZIP_BYTES_MIN);
    ck_assert_uint_le(mem_live_all() - live, (size_t)9 << 20);
    record_scan_done(&s);
    ck_assert_uint_eq(mem_live_all(), live);
}
END_TEST

START_TEST(T55_the_ceiling_grows_with_the_largest_message) {
    ck_assert_uint_eq(zip_bytes_max(0), 64 << 20);
    ck_assert_uint_eq(zip_bytes_max(1048588), 64 << 20);
    ck_assert_uint_eq(zip_bytes_max(20 << 20), (size_t)200 << 20);
    ck_assert_uint_eq(zip_bytes_max(INT32_MAX), (size_t)INT32_MAX * 10);
}
END_TEST

/* ---- memory */

static enum batch_codec tortured;

static void build_and_scan(void) {
    start();
    struct record_build b;
    span batch;
    static uint8_t value[30000];
    record_build_init(&b, &arena, tortured);
    for (int i = 0; i < 20; i++) {
        record_build_add(&b, 5, SPAN_LIT("k"), span_of(value, sizeof value), NULL, 0);
    }
    if (record_build_finish(&b, &batch) == ERR_OK) {
        struct verdict v = scan(batch, UNZIP_MAX);
        ck_assert(v.err == ERR_NOMEM || (v.err == ERR_OK && v.n == 20));
    }
    finish();
}

START_TEST(every_refused_allocation_is_survived) {
    tortured = (enum batch_codec)_i;
    ck_assert_uint_gt(torture(build_and_scan), 3);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("record_scan");
    tcase_add_checked_fixture(tc, start, finish);
    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, S5_17_drawn_records_are_seen_as_walking_sees_them, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, records_across_the_edges_of_the_buffer, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, S5_10_T54_counts_that_lie_about_the_bytes, CODEC_NONE, CODECS);
    tcase_add_test(tc, T54_spoilt_records_get_the_same_verdict_with_every_codec);
    tcase_add_loop_test(tc, packed_nonsense_ends_the_scan, CODEC_GZIP, CODECS);
    tcase_add_test(tc, codecs_that_do_not_exist_are_corrupt);
    tcase_add_loop_test(tc, a_large_record_that_packs_well_is_looked_through_in_little_memory, CODEC_NONE, CODECS);
    tcase_add_loop_test(tc, T55_bombs_end_at_once_or_at_the_ceiling, CODEC_GZIP, CODECS);
    tcase_add_test(tc, T55_the_ceiling_grows_with_the_largest_message);
    tcase_add_loop_test(tc, every_refused_allocation_is_survived, CODEC_NONE, CODECS);
    return run_suite("record_scan", tc);
}
