/* xoshiro256** (Blackman and Vigna), seeded through splitmix64: the broker's only source of chance after start.
 *
 * Happy path: the port seeds one generator per shard; the same seed gives the same run.
 * Failure modes: none. The all-zero state, from which the generator would never leave, cannot come out of the seeding.
 * Runs on: the thread that owns the struct. */
#include "base/prng.h"

#include <string.h>

#include "base/must.h"

static uint64_t rotl(uint64_t v, int k) {
    return v << k | v >> (64 - k);
}

void prng_seed(struct prng *r, uint64_t seed) {
    for (size_t i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        r->s[i] = z ^ z >> 31;
    }
}

uint64_t prng_next(struct prng *r) {
    uint64_t *s = r->s;
    uint64_t out = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return out;
}

uint64_t prng_below(struct prng *r, uint64_t n) {
    must(n > 0);
    uint64_t skewed = (0 - n) % n;                 /* 2^64 mod n: the values that would favour small results */
    uint64_t v;
    do {
        v = prng_next(r);
    } while (v < skewed);
    return v % n;
}

bool prng_chance(struct prng *r, uint32_t num, uint32_t den) {
    return prng_below(r, den) < num;
}

void prng_bytes(struct prng *r, uint8_t *p, size_t n) {
    while (n > 0) {
        uint64_t v = prng_next(r);
        size_t step = n < sizeof v ? n : sizeof v;
        memcpy(p, &v, step);
        p += step;
        n -= step;
    }
}
