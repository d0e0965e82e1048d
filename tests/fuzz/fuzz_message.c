/* Every decoder of every message, by table. Input: api (its key; another byte stands for some API), side (bit 7) and version, then a
 * body.
 *
 * Holds: what decodes also encodes; the measured size is the written one; and encoding is a
 * fixed point after one round (the first round may shorten varints, turn bools into 1 and drop
 * tags at their default). Printing takes anything that decodes. T52, T53. */
#include <stdlib.h>

#include "fuzz.h"
#include "wire/k_api.h"

#define ARENA_BYTES ((size_t)16 << 20)

struct round {
    struct arena arena;
    span bytes;
};

/* Decode in, encode it again into ret->bytes. False when it does not decode. */
static bool go_round(const struct msg *msg, int v, span in, struct round *ret) {
    struct arena *a = &ret->arena;
    arena_init(a, NULL, ARENA_BYTES);
    void *m = arena_alloc(a, msg->bytes);
    must(m != NULL);
    memset(m, 0x55, msg->bytes);
    struct rd r;
    rd_init(&r, in, a);
    if (msg->get(m, &r, v)) {
        arena_done(a);
        return false;
    }
    struct str s;
    str_init(&s, 1 << 16);
    msg->print(m, &s);
    str_done(&s);
    a->ceiling = 4 * ARENA_BYTES;                /* what could be decoded can be encoded */
    struct chain c;
    chain_init(&c, a);
    struct wr w = wr_to(&c), size = wr_measure();
    msg->put(m, &size, v);
    msg->put(m, &w, v);
    must(chain_ok(&c));
    must(c.bytes == size.measured);
    uint8_t *p = arena_alloc(a, c.bytes);
    must(p != NULL);
    chain_flatten(&c, p);
    ret->bytes = span_of(p, c.bytes);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 2) {
        return -1;
    }
    const struct msg_api *api = k_api_find(data[0]);
    api = api != NULL ? api : &k_apis[data[0] % K_APIS];
    const struct msg *msg = data[1] & 0x80 ? api->resp : api->req;
    int v = msg->min + (data[1] & 0x7f) % (msg->max - msg->min + 1);
    struct round first, second;
    if (go_round(msg, v, span_of(data + 2, n - 2), &first)) {
        must(go_round(msg, v, first.bytes, &second));
        must(span_eq(first.bytes, second.bytes));
        arena_done(&second.arena);
        arena_done(&first.arena);
    }
    return 0;
}
