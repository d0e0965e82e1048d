/* Base-128 integers, least significant group first; signed ones are zigzagged.
 *
 * Happy path: one or two bytes. The shortest form is written; longer forms that stay within the byte limit are read, as other
 * encoders write them.
 * Failure modes: input that ends early, has a sixth (eleventh) byte, or sets bits beyond the type's width gives 0.
 * Runs on: any thread. */
#include "base/varint.h"

static size_t get(const uint8_t *p, size_t n, unsigned width, uint64_t *ret) {
    uint64_t v = 0;
    unsigned shift = 0;
    for (size_t i = 0; i < n && shift < width; i++, shift += 7) {
        uint64_t group = p[i] & 0x7f;
        if (width - shift < 7 && group >> (width - shift) != 0) {
            return 0;
        }
        v |= group << shift;
        if (p[i] < 0x80) {
            *ret = v;
            return i + 1;
        }
    }
    return 0;
}

static size_t put(uint8_t *p, uint64_t v) {
    size_t n = 0;
    while (v >= 0x80) {
        p[n++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    p[n++] = (uint8_t)v;
    return n;
}

static size_t len(uint64_t v) {
    unsigned bits = 64 - (unsigned)__builtin_clzll(v | 1);
    return (bits + 6) / 7;
}

static uint32_t zig32(int32_t v) {
    return (uint32_t)v << 1 ^ (v < 0 ? UINT32_MAX : 0);
}

static uint64_t zig64(int64_t v) {
    return (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0);
}

size_t varint_get_u32(const uint8_t *p, size_t n, uint32_t *ret) {
    uint64_t v;
    size_t used = get(p, n, 32, &v);
    if (used > 0) {
        *ret = (uint32_t)v;
    }
    return used;
}

size_t varint_get_i32(const uint8_t *p, size_t n, int32_t *ret) {
    uint32_t v;
    size_t used = varint_get_u32(p, n, &v);
    if (used > 0) {
        *ret = (int32_t)(v >> 1 ^ (0 - (v & 1)));
    }
    return used;
}

size_t varint_get_i64(const uint8_t *p, size_t n, int64_t *ret) {
    uint64_t v;
    size_t used = get(p, n, 64, &v);
    if (used > 0) {
        *ret = (int64_t)(v >> 1 ^ (0 - (v & 1)));
    }
    return used;
}

size_t varint_put_u32(uint8_t *p, uint32_t v) {
    return put(p, v);
}

size_t varint_put_i32(uint8_t *p, int32_t v) {
    return put(p, zig32(v));
}

size_t varint_put_i64(uint8_t *p, int64_t v) {
    return put(p, zig64(v));
}

size_t varint_len_u32(uint32_t v) {
    return len(v);
}

size_t varint_len_i32(int32_t v) {
    return len(zig32(v));
}

size_t varint_len_i64(int64_t v) {
    return len(zig64(v));
}
