/* The table of commands and their options. */
#pragma once

#include "cli/cli.h"

struct table_option {
    const char *name;                  /* without dashes */
    char letter;                       /* '\0': none */
    const char *arg;                   /* name of its argument; NULL: a flag */
    const char *help;
    bool many;                         /* may be repeated */
};

struct cli_command {
    const char *name;                  /* "topic create" */
    const char *words;                 /* "NAME...": how arguments are shown; "" = none */
    size_t words_min, words_max;
    const char *summary;               /* one line */
    const char *about;                 /* more, paragraphs separated by an empty line */
    const struct table_option *const *options;     /* ends with NULL */
    int (*run)(const struct cli_args *a);          /* NULL: the program's handler */
    const char *exits;                 /* exit codes that matter here, one a line */
};

extern const struct cli_command table_commands[];
extern const size_t table_commands_n;
/* The command that argv[0..] begins with; *ret_used is how many words its name has. NULL: none. */
const struct cli_command *table_find(int argc, char **argv, int *ret_used);
/* A group such as "topic": some command's name begins with it. */
bool table_is_group(const char *word);
const struct table_option *table_option_named(const struct cli_command *c, span name);
const struct table_option *table_option_lettered(const struct cli_command *c, char letter);
