/* Writing a Kafka message, the less hot half of wr.h.
 *
 * Happy path: ink for all small fields, a lent node for record bytes.
 * Failure modes: no memory, or a value that its length field cannot say, makes the chain bad;
 * whoever writes checks chain_ok once. A writer without a chain only measures: that is how the size
 * before a tagged field is known.
 * Runs on: whoever holds the request. */
#include "wire/wr.h"

#include "base/varint.h"

static void fail(struct wr *w) {
    if (w->out) {
        w->out->bad = true;
    }
}

void wr_f64(struct wr *w, double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    wr_u64(w, bits);
}

void wr_uuid(struct wr *w, uuid u) {
    uint8_t *p = wr_room(w, sizeof u.b);
    if (p) {
        memcpy(p, u.b, sizeof u.b);
    }
}

void wr_uvarint(struct wr *w, uint32_t x) {
    uint8_t *p = wr_room(w, x < 0x80 ? 1 : varint_len_u32(x));
    if (p) {
        (void)varint_put_u32(p, x);              /* as long as was asked for */
    }
}

/* n < 0: null. */
static void length(struct wr *w, int64_t n, bool flex, bool wide) {
    if (n > (wide ? INT32_MAX - 1 : INT16_MAX)) {
        fail(w);
    } else if (flex) {
        wr_uvarint(w, (uint32_t)(n + 1));
    } else if (wide) {
        wr_i32(w, (int32_t)n);
    } else {
        wr_i16(w, (int16_t)n);
    }
}

static void span_length(struct wr *w, span s, bool flex, bool wide, bool null) {
    length(w, null && span_is_null(s) ? -1 : (int64_t)s.n, flex, wide);
}

static void copy(struct wr *w, span s) {
    if (!w->out) {
        w->measured += s.n;
    } else {
        chain_copy(w->out, s);
    }
}

void wr_string(struct wr *w, span s, bool flex, bool null) {
    span_length(w, s, flex, /* wide= */ false, null);
    copy(w, s);
}

void wr_bytes(struct wr *w, span s, bool flex, bool null) {
    span_length(w, s, flex, /* wide= */ true, null);
    if (w->out && s.n >= WR_LEND_MIN) {
        chain_lend(w->out, s, w->chunk);
    } else {
        copy(w, s);
    }
}

/* The ink that is left stays in use: pieces carry none, or less. */
static void join(struct chain *out, struct chain *pieces) {
    uint8_t *ink_end = out->ink_end;
    size_t ink_room = out->ink_room;
    chain_join(out, pieces);
    if (ink_room > out->ink_room) {
        out->ink_end = ink_end;
        out->ink_room = ink_room;
    }
}

void wr_records(struct wr *w, span s, struct chain *pieces, bool flex, bool null) {
    if (!pieces) {
        wr_bytes(w, s, flex, null);
        return;
    }
    length(w, (int64_t)pieces->bytes, flex, /* wide= */ true);
    if (!w->out) {
        w->measured += pieces->bytes;
    } else {
        join(w->out, pieces);
    }
}

void wr_count(struct wr *w, int32_t n, bool flex, bool null) {
    length(w, n >= 0 ? n : null ? -1 : 0, flex, /* wide= */ true);
}

void wr_present(struct wr *w, bool there, bool in_tag) {
    if (in_tag) {
        wr_uvarint(w, there ? 1 : 0);
    } else {
        wr_i8(w, there ? 1 : -1);
    }
}

static void unknown_below(struct wr_tags *t, struct wr *w, uint64_t tag) {
    for (; t->unknown && t->unknown->tag < tag; t->unknown = t->unknown->next) {
        wr_uvarint(w, t->unknown->tag);
        wr_uvarint(w, (uint32_t)t->unknown->bytes.n);
        copy(w, t->unknown->bytes);
    }
}

void wr_tags_open(struct wr_tags *t, struct wr *w, const struct rd_unknown *unknown, uint32_t known_n) {
    t->unknown = unknown;
    for (const struct rd_unknown *u = unknown; u; u = u->next) {
        known_n++;
    }
    wr_uvarint(w, known_n);
}

void wr_tags_known(struct wr_tags *t, struct wr *w, uint32_t tag, size_t bytes) {
    unknown_below(t, w, tag);
    wr_uvarint(w, tag);
    if (bytes > INT32_MAX) {
        fail(w);
        return;
    }
    wr_uvarint(w, (uint32_t)bytes);
}

void wr_tags_shut(struct wr_tags *t, struct wr *w) {
    unknown_below(t, w, UINT64_MAX);
}

void wr_unknown(struct wr *w, const struct rd_unknown *unknown) {
    struct wr_tags t;
    wr_tags_open(&t, w, unknown, 0);
    wr_tags_shut(&t, w);
}
