/* A growing text with a ceiling, for messages, JSON and files written whole. */
#pragma once

#include "base/err.h"
#include "base/span.h"

struct str {
    char *p;                     /* NUL-terminated once anything was added; NULL before */
    size_t n, cap, ceiling;
    bool bad;                    /* ceiling or memory: text is incomplete */
};

void str_init(struct str *s, size_t ceiling);
void str_done(struct str *s);
void str_clear(struct str *s);
void str_add(struct str *s, span bytes);
void str_addf(struct str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline span str_span(const struct str *s) { return span_of(s->p, s->n); }
