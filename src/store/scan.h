/* Looking at stored batches one after the other: is this the one that must come here? */
#pragma once

#include "wire/batch.h"

/* The batch at the front of b: TORN when b is too short to hold it (ret_h is set when at least its header is there:
 * h->bytes says how much is needed, else h->bytes is 0), CORRUPT when it cannot be a batch, does not begin at
 * `expect`, or (with `crc`) its bytes are not what was written. */
err scan_batch(span b, off64 expect, bool crc, struct batch_head *ret_h);
