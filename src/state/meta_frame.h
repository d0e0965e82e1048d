/* Stored records in a frame: length u32 (of what follows), key u16, version u16, body (schema/records). Frames may be put one behind another: the
 * result is a frame. */
#pragma once

#include "base/str.h"
#include "wire/msg.h"

struct meta_frame_record {
    uint16_t key, version;
    span body;
};

/* Append one record of the newest version of m. LIMIT when it does not fit into out's ceiling or a text is too long, NOMEM. */
err meta_frame_put(struct str *out, uint16_t key, const struct msg *m, const void *body);
/* Take the first record off the frame. NOT_FOUND at its end, DAMAGED. */
err meta_frame_next(span *frame, struct meta_frame_record *ret);
/* Decode all of the body: DAMAGED (also bytes left over), NEWER, NOMEM. Arrays lie in a. */
err meta_frame_get(const struct meta_frame_record *rec, const struct msg *m, void *ret_body, struct arena *a);
