/* die.c: the end of a bench program that cannot go on.
 *
 * Purpose: benches have no half results; a failed call ends the run with a line that names it.
 * Happy path: never called.
 * Failure modes: none; it exits.
 * Runs on: any thread. */
#include "die.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void die(const char *fmt, ...) {
    int e = errno;
    va_list ap;
    va_start(ap, fmt);
    fputs("bench: ", stderr);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, " (errno: %s)\n", e ? strerror(e) : "none");
    exit(1);
}

void *die_alloc(size_t n, size_t size) {
    void *p = calloc(n ? n : 1, size ? size : 1);
    if (!p) {
        die("out of memory: %zu x %zu bytes", n, size);
    }
    return p;
}
