/* A look at each record of a batch without holding it.
 *
 * Happy path: before each number ten bytes are made to lie in a row, if there are so many; what is
 * not looked at is skipped, piece after piece.
 * Failure modes: a batch that unpacks to nonsense, to too much or not at all ends the scan with its
 * err; what was seen before stands.
 * Runs on: any. */
#include "wire/record_scan.h"

#include <string.h>

#include "base/mem.h"
#include "base/varint.h"

#define SCAN_BYTES ((size_t)64 << 10)

err record_scan_init(struct record_scan *s, span batch, size_t unzip_max) {
    struct record_scan scan = {.n = 0};
    err e = batch_head_get(batch, &scan.head);
    if (e) {
        return e;
    }
    span records = span_of(batch.p + BATCH_HEAD_BYTES, scan.head.bytes - BATCH_HEAD_BYTES);
    if (batch_codec(&scan.head) == CODEC_NONE) {
        scan.p = records.p;
        scan.end = records.p + records.n;
    } else {
        e = zip_stream_init(&scan.z, batch_codec(&scan.head), records, unzip_max);
        if (e) {
            return e;
        }
        scan.p = scan.end = scan.buf = mem_alloc(MEM_ARENA, SCAN_BYTES);
        if (!scan.buf) {
            zip_stream_done(&scan.z);
            return ERR_NOMEM;
        }
    }
    *s = scan;
    return ERR_OK;
}

err record_scan_tap(struct record_scan *s, err (*tap)(void *u, span piece), void *u) {
    if (!s->buf) {
        return tap(u, span_of(s->p, (size_t)(s->end - s->p)));
    }
    s->tap = tap;
    s->tap_u = u;
    return ERR_OK;
}

void record_scan_done(struct record_scan *s) {
    zip_stream_done(&s->z);
    mem_free(s->buf);
    s->buf = NULL;
}

static size_t in_a_row(const struct record_scan *s) {
    return (size_t)(s->end - s->p);
}

static const char *text_of(err e) {
    switch (e) {
    case ERR_LIMIT:
        return "the batch unpacks to more than this broker looks through";
    case ERR_NOMEM:
        return "no memory to unpack the batch";
    case ERR_BATCH_TOO_LARGE:
        return "the batch is larger than the topic's max.message.bytes once it is packed as compression.type says";
    case ERR_CANCELLED:
        return "the broker stops";
    default:
        return "the batch cannot be unpacked";
    }
}

static bool fail(struct record_scan *s, err e, const char *why) {
    if (s->err == ERR_OK) {                      /* the first reason is the reason */
        s->err = e;
        s->why = why;
    }
    s->over = true;
    return false;
}

/* Unpack more: a number's bytes in a row, if there are so many. */
static void fill(struct record_scan *s) {
    size_t have = in_a_row(s), got = 0;
    if (!s->buf || s->z.ended || s->over) {
        return;
    }
    if (have > 0) {
        memmove(s->buf, s->p, have);
    }
    err e = zip_stream_read(&s->z, s->buf + have, SCAN_BYTES - have, &got);
    if (!e && s->tap && got > 0) {
        e = s->tap(s->tap_u, span_of(s->buf + have, got));
    }
    if (e) {
        fail(s, e, text_of(e));
    }
    s->p = s->buf;
    s->end = s->buf + have + got;
}

static size_t number_bytes(struct record_scan *s) {
    if (in_a_row(s) < VARLONG_MAX) {
        fill(s);
    }
    return in_a_row(s) < s->left ? in_a_row(s) : s->left;
}

static bool took(struct record_scan *s, size_t used) {
    s->p += used;
    s->left -= used;
    return used > 0;
}

static bool take_i32(struct record_scan *s, int32_t *ret) {
    size_t n = number_bytes(s);
    return took(s, varint_get_i32(s->p, n, ret));
}

static bool take_i64(struct record_scan *s, int64_t *ret) {
    size_t n = number_bytes(s);
    return took(s, varint_get_i64(s->p, n, ret));
}

static bool skip(struct record_scan *s, size_t n) {
    if (n > s->left) {
        return false;
    }
    s->left -= n;
    while (n > 0) {
        if (in_a_row(s) == 0) {
            fill(s);
        }
        size_t step = n < in_a_row(s) ? n : in_a_row(s);
        if (step == 0) {
            return false;
        }
        s->p += step;
        n -= step;
    }
    return true;
}

/* A length of at least `least`, and so many bytes; -1 is null. */
static bool skip_part(struct record_scan *s, int32_t least, int32_t *ret_n) {
    return take_i32(s, ret_n) && *ret_n >= least && skip(s, *ret_n > 0 ? (size_t)*ret_n : 0);
}

static bool skip_headers(struct record_scan *s, int32_t count) {
    for (int32_t i = 0, n; i < count; i++) {     /* each takes bytes, so a lie ends with the record */
        if (!skip_part(s, 0, &n) || !skip_part(s, -1, &n)) {
            return false;
        }
    }
    return count >= 0 && s->left == 0;
}

static bool take_record(struct record_scan *s, struct record_seen *r, int64_t *ret_ts_delta) {
    int32_t n;
    s->left = SIZE_MAX;
    if (!take_i32(s, &n) || n < 0) {
        return false;
    }
    s->left = (size_t)n;
    return skip(s, 1) &&                         /* attributes: nothing is defined, nothing is checked */
           take_i64(s, ret_ts_delta) && take_i32(s, &r->delta) && skip_part(s, -1, &r->key_bytes) && skip_part(s, -1, &r->value_bytes) &&
           take_i32(s, &r->headers_n) && skip_headers(s, r->headers_n);
}

/* Does a byte come? Also what makes the stream show that it ends soundly. */
static bool goes_on(struct record_scan *s) {
    if (in_a_row(s) == 0) {
        fill(s);
    }
    return in_a_row(s) > 0;
}

bool record_scan_next(struct record_scan *s, struct record_seen *ret_r) {
    struct record_seen r;
    int64_t ts_delta;
    if (s->over) {
        return false;
    }
    if (s->n >= s->head.count) {
        s->over = !goes_on(s);
        return s->over ? false : fail(s, ERR_BAD_RECORD, "bytes behind the last record");
    }
    if (!goes_on(s)) {
        return fail(s, ERR_BAD_RECORD, "fewer records than counted");
    }
    if (!take_record(s, &r, &ts_delta)) {
        return fail(s, ERR_BAD_RECORD, "malformed record");
    }
    if (s->over) {                               /* the stream broke behind it */
        return false;
    }
    if (r.delta < 0 || r.delta > s->head.last_offset_delta) {
        return fail(s, ERR_BAD_RECORD, "offset delta outside the batch");
    }
    bool append_time = s->head.attributes & BATCH_ATTR_LOG_APPEND_TIME;
    r.offset = (off64)((uint64_t)s->head.base_offset + (uint64_t)r.delta);
    r.ts_ms = append_time ? s->head.max_ts_ms : (ms)((uint64_t)s->head.base_ts_ms + (uint64_t)ts_delta);     /* wraps: both may be lies */
    s->n++;
    *ret_r = r;
    return true;
}
