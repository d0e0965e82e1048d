/* batch.c: record batches made once and stamped often.
 *
 * Purpose: the generator must not be the bottleneck, yet every batch it sends must differ, so that the sum
 * of CRCs read back proves each one arrived once. So the noise is encoded once; a send copies about 85 bytes,
 * patches producer, sequence and a time stamp, and finds the new CRC by linearity: the register after the shared part
 * is (its length applied to the register before it) xor (its own CRC from zero).
 * Happy path: init, then stamp per send; batch_next and batch_stamp_of on the way back.
 * Failure modes: batch_next says `bad` for a length that cannot be; a failed CRC is the caller's to count.
 * Runs on: any thread; templates are read-only after init. */
#include "batch.h"

#include <isa-l/crc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "die.h"
#include "kbuf.h"

static const uint8_t batch_mark[8] = {'p', 'g', 'b', 'e', 'n', 'c', 'h', '1'};

/* The raw CRC register: no inversion at either end. */
static uint32_t batch_register(uint32_t init, const uint8_t *p, size_t n) {
    while (n > 0) {
        size_t step = n < (1u << 30) ? n : 1u << 30;
        init = crc32_iscsi((unsigned char *)(uintptr_t)p, (int)step, init);
        p += step;
        n -= step;
    }
    return init;
}

uint32_t batch_crc32c(const uint8_t *p, size_t n) {
    return ~batch_register(~0u, p, n);
}

static void batch_varint(struct kbuf *b, int64_t v) {
    uint64_t z = ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
    while (z >= 0x80) {
        kbuf_i8(b, (int8_t)(uint8_t)(z | 0x80));
        z >>= 7;
    }
    kbuf_i8(b, (int8_t)(uint8_t)z);
}

static size_t batch_varint_size(int64_t v) {
    uint64_t z = ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);
    size_t n = 1;
    while (z >= 0x80) {
        z >>= 7;
        n++;
    }
    return n;
}

static uint64_t batch_noise(uint64_t *state) {
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

/* One record: no key, no headers. Returns where its value starts. */
static size_t batch_record(struct kbuf *b, int64_t delta, size_t value_bytes, uint64_t *noise) {
    size_t body = 1 + 1 + batch_varint_size(delta) + 1 + batch_varint_size((int64_t)value_bytes) + value_bytes + 1;
    batch_varint(b, (int64_t)body);
    kbuf_i8(b, 0);      /* attributes */
    batch_varint(b, 0); /* timestamp delta */
    batch_varint(b, delta);
    batch_varint(b, -1); /* no key */
    batch_varint(b, (int64_t)value_bytes);
    size_t at = b->len;
    for (size_t left = value_bytes; left > 0;) {
        uint64_t word = batch_noise(noise);
        size_t n = left < sizeof word ? left : sizeof word;
        kbuf_raw(b, &word, n);
        left -= n;
    }
    batch_varint(b, 0); /* no headers */
    return at;
}

static void batch_head(struct kbuf *b, uint32_t records) {
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    int64_t ms = (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
    kbuf_i64(b, 0);  /* base offset */
    kbuf_i32(b, 0);  /* length, patched below */
    kbuf_i32(b, -1); /* leader epoch */
    kbuf_i8(b, 2);   /* magic */
    kbuf_i32(b, 0);  /* crc, patched per send */
    kbuf_i16(b, 0);  /* attributes: plain, CreateTime */
    kbuf_i32(b, (int32_t)(records - 1));
    kbuf_i64(b, ms);
    kbuf_i64(b, ms);
    kbuf_i64(b, -1);
    kbuf_i16(b, -1);
    kbuf_i32(b, -1);
    kbuf_i32(b, (int32_t)records);
}

/* Column i of the matrix: the register 1 << i after as many zero bytes as the shared part has. */
static void batch_shift_init(struct batch_template *t) {
    size_t n = t->size - t->prefix;
    uint8_t *zeros = die_alloc(n, 1);
    for (unsigned i = 0; i < 32; i++) {
        t->shift[i] = batch_register(1u << i, zeros, n);
    }
    free(zeros);
}

void batch_template_init(struct batch_template *t, uint32_t records, size_t value_bytes, uint64_t seed) {
    if (records == 0 || value_bytes < BATCH_VALUE_MIN) {
        die("a batch needs a record of at least %d bytes", BATCH_VALUE_MIN);
    }
    struct kbuf b = {0};
    uint64_t noise = seed * 0x9e3779b97f4a7c15ull + 1;
    batch_head(&b, records);
    size_t value_at = batch_record(&b, 0, value_bytes, &noise);
    memcpy(b.p + value_at + 8, batch_mark, sizeof batch_mark);
    for (uint32_t i = 1; i < records; i++) {
        (void)batch_record(&b, i, value_bytes, &noise);
    }
    kbuf_put32(b.p + BATCH_AT_LENGTH, (uint32_t)(b.len - 12));
    *t = (struct batch_template){.bytes = b.p, .size = b.len, .prefix = value_at + 8, .records = records};
    if (t->prefix > BATCH_PREFIX_MAX) {
        die("prefix of %zu bytes", t->prefix);
    }
    t->body_crc = batch_register(0, t->bytes + t->prefix, t->size - t->prefix);
    batch_shift_init(t);
}

void batch_template_done(struct batch_template *t) {
    free(t->bytes);
    *t = (struct batch_template){0};
}

uint32_t batch_stamp(const struct batch_template *t, const struct batch_producer *who, uint64_t stamp,
                     uint8_t *ret_prefix) {
    memcpy(ret_prefix, t->bytes, t->prefix);
    kbuf_put64(ret_prefix + BATCH_AT_PRODUCER, (uint64_t)who->id);
    kbuf_put16(ret_prefix + BATCH_AT_PRODUCER_EPOCH, (uint16_t)who->epoch);
    kbuf_put32(ret_prefix + BATCH_AT_SEQUENCE, (uint32_t)who->sequence);
    kbuf_put64(ret_prefix + t->prefix - 8, stamp);
    uint32_t before = batch_register(~0u, ret_prefix + BATCH_AT_ATTRIBUTES, t->prefix - BATCH_AT_ATTRIBUTES);
    uint32_t after = t->body_crc;
    for (unsigned i = 0; i < 32; i++) {
        after ^= t->shift[i] & -(before >> i & 1u);
    }
    kbuf_put32(ret_prefix + BATCH_AT_CRC, ~after);
    return ~after;
}

bool batch_next(const uint8_t *p, size_t n, struct batch_view *ret_batch, bool *ret_bad) {
    *ret_bad = false;
    if (n < BATCH_HEAD) {
        return false;
    }
    uint32_t length = kbuf_get32(p + BATCH_AT_LENGTH);
    if (length < BATCH_HEAD - 12 || length > KBUF_BYTES_MAX || p[BATCH_AT_MAGIC] != 2) {
        *ret_bad = true;
        return false;
    }
    size_t size = (size_t)length + 12;
    if (n < size) {
        return false;
    }
    uint32_t crc = kbuf_get32(p + BATCH_AT_CRC);
    *ret_batch = (struct batch_view){
        .p = p,
        .size = size,
        .base_offset = (int64_t)kbuf_get64(p),
        .crc = crc,
        .last_delta = (int32_t)kbuf_get32(p + BATCH_AT_LAST_DELTA),
        .records = (int32_t)kbuf_get32(p + BATCH_AT_COUNT),
        .crc_ok = batch_crc32c(p + BATCH_AT_ATTRIBUTES, size - BATCH_AT_ATTRIBUTES) == crc,
    };
    return true;
}

uint64_t batch_stamp_of(const struct batch_view *b) {
    struct kread r = kread_of(b->p + BATCH_HEAD, b->size - BATCH_HEAD);
    (void)kread_varint(&r); /* record length */
    (void)kread_i8(&r);     /* attributes */
    (void)kread_varint(&r); /* timestamp delta */
    (void)kread_varint(&r); /* offset delta */
    (void)kread_varint(&r); /* key length: none */
    int64_t value = kread_varint(&r);
    if (r.bad || value < BATCH_VALUE_MIN || (size_t)(r.end - r.p) < BATCH_VALUE_MIN ||
        memcmp(r.p + 8, batch_mark, sizeof batch_mark) != 0) {
        return 0;
    }
    return kbuf_get64(r.p);
}
