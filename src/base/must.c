/* The end of a broken invariant: say which one, then abort, so that the core file shows the place.
 *
 * Happy path: there is none; must() is a comparison until it fails.
 * Failure modes: standard error may be closed; the abort happens regardless. Nothing is allocated here and the log is not used,
 * since either may be what broke.
 * Runs on: any thread. */
#include "base/must.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void must_fail(const char *cond, const char *file, int line) {
    (void)fprintf(stderr, "must: %s at %s:%d\n", cond, file, line);   /* nowhere left to report a failing stderr */
    (void)fflush(stderr);
    abort();
}
