#pragma once
/* kbuf.h: the few Kafka wire primitives the benches need (fixed-width, non-flexible versions only). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KBUF_BYTES_MAX = 256 << 20 }; /* ceiling of any buffer here: one frame */

/* A growing output buffer. Owned by whoever declared it; kbuf_done frees it. */
struct kbuf {
    uint8_t *p;
    size_t len, cap;
};

void kbuf_reserve(struct kbuf *b, size_t more); /* room for `more` bytes after len, or die */
void kbuf_done(struct kbuf *b);
void kbuf_i8(struct kbuf *b, int8_t v);
void kbuf_i16(struct kbuf *b, int16_t v);
void kbuf_i32(struct kbuf *b, int32_t v);
void kbuf_i64(struct kbuf *b, int64_t v);
void kbuf_str(struct kbuf *b, const char *s); /* int16 length; NULL writes the null string */
void kbuf_raw(struct kbuf *b, const void *p, size_t n);

/* Starts a request frame: int32 length (patched by kbuf_end), request header v1 with client id "bench". */
void kbuf_begin(struct kbuf *b, int16_t api, int16_t version, int32_t correlation);
/* Starts a response frame: int32 length, response header v0. Returns where the frame starts. */
size_t kbuf_begin_reply(struct kbuf *b, int32_t correlation);
/* Patches the length of the frame that starts at `at`. */
void kbuf_end(struct kbuf *b, size_t at);

/* A borrowed input. After a short read `bad` is set and every later read gives 0. */
struct kread {
    const uint8_t *p, *end;
    bool bad;
};

struct kspan {
    const uint8_t *p;
    size_t n;
};

struct kread kread_of(const uint8_t *p, size_t n);
int8_t kread_i8(struct kread *r);
int16_t kread_i16(struct kread *r);
int32_t kread_i32(struct kread *r);
int64_t kread_i64(struct kread *r);
struct kspan kread_str(struct kread *r);   /* int16 length; null and empty both give n = 0 */
struct kspan kread_bytes(struct kread *r); /* int32 length */
void kread_skip(struct kread *r, size_t n);
int64_t kread_varint(struct kread *r); /* zigzag */

/* Big-endian at a place. */
uint16_t kbuf_get16(const uint8_t *p);
uint32_t kbuf_get32(const uint8_t *p);
uint64_t kbuf_get64(const uint8_t *p);
void kbuf_put16(uint8_t *p, uint16_t v);
void kbuf_put32(uint8_t *p, uint32_t v);
void kbuf_put64(uint8_t *p, uint64_t v);
