/* sconf.c: the stub's command line.
 *
 * Purpose: name the two choices that matter (files, sync) and where the files go.
 * Happy path: defaults, then each option.
 * Failure modes: anything unknown prints the usage and exits 2.
 * Runs on: the main thread, once. */
#include "sconf.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noreturn)) static void sconf_fail(void) {
    fprintf(stderr,
            "usage: ideal_stub --dir DIR [--files fresh|recycled] [--sync none|inline|thread]\n"
            "                  [--port P] [--ready-file FILE] [--roll-mb M] [--ring-mb M] [--lie drop|repeat|flip]\n");
    exit(2);
}

static int sconf_choice(const char *v, const char *const *names, int n) {
    for (int i = 0; i < n; i++) {
        if (strcmp(v, names[i]) == 0) {
            return i;
        }
    }
    sconf_fail();
}

static uint64_t sconf_number(const char *v, uint64_t max) {
    char *end = NULL;
    unsigned long long n = strtoull(v, &end, 10);
    if (!end || *end || end == v || n > max) {
        sconf_fail();
    }
    return n;
}

void sconf_parse(struct sconf *cf, int argc, char **argv) {
    static const struct option options[] = {
        {"dir", required_argument, NULL, 'd'},
        {"files", required_argument, NULL, 'f'},
        {"sync", required_argument, NULL, 's'},
        {"port", required_argument, NULL, 'p'},
        {"ready-file", required_argument, NULL, 'r'},
        {"roll-mb", required_argument, NULL, 'o'},
        {"ring-mb", required_argument, NULL, 'i'},
        {"lie", required_argument, NULL, 'l'},
        {0},
    };
    static const char *const files[] = {"fresh", "recycled"}, *const syncs[] = {"none", "inline", "thread"};
    static const char *const lies[] = {"none", "drop", "repeat", "flip"};
    *cf = (struct sconf){.roll_bytes = 1ull << 30, .ring_bytes = 1ull << 30};
    int opt;
    while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (opt) {
        case 'd': cf->dir = optarg; break;
        case 'f': cf->files = (enum sconf_files)sconf_choice(optarg, files, 2); break;
        case 's': cf->sync = (enum sconf_sync)sconf_choice(optarg, syncs, 3); break;
        case 'l': cf->lie = (enum sconf_lie)sconf_choice(optarg, lies, 4); break;
        case 'p': cf->port = (uint16_t)sconf_number(optarg, 65535); break;
        case 'r': cf->ready_file = optarg; break;
        case 'o': cf->roll_bytes = sconf_number(optarg, 1 << 20) << 20; break;
        case 'i': cf->ring_bytes = sconf_number(optarg, 1 << 20) << 20; break;
        default: sconf_fail();
        }
    }
    if (!cf->dir || optind != argc || cf->roll_bytes == 0 || cf->ring_bytes < SCONF_FRAME_MAX) {
        sconf_fail();
    }
}
