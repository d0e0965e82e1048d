/* The command line: one table of commands (table.c), from which parsing, --help everywhere and the man pages come. An outsider: it knows the Kafka
 * protocol and the settings, not the broker. Commands that run the broker or read its files are in the table too, but run by the program's
 * own handlers. One thread. */
#pragma once

#include <stdio.h>

#include "base/err.h"
#include "base/span.h"

/* Exit codes (DESIGN 7). */
enum cli_exit {
    CLI_OK = 0,
    CLI_USAGE = 1,                     /* the user's mistake */
    CLI_REFUSED = 2,                   /* the server said no */
    CLI_UNREACHABLE = 3,
    CLI_DENIED = 4,                    /* not authorised */
    CLI_NOT_FOUND = 5,                 /* not found, or empty */
    CLI_STORAGE = 74,                  /* storage failed or is damaged */
    CLI_CONFIG = 78,                   /* bad configuration */
};

#define CLI_WORDS_MAX 256
#define CLI_VALUES_MAX 64              /* options given in one command */

struct cli_command;
struct cli_app;

/* What the user typed, taken apart by the table. Texts are those of argv. */
struct cli_args {
    const struct cli_command *command;
    const struct cli_app *app;
    FILE *out, *err;
    const char *words[CLI_WORDS_MAX];  /* arguments that are not options */
    size_t words_n;
    struct cli_value {
        const char *name;              /* of the option, without dashes */
        const char *text;              /* "" for a flag */
    } values[CLI_VALUES_MAX];
    size_t values_n;
};

bool cli_flag(const struct cli_args *a, const char *option);
const char *cli_text(const struct cli_args *a, const char *option);    /* the last one given; NULL when not given */
/* The i-th value (from 0) of an option that may be repeated; NULL beyond. */
const char *cli_each(const struct cli_args *a, const char *option, size_t i);
/* "perigee topic create: ...", then one line; returns code. */
int cli_fail(const struct cli_args *a, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

/* A command that the program runs itself. */
struct cli_handler {
    const char *command;               /* "serve", "log dump", ... as in the table */
    int (*run)(const struct cli_args *a);
};

struct cli_app {
    const char *version;
    const struct cli_handler *handlers;
    size_t handlers_n;
    FILE *out, *err;                   /* NULL: stdout, stderr */
};

/* The whole program: returns the exit code. argv as main got it. */
int cli_main(int argc, char **argv, const struct cli_app *app);
