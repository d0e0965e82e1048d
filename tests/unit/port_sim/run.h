/* The end of every test program of this room: one suite, the tests given (negative ones must abort), exit status for ctest. */
#pragma once

#include <check.h>
#include <signal.h>
#include <stdlib.h>

#define TESTS(...) (const TTest *const[]){__VA_ARGS__, NULL}

/* Tests of `aborts` pass when the process is aborted (world_fail, must). */
static inline int run(const char *name, const TTest *const *tests, const TTest *const *aborts) {
    Suite *s = suite_create(name);
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, 60);
    for (; *tests; tests++) {
        tcase_add_test(tc, *tests);
    }
    for (; aborts && *aborts; aborts++) {
        tcase_add_test_raise_signal(tc, *aborts, SIGABRT);
    }
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_ENV);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
