/* Goal: the command table drives parsing, help and manual pages; wrong use is one line and 1 (DESIGN 7).
 * Method: command lines with what they say and their exit codes. */
#include "shell.h"
#include "table.h"

static struct shell s;
static int ran;

static int on_serve(const struct cli_args *a) {
    ran++;
    fprintf(a->out, "dir=%s ready=%s level=%s json=%d\n", cli_text(a, "data-dir"), cli_text(a, "ready-file"), cli_text(a, "log-level"),
            cli_flag(a, "log-json"));
    for (size_t i = 0; cli_each(a, "set", i) != NULL; i++) {
        fprintf(a->out, "set %s\n", cli_each(a, "set", i));
    }
    return 42;
}

static int on_dump(const struct cli_args *a) {
    fprintf(a->out, "dump %s %s", a->words[0], cli_flag(a, "records") ? "records" : "heads");
    return 0;
}

static const struct cli_handler handlers[] = {{"serve", on_serve}, {"log dump", on_dump}};

static void run(const char *line) { shell_run(&s, line, handlers, 2); }

static void wrong(const char *line, const char *words) {
    run(line);
    ck_assert_msg(s.code == CLI_USAGE, "%s gave %d", line, s.code);
    shell_says(s.err, words);
    ck_assert_str_eq(s.out, "");
}

START_TEST(options) {
    run("perigee serve --data-dir /a --data-dir=/b --set a=1 --set=b=2 --ready-file r --log-level debug --log-json");
    ck_assert_int_eq(s.code, 42);
    ck_assert_str_eq(s.out, "dir=/b ready=r level=debug json=1\nset a=1\nset b=2\n");
    run("perigee log dump --records d");
    ck_assert_str_eq(s.out, "dump d records");
    run("perigee log dump -- --records");
    ck_assert_str_eq(s.out, "dump --records heads");
}
END_TEST

START_TEST(wrong_use) {
    wrong("perigee", "perigee COMMAND --help");
    wrong("perigee fly", "unknown command 'fly'");
    wrong("perigee topic", "perigee topic create");
    wrong("perigee topic fly", "perigee topic list");
    wrong("perigee serve now", "one argument too many: now");
    wrong("perigee serve --sets a=1", "unknown option --sets: did you mean --set?");
    wrong("perigee serve --wings", "unknown option --wings");
    wrong("perigee serve --set", "a value is missing after --set");
    wrong("perigee serve -c", "a value is missing after -c");
    wrong("perigee serve -x", "unknown option -x");
    wrong("perigee serve --log-json=yes", "no value is taken by --log-json");
    wrong("perigee log dump", "missing: DIR");
    wrong("perigee log dump a b", "one argument too many: b");
    wrong("perigee topic create", "missing: NAME...");
    wrong("perigee log verify x", "not part of this program");
    wrong("perigee help nothing", "no such command: nothing");
    ck_assert_int_eq(ran, 0);
}
END_TEST

START_TEST(help_everywhere) {
    run("perigee --help");
    ck_assert_int_eq(s.code, 0);
    for (size_t i = 0; i < table_commands_n; i++) {
        const struct cli_command *c = &table_commands[i];
        shell_says(s.out, c->name);
        ck_assert(c->summary[0] != '\0' && c->exits[0] == '0');
    }
    for (size_t i = 0; i < table_commands_n; i++) {
        char line[100];
        snprintf(line, sizeof line, "perigee %s --help", table_commands[i].name);
        run(line);
        ck_assert_msg(s.code == 0, "%s", line);
        shell_says(s.out, table_commands[i].summary);
        shell_says(s.out, "Exit codes:\n  0");
        for (const struct table_option *const *o = table_commands[i].options; *o != NULL; o++) {
            shell_says(s.out, (*o)->name);
            ck_assert((*o)->help[strlen((*o)->help) - 1] == '.');
        }
        for (const char *p = s.out; *p != '\0'; p += strcspn(p, "\n") + 1) {
            ck_assert_msg(strcspn(p, "\n") <= 130, "too wide: %.140s", p);
        }
        snprintf(line, sizeof line, "perigee help %s", table_commands[i].name);
        run(line);
        ck_assert_int_eq(s.code, 0);
        shell_says(s.out, table_commands[i].summary);
    }
    run("perigee topic --help");
    ck_assert_int_eq(s.code, 0);
    shell_says(s.out, "perigee topic delete NAME...");
    run("perigee help topic");
    shell_says(s.out, "perigee topic delete NAME...");
    run("perigee serve --set --help");                      /* what looks like an option is its value */
    ck_assert_int_eq(s.code, 42);
    run("perigee help settings");
    ck_assert_int_eq(s.code, 0);
    shell_says(s.out, "store.sync.age.ms  (ms; default 100)");
    shell_says(s.out, "num.io.threads  (number; default 8; no effect here)");
}
END_TEST

START_TEST(manual_pages) {
    run("perigee help --man");
    ck_assert_int_eq(s.code, 0);
    shell_says(s.out, ".TH PERIGEE 1 \"\" \"perigee 1.2.3\"");
    shell_says(s.out, ".SS \"perigee topic create NAME...\"");
    shell_says(s.out, "\\-\\-if\\-not\\-exists");
    run("perigee help settings --man");
    ck_assert_int_eq(s.code, 0);
    shell_says(s.out, ".TH PERIGEE\\-SETTINGS 5");
    shell_says(s.out, "protected.mode");
    for (const char *p = s.out; *p != '\0'; p += strcspn(p, "\n") + 1) {           /* text that roff would take for a request */
        ck_assert_msg(*p != '.' || strchr("TSBP", p[1]) != NULL, "%.60s", p);
    }
}
END_TEST

START_TEST(version) {
    static const char *const lines[] = {"perigee --version", "perigee -V", "perigee version"};
    for (size_t i = 0; i < 3; i++) {
        run(lines[i]);
        ck_assert_int_eq(s.code, 0);
        ck_assert_str_eq(s.out, "perigee 1.2.3\n");
    }
}
END_TEST

START_TEST(too_many) {
    static char line[1900] = "perigee serve";
    for (int i = 0; i < 25; i++) {
        size_t n = strlen(line);
        snprintf(line + n, sizeof line - n, " --set x=%d", i);
    }
    run(line);
    ck_assert_int_eq(s.code, 42);
    shell_says(s.out, "set x=24\n");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cli");
    TCase *t = tcase_create("cli");
    tcase_add_test(t, options);
    tcase_add_test(t, wrong_use);
    tcase_add_test(t, help_everywhere);
    tcase_add_test(t, manual_pages);
    tcase_add_test(t, version);
    tcase_add_test(t, too_many);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
