/* One partition's segments, batch by batch.
 *
 * Happy path: windows of the file are read, each batch must begin where the one before ended, in place and in
 * offset. Failure modes: the first batch that cannot be right ends the walk of that segment: damage below the mark
 * (or when no mark is known and another segment follows), a torn tail above it.
 * Runs on: an offline tool's thread. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "call.h"
#include "inspect_in.h"
#include "names.h"
#include "scan.h"
#include "wire/record.h"

#define WINDOW_BYTES ((size_t)1 << 20)
#define UNZIP_MAX ((size_t)256 << 20)

struct walk {
    struct inspect *in;
    const char *dir;
    const struct datadir_mark *mark;
    char path[NAMES_PATH_CAP];
    struct disk_file *file;
    int64_t size, at;                  /* of the segment; where the next batch begins */
    uint8_t *buf;
    size_t cap;
    off64 base, expect;                /* of the segment; offset that must come next */
    bool last;                         /* no segment follows */
    struct inspect_places places;
};

static const char *const codecs[] = {"none", "gzip", "snappy", "lz4", "zstd", "?", "?", "?"};

/* ---- printing ---- */

static void print_batch(struct walk *w, const struct batch_head *h) {
    FILE *out = w->in->out;
    if (w->in->opts->json) {
        fprintf(out,
                "{\"file\":\"%s\",\"position\":%" PRId64 ",\"baseOffset\":%" PRId64 ",\"lastOffset\":%" PRId64
                ",\"count\":%d,\"bytes\":%zu,",
                w->path, w->at, h->base_offset, batch_last_offset(h), h->count, h->bytes);
        fprintf(out,
                "\"leaderEpoch\":%d,\"producerId\":%" PRId64
                ",\"producerEpoch\":%d,\"baseSequence\":%d,\"compression\":\"%s\",\"baseTimestamp\":%" PRId64
                ",\"maxTimestamp\":%" PRId64 ",\"transactional\":%s,\"control\":%s,\"crc\":%u}\n",
                h->leader_epoch, h->producer_id, h->producer_epoch, h->base_sequence, codecs[batch_codec(h)],
                h->base_ts_ms, h->max_ts_ms, h->attributes & BATCH_ATTR_TRANSACTIONAL ? "true" : "false",
                h->attributes & BATCH_ATTR_CONTROL ? "true" : "false", h->crc);
        return;
    }
    fprintf(out,
            "%s\tposition=%" PRId64 "\toffsets=%" PRId64 "..%" PRId64
            "\tcount=%d\tbytes=%zu\tepoch=%d\tproducer=%" PRId64
            "/%d\tsequence=%d\tcompression=%s\tmaxTimestamp=%" PRId64 "\tcrc=%u\n",
            w->path, w->at, h->base_offset, batch_last_offset(h), h->count, h->bytes, h->leader_epoch, h->producer_id,
            h->producer_epoch, h->base_sequence, codecs[batch_codec(h)], h->max_ts_ms, h->crc);
}

/* Bytes as a person can read them: printable ASCII as it is, the rest as \xNN. */
void inspect_bytes(FILE *out, const char *name, span s, bool json) {
    if (span_is_null(s)) {
        fprintf(out, json ? ",\"%s\":null" : "\t%s=null", name);
        return;
    }
    fprintf(out, json ? ",\"%s\":\"" : "\t%s='", name);
    for (size_t i = 0; i < s.n; i++) {
        bool plain = s.p[i] >= ' ' && s.p[i] < 0x7f && s.p[i] != '"' && s.p[i] != '\'' && s.p[i] != '\\';
        fprintf(out, plain ? "%c" : json ? "\\u%04x" : "\\x%02x", s.p[i]);
    }
    fputs(json ? "\"" : "'", out);
}

static err print_records(struct walk *w, span batch) {
    struct arena a;
    struct record_walk rw;
    struct record r;
    arena_init(&a, NULL, 2 * UNZIP_MAX);
    err e = record_walk_init(&rw, batch, &a, UNZIP_MAX);
    while (e == ERR_OK && record_walk_next(&rw, &r)) {
        bool json = w->in->opts->json;
        fprintf(w->in->out,
                json ? "{\"offset\":%" PRId64 ",\"timestamp\":%" PRId64 : "  offset=%" PRId64 "\ttimestamp=%" PRId64,
                r.offset, r.ts_ms);
        inspect_bytes(w->in->out, "key", r.key, json);
        inspect_bytes(w->in->out, "value", r.value, json);
        fputs(json ? "}\n" : "\n", w->in->out);
    }
    if (e != ERR_OK || rw.bad) {
        const char *why = err_text(e == ERR_OK ? ERR_CORRUPT : e);
        fprintf(w->in->out, w->in->json ? "{\"position\":%" PRId64 ",\"unreadable\":\"%s\"" : "  position=%" PRId64 "\trecords unreadable: %s", w->at, why);
        inspect_bytes(w->in->out, "file", span_str(w->path), w->in->json);
        fputs(w->in->json ? "}\n" : "\n", w->in->out);
    }
    arena_done(&a);
    return e == ERR_NOMEM ? e : ERR_OK;
}

/* ---- walking ---- */

static err remember(struct inspect_places *pl, const struct batch_head *h, int64_t at) {
    if (pl->n == pl->cap) {
        size_t cap = pl->cap ? 2 * pl->cap : 1024;
        void *p = mem_realloc(MEM_INDEX, pl->v, cap * sizeof *pl->v);
        if (!p) {
            return ERR_NOMEM;
        }
        pl->v = p;
        pl->cap = cap;
    }
    pl->v[pl->n++] = (struct inspect_place){h->base_offset, batch_last_offset(h), at, h->max_ts_ms};
    return ERR_OK;
}

static err take_batch(struct walk *w, span bytes, const struct batch_head *h) {
    w->in->batches++;
    w->in->records += (uint64_t)(h->count > 0 ? h->count : 0);
    err e = remember(&w->places, h, w->at);
    if (e == ERR_OK && w->in->opts) {
        print_batch(w, h);
        e = w->in->opts->records ? print_records(w, bytes) : ERR_OK;
    }
    w->at += (int64_t)h->bytes;
    w->expect = batch_last_offset(h) + 1;
    return e;
}

/* What cannot be a batch here: whose fault is it? */
static void stopped(struct walk *w, const char *what) {
    bool below = w->mark ? w->expect < w->mark->end : !w->last;
    if (below) {
        inspect_bad(w->in, w->path, w->at, what);
        return;
    }
    inspect_torn(w->in, w->path, w->at, w->size - w->at);
}

static err room_for(struct walk *w, size_t n) {
    if (n <= w->cap) {
        return ERR_OK;
    }
    void *p = mem_realloc(MEM_INDEX, w->buf, n);
    if (!p) {
        return ERR_NOMEM;
    }
    w->buf = p;
    w->cap = n;
    return ERR_OK;
}

/* A window that begins at w->at; takes its batches. *ret_more: go on. */
static err walk_window(struct walk *w, size_t want, bool *ret_more) {
    size_t left = (size_t)(w->size - w->at), did = 0;
    want = want < left ? want : left;
    err e = room_for(w, want);
    e = e == ERR_OK ? call_read(w->in->disk, w->file, w->at, (struct iovec){w->buf, want}, &did) : e;
    if (e != ERR_OK) {
        return e;
    }
    *ret_more = false;
    for (size_t used = 0; used < did && e == ERR_OK;) {
        struct batch_head h = {0};
        err judged = scan_batch(span_of(w->buf + used, did - used), w->expect, true, &h);
        if (judged == ERR_TORN && used + did > 0 && (int64_t)h.bytes <= w->size - w->at && h.bytes > did - used) {
            *ret_more = true;
            return used > 0 ? ERR_OK : walk_window(w, h.bytes, ret_more);
        }
        if (judged == ERR_TORN && used > 0 && h.bytes == 0 && did == want && want < left) {
            *ret_more = true;
            return ERR_OK;
        }
        if (judged != ERR_OK) {
            *ret_more = false;
            stopped(w, judged == ERR_TORN ? "a batch that the file does not hold whole"
                                          : "no batch with the next offset and a right checksum");
            return ERR_OK;
        }
        e = take_batch(w, span_of(w->buf + used, h.bytes), &h);
        used += h.bytes;
        *ret_more = w->at < w->size;
    }
    return e;
}

static err walk_segment(struct walk *w) {
    names_path_join(w->dir, w->base, ".log", w->path);
    err e = call_open(w->in->disk, w->path, DISK_RDONLY, &w->file, &w->size);
    if (e != ERR_OK) {
        return e;
    }
    w->at = 0;
    w->places.n = 0;
    if (w->base != w->expect && w->expect >= 0) {
        inspect_bad(w->in, w->path, 0, "a gap: the segment before ends at another offset");
    }
    w->expect = w->base;
    bool more = w->size > 0;
    while (more && e == ERR_OK) {
        e = walk_window(w, WINDOW_BYTES, &more);
    }
    call_close(w->in->disk, w->file);
    if (e == ERR_OK && !w->in->opts) {
        inspect_indexes(w->in, w->dir, w->base, &w->places);
    }
    return e;
}

static int by_base(const void *a, const void *b) {
    off64 x = *(const off64 *)a, y = *(const off64 *)b;
    return x < y ? -1 : x > y;
}

/* How many of the k sorted segments lie wholly below the log start, on their way out (trim.c). As recovery counts them. */
static size_t left_behind(const struct walk *w, const off64 *bases, size_t k) {
    const struct datadir_mark *m = w->mark;
    size_t n = 0;
    if (!m || m->heavy < m->start) {
        return 0;
    }
    while (n < k && ((n + 1 < k && bases[n + 1] <= m->start) || (m->segment <= m->start && bases[n] < m->segment))) {
        n++;
    }
    return n;
}

/* Where the log begins, when that is not its first segment's first record. */
static void print_start(const struct walk *w) {
    if (!w->in->opts || !w->mark || w->mark->start == 0) {
        return;
    }
    if (w->in->json) {
        fprintf(w->in->out, "{\"logStartOffset\":%" PRId64, w->mark->start);
        inspect_bytes(w->in->out, "directory", span_str(w->dir), true);
        fputs("}\n", w->in->out);
    } else {
        fprintf(w->in->out, "%s\tlogStartOffset=%" PRId64 "\n", w->dir, w->mark->start);
    }
}

static void tell_left_behind(const struct walk *w, const off64 *bases, size_t n) {
    char path[NAMES_PATH_CAP];
    for (size_t i = 0; i < n && !w->in->opts; i++) {
        names_path_join(w->dir, bases[i], ".log", path);
        inspect_left(w->in, path);
    }
}

static err walk_segments(struct walk *w, const struct disk_entry *entries, size_t n) {
    off64 *bases = mem_alloc(MEM_INDEX, (n + 1) * sizeof *bases);
    if (!bases) {
        return ERR_NOMEM;
    }
    size_t k = 0;
    for (size_t i = 0; i < n;
         i++) { /* without bytes: what a roll left that found no room; others may go on before it */
        k += entries[i].size > 0 && names_is_segment(entries[i].name, ".log", &bases[k]);
    }
    qsort(bases, k, sizeof *bases, by_base);
    err e = ERR_OK;
    w->expect = -1;
    size_t skip = left_behind(w, bases, k);
    print_start(w);
    tell_left_behind(w, bases, skip);
    for (size_t i = skip; i < k && e == ERR_OK; i++) {
        w->base = bases[i];
        w->last = i + 1 == k;
        e = walk_segment(w);
    }
    off64 first = k > skip ? bases[skip] : INT64_MAX;
    mem_free(bases);
    if (e == ERR_OK && w->mark && w->mark->end > w->mark->start &&
        (first > w->mark->start || w->expect < w->mark->end)) {
        inspect_bad(w->in, w->dir, 0, "the durable mark covers records that are not in any segment");
    }
    return e;
}

err inspect_log(struct inspect *in, const char *dir, const struct datadir_mark *m) {
    struct walk w = {.in = in, .dir = dir, .mark = m};
    struct disk_entry *entries = NULL;
    size_t n = 0;
    err e = call_list(in->disk, dir, &entries, &n);
    if (e == ERR_OK) {
        e = walk_segments(&w, entries, n);
    }
    if (e == ERR_OK && !in->opts) {
        inspect_sides(in, dir, entries, n);
    }
    disk_entries_free(entries, n);
    mem_free(w.buf);
    mem_free(w.places.v);
    return e;
}
