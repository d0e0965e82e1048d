/* A properties file: text in, (line, name, value) out.
 * Happy path: one callback per setting. The form is Java's: key=value, key:value or key value; '#' and '!' begin comments; a line that ends
 * in an odd number of backslashes goes on in the next one, whose leading blanks are dropped; \t \n \r \f, \uXXXX, and a backslash before
 * anything else stands for that. Blanks around the value are dropped, as Kafka drops them.
 * Failure modes: a malformed line is reported through the same callback and reading goes on; LIMIT for a file that is no settings file.
 * Runs on: any. */
#include "state/conf.h"

#include <string.h>

#include "base/limits.h"
#include "base/mem.h"

struct conf_file_reader {
    const uint8_t *p, *end;
    int line;                          /* of p, from 1 */
    uint8_t *out;                      /* scratch: the logical line, then its unescaped parts; never longer than the text */
    size_t n;
};

static bool is_blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\f'; }

static void skip_blanks(struct conf_file_reader *r) {
    while (r->p < r->end && is_blank(*r->p)) {
        r->p++;
    }
}

/* Past one line break: \n, \r or \r\n. */
static void skip_break(struct conf_file_reader *r) {
    if (r->p < r->end && *r->p == '\r') {
        r->p++;
        if (r->p < r->end && *r->p == '\n') {
            r->p++;
        }
    } else if (r->p < r->end) {
        r->p++;
    }
    r->line++;
}

static const uint8_t *line_end(const struct conf_file_reader *r) {
    const uint8_t *e = r->p;
    while (e < r->end && *e != '\n' && *e != '\r') {
        e++;
    }
    return e;
}

static bool goes_on(const uint8_t *from, const uint8_t *end) {
    size_t slashes = 0;
    while (end > from && end[-1] == '\\') {
        slashes++;
        end--;
    }
    return slashes % 2 == 1;
}

/* Collect one logical line into out; false at the end of the text. *ret_line is where it began. */
static bool logical_line(struct conf_file_reader *r, int *ret_line) {
    r->n = 0;
    bool first = true;
    while (r->p < r->end) {
        skip_blanks(r);
        const uint8_t *e = line_end(r);
        size_t n = (size_t)(e - r->p);
        if (first && (n == 0 || *r->p == '#' || *r->p == '!')) {
            r->p = e;
            skip_break(r);
            continue;
        }
        if (first) {
            *ret_line = r->line;
            first = false;
        }
        bool more = goes_on(r->p, e);
        memcpy(r->out + r->n, r->p, n - more);
        r->n += n - more;
        r->p = e;
        skip_break(r);
        if (!more) {
            return true;
        }
    }
    return !first;
}

static int hex4(const uint8_t *p, const uint8_t *end) {
    int v = 0;
    for (int i = 0; i < 4; i++) {
        if (p + i >= end) {
            return -1;
        }
        uint8_t c = p[i];
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (d < 0) {
            return -1;
        }
        v = v * 16 + d;
    }
    return v;
}

static size_t utf8_put(uint8_t *at, int c) {
    if (c < 0x80) {
        at[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        at[0] = (uint8_t)(0xc0 | (c >> 6));
        at[1] = (uint8_t)(0x80 | (c & 0x3f));
        return 2;
    }
    at[0] = (uint8_t)(0xe0 | (c >> 12));
    at[1] = (uint8_t)(0x80 | ((c >> 6) & 0x3f));
    at[2] = (uint8_t)(0x80 | (c & 0x3f));
    return 3;
}

/* Unescape s in place (the result is never longer); false on a bad \u. */
static bool unescape(span *s) {
    uint8_t *to = (uint8_t *)(uintptr_t)s->p, *base = to;
    const uint8_t *p = s->p, *end = s->p + s->n;
    while (p < end) {
        if (*p != '\\' || p + 1 == end) {
            *to++ = *p++;
            continue;
        }
        uint8_t c = p[1];
        p += 2;
        if (c == 'u') {
            int v = hex4(p, end);
            if (v <= 0 || (v >= 0xd800 && v <= 0xdfff)) {
                return false;
            }
            p += 4;
            to += utf8_put(to, v);
        } else {
            *to++ = c == 't' ? '\t' : c == 'n' ? '\n' : c == 'r' ? '\r' : c == 'f' ? '\f' : c;
        }
    }
    s->n = (size_t)(to - base);
    return true;
}

static void split(span line, span *ret_name, span *ret_value) {
    size_t i = 0;
    while (i < line.n && line.p[i] != '=' && line.p[i] != ':' && !is_blank(line.p[i])) {
        i += line.p[i] == '\\' && i + 1 < line.n ? 2 : 1;
    }
    *ret_name = span_of(line.p, i);
    while (i < line.n && is_blank(line.p[i])) {
        i++;
    }
    if (i < line.n && (line.p[i] == '=' || line.p[i] == ':')) {
        i++;
    }
    *ret_value = span_of(line.p + i, line.n - i);
}

err conf_file_each(span text, void (*on)(void *u, int line, span name, span value, const char *bad), void *u) {
    if (text.n > LIMIT_SETTINGS_FILE_BYTES) {
        return ERR_LIMIT;
    }
    if (text.n == 0) {
        return ERR_OK;
    }
    struct conf_file_reader r = {.p = text.p, .end = text.p + text.n, .line = 1, .out = mem_alloc(MEM_MISC, text.n)};
    if (r.out == NULL) {
        return ERR_NOMEM;
    }
    int line = 1;
    while (logical_line(&r, &line)) {
        span name, value;
        split(span_of(r.out, r.n), &name, &value);
        if (!unescape(&name) || !unescape(&value)) {
            on(u, line, SPAN_NULL, SPAN_NULL, "a \\u needs four hexadecimal digits of a character");
        } else if (name.n == 0) {
            on(u, line, SPAN_NULL, SPAN_NULL, "no name before the value");
        } else {
            on(u, line, name, conf_value_trim(value), NULL);
        }
    }
    mem_free(r.out);
    return ERR_OK;
}
