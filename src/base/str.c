/* A growing text with a ceiling.
 *
 * Happy path: the buffer doubles up to ceiling + 1 bytes; the text is always NUL-terminated.
 * Failure modes: at the ceiling the text keeps what fitted, without memory it stays as it was; both set `bad`, and later additions are
 * dropped so that the text never has a hole. str_clear makes it good again.
 * Runs on: whoever owns the struct. */
#include "base/str.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define STR_CAP_MIN 64

void str_init(struct str *s, size_t ceiling) {
    *s = (struct str){.ceiling = ceiling};
}

void str_done(struct str *s) {
    mem_free(s->p);
    str_init(s, s->ceiling);
}

void str_clear(struct str *s) {
    s->n = 0;
    s->bad = false;
    if (s->p) {
        s->p[0] = 0;
    }
}

/* Make room for n more bytes and the NUL; returns how many of them there is room for. */
static size_t reserve(struct str *s, size_t n) {
    size_t left = s->ceiling - s->n;
    if (n > left) {
        n = left;
        s->bad = true;
    }
    size_t need = s->n + n + 1;
    if (need <= s->cap) {
        return n;
    }
    size_t cap = s->cap > STR_CAP_MIN ? s->cap : STR_CAP_MIN;
    while (cap < need) {
        cap *= 2;
    }
    char *p = mem_realloc(MEM_MISC, s->p, cap);
    if (!p) {
        s->bad = true;
        return 0;
    }
    s->p = p;
    s->cap = cap;
    s->p[s->n] = 0;
    return n;
}

void str_add(struct str *s, span bytes) {
    if (s->bad) {
        return;
    }
    size_t n = reserve(s, bytes.n);
    if (n > 0) {
        memcpy(s->p + s->n, bytes.p, n);
        s->n += n;
        s->p[s->n] = 0;
    }
}

void str_addf(struct str *s, const char *fmt, ...) {
    if (s->bad) {
        return;
    }
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int want = vsnprintf(NULL, 0, fmt, args);
    size_t n = want > 0 ? reserve(s, (size_t)want) : 0;
    if (n > 0) {
        (void)vsnprintf(s->p + s->n, n + 1, fmt, again);   /* cut at n on purpose when the ceiling is near */
        s->n += n;
    }
    va_end(again);
    va_end(args);
}
