/* Intrusive hash map: an array of chains, as many slots as nodes, doubled when full.
 *
 * Happy path: find walks one short chain comparing stored 64-bit hashes before it asks map_eq.
 * Failure modes: without memory the first insert says ERR_NOMEM; a later growth that fails only lengthens the chains and is tried again
 * at the next insert. Keys chosen by an attacker cannot pile into one chain: strings go through SipHash-1-3 under the map's seed.
 * Runs on: the thread that owns the map. Nothing shrinks, so removing the node handed out last keeps a walk valid. */
#include "base/map.h"

#include <string.h>

#include "base/mem.h"
#include "base/must.h"

#define MAP_SLOTS_MIN 16

struct sip {
    uint64_t a, b, c, d;
};

static uint64_t rotl(uint64_t v, int k) {
    return v << k | v >> (64 - k);
}

static void sip_round(struct sip *s) {
    s->a += s->b;
    s->b = rotl(s->b, 13) ^ s->a;
    s->a = rotl(s->a, 32);
    s->c += s->d;
    s->d = rotl(s->d, 16) ^ s->c;
    s->a += s->d;
    s->d = rotl(s->d, 21) ^ s->a;
    s->c += s->b;
    s->b = rotl(s->b, 17) ^ s->c;
    s->c = rotl(s->c, 32);
}

static struct sip sip_start(uint64_t seed) {
    uint64_t k0 = seed;
    uint64_t k1 = (seed ^ 0x5851f42d4c957f2du) * 0x9e3779b97f4a7c15u;   /* any bijection will do: the secret is 64 bits */
    return (struct sip){k0 ^ 0x736f6d6570736575u, k1 ^ 0x646f72616e646f6du, k0 ^ 0x6c7967656e657261u, k1 ^ 0x7465646279746573u};
}

static void sip_word(struct sip *s, uint64_t w) {
    s->d ^= w;
    sip_round(s);
    s->a ^= w;
}

static uint64_t sip_end(struct sip *s) {
    s->c ^= 0xff;
    sip_round(s);
    sip_round(s);
    sip_round(s);
    return s->a ^ s->b ^ s->c ^ s->d;
}

void map_init(struct map *m, uint64_t seed) {
    *m = (struct map){.seed = seed};
}

void map_done(struct map *m) {
    mem_free(m->slots);
    *m = (struct map){.seed = m->seed};
}

uint64_t map_hash(const struct map *m, span key) {
    struct sip s = sip_start(m->seed);
    size_t left = key.n;
    const uint8_t *p = key.p;
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        sip_word(&s, w);
    }
    uint64_t last = (uint64_t)key.n << 56;
    for (size_t i = 0; i < left; i++) {
        last |= (uint64_t)p[i] << (8 * i);
    }
    sip_word(&s, last);
    return sip_end(&s);
}

uint64_t map_hash_u64(const struct map *m, uint64_t key) {
    struct sip s = sip_start(m->seed);
    sip_word(&s, key);
    return sip_end(&s);
}

static struct map_node **slot_of(const struct map *m, uint64_t hash) {
    return &m->slots[hash & (m->cap - 1)];
}

struct map_node *map_find(const struct map *m, uint64_t hash, map_eq *eq, const void *key) {
    if (m->cap == 0) {
        return NULL;
    }
    for (struct map_node *it = *slot_of(m, hash); it; it = it->next) {
        if (it->hash == hash && eq(it, key)) {
            return it;
        }
    }
    return NULL;
}

static void grow(struct map *m) {
    size_t cap = m->cap ? m->cap * 2 : MAP_SLOTS_MIN;
    struct map bigger = {.cap = cap, .n = m->n, .seed = m->seed};
    bigger.slots = mem_zalloc(MEM_MAP, cap * sizeof *bigger.slots);
    if (!bigger.slots) {
        return;
    }
    for (size_t i = 0; i < m->cap; i++) {
        for (struct map_node *it = m->slots[i], *next; it; it = next) {
            next = it->next;
            struct map_node **slot = slot_of(&bigger, it->hash);
            it->next = *slot;
            *slot = it;
        }
    }
    mem_free(m->slots);
    *m = bigger;
}

err map_insert(struct map *m, struct map_node *node, uint64_t hash) {
    if (m->n >= m->cap) {
        grow(m);
    }
    if (m->cap == 0) {
        return ERR_NOMEM;
    }
    struct map_node **slot = slot_of(m, hash);
    node->hash = hash;
    node->next = *slot;
    *slot = node;
    m->n++;
    return ERR_OK;
}

void map_remove(struct map *m, struct map_node *node) {
    must(m->cap > 0);
    struct map_node **at = slot_of(m, node->hash);
    while (*at && *at != node) {
        at = &(*at)->next;
    }
    must(*at == node);
    *at = node->next;            /* node keeps its own next and hash: map_next may still start from it */
    m->n--;
}

struct map_node *map_next(const struct map *m, struct map_node *after) {
    if (after && after->next) {
        return after->next;
    }
    size_t i = after ? (size_t)(after->hash & (m->cap - 1)) + 1 : 0;
    while (i < m->cap && !m->slots[i]) {
        i++;
    }
    return i < m->cap ? m->slots[i] : NULL;
}
