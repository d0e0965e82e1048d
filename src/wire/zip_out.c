/* A growing output buffer under a ceiling.
 *
 * Happy path: it starts at a few times the packed size, doubles, and is copied into the arena once
 * its size is known.
 * Failure modes: the ceiling may be passed by one byte, which is how a stream that ends exactly
 * there is told from one that goes on.
 * Runs on: any. */
#include "zip_out.h"

#include <string.h>

#include "base/mem.h"

#define ZIP_OUT_BYTES ((size_t)4 << 10)

void zip_out_init(struct zip_out *o, size_t packed_bytes, size_t max) {
    *o = (struct zip_out){.max = max, .cap = packed_bytes > ZIP_OUT_BYTES ? packed_bytes : ZIP_OUT_BYTES};
}

void zip_out_done(struct zip_out *o) {
    mem_free(o->p);
    o->p = NULL;
}

err zip_out_more(struct zip_out *o) {
    if (o->n > o->max) {
        return ERR_LIMIT;
    }
    if (o->p && o->n < o->cap) {
        return ERR_OK;
    }
    size_t cap = o->cap < o->max / 2 ? o->cap * 2 : o->max + 1;
    uint8_t *p = mem_realloc(MEM_ARENA, o->p, cap);
    if (!p) {
        return ERR_NOMEM;
    }
    o->p = p;
    o->cap = cap;
    return ERR_OK;
}

err zip_out_take(struct zip_out *o, struct arena *a, span *ret_out) {
    err e = o->n > o->max ? ERR_LIMIT : ERR_OK;
    uint8_t *p = e ? NULL : arena_alloc(a, o->n);
    if (p) {
        if (o->n > 0) {
            memcpy(p, o->p, o->n);
        }
        *ret_out = span_of(p, o->n);
    }
    zip_out_done(o);
    return e ? e : p ? ERR_OK : ERR_NOMEM;
}
