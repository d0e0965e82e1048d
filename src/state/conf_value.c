/* The text of one setting and what it means: numbers with units, booleans, choices.
 * Happy path: the text fits its key's type and range. Failure modes: BAD_SETTING with one line that names the key, what was wrong and
 * what would be right; outputs untouched. Runs on: any. */
#include "state/conf.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "text.h"

struct conf_value_unit {
    const char *text;
    int64_t factor;                    /* bytes, or milliseconds */
};

static const struct conf_value_unit byte_units[] = {
    {"B", 1}, {"k", 1 << 10}, {"K", 1 << 10}, {"M", 1 << 20}, {"G", 1 << 30}, {"T", INT64_C(1) << 40},
    {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", INT64_C(1) << 40},
    {"kB", 1000}, {"KB", 1000}, {"MB", 1000000}, {"GB", 1000000000}, {"TB", 1000000000000}, {NULL, 0},
};
static const struct conf_value_unit time_units[] = {
    {"ms", 1}, {"s", 1000}, {"m", 60000}, {"min", 60000}, {"h", 3600000}, {"d", 86400000}, {"w", 604800000}, {NULL, 0},
};

span conf_value_trim(span s) {
    while (s.n > 0 && text_is_space(s.p[0])) {
        s.p++;
        s.n--;
    }
    while (s.n > 0 && text_is_space(s.p[s.n - 1])) {
        s.n--;
    }
    return s;
}

static int64_t unit_base(enum conf_unit u) {
    switch (u) {
    case CONF_SECONDS:
        return 1000;
    case CONF_MINUTES:
        return 60000;
    case CONF_HOURS:
        return 3600000;
    case CONF_PLAIN:
    case CONF_BYTES:
    case CONF_MS:
        break;
    }
    return 1;
}

static const char *unit_hint(const struct conf_key *k) {
    return k->unit == CONF_PLAIN ? "a whole number"
           : k->unit == CONF_BYTES ? "a number of bytes, or one with a unit such as 64MiB"
           : k->unit == CONF_MS ? "a number of milliseconds, or one with a unit such as 7d"
           : k->unit == CONF_SECONDS ? "a number of seconds, or one with a unit such as 5m"
           : k->unit == CONF_MINUTES ? "a number of minutes, or one with a unit such as 7d"
                                     : "a number of hours, or one with a unit such as 7d";
}

/* Leading digits with sign; *ret_rest is what follows. False on overflow or no digit. */
static bool digits(span s, int64_t *ret, span *ret_rest) {
    bool minus = s.n > 0 && s.p[0] == '-';
    size_t i = minus ? 1 : 0;
    size_t first = i;
    int64_t v = 0;
    for (; i < s.n && text_is_digit(s.p[i]); i++) {
        int d = s.p[i] - '0';
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, d, &v)) {       /* negative: reaches INT64_MIN */
            return false;
        }
    }
    if (i == first || (!minus && v == INT64_MIN)) {
        return false;
    }
    *ret = minus ? v : -v;
    *ret_rest = conf_value_trim((span){s.p + i, s.n - i});
    return true;
}

static bool scale(const struct conf_key *k, span unit, int64_t *v) {
    if (unit.n == 0) {
        return true;
    }
    const struct conf_value_unit *u = k->unit == CONF_BYTES ? byte_units : time_units;
    while (k->unit != CONF_PLAIN && u->text != NULL && !span_eq_str(unit, u->text)) {
        u++;
    }
    int64_t base = unit_base(k->unit), scaled;
    if (k->unit == CONF_PLAIN || u->text == NULL || __builtin_mul_overflow(*v, u->factor, &scaled) || scaled % base != 0) {
        return false;
    }
    *v = scaled / base;
    return true;
}

static err out_of_range(const struct conf_key *k, span text, char *why, size_t cap) {
    char shown[64];
    span_printable(text, shown, sizeof shown);
    bool no_top = k->max == INT64_MAX || k->max == INT32_MAX;
    if (no_top) {
        snprintf(why, cap, "%s: '%s' is too small: the least is %" PRId64, k->name, shown, k->min);
    } else {
        snprintf(why, cap, "%s: '%s' is outside %" PRId64 " to %" PRId64, k->name, shown, k->min, k->max);
    }
    return ERR_BAD_SETTING;
}

err conf_value_int(const struct conf_key *k, span text, int64_t *ret, char *ret_why, size_t cap) {
    span s = conf_value_trim(text), rest;
    int64_t v;
    if (!digits(s, &v, &rest) || !scale(k, rest, &v)) {
        char shown[64];
        snprintf(ret_why, cap, "%s: '%s' is not %s", k->name, span_printable(s, shown, sizeof shown), unit_hint(k));
        return ERR_BAD_SETTING;
    }
    if (v < k->min || v > k->max) {
        if (v > k->max && k->max == INT32_MAX) {
            snprintf(ret_why, cap, "%s: %" PRId64 " is too large: the most is %d", k->name, v, INT32_MAX);
            return ERR_BAD_SETTING;
        }
        return out_of_range(k, s, ret_why, cap);
    }
    *ret = v;
    return ERR_OK;
}

static bool is_word(span s, const char *word) { return s.n == strlen(word) && strncasecmp((const char *)s.p, word, s.n) == 0; }

err conf_value_bool(const struct conf_key *k, span text, bool *ret, char *ret_why, size_t cap) {
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    span s = conf_value_trim(text);
    for (size_t i = 0; i < 3; i++) {
        if (is_word(s, yes[i]) || is_word(s, no[i])) {
            *ret = is_word(s, yes[i]);
            return ERR_OK;
        }
    }
    char shown[64];
    snprintf(ret_why, cap, "%s: '%s' is neither true nor false", k->name, span_printable(s, shown, sizeof shown));
    return ERR_BAD_SETTING;
}

static err check_double(const struct conf_key *k, span s, char *why, size_t cap) {
    char text[64], *end;
    if (s.n > 0 && s.n < sizeof text) {
        memcpy(text, s.p, s.n);
        text[s.n] = '\0';
        double v = strtod(text, &end);
        if (end == text + s.n && v == v) {
            return v >= (double)k->min && (k->max == INT64_MAX || v <= (double)k->max) ? ERR_OK : out_of_range(k, s, why, cap);
        }
    }
    snprintf(why, cap, "%s: '%s' is not a number", k->name, span_printable(s, text, sizeof text));
    return ERR_BAD_SETTING;
}

int32_t conf_value_ppm(span text) {
    char buf[64];
    span s = conf_value_trim(text);
    snprintf(buf, sizeof buf, "%.*s", (int)(s.n < sizeof buf ? s.n : sizeof buf - 1), (const char *)s.p);
    return (int32_t)(strtod(buf, NULL) * 1e6 + 0.5);
}

bool conf_value_next(span *list, span *ret_item) {
    if (list->p == NULL) {
        return false;
    }
    const uint8_t *comma = memchr(list->p, ',', list->n);
    size_t n = comma == NULL ? list->n : (size_t)(comma - list->p);
    *ret_item = conf_value_trim((span){list->p, n});
    *list = comma == NULL ? SPAN_NULL : (span){comma + 1, list->n - n - 1};
    return true;
}

static bool is_choice(const struct conf_key *k, span s) {
    span choices = span_str(k->choices), c;
    while (conf_value_next(&choices, &c)) {
        if (span_eq(c, s)) {
            return true;
        }
    }
    return false;
}

static err check_choice(const struct conf_key *k, span s, char *why, size_t cap) {
    if (is_choice(k, s)) {
        return ERR_OK;
    }
    char shown[64];
    snprintf(why, cap, "%s: '%s' is not one of %s", k->name, span_printable(s, shown, sizeof shown), k->choices);
    return ERR_BAD_SETTING;
}

static err check_list(const struct conf_key *k, span s, char *why, size_t cap) {
    span item, left = s;
    err e = ERR_OK;
    while (e == ERR_OK && k->choices != NULL && s.n > 0 && conf_value_next(&left, &item)) {
        e = check_choice(k, item, why, cap);
    }
    return e;
}

err conf_value_check(const struct conf_key *k, span text, char *ret_why, size_t cap) {
    span s = conf_value_trim(text);
    bool b;
    int64_t v;
    if (s.n > 0 && memchr(s.p, '\0', s.n) != NULL) {
        snprintf(ret_why, cap, "%s: the value holds a NUL byte", k->name);
        return ERR_BAD_SETTING;
    }
    switch (k->type) {
    case CONF_BOOL:
        return conf_value_bool(k, s, &b, ret_why, cap);
    case CONF_INT:
    case CONF_LONG:
        return conf_value_int(k, s, &v, ret_why, cap);
    case CONF_DOUBLE:
        return check_double(k, s, ret_why, cap);
    case CONF_ENUM:
        return check_choice(k, s, ret_why, cap);
    case CONF_LIST:
        return check_list(k, s, ret_why, cap);
    case CONF_STRING:
        return ERR_OK;
    }
    return ERR_OK;
}

const char *conf_value_plain(const struct conf_key *k, span text, char *buf, size_t cap) {
    int64_t v = 0;
    bool b = false;
    char why[8];
    if ((k->type == CONF_INT || k->type == CONF_LONG) && conf_value_int(k, text, &v, why, sizeof why) == ERR_OK) {
        snprintf(buf, cap, "%" PRId64, v);
    } else if (k->type == CONF_BOOL && conf_value_bool(k, text, &b, why, sizeof why) == ERR_OK) {
        snprintf(buf, cap, "%s", b ? "true" : "false");
    } else {
        span s = conf_value_trim(text);
        snprintf(buf, cap, "%.*s", (int)(s.n < cap ? s.n : cap - 1), s.n == 0 ? "" : (const char *)s.p);
    }
    return buf;
}
