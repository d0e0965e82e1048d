/* Goal: ids are version 4, never zero or one (S2.15), and have exactly one text. Method: known pairs, random round trips, damage. */
#include "base/uuid.h"

#include <string.h>

#include "base/prng.h"
#include "run.h"

static const struct {
    uuid u;
    const char *text;
} pairs[] = {
    {{{0}}, "AAAAAAAAAAAAAAAAAAAAAA"},
    {{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}}, "AAAAAAAAAAAAAAAAAAAAAQ"},
    {{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}}, "AQIDBAUGBwgJCgsMDQ4PEA"},
    {{{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}}, "_____________________w"},
};

START_TEST(known_texts) {
    for (size_t i = 0; i < 4; i++) {
        char text[UUID_TEXT_CAP];
        uuid back;
        uuid_text(pairs[i].u, text);
        ck_assert_str_eq(text, pairs[i].text);
        ck_assert_int_eq(uuid_parse(span_str(text), &back), ERR_OK);
        ck_assert(uuid_eq(back, pairs[i].u));
    }
}
END_TEST

START_TEST(one_spelling_only) {
    static const char *const bad[] = {
        "", "AAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAA==", "AAAAAAAAAAAAAAAAAAAAAB",
        "AAAAAAAAAAAAAAAAAAAAAP", "----------------------", "AAAAAAAAAA+AAAAAAAAAAA", "AAAAAAAAAA/AAAAAAAAAAA",
        "AAAAAAAAAA AAAAAAAAAAA", "AAAAAAAAAA\303AAAAAAAAAAA",
    };
    uuid u = pairs[2].u;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_ne(uuid_parse(span_str(bad[i]), &u), ERR_OK);
    }
    ck_assert_int_ne(uuid_parse(SPAN_LIT("AAAAAAAAAA\0AAAAAAAAAAA"), &u), ERR_OK);
    ck_assert_int_ne(uuid_parse(SPAN_NULL, &u), ERR_OK);
    ck_assert(uuid_eq(u, pairs[2].u));     /* outputs untouched on failure */
}
END_TEST

/* S2.15, and a text never starts with '-'. */
START_TEST(random_ids_are_version_4) {
    struct prng r;
    prng_seed(&r, 15);
    for (int i = 0; i < 20000; i++) {
        uint8_t random[16];
        prng_bytes(&r, random, sizeof random);
        if (i == 0) {
            memset(random, 0, sizeof random);
        } else if (i < 3) {
            memset(random, 0xff, sizeof random);
            random[0] = (uint8_t)(i == 1 ? 0xf8 : 0xff);
        }
        uuid u = uuid_from_random(random), back;
        char text[UUID_TEXT_CAP];
        uuid_text(u, text);
        ck_assert(!uuid_is_zero(u) && !uuid_eq(u, pairs[1].u));
        ck_assert_int_eq(u.b[6] >> 4, 4);
        ck_assert_int_eq(u.b[8] >> 6, 2);
        ck_assert_int_ne(text[0], '-');
        ck_assert_uint_eq(strlen(text), UUID_TEXT_CAP - 1);
        ck_assert_int_eq(uuid_parse(span_str(text), &back), ERR_OK);
        ck_assert(uuid_eq(u, back));
    }
}
END_TEST

START_TEST(order) {
    ck_assert(uuid_is_zero(pairs[0].u));
    ck_assert(!uuid_is_zero(pairs[1].u));
    ck_assert_int_lt(uuid_cmp(pairs[0].u, pairs[1].u), 0);
    ck_assert_int_lt(uuid_cmp(pairs[1].u, pairs[2].u), 0);
    ck_assert_int_gt(uuid_cmp(pairs[3].u, pairs[2].u), 0);
    ck_assert_int_eq(uuid_cmp(pairs[3].u, pairs[3].u), 0);
}
END_TEST

int main(void) {
    return RUN("uuid", known_texts, one_spelling_only, random_ids_are_version_4, order);
}
