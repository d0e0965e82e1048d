/* Reading a Kafka message: a cursor with a sticky error. Generated code has no error branches; one check at the end. Quiet.
 *
 * Nonsense is: a value that goes past the end, a null where none is allowed, a length below -1, a varint that is too long, a count that
 * cannot be true, tags out of order or not as long as they say. All of it sets `bad`, and every further read gives zeros. */
#pragma once

#include "base/arena.h"
#include "base/be.h"
#include "base/err.h"
#include "base/uuid.h"

struct rd {
    const uint8_t *p, *end;
    struct arena *arena;               /* arrays and unknown tags; spans point into the frame, nothing is copied */
    bool bad;                          /* nonsense, short, or out of memory: all further reads give zeros */
    bool nomem;
};

void rd_init(struct rd *r, span bytes, struct arena *a);
static inline size_t rd_left(const struct rd *r) { return (size_t)(r->end - r->p); }
/* OK, BAD_FRAME, or NOMEM (also at the arena's ceiling). */
err rd_status(const struct rd *r);
void rd_fail(struct rd *r);

/* n bytes, or NULL at the end (then bad). */
static inline const uint8_t *rd_take(struct rd *r, size_t n) {
    if (rd_left(r) < n) {
        rd_fail(r);
        return NULL;
    }
    const uint8_t *p = r->p;
    r->p += n;
    return p;
}

static inline int8_t rd_i8(struct rd *r) {
    const uint8_t *p = rd_take(r, 1);
    return p ? (int8_t)*p : 0;
}
static inline bool rd_bool(struct rd *r) { return rd_i8(r) != 0; }     /* any byte but 0 is true (S2.14) */
static inline uint16_t rd_u16(struct rd *r) {
    const uint8_t *p = rd_take(r, 2);
    return p ? be16_get(p) : 0;
}
static inline uint32_t rd_u32(struct rd *r) {
    const uint8_t *p = rd_take(r, 4);
    return p ? be32_get(p) : 0;
}
static inline uint64_t rd_u64(struct rd *r) {
    const uint8_t *p = rd_take(r, 8);
    return p ? be64_get(p) : 0;
}
static inline int16_t rd_i16(struct rd *r) { return (int16_t)rd_u16(r); }
static inline int32_t rd_i32(struct rd *r) { return (int32_t)rd_u32(r); }
static inline int64_t rd_i64(struct rd *r) { return (int64_t)rd_u64(r); }
double rd_f64(struct rd *r);
static inline uuid rd_uuid(struct rd *r) {
    uuid u = {{0}};
    const uint8_t *p = rd_take(r, sizeof u.b);
    if (p) {
        memcpy(u.b, p, sizeof u.b);
    }
    return u;
}

uint32_t rd_uvarint_long(struct rd *r);
/* At most 5 bytes (S2.13). */
static inline uint32_t rd_uvarint(struct rd *r) {
    if (r->p < r->end && *r->p < 0x80) {
        return *r->p++;
    }
    return rd_uvarint_long(r);
}

/* flex: lengths are varints of length + 1. null: SPAN_NULL is a possible answer. An empty value is never null. */
span rd_string(struct rd *r, bool flex, bool null);
span rd_bytes(struct rd *r, bool flex, bool null);

/* Number of elements that follow, -1 for null. Believed only if so many elements of `least` bytes fit into what is left (T52). */
int32_t rd_count(struct rd *r, bool flex, bool null, size_t least);
/* Memory for n elements, uninitialised; NULL for n <= 0 and (with bad) without memory. */
void *rd_array(struct rd *r, int32_t n, size_t element_bytes);
/* Marker before a struct that may be null: one signed byte, in a tag a varint (S2.11). */
bool rd_present(struct rd *r, bool in_tag);

/* Tagged fields. A section is read with
 *     rd_tags_open(&t, r);
 *     while (rd_tags_next(&t, r)) { read the field of t.tag, or rd_tags_keep; rd_tags_shut(&t, r); }
 * Between next and shut the cursor ends where the tag's bytes end. Unknown tags are kept, in order. */
struct rd_unknown {
    const struct rd_unknown *next;     /* ascending */
    uint32_t tag;
    span bytes;
};
struct rd_tags {
    uint32_t left, tag;
    int64_t last;                      /* tag before this one, -1 at first */
    const uint8_t *end;                /* of the whole message, while one tag is read */
    const struct rd_unknown *kept;
    const struct rd_unknown **kept_at;
};
void rd_tags_open(struct rd_tags *t, struct rd *r);
bool rd_tags_next(struct rd_tags *t, struct rd *r);
void rd_tags_keep(struct rd_tags *t, struct rd *r);
void rd_tags_shut(struct rd_tags *t, struct rd *r);
const struct rd_unknown *rd_unknown_long(struct rd *r);
/* A section in which no tag is known; NULL when it is empty, as nearly always. */
static inline const struct rd_unknown *rd_unknown(struct rd *r) {
    if (r->p < r->end && *r->p == 0) {
        r->p++;
        return NULL;
    }
    return rd_unknown_long(r);
}
