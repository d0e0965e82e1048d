/* Goal: a map finds what is in it and nothing else, walks everything once, survives failed growth, and its order depends on the seed
 * alone. Method: random operations against a plain array, torture, fixed hash values (a kept simulation seed must replay). */
#include "base/map.h"

#include <string.h>

#include "base/prng.h"
#include "torture.h"

struct item {
    struct map_node node;
    uint64_t key;
    bool in;
};

static bool item_eq(const struct map_node *node, const void *key) {
    return ((const struct item *)(const void *)node)->key == *(const uint64_t *)key;
}

static struct item *find(const struct map *m, uint64_t key) {
    return (struct item *)(void *)map_find(m, map_hash_u64(m, key), item_eq, &key);
}

START_TEST(map_model) {
    enum { N = 300 };
    struct item items[N];
    struct prng r;
    prng_seed(&r, 11);
    struct map m;
    map_init(&m, 77);
    for (size_t i = 0; i < N; i++) {
        items[i] = (struct item){.key = i * 1000003};
    }
    size_t live = 0;
    for (int step = 0; step < 20000; step++) {
        struct item *it = &items[prng_below(&r, N)];
        ck_assert_ptr_eq(find(&m, it->key), it->in ? it : NULL);
        if (it->in) {
            map_remove(&m, &it->node);
            live--;
        } else {
            ck_assert_int_eq(map_insert(&m, &it->node, map_hash_u64(&m, it->key)), ERR_OK);
            live++;
        }
        it->in = !it->in;
        ck_assert_uint_eq(m.n, live);
        if (step % 512 == 0) {
            size_t walked = 0;
            for (struct map_node *n = map_next(&m, NULL); n; n = map_next(&m, n)) {
                ck_assert(((struct item *)(void *)n)->in);
                walked++;
            }
            ck_assert_uint_eq(walked, live);
        }
    }
    map_done(&m);
    ck_assert_uint_eq(mem_live(MEM_MAP), 0);
}
END_TEST

START_TEST(walk_may_remove_the_node_handed_out) {
    struct item items[200];
    struct map m;
    map_init(&m, 1);
    ck_assert_ptr_null(map_next(&m, NULL));
    for (uint64_t i = 0; i < 200; i++) {
        items[i] = (struct item){.key = i};
        ck_assert_int_eq(map_insert(&m, &items[i].node, map_hash_u64(&m, i)), ERR_OK);
    }
    size_t seen = 0, removed = 0;
    for (struct map_node *n = map_next(&m, NULL), *next; n; n = next) {
        seen++;
        if (seen % 3 != 0) {
            map_remove(&m, n);
            removed++;
        }
        next = map_next(&m, n);
    }
    ck_assert_uint_eq(seen, 200);
    ck_assert_uint_eq(m.n, 200 - removed);
    map_done(&m);
}
END_TEST

START_TEST(equal_hashes_are_told_apart_by_key) {
    struct item a = {.key = 1}, b = {.key = 2};
    uint64_t one = 1, two = 2, three = 3;
    struct map m;
    map_init(&m, 0);
    ck_assert_ptr_null(map_find(&m, 5, item_eq, &one));
    ck_assert_int_eq(map_insert(&m, &a.node, 5), ERR_OK);
    ck_assert_int_eq(map_insert(&m, &b.node, 5), ERR_OK);
    ck_assert_ptr_eq(map_find(&m, 5, item_eq, &one), &a.node);
    ck_assert_ptr_eq(map_find(&m, 5, item_eq, &two), &b.node);
    ck_assert_ptr_null(map_find(&m, 5, item_eq, &three));
    map_remove(&m, &a.node);
    ck_assert_ptr_eq(map_find(&m, 5, item_eq, &two), &b.node);
    map_done(&m);
}
END_TEST

static uint64_t hash_of(uint64_t seed, span key) {
    struct map m;
    map_init(&m, seed);
    return map_hash(&m, key);
}

START_TEST(hash_depends_on_seed_length_and_every_byte) {
    uint8_t key[40] = {0};
    for (size_t n = 0; n <= sizeof key; n++) {
        uint64_t base = hash_of(1, span_of(key, n));
        ck_assert_uint_ne(base, hash_of(2, span_of(key, n)));
        ck_assert_uint_eq(base, hash_of(1, span_of(key, n)));
        if (n > 0) {
            ck_assert_uint_ne(base, hash_of(1, span_of(key, n - 1)));
        }
        for (size_t bit = 0; bit < 8 * n; bit++) {
            key[bit / 8] ^= (uint8_t)(1 << bit % 8);
            ck_assert_uint_ne(base, hash_of(1, span_of(key, n)));
            key[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
    ck_assert_uint_eq(hash_of(1, SPAN_NULL), hash_of(1, SPAN_LIT("")));
}
END_TEST

/* Keys that share their low bits must not share slots: 4096 of them in 4096 slots fill about 63 % when hashed at random. */
START_TEST(hash_spreads_poor_keys) {
    static bool taken[4096];
    struct map m;
    map_init(&m, 3);
    unsigned used = 0;
    for (uint64_t i = 0; i < 4096; i++) {
        size_t at = map_hash_u64(&m, i << 32) & 4095;
        used += !taken[at];
        taken[at] = true;
    }
    ck_assert_uint_gt(used, 2400);
    ck_assert_uint_lt(used, 2800);
}
END_TEST

START_TEST(same_seed_same_order) {
    struct item items[2][500];
    struct map m[2];
    for (int k = 0; k < 2; k++) {
        map_init(&m[k], 5);
        for (size_t i = 0; i < 500; i++) {
            items[k][i] = (struct item){.key = i};
            ck_assert_int_eq(map_insert(&m[k], &items[k][i].node, map_hash_u64(&m[k], i)), ERR_OK);
        }
    }
    struct map_node *a = map_next(&m[0], NULL), *b = map_next(&m[1], NULL);
    for (; a && b; a = map_next(&m[0], a), b = map_next(&m[1], b)) {
        ck_assert_uint_eq(((struct item *)(void *)a)->key, ((struct item *)(void *)b)->key);
    }
    ck_assert(!a && !b);
    map_done(&m[0]);
    map_done(&m[1]);
}
END_TEST

static void fill_and_find(void) {
    struct item items[100];
    struct map m;
    map_init(&m, 9);
    bool refused = false;
    for (uint64_t i = 0; i < 100; i++) {
        items[i] = (struct item){.key = i};
        items[i].in = map_insert(&m, &items[i].node, map_hash_u64(&m, i)) == ERR_OK;
        ck_assert(items[i].in || (i == 0 && !refused));     /* only without any slot array at all */
        refused = refused || !items[i].in;
    }
    for (uint64_t i = 0; i < 100; i++) {
        ck_assert_ptr_eq(find(&m, i), items[i].in ? &items[i] : NULL);
    }
    map_done(&m);
}

START_TEST(growth_that_fails_only_lengthens_chains) {
    ck_assert_uint_gt(torture(fill_and_find), 3);
}
END_TEST

int main(void) {
    return RUN("map", map_model, walk_may_remove_the_node_handed_out, equal_hashes_are_told_apart_by_key,
               hash_depends_on_seed_length_and_every_byte, hash_spreads_poor_keys, same_seed_same_order,
               growth_that_fails_only_lengthens_chains);
}
