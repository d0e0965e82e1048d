/* Goal: every error has a name and a text, and a damaged value does not read past the tables. Method: the table, walked. */
#include "base/err.h"

#include <string.h>

#include "run.h"

START_TEST(every_error_has_name_and_text) {
    for (unsigned e = 0; e < ERR_COUNT; e++) {
        ck_assert_ptr_nonnull(err_name((err)e));
        ck_assert_ptr_nonnull(err_text((err)e));
        ck_assert_uint_gt(strlen(err_name((err)e)), 1);
        ck_assert_uint_gt(strlen(err_text((err)e)), 1);
        for (unsigned other = 0; other < e; other++) {
            ck_assert_str_ne(err_name((err)e), err_name((err)other));
        }
    }
    ck_assert_int_eq(ERR_OK, 0);
    ck_assert_str_eq(err_name(ERR_NOSPACE), "NOSPACE");
}
END_TEST

START_TEST(foreign_value_is_unknown) {
    ck_assert_str_eq(err_name(ERR_COUNT), "UNKNOWN");
    ck_assert_str_eq(err_name((err)-1), "UNKNOWN");
    ck_assert_str_eq(err_text((err)100000), "unknown error");
}
END_TEST

int main(void) {
    return RUN("err", every_error_has_name_and_text, foreign_value_is_unknown);
}
