/* A chain of CRC frames: magic, CRC of the rest, then kind, length, generation, sequence, proven end, payload, zeros
 * up to a multiple of 8.
 *
 * Happy path: frames follow each other without gaps and their sequence grows by one.
 * Failure modes: the walk stops at the first frame that is not whole. Then it looks behind it, at every multiple of
 * 8: a whole frame whose `proven` lies beyond the bad place says that a sync had covered it: DAMAGED. Otherwise no
 * sync had returned for it: TORN. A crash may keep a later frame of the same unsynced stretch and lose an earlier
 * one; that frame proves nothing beyond the stretch's start.
 * Runs on: any; no I/O. */
#include "frames.h"

#include <string.h>

#include "base/be.h"
#include "base/crc.h"

#define MAGIC 0x70677266u          /* "pgrf" */

size_t frames_size(size_t payload) {
    return (FRAMES_HEAD_BYTES + payload + FRAMES_ALIGN - 1) & ~(size_t)(FRAMES_ALIGN - 1);
}

void frames_seal(uint8_t *p, const struct frames_head *h) {
    size_t end = FRAMES_HEAD_BYTES + h->bytes;
    be32_put(p, MAGIC);
    be32_put(p + 8, h->kind);
    be32_put(p + 12, h->bytes);
    be64_put(p + 16, h->generation);
    be64_put(p + 24, h->sequence);
    be64_put(p + 32, h->proven);
    be64_put(p + 40, 0);
    memset(p + end, 0, frames_size(h->bytes) - end);
    be32_put(p + 4, crc32c(p + 8, frames_size(h->bytes) - 8));
}

/* Is there a whole frame at the front of b? */
static bool get(span b, struct frames_head *ret) {
    if (b.n < FRAMES_HEAD_BYTES || be32_get(b.p) != MAGIC) {
        return false;
    }
    struct frames_head h = {.kind = be32_get(b.p + 8), .bytes = be32_get(b.p + 12), .generation = be64_get(b.p + 16),
                            .sequence = be64_get(b.p + 24), .proven = be64_get(b.p + 32)};
    size_t size = frames_size(h.bytes);
    if (size > b.n || be32_get(b.p + 4) != crc32c(b.p + 8, size - 8)) {
        return false;
    }
    *ret = h;
    return true;
}

static bool is_proven(span file, size_t bad) {
    struct frames_head h;
    for (size_t at = bad + FRAMES_ALIGN; at + FRAMES_HEAD_BYTES <= file.n; at += FRAMES_ALIGN) {
        if (get(span_of(file.p + at, file.n - at), &h) && h.proven > bad) {
            return true;
        }
    }
    return false;
}

err frames_walk(span file, err (*on_frame)(void *u, const struct frames_head *h, span payload), void *u,
                size_t *ret_good) {
    size_t at = 0;
    uint64_t sequence = 0;
    struct frames_head h;
    while (at < file.n) {
        bool good = get(span_of(file.p + at, file.n - at), &h) && (at == 0 || h.sequence == sequence + 1);
        if (!good) {
            *ret_good = at;
            return is_proven(file, at) ? ERR_DAMAGED : ERR_TORN;
        }
        err e = on_frame(u, &h, span_of(file.p + at + FRAMES_HEAD_BYTES, h.bytes));
        if (e != ERR_OK) {
            *ret_good = at;
            return e;
        }
        sequence = h.sequence;
        at += frames_size(h.bytes);
    }
    *ret_good = at;
    return ERR_OK;
}
