/* Authorisation: yes until security lands; a deny-all build (PERIGEE_DENY) proves that every handler asks and refuses with the right code.
 * Runs on: any. */
#include "broker/allow.h"

bool allow(const struct allow_who *who, enum allow_op op, enum allow_kind kind, span name) {
    (void)who, (void)op, (void)kind, (void)name;
#ifdef PERIGEE_DENY
    return false;
#else
    return true;
#endif
}
