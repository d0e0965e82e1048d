#pragma once
/* verify.h: the verdict: everything acknowledged is there, once, whole, and nothing else is. */

#include <stdbool.h>
#include <stdint.h>

#include "conf.h"
#include "tally.h"

struct verify_result {
    uint64_t records, bytes, crc_sum; /* read back */
    double seconds;
    uint64_t parts_wrong; /* partitions whose count, sum or end offset differ */
    bool ok;
};

/* Reads every partition from tl->parts[i].start to its end and compares count, sum of CRCs, offsets and ListOffsets
 * with what was acknowledged. With `compare` false it only checks CRCs and offsets of what is there.
 * The fields of `tl` about reading are reset first. */
struct verify_result verify_run(const struct conf *cf, struct tally *tl, bool compare);
