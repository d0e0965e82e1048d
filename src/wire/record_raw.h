/* One record as it lies in the (unpacked) bytes of a batch. Private to the room. Quiet; any
 * thread. */
#pragma once

#include "base/span.h"

struct record_raw {
    int64_t ts_delta;
    int32_t delta;
    int32_t headers_n;
    span key, value;                   /* null allowed */
    span headers;                      /* all that is left of the record */
};

/* Read the record at *p and move behind it. False, with *p unmoved, when the bytes before `end` hold no well-formed record. */
bool record_raw_get(const uint8_t **p, const uint8_t *end, struct record_raw *ret_r);
/* Base plus delta; a sum past the ends of int64 wraps, since both may be lies. */
static inline int64_t record_raw_ts(const struct record_raw *r, int64_t base_ts_ms) {
    return (int64_t)((uint64_t)base_ts_ms + (uint64_t)r->ts_delta);
}
