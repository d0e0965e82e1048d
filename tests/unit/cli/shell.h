/* Running a command line in a test: what it says on both streams, and its exit code. */
#pragma once

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

struct shell {
    char out[200000], err[20000];
    int code;
};

/* line is split at blanks; a word in single quotes may hold blanks. */
static inline void shell_run(struct shell *s, const char *line, const struct cli_handler *handlers, size_t n) {
    char words[2000], *argv[64];
    int argc = 0;
    ck_assert_uint_lt(strlen(line), sizeof words);
    memcpy(words, line, strlen(line) + 1);
    for (char *p = words; *p != '\0';) {
        char end = *p == '\'' ? '\'' : ' ';
        p += end == '\'';
        argv[argc++] = p;
        p = strchr(p, end) != NULL ? strchr(p, end) : p + strlen(p);
        while (*p == end || *p == ' ') {
            *p++ = '\0';
        }
    }
    argv[argc] = NULL;
    struct cli_app app = {.version = "1.2.3", .handlers = handlers, .handlers_n = n};
    app.out = tmpfile();
    app.err = tmpfile();
    s->code = cli_main(argc, argv, &app);
    rewind(app.out);
    rewind(app.err);
    s->out[fread(s->out, 1, sizeof s->out - 1, app.out)] = '\0';
    s->err[fread(s->err, 1, sizeof s->err - 1, app.err)] = '\0';
    fclose(app.out);
    fclose(app.err);
}

static inline void shell_says(const char *text, const char *words) { ck_assert_msg(strstr(text, words) != NULL, "'%s' does not say '%s'", text, words); }
