/* Recovery of the metadata log: log, snapshot, mark. A directory that the metadata log left, with one of the three replaced. Input: which file,
 * flags, its bytes. What the records say is applied as a start does it.
 *
 * Holds: opening says yes, or why not in one line and touches nothing; opened again it gives the same records; a change that is appended then is
 * there behind them at the next opening. T12. */
#include <stdio.h>
#include <string.h>

#include "base/be.h"
#include "base/crc.h"
#include "base/mem.h"
#include "depot.h"
#include "frames.h"
#include "store/metalog.h"

#define DIR "perigee.meta"
#define BYTES_MAX ((size_t)4 << 10)
#define WAIT_MS 10000

enum { SNAPSHOT_TAKEN = 1, MAKE_CRC = 2, MISSING = 4 };

static const char *const files[] = {DIR "/metadata.log", DIR "/metadata.snapshot", DIR "/metadata.mark"};
#define FILES (sizeof files / sizeof *files)
enum { MARK = 2 };

static struct depot_image images[2];               /* without and with a snapshot */

struct keeper {
    struct depot d;                                /* its machine only */
    struct port *port;
    struct metalog *ml;
    err opened;
    char why[256];
    uint64_t sum;                                  /* of the records, in order */
    uint32_t records;
    struct metalog_append append;
    bool done, taken;
};

static err on_record(void *u, span record) {
    struct keeper *k = u;
    k->sum = k->sum * 1000003 + crc32c(record.p, record.n) + record.n;
    k->records++;
    return record.n > 0 && record.p[0] == 0xee ? ERR_DAMAGED : ERR_OK;     /* whoever applies it may know better */
}

static void on_fatal(void *u, const char *why) {
    (void)u;
    must(why == NULL);
}

static void turn(void *u) { (void)u; }

static void boot_now(void *u, struct port **ports, uint32_t shards) {
    struct keeper *k = u;
    (void)shards;
    k->port = ports[0];
    k->port->on_turn(k->port, turn, k);
    k->opened = metalog_open(k->port->disk, on_record, k, &k->ml, WHY_IN(k->why));
    if (k->opened == ERR_OK) {
        metalog_bind(k->ml, k->port, on_fatal, k);
    }
}

static void start(struct keeper *k) {
    k->ml = NULL;
    k->sum = k->records = 0;
    k->why[0] = 0;
    must(world_node_start(k->d.n, 1, boot_now, k) == ERR_OK);
}

static void on_appended(struct metalog_append *a) {
    struct keeper *k = a->u;
    must(a->err == ERR_OK);
    k->done = true;
}

static void append_now(void *u) {
    struct keeper *k = u;
    k->append.done = on_appended;
    k->append.u = k;
    metalog_append(k->ml, &k->append);
}

static bool is_done(void *u) { return ((struct keeper *)u)->done; }

static void append(struct keeper *k, span record) {
    k->append = (struct metalog_append){.records = record};
    k->done = false;
    must(world_node_call(k->d.n, 0, append_now, k));
    must(world_run(k->d.w, is_done, k, WAIT_MS));
}

static void on_snapshot(void *u, err e) {
    struct keeper *k = u;
    must(e == ERR_OK);
    k->done = true;
}

static void snapshot_now(void *u) {
    struct keeper *k = u;
    uint8_t *p = mem_alloc(MEM_META, 40);
    must(p != NULL);
    memset(p, 's', 40);
    metalog_snapshot(k->ml, p, 40, on_snapshot, k);
}

static void on_stopped(void *u) { ((struct keeper *)u)->done = true; }

static void stop_now(void *u) {
    struct keeper *k = u;
    metalog_stop(k->ml, on_stopped, k);
}

static void end_now(void *u) {
    struct keeper *k = u;
    metalog_free(k->ml);
    k->port->stop(k->port);
}

static bool is_down(void *u) { return !world_node_is_up(((struct keeper *)u)->d.n); }

static void stop(struct keeper *k) {
    if (k->opened == ERR_OK) {
        k->done = false;
        must(world_node_call(k->d.n, 0, stop_now, k));
        must(k->done || world_run(k->d.w, is_done, k, WAIT_MS));
    }
    (void)world_node_call(k->d.n, 0, end_now, k);
    must(world_run(k->d.w, is_down, k, WAIT_MS));
}

static void prepare(void) {
    for (int taken = 0; taken <= 1 && images[taken].n == 0; taken++) {
        struct keeper k = {0};
        char text[40];
        depot_init(&k.d);
        depot_put(&k.d, DIR "/format", span_str("perigee data directory, format 1\n"));
        start(&k);
        must(k.opened == ERR_OK);
        for (int i = 0; i < 4; i++) {
            (void)snprintf(text, sizeof text, "record number %d", i);
            append(&k, span_str(text));
            if (taken && i == 1) {
                k.done = false;
                must(world_node_call(k.d.n, 0, snapshot_now, &k));
                must(world_run(k.d.w, is_done, &k, WAIT_MS));
            }
        }
        stop(&k);
        depot_image_take(&k.d, &images[taken]);
        depot_done(&k.d);
    }
}

/* CRCs and magics of a chain of frames, or of the two slots of the mark. */
static void mend(size_t which, uint8_t *p, size_t n) {
    for (size_t at = 0; which == MARK && at < 1024 && at + 24 <= n; at += 512) {
        be32_put(p + at + 4, 0x70676d6bu);
        be32_put(p + at, crc32c(p + at + 4, 20));
    }
    for (size_t at = 0; which != MARK && at + FRAMES_HEAD_BYTES <= n;) {
        size_t size = frames_size(be32_get(p + at + 12));
        if (size > n - at) {
            return;
        }
        be32_put(p + at, 0x70677266u);
        be32_put(p + at + 4, crc32c(p + at + 8, size - 8));
        at += size;
    }
}

static void untouched(struct keeper *k, const struct depot_image *im, const char *but, span instead) {
    for (size_t i = 0; i < im->n; i++) {
        span want = strcmp(im->files[i].path, but) != 0 ? im->files[i].bytes : instead;
        span got = depot_get(&k->d, im->files[i].path);
        must(got.n == want.n && (want.n == 0 || memcmp(got.p, want.p, want.n) == 0));
        depot_drop(got);
    }
}

static void run(size_t which, const struct depot_image *im, span bytes) {
    struct keeper k = {0};
    depot_init(&k.d);
    depot_image_lay(&k.d, im, files[which], bytes);
    start(&k);
    if (k.opened != ERR_OK) {
        must(k.opened == ERR_DAMAGED || k.opened == ERR_LIMIT);
        must(k.why[0] != 0);
        stop(&k);
        untouched(&k, im, files[which], bytes);
        depot_done(&k.d);
        return;
    }
    uint64_t sum = k.sum;
    uint32_t records = k.records;
    stop(&k);
    start(&k);
    must(k.opened == ERR_OK && k.sum == sum && k.records == records);
    append(&k, SPAN_LIT("one more"));
    stop(&k);
    start(&k);
    must(k.opened == ERR_OK && k.records == records + 1);
    must(k.sum == sum * 1000003 + crc32c("one more", 8) + 8);
    stop(&k);
    depot_done(&k.d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 2 || n - 2 > BYTES_MAX) {
        return -1;
    }
    prepare();
    uint8_t bytes[BYTES_MAX];
    size_t which = data[0] % FILES;
    memcpy(bytes, data + 2, n - 2);
    if (data[1] & MAKE_CRC) {
        mend(which, bytes, n - 2);
    }
    run(which, &images[data[1] & SNAPSHOT_TAKEN], data[1] & MISSING ? SPAN_NULL : span_of(bytes, n - 2));
    return 0;
}

void fuzz_seeds(void (*on)(void *u, span input), void *u) {
    prepare();
    for (size_t which = 0; which < FILES; which++) {
        for (uint8_t flags = 0; flags < 8; flags++) {
            uint8_t input[BYTES_MAX + 2] = {(uint8_t)which, flags};
            const struct depot_image *im = &images[flags & SNAPSHOT_TAKEN];
            for (size_t i = 0; i < im->n; i++) {
                if (strcmp(im->files[i].path, files[which]) == 0) {
                    memcpy(input + 2, im->files[i].bytes.p, im->files[i].bytes.n);
                    on(u, span_of(input, im->files[i].bytes.n + 2));
                }
            }
        }
    }
}
