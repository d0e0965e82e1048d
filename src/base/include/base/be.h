/* Big-endian (Kafka's wire and files) and little-endian loads and stores on unaligned bytes. */
#pragma once

#include <string.h>

#include "base/types.h"

static inline uint16_t be16_get(const void *p) { uint16_t v; memcpy(&v, p, 2); return __builtin_bswap16(v); }
static inline uint32_t be32_get(const void *p) { uint32_t v; memcpy(&v, p, 4); return __builtin_bswap32(v); }
static inline uint64_t be64_get(const void *p) { uint64_t v; memcpy(&v, p, 8); return __builtin_bswap64(v); }
static inline void be16_put(void *p, uint16_t v) { v = __builtin_bswap16(v); memcpy(p, &v, 2); }
static inline void be32_put(void *p, uint32_t v) { v = __builtin_bswap32(v); memcpy(p, &v, 4); }
static inline void be64_put(void *p, uint64_t v) { v = __builtin_bswap64(v); memcpy(p, &v, 8); }
static inline uint32_t le32_get(const void *p) { uint32_t v; memcpy(&v, p, 4); return v; }
static inline void le32_put(void *p, uint32_t v) { memcpy(p, &v, 4); }
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "perigee runs on little-endian machines");
