#pragma once
/* sconf.h: how the stub writes and when it answers. */

#include <stdbool.h>
#include <stdint.h>

enum {
    SCONF_PARTS_MAX = 20000,
    SCONF_CONNS_MAX = 20000,
    SCONF_FRAME_MAX = 128 << 20,
};

enum sconf_files {
    SCONF_FRESH,    /* one growing file per partition, rolled at roll_bytes: what a plain log costs */
    SCONF_RECYCLED, /* one preallocated ring for everything: what the machine can do */
};

enum sconf_sync {
    SCONF_NONE,   /* answered when written */
    SCONF_INLINE, /* fdatasync on the loop's thread, then the answers */
    SCONF_THREAD, /* group commit on a second thread; the loop goes on receiving */
};

enum sconf_lie { SCONF_TRUE, SCONF_DROP, SCONF_REPEAT, SCONF_FLIP };

enum { SCONF_LIE_EVERY = 50 }; /* batches between two lies */

struct sconf {
    enum sconf_files files;
    enum sconf_sync sync;
    enum sconf_lie lie; /* for testing the generator's verdict: lose, double or spoil batches */
    const char *dir, *ready_file;
    uint16_t port; /* 0: any; then the one that was given */
    uint64_t roll_bytes, ring_bytes;
};

/* Reads the command line; prints the usage and exits 2 on nonsense. Strings are borrowed from argv. */
void sconf_parse(struct sconf *cf, int argc, char **argv);
