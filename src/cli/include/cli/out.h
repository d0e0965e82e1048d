/* Rows for people and programs: a table on a terminal, tab-separated text in a pipe, JSON with -o json. One thread. */
#pragma once

#include "base/str.h"
#include "cli/cli.h"

enum out_form { OUT_TABLE, OUT_TSV, OUT_JSON };
#define OUT_COLUMNS_MAX 8
#define OUT_BYTES_MAX ((size_t)64 << 20)   /* of one output */

struct out_column {
    const char *name;                  /* JSON member; the table's head in upper case */
    bool number;                       /* right-aligned; bare in JSON. A text that is no number is null there */
};

struct out {
    enum out_form form;
    FILE *to;
    const struct out_column *columns;
    size_t columns_n, rows_n;
    struct str cells;                  /* each NUL-terminated, row by row */
};

/* The form that -o asks for, else by what out is: false (and a line on err) when -o is none of table, tsv, json. */
bool out_form_of(const struct cli_args *a, enum out_form *ret_form);
/* columns must outlive o. */
void out_begin(struct out *o, const struct cli_args *a, enum out_form form, const struct out_column *columns, size_t n);
void out_cell(struct out *o, const char *text);                        /* NULL: nothing ("-", empty, null) */
void out_span(struct out *o, span text);
void out_number(struct out *o, int64_t n);
/* Write all. CLI_OK, or CLI_USAGE when the output cannot be written (said on err). */
int out_end(struct out *o, const struct cli_args *a);
/* text as a JSON string, quotes included; bytes that are no UTF-8 are replaced. */
void out_json_text(struct str *s, span text);
