/* From argv to a command and back to an exit code.
 * Happy path: find the command in the table, parse its options, run it. Failure modes: wrong use gives one line, a pointer to help, and 1.
 * Runs on: the main thread. */
#include "cli/cli.h"

#include <stdarg.h>
#include <string.h>

#include "args.h"
#include "base/must.h"
#include "help.h"
#include "table.h"

bool cli_flag(const struct cli_args *a, const char *option) { return cli_text(a, option) != NULL; }

const char *cli_text(const struct cli_args *a, const char *option) {
    for (size_t i = a->values_n; i > 0; i--) {
        if (strcmp(a->values[i - 1].name, option) == 0) {
            return a->values[i - 1].text;
        }
    }
    return NULL;
}

const char *cli_each(const struct cli_args *a, const char *option, size_t i) {
    for (size_t k = 0; k < a->values_n; k++) {
        if (strcmp(a->values[k].name, option) == 0 && i-- == 0) {
            return a->values[k].text;
        }
    }
    return NULL;
}

int cli_fail(const struct cli_args *a, int code, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fprintf(a->err, "perigee %s: ", a->command->name);
    vfprintf(a->err, fmt, ap);
    fputc('\n', a->err);
    va_end(ap);
    return code;
}

static int run_command(struct cli_args *a) {
    if (strcmp(a->command->name, "help") == 0) {
        return help_command(a);
    }
    if (strcmp(a->command->name, "version") == 0) {
        fprintf(a->out, "perigee %s\n", a->app->version);
        return CLI_OK;
    }
    if (a->command->run != NULL) {
        return a->command->run(a);
    }
    for (size_t i = 0; i < a->app->handlers_n; i++) {
        if (strcmp(a->app->handlers[i].command, a->command->name) == 0) {
            return a->app->handlers[i].run(a);
        }
    }
    return cli_fail(a, CLI_USAGE, "not part of this program");
}

static int no_command(const char *word, FILE *to) {
    if (table_is_group(word)) {
        help_group(word, to);
    } else {
        fprintf(to, "perigee: unknown command '%s'\nSee: perigee --help\n", word);
    }
    return CLI_USAGE;
}

/* The program was called with no command, or with one that stands for the whole. */
static bool whole_program(int argc, char **argv, const struct cli_args *a, int *ret_code) {
    *ret_code = CLI_OK;
    if (argc < 2) {
        help_program(a->err);
        *ret_code = CLI_USAGE;
        return true;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help_program(a->out);
        return true;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        fprintf(a->out, "perigee %s\n", a->app->version);
        return true;
    }
    if (argc == 3 && table_is_group(argv[1]) && (strcmp(argv[2], "--help") == 0 || strcmp(argv[2], "-h") == 0)) {
        help_group(argv[1], a->out);
        return true;
    }
    return false;
}

int cli_main(int argc, char **argv, const struct cli_app *app) {
    struct cli_args a = {.app = app, .out = app->out != NULL ? app->out : stdout, .err = app->err != NULL ? app->err : stderr};
    int code, used = 0;
    bool help;
    if (whole_program(argc, argv, &a, &code)) {
        return code;
    }
    a.command = table_find(argc - 1, argv + 1, &used);
    if (a.command == NULL) {
        return no_command(argv[1], a.err);
    }
    must(used < argc);
    if (!args_parse(&a, argc - 1 - used, argv + 1 + used, &help)) {
        return CLI_USAGE;
    }
    if (help) {
        help_of(a.command, a.out);
        return CLI_OK;
    }
    return run_command(&a);
}
