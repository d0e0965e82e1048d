/* Goal: a text grows to its ceiling and says so when it is incomplete. Method: tables, torture. */
#include "base/str.h"

#include <string.h>

#include "torture.h"

START_TEST(grows_and_clears) {
    struct str s;
    str_init(&s, 100000);
    ck_assert_uint_eq(str_span(&s).n, 0);
    str_add(&s, SPAN_NULL);
    str_addf(&s, "%s", "");
    for (int i = 0; i < 1000; i++) {
        str_add(&s, SPAN_LIT("ab"));
        str_addf(&s, "%03d", i);
    }
    ck_assert_uint_eq(s.n, 5000);
    ck_assert_uint_eq(strlen(s.p), 5000);
    ck_assert_str_eq(s.p + 4995, "ab999");
    ck_assert(!s.bad);
    str_clear(&s);
    ck_assert_uint_eq(s.n, 0);
    ck_assert_str_eq(s.p, "");
    str_done(&s);
    str_done(&s);
    ck_assert_uint_eq(mem_live_all(), 0);
}
END_TEST

START_TEST(keeps_what_fits_below_the_ceiling) {
    static const struct {
        size_t ceiling;
        const char *text;
        bool bad;
    } table[] = {{0, "", true}, {3, "abc", true}, {6, "abcdef", true}, {7, "abcdef1", true}, {8, "abcdef12", false}, {200, "abcdef12", false}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct str s;
        str_init(&s, table[i].ceiling);
        str_add(&s, SPAN_LIT("abcdef"));
        str_addf(&s, "%d", 12);
        ck_assert(span_eq(span_of(s.p ? s.p : "", s.n), span_str(table[i].text)));
        ck_assert(s.bad == table[i].bad);
        if (s.bad) {
            str_add(&s, SPAN_LIT("z"));            /* no hole: later additions are dropped */
            str_addf(&s, "z");
            ck_assert_uint_eq(s.n, strlen(table[i].text));
            str_clear(&s);
            ck_assert(!s.bad);
        }
        str_done(&s);
    }
}
END_TEST

static void write_some(void) {
    struct str s;
    str_init(&s, SIZE_MAX);
    for (int i = 0; i < 500; i++) {
        str_addf(&s, "%04d", i);
    }
    ck_assert(s.bad || s.n == 2000);
    ck_assert_uint_eq(s.n % 4, 0);
    ck_assert(s.n == 0 || strlen(s.p) == s.n);
    str_done(&s);
}

START_TEST(without_memory_the_text_is_a_prefix) {
    ck_assert_uint_gt(torture(write_some), 5);
}
END_TEST

int main(void) {
    return RUN("str", grows_and_clears, keeps_what_fits_below_the_ceiling, without_memory_the_text_is_a_prefix);
}
