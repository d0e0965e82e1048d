/* Names and texts of errors, made from the one table in schema/errors.tbl.
 *
 * Happy path: an index into a read-only array.
 * Failure modes: a value outside the enumeration (memory damage, a cast) reads as "UNKNOWN" instead of past the array.
 * Runs on: any thread. */
#include "base/err.h"

#include <stddef.h>

static const char *const names[ERR_COUNT] = {
#define X(name, text) [ERR_##name] = #name,
#include "errors.tbl"
#undef X
};

static const char *const texts[ERR_COUNT] = {
#define X(name, text) [ERR_##name] = text,
#include "errors.tbl"
#undef X
};

const char *err_name(err e) {
    return (unsigned)e < ERR_COUNT ? names[e] : "UNKNOWN";
}

const char *err_text(err e) {
    return (unsigned)e < ERR_COUNT ? texts[e] : "unknown error";
}
