/* Where output goes whose size is not known beforehand: a buffer that grows up to a ceiling, outside
 * the arena, so that a bomb leaves nothing behind there. Private to the room. */
#pragma once

#include "base/arena.h"
#include "base/err.h"

struct zip_out {
    uint8_t *p;
    size_t n, cap, max;
};

void zip_out_init(struct zip_out *o, size_t packed_bytes, size_t max);
void zip_out_done(struct zip_out *o);
/* Make room for one byte at least at p + n. LIMIT when more than max were put out, NOMEM. */
err zip_out_more(struct zip_out *o);
/* Move the output into the arena. LIMIT, NOMEM. o is done afterwards, whatever the outcome. */
err zip_out_take(struct zip_out *o, struct arena *a, span *ret_out);
