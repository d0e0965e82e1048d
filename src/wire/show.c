/* Words of the generated _print functions.
 *
 * Happy path: `{acks=-1 topics=[3:{name='a' partitions=[1:{index=0 records=<75>}]}]}`, one line,
 * safe to put into a log.
 * Failure modes: the text's ceiling; what does not fit is missing.
 * Runs on: any. */
#include "show.h"

#include <inttypes.h>

#define SHOW_STRING_CAP 300

void show_text(struct str *s, const char *text) {
    str_add(s, span_str(text));
}

void show_i64(struct str *s, const char *label, int64_t x) {
    str_addf(s, "%s%" PRId64, label, x);
}

void show_f64(struct str *s, const char *label, double x) {
    str_addf(s, "%s%.17g", label, x);
}

void show_bool(struct str *s, const char *label, bool x) {
    str_addf(s, "%s%s", label, x ? "true" : "false");
}

void show_uuid(struct str *s, const char *label, uuid u) {
    char text[UUID_TEXT_CAP];
    uuid_text(u, text);
    str_addf(s, "%s%s", label, text);
}

void show_string(struct str *s, const char *label, span x) {
    char text[SHOW_STRING_CAP];
    if (span_is_null(x)) {
        str_addf(s, "%snull", label);
    } else {
        str_addf(s, "%s'%s'", label, span_printable(x, text, sizeof text));
    }
}

void show_bytes(struct str *s, const char *label, span x, const struct chain *pieces) {
    if (pieces) {
        str_addf(s, "%s<%zu in %zu>", label, pieces->bytes, pieces->nodes);
    } else if (span_is_null(x)) {
        str_addf(s, "%snull", label);
    } else {
        str_addf(s, "%s<%zu>", label, x.n);
    }
}

void show_count(struct str *s, const char *label, int32_t n) {
    if (n < 0) {
        str_addf(s, "%s[null", label);
    } else {
        str_addf(s, "%s[%" PRId32 ":", label, n);
    }
}

void show_count_end(struct str *s) {
    show_text(s, "]");
}

void show_unknown(struct str *s, const struct rd_unknown *u) {
    for (; u; u = u->next) {
        str_addf(s, " tag%" PRIu32 "=<%zu>", u->tag, u->bytes.n);
    }
}
