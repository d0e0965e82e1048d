/* Bytes on their way out, in order: small copied ones (ink, in the request's arena) and lent ones (a span kept alive by a chunk
 * reference). A chain owns one reference per lent node; chain_done gives them back. Not thread-safe. */
#pragma once

#include <sys/uio.h>

#include "base/arena.h"
#include "base/chunk.h"
#include "base/err.h"

struct chain_node {
    struct chain_node *next;
    const uint8_t *p;
    size_t n;
    struct chunk *chunk;         /* NULL: ink or bytes that outlive the chain */
};

struct chain {
    struct arena *arena;         /* nodes and ink come from here; must outlive the chain */
    struct chain_node *head, *tail;
    size_t bytes;                /* total */
    size_t nodes;
    uint8_t *ink_end;            /* where the tail node, if ink, may grow in place */
    size_t ink_room;
    bool bad;                    /* an allocation failed: the chain is unusable, chain_ok says so */
};

void chain_init(struct chain *c, struct arena *a);
void chain_done(struct chain *c);                              /* drops chunk references; the chain is empty afterwards */
bool chain_ok(const struct chain *c);
/* Room for exactly n contiguous bytes of ink at the end, to be filled by the caller; NULL without memory (sets bad). */
uint8_t *chain_ink(struct chain *c, size_t n);
void chain_copy(struct chain *c, span s);
/* Lend s, which lies in chunk (a reference is taken), or in memory outliving the chain when chunk is NULL. */
void chain_lend(struct chain *c, span s, struct chunk *chunk);
/* Append all of b to a; b is left empty. b's arena, where the nodes stay, must live as long as a's. */
void chain_join(struct chain *a, struct chain *b);
/* Fill up to cap entries starting at byte `skip` of the chain; returns entries used (for writev in pieces). */
size_t chain_iov(const struct chain *c, size_t skip, struct iovec *iov, size_t cap);
void chain_flatten(const struct chain *c, uint8_t *ret);       /* ret has room for c->bytes */
