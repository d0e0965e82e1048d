/* A connection's bytes: frames of int32 size, header, body, read as the Kafka door reads them.
 * Holds: nothing is read outside its frame, and a served request that decodes is at most as long
 * as its frame. T51 (its decoding half), T52, T53. */
#include "base/mem.h"
#include "fuzz.h"
#include "wire/head.h"

#define ARENA_BYTES ((size_t)16 << 20)

static void one_frame(span frame) {
    struct arena a;
    arena_init(&a, NULL, ARENA_BYTES);
    struct rd r;
    rd_init(&r, frame, &a);
    struct k_request_header h;
    const struct msg_api *api = NULL;
    if (head_request_get(&r, &h, &api) == ERR_OK && api && h.api_version >= api->min && h.api_version <= api->max) {
        must(api->key == h.api_key);
        void *m = arena_alloc(&a, api->req->bytes);
        must(m != NULL);
        if (api->req->get(m, &r, h.api_version) == ERR_OK) {
            must(rd_left(&r) <= frame.n);
            must(r.end == frame.p + frame.n);
        }
    }
    arena_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    while (n >= 4) {
        size_t size = be32_get(data);
        size = size < n - 4 ? size : n - 4;
        uint8_t *exact = mem_alloc(MEM_TEST, size);          /* its own block, so that the sanitizer sees its end */
        must(exact != NULL);
        memcpy(exact, data + 4, size);
        one_frame(span_of(exact, size));
        mem_free(exact);
        data += 4 + size;
        n -= 4 + size;
    }
    return 0;
}
