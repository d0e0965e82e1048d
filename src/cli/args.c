/* Options and words.
 * Happy path: --name value, --name=value, -x value, -xvalue, flags, words; "--" ends the options. Failure modes: one line that says what is wrong
 * and where to read more. Runs on: the command line. */
#include "args.h"

#include <string.h>

#include "table.h"


static bool wrong(const struct cli_args *a, const char *what, span text) {
    fprintf(a->err, "perigee %s: %s%.*s\nSee: perigee %s --help\n", a->command->name, what, (int)text.n, text.n == 0 ? "" : (const char *)text.p,
            a->command->name);
    return false;
}

static bool add_value(struct cli_args *a, const struct table_option *o, const char *text) {
    if (a->values_n == CLI_VALUES_MAX) {
        return wrong(a, "too many options", SPAN_NULL);
    }
    a->values[a->values_n++] = (struct cli_value){o->name, text};
    return true;
}

/* An option of the same beginning, for "did you mean". */
static const struct table_option *similar(const struct cli_command *c, span name) {
    for (const struct table_option *const *o = c->options; *o != NULL; o++) {
        size_t n = strlen((*o)->name), least = n < name.n ? n : name.n;
        if (least >= 3 && memcmp((*o)->name, name.p, least) == 0) {
            return *o;
        }
    }
    return NULL;
}

static bool unknown(const struct cli_args *a, span name) {
    const struct table_option *near = similar(a->command, name);
    if (near == NULL) {
        return wrong(a, "unknown option --", name);
    }
    fprintf(a->err, "perigee %s: unknown option --%.*s: did you mean --%s?\n", a->command->name, (int)name.n, (const char *)name.p, near->name);
    return false;
}

/* --name or --name=value at argv[*i]. */
static bool long_option(struct cli_args *a, int argc, char **argv, int *i) {
    const char *text = argv[*i] + 2;
    size_t n = strcspn(text, "=");
    const struct table_option *o = table_option_named(a->command, span_of(text, n));
    if (o == NULL) {
        return unknown(a, span_of(text, n));
    }
    if (o->arg == NULL) {
        return text[n] == '=' ? wrong(a, "no value is taken by --", span_of(text, n)) : add_value(a, o, "");
    }
    if (text[n] == '=') {
        return add_value(a, o, text + n + 1);
    }
    if (*i + 1 == argc) {
        return wrong(a, "a value is missing after --", span_of(text, n));
    }
    return add_value(a, o, argv[++*i]);
}

static bool short_option(struct cli_args *a, int argc, char **argv, int *i) {
    const char *text = argv[*i] + 1;
    const struct table_option *o = table_option_lettered(a->command, text[0]);
    if (o == NULL) {
        return wrong(a, "unknown option -", span_str(text));
    }
    if (o->arg == NULL) {
        return text[1] != '\0' ? wrong(a, "no value is taken by -", span_of(text, 1)) : add_value(a, o, "");
    }
    if (text[1] != '\0') {
        return add_value(a, o, text + 1);
    }
    if (*i + 1 == argc) {
        return wrong(a, "a value is missing after -", span_of(text, 1));
    }
    return add_value(a, o, argv[++*i]);
}

static bool one(struct cli_args *a, int argc, char **argv, int *i) {
    if (strncmp(argv[*i], "--", 2) == 0) {
        return long_option(a, argc, argv, i);
    }
    if (argv[*i][0] == '-' && argv[*i][1] != '\0') {
        return short_option(a, argc, argv, i);
    }
    if (a->words_n == a->command->words_max) {
        return wrong(a, "one argument too many: ", span_str(argv[*i]));
    }
    a->words[a->words_n++] = argv[*i];
    return true;
}

bool args_parse(struct cli_args *a, int argc, char **argv, bool *ret_help) {
    bool only_words = false;
    *ret_help = false;
    for (int i = 0; i < argc; i++) {
        if (!only_words && (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
            *ret_help = true;
            return true;
        }
        if (!only_words && strcmp(argv[i], "--") == 0) {
            only_words = true;
        } else if (only_words && a->words_n < a->command->words_max) {
            a->words[a->words_n++] = argv[i];
        } else if (!one(a, argc, argv, &i)) {
            return false;
        }
    }
    if (a->words_n < a->command->words_min) {
        return wrong(a, "missing: ", span_str(a->command->words));
    }
    return true;
}
