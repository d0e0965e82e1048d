/* What a fuzz target gives: libFuzzer's entry, and how a seed for it is made. Linked either with
 * libFuzzer or with replay.c. */
#pragma once

#include "base/must.h"
#include "base/types.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
