/* See seen.h. Happy path: an open-addressed table, at most half full. Failure modes: none but memory, at seen_init.
 * Runs on: home shard. */
#include "seen.h"

bool seen_init(struct seen *s, struct rq *rq, size_t n) {
    size_t cap = 8;
    while (cap < 2 * n) {
        cap *= 2;
    }
    *s = (struct seen){.sh = rq->sh, .slots = rq_array(rq, cap, sizeof(*s->slots)), .mask = cap - 1};
    return s->slots != NULL;
}

uint64_t seen_hash(const struct seen *s, span key) { return map_hash(&s->sh->parts, key); }

uint64_t seen_hash_part(const struct seen *s, uint64_t topic_hash, int32_t partition) {
    return map_hash_u64(&s->sh->parts, topic_hash ^ (uint32_t)partition);
}

uint32_t seen_add(struct seen *s, uint64_t hash, uint32_t i, seen_same *same, const void *u) {
    size_t at = hash & s->mask;
    for (; s->slots[at] != 0; at = (at + 1) & s->mask) {
        if (same(u, s->slots[at] - 1, i)) {
            return s->slots[at] - 1;
        }
    }
    s->slots[at] = i + 1;
    return i;
}
