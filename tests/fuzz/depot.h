/* What the fuzz targets of the store share: a simulated node whose only program is a store with one log, "t-0". The target lays out files,
 * starts it, asks, stops it. Nothing touches a real disk. What a target believes, it holds with must(). */
#pragma once

#include "base/uuid.h"
#include "fuzz.h"
#include "port_sim/world.h"
#include "state/prodwin.h"
#include "store/plog.h"

#define DEPOT_DIR "t-0"
#define DEPOT_LOG DEPOT_DIR "/00000000000000000000.log"
#define DEPOT_MARKS "perigee.meta/marks.0"

struct depot {
    struct world *w;
    struct world_node *n;
    struct store_conf conf;
    struct log_conf log_conf;
    /* of the run */
    struct port *port;
    struct datadir *dd;
    struct store *st;
    struct plog *lg;
    struct chunk_pool *chunks;
    struct prodwin *win;           /* as the broker keeps it: loaded, replayed, written by checkpoints */
    err boot;                      /* of datadir_open and all that follows but recovery */
    err recovered;                 /* of plog_recover */
    struct plog_recovery rec;
    bool unclean, stopped;
    char why[256];
};

uuid depot_topic_id(void);
void depot_init(struct depot *d);                              /* a new machine with an empty disk */
void depot_done(struct depot *d);
/* Before a start. Directories are made at need. */
void depot_put(struct depot *d, const char *path, span bytes);
bool depot_has(struct depot *d, const char *path);
span depot_get(struct depot *d, const char *path);             /* depot_drop frees it; null: not there */
void depot_drop(span bytes);
/* perigee.meta/format and meta.properties, as a store makes them. */
void depot_put_home(struct depot *d);
/* marks.0 of one unclean run, with these marks. */
void depot_put_marks(struct depot *d, const struct datadir_mark *marks, size_t n);

/* Boot: data directory, store, the log, its recovery, the first marks. True when it serves; then it is up until depot_stop or depot_kill. */
bool depot_start(struct depot *d);
void depot_kill(struct depot *d);
void depot_stop(struct depot *d);                              /* cleanly; the world looks for leftovers */
void depot_run(struct depot *d, ms how_long);
/* Append one batch (base offset and epoch are stamped) and want it synced. */
void depot_append(struct depot *d, span batch, int32_t epoch);
/* Read one batch, from the tail or through the read lane; *ret_bytes is depot_drop's. */
err depot_read(struct depot *d, off64 from, off64 below, span *ret_bytes, off64 *ret_next);
/* Offset of a time; -1: none. */
err depot_find(struct depot *d, ms ts, off64 below, off64 *ret, ms *ret_ts);

/* Small batches for seeds and twins: `records` of them with values of `value` bytes, timestamps from ts on. In the arena. */
struct depot_batch {
    int records;
    size_t value;
    ms ts;
    enum batch_codec codec;
    int64_t producer_id;
    int32_t sequence;
};
span depot_batch(struct arena *a, const struct depot_batch *b);

/* All files of a disk, to lay the same out again. */
struct depot_image {
    struct depot_image_file {
        char path[100];
        span bytes;
    } files[32];
    size_t n;
};
void depot_image_take(struct depot *d, struct depot_image *ret);       /* lives until the program ends */
void depot_image_lay(struct depot *d, const struct depot_image *im, const char *but, span instead);   /* file `but` holds `instead`; null: missing */
