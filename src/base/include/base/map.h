/* Intrusive hash map (chained, grows by doubling). Hashes are seeded (map_init), so order is the same for the same seed and never
 * depends on addresses. The map owns its slot array, never the nodes. */
#pragma once

#include "base/err.h"
#include "base/span.h"

struct map_node {
    struct map_node *next;
    uint64_t hash;
};

struct map {
    struct map_node **slots;
    size_t n, cap;          /* live nodes; slots, a power of two or 0 */
    uint64_t seed;
};

typedef bool map_eq(const struct map_node *node, const void *key);

void map_init(struct map *m, uint64_t seed);
void map_done(struct map *m);                                  /* frees the slots only */
uint64_t map_hash(const struct map *m, span key);              /* SipHash-like keyed hash, DoS-safe */
uint64_t map_hash_u64(const struct map *m, uint64_t key);
struct map_node *map_find(const struct map *m, uint64_t hash, map_eq *eq, const void *key);
/* The key must not be present. ERR_NOMEM only if no slot array exists at all; a failed growth just lengthens chains. */
err map_insert(struct map *m, struct map_node *node, uint64_t hash);
void map_remove(struct map *m, struct map_node *node);
/* Walk all nodes: start with NULL, stop at NULL. The node handed out last may be removed before the next call. */
struct map_node *map_next(const struct map *m, struct map_node *after);
