/* Happy path: a private disk rooted at the directory, then store/inspect prints. Failure modes: no such directory, or one without logs: 1; verify finds damage: 1,
 * with file and position.
 * Runs on: the main thread. */
#include "offline.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "port_uv/port_uv.h"
#include "store/inspect.h"

/* Where to stand and what to look at: a partition's directory is looked at from its data directory, where its durable mark is. */
struct offline {
    char root[4096], dir[256];
    struct disk *disk;
};

static bool offline_is_dir(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool offline_has_meta(const char *dir) {
    char path[4200];
    snprintf(path, sizeof(path), "%s/perigee.meta", dir);
    return offline_is_dir(path);
}

/* topic-0, or a file of a log. */
static bool offline_is_log(const char *name) {
    const char *dash = strrchr(name, '-');
    size_t n = strlen(name);
    return (dash != NULL && dash != name && isdigit((unsigned char)dash[1]) && strspn(dash + 1, "0123456789") == strlen(dash + 1))
           || (n > 4 && strcmp(name + n - 4, ".log") == 0);
}

/* A mistyped path must not be called sound. */
static bool offline_has_logs(const char *dir) {
    DIR *d = opendir(dir);
    bool found = d == NULL;                        /* the disk says why it cannot be read */
    for (const struct dirent *e; !found && (e = readdir(d)) != NULL;) {
        found = offline_is_log(e->d_name);
    }
    if (d != NULL) {
        closedir(d);
    }
    return found;
}

static int offline_open(const struct cli_args *a, struct offline *ret) {
    const char *dir = a->words[0];
    if (!offline_is_dir(dir) || realpath(dir, ret->root) == NULL) {
        return cli_fail(a, CLI_USAGE, "%s is no directory: name a data directory, or the directory of one partition", dir);
    }
    snprintf(ret->dir, sizeof(ret->dir), ".");
    char *slash = strrchr(ret->root, '/');
    if (!offline_has_meta(ret->root) && slash != NULL && slash != ret->root && strlen(slash + 1) < sizeof(ret->dir)) {
        *slash = '\0';
        if (offline_has_meta(ret->root)) {
            snprintf(ret->dir, sizeof(ret->dir), "%s", slash + 1);
        } else {
            *slash = '/';
        }
    }
    if (strcmp(ret->dir, ".") == 0 && !offline_has_meta(ret->root) && !offline_has_logs(ret->root)) {
        return cli_fail(a, CLI_USAGE, "%s holds neither perigee.meta nor a log: name a data directory, or the directory of one partition", dir);
    }
    err e = port_uv_disk_new(ret->root, &ret->disk);
    return e == ERR_OK ? CLI_OK : cli_fail(a, CLI_USAGE, "%s cannot be read: %s", dir, err_text(e));
}

/* CLI_OK and whether JSON is wanted. */
static int offline_form(const struct cli_args *a, bool *ret_json) {
    const char *form = cli_text(a, "output");
    if (form != NULL && strcmp(form, "json") != 0 && strcmp(form, "table") != 0 && strcmp(form, "tsv") != 0) {
        return cli_fail(a, CLI_USAGE, "--output is table, tsv or json");
    }
    *ret_json = form != NULL && strcmp(form, "json") == 0;
    return CLI_OK;
}

int offline_dump(const struct cli_args *a) {
    struct offline at = {0};
    struct inspect_opts o = {.records = cli_flag(a, "records")};
    int code = offline_form(a, &o.json);
    code = code == CLI_OK ? offline_open(a, &at) : code;
    if (code != CLI_OK) {
        return code;
    }
    err e = inspect_dump(at.disk, at.dir, &o, a->out);
    port_uv_disk_free(at.disk);
    return e == ERR_OK ? CLI_OK : cli_fail(a, CLI_USAGE, "%s: %s", a->words[0], err_text(e));
}

int offline_verify(const struct cli_args *a) {
    struct offline at = {0};
    bool json = false;
    int code = offline_form(a, &json);
    code = code == CLI_OK ? offline_open(a, &at) : code;
    if (code != CLI_OK) {
        return code;
    }
    err e = inspect_verify(at.disk, at.dir, json, a->out);
    port_uv_disk_free(at.disk);
    if (e == ERR_OK) {
        return CLI_OK;
    }
    return e == ERR_DAMAGED ? CLI_USAGE : cli_fail(a, CLI_USAGE, "%s: %s", a->words[0], err_text(e));
}
