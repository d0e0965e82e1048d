/* Which entries of one request mean the same: a set of their indexes, in the request's arena. Each look costs the same however many there are and whatever a hostile
 * client names: hashes are keyed. */
#pragma once

#include "rq.h"

struct seen {
    const struct shard *sh;
    uint32_t *slots;                   /* index + 1; 0: free */
    size_t mask;
};

typedef bool seen_same(const void *u, uint32_t a, uint32_t b);         /* do entries a and b mean the same? */

/* For at most n entries. False without memory. */
bool seen_init(struct seen *s, struct rq *rq, size_t n);
uint64_t seen_hash(const struct seen *s, span key);
uint64_t seen_hash_part(const struct seen *s, uint64_t topic_hash, int32_t partition);
/* Adds entry i, whose key has this hash. Returns i, or the one that is there already and means the same. */
uint32_t seen_add(struct seen *s, uint64_t hash, uint32_t i, seen_same *same, const void *u);
