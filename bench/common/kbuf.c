/* kbuf.c: writing and reading Kafka's fixed-width fields.
 *
 * Purpose: enough of the wire for the generator and the stub, both of which speak only versions before
 * the flexible ones (Produce 7, Fetch 11, Metadata 5, ListOffsets 2, CreateTopics 4, ApiVersions 0).
 * Happy path: a request is kbuf_begin, fields, kbuf_end; a reply is read through a kread.
 * Failure modes: a buffer above its ceiling dies; a short input sets `bad` and reads give zero.
 * Runs on: any thread; nothing is shared. */
#include "kbuf.h"

#include <stdlib.h>
#include <string.h>

#include "die.h"

uint16_t kbuf_get16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap16(v);
}

uint32_t kbuf_get32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap32(v);
}

uint64_t kbuf_get64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap64(v);
}

void kbuf_put16(uint8_t *p, uint16_t v) {
    v = __builtin_bswap16(v);
    memcpy(p, &v, sizeof v);
}

void kbuf_put32(uint8_t *p, uint32_t v) {
    v = __builtin_bswap32(v);
    memcpy(p, &v, sizeof v);
}

void kbuf_put64(uint8_t *p, uint64_t v) {
    v = __builtin_bswap64(v);
    memcpy(p, &v, sizeof v);
}

void kbuf_reserve(struct kbuf *b, size_t more) {
    if (b->cap - b->len >= more) {
        return;
    }
    size_t cap = b->cap ? b->cap * 2 : 512;
    while (cap < b->len + more) {
        cap *= 2;
    }
    if (cap > KBUF_BYTES_MAX) {
        die("buffer of %zu bytes is above its ceiling", cap);
    }
    uint8_t *p = realloc(b->p, cap);
    if (!p) {
        die("out of memory: %zu bytes", cap);
    }
    b->p = p;
    b->cap = cap;
}

void kbuf_done(struct kbuf *b) {
    free(b->p);
    *b = (struct kbuf){0};
}

void kbuf_i8(struct kbuf *b, int8_t v) {
    kbuf_reserve(b, 1);
    b->p[b->len++] = (uint8_t)v;
}

void kbuf_i16(struct kbuf *b, int16_t v) {
    kbuf_reserve(b, 2);
    kbuf_put16(b->p + b->len, (uint16_t)v);
    b->len += 2;
}

void kbuf_i32(struct kbuf *b, int32_t v) {
    kbuf_reserve(b, 4);
    kbuf_put32(b->p + b->len, (uint32_t)v);
    b->len += 4;
}

void kbuf_i64(struct kbuf *b, int64_t v) {
    kbuf_reserve(b, 8);
    kbuf_put64(b->p + b->len, (uint64_t)v);
    b->len += 8;
}

void kbuf_raw(struct kbuf *b, const void *p, size_t n) {
    kbuf_reserve(b, n);
    memcpy(b->p + b->len, p, n);
    b->len += n;
}

void kbuf_str(struct kbuf *b, const char *s) {
    if (!s) {
        kbuf_i16(b, -1);
        return;
    }
    size_t n = strlen(s);
    kbuf_i16(b, (int16_t)n);
    kbuf_raw(b, s, n);
}

void kbuf_begin(struct kbuf *b, int16_t api, int16_t version, int32_t correlation) {
    b->len = 0;
    kbuf_i32(b, 0);
    kbuf_i16(b, api);
    kbuf_i16(b, version);
    kbuf_i32(b, correlation);
    kbuf_str(b, "bench");
}

size_t kbuf_begin_reply(struct kbuf *b, int32_t correlation) {
    size_t at = b->len;
    kbuf_i32(b, 0);
    kbuf_i32(b, correlation);
    return at;
}

void kbuf_end(struct kbuf *b, size_t at) {
    kbuf_put32(b->p + at, (uint32_t)(b->len - at - 4));
}

struct kread kread_of(const uint8_t *p, size_t n) {
    return (struct kread){.p = p, .end = p + n};
}

static const uint8_t *kread_take(struct kread *r, size_t n) {
    if (r->bad || (size_t)(r->end - r->p) < n) {
        r->bad = true;
        return NULL;
    }
    const uint8_t *p = r->p;
    r->p += n;
    return p;
}

int8_t kread_i8(struct kread *r) {
    const uint8_t *p = kread_take(r, 1);
    return p ? (int8_t)*p : 0;
}

int16_t kread_i16(struct kread *r) {
    const uint8_t *p = kread_take(r, 2);
    return p ? (int16_t)kbuf_get16(p) : 0;
}

int32_t kread_i32(struct kread *r) {
    const uint8_t *p = kread_take(r, 4);
    return p ? (int32_t)kbuf_get32(p) : 0;
}

int64_t kread_i64(struct kread *r) {
    const uint8_t *p = kread_take(r, 8);
    return p ? (int64_t)kbuf_get64(p) : 0;
}

struct kspan kread_str(struct kread *r) {
    int16_t n = kread_i16(r);
    size_t len = n > 0 ? (size_t)n : 0;
    const uint8_t *p = kread_take(r, len);
    return p ? (struct kspan){p, len} : (struct kspan){0};
}

struct kspan kread_bytes(struct kread *r) {
    int32_t n = kread_i32(r);
    size_t len = n > 0 ? (size_t)n : 0;
    const uint8_t *p = kread_take(r, len);
    return p ? (struct kspan){p, len} : (struct kspan){0};
}

void kread_skip(struct kread *r, size_t n) {
    (void)kread_take(r, n);
}

int64_t kread_varint(struct kread *r) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint8_t *p = kread_take(r, 1);
        if (!p) {
            return 0;
        }
        v |= (uint64_t)(*p & 0x7f) << shift;
        if (!(*p & 0x80)) {
            return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
        }
    }
    r->bad = true;
    return 0;
}
