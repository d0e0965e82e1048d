/* Goal: shapes that later messages will need are generated rightly (S2.9, S2.10, S2.11, S2.12,
 * S2.14): null structs in line and in tags, tags of every kind, rigid strings, structs used
 * again, defaults. Method: the toy message against bytes written down by hand from the rules of
 * the encoding. */
#include <string.h>

#include "base/run.h"
#include "wire/k_toy.h"

#define BYTES(...) ((span){(const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})})
#define ID 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16
#define HALF 0x3f, 0xe0, 0, 0, 0, 0, 0, 0

static struct arena arena;
static void start(void) { arena_init(&arena, NULL, 1 << 20); }
static void finish(void) { arena_done(&arena); }

static span encode(const struct k_toy_req *m, int v) {
    struct chain c;
    chain_init(&c, &arena);
    struct wr w = wr_to(&c), size = wr_measure();
    k_toy_req_put(m, &size, v);
    k_toy_req_put(m, &w, v);
    ck_assert(chain_ok(&c));
    ck_assert_uint_eq(size.measured, c.bytes);
    uint8_t *p = arena_alloc(&arena, c.bytes);
    chain_flatten(&c, p);
    return span_of(p, c.bytes);
}

static void expect(const struct k_toy_req *m, int v, span want) {
    span got = encode(m, v);
    ck_assert_uint_eq(got.n, want.n);
    ck_assert_mem_eq(got.p, want.p, want.n);
    struct rd r;
    struct k_toy_req again;
    rd_init(&r, got, &arena);
    memset(&again, 0x55, sizeof again);
    ck_assert_int_eq(k_toy_req_get(&again, &r, v), ERR_OK);
    ck_assert_uint_eq(rd_left(&r), 0);
    ck_assert(span_eq(encode(&again, v), want));
    for (size_t n = 0; n < want.n; n++) {        /* S1.6: missing bytes */
        rd_init(&r, span_of(want.p, n), &arena);
        ck_assert_int_eq(k_toy_req_get(&again, &r, v), ERR_BAD_FRAME);
    }
}

static struct k_toy_req_cursor cursor;
static span names[2];
static int16_t list[2] = {1, -1};

static struct k_toy_req full(void) {
    struct k_toy_req m;
    k_toy_req_init(&m);
    k_toy_req_cursor_init(&cursor);
    cursor.at = 9;
    names[0] = SPAN_LIT("n");
    names[1] = SPAN_LIT("");
    m.flag = true;
    m.small = 7;
    m.port = 0xfffe;
    m.big = 1;
    m.ratio = 0.5;
    m.id = (uuid){{ID}};
    m.label = SPAN_LIT("L");
    m.blob = SPAN_LIT("b");
    m.names = names;
    m.names_n = 2;
    m.point.y = 6;
    m.cursor = &cursor;
    m.late = &cursor;
    m.tag_flag = false;
    m.tag_text = SPAN_LIT("t");
    m.tag_list = list;
    m.tag_list_n = 2;
    m.tag_point.x = 8;
    m.tag_cur = &cursor;
    m.tag_id = m.id;
    m.tag_recs = SPAN_LIT("r");
    return m;
}

START_TEST(old_versions_have_less) {
    struct k_toy_req m = full();
    expect(&m, 0, BYTES(1, 0xff, 0xfe, HALF, ID, 0, 1, 'L', 0, 0, 0, 2, 0, 1, 'n', 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 1, 0, 0, 0, 0, 0, 0, 0, 9));
    expect(&m, 1, BYTES(1, 7, 0xff, 0xfe, 0, 0, 0, 1, HALF, ID, 0, 1, 'L', 0, 0, 0, 1, 'b', 0, 0, 0, 2, 0, 1, 'n', 0, 0, 0, 0, 0, 0,
                        0, 0, 0, 5, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 9));
}
END_TEST

START_TEST(flexible_versions_end_every_struct_with_tags) {
    struct k_toy_req m = full();
#define INLINE_2 1, 7, 0xff, 0xfe, 0, 0, 0, 1, HALF, ID, 0, 1, 'L', 2, 'b', 3, 2, 'n', 1, 1, 0, 0, 0, 5, 0, 0, 0, 6, 0, \
        1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0
#define TAGS_0_TO_6 0, 1, 0, 1, 2, 2, 't', 3, 5, 3, 0, 1, 0xff, 0xff, 4, 9, 0, 0, 0, 8, 0, 0, 0, 0, 0, \
        5, 10, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 6, 16, ID
    expect(&m, 2, BYTES(INLINE_2, 6, TAGS_0_TO_6));
#define INLINE_3 1, 7, 0xff, 0xfe, HALF, ID, 0, 1, 'L', 2, 'b', 3, 2, 'n', 1, 1, 0, 0, 0, 5, 0, 0, 0, 6, 0, \
        1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 0, 0, 0, 0, 0, 0, 9, 0
    expect(&m, 3, BYTES(INLINE_3, 7, TAGS_0_TO_6, 7, 2, 2, 'r'));
}
END_TEST

START_TEST(nulls_and_defaults) {
    struct k_toy_req m;
    k_toy_req_init(&m);
    ck_assert_int_eq(m.small, -3);
    ck_assert_uint_eq(m.big, 4000000000);
    ck_assert(m.tag_flag);
    ck_assert_int_eq(m.names_n, -1);
    ck_assert_int_eq(m.point.x, 5);
    ck_assert(span_is_null(m.blob));
#define ZERO 0, 0, 0, 0, 0, 0, 0, 0
    expect(&m, 3, BYTES(0, 0xfd, 0, 0, ZERO, ZERO, ZERO, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0xff, 0xff, 0));
    m.tag_text = SPAN_LIT("");                   /* S2.12: empty is not its default, null */
    expect(&m, 3, BYTES(0, 0xfd, 0, 0, ZERO, ZERO, ZERO, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 1, 1, 1));
}
END_TEST

START_TEST(S2_11_a_null_in_a_tag_is_a_varint_zero) {
    /* A peer may send what is the default. */
    span in = BYTES(2, 1, 0xfd, 0, 0, ZERO, ZERO, ZERO, 0, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0xff, 0xff, 2, 0, 1, 9, 5, 1, 0);
    struct rd r;
    struct k_toy_req m;
    rd_init(&r, span_of(in.p + 1, in.n - 1), &arena);
    ck_assert_int_eq(k_toy_req_get(&m, &r, 3), ERR_OK);
    ck_assert(m.tag_flag);                       /* S2.14: 9 is true */
    ck_assert_ptr_null(m.tag_cur);
    ck_assert_ptr_null(m.cursor);
    ck_assert_ptr_null(m.unknown);               /* both were known */
    ck_assert(m.flag);
}
END_TEST

START_TEST(tags_of_later_versions_are_unknown_and_kept) {
    struct k_toy_req m = full();
    span v3 = encode(&m, 3);
    size_t inline_3 = sizeof((const uint8_t[]){INLINE_3});
    uint8_t *mixed = arena_alloc(&arena, v3.n + 64);         /* version 2 before the tags, version 3's tags behind */
    span v2 = BYTES(INLINE_2);
    memcpy(mixed, v2.p, v2.n);
    memcpy(mixed + v2.n, v3.p + inline_3, v3.n - inline_3);
    span in = span_of(mixed, v2.n + v3.n - inline_3);
    struct rd r;
    rd_init(&r, in, &arena);
    ck_assert_int_eq(k_toy_req_get(&m, &r, 2), ERR_OK);
    ck_assert_uint_eq(m.unknown->tag, 7);
    ck_assert_uint_eq(m.tag_recs.n, 0);
    ck_assert(span_eq(encode(&m, 2), in));
}
END_TEST

START_TEST(everything_is_printed) {
    struct k_toy_req m = full();
    struct str s;
    str_init(&s, 4096);
    k_toy_req_print(&m, &s);
    ck_assert_str_eq(s.p, "{flag=true small=7 port=65534 big=1 ratio=0.5 id=AQIDBAUGBwgJCgsMDQ4PEA label='L' blob=<1> names=[2: 'n' ''] blobs=[0:] "
                          "point={x=5 y=6} cursor={at=9} late={at=9} tag_flag=false tag_text='t' tag_list=[2: 1 -1] tag_point={x=8 y=0} "
                          "tag_cur={at=9} tag_id=AQIDBAUGBwgJCgsMDQ4PEA tag_recs=<1>}");
    str_done(&s);
}
END_TEST

int main(void) {
    const TTest *const tests[] = {old_versions_have_less, flexible_versions_end_every_struct_with_tags, nulls_and_defaults,
                                  S2_11_a_null_in_a_tag_is_a_varint_zero, tags_of_later_versions_are_unknown_and_kept, everything_is_printed};
    TCase *tc = tcase_create("toy");
    tcase_add_checked_fixture(tc, start, finish);
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        tcase_add_test(tc, tests[i]);
    }
    return run_suite("toy", tc);
}
