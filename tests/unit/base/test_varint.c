/* Goal: base-128 integers as Kafka writes them; long, short and overflowing input is refused (S2.13). Method: tables, every bit width
 * round trip, every truncation. */
#include "base/varint.h"

#include <string.h>

#include "base/prng.h"
#include "run.h"

START_TEST(known_bytes) {
    static const struct {
        int64_t v;
        size_t n;
        uint8_t bytes[VARLONG_MAX];
    } table[] = {
        {0, 1, {0x00}},
        {-1, 1, {0x01}},
        {1, 1, {0x02}},
        {63, 1, {0x7e}},
        {-64, 1, {0x7f}},
        {64, 2, {0x80, 0x01}},
        {-65, 2, {0x81, 0x01}},
        {8191, 2, {0xfe, 0x7f}},
        {8192, 3, {0x80, 0x80, 0x01}},
        {INT32_MAX, 5, {0xfe, 0xff, 0xff, 0xff, 0x0f}},
        {INT32_MIN, 5, {0xff, 0xff, 0xff, 0xff, 0x0f}},
        {INT64_MAX, 10, {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
        {INT64_MIN, 10, {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        uint8_t out[VARLONG_MAX];
        int64_t back;
        ck_assert_uint_eq(varint_put_i64(out, table[i].v), table[i].n);
        ck_assert_mem_eq(out, table[i].bytes, table[i].n);
        ck_assert_uint_eq(varint_len_i64(table[i].v), table[i].n);
        ck_assert_uint_eq(varint_get_i64(out, table[i].n, &back), table[i].n);
        ck_assert_int_eq(back, table[i].v);
        if (table[i].v >= INT32_MIN && table[i].v <= INT32_MAX) {
            int32_t back32;
            ck_assert_uint_eq(varint_put_i32(out, (int32_t)table[i].v), table[i].n);
            ck_assert_mem_eq(out, table[i].bytes, table[i].n);
            ck_assert_uint_eq(varint_get_i32(out, table[i].n, &back32), table[i].n);
            ck_assert_int_eq(back32, table[i].v);
        }
    }
}
END_TEST

/* Every width with random low bits: put, len and get agree; each proper prefix is incomplete and leaves the output alone. */
START_TEST(round_trip_of_every_width) {
    struct prng r;
    prng_seed(&r, 7);
    for (int i = 0; i < 1280; i++) {
        int64_t v = (int64_t)(prng_next(&r) >> (i % 64));
        if (i & 64) {
            v = -v;
        }
        uint8_t out[VARLONG_MAX];
        int64_t back = 42;
        size_t n = varint_put_i64(out, v);
        ck_assert_uint_eq(n, varint_len_i64(v));
        for (size_t cut = 0; cut < n; cut++) {
            ck_assert_uint_eq(varint_get_i64(out, cut, &back), 0);
            ck_assert_int_eq(back, 42);
        }
        ck_assert_uint_eq(varint_get_i64(out, sizeof out, &back), n);
        ck_assert_int_eq(back, v);

        uint32_t u = (uint32_t)v, uback = 42;
        int32_t s = (int32_t)u, sback;
        n = varint_put_u32(out, u);
        ck_assert_uint_eq(n, varint_len_u32(u));
        ck_assert_uint_eq(varint_get_u32(out, n - 1, &uback), 0);
        ck_assert_uint_eq(uback, 42);
        ck_assert_uint_eq(varint_get_u32(out, n, &uback), n);
        ck_assert_uint_eq(uback, u);
        n = varint_put_i32(out, s);
        ck_assert_uint_eq(n, varint_len_i32(s));
        ck_assert_uint_eq(varint_get_i32(out, n, &sback), n);
        ck_assert_int_eq(sback, s);
    }
}
END_TEST

/* S2.13: longer than 5 (10) bytes, or bits beyond the width. */
START_TEST(refused) {
    static const struct {
        const char *bytes;
        size_t n, used32, used64;
    } table[] = {
        {"", 0, 0, 0},
        {"\x80", 1, 0, 0},
        {"\x80\x00", 2, 2, 2},                                             /* not the shortest form, but complete */
        {"\x80\x80\x80\x80\x00", 5, 5, 5},
        {"\xff\xff\xff\xff\x0f", 5, 5, 5},
        {"\xff\xff\xff\xff\x10", 5, 0, 5},                                 /* bit 32 */
        {"\x80\x80\x80\x80\x80\x00", 6, 0, 6},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10, 0, 10},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10, 0, 0},            /* bit 64 */
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x00", 11, 0, 0},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const uint8_t *p = (const uint8_t *)table[i].bytes;
        uint32_t u;
        int32_t s;
        int64_t l;
        ck_assert_uint_eq(varint_get_u32(p, table[i].n, &u), table[i].used32);
        ck_assert_uint_eq(varint_get_i32(p, table[i].n, &s), table[i].used32);
        ck_assert_uint_eq(varint_get_i64(p, table[i].n, &l), table[i].used64);
    }
}
END_TEST

int main(void) {
    return RUN("varint", known_bytes, round_trip_of_every_width, refused);
}
