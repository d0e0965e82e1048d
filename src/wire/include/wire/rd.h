/* Reading a Kafka message: a cursor with a sticky error. Generated code has no error branches; one check at the end. Quiet. */
#pragma once

#include "base/arena.h"
#include "base/be.h"
#include "base/uuid.h"

struct rd {
    const uint8_t *p, *end;
    struct arena *arena;               /* arrays and unknown tags; spans point into the frame, nothing is copied */
    bool bad;                          /* nonsense, short, or out of memory: all further reads give zeros */
    bool nomem;
};

void rd_init(struct rd *r, span bytes, struct arena *a);
static inline size_t rd_left(const struct rd *r) { return (size_t)(r->end - r->p); }
