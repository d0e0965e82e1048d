/* Happy path: a private disk rooted at the directory, then store/inspect prints. Failure modes: no such directory: 1; verify finds damage: 1, with file and position.
 * Runs on: the main thread. */
#include "offline.h"

#include <string.h>
#include <sys/stat.h>

#include "port_uv/port_uv.h"
#include "store/inspect.h"

static int offline_open(const struct cli_args *a, struct disk **ret_d) {
    struct stat st;
    const char *dir = a->words[0];
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode)) {
        return cli_fail(a, CLI_USAGE, "%s is no directory: name a data directory, or the directory of one partition", dir);
    }
    err e = port_uv_disk_new(dir, ret_d);
    return e == ERR_OK ? CLI_OK : cli_fail(a, CLI_USAGE, "%s cannot be read: %s", dir, err_text(e));
}

int offline_dump(const struct cli_args *a) {
    struct disk *d = NULL;
    const char *form = cli_text(a, "output");
    if (form != NULL && strcmp(form, "json") != 0 && strcmp(form, "table") != 0 && strcmp(form, "tsv") != 0) {
        return cli_fail(a, CLI_USAGE, "--output is table, tsv or json");
    }
    int code = offline_open(a, &d);
    if (code != CLI_OK) {
        return code;
    }
    struct inspect_opts o = {.records = cli_flag(a, "records"), .json = form != NULL && strcmp(form, "json") == 0};
    err e = inspect_dump(d, ".", &o, a->out);
    port_uv_disk_free(d);
    return e == ERR_OK ? CLI_OK : cli_fail(a, CLI_USAGE, "%s: %s", a->words[0], err_text(e));
}

int offline_verify(const struct cli_args *a) {
    struct disk *d = NULL;
    int code = offline_open(a, &d);
    if (code != CLI_OK) {
        return code;
    }
    err e = inspect_verify(d, ".", a->out);
    port_uv_disk_free(d);
    if (e == ERR_OK) {
        return CLI_OK;
    }
    return e == ERR_DAMAGED ? CLI_USAGE : cli_fail(a, CLI_USAGE, "%s: %s", a->words[0], err_text(e));
}
