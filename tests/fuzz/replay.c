/* A fuzz target without libFuzzer: runs every kept input once. A corpus is one file of [u32 big endian length][input]....
 *     fuzz_x CORPUS...             run all inputs (and nothing else: no mutation, any compiler)
 *     fuzz_x --seed CORPUS         the target's own inputs to begin with, made by the code that writes the real thing */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/be.h"
#include "fuzz.h"
#include "golden_file.h"

static int run(const char *path) {
    span file = golden_load("", path), rest = file, input;
    unsigned n = 0;
    for (; golden_next(&rest, &input); n++) {
        uint8_t *exact = malloc(input.n ? input.n : 1);      /* its own block, so that a sanitizer sees its end */
        must(exact != NULL);
        memcpy(exact, input.p, input.n);
        (void)LLVMFuzzerTestOneInput(exact, input.n);        /* -1: of no interest to a fuzzer */
        free(exact);
    }
    printf("%s: %u inputs\n", path, n);
    bool ok = n > 0 && rest.n == 0;
    golden_free(file);
    return ok ? 0 : 1;
}

static void write_input(void *u, span input) {
    uint8_t length[4];
    be32_put(length, (uint32_t)input.n);
    must(fwrite(length, 1, 4, u) == 4);
    must(fwrite(input.p, 1, input.n, u) == input.n);
}

static int seed(const char *path) {
    must(fuzz_seeds != NULL);
    FILE *f = fopen(path, "wb");
    must(f != NULL);
    fuzz_seeds(write_input, f);
    return fclose(f) == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--seed") == 0) {
        return seed(argv[2]);
    }
    int rc = argc > 1 ? 0 : 2;
    for (int i = 1; i < argc; i++) {
        rc |= run(argv[i]);
    }
    return rc;
}
