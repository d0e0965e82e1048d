/* A view of bytes owned by someone else. p == NULL is "null" (differs from empty, semantics 2.12). */
#pragma once

#include "base/types.h"

typedef struct span {
    const uint8_t *p;
    size_t n;
} span;

#define SPAN_NULL ((span){NULL, 0})
#define SPAN_LIT(s) ((span){(const uint8_t *)(s), sizeof(s) - 1})

static inline span span_of(const void *p, size_t n) { return (span){(const uint8_t *)p, n}; }
static inline bool span_is_null(span s) { return s.p == NULL; }

span span_str(const char *s);                   /* NULL gives SPAN_NULL; the string is borrowed */
bool span_eq(span a, span b);                   /* same length and bytes; null equals only null */
int span_cmp(span a, span b);                   /* memcmp order, shorter first on a common prefix; null first */
bool span_eq_str(span a, const char *s);
/* Copy as a NUL-terminated string, cut at cap-1 bytes; bytes that are not printable ASCII become '?'. For logs and messages. */
char *span_printable(span s, char *buf, size_t cap);
