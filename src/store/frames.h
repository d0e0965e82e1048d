/* A chain of CRC frames in an append-only file: what perigee's own files (durable marks, metadata log) are made of.
 * FORMAT.md has the layout. Each frame carries the `proven` end: how much of the file was synced when the frame was
 * built. So a bad frame with a later frame that proves it is damage, and a bad frame that nothing proves is a torn
 * tail. */
#pragma once

#include "base/err.h"
#include "base/span.h"

#define FRAMES_HEAD_BYTES 48
#define FRAMES_ALIGN 8

struct frames_head {
    uint32_t kind;
    uint32_t bytes;                /* of the payload */
    uint64_t generation, sequence;
    uint64_t proven;
};

/* Bytes that a frame with this payload takes. */
size_t frames_size(size_t payload);
/* Writes the frame whose payload already lies at p + FRAMES_HEAD_BYTES; pads. p has room for frames_size(h->bytes). */
void frames_seal(uint8_t *p, const struct frames_head *h);

/* Walks the frames of a whole file. on_frame returns OK to go on. *ret_good: where the last good frame ends. Returns
 * OK (all good), TORN (what follows *ret_good is a torn tail), DAMAGED (at *ret_good), or what on_frame returned. */
err frames_walk(span file, err (*on_frame)(void *u, const struct frames_head *h, span payload), void *u,
                size_t *ret_good);
