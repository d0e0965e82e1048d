/* Comparing and printing borrowed bytes.
 *
 * Happy path: memcmp. Null (p == NULL) is its own value: it equals only null and sorts before everything, empty included.
 * Failure modes: none; span_printable cuts at its buffer and never prints a byte that could break a log line or a terminal.
 * Runs on: any thread. */
#include "base/span.h"

#include <string.h>

span span_str(const char *s) {
    return s ? span_of(s, strlen(s)) : SPAN_NULL;
}

bool span_eq(span a, span b) {
    if (span_is_null(a) || span_is_null(b)) {
        return span_is_null(a) && span_is_null(b);
    }
    return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

int span_cmp(span a, span b) {
    if (span_is_null(a) || span_is_null(b)) {
        return (int)span_is_null(b) - (int)span_is_null(a);
    }
    size_t common = a.n < b.n ? a.n : b.n;
    int order = memcmp(a.p, b.p, common);
    if (order != 0) {
        return order;
    }
    return (int)(a.n > b.n) - (int)(a.n < b.n);
}

bool span_eq_str(span a, const char *s) {
    return span_eq(a, span_str(s));
}

char *span_printable(span s, char *buf, size_t cap) {
    if (cap == 0) {
        return buf;
    }
    size_t n = s.n < cap - 1 ? s.n : cap - 1;
    for (size_t i = 0; i < n; i++) {
        buf[i] = s.p[i] >= 0x20 && s.p[i] < 0x7f ? (char)s.p[i] : '?';
    }
    buf[n] = 0;
    return buf;
}
