/* A log of several segments that the store wrote itself, with one of its side files replaced. Input: which file, flags, its bytes.
 *
 * Holds: whatever stands in an index, a snapshot, the epochs or partition.metadata, the log is served whole: each batch comes back by its
 * offset, from the head and from inside; times are looked up as before where the time index is not the liar, and never beyond the end. Only
 * another topic's id in partition.metadata is damage; what is well-formed and false in the epochs may be. A clean stop follows, and a start. T9. */
#include <stdlib.h>
#include <string.h>

#include "base/be.h"
#include "base/crc.h"
#include "base/mem.h"
#include "depot.h"
#include "epochs.h"

enum { KILLED = 1, MAKE_CRC = 2, MISSING = 4 };

static const char *const files[] = {
    DEPOT_DIR "/00000000000000000000.index",      DEPOT_DIR "/00000000000000000000.timeindex",
    DEPOT_DIR "/00000000000000000007.index",      DEPOT_DIR "/00000000000000000007.timeindex",
    DEPOT_DIR "/00000000000000000018.snapshot",   DEPOT_DIR "/leader-epoch-checkpoint",
    DEPOT_DIR "/partition.metadata",
};
#define FILES (sizeof files / sizeof *files)
enum { FIRST_TIMES = 1, LAST_TIMES = 3, SNAPSHOT = 4, EPOCHS = 5, METADATA = 6 };

#define BATCHES 18
#define BYTES_MAX ((size_t)4 << 10)

static struct depot_image images[2];               /* stopped, killed */
static span batches[BATCHES];                      /* as they stand in the log */

static void configure(struct depot *d) {
    depot_init(d);
    d->log_conf.segment_bytes = 1000;
    d->conf.tail_bytes_max = 0;
    d->conf.checkpoint_age = 1;
    d->conf.heavy_bytes = 1;
}

static void build(struct depot *d, bool kill) {
    struct arena a;
    configure(d);
    arena_init(&a, NULL, 1 << 20);
    must(depot_start(d) && d->recovered == ERR_OK);
    for (int i = 0; i < BATCHES; i++) {
        struct depot_batch b = {.records = 1, .value = 60, .ts = 1000 + i * 10, .producer_id = 500 + i % 3, .sequence = i / 3};
        depot_append(d, depot_batch(&a, &b), i / 7);
        depot_run(d, 20);
    }
    arena_done(&a);
    if (kill) {
        depot_run(d, 3000);
        depot_kill(d);
    } else {
        depot_stop(d);
    }
}

static void prepare(void) {
    struct depot d;
    if (images[0].n > 0) {
        return;
    }
    for (int kill = 0; kill <= 1; kill++) {
        build(&d, kill);
        depot_image_take(&d, &images[kill]);
        depot_done(&d);
    }
    build(&d, true);
    must(depot_start(&d));
    for (off64 at = 0; at < BATCHES; at++) {
        off64 next;
        span got;
        must(depot_read(&d, at, BATCHES, &got, &next) == ERR_OK && next == at + 1);
        uint8_t *copy = malloc(got.n);
        must(copy != NULL);
        batches[at] = span_of(memcpy(copy, got.p, got.n), got.n);
        depot_drop(got);
    }
    depot_stop(&d);
    depot_done(&d);
}

static void judge(struct depot *d, size_t which) {
    struct plog_ends e;
    plog_ends(d->lg, &e);
    must(e.start == 0 && e.next == BATCHES && e.stable == BATCHES);
    for (off64 at = BATCHES - 1; at >= 0; at--) {
        off64 next;
        span got;
        must(depot_read(d, at, BATCHES, &got, &next) == ERR_OK);
        must(next == at + 1 && span_eq(got, batches[at]));
        depot_drop(got);
    }
    for (ms ts = 995; ts < 1190; ts += 15) {
        off64 at, truth = ts <= 1000 ? 0 : (ts - 1000 + 9) / 10;
        ms found;
        must(depot_find(d, ts, BATCHES, &at, &found) == ERR_OK);
        must(at < BATCHES && (at < 0 || found >= ts));
        must(which == FIRST_TIMES || which == LAST_TIMES || at == (truth < BATCHES ? truth : -1));
    }
    off64 at;
    ms found;
    must(depot_find(d, PLOG_MAX_TS, BATCHES, &at, &found) == ERR_OK);
    must(which == FIRST_TIMES || which == LAST_TIMES || (at == BATCHES - 1 && found == 1000 + 10 * (BATCHES - 1)));
}

/* Well-formed, and not what the store wrote: nobody can tell. */
static bool is_a_lie(size_t which, span bytes) {
    struct epochs es;
    if (which != EPOCHS) {
        return false;
    }
    epochs_init(&es);
    bool ok = epochs_parse(&es, bytes) == ERR_OK;
    epochs_done(&es);
    return ok && !span_eq(bytes, span_str("0\n3\n0 0\n1 7\n2 14\n"));
}

static void run(size_t which, bool killed, span bytes) {
    struct depot d;
    configure(&d);
    depot_image_lay(&d, &images[killed], files[which], bytes);
    must(depot_start(&d));
    bool lie = !span_is_null(bytes) && is_a_lie(which, bytes);
    if (d.recovered != ERR_OK) {
        must(d.recovered == ERR_DAMAGED && (lie || which == METADATA) && plog_is_lost(d.lg));
        depot_stop(&d);
        depot_done(&d);
        return;
    }
    if (!lie) {
        judge(&d, which);
        must(which == SNAPSHOT || prodwin_count(d.win) == 3);
    }
    depot_stop(&d);
    must(depot_start(&d));
    if (!lie) {
        must(d.recovered == ERR_OK && !d.unclean);
        judge(&d, which);
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
    memcpy(bytes, data + 2, n - 2);
    if (data[1] & MAKE_CRC && data[0] % FILES == SNAPSHOT && n - 2 > 6) {
        be16_put(bytes, 1);
        be32_put(bytes + 2, crc32c(bytes + 6, n - 2 - 6));
    }
    run(data[0] % FILES, data[1] & KILLED, data[1] & MISSING ? SPAN_NULL : span_of(bytes, n - 2));
    return 0;
}

void fuzz_seeds(void (*on)(void *u, span input), void *u) {
    prepare();
    for (size_t which = 0; which < FILES; which++) {
        for (uint8_t flags = 0; flags < 8; flags++) {
            uint8_t input[BYTES_MAX + 2] = {(uint8_t)which, flags};
            for (size_t i = 0; i < images[flags & KILLED].n; i++) {
                const struct depot_image_file *f = &images[flags & KILLED].files[i];
                if (strcmp(f->path, files[which]) == 0) {
                    memcpy(input + 2, f->bytes.p, f->bytes.n);
                    on(u, span_of(input, f->bytes.n + 2));
                }
            }
        }
    }
}
