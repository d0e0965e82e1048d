/* Base-128 integers. Readers take at most 5 (32-bit) or 10 (64-bit) bytes and refuse longer ones (semantics 2.13). */
#pragma once

#include "base/types.h"

#define VARINT_MAX 5
#define VARLONG_MAX 10

/* Each returns the bytes consumed, 0 when [p, p+n) holds no complete valid number. */
size_t varint_get_u32(const uint8_t *p, size_t n, uint32_t *ret);
size_t varint_get_i32(const uint8_t *p, size_t n, int32_t *ret);   /* zigzag */
size_t varint_get_i64(const uint8_t *p, size_t n, int64_t *ret);   /* zigzag */
/* Each writes and returns 1..5 (1..10) bytes. */
size_t varint_put_u32(uint8_t *p, uint32_t v);
size_t varint_put_i32(uint8_t *p, int32_t v);
size_t varint_put_i64(uint8_t *p, int64_t v);
size_t varint_len_u32(uint32_t v);
size_t varint_len_i32(int32_t v);
size_t varint_len_i64(int64_t v);
