/* One record as it lies in the bytes of a batch.
 *
 * Happy path: length, attributes (unused), timestamp delta, offset delta, key, value, number of
 * headers, headers; nearly all the varints are one byte long and are read here, longer ones in
 * base.
 * Failure modes: any length that goes past what the one around it allows ends the reading with
 * false.
 * Runs on: any. */
#include "record_raw.h"

#include "base/varint.h"

struct cursor {
    const uint8_t *p, *end;
};

static size_t left(const struct cursor *c) {
    return (size_t)(c->end - c->p);
}

static inline bool take_i32(struct cursor *c, int32_t *ret) {
    if (c->p < c->end && *c->p < 0x80) {
        *ret = (*c->p >> 1) ^ -(*c->p & 1);
        c->p++;
        return true;
    }
    size_t used = varint_get_i32(c->p, left(c), ret);
    c->p += used;
    return used > 0;
}

/* A length, then so many bytes; -1 is null. */
static inline bool take_span(struct cursor *c, span *ret) {
    int32_t n;
    if (!take_i32(c, &n) || n < -1 || (n > 0 && (size_t)n > left(c))) {
        return false;
    }
    *ret = n < 0 ? SPAN_NULL : span_of(c->p, (size_t)n);
    c->p += n > 0 ? n : 0;
    return true;
}

static bool take_fields(struct cursor *c, struct record_raw *r) {
    if (left(c) == 0) {
        return false;
    }
    c->p++;                                      /* attributes: nothing is defined, nothing is checked */
    size_t used = varint_get_i64(c->p, left(c), &r->ts_delta);
    c->p += used;
    if (used == 0 || !take_i32(c, &r->delta) || !take_span(c, &r->key) || !take_span(c, &r->value) || !take_i32(c, &r->headers_n)) {
        return false;
    }
    r->headers = span_of(c->p, left(c));
    return r->headers_n >= 0 && (size_t)r->headers_n <= r->headers.n / 2;      /* a header takes two bytes at least */
}

bool record_raw_get(const uint8_t **p, const uint8_t *end, struct record_raw *ret_r) {
    struct cursor c = {*p, end};
    span body;
    struct record_raw r;
    if (!take_span(&c, &body) || span_is_null(body)) {
        return false;
    }
    struct cursor in = {body.p, body.p + body.n};
    if (!take_fields(&in, &r)) {
        return false;
    }
    *ret_r = r;
    *p = c.p;
    return true;
}
