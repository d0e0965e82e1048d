/* Runs the contract's cases on one rig: each case in a process of its own, under a time limit. Nothing else happens
 * here.
 *
 * Happy path: a rig's main calls contract_main and returns its value to ctest.
 * Failure modes: a case that hangs is killed after CONTRACT_SECONDS and reported by its name.
 * Runs on: the main thread of a test program. */
#include "port/contract.h"

#define CONTRACT_SECONDS 30

int contract_main(const struct contract_rig *rig) {
    Suite *s = suite_create(rig->name);
    TCase *cases[] = {contract_loop(rig), contract_disk(rig), contract_net(rig), contract_work(rig)};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tcase_set_timeout(cases[i], CONTRACT_SECONDS);
        suite_add_tcase(s, cases[i]);
    }
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
