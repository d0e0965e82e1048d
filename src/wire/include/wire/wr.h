/* Writing a Kafka message into a chain: small fields to ink, big spans lent (with their chunk). Sticky error in the chain. Quiet.
 *
 * Strings are always copied. `bytes` and `records` are copied up to 128 bytes and lent above: they must lie in wr.chunk, or outlive the
 * chain where that is NULL. Never null is written where the schema has none: a null becomes an empty value. */
#pragma once

#include "base/be.h"
#include "base/chain.h"
#include "base/uuid.h"
#include "wire/rd.h"

#define WR_LEND_MIN 129                /* spans up to 128 bytes are copied, longer ones lent */

struct wr {
    struct chain *out;                 /* NULL: nothing is written, sizes are added up in `measured` */
    size_t measured;
    struct chunk *chunk;               /* where lent spans lie; a reference is taken per span. NULL: they outlive the chain */
};

static inline struct wr wr_to(struct chain *out) { return (struct wr){.out = out}; }
static inline struct wr wr_measure(void) { return (struct wr){.out = NULL}; }

/* n bytes of ink to fill, or NULL (measuring, or no memory). What nearly always happens, the last node growing in
 * its block, happens here; the rest is chain_ink's. */
static inline uint8_t *wr_room(struct wr *w, size_t n) {
    struct chain *c = w->out;
    if (!c) {
        w->measured += n;
        return NULL;
    }
    struct chain_node *t = c->tail;
    if (n > c->ink_room || !t || t->chunk || t->p + t->n != c->ink_end || c->bad) {
        return chain_ink(c, n);
    }
    uint8_t *p = c->ink_end;
    t->n += n;
    c->bytes += n;
    c->ink_end += n;
    c->ink_room -= n;
    return p;
}

static inline void wr_i8(struct wr *w, int8_t x) {
    uint8_t *p = wr_room(w, 1);
    if (p) {
        *p = (uint8_t)x;
    }
}
static inline void wr_bool(struct wr *w, bool x) { wr_i8(w, x ? 1 : 0); }
static inline void wr_u16(struct wr *w, uint16_t x) {
    uint8_t *p = wr_room(w, 2);
    if (p) {
        be16_put(p, x);
    }
}
static inline void wr_u32(struct wr *w, uint32_t x) {
    uint8_t *p = wr_room(w, 4);
    if (p) {
        be32_put(p, x);
    }
}
static inline void wr_u64(struct wr *w, uint64_t x) {
    uint8_t *p = wr_room(w, 8);
    if (p) {
        be64_put(p, x);
    }
}
static inline void wr_i16(struct wr *w, int16_t x) { wr_u16(w, (uint16_t)x); }
static inline void wr_i32(struct wr *w, int32_t x) { wr_u32(w, (uint32_t)x); }
static inline void wr_i64(struct wr *w, int64_t x) { wr_u64(w, (uint64_t)x); }
void wr_f64(struct wr *w, double x);
void wr_uuid(struct wr *w, uuid u);
void wr_uvarint(struct wr *w, uint32_t x);

void wr_string(struct wr *w, span s, bool flex, bool null);      /* above 32767 bytes the chain goes bad */
void wr_bytes(struct wr *w, span s, bool flex, bool null);
/* Record bytes: the span, or where `pieces` is not NULL those, which are moved into the chain and left empty (chain_join). */
void wr_records(struct wr *w, span s, struct chain *pieces, bool flex, bool null);
void wr_count(struct wr *w, int32_t n, bool flex, bool null);    /* -1: null */
void wr_present(struct wr *w, bool there, bool in_tag);

/* Tagged fields: known ones in ascending order, with the unknown ones of the former reader between them.
 *     wr_tags_open(&t, w, unknown, known_n); per known one: wr_tags_known(&t, w, tag, size), then its bytes; wr_tags_shut(&t, w) */
struct wr_tags {
    const struct rd_unknown *unknown;  /* not yet written */
};
void wr_tags_open(struct wr_tags *t, struct wr *w, const struct rd_unknown *unknown, uint32_t known_n);
void wr_tags_known(struct wr_tags *t, struct wr *w, uint32_t tag, size_t bytes);
void wr_tags_shut(struct wr_tags *t, struct wr *w);
/* A section without known tags. */
void wr_unknown(struct wr *w, const struct rd_unknown *unknown);
