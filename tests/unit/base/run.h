/* The end of every test program of this room: one suite, one case, the tests given, exit status for ctest. */
#pragma once

#include <check.h>
#include <stdlib.h>

#define RUN(name, ...) run(name, (const TTest *const[]){__VA_ARGS__}, sizeof((const TTest *const[]){__VA_ARGS__}) / sizeof(TTest *))

static inline int run_suite(const char *name, TCase *tc) {
    Suite *s = suite_create(name);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static inline int run(const char *name, const TTest *const *tests, size_t n) {
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < n; i++) {
        tcase_add_test(tc, tests[i]);
    }
    return run_suite(name, tc);
}
