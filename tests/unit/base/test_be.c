/* Goal: numbers on the wire have the stated byte order at any alignment. Method: known bytes, one past an aligned address. */
#include "base/be.h"

#include "run.h"

START_TEST(known_bytes) {
    uint8_t buf[16] = {0};
    uint8_t *p = buf + 1;
    be16_put(p, 0x0102);
    ck_assert_mem_eq(p, "\x01\x02", 2);
    ck_assert_uint_eq(be16_get(p), 0x0102);
    be32_put(p, 0x01020304);
    ck_assert_mem_eq(p, "\x01\x02\x03\x04", 4);
    ck_assert_uint_eq(be32_get(p), 0x01020304);
    be64_put(p, 0xf102030405060708u);
    ck_assert_mem_eq(p, "\xf1\x02\x03\x04\x05\x06\x07\x08", 8);
    ck_assert_uint_eq(be64_get(p), 0xf102030405060708u);
    le32_put(p, 0x01020304);
    ck_assert_mem_eq(p, "\x04\x03\x02\x01", 4);
    ck_assert_uint_eq(le32_get(p), 0x01020304);
}
END_TEST

int main(void) {
    return RUN("be", known_bytes);
}
