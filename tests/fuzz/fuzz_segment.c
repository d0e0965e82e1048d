/* Recovery of a log from the bytes of its segments, on the simulated disk. Input: flags, where the durable mark stands, then the bytes.
 *
 * Holds: recovery takes exactly the batches that a plain walk over the bytes takes, no more and no less, and cuts the rest; with a mark
 * inside them as well; a mark that says more than there is gives damage, and then no file is touched. What was taken is read back byte
 * for byte, each batch is found by its offset, asking for times ends. After a clean stop, and after kill -9, the log is the same. T2, T4, T18. */
#include <stdio.h>
#include <string.h>

#include "base/be.h"
#include "base/crc.h"
#include "base/mem.h"
#include "depot.h"

enum {
    MAKE_CRC = 1,                  /* of each batch, as far as lengths lead */
    MAKE_CHAIN = 2,                /* base offsets that follow each other, magic 2, leader epoch 0 */
    TWO_FILES = 4,                 /* the second half of the batches in a segment of its own */
    MARKED = 8,                    /* a durable mark behind one of the good batches */
    TOO_MUCH = 16,                 /* the mark says one byte more than there is */
    KILLED = 32                    /* the second start follows kill -9 */
};

#define BATCHES_MAX 64
#define BYTES_MAX ((size_t)8 << 10)

struct twin {
    uint8_t bytes[BYTES_MAX];
    size_t n;
    size_t at[BATCHES_MAX + 1];    /* where each good batch begins; the last: where the good bytes end */
    off64 base[BATCHES_MAX + 1];
    int32_t epoch[BATCHES_MAX];
    size_t batches;
};

static struct twin tw;

static size_t size_at(size_t at) {
    int32_t length = tw.n - at < BATCH_HEAD_BYTES ? -1 : (int32_t)be32_get(tw.bytes + at + 8);
    return length < BATCH_HEAD_BYTES - BATCH_OVERHEAD_BYTES ? 0 : (size_t)length + BATCH_OVERHEAD_BYTES;
}

static void mend(uint8_t flags) {
    size_t at = 0;
    off64 base = 0;
    for (size_t n; (n = size_at(at)) > 0 && n <= tw.n - at; at += n) {
        uint8_t *p = tw.bytes + at;
        if (flags & MAKE_CHAIN) {
            be64_put(p, (uint64_t)base);
            be32_put(p + 12, 0);
            p[16] = 2;
            base += 1 + (int64_t)(be32_get(p + 23) & INT32_MAX);
        }
        if (flags & MAKE_CRC) {
            be32_put(p + 17, crc32c(p + 21, n - 21));
        }
    }
}

/* The plain walk. */
static void judge(void) {
    off64 expect = 0;
    size_t at = 0;
    int32_t epoch = -1;
    for (tw.batches = 0; tw.batches < BATCHES_MAX; tw.batches++) {
        const uint8_t *p = tw.bytes + at;
        size_t n = size_at(at);
        tw.at[tw.batches] = at;
        tw.base[tw.batches] = expect;
        bool good = n > 0 && n <= tw.n - at && p[16] == 2 && (int64_t)be64_get(p) == expect && (int32_t)be32_get(p + 23) >= 0 &&
                    (int32_t)be32_get(p + 57) >= 0 && (int32_t)be32_get(p + 12) >= 0 && (int32_t)be32_get(p + 12) >= epoch &&
                    be32_get(p + 17) == crc32c(p + 21, n - 21);
        if (!good) {
            return;
        }
        tw.epoch[tw.batches] = epoch = (int32_t)be32_get(p + 12);
        expect += 1 + (int64_t)be32_get(p + 23);
        at += n;
    }
    tw.at[tw.batches] = tw.n = at;                 /* enough */
    tw.base[tw.batches] = expect;
}

/* ---- the files ---- */

static size_t cut_at;                              /* number of batches in the first file; all: one file */

static void put_files(struct depot *d, uint8_t flags) {
    char second[64];
    cut_at = flags & TWO_FILES && tw.batches >= 2 ? tw.batches / 2 : tw.batches;
    size_t at = cut_at == tw.batches ? tw.n : tw.at[cut_at];
    depot_put_home(d);
    depot_put(d, DEPOT_LOG, span_of(tw.bytes, at));
    if (cut_at != tw.batches) {
        (void)snprintf(second, sizeof second, DEPOT_DIR "/%020lld.log", (long long)tw.base[cut_at]);
        depot_put(d, second, span_of(tw.bytes + at, tw.n - at));
    }
}

/* A mark behind `k` batches. */
static void put_mark(struct depot *d, size_t k, int64_t more) {
    bool second = k > cut_at;
    struct datadir_mark m = {.topic_id = depot_topic_id(), .leader_epoch = k > 0 ? tw.epoch[k - 1] : -1, .end = tw.base[k], .heavy = -1,
                             .segment = second ? tw.base[cut_at] : 0, .bytes = (int64_t)tw.at[k] + more, .segments = second ? 2 : 1,
                             .first_ts = -1, .max_ts = -1, .max_ts_offset = -1, .timeindex_ts = -1, .heavy_max_ts = -1, .heavy_max_ts_offset = -1};
    m.position = m.bytes - (second ? (int64_t)tw.at[cut_at] : 0);
    for (size_t i = k; i > 0 && tw.epoch[i - 1] == m.leader_epoch; i--) {
        m.epoch_start = tw.base[i - 1];
    }
    depot_put_marks(d, &m, 1);
}

/* ---- what must hold ---- */

static void read_back(struct depot *d) {
    struct plog_ends e;
    plog_ends(d->lg, &e);
    must(e.start == 0 && e.next == tw.base[tw.batches] && e.stable == e.next);
    must(e.bytes == (int64_t)tw.at[tw.batches]);
    for (size_t i = 0; i < tw.batches; i++) {
        span got;
        off64 next, inside = tw.base[i] + (tw.base[i + 1] - tw.base[i]) / 2;
        must(depot_read(d, inside, e.next, &got, &next) == ERR_OK);
        must(next == tw.base[i + 1]);
        must(span_eq(got, span_of(tw.bytes + tw.at[i], tw.at[i + 1] - tw.at[i])));
        depot_drop(got);
    }
}

static void ask_times(struct depot *d) {
    off64 at;
    ms ts;
    for (size_t i = 0; i < tw.batches && i < 3; i++) {
        must(depot_find(d, (ms)(be64_get(tw.bytes + tw.at[i] + 35) & INT64_MAX), tw.base[tw.batches], &at, &ts) == ERR_OK);
        must(at < tw.base[tw.batches]);
    }
    must(depot_find(d, PLOG_MAX_TS, tw.base[tw.batches], &at, &ts) == ERR_OK);
}

static void untouched(struct depot *d) {
    span got = depot_get(d, DEPOT_LOG);
    size_t n = cut_at == tw.batches ? tw.n : tw.at[cut_at];
    must(got.n == n && memcmp(got.p, tw.bytes, n) == 0);
    depot_drop(got);
}

static void run(uint8_t flags, uint8_t where) {
    struct depot d;
    depot_init(&d);
    put_files(&d, flags);
    size_t k = tw.batches > 0 ? where % (tw.batches + 1) : 0;
    bool too_much = flags & MARKED && flags & TOO_MUCH && k == tw.batches;
    if (flags & MARKED) {
        put_mark(&d, k, too_much);
    } else {
        depot_put_marks(&d, NULL, 0);
    }
    must(depot_start(&d) && d.unclean);
    if (too_much) {
        must(d.recovered == ERR_DAMAGED && plog_is_lost(d.lg));
        depot_stop(&d);
        untouched(&d);
        depot_done(&d);
        return;
    }
    must(d.recovered == ERR_OK);
    must(d.rec.cut_bytes == (int64_t)(tw.n - tw.at[tw.batches]));
    must(d.rec.above_mark == (d.rec.cut_bytes > 0 || tw.base[tw.batches] > (flags & MARKED ? tw.base[k] : 0)));
    read_back(&d);
    ask_times(&d);
    if (flags & KILLED) {
        depot_kill(&d);
    } else {
        depot_stop(&d);
    }
    must(depot_start(&d) && d.recovered == ERR_OK && d.rec.cut_bytes == 0);
    must(d.unclean == ((flags & KILLED) != 0));
    read_back(&d);
    ask_times(&d);
    depot_stop(&d);
    depot_done(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 2 || n - 2 > BYTES_MAX) {
        return -1;
    }
    tw.n = n - 2;
    memcpy(tw.bytes, data + 2, tw.n);
    mend(data[0]);
    judge();
    run(data[0], data[1]);
    return 0;
}

/* ---- seeds ---- */

static void seed(void (*on)(void *u, span input), void *u, uint8_t flags, uint8_t where, const struct depot_batch *like) {
    struct depot d;
    struct arena a;
    uint8_t input[BYTES_MAX + 2] = {flags, where};
    depot_init(&d);
    arena_init(&a, NULL, 1 << 20);
    must(depot_start(&d) && d.recovered == ERR_OK);
    struct depot_batch b = *like;
    for (int i = 0; i < 6; i++) {
        depot_append(&d, depot_batch(&a, &b), i / 3);
        b.ts += 10;
        b.sequence += b.records;
    }
    depot_kill(&d);
    span log = depot_get(&d, DEPOT_LOG);
    must(log.n > 0 && log.n <= BYTES_MAX);
    memcpy(input + 2, log.p, log.n);
    on(u, span_of(input, log.n + 2));
    on(u, span_of(input, log.n - 20));
    depot_drop(log);
    arena_done(&a);
    depot_done(&d);
}

void fuzz_seeds(void (*on)(void *u, span input), void *u) {
    const struct depot_batch plain = {.records = 1, .value = 20, .ts = 1000, .producer_id = -1};
    const struct depot_batch many = {.records = 9, .value = 3, .ts = 1000, .producer_id = 77};
    const struct depot_batch packed = {.records = 9, .value = 30, .ts = 1000, .codec = CODEC_GZIP, .producer_id = -1};
    seed(on, u, 0, 0, &plain);
    seed(on, u, KILLED, 0, &many);
    seed(on, u, MAKE_CRC | MARKED, 3, &packed);
    seed(on, u, MAKE_CRC | MAKE_CHAIN, 0, &plain);
    seed(on, u, MAKE_CRC | TWO_FILES | MARKED, 4, &many);
    seed(on, u, MAKE_CRC | TWO_FILES | KILLED, 0, &plain);
    seed(on, u, MARKED | TOO_MUCH, 6, &plain);
    seed(on, u, MARKED | TOO_MUCH | TWO_FILES | KILLED, 4, &many);
}
