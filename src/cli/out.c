/* Rows in three forms.
 * Happy path: cells are kept, out_end lays them out. Failure modes: an output that cannot be written, or is beyond OUT_BYTES_MAX, is said once
 * and gives 1. Runs on: the main thread. */
#include "cli/out.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/must.h"

bool out_form_of(const struct cli_args *a, enum out_form *ret_form) {
    const char *form = cli_text(a, "output");
    if (form == NULL) {
        int fd = fileno(a->out);
        *ret_form = fd >= 0 && isatty(fd) ? OUT_TABLE : OUT_TSV;
        return true;
    }
    static const struct { const char *name; enum out_form form; } forms[] = {{"table", OUT_TABLE}, {"tsv", OUT_TSV}, {"json", OUT_JSON}};
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(form, forms[i].name) == 0) {
            *ret_form = forms[i].form;
            return true;
        }
    }
    (void)cli_fail(a, CLI_USAGE, "--output is table, tsv or json, not '%s'", form);
    return false;
}

void out_begin(struct out *o, const struct cli_args *a, enum out_form form, const struct out_column *columns, size_t n) {
    must(n > 0 && n <= OUT_COLUMNS_MAX);
    *o = (struct out){.form = form, .to = a->out, .columns = columns, .columns_n = n};
    str_init(&o->cells, OUT_BYTES_MAX);
}

/* A cell is 'v' and its text, or 'n' for nothing; then NUL. Control bytes become '?': they would break lines, tabs and terminals. */
void out_span(struct out *o, span text) {
    str_add(&o->cells, text.p == NULL ? SPAN_LIT("n") : SPAN_LIT("v"));
    size_t from = o->cells.n;
    str_add(&o->cells, text);
    for (size_t i = from; !o->cells.bad && i < o->cells.n; i++) {
        uint8_t c = (uint8_t)o->cells.p[i];
        o->cells.p[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    str_add(&o->cells, SPAN_LIT("\0"));
    o->rows_n++;                                   /* counted in cells until out_end */
}

void out_cell(struct out *o, const char *text) { out_span(o, span_str(text)); }

void out_number(struct out *o, int64_t n) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, n);
    out_cell(o, text);
}

/* Columns that the terminal needs: bytes that do not continue a UTF-8 character. */
static int columns_of(const char *text) {
    int n = 0;
    for (; *text != '\0'; text++) {
        n += ((uint8_t)*text & 0xc0) != 0x80;
    }
    return n;
}

static const char *shown(const char *cell) { return cell[0] == 'n' ? "-" : cell + 1; }

static void table_row(const struct out *o, const char **cells, const int *widths) {
    for (size_t c = 0; c < o->columns_n; c++) {
        const char *text = shown(cells[c]);
        int pad = widths[c] - columns_of(text);
        bool last = c + 1 == o->columns_n;
        if (o->columns[c].number) {
            fprintf(o->to, "%*s%s%s", pad, "", text, last ? "" : "  ");
        } else {
            fprintf(o->to, "%s%*s%s", text, last ? 0 : pad, "", last ? "" : "  ");
        }
    }
    fputc('\n', o->to);
}

static void head_row(const struct out *o, const int *widths) {
    char heads[OUT_COLUMNS_MAX][32];
    const char *cells[OUT_COLUMNS_MAX];
    for (size_t c = 0; c < o->columns_n; c++) {
        snprintf(heads[c], sizeof heads[c], "v%s", o->columns[c].name);
        for (char *p = heads[c] + 1; *p != '\0'; p++) {
            *p = (char)(*p == '_' ? ' ' : toupper((unsigned char)*p));
        }
        cells[c] = heads[c];
    }
    table_row(o, cells, widths);
}

/* Call row for each row of kept cells. */
static void rows(const struct out *o, void (*row)(const struct out *o, const char **cells, void *u), void *u) {
    const char *at = o->cells.p;
    const char *cells[OUT_COLUMNS_MAX];
    for (size_t r = 0; r < o->rows_n; r++) {
        for (size_t c = 0; c < o->columns_n; c++) {
            cells[c] = at;
            at += strlen(at) + 1;
        }
        row(o, cells, u);
    }
}

static void measure(const struct out *o, const char **cells, void *u) {
    int *widths = u;
    for (size_t c = 0; c < o->columns_n; c++) {
        int n = columns_of(shown(cells[c]));
        widths[c] = n > widths[c] ? n : widths[c];
    }
}

static void print_table(const struct out *o, const char **cells, void *u) { table_row(o, cells, u); }

static void print_tsv(const struct out *o, const char **cells, void *u) {
    (void)u;
    for (size_t c = 0; c < o->columns_n; c++) {
        fprintf(o->to, "%s%s", cells[c][0] == 'n' ? "" : cells[c] + 1, c + 1 == o->columns_n ? "\n" : "\t");
    }
}

static size_t utf8_length(const uint8_t *p, size_t left) {
    size_t n = *p < 0x80 ? 1 : *p >= 0xc2 && *p < 0xe0 ? 2 : *p >= 0xe0 && *p < 0xf0 ? 3 : *p >= 0xf0 && *p < 0xf5 ? 4 : 0;
    for (size_t i = 1; i < n; i++) {
        if (i >= left || (p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return n;
}

void out_json_text(struct str *s, span text) {
    str_add(s, SPAN_LIT("\""));
    for (size_t i = 0; i < text.n;) {
        uint8_t c = text.p[i];
        size_t n = utf8_length(text.p + i, text.n - i);
        if (n == 0) {
            str_add(s, SPAN_LIT("\\ufffd"));
            i++;
        } else if (c == '"' || c == '\\') {
            str_addf(s, "\\%c", c);
            i++;
        } else if (c < 0x20) {
            str_addf(s, "\\u%04x", c);
            i++;
        } else {
            str_add(s, span_of(text.p + i, n));
            i += n;
        }
    }
    str_add(s, SPAN_LIT("\""));
}

static bool is_number(const char *text) {
    const char *p = text + (*text == '-');
    return *p != '\0' && strspn(p, "0123456789") == strlen(p);
}

static void print_json(const struct out *o, const char **cells, void *u) {
    struct str s;
    bool *first = u;
    str_init(&s, OUT_BYTES_MAX);
    str_addf(&s, "%s\n{", *first ? "" : ",");
    *first = false;
    for (size_t c = 0; c < o->columns_n; c++) {
        str_addf(&s, "%s\"%s\":", c == 0 ? "" : ",", o->columns[c].name);
        if (cells[c][0] == 'n' || (o->columns[c].number && !is_number(cells[c] + 1))) {
            str_add(&s, SPAN_LIT("null"));
        } else if (o->columns[c].number) {
            str_add(&s, span_str(cells[c] + 1));
        } else {
            out_json_text(&s, span_str(cells[c] + 1));
        }
    }
    fprintf(o->to, "%s}", s.p == NULL ? "" : s.p);
    str_done(&s);
}

static void print_all(struct out *o) {
    int widths[OUT_COLUMNS_MAX] = {0};
    bool first = true;
    switch (o->form) {
    case OUT_TABLE:
        for (size_t c = 0; c < o->columns_n; c++) {
            widths[c] = (int)strlen(o->columns[c].name);
        }
        rows(o, measure, widths);
        if (o->rows_n > 0) {
            head_row(o, widths);
        }
        rows(o, print_table, widths);
        break;
    case OUT_TSV:
        rows(o, print_tsv, NULL);
        break;
    case OUT_JSON:
        fputc('[', o->to);
        rows(o, print_json, &first);
        fputs(first ? "]\n" : "\n]\n", o->to);
        break;
    }
}

int out_end(struct out *o, const struct cli_args *a) {
    bool whole = !o->cells.bad;
    must(o->rows_n % o->columns_n == 0);
    o->rows_n /= o->columns_n;
    if (whole) {
        print_all(o);
    }
    str_done(&o->cells);
    if (!whole || fflush(o->to) != 0 || ferror(o->to)) {
        return cli_fail(a, CLI_USAGE, "%s", whole ? "the output cannot be written" : "the output is too large");
    }
    return CLI_OK;
}
