/* Goal: comparing and printing of borrowed bytes, null apart from empty (S2.12). Method: tables. */
#include "base/span.h"

#include <string.h>

#include "run.h"

static int sign(int v) {
    return (v > 0) - (v < 0);
}

START_TEST(order_and_equality_agree) {
    /* In strictly rising order: null, empty, then memcmp order with the shorter first on a common prefix. */
    const span rising[] = {SPAN_NULL, SPAN_LIT(""), SPAN_LIT("\0"), SPAN_LIT("\0a"), SPAN_LIT("a"), SPAN_LIT("aa"), SPAN_LIT("ab"),
                           SPAN_LIT("b"), SPAN_LIT("\xff")};
    const size_t n = sizeof rising / sizeof *rising;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < n; j++) {
            ck_assert_int_eq(sign(span_cmp(rising[i], rising[j])), sign((int)i - (int)j));
            ck_assert(span_eq(rising[i], rising[j]) == (i == j));
        }
    }
}
END_TEST

START_TEST(strings_are_borrowed) {
    ck_assert(span_is_null(span_str(NULL)));
    ck_assert(!span_is_null(span_str("")));
    ck_assert_uint_eq(span_str("abc").n, 3);
    ck_assert(span_eq_str(SPAN_LIT("abc"), "abc"));
    ck_assert(!span_eq_str(SPAN_LIT("abc"), "abcd"));
    ck_assert(!span_eq_str(SPAN_LIT("ab\0"), "ab"));
    ck_assert(span_eq_str(SPAN_NULL, NULL));
    ck_assert(!span_eq_str(SPAN_NULL, ""));
}
END_TEST

START_TEST(printable_cuts_and_masks) {
    static const struct {
        span in;
        size_t cap;
        const char *out;
    } table[] = {
        {SPAN_LIT("topic-1"), 16, "topic-1"}, {SPAN_LIT("topic-1"), 8, "topic-1"}, {SPAN_LIT("topic-1"), 7, "topic-"},
        {SPAN_LIT("a\nb\x1b[2J\x7f\x80\0z"), 32, "a?b?[2J???z"}, {SPAN_LIT(" ~"), 8, " ~"}, {SPAN_LIT("x"), 1, ""},
        {{NULL, 0}, 4, ""},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        char buf[40];
        memset(buf, 'X', sizeof buf);
        ck_assert_ptr_eq(span_printable(table[i].in, buf, table[i].cap), buf);
        ck_assert_str_eq(buf, table[i].out);
        ck_assert_int_eq(buf[table[i].cap], 'X');
    }
    char untouched = 'X';
    span_printable(SPAN_LIT("abc"), &untouched, 0);
    ck_assert_int_eq(untouched, 'X');
}
END_TEST

int main(void) {
    return RUN("span", order_and_equality_agree, strings_are_borrowed, printable_cuts_and_masks);
}
