/* Stored records of the metadata log as bytes.
 * Happy path: one record behind another. Failure modes: DAMAGED when lengths or bodies lie, NEWER for a version this program does not know.
 * Runs on: any. */
#include "meta_frame.h"

#include "base/be.h"
#include "base/limits.h"
#include "base/mem.h"

#define META_FRAME_LENGTH_BYTES 4
#define META_FRAME_HEAD_BYTES 4                    /* key and version, which the length counts */

static err append(struct str *out, uint16_t key, uint16_t version, const struct chain *body) {
    size_t n = META_FRAME_LENGTH_BYTES + META_FRAME_HEAD_BYTES + body->bytes;
    uint8_t *bytes = mem_alloc(MEM_META, n);
    if (bytes == NULL) {
        return ERR_NOMEM;
    }
    be32_put(bytes, (uint32_t)(n - META_FRAME_LENGTH_BYTES));
    be16_put(bytes + 4, key);
    be16_put(bytes + 6, version);
    chain_flatten(body, bytes + META_FRAME_LENGTH_BYTES + META_FRAME_HEAD_BYTES);
    bool fits = n <= out->ceiling && out->n <= out->ceiling - n;
    str_add(out, span_of(bytes, n));
    mem_free(bytes);
    return !out->bad ? ERR_OK : fits ? ERR_NOMEM : ERR_LIMIT;
}

err meta_frame_put(struct str *out, uint16_t key, const struct msg *m, const void *body) {
    struct arena a;
    struct chain c;
    arena_init(&a, NULL, LIMIT_ARENA_BYTES);
    chain_init(&c, &a);
    struct wr w = wr_to(&c);
    m->put(body, &w, m->max);
    err e = chain_ok(&c) ? append(out, key, (uint16_t)m->max, &c) : a.starved ? ERR_NOMEM : ERR_LIMIT;
    chain_done(&c);
    arena_done(&a);
    return e;
}

err meta_frame_next(span *frame, struct meta_frame_record *ret) {
    if (frame->n == 0) {
        return ERR_NOT_FOUND;
    }
    if (frame->n < META_FRAME_LENGTH_BYTES + META_FRAME_HEAD_BYTES) {
        return ERR_DAMAGED;
    }
    size_t n = be32_get(frame->p);
    if (n < META_FRAME_HEAD_BYTES || n > frame->n - META_FRAME_LENGTH_BYTES) {
        return ERR_DAMAGED;
    }
    *ret = (struct meta_frame_record){
        .key = be16_get(frame->p + 4),
        .version = be16_get(frame->p + 6),
        .body = span_of(frame->p + META_FRAME_LENGTH_BYTES + META_FRAME_HEAD_BYTES, n - META_FRAME_HEAD_BYTES),
    };
    *frame = span_of(frame->p + META_FRAME_LENGTH_BYTES + n, frame->n - META_FRAME_LENGTH_BYTES - n);
    return ERR_OK;
}

err meta_frame_get(const struct meta_frame_record *rec, const struct msg *m, void *ret_body, struct arena *a) {
    if (rec->version > (uint16_t)m->max) {
        return ERR_NEWER;
    }
    struct rd r;
    rd_init(&r, rec->body, a);
    err e = m->get(ret_body, &r, rec->version);
    if (e == ERR_OK && rd_left(&r) != 0) {
        return ERR_DAMAGED;
    }
    return e == ERR_OK || e == ERR_NOMEM ? e : ERR_DAMAGED;
}
