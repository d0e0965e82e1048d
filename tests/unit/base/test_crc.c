/* Goal: CRC-32C as Kafka stores it. Method: published vectors (RFC 3720 B.4) and a bit-by-bit twin over every length and cut. */
#include "base/crc.h"

#include "base/prng.h"
#include "run.h"

static uint32_t slow(const uint8_t *p, size_t n) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
        }
    }
    return ~crc;
}

START_TEST(published_vectors) {
    uint8_t buf[32] = {0};
    ck_assert_uint_eq(crc32c("123456789", 9), 0xe3069283u);
    ck_assert_uint_eq(crc32c("", 0), 0);
    ck_assert_uint_eq(crc32c(buf, 32), 0x8a9136aau);
    for (unsigned i = 0; i < 32; i++) {
        buf[i] = 0xff;
    }
    ck_assert_uint_eq(crc32c(buf, 32), 0x62a8ab43u);
    for (unsigned i = 0; i < 32; i++) {
        buf[i] = (uint8_t)i;
    }
    ck_assert_uint_eq(crc32c(buf, 32), 0x46dd794eu);
}
END_TEST

START_TEST(like_the_slow_one_in_any_pieces) {
    uint8_t buf[700];
    struct prng r;
    prng_seed(&r, 3);
    prng_bytes(&r, buf, sizeof buf);
    for (size_t n = 0; n <= sizeof buf; n++) {
        size_t cut = prng_below(&r, n + 1);
        uint32_t want = slow(buf, n);
        ck_assert_uint_eq(crc32c(buf, n), want);
        ck_assert_uint_eq(crc32c_more(crc32c_more(0, buf, cut), buf + cut, n - cut), want);
    }
}
END_TEST

int main(void) {
    return RUN("crc", published_vectors, like_the_slow_one_in_any_pieces);
}
