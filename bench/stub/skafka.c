/* skafka.c: just enough Kafka for the generator to see a broker.
 *
 * Purpose: the same load drives the stub and a real broker, so the stub must speak the same requests, and no more.
 * Happy path: header, then one function per API; Produce checks the CRC of each batch and appends; Fetch reads from
 * the page cache or parks.
 * Failure modes: a short or foreign request is refused (the connection is closed); a bad CRC answers 2, an
 * unknown partition 3.
 * Runs on: the loop's thread. */
#include "skafka.h"

#include <string.h>

#include "../common/batch.h"

struct skafka_head {
    int16_t api, version;
    int32_t correlation;
};

static const struct {
    int16_t api, version;
} skafka_apis[] = {
    {0, 7}, {1, 11}, {2, 2}, {3, 5}, {18, 0}, {19, 4}, {20, 1}, {22, 1},
};
enum { SKAFKA_APIS = sizeof skafka_apis / sizeof skafka_apis[0] };

static void skafka_api_versions(struct kbuf *out) {
    kbuf_i16(out, 0);
    kbuf_i32(out, SKAFKA_APIS);
    for (unsigned i = 0; i < SKAFKA_APIS; i++) {
        kbuf_i16(out, skafka_apis[i].api);
        kbuf_i16(out, skafka_apis[i].version);
        kbuf_i16(out, skafka_apis[i].version);
    }
}

static bool skafka_is_topic(const struct skafka *sk, struct kspan name) {
    return sk->topic[0] && name.n == strlen(sk->topic) && memcmp(name.p, sk->topic, name.n) == 0;
}

static void skafka_put_name(struct kbuf *out, struct kspan name) {
    kbuf_i16(out, (int16_t)name.n);
    kbuf_raw(out, name.p, name.n);
}

static void skafka_metadata_topic(const struct skafka *sk, struct kbuf *out, struct kspan name) {
    bool known = skafka_is_topic(sk, name);
    unsigned n = known ? sk->lg->part_n : 0;
    kbuf_i16(out, known ? 0 : 3);
    skafka_put_name(out, name);
    kbuf_i8(out, 0);
    kbuf_i32(out, (int32_t)n);
    for (unsigned i = 0; i < n; i++) {
        kbuf_i16(out, 0);
        kbuf_i32(out, (int32_t)i);
        kbuf_i32(out, 0); /* leader */
        kbuf_i32(out, 1); /* replicas */
        kbuf_i32(out, 0);
        kbuf_i32(out, 1); /* in sync */
        kbuf_i32(out, 0);
        kbuf_i32(out, 0); /* offline */
    }
}

static void skafka_metadata(const struct skafka *sk, struct kread *r, struct kbuf *out) {
    kbuf_i32(out, 0);
    kbuf_i32(out, 1);
    kbuf_i32(out, 0);
    kbuf_str(out, "127.0.0.1");
    kbuf_i32(out, sk->port);
    kbuf_str(out, NULL);
    kbuf_str(out, "stub");
    kbuf_i32(out, 0);
    int32_t n = kread_i32(r);
    if (n < 0) {
        kbuf_i32(out, sk->topic[0] ? 1 : 0);
        if (sk->topic[0]) {
            skafka_metadata_topic(sk, out, (struct kspan){(const uint8_t *)sk->topic, strlen(sk->topic)});
        }
        return;
    }
    kbuf_i32(out, n);
    for (int32_t i = 0; i < n && !r->bad; i++) {
        skafka_metadata_topic(sk, out, kread_str(r));
    }
}

/* One topic at a time; settings are skipped. */
static void skafka_create(struct skafka *sk, struct kread *r, struct kbuf *out) {
    int32_t topics = kread_i32(r);
    struct kspan name = kread_str(r);
    int32_t parts = kread_i32(r);
    int16_t error = 0;
    if (sk->topic[0]) {
        error = 36; /* TOPIC_ALREADY_EXISTS */
    } else if (r->bad || topics != 1 || parts < 1 || parts > SCONF_PARTS_MAX || name.n == 0 ||
               name.n >= sizeof sk->topic) {
        error = 42; /* INVALID_REQUEST */
    } else {
        memcpy(sk->topic, name.p, name.n);
        sk->topic[name.n] = 0;
        slog_partitions(sk->lg, (unsigned)parts);
    }
    kbuf_i32(out, 0);
    kbuf_i32(out, 1);
    skafka_put_name(out, name);
    kbuf_i16(out, error);
    kbuf_str(out, NULL);
}

static void skafka_delete(struct skafka *sk, struct kread *r, struct kbuf *out) {
    (void)kread_i32(r);
    struct kspan name = kread_str(r);
    bool known = skafka_is_topic(sk, name);
    kbuf_i32(out, 0);
    kbuf_i32(out, 1);
    skafka_put_name(out, name);
    kbuf_i16(out, known ? 0 : 3);
    if (known) {
        sk->topic[0] = 0;
        slog_partitions(sk->lg, 0);
    }
}

static void skafka_producer(struct skafka *sk, struct kbuf *out) {
    kbuf_i32(out, 0);
    kbuf_i16(out, 0);
    kbuf_i64(out, sk->producer_next++);
    kbuf_i16(out, 0);
}

static void skafka_list_offsets(struct skafka *sk, struct kread *r, struct kbuf *out) {
    (void)kread_i32(r);
    (void)kread_i8(r);
    (void)kread_i32(r);
    struct kspan name = kread_str(r);
    bool known = skafka_is_topic(sk, name);
    int32_t n = kread_i32(r);
    kbuf_i32(out, 0);
    kbuf_i32(out, 1);
    skafka_put_name(out, name);
    kbuf_i32(out, n);
    for (int32_t i = 0; i < n && !r->bad; i++) {
        int32_t part = kread_i32(r);
        int64_t when = kread_i64(r);
        bool ok = known && part >= 0 && (unsigned)part < sk->lg->part_n;
        kbuf_i32(out, part);
        kbuf_i16(out, ok ? 0 : 3);
        kbuf_i64(out, -1);
        kbuf_i64(out, !ok          ? -1
                      : when == -1 ? sk->lg->parts[part].visible
                      : when == -2 ? slog_start(sk->lg, (unsigned)part)
                                   : -1);
    }
}

/* Appends one batch; every SCONF_LIE_EVERY-th one badly, if the stub was told to lie. */
static int64_t skafka_append_batch(struct skafka *sk, unsigned part, uint8_t *p, const struct batch_view *b) {
    enum sconf_lie lie = ++sk->batches % SCONF_LIE_EVERY == 0 ? sk->lg->cf->lie : SCONF_TRUE;
    if (lie == SCONF_DROP) {
        return sk->lg->parts[part].next_offset;
    }
    if (lie == SCONF_REPEAT) {
        (void)slog_append(sk->lg, part, p, b);
        slog_flush(sk->lg); /* the second stamp must not reach the first copy */
    }
    p[b->size - 1] ^= lie == SCONF_FLIP;
    return slog_append(sk->lg, part, p, b);
}

/* All batches of one partition; *ret_base is the first one's offset. Returns a Kafka error code. */
static int16_t skafka_append(struct skafka *sk, unsigned part, struct kspan records, int64_t *ret_base) {
    struct batch_view b;
    bool bad = false, first = true;
    *ret_base = -1;
    while (records.n > 0) {
        if (!batch_next(records.p, records.n, &b, &bad) || !b.crc_ok) {
            return 2; /* CORRUPT_MESSAGE */
        }
        int64_t base = skafka_append_batch(sk, part, (uint8_t *)(uintptr_t)records.p, &b);
        *ret_base = first ? base : *ret_base;
        first = false;
        records.p += b.size;
        records.n -= b.size;
    }
    return first ? 2 : 0;
}

static enum skafka_verdict skafka_produce(struct skafka *sk, struct kread *r, struct kbuf *out) {
    (void)kread_str(r);
    int16_t acks = kread_i16(r);
    (void)kread_i32(r);
    int32_t topics = kread_i32(r);
    kbuf_i32(out, topics);
    for (int32_t t = 0; t < topics && !r->bad; t++) {
        struct kspan name = kread_str(r);
        bool known = skafka_is_topic(sk, name);
        int32_t parts = kread_i32(r);
        skafka_put_name(out, name);
        kbuf_i32(out, parts);
        for (int32_t i = 0; i < parts && !r->bad; i++) {
            int32_t part = kread_i32(r);
            struct kspan records = kread_bytes(r);
            int64_t base = -1;
            bool ok = known && part >= 0 && (unsigned)part < sk->lg->part_n && !r->bad;
            int16_t error = ok ? skafka_append(sk, (unsigned)part, records, &base) : 3;
            kbuf_i32(out, part);
            kbuf_i16(out, error);
            kbuf_i64(out, base);
            kbuf_i64(out, -1);
            kbuf_i64(out, 0);
        }
    }
    kbuf_i32(out, 0);
    return acks == 0 ? SKAFKA_ANSWERED : SKAFKA_WRITTEN;
}

struct skafka_fetch {
    int32_t wait_ms, min_bytes, max_bytes;
    size_t got;
};

static void skafka_fetch_part(struct skafka *sk, struct skafka_fetch *f, bool known, struct kread *r,
                              struct kbuf *out) {
    int32_t part = kread_i32(r);
    (void)kread_i32(r);
    int64_t offset = kread_i64(r);
    (void)kread_i64(r);
    int32_t part_max = kread_i32(r);
    bool ok = known && part >= 0 && (unsigned)part < sk->lg->part_n && !r->bad;
    int64_t visible = ok ? sk->lg->parts[part].visible : -1;
    bool in_range = ok && offset >= slog_start(sk->lg, (unsigned)part) && offset <= visible;
    kbuf_i32(out, part);
    kbuf_i16(out, !ok ? 3 : in_range ? 0 : 1);
    kbuf_i64(out, visible);
    kbuf_i64(out, visible);
    kbuf_i64(out, ok ? slog_start(sk->lg, (unsigned)part) : -1);
    kbuf_i32(out, -1);
    kbuf_i32(out, -1);
    size_t at = out->len;
    kbuf_i32(out, 0);
    size_t left = (size_t)f->max_bytes > f->got ? (size_t)f->max_bytes - f->got : 0;
    if (in_range && (left > 0 || f->got == 0)) {
        size_t max = left < (size_t)part_max ? left : (size_t)part_max;
        size_t n = slog_read(sk->lg, (unsigned)part, offset, max, out);
        f->got += n;
        kbuf_put32(out->p + at, (uint32_t)n);
    }
    if (!in_range) {
        f->got += (size_t)f->min_bytes; /* an error is an answer */
    }
}

static enum skafka_verdict skafka_fetch(struct skafka *sk, struct sconn *c, struct kread *r) {
    struct kbuf *out = &c->out;
    struct skafka_fetch f = {0};
    (void)kread_i32(r);
    f.wait_ms = kread_i32(r);
    f.min_bytes = kread_i32(r);
    f.max_bytes = kread_i32(r);
    (void)kread_i8(r);
    (void)kread_i32(r);
    (void)kread_i32(r);
    int32_t topics = kread_i32(r);
    kbuf_i32(out, 0);
    kbuf_i16(out, 0);
    kbuf_i32(out, 0);
    kbuf_i32(out, topics);
    for (int32_t t = 0; t < topics && !r->bad; t++) {
        struct kspan name = kread_str(r);
        int32_t parts = kread_i32(r);
        skafka_put_name(out, name);
        kbuf_i32(out, parts);
        for (int32_t i = 0; i < parts && !r->bad; i++) {
            skafka_fetch_part(sk, &f, skafka_is_topic(sk, name), r, out);
        }
    }
    if ((int64_t)f.got >= f.min_bytes || r->bad) {
        c->parked = false;
        return SKAFKA_ANSWERED;
    }
    if (!c->parked) {
        c->parked = true;
        c->parked_until = sk->now_ns + (uint64_t)(f.wait_ms > 0 ? f.wait_ms : 0) * 1000000u;
    }
    if (sk->now_ns >= c->parked_until) {
        c->parked = false;
        return SKAFKA_ANSWERED;
    }
    return SKAFKA_PARKED;
}

static bool skafka_served(const struct skafka_head *h) {
    for (unsigned i = 0; i < SKAFKA_APIS; i++) {
        if (skafka_apis[i].api == h->api && skafka_apis[i].version == h->version) {
            return true;
        }
    }
    return false;
}

enum skafka_verdict skafka_handle(struct skafka *sk, struct sconn *c, uint8_t *p, size_t n) {
    struct kread r = kread_of(p, n);
    struct skafka_head h = {0};
    h.api = kread_i16(&r);
    h.version = kread_i16(&r);
    h.correlation = kread_i32(&r);
    (void)kread_str(&r);
    if (r.bad || !skafka_served(&h)) {
        return SKAFKA_REFUSED;
    }
    enum skafka_verdict v = SKAFKA_ANSWERED;
    size_t before = c->out.len, at = kbuf_begin_reply(&c->out, h.correlation);
    bool silent = false;
    switch (h.api) {
    case 0:
        v = skafka_produce(sk, &r, &c->out);
        silent = v == SKAFKA_ANSWERED; /* acks=0 */
        break;
    case 1: v = skafka_fetch(sk, c, &r); break;
    case 2: skafka_list_offsets(sk, &r, &c->out); break;
    case 3: skafka_metadata(sk, &r, &c->out); break;
    case 18: skafka_api_versions(&c->out); break;
    case 19: skafka_create(sk, &r, &c->out); break;
    case 20: skafka_delete(sk, &r, &c->out); break;
    default: skafka_producer(sk, &c->out); break;
    }
    if (r.bad) {
        return SKAFKA_REFUSED;
    }
    if (v == SKAFKA_PARKED || silent) {
        c->out.len = before;
    } else {
        kbuf_end(&c->out, at);
    }
    return v;
}
