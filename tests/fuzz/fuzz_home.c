/* What makes a directory ours: durable marks, format, meta.properties. A directory that the store left, with one of these files replaced. Input:
 * which file, flags, its bytes.
 *
 * Holds: opening says yes, or why not in one line and changes nothing; who is let in and served reads what it reads right; a stop and another
 * start follow. A mark that passed its CRC may be a lie of a broken machine: it costs the log, never the process. T11, T12. */
#include <string.h>

#include "base/be.h"
#include "base/crc.h"
#include "base/mem.h"
#include "depot.h"
#include "frames.h"

enum { KILLED = 1, MAKE_CRC = 2, MISSING = 4 };

static const char *const files[] = {DEPOT_MARKS, "perigee.meta/marks.1", "perigee.meta/format", "meta.properties"};
#define FILES (sizeof files / sizeof *files)
enum { MARKS = 0, MORE_MARKS = 1 };

#define BATCHES 5
#define BYTES_MAX ((size_t)4 << 10)

static struct depot_image images[2];               /* stopped, killed */

static void prepare(void) {
    if (images[0].n > 0) {
        return;
    }
    for (int kill = 0; kill <= 1; kill++) {
        struct depot d;
        struct arena a;
        depot_init(&d);
        arena_init(&a, NULL, 1 << 20);
        d.conf.checkpoint_age = 50;
        must(depot_start(&d) && d.recovered == ERR_OK);
        for (int i = 0; i < BATCHES; i++) {
            struct depot_batch b = {.records = 2, .value = 30, .ts = 1000 + i, .producer_id = 5, .sequence = 2 * i};
            depot_append(&d, depot_batch(&a, &b), i / 2);
            depot_run(&d, 200);
        }
        arena_done(&a);
        if (kill) {
            depot_kill(&d);
        } else {
            depot_stop(&d);
        }
        depot_image_take(&d, &images[kill]);
        depot_done(&d);
    }
}

static void mend_frames(uint8_t *p, size_t n) {
    for (size_t at = 0; at + FRAMES_HEAD_BYTES <= n;) {
        size_t size = frames_size(be32_get(p + at + 12));
        if (size > n - at) {
            return;
        }
        be32_put(p + at, 0x70677266u);
        be32_put(p + at + 4, crc32c(p + at + 8, size - 8));
        at += size;
    }
}

static void untouched(struct depot *d, const struct depot_image *im, const char *but, span instead) {
    for (size_t i = 0; i < im->n; i++) {
        if (strcmp(im->files[i].path, but) != 0) {
            span got = depot_get(d, im->files[i].path);
            must(span_eq(got, im->files[i].bytes) || (got.n == 0 && im->files[i].bytes.n == 0));
            depot_drop(got);
        }
    }
    must(depot_has(d, but) == !span_is_null(instead));
}

/* Everything below the end is read, or refused as damage; what comes back is right. */
static void read_all(struct depot *d) {
    struct plog_ends e;
    plog_ends(d->lg, &e);
    for (off64 at = e.start; at < e.next && at < e.start + 40;) {
        span got;
        off64 next = at;
        err r = depot_read(d, at, e.next, &got, &next);
        must(r == ERR_OK || r == ERR_DAMAGED || r == ERR_FENCED || r == ERR_IO);
        must(r != ERR_OK || got.n == 0 || (batch_crc_ok(got) && next > at));
        at = r == ERR_OK && next > at ? next : at + 1;
        depot_drop(got);
    }
}

static void run(size_t which, uint8_t flags, span bytes) {
    struct depot d;
    depot_init(&d);
    const struct depot_image *im = &images[flags & KILLED];
    depot_image_lay(&d, im, files[which], bytes);
    if (!depot_start(&d)) {
        must(d.boot == ERR_DAMAGED || d.boot == ERR_FOREIGN || d.boot == ERR_NEWER || d.boot == ERR_LIMIT);
        must(d.why[0] != 0);
        untouched(&d, im, files[which], bytes);
        depot_done(&d);
        return;
    }
    must(d.recovered == ERR_OK || d.recovered == ERR_DAMAGED);
    must(d.recovered == ERR_OK || which <= MORE_MARKS);
    bool served = d.recovered == ERR_OK;
    if (served) {
        read_all(&d);
    }
    depot_stop(&d);
    must(depot_start(&d));
    must((d.recovered == ERR_OK) == served);
    if (served) {
        read_all(&d);
    }
    depot_stop(&d);
    depot_done(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 2 || n - 2 > BYTES_MAX) {
        return -1;
    }
    prepare();
    uint8_t bytes[BYTES_MAX];
    size_t which = data[0] % FILES;
    memcpy(bytes, data + 2, n - 2);
    if (data[1] & MAKE_CRC && which <= MORE_MARKS) {
        mend_frames(bytes, n - 2);
    }
    run(which, data[1], data[1] & MISSING ? SPAN_NULL : span_of(bytes, n - 2));
    return 0;
}

void fuzz_seeds(void (*on)(void *u, span input), void *u) {
    prepare();
    for (size_t which = 0; which < FILES; which++) {
        for (uint8_t flags = 0; flags < 8; flags++) {
            uint8_t input[BYTES_MAX + 2] = {(uint8_t)which, flags};
            const struct depot_image *im = &images[flags & KILLED];
            for (size_t i = 0; i < im->n; i++) {
                if (strcmp(im->files[i].path, files[which == MORE_MARKS ? MARKS : which]) == 0) {
                    must(im->files[i].bytes.n <= BYTES_MAX);
                    memcpy(input + 2, im->files[i].bytes.p, im->files[i].bytes.n);
                    on(u, span_of(input, im->files[i].bytes.n + 2));
                }
            }
        }
    }
}
