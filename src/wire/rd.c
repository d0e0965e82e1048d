/* Reading a Kafka message, the less hot half of rd.h.
 *
 * Happy path: lengths are checked against what is left, then a span into the frame is handed out.
 * Failure modes: rd_fail moves the cursor to the end, so that every later read finds nothing and
 * gives zeros; whoever reads checks once, with rd_status. Memory is asked for only after the count
 * was found possible.
 * Runs on: any. */
#include "wire/rd.h"

#include "base/limits.h"
#include "base/varint.h"

#define RD_STRING_MAX INT16_MAX          /* also in flexible versions, where the length could say more */

void rd_init(struct rd *r, span bytes, struct arena *a) {
    span s = span_is_null(bytes) ? SPAN_LIT("") : bytes;
    *r = (struct rd){.p = s.p, .end = s.p + s.n, .arena = a};
}

err rd_status(const struct rd *r) {
    return r->nomem ? ERR_NOMEM : r->bad ? ERR_BAD_FRAME : ERR_OK;
}

void rd_fail(struct rd *r) {
    r->bad = true;
    r->p = r->end;
}

double rd_f64(struct rd *r) {
    uint64_t bits = rd_u64(r);
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

uint32_t rd_uvarint_long(struct rd *r) {
    uint32_t v = 0;
    size_t used = varint_get_u32(r->p, rd_left(r), &v);
    if (used == 0) {
        rd_fail(r);
        return 0;
    }
    r->p += used;
    return v;
}

/* A length or count as int64, -1 for null; wide: int32, else int16. Nonsense gives 0 and bad. */
static int64_t length(struct rd *r, bool flex, bool wide, bool null) {
    int64_t n = flex ? (int64_t)rd_uvarint(r) - 1 : wide ? rd_i32(r) : rd_i16(r);
    if (r->bad) {
        return 0;
    }
    if (n < -1 || (n == -1 && !null)) {
        rd_fail(r);
        return 0;
    }
    return n;
}

static span take_span(struct rd *r, int64_t n) {
    if (n < 0) {
        return SPAN_NULL;
    }
    const uint8_t *p = rd_take(r, (size_t)n);
    return p ? span_of(p, (size_t)n) : SPAN_LIT("");
}

span rd_string(struct rd *r, bool flex, bool null) {
    int64_t n = length(r, flex, /* wide= */ false, null);
    if (n > RD_STRING_MAX) {
        rd_fail(r);
        n = 0;
    }
    return take_span(r, n);
}

span rd_bytes(struct rd *r, bool flex, bool null) {
    return take_span(r, length(r, flex, /* wide= */ true, null));
}

int32_t rd_count(struct rd *r, bool flex, bool null, size_t least) {
    int64_t n = length(r, flex, /* wide= */ true, null);
    if (n > 0 && (uint64_t)n > rd_left(r) / least) {
        rd_fail(r);
        return 0;
    }
    return (int32_t)n;
}

void *rd_array(struct rd *r, int32_t n, size_t element_bytes) {
    if (n <= 0 || r->bad) {
        return NULL;
    }
    void *p = arena_alloc(r->arena, (size_t)n * element_bytes);
    if (!p) {
        r->nomem = true;
        rd_fail(r);
    }
    return p;
}

bool rd_present(struct rd *r, bool in_tag) {
    return in_tag ? rd_uvarint(r) != 0 : rd_i8(r) > 0;
}

void rd_tags_open(struct rd_tags *t, struct rd *r) {
    *t = (struct rd_tags){.left = rd_uvarint(r), .last = -1};
    t->kept_at = &t->kept;
    if (t->left > LIMIT_TAGS || t->left > rd_left(r) / 2) {        /* a tag takes two bytes at least */
        rd_fail(r);
    }
}

bool rd_tags_next(struct rd_tags *t, struct rd *r) {
    if (t->left == 0 || r->bad) {
        return false;
    }
    t->left--;
    t->tag = rd_uvarint(r);
    uint32_t n = rd_uvarint(r);
    if (r->bad || t->tag <= t->last || n > rd_left(r)) {
        rd_fail(r);
        return false;
    }
    t->last = t->tag;
    t->end = r->end;
    r->end = r->p + n;
    return true;
}

void rd_tags_keep(struct rd_tags *t, struct rd *r) {
    struct rd_unknown *u = rd_array(r, 1, sizeof *u);
    if (u) {
        size_t n = rd_left(r);
        *u = (struct rd_unknown){.tag = t->tag, .bytes = span_of(rd_take(r, n), n)};
        *t->kept_at = u;
        t->kept_at = &u->next;
    }
}

void rd_tags_shut(struct rd_tags *t, struct rd *r) {
    if (r->p != r->end) {                                          /* longer than its field */
        r->bad = true;
    }
    r->end = t->end;
    if (r->bad) {
        rd_fail(r);
    }
}

const struct rd_unknown *rd_unknown_long(struct rd *r) {
    struct rd_tags t;
    rd_tags_open(&t, r);
    while (rd_tags_next(&t, r)) {
        rd_tags_keep(&t, r);
        rd_tags_shut(&t, r);
    }
    return t.kept;
}
