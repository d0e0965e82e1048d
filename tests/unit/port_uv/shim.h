/* Functions of the preloaded shim (shim.c), found by dlsym: a test program that preloads it into itself plans its
 * faults with them. `call` is the name of the libc function: "pwritev", "fdatasync", … Any thread.
 *
 * A program that knows nothing of it is given one fault by the environment: SHIM_FAIL=call:k:errno, e.g. fdatasync:3:5. */
#pragma once

#include <stddef.h>

struct shim {
    void (*reset)(void);                               /* no faults, counts at 0 */
    /* The k-th call from now (1 is the next) fails with errno e, once. */
    void (*refuse)(const char *call, unsigned k, int e);
    /* pwritev, preadv: every call moves at most `bytes`. */
    void (*shorten)(const char *call, size_t bytes);
    unsigned (*count)(const char *call);               /* calls seen since reset, failed ones included */
};
