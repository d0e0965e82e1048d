/* Goal: settings from file, environment and --set in that order, mistakes with their place, `config check` and `config show` (DESIGN 7, BR-040, BR-041).
 * Method: files in a temporary directory and command lines. */
#include "config.h"

#include <unistd.h>

#include "shell.h"

static struct shell s;
static char dir[] = "/tmp/perigee-test-XXXXXX";

static int on_serve(const struct cli_args *a) {
    struct conf *c;
    int code = config_load(a, &c);
    if (code == CLI_OK) {
        fprintf(a->out, "dir=%s partitions=%lld origin=%s\n", conf_str(c, "log.dirs"), (long long)conf_int(c, "num.partitions"),
                conf_origin_name(conf_origin(c, "num.partitions")));
        conf_free(c);
    }
    return code;
}

static const struct cli_handler handlers[] = {{"config check", config_check}, {"config show", config_show}, {"serve", on_serve}};

static void run(const char *line) { shell_run(&s, line, handlers, 3); }

static void write_file(const char *text) {
    FILE *f = fopen("server.properties", "w");
    fputs(text, f);
    fclose(f);
}

static void setup(void) {
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(chdir(dir), 0);
}
static void teardown(void) {
    unlink("server.properties");
    ck_assert_int_eq(chdir("/"), 0);
    rmdir(dir);
}

START_TEST(check_names_lines) {
    write_file("num.partitions=3\nnum.partitons=4\n\nshards=many\nlog.retention.hours=168\n=x\n");
    run("perigee config check server.properties");
    ck_assert_int_eq(s.code, CLI_CONFIG);
    ck_assert_str_eq(s.err, "server.properties:2: unknown setting 'num.partitons': did you mean num.partitions?\n"
                            "server.properties:4: shards: 'many' is not a whole number\n"
                            "server.properties:6: no name before the value\n");
    write_file("num.partitions=3\n# all fine\nzookeeper.connect=x:1\n");
    run("perigee config check server.properties");
    ck_assert_int_eq(s.code, CLI_OK);
    ck_assert_str_eq(s.out, "server.properties: 2 settings, no mistakes\n");
    run("perigee config check no-such-file");
    ck_assert_int_eq(s.code, CLI_USAGE);
    shell_says(s.err, "cannot read no-such-file");
}
END_TEST

START_TEST(check_finds_contradictions) {
    write_file("listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://0.0.0.0:9092\n");
    run("perigee config check server.properties");
    ck_assert_int_eq(s.code, CLI_CONFIG);
    shell_says(s.err, "server.properties: advertised.listeners");                   /* BR-040 */
    write_file("listeners=PLAINTEXT://:9092\nadvertised.listeners=OTHER://a:9092\n");
    run("perigee config check server.properties");
    ck_assert_int_eq(s.code, CLI_CONFIG);                                           /* BR-041 */
    write_file("log.dirs=/a,/b\n");
    run("perigee serve -c server.properties");
    ck_assert_int_eq(s.code, CLI_CONFIG);
    shell_says(s.err, "several directories");
}
END_TEST

START_TEST(order_of_sources) {
    write_file("num.partitions=3\nlog.dirs=/from/file\n");
    run("perigee serve");
    ck_assert_str_eq(s.out, "dir=perigee-data partitions=1 origin=default\n");
    run("perigee serve -c server.properties");
    ck_assert_str_eq(s.out, "dir=/from/file partitions=3 origin=file\n");
    setenv("PERIGEE_NUM_PARTITIONS", "4", 1);
    setenv("PERIGEE_BROKER", "somewhere:1", 1);
    run("perigee serve -c server.properties");
    ck_assert_str_eq(s.out, "dir=/from/file partitions=4 origin=environment\n");
    ck_assert_str_eq(s.err, "");
    run("perigee serve -c server.properties --set num.partitions=5 --set num.partitions=6 --data-dir /d");
    ck_assert_str_eq(s.out, "dir=/d partitions=6 origin=--set\n");
    unsetenv("PERIGEE_NUM_PARTITIONS");
}
END_TEST

START_TEST(mistakes_of_each_source) {
    write_file("made.up.by.somebody=1\n");
    run("perigee serve -c server.properties");
    ck_assert_int_eq(s.code, CLI_OK);
    ck_assert_str_eq(s.err, "server.properties:1: unknown setting 'made.up.by.somebody' (ignored)\n");
    setenv("PERIGEE_SHARDS", "x", 1);
    run("perigee serve");
    ck_assert_int_eq(s.code, CLI_CONFIG);
    ck_assert_str_eq(s.err, "environment PERIGEE_SHARDS: shards: 'x' is not a whole number\n");
    unsetenv("PERIGEE_SHARDS");
    run("perigee serve --set shards=x --set message.max.bytes=y");
    ck_assert_int_eq(s.code, CLI_CONFIG);
    shell_says(s.err, "--set: shards: 'x'");
    shell_says(s.err, "--set: message.max.bytes: 'y'");
    run("perigee serve --set shards");
    ck_assert_int_eq(s.code, CLI_USAGE);
    shell_says(s.err, "--set is KEY=VALUE, not 'shards'");
    run("perigee serve --set shard=2");
    ck_assert_int_eq(s.code, CLI_OK);
    shell_says(s.err, "--set: unknown setting 'shard': did you mean shards? (ignored)");
    run("perigee serve --data-dir=");
    ck_assert_int_eq(s.code, CLI_USAGE);
    shell_says(s.err, "--data-dir is empty");
    run("perigee serve --set listeners=SSL://127.0.0.1:9092");
    ck_assert_int_eq(s.code, CLI_CONFIG);
    shell_says(s.err, "perigee serve: listener SSL asks for SSL");
}
END_TEST

/* What is accepted and does nothing is said, and is no mistake. */
START_TEST(without_effect_is_said) {
    write_file("num.partitions=3\nlog.cleaner.threads=2\nauthorizer.class.name=a.b.C\n");
    run("perigee config check server.properties");
    ck_assert_int_eq(s.code, CLI_OK);
    shell_says(s.out, "server.properties:2: log.cleaner.threads has no effect here. ");
    shell_says(s.out, "server.properties:3: authorizer.class.name has no effect here. ");
    shell_says(s.out, "server.properties: 3 settings, no mistakes\n");
    ck_assert_ptr_null(strstr(s.out, "num.partitions"));
    run("perigee serve -c server.properties");
    ck_assert_int_eq(s.code, CLI_OK);
    ck_assert_str_eq(s.err, "perigee serve: 2 settings are without effect here; perigee config check server.properties names them\n");
    run("perigee serve --set native.listeners=N://127.0.0.1:9292 --set listeners=");
    ck_assert_int_eq(s.code, CLI_OK);
    shell_says(s.err, "native.listeners is set, but this version does not serve that door yet");
    shell_says(s.err, "none can connect");
}
END_TEST

/* DESIGN 7: listeners of a controller are skipped with one line. */
START_TEST(controller_listeners) {
    write_file("process.roles=broker,controller\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
               "advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093\n"
               "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n");
    run("perigee serve -c server.properties");
    ck_assert_int_eq(s.code, CLI_OK);
    ck_assert_str_eq(s.err, "perigee serve: listeners named in controller.listener.names (CONTROLLER) are skipped: perigee keeps metadata itself\n");
}
END_TEST

START_TEST(show) {
    write_file("log.segment.bytes=64MiB\nssl.key.password=secret\nnum.io.threads=4\n");
    run("perigee config show -c server.properties --set shards=2 -o tsv");
    ck_assert_int_eq(s.code, CLI_OK);
    shell_says(s.out, "log.segment.bytes\t67108864\t1073741824\tfile\n");
    shell_says(s.out, "shards\t2\t0\t--set\n");
    shell_says(s.out, "num.io.threads\t4\t8\tfile\n");             /* without effect, but somebody set it */
    shell_says(s.out, "ssl.key.password\t[hidden]\t\tfile\n");
    ck_assert_ptr_null(strstr(s.out, "secret"));
    ck_assert_ptr_null(strstr(s.out, "num.network.threads"));
    run("perigee config show --all -o json");
    shell_says(s.out, "{\"name\":\"num.network.threads\",\"value\":\"3\",\"default\":\"3\",\"origin\":\"default\"}");
    run("perigee config show -o xml");
    ck_assert_int_eq(s.code, CLI_USAGE);
    shell_says(s.err, "--output is table, tsv or json, not 'xml'");
}
END_TEST

START_TEST(not_a_settings_file) {
    FILE *f = fopen("server.properties", "w");
    for (int i = 0; i < 110000; i++) {
        fputs("0123456789", f);
    }
    fclose(f);
    run("perigee serve -c server.properties");
    ck_assert_int_eq(s.code, CLI_CONFIG);
    shell_says(s.err, "no file of settings");
    run("perigee serve -c /");
    ck_assert_int_eq(s.code, CLI_USAGE);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("config");
    TCase *t = tcase_create("config");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, check_names_lines);
    tcase_add_test(t, check_finds_contradictions);
    tcase_add_test(t, order_of_sources);
    tcase_add_test(t, mistakes_of_each_source);
    tcase_add_test(t, without_effect_is_said);
    tcase_add_test(t, controller_listeners);
    tcase_add_test(t, show);
    tcase_add_test(t, not_a_settings_file);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
