/* Settings from file, environment and command line, and the two commands about them.
 *
 * Happy path: each source is put over the one before, then contradictions are looked for; what has no effect here is said. Failure modes: every mistake of a source is one line with its
 * place ("server.properties:12: ..."), all of them are shown, and the exit code is 78; an unknown name is only a warning here, and an error in
 * `config check`. Runs on: the main thread, before anything else. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "cli/out.h"

#define CONFIG_ENV "PERIGEE_"

struct config_reading {
    const struct cli_args *a;
    struct conf *conf;
    const char *file;
    bool strict;                       /* unknown names are mistakes too */
    int mistakes, settings, idle;      /* idle: they have no effect here */
};

static bool is_unknown(span name) {
    span n = conf_value_trim(name);
    return conf_key_find(n, CONF_BROKER) == NULL && !conf_key_is_foreign(n);
}

/* Said in full by config check, counted elsewhere: a file of Kafka's holds many of them. */
static void note_idle(struct config_reading *r, const char *place, span name) {
    const struct conf_key *k = conf_key_find(conf_value_trim(name), CONF_BROKER);
    if (k == NULL || (k->flags & CONF_IGNORED) == 0) {
        return;
    }
    r->idle++;
    if (r->strict) {
        fprintf(r->a->out, "%s: %s has no effect here. %s\n", place, k->name, k->doc);
    }
}

/* One setting from `place`. */
static void put(struct config_reading *r, const char *place, span name, span value, enum conf_origin origin) {
    char why[500];
    r->settings++;
    if (conf_put(r->conf, name, value, origin, why, sizeof why) == ERR_OK) {
        note_idle(r, place, name);
        return;
    }
    bool warn = is_unknown(name) && !r->strict;
    fprintf(r->a->err, "%s: %s%s\n", place, why, warn ? " (ignored)" : "");
    r->mistakes += !warn;
}

/* ---- file ---- */

static void on_line(void *u, int line, span name, span value, const char *bad) {
    struct config_reading *r = u;
    char place[300];
    snprintf(place, sizeof place, "%.250s:%d", r->file, line);
    if (bad == NULL) {
        put(r, place, name, value, CONF_FILE);
    } else {
        fprintf(r->a->err, "%s: %s\n", place, bad);
        r->mistakes++;
    }
}

static int cannot_read(const struct cli_args *a, const char *path) { return cli_fail(a, CLI_USAGE, "cannot read %s: %s", path, strerror(errno)); }

static int read_file(struct config_reading *r, const char *path) {
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return cannot_read(r->a, path);
    }
    size_t cap = LIMIT_SETTINGS_FILE_BYTES + 1;
    char *text = mem_alloc(MEM_MISC, cap);
    size_t n = text == NULL ? 0 : fread(text, 1, cap, f);
    int code = CLI_OK;
    if (text == NULL) {
        code = cli_fail(r->a, CLI_USAGE, "out of memory");
    } else if (ferror(f)) {
        code = cannot_read(r->a, path);
    } else if (n == cap) {
        code = cli_fail(r->a, CLI_CONFIG, "%s has more than %d bytes: this is no file of settings", path, LIMIT_SETTINGS_FILE_BYTES);
    }
    fclose(f);
    if (code == CLI_OK) {
        r->file = path;
        code = conf_file_each(span_of(text, n), on_line, r) == ERR_OK ? CLI_OK : cli_fail(r->a, CLI_USAGE, "out of memory");
    }
    mem_free(text);
    return code;
}

/* ---- environment and command line ---- */

/* PERIGEE_BROKER belongs to the commands, PERIGEE_FAULT to the crash points of the port. */
static bool is_no_setting(const char *entry) { return strncmp(entry, CONFIG_ENV "BROKER=", 15) == 0 || strncmp(entry, CONFIG_ENV "FAULT=", 14) == 0; }

/* PERIGEE_A_B=value is a.b=value. */
static void read_environment(struct config_reading *r) {
    size_t prefix = strlen(CONFIG_ENV);
    for (char **e = environ; *e != NULL; e++) {
        const char *equals = strchr(*e, '=');
        char name[128];
        if (strncmp(*e, CONFIG_ENV, prefix) != 0 || equals == NULL || (size_t)(equals - *e) >= sizeof name || is_no_setting(*e)) {
            continue;
        }
        size_t n = 0;
        for (const char *p = *e + prefix; p < equals; p++) {
            name[n++] = *p == '_' ? '.' : *p >= 'A' && *p <= 'Z' ? (char)(*p - 'A' + 'a') : *p;
        }
        char place[160];
        snprintf(place, sizeof place, "environment %.*s", (int)(equals - *e), *e);
        put(r, place, span_of(name, n), span_str(equals + 1), CONF_ENV);
    }
}

static int read_sets(struct config_reading *r) {
    const char *text;
    for (size_t i = 0; (text = cli_each(r->a, "set", i)) != NULL; i++) {
        const char *equals = strchr(text, '=');
        if (equals == NULL || equals == text) {
            return cli_fail(r->a, CLI_USAGE, "--set is KEY=VALUE, not '%s'", text);
        }
        put(r, "--set", span_of(text, (size_t)(equals - text)), span_str(equals + 1), CONF_SET);
    }
    const char *dir = cli_text(r->a, "data-dir");
    if (dir != NULL && dir[0] == '\0') {
        return cli_fail(r->a, CLI_USAGE, "--data-dir is empty: name the data directory");
    }
    if (dir != NULL) {
        put(r, "--data-dir", SPAN_LIT("log.dirs"), span_str(dir), CONF_SET);
    }
    return CLI_OK;
}

/* ---- together ---- */

static void say_skipped(const struct cli_args *a, const struct conf *c) {
    struct conf_doors doors;
    char why[500];
    if (conf_endpoints(c, &doors, why, sizeof why) != ERR_OK) {
        return;
    }
    if (doors.skipped > 0) {
        (void)cli_fail(a, CLI_OK, "listeners named in controller.listener.names (%s) are skipped: perigee keeps metadata itself",
                       conf_str(c, "controller.listener.names"));
    }
    if (doors.n == 0) {
        (void)cli_fail(a, CLI_OK, "listeners names no listener for Kafka clients: none can connect");
    }
}

/* Doors that have a setting from the first day and are not built yet. */
static void say_closed(const struct cli_args *a, const struct conf *c) {
    static const char *const doors[] = {"native.listeners", "admin.listeners", "peer.listeners"};
    for (size_t i = 0; i < sizeof doors / sizeof doors[0]; i++) {
        const char *text = conf_str(c, doors[i]);
        if (text != NULL && text[0] != '\0') {
            (void)cli_fail(a, CLI_OK, "%s is set, but this version does not serve that door yet: nothing listens there", doors[i]);
        }
    }
}

/* One line for all settings of the file that are accepted for Kafka's sake. */
static void say_idle(const struct config_reading *r) {
    if (r->file != NULL && r->idle > 0) {
        (void)cli_fail(r->a, CLI_OK, "%d setting%s without effect here; perigee config check %s names them", r->idle, r->idle == 1 ? " is" : "s are", r->file);
    }
}

static int check(const struct config_reading *r) {
    char why[500];
    if (r->mistakes > 0) {
        return CLI_CONFIG;
    }
    if (conf_check(r->conf, why, sizeof why) != ERR_OK) {
        if (r->file == NULL) {
            return cli_fail(r->a, CLI_CONFIG, "%s", why);
        }
        fprintf(r->a->err, "%s: %s\n", r->file, why);
        return CLI_CONFIG;
    }
    return CLI_OK;
}

int config_load(const struct cli_args *a, struct conf **ret_c) {
    struct config_reading r = {.a = a};
    if (conf_new(&r.conf) != ERR_OK) {
        return cli_fail(a, CLI_USAGE, "out of memory");
    }
    const char *file = cli_text(a, "config");
    int code = file == NULL ? CLI_OK : read_file(&r, file);
    if (code == CLI_OK) {
        read_environment(&r);
        code = read_sets(&r);
    }
    code = code == CLI_OK ? check(&r) : code;
    if (code != CLI_OK) {
        conf_free(r.conf);
        return code;
    }
    say_skipped(a, r.conf);
    say_closed(a, r.conf);
    say_idle(&r);
    *ret_c = r.conf;
    return CLI_OK;
}

/* ---- commands ---- */

int config_check(const struct cli_args *a) {
    struct config_reading r = {.a = a, .strict = true};
    if (conf_new(&r.conf) != ERR_OK) {
        return cli_fail(a, CLI_USAGE, "out of memory");
    }
    int code = read_file(&r, a->words[0]);
    code = code == CLI_OK ? check(&r) : code;
    if (code == CLI_OK) {
        fprintf(a->out, "%s: %d settings, no mistakes\n", a->words[0], r.settings);
    }
    conf_free(r.conf);
    return code;
}

struct config_rows {
    struct out out;
    bool all;
};

static void put_value(struct out *o, const struct conf_key *k, const char *value) {
    char buf[1024];
    if (value == NULL || value[0] == '\0') {
        out_cell(o, NULL);
    } else if ((k->flags & CONF_SENSITIVE) != 0) {
        out_cell(o, "[hidden]");
    } else {
        out_cell(o, conf_value_plain(k, span_str(value), buf, sizeof buf));
    }
}

static void on_key(void *u, const struct conf_key *k, const char *value, enum conf_origin o) {
    struct config_rows *rows = u;
    if ((k->flags & CONF_IGNORED) != 0 && o == CONF_DEFAULT && !rows->all) {
        return;
    }
    out_cell(&rows->out, k->name);
    put_value(&rows->out, k, value);
    put_value(&rows->out, k, k->value);
    out_cell(&rows->out, conf_origin_name(o));
}

int config_show(const struct cli_args *a) {
    static const struct out_column columns[] = {{"name", false}, {"value", false}, {"default", false}, {"origin", false}};
    struct config_rows rows = {.all = cli_flag(a, "all")};
    enum out_form form;
    struct conf *c;
    if (!out_form_of(a, &form)) {
        return CLI_USAGE;
    }
    int code = config_load(a, &c);
    if (code != CLI_OK) {
        return code;
    }
    out_begin(&rows.out, a, form, columns, 4);
    conf_show(c, on_key, &rows);
    code = out_end(&rows.out, a);
    conf_free(c);
    return code;
}
