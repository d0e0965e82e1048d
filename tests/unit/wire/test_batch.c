/* Goal: what a producer may send and what it may not; what a log's reader makes of torn or
 * foreign bytes (S5.2, S5.4-S5.7, S5.9-S5.12, S5.26, S6.4, T8, T54). Method: a sound batch, then
 * lies about it one by one, with the CRC made right again so that the lie itself is judged. */
#include "wire/batch.h"

#include "base/be.h"
#include "base/crc.h"
#include "base/prng.h"
#include "base/run.h"
#include "base/varint.h"
#include "wire/record.h"

enum { AT_LENGTH = 8, AT_EPOCH = 12, AT_MAGIC = 16, AT_CRC = 17, AT_ATTR = 21, AT_DELTA = 23, AT_BASE_TS = 27, AT_MAX_TS = 35, AT_PID = 43,
       AT_SEQ = 53, AT_COUNT = 57, AT_RECORDS = 61 };

static struct arena arena;

/* Three records of 10 bytes or so; a copy that may be spoilt. */
static uint8_t *sound(size_t *ret_n) {
    struct record_build b;
    record_build_init(&b, &arena, CODEC_NONE);
    struct record_header h = {SPAN_LIT("h"), SPAN_NULL};
    record_build_add(&b, 1000, SPAN_LIT("k"), SPAN_LIT("one"), NULL, 0);
    record_build_add(&b, 990, SPAN_LIT("k"), SPAN_LIT("two"), &h, 1);
    record_build_add(&b, 1020, SPAN_NULL, SPAN_NULL, NULL, 0);
    span s;
    ck_assert_int_eq(record_build_finish(&b, &s), ERR_OK);
    *ret_n = s.n;
    uint8_t *p = malloc(s.n);
    memcpy(p, s.p, s.n);
    return p;
}

static void seal(uint8_t *p, size_t n) {
    be32_put(p + AT_CRC, crc32c(p + AT_ATTR, n - AT_ATTR));
}

static err judge(const uint8_t *p, size_t n) {
    struct batch_head h;
    const char *text = NULL;
    err e = batch_check_produced(span_of(p, n), &h, &text);
    ck_assert((e != ERR_OK) == (text != NULL));
    return e;
}

static void start(void) { arena_init(&arena, NULL, 8 << 20); }
static void finish(void) { arena_done(&arena); }

START_TEST(a_sound_batch_is_accepted_and_read) {
    size_t n;
    uint8_t *p = sound(&n);
    struct batch_head h;
    struct batch_facts f;
    const char *text;
    ck_assert_int_eq(batch_check_facts(span_of(p, n), &h, &f, &text), ERR_OK);
    ck_assert_int_eq(h.base_offset, 0);
    ck_assert_uint_eq(h.bytes, n);
    ck_assert_int_eq(h.length, (int32_t)n - 12);
    ck_assert_int_eq(h.count, 3);
    ck_assert_int_eq(h.last_offset_delta, 2);
    ck_assert_int_eq(h.base_ts_ms, 1000);
    ck_assert_int_eq(h.max_ts_ms, 1020);
    ck_assert_int_eq(h.producer_id, -1);
    ck_assert_int_eq(batch_codec(&h), CODEC_NONE);
    ck_assert(f.walked);
    ck_assert_int_eq(f.min_ts_ms, 990);
    ck_assert_int_eq(f.max_ts_ms, 1020);
    ck_assert_int_eq(f.keyless, 2);              /* S5.15 */
    free(p);
}
END_TEST

START_TEST(S5_7_any_flipped_byte_is_found) {
    size_t n;
    uint8_t *p = sound(&n);
    for (size_t i = 0; i < n; i++) {
        p[i] ^= 0x11;
        err e = judge(p, n);
        if (i < AT_LENGTH || i == AT_MAGIC) {
            ck_assert_int_eq(e, ERR_BAD_RECORD);           /* base offset, magic: looked at themselves */
        } else if (i >= AT_EPOCH && i < AT_MAGIC) {
            ck_assert_int_eq(e, ERR_OK);                   /* the leader epoch is the broker's to write */
        } else if (i >= AT_CRC) {
            ck_assert_int_eq(e, ERR_CORRUPT);
        } else {
            ck_assert_int_ne(e, ERR_OK);
        }
        p[i] ^= 0x11;
    }
    ck_assert_int_eq(judge(p, n), ERR_OK);
    free(p);
}
END_TEST

START_TEST(T54_header_fields_that_lie) {
    const struct {
        int at, bytes;
        int64_t value;
        err want;
    } table[] = {
        {0, 8, 1, ERR_BAD_RECORD},                         /* S5.4 */
        {0, 8, -1, ERR_BAD_RECORD},
        {AT_MAGIC, 1, 0, ERR_BAD_RECORD},                  /* S5.2 */
        {AT_MAGIC, 1, 1, ERR_BAD_RECORD},
        {AT_MAGIC, 1, 3, ERR_BAD_RECORD},
        {AT_LENGTH, 4, 0, ERR_CORRUPT},
        {AT_LENGTH, 4, 48, ERR_CORRUPT},                   /* less than a header */
        {AT_LENGTH, 4, -1, ERR_CORRUPT},
        {AT_LENGTH, 4, INT32_MAX, ERR_CORRUPT},
        {AT_LENGTH, 4, INT32_MIN, ERR_CORRUPT},
        {AT_COUNT, 4, 0, ERR_BAD_RECORD},                  /* S5.5 */
        {AT_COUNT, 4, -1, ERR_BAD_RECORD},
        {AT_COUNT, 4, 2, ERR_BAD_RECORD},
        {AT_COUNT, 4, 4, ERR_BAD_RECORD},
        {AT_COUNT, 4, INT32_MIN, ERR_BAD_RECORD},
        {AT_DELTA, 4, 3, ERR_BAD_RECORD},
        {AT_DELTA, 4, -1, ERR_BAD_RECORD},
        {AT_DELTA, 4, INT32_MIN, ERR_BAD_RECORD},
        {AT_ATTR, 2, BATCH_ATTR_CONTROL, ERR_BAD_RECORD},
        {AT_ATTR, 2, 5, ERR_BAD_RECORD},                   /* no such codec */
        {AT_ATTR, 2, 7, ERR_BAD_RECORD},
        {AT_ATTR, 2, BATCH_ATTR_TRANSACTIONAL, ERR_OK},
        {AT_ATTR, 2, CODEC_LZ4, ERR_OK},                   /* compressed: the header is believed, its bytes not opened */
        {AT_PID, 8, 5, ERR_BAD_RECORD},                    /* a producer without a sequence: it is -1 here */
        {AT_PID, 8, -5, ERR_OK},
        {AT_SEQ, 4, 0, ERR_OK},                            /* S5.6: no producer id, whatever the sequence says */
        {AT_BASE_TS, 8, INT64_MAX, ERR_OK},                /* absurd, but adds up somehow */
        {AT_BASE_TS, 8, INT64_MIN, ERR_OK},
        {AT_MAX_TS, 8, -1, ERR_OK},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        size_t n;
        uint8_t *p = sound(&n);
        for (int k = 0; k < table[i].bytes; k++) {
            p[table[i].at + k] = (uint8_t)((uint64_t)table[i].value >> 8 * (table[i].bytes - 1 - k));
        }
        seal(p, n);
        ck_assert_msg(judge(p, n) == table[i].want, "row %zu: %s", i, err_name(judge(p, n)));
        free(p);
    }
}
END_TEST

START_TEST(S5_5_count_and_delta_may_not_lie_together) {
    size_t n;
    uint8_t *p = sound(&n);
    const int32_t counts[] = {1, 2, 4, 1000000, INT32_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        be32_put(p + AT_COUNT, (uint32_t)counts[i]);
        be32_put(p + AT_DELTA, (uint32_t)counts[i] - 1);
        seal(p, n);
        ck_assert_int_eq(judge(p, n), ERR_BAD_RECORD);
    }
    free(p);
}
END_TEST

START_TEST(S5_2_exactly_one_batch) {
    size_t n;
    uint8_t *p = sound(&n);
    uint8_t *two = malloc(2 * n);
    memcpy(two, p, n);
    memcpy(two + n, p, n);
    ck_assert_int_eq(judge(two, 2 * n), ERR_BAD_RECORD);
    ck_assert_int_eq(judge(two, n + 1), ERR_BAD_RECORD);
    ck_assert_int_eq(judge(NULL, 0), ERR_BAD_RECORD);      /* S5.26 */
    ck_assert_int_eq(judge(p, 0), ERR_BAD_RECORD);
    for (size_t cut = 1; cut < n; cut++) {
        ck_assert_int_eq(judge(p, cut), ERR_CORRUPT);      /* S5.7, and a length that says more than there is */
    }
    /* An old message set of magic 1, shorter than 61 bytes: offset, size, crc, magic, attributes, timestamp, key, value. */
    uint8_t old[34] = {[11] = 22, [16] = 1};
    ck_assert_int_eq(judge(old, sizeof old), ERR_BAD_RECORD);
    free(two);
    free(p);
}
END_TEST

/* One record made of these body bytes, in a batch that says so. */
static err judge_record(const uint8_t *body, size_t body_n, int32_t said_n) {
    uint8_t p[512] = {0};
    size_t n = AT_RECORDS;
    n += varint_put_i32(p + n, said_n);
    memcpy(p + n, body, body_n);
    n += body_n;
    batch_head_put(p, &(struct batch_head){.length = (int32_t)n - 12, .count = 1, .producer_id = -1});
    return judge(p, n);
}

START_TEST(T54_record_fields_that_lie) {
    /* attributes, timestamp delta, offset delta, key length, key, value length, value, header count, header... */
    const struct {
        uint8_t body[24];
        size_t n;
        int32_t said;                            /* 0: the truth */
        err want;
    } table[] = {
        {{0, 0, 0, 1, 1, 0}, 6, 0, ERR_OK},                            /* null key and value */
        {{0, 0, 0, 0, 0, 0}, 6, 0, ERR_OK},                            /* empty ones */
        {{0x7f, 0, 0, 1, 1, 0}, 6, 0, ERR_OK},                         /* attributes of a record mean nothing */
        {{0, 0, 0, 1, 1, 0}, 6, 5, ERR_BAD_RECORD},                    /* length shorter than its fields */
        {{0, 0, 0, 1, 1, 0}, 6, 7, ERR_BAD_RECORD},                    /* past the batch */
        {{0, 0, 0, 1, 1, 0}, 6, -1, ERR_BAD_RECORD},
        {{0, 0, 0, 1, 1, 0}, 6, INT32_MAX, ERR_BAD_RECORD},
        {{0, 0, 0, 1, 1, 0, 0}, 7, 0, ERR_BAD_RECORD},                 /* a byte behind the headers */
        {{0, 0, 0, 1, 1, 0, 0}, 7, 6, ERR_BAD_RECORD},                 /* a byte behind the record */
        {{0, 0, 2, 1, 1, 0}, 6, 0, ERR_BAD_RECORD},                    /* offset delta 1 */
        {{0, 0, 1, 1, 1, 0}, 6, 0, ERR_BAD_RECORD},                    /* offset delta -1 */
        {{0, 0, 0, 3, 1, 0}, 6, 0, ERR_BAD_RECORD},                    /* key length -2 */
        {{0, 0, 0, 20, 1, 0}, 6, 0, ERR_BAD_RECORD},                   /* key length 10 */
        {{0, 0, 0, 1, 20, 0}, 6, 0, ERR_BAD_RECORD},                   /* value length 10 */
        {{0, 0, 0, 1, 3, 0}, 6, 0, ERR_BAD_RECORD},
        {{0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0x0f, 1, 0}, 10, 0, ERR_BAD_RECORD},       /* key length 2^31-1 */
        {{0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0}, 10, 0, ERR_BAD_RECORD},    /* a varint of six bytes */
        {{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 1, 1, 0}, 16, 0, ERR_BAD_RECORD},     /* of eleven */
        {{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 1, 1, 0}, 15, 0, ERR_OK},     /* timestamp delta -2^63 */
        {{0, 0, 0, 1, 1, 2}, 6, 0, ERR_BAD_RECORD},                    /* a header that is not there */
        {{0, 0, 0, 1, 1, 1}, 6, 0, ERR_BAD_RECORD},                    /* -1 headers */
        {{0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f}, 10, 0, ERR_BAD_RECORD},       /* 2^31-1 headers */
        {{0, 0, 0, 1, 1, 2, 2, 'h', 1}, 9, 0, ERR_OK},
        {{0, 0, 0, 1, 1, 2, 0, 0}, 8, 0, ERR_OK},
        {{0, 0, 0, 1, 1, 2, 1, 1}, 8, 0, ERR_BAD_RECORD},              /* a header with a null name */
        {{0, 0, 0, 1, 1, 2, 4, 'h', 1}, 9, 0, ERR_BAD_RECORD},         /* its name swallows the value's length */
        {{0, 0, 0, 1, 1, 2, 2, 'h', 9}, 9, 0, ERR_BAD_RECORD},
        {{0, 0, 0, 1, 1, 2, 2, 'h', 1, 0}, 10, 0, ERR_BAD_RECORD},     /* a byte behind the last header */
        {{0}, 1, 0, ERR_BAD_RECORD},
        {{0}, 0, 0, ERR_BAD_RECORD},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        err e = judge_record(table[i].body, table[i].n, table[i].said ? table[i].said : (int32_t)table[i].n);
        ck_assert_msg(e == table[i].want, "row %zu: %s", i, err_name(e));
    }
}
END_TEST

START_TEST(T54_random_lies_are_found_or_harmless) {
    struct prng rng;
    prng_seed(&rng, 20240607);
    unsigned accepted = 0, refused = 0;
    for (int round = 0; round < 20000; round++) {
        size_t n;
        uint8_t *p = sound(&n);
        unsigned hits = 1 + (unsigned)prng_below(&rng, 3);
        for (unsigned i = 0; i < hits; i++) {
            p[AT_RECORDS + prng_below(&rng, n - AT_RECORDS)] = (uint8_t)prng_next(&rng);
        }
        seal(p, n);
        err e = judge(p, n);
        ck_assert(e == ERR_OK || e == ERR_BAD_RECORD);
        struct record_walk w;
        ck_assert_int_eq(record_walk_init(&w, span_of(p, n), &arena, 0), ERR_OK);
        struct record r;
        int32_t found = 0;
        while (record_walk_next(&w, &r)) {
            found++;
        }
        if (e == ERR_OK) {                       /* what is accepted can be read back in full */
            ck_assert_int_eq(found, 3);
            ck_assert(!w.bad);
        }
        accepted += e == ERR_OK;
        refused += e != ERR_OK;
        free(p);
        if (round % 100 == 0) {
            finish();
            start();
        }
    }
    ck_assert_uint_gt(accepted, 100);
    ck_assert_uint_gt(refused, 100);
}
END_TEST

START_TEST(S5_10_records_of_a_compressed_batch_after_unpacking) {
    size_t n;
    uint8_t *p = sound(&n);
    struct batch_head h;
    ck_assert_int_eq(batch_head_get(span_of(p, n), &h), ERR_OK);
    span records = span_of(p + AT_RECORDS, n - AT_RECORDS);
    struct batch_facts f;
    const char *text;
    ck_assert_int_eq(batch_check_records(records, &h, &f, &text), ERR_OK);
    ck_assert_int_eq(f.max_ts_ms, 1020);
    h.count = 4;
    ck_assert_int_eq(batch_check_records(records, &h, &f, &text), ERR_BAD_RECORD);
    h.count = 2;
    ck_assert_int_eq(batch_check_records(records, &h, &f, &text), ERR_BAD_RECORD);
    free(p);
}
END_TEST

START_TEST(S5_9_the_stamp_lies_outside_the_crc) {
    size_t n;
    uint8_t *p = sound(&n), *before = malloc(n);
    memcpy(before, p, n);
    batch_stamp(p, 0x0102030405060708, 77);
    struct batch_head h;
    ck_assert(batch_crc_ok(span_of(p, n)));
    ck_assert_int_eq(batch_head_get(span_of(p, n), &h), ERR_OK);
    ck_assert_int_eq(h.base_offset, 0x0102030405060708);
    ck_assert_int_eq(h.leader_epoch, 77);
    ck_assert_int_eq(batch_last_offset(&h), 0x010203040506070a);
    batch_stamp(p, 0, -1);
    ck_assert_mem_eq(p, before, n);
    free(before);
    free(p);
}
END_TEST

START_TEST(S5_12_append_time_is_stamped_with_a_new_crc) {
    size_t n;
    uint8_t *p = sound(&n);
    batch_stamp_append_time(p, n, 5555);
    ck_assert(batch_crc_ok(span_of(p, n)));
    struct record_walk w;
    struct record r;
    ck_assert_int_eq(record_walk_init(&w, span_of(p, n), &arena, 0), ERR_OK);
    ck_assert_int_eq(w.head.base_ts_ms, 1000);
    ck_assert_int_eq(w.head.attributes, BATCH_ATTR_LOG_APPEND_TIME);
    for (int i = 0; i < 3; i++) {
        ck_assert(record_walk_next(&w, &r));
        ck_assert_int_eq(r.ts_ms, 5555);
    }
    batch_stamp_max_ts(p, n, 6666);              /* S5.11 */
    ck_assert(batch_crc_ok(span_of(p, n)));
    ck_assert_int_eq(record_walk_init(&w, span_of(p, n), &arena, 0), ERR_OK);
    ck_assert_int_eq(w.head.max_ts_ms, 6666);
    free(p);
}
END_TEST

START_TEST(S6_4_sequences_wrap_to_zero) {
    struct batch_head h = {.base_sequence = 5, .last_offset_delta = 2};
    ck_assert_int_eq(batch_last_sequence(&h), 7);
    h.base_sequence = INT32_MAX - 2;
    ck_assert_int_eq(batch_last_sequence(&h), INT32_MAX);
    h.base_sequence = INT32_MAX - 1;
    ck_assert_int_eq(batch_last_sequence(&h), 0);
    h.base_sequence = INT32_MAX;
    ck_assert_int_eq(batch_last_sequence(&h), 1);
    ck_assert_int_eq(batch_sequence_add(INT32_MAX, INT32_MAX), INT32_MAX - 1);
    ck_assert_int_eq(batch_sequence_add(-1, 0), -1);
}
END_TEST

START_TEST(T8_tails_of_a_log) {
    size_t n;
    uint8_t *p = sound(&n);
    struct batch_head h;
    memset(&h, 0x55, sizeof h);
    struct batch_head untouched = h;
    for (size_t cut = 0; cut < n; cut++) {
        ck_assert_int_eq(batch_head_get(span_of(p, cut), &h), ERR_TORN);
        ck_assert_int_eq(memcmp(&h, &untouched, sizeof h), 0);
    }
    ck_assert_int_eq(batch_peek(span_of(p, BATCH_HEAD_BYTES), &h), ERR_OK);
    ck_assert_uint_eq(h.bytes, n);
    /* The tail is zeros: preallocated space. */
    uint8_t zeros[BATCH_HEAD_BYTES + 40] = {0};
    ck_assert_int_eq(batch_head_get(span_of(zeros, sizeof zeros), &h), ERR_CORRUPT);
    ck_assert(!batch_crc_ok(span_of(zeros, sizeof zeros)));
    ck_assert(!batch_crc_ok(span_of(zeros, 10)));
    /* Garbage never passes for a batch: a CRC over it would have to fit. */
    struct prng rng;
    prng_seed(&rng, 8);
    uint8_t noise[200];
    for (int round = 0; round < 2000; round++) {
        for (size_t i = 0; i < sizeof noise; i++) {
            noise[i] = (uint8_t)prng_next(&rng);
        }
        noise[AT_MAGIC] = 2;
        be32_put(noise + AT_LENGTH, sizeof noise - 12);
        ck_assert_int_eq(batch_head_get(span_of(noise, sizeof noise), &h), ERR_OK);
        ck_assert(!batch_crc_ok(span_of(noise, sizeof noise)));
    }
    free(p);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {
        a_sound_batch_is_accepted_and_read, S5_7_any_flipped_byte_is_found, T54_header_fields_that_lie,
        S5_5_count_and_delta_may_not_lie_together, S5_2_exactly_one_batch, T54_record_fields_that_lie,
        T54_random_lies_are_found_or_harmless, S5_10_records_of_a_compressed_batch_after_unpacking,
        S5_9_the_stamp_lies_outside_the_crc, S5_12_append_time_is_stamped_with_a_new_crc, S6_4_sequences_wrap_to_zero, T8_tails_of_a_log,
    };
    TCase *tc = tcase_create("batch");
    tcase_add_checked_fixture(tc, start, finish);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        tcase_add_test(tc, tests[i]);
    }
    return run_suite("batch", tc);
}
