/* Goal: record batches of the Java client's builder, in all codecs and kinds, are read as they were
 * meant (D1, S5.6, S5.12, S7.11), and what we build from their records reads the same. Method:
 * batch_<name>.txt says what must be found, written by the encoder from what went in; the walk's
 * findings are printed in the same form and compared as text. Then the records go through our own
 * builder with every codec.
 * usage: golden_batch DIRECTORY */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/be.h"
#include "base/str.h"
#include "golden_file.h"
#include "wire/record.h"

#define ARENA_BYTES ((size_t)64 << 20)
#define UNZIP_BYTES_MAX ((size_t)1 << 20)
#define HEADERS_MAX 16

static unsigned failures;

static void complain(const char *file, const char *what) {
    fprintf(stderr, "FAIL %s: %s\n", file, what);
    failures++;
}

static void add_hex(struct str *s, span x) {
    if (span_is_null(x)) {
        str_addf(s, "-");
    } else if (x.n == 0) {
        str_addf(s, ".");
    }
    for (size_t i = 0; i < x.n; i++) {
        str_addf(s, "%02x", x.p[i]);
    }
}

static void add_record(struct str *s, const struct record *r) {
    str_addf(s, "%" PRId64 " %" PRId64 " ", r->offset, r->ts_ms);
    add_hex(s, r->key);
    str_addf(s, " ");
    add_hex(s, r->value);
    span at = r->headers, name, value;
    while (record_header_next(&at, &name, &value)) {
        str_addf(s, " ");
        add_hex(s, name);
        str_addf(s, "=");
        add_hex(s, value);
    }
    str_addf(s, "\n");
}

/* Records only, one line each. */
static void add_records(struct str *s, const char *file, span batch, struct arena *a) {
    struct record_walk w;
    struct record r;
    if (record_walk_init(&w, batch, a, UNZIP_BYTES_MAX)) {
        complain(file, "does not open");
        return;
    }
    while (record_walk_next(&w, &r)) {
        add_record(s, &r);
    }
    if (w.bad || w.p != w.end) {
        complain(file, "is not read to its end");
    }
}

static void add_head(struct str *s, const struct batch_head *h) {
    str_addf(s, "base_offset=%" PRId64 " leader_epoch=%d attributes=%d count=%d base_timestamp=%" PRId64 " max_timestamp=%" PRId64
             " producer_id=%" PRId64 " producer_epoch=%d base_sequence=%d\n", h->base_offset, h->leader_epoch, h->attributes, h->count,
             h->base_ts_ms, h->max_ts_ms, h->producer_id, h->producer_epoch, h->base_sequence);
}

static bool append_one(struct record_build *b, const struct record *r) {
    struct record_header headers[HEADERS_MAX];
    size_t n = 0;
    span at = r->headers;
    while (n < HEADERS_MAX && record_header_next(&at, &headers[n].name, &headers[n].value)) {
        n++;
    }
    record_build_add(b, r->ts_ms, r->key, r->value, headers, n);
    return at.n == 0;
}

/* Build the same records with codec, and read them back with the offsets and times they had. */
static void rebuild(const char *file, span batch, const struct batch_head *h, enum batch_codec codec, struct arena *a) {
    struct record_walk w;
    struct record r;
    struct record_build b;
    record_build_init(&b, a, codec);
    if (record_walk_init(&w, batch, a, UNZIP_BYTES_MAX)) {
        return;                                  /* complained about already */
    }
    bool whole = true;
    while (record_walk_next(&w, &r)) {
        whole = append_one(&b, &r) && whole;
    }
    span built;
    if (!whole || record_build_finish(&b, &built)) {
        complain(file, "cannot be built again");
        return;
    }
    struct batch_head built_head;
    const char *text = "";
    if (batch_check_produced(built, &built_head, &text)) {
        complain(file, text);
        return;
    }
    uint8_t *stamped = memcpy(arena_alloc(a, built.n), built.p, built.n);
    batch_stamp(stamped, h->base_offset, h->leader_epoch);
    struct str was, is;
    str_init(&was, ARENA_BYTES);
    str_init(&is, ARENA_BYTES);
    add_records(&was, file, batch, a);
    add_records(&is, file, span_of(stamped, built.n), a);
    if (!batch_crc_ok(span_of(stamped, built.n)) || !span_eq(str_span(&was), str_span(&is))) {
        complain(file, "reads differently after being built again");
    }
    str_done(&was);
    str_done(&is);
}

static void judge_batch(const char *file, span batch, span expected) {
    struct arena a;
    arena_init(&a, NULL, ARENA_BYTES);
    struct batch_head h;
    struct str s;
    str_init(&s, ARENA_BYTES);
    if (batch_head_get(batch, &h) || h.bytes != batch.n || !batch_crc_ok(batch)) {
        complain(file, "header, length or CRC");
    } else {
        add_head(&s, &h);
        add_records(&s, file, batch, &a);
        if (!span_eq(str_span(&s), expected)) {
            complain(file, "reads differently than it was meant");
            fprintf(stderr, "%s", s.p);
        }
        for (int codec = CODEC_NONE; codec <= CODEC_ZSTD; codec++) {
            rebuild(file, batch, &h, (enum batch_codec)codec, &a);
        }
        uint8_t *head = arena_alloc(&a, batch.n);
        memcpy(head + BATCH_HEAD_BYTES, batch.p + BATCH_HEAD_BYTES, batch.n - BATCH_HEAD_BYTES);
        batch_head_put(head, &h);
        if (memcmp(head, batch.p, batch.n) != 0) {
            complain(file, "the header is written differently");
        }
    }
    str_done(&s);
    arena_done(&a);
}

int main(int argc, char **argv) {
    DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
    if (!d) {
        fprintf(stderr, "usage: golden_batch DIRECTORY\n");
        return 2;
    }
    unsigned n = 0, codecs = 0;
    for (struct dirent *entry; (entry = readdir(d));) {
        char txt[300];
        if (sscanf(entry->d_name, "batch_%200[^.].bin", txt) != 1 || !strstr(entry->d_name, ".bin")) {
            continue;
        }
        snprintf(txt, sizeof txt, "%.*s.txt", (int)(strlen(entry->d_name) - 4), entry->d_name);
        span bin = golden_load(argv[1], entry->d_name), expected = golden_load(argv[1], txt), rest = bin, batch;
        if (!golden_next(&rest, &batch) || rest.n > 0) {
            complain(entry->d_name, "file is malformed");
        } else {
            judge_batch(entry->d_name, batch, expected);
            codecs |= 1u << (be16_get(batch.p + 21) & BATCH_ATTR_CODEC);
            n++;
        }
        golden_free(bin);
        golden_free(expected);
    }
    closedir(d);
    if (codecs != 31) {
        complain(argv[1], "not every codec has a batch of the Java client");
    }
    printf("golden_batch: %u batches judged, %u failures\n", n, failures);
    return failures == 0 ? 0 : 1;
}
