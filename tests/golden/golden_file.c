/* Reading golden files whole. Happy path: open, read, close. Failure modes: a file that cannot be
 * read ends the program.
 * Runs on: test programs. */
#include "golden_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/be.h"

static void give_up(const char *path) {
    perror(path);
    exit(2);
}

span golden_load(const char *dir, const char *file) {
    char path[4096];
    snprintf(path, sizeof path, "%s%s%s", dir, *dir ? "/" : "", file);
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) {
        give_up(path);
    }
    size_t n = (size_t)ftell(f);
    rewind(f);
    uint8_t *p = malloc(n + 1);
    if (!p || fread(p, 1, n, f) != n) {
        give_up(path);
    }
    p[n] = 0;
    fclose(f);
    return span_of(p, n);
}

void golden_free(span file) {
    free((void *)(uintptr_t)file.p);
}

bool golden_next(span *rest, span *ret_bytes) {
    if (rest->n < 4 || be32_get(rest->p) > rest->n - 4) {
        return false;
    }
    size_t n = be32_get(rest->p);
    *ret_bytes = span_of(rest->p + 4, n);
    *rest = span_of(rest->p + 4 + n, rest->n - 4 - n);
    return true;
}
