/* The program: what the command line's table cannot run itself is run here.
 * Happy path: cli_main parses, a handler collects settings and runs. Failure modes: each says one line and returns its exit code.
 * Runs on: the main thread. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config.h"
#include "logout.h"
#include "offline.h"
#include "serve.h"
#include "version.h"

static bool main_logging(const struct cli_args *a) {
    static const char *const names[] = {"debug", "info", "warn", "error"};
    const char *level = cli_text(a, "log-level");
    size_t i = level == NULL ? LOG_INFO : 0;
    while (level != NULL && i < 4 && strcasecmp(level, names[i]) != 0) {
        i++;
    }
    if (i == 4) {
        return false;
    }
    logout_open((enum log_level)i, cli_flag(a, "log-json"));
    return true;
}

static int main_run(const struct cli_args *a, struct serve_opts *o) {
    if (!main_logging(a)) {
        return cli_fail(a, CLI_USAGE, "--log-level is debug, info, warn or error");
    }
    o->ready_file = cli_text(a, "ready-file");
    return serve_run(o);
}

static int main_serve(const struct cli_args *a) {
    struct conf *c = NULL;
    int code = config_load(a, &c);
    if (code == CLI_OK) {
        struct serve_opts o = {.conf = c, .data_dir = conf_str(c, "log.dirs")};
        code = main_run(a, &o);
    }
    conf_free(c);
    return code;
}

/* Like serve, in ./perigee-data or a throw-away directory. */
static int main_dev(const struct cli_args *a) {
    struct conf *c = NULL;
    char temp[] = "/tmp/perigee-dev-XXXXXX";
    int code = config_load(a, &c);
    if (code == CLI_OK) {
        struct serve_opts o = {.conf = c, .dev = true};
        bool named = conf_origin(c, "log.dirs") != CONF_DEFAULT;
        o.temp = cli_flag(a, "temp") && !named;        /* a directory that somebody named is never deleted */
        o.data_dir = named ? conf_str(c, "log.dirs") : "perigee-data";
        if (o.temp) {
            o.data_dir = mkdtemp(temp);
        }
        code = o.data_dir == NULL ? cli_fail(a, CLI_USAGE, "cannot make a throw-away directory under /tmp") : main_run(a, &o);
    }
    conf_free(c);
    return code;
}

static const struct cli_handler main_handlers[] = {
    {"serve", main_serve},           {"dev", main_dev},
    {"log dump", offline_dump},      {"log verify", offline_verify},
    {"config check", config_check},  {"config show", config_show},
};

int main(int argc, char **argv) {
    struct cli_app app = {
        .version = PERIGEE_VERSION,
        .handlers = main_handlers,
        .handlers_n = sizeof(main_handlers) / sizeof(main_handlers[0]),
    };
    return cli_main(argc, argv, &app);
}
