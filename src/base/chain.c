/* Bytes on their way out, in order.
 *
 * Happy path: the encoder asks for ink for small fields, which grows the tail node in place as long as its block has room, and lends the
 * record bytes; the sender turns the chain into iovecs.
 * Failure modes: an allocation that fails, or an arena at its ceiling, sets `bad`; from then on every call does nothing, so that an encoder needs one
 * check at its end. References taken so far are still given back by chain_done.
 * Runs on: whoever holds the request. */
#include "base/chain.h"

#include <string.h>

#include "base/must.h"

#define CHAIN_INK_BYTES 1024

void chain_init(struct chain *c, struct arena *a) {
    *c = (struct chain){.arena = a};
}

void chain_done(struct chain *c) {
    for (struct chain_node *it = c->head; it; it = it->next) {
        chunk_unref(it->chunk);
    }
    chain_init(c, c->arena);
}

bool chain_ok(const struct chain *c) {
    return !c->bad;
}

static struct chain_node *push(struct chain *c, const uint8_t *p, size_t n) {
    struct chain_node *node = arena_alloc(c->arena, sizeof *node);
    if (!node) {
        c->bad = true;
        return NULL;
    }
    *node = (struct chain_node){.p = p, .n = n};
    if (c->tail) {
        c->tail->next = node;
    } else {
        c->head = node;
    }
    c->tail = node;
    c->nodes++;
    c->bytes += n;
    return node;
}

static bool ink_refill(struct chain *c, size_t n) {
    size_t room = n > CHAIN_INK_BYTES ? n : CHAIN_INK_BYTES;
    uint8_t *block = arena_alloc(c->arena, room);
    if (!block) {
        c->bad = true;
        return false;
    }
    c->ink_end = block;
    c->ink_room = room;
    return true;
}

uint8_t *chain_ink(struct chain *c, size_t n) {
    if (c->bad || (n > c->ink_room && !ink_refill(c, n)) || (!c->ink_end && !ink_refill(c, 0))) {
        return NULL;
    }
    uint8_t *p = c->ink_end;
    bool grows = c->tail && !c->tail->chunk && c->tail->p + c->tail->n == p;
    if (n > 0 && !grows && !push(c, p, n)) {
        return NULL;
    }
    if (grows) {
        c->tail->n += n;
        c->bytes += n;
    }
    c->ink_end += n;
    c->ink_room -= n;
    return p;
}

void chain_copy(struct chain *c, span s) {
    uint8_t *p = s.n > 0 ? chain_ink(c, s.n) : NULL;
    if (p) {
        memcpy(p, s.p, s.n);
    }
}

void chain_lend(struct chain *c, span s, struct chunk *chunk) {
    if (c->bad || s.n == 0) {
        return;
    }
    struct chain_node *node = push(c, s.p, s.n);
    if (node && chunk) {
        node->chunk = chunk_ref(chunk);
    }
}

void chain_join(struct chain *a, struct chain *b) {
    bool same = a->arena == b->arena;
    if (b->head) {
        if (a->tail) {
            a->tail->next = b->head;
        } else {
            a->head = b->head;
        }
        a->tail = b->tail;
        a->bytes += b->bytes;
        a->nodes += b->nodes;
        a->ink_end = same ? b->ink_end : NULL;
        a->ink_room = same ? b->ink_room : 0;
    }
    a->bad = a->bad || b->bad;
    chain_init(b, b->arena);
}

size_t chain_iov(const struct chain *c, size_t skip, struct iovec *iov, size_t cap) {
    size_t used = 0;
    for (const struct chain_node *it = c->head; it && used < cap; it = it->next) {
        if (skip >= it->n) {
            skip -= it->n;
            continue;
        }
        iov[used++] = (struct iovec){.iov_base = (void *)(uintptr_t)(it->p + skip), .iov_len = it->n - skip};
        skip = 0;
    }
    return used;
}

void chain_flatten(const struct chain *c, uint8_t *ret) {
    for (const struct chain_node *it = c->head; it; it = it->next) {
        memcpy(ret, it->p, it->n);
        ret += it->n;
    }
}
