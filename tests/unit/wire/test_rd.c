/* Goal: no bytes of a peer make the reader allocate, overrun or misread (T52, S2.11, S2.13,
 * S2.14, S1.6). Method: tables of hostile lengths, counts and tagged sections; after each the
 * arena must not have grown. */
#include "wire/rd.h"

#include "base/limits.h"
#include "base/run.h"
#include "wire/k_metadata.h"
#include "wire/k_produce.h"

#define BYTES(...) ((span){(const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})})

static struct arena arena;
static struct rd r;

static void start(span bytes) {
    arena_init(&arena, NULL, 1 << 20);
    rd_init(&r, bytes, &arena);
}

static void finish(void) {
    arena_done(&arena);
}

START_TEST(T52_hostile_counts_buy_no_memory) {
    const struct {
        span bytes;
        bool flex, null;
        size_t least;
        bool ok;
        int32_t n;
    } table[] = {
        {BYTES(0x7f, 0xff, 0xff, 0xff, 0, 0), false, false, 1, false, 0},
        {BYTES(0x80, 0, 0, 0, 0, 0), false, true, 1, false, 0},
        {BYTES(0xff, 0xff, 0xff, 0xff), false, false, 1, false, 0},
        {BYTES(0xff, 0xff, 0xff, 0xff), false, true, 1, true, -1},
        {BYTES(0xff, 0xff, 0xff, 0xfe), false, true, 1, false, 0},
        {BYTES(0xff, 0xff, 0xff, 0xff, 0x0f), true, false, 1, false, 0},              /* compact 2^32-1 */
        {BYTES(0xff, 0xff, 0xff, 0xff, 0x07), true, false, 1, false, 0},
        {BYTES(0), true, false, 1, false, 0},
        {BYTES(0), true, true, 1, true, -1},
        {BYTES(1), true, false, 1, true, 0},
        {BYTES(0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8), false, false, 4, true, 2},         /* exactly as many as fit */
        {BYTES(0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7), false, false, 4, false, 0},           /* one byte less */
        {BYTES(3, 1, 2, 3, 4, 5, 6), true, false, 3, true, 2},
        {BYTES(4, 1, 2, 3, 4, 5, 6, 7, 8), true, false, 3, false, 0},
        {BYTES(0, 0, 0), false, false, 1, false, 0},
        {BYTES(0x80), true, false, 1, false, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        start(table[i].bytes);
        int32_t n = rd_count(&r, table[i].flex, table[i].null, table[i].least);
        ck_assert_int_eq(n, table[i].n);
        ck_assert_msg(r.bad == !table[i].ok, "row %zu", i);
        ck_assert_uint_eq(arena.total, 0);
        finish();
    }
}
END_TEST

START_TEST(T52_nested_counts_in_a_message_are_checked_against_what_is_left) {
    /* acks, timeout, one topic "a" whose partition count claims 2^31-1, or one more than the bytes can hold. */
    const span v3[] = {
        BYTES(0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 'a', 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0),
        BYTES(0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 'a', 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        BYTES(0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0x7f, 0xff, 0xff, 0xff, 0, 1, 'a', 0, 0, 0, 0),
    };
    for (size_t i = 0; i < sizeof v3 / sizeof *v3; i++) {
        struct k_produce_req m;
        start(v3[i]);
        ck_assert_int_eq(k_produce_req_get(&m, &r, 3), ERR_BAD_FRAME);
        ck_assert_uint_le(arena.total, 4096);
        finish();
    }
}
END_TEST

START_TEST(T52_memory_for_a_message_has_the_arenas_ceiling) {
    /* 200,000 topics named "" with no partitions: they fit the bytes, but not an arena of 1 MiB. */
    enum { N = 200000 };
    uint8_t *p = calloc(1, 10 + 6 * N + 4);
    memcpy(p, "\xff\xff\xff\xff\0\0\0\1", 8);
    be32_put(p + 8, N);
    start(span_of(p, 12 + 6 * (size_t)N));
    struct k_produce_req m;
    ck_assert_int_eq(k_produce_req_get(&m, &r, 3), ERR_NOMEM);
    ck_assert_uint_le(arena.total, 1 << 20);
    finish();
    free(p);
}
END_TEST

START_TEST(lengths_past_the_end_are_errors) {
    const struct {
        span bytes;
        bool flex, null, wide;
    } table[] = {
        {BYTES(0, 3, 'a', 'b'), false, false, false},
        {BYTES(0xff, 0xff), false, false, false},                      /* null where none is allowed */
        {BYTES(0xff, 0xfe), false, true, false},
        {BYTES(0), true, false, false},
        {BYTES(4, 'a', 'b'), true, false, false},
        {BYTES(0x7f, 0xff, 0xff, 0xff, 1), false, true, true},
        {BYTES(0xff, 0xff, 0xff, 0xff, 0x0f, 1), true, true, true},
        {BYTES(0xff, 0xff, 0xff, 0xff, 0xff, 0x01), true, true, true},   /* S2.13: six bytes */
        {BYTES(0xff, 0xff, 0xff, 0xff, 0x1f), true, true, true},         /* bits beyond 32 */
        {BYTES(0), false, false, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        start(table[i].bytes);
        span s = table[i].wide ? rd_bytes(&r, table[i].flex, table[i].null) : rd_string(&r, table[i].flex, table[i].null);
        ck_assert_msg(r.bad, "row %zu", i);
        ck_assert_uint_eq(s.n, 0);
        ck_assert_uint_eq(rd_left(&r), 0);
        finish();
    }
}
END_TEST

START_TEST(S2_12_null_and_empty_differ) {
    start(BYTES(0xff, 0xff, 0, 0, 0, 1, 0, 2, 'a'));
    ck_assert(span_is_null(rd_string(&r, false, true)));
    span empty = rd_string(&r, false, true);
    ck_assert(!span_is_null(empty));
    ck_assert_uint_eq(empty.n, 0);
    ck_assert(span_is_null(rd_string(&r, true, true)));
    empty = rd_string(&r, true, true);
    ck_assert(!span_is_null(empty) && empty.n == 0);
    ck_assert(!r.bad);
    finish();
    /* Also at the very end of a frame. */
    start(BYTES(1));
    ck_assert(!span_is_null(rd_bytes(&r, true, true)));
    ck_assert_int_eq(rd_status(&r), ERR_OK);
    finish();
}
END_TEST

START_TEST(strings_have_the_limit_of_int16_in_every_version) {
    enum { N = 32768 };
    static uint8_t p[3 + N];
    for (int over = 0; over <= 1; over++) {
        uint32_t n = N - 1 + (uint32_t)over;
        p[0] = (uint8_t)((n + 1) | 0x80);
        p[1] = (uint8_t)(((n + 1) >> 7) | 0x80);
        p[2] = (uint8_t)((n + 1) >> 14);
        start(span_of(p, 3 + n));
        span s = rd_string(&r, true, false);
        ck_assert(r.bad == (over == 1));
        ck_assert_uint_eq(s.n, over ? 0 : n);
        finish();
    }
}
END_TEST

START_TEST(S2_14_any_byte_but_zero_is_true) {
    start(BYTES(0, 1, 2, 0x80, 0xff));
    ck_assert(!rd_bool(&r));
    for (int i = 0; i < 4; i++) {
        ck_assert(rd_bool(&r));
    }
    finish();
}
END_TEST

START_TEST(scalars_are_big_endian_and_errors_are_sticky) {
    start(BYTES(0xfe, 0x80, 0x01, 0xff, 0xfe, 0x80, 0, 0, 1, 0x80, 0, 0, 0, 0, 0, 0, 1, 0x40, 0x09, 0x21, 0xfb, 0x54, 0x44, 0x2d, 0x18, 9));
    ck_assert_int_eq(rd_i8(&r), -2);
    ck_assert_int_eq(rd_i16(&r), -32767);
    ck_assert_uint_eq(rd_u16(&r), 0xfffe);
    ck_assert_int_eq(rd_i32(&r), INT32_MIN + 1);
    ck_assert_int_eq(rd_i64(&r), INT64_MIN + 1);
    ck_assert_double_eq(rd_f64(&r), 3.141592653589793);
    ck_assert_int_eq(rd_i16(&r), 0);             /* one byte is left */
    ck_assert(r.bad);
    ck_assert_int_eq(rd_i8(&r), 0);              /* not the 9 */
    ck_assert(uuid_is_zero(rd_uuid(&r)));
    ck_assert_int_eq(rd_status(&r), ERR_BAD_FRAME);
    finish();
}
END_TEST

START_TEST(S2_9_tag_sections) {
    const struct {
        span bytes;
        bool ok;
    } table[] = {
        {BYTES(0), true},
        {BYTES(1, 5, 2, 'a', 'b'), true},
        {BYTES(2, 5, 0, 6, 1, 'x'), true},
        {BYTES(2, 6, 0, 5, 0), false},                                 /* descending */
        {BYTES(2, 5, 0, 5, 0), false},                                 /* twice */
        {BYTES(1, 5, 3, 'a', 'b'), false},                             /* size past the end */
        {BYTES(2, 5, 0), false},                                       /* one is missing */
        {BYTES(1, 0xff, 0xff, 0xff, 0xff, 0x0f, 0), true},             /* tag 2^32-1 */
        {BYTES(0xff, 0xff, 0xff, 0xff, 0x0f), false},                  /* 2^32-1 tags */
        {{NULL, 0}, false},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        start(table[i].bytes);
        (void)rd_unknown(&r);                    /* looked at below, where it matters */
        ck_assert_msg(r.bad == !table[i].ok, "row %zu", i);
        ck_assert_uint_eq(rd_left(&r), 0);
        finish();
    }
}
END_TEST

START_TEST(unknown_tags_are_kept_in_order) {
    start(BYTES(3, 2, 1, 'x', 9, 0, 0x80, 0x01, 2, 'y', 'z', 7));
    const struct rd_unknown *u = rd_unknown(&r);
    ck_assert_uint_eq(u->tag, 2);
    ck_assert(span_eq(u->bytes, SPAN_LIT("x")));
    u = u->next;
    ck_assert_uint_eq(u->tag, 9);
    ck_assert_uint_eq(u->bytes.n, 0);
    u = u->next;
    ck_assert_uint_eq(u->tag, 128);
    ck_assert(span_eq(u->bytes, SPAN_LIT("yz")));
    ck_assert_ptr_null(u->next);
    ck_assert_int_eq(rd_i8(&r), 7);              /* the reader stands behind the section, and its end is the frame's again */
    ck_assert(!r.bad);
    finish();
}
END_TEST

START_TEST(tags_have_a_ceiling) {
    static uint8_t p[2 + 4 * (LIMIT_TAGS + 1)];
    for (uint32_t n = LIMIT_TAGS; n <= LIMIT_TAGS + 1; n++) {
        size_t at = 0;
        p[at++] = (uint8_t)(n | 0x80);
        p[at++] = (uint8_t)(n >> 7);
        for (uint32_t i = 0; i < n; i++) {
            p[at++] = (uint8_t)((1000 + i) | 0x80);
            p[at++] = (uint8_t)((1000 + i) >> 7);
            p[at++] = 0;
        }
        start(span_of(p, at));
        (void)rd_unknown(&r);
        ck_assert(r.bad == (n > LIMIT_TAGS));
        finish();
    }
}
END_TEST

START_TEST(S2_10_a_known_tag_is_exactly_as_long_as_it_says) {
    /* Produce's answer, version 10: no topics, throttle 0, then tag 0, node_endpoints with one node. */
    const struct {
        span bytes;
        err want;
        size_t left;
    } table[] = {
        {BYTES(1, 0, 0, 0, 0, 1, 0, 12, 2, 0, 0, 0, 7, 2, 'h', 0, 0, 0, 9, 0, 0), ERR_BAD_FRAME, 0},    /* size one short */
        {BYTES(1, 0, 0, 0, 0, 1, 0, 14, 2, 0, 0, 0, 7, 2, 'h', 0, 0, 0, 9, 0, 0, 0), ERR_BAD_FRAME, 0},   /* size one long */
        {BYTES(1, 0, 0, 0, 0, 1, 0, 13, 2, 0, 0, 0, 7, 2, 'h', 0, 0, 0, 9, 0, 0, 0), ERR_OK, 1},          /* right, and a byte behind the section */
        {BYTES(1, 0, 0, 0, 0, 1, 0, 13, 2, 0, 0, 0, 7, 2, 'h', 0, 0, 0, 9, 1, 'r', 0), ERR_BAD_FRAME, 0},
        {BYTES(1, 0, 0, 0, 0, 1, 0, 14, 2, 0, 0, 0, 7, 2, 'h', 0, 0, 0, 9, 2, 'r', 0), ERR_OK, 0},
        {BYTES(1, 0, 0, 0, 0, 0), ERR_OK, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct k_produce_resp m;
        start(table[i].bytes);
        err e = k_produce_resp_get(&m, &r, 10);
        ck_assert_msg(e == table[i].want, "row %zu: %s", i, err_name(e));
        ck_assert_uint_eq(rd_left(&r), table[i].left);
        if (i == 4) {
            ck_assert_int_eq(m.node_endpoints_n, 1);
            ck_assert_int_eq(m.node_endpoints[0].node_id, 7);
            ck_assert(span_eq(m.node_endpoints[0].rack, SPAN_LIT("r")));
        }
        finish();
    }
}
END_TEST

START_TEST(S1_6_trailing_bytes_are_left_to_the_caller) {
    struct k_metadata_req m;
    start(BYTES(0, 0, 0, 0, 'x', 'y'));
    ck_assert_int_eq(k_metadata_req_get(&m, &r, 0), ERR_OK);
    ck_assert_int_eq(m.topics_n, 0);
    ck_assert_uint_eq(rd_left(&r), 2);
    finish();
}
END_TEST

int main(void) {
    return RUN("rd", T52_hostile_counts_buy_no_memory, T52_nested_counts_in_a_message_are_checked_against_what_is_left,
               T52_memory_for_a_message_has_the_arenas_ceiling, lengths_past_the_end_are_errors, S2_12_null_and_empty_differ,
               strings_have_the_limit_of_int16_in_every_version, S2_14_any_byte_but_zero_is_true,
               scalars_are_big_endian_and_errors_are_sticky, S2_9_tag_sections, unknown_tags_are_kept_in_order, tags_have_a_ceiling,
               S2_10_a_known_tag_is_exactly_as_long_as_it_says, S1_6_trailing_bytes_are_left_to_the_caller);
}
