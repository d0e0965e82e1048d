/* Deterministic random numbers (xoshiro256**), for decisions, never for secrets. One per shard, seeded by the port. */
#pragma once

#include "base/types.h"

struct prng {
    uint64_t s[4];
};

void prng_seed(struct prng *r, uint64_t seed);
uint64_t prng_next(struct prng *r);
uint64_t prng_below(struct prng *r, uint64_t n);                   /* uniform in [0, n); n > 0 */
bool prng_chance(struct prng *r, uint32_t num, uint32_t den);      /* true with probability num/den */
void prng_bytes(struct prng *r, uint8_t *p, size_t n);
