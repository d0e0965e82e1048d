/* What happened, in broker terms. Every failure is an err and cannot be dropped; the texts live in schema/errors.tbl. */
#pragma once

typedef enum [[nodiscard]] err {
#define X(name, text) ERR_##name,
#include "errors.tbl"
#undef X
    ERR_COUNT
} err;

/* The bare name ("NOSPACE") and the one-line text of e. Static storage. Any thread. */
const char *err_name(err e);
const char *err_text(err e);
