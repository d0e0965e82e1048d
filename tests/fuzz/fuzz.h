/* What a fuzz target gives: libFuzzer's entry, and perhaps inputs of its own making. Linked either with libFuzzer or with replay.c. */
#pragma once

#include "base/must.h"
#include "base/span.h"
#include "base/types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
/* Optional: inputs to begin with, made by the code that writes the real thing (replay.c, --seed). */
void fuzz_seeds(void (*on)(void *u, span input), void *u) __attribute__((weak));
