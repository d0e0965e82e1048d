/* Run a scenario again and again, failing its first, second, third... allocation, until one run makes fewer allocations than that.
 * The scenario checks its own outcome; afterwards nothing may be left allocated. Returns the number of runs. */
#pragma once

#include "base/mem.h"
#include "run.h"

static inline unsigned torture(void (*scenario)(void)) {
    for (unsigned n = 1;; n++) {
        size_t live = mem_live_all();
        uint64_t before = mem_calls();
        mem_fail_nth(n);
        scenario();
        mem_fail_nth(0);
        ck_assert_uint_eq(mem_live_all(), live);
        if (mem_calls() - before < n) {
            return n;
        }
    }
}
