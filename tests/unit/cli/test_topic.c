/* Goal: the topic commands and the small Kafka client under them: answers as rows, refusals as exit codes (DESIGN 7), versions negotiated, and no
 * broker, however odd, that makes a command hang or crash.
 * Method: command lines against a scripted broker on a socket. */
#include <fcntl.h>

#include "fake.h"
#include "shell.h"

static struct shell s;
static struct fake f;

static void start(struct fake how) {
    f = how;
    fake_start(&f);
    char broker[64];
    snprintf(broker, sizeof broker, "127.0.0.1:%d", f.port);
    setenv("PERIGEE_BROKER", broker, 1);
}

static void run(const char *line) { shell_run(&s, line, NULL, 0); }

static void expect(const char *line, int code, const char *out, const char *err_words) {
    run(line);
    ck_assert_msg(s.code == code, "%s: %d instead of %d: %s", line, s.code, code, s.err);
    ck_assert_str_eq(s.out, out);
    shell_says(s.err, err_words);
    ck_assert_msg(err_words[0] != '\0' || s.err[0] == '\0', "%s", s.err);
}

#define ID1 "AQEBAQEBAQEBAQEBAQEBAQ"
#define ID2 "AgICAgICAgICAgICAgICAg"

START_TEST(list) {
    start((struct fake){.topics_n = 2});
    expect("perigee topic list", 0, "t0\t2\t" ID1 "\nt1\t2\t" ID2 "\n", "");
    expect("perigee topic list -o table", 0, "NAME  PARTITIONS  ID\nt0             2  " ID1 "\nt1             2  " ID2 "\n", "");
    expect("perigee topic list --output=json", 0, "[\n{\"name\":\"t0\",\"partitions\":2,\"id\":\"" ID1 "\"},\n"
                                                  "{\"name\":\"t1\",\"partitions\":2,\"id\":\"" ID2 "\"}\n]\n", "");
    fake_stop(&f);
    start((struct fake){.topics_n = 0});
    expect("perigee topic list", 0, "", "");
    fake_stop(&f);
}
END_TEST

START_TEST(describe) {
    start((struct fake){.topics_n = 2});
    expect("perigee topic describe t1 t0", 0,
           "t1\t" ID2 "\t0\t1\t4\t1\t10\nt1\t" ID2 "\t1\t\t4\t1\t11\n"
           "t0\t" ID1 "\t0\t1\t4\t0\t0\nt0\t" ID1 "\t1\t\t4\t0\t1\n", "");
    expect("perigee topic describe t7 t0", CLI_NOT_FOUND, "t0\t" ID1 "\t0\t1\t4\t0\t0\nt0\t" ID1 "\t1\t\t4\t0\t1\n",
           "perigee topic describe: t7: UNKNOWN_TOPIC_OR_PARTITION");
    expect("perigee topic describe t7", CLI_NOT_FOUND, "", "t7: UNKNOWN_TOPIC_OR_PARTITION");
    fake_stop(&f);
    start((struct fake){.topics_n = 1, .error = 6});
    expect("perigee topic describe t0", CLI_REFUSED, "t0\t" ID1 "\t0\t1\t4\t\t\nt0\t" ID1 "\t1\t\t4\t\t\n", "t0-0: NOT_LEADER_OR_FOLLOWER");
    fake_stop(&f);
}
END_TEST

START_TEST(create) {
    start((struct fake){.topics_n = 1});
    expect("perigee topic create a b -p 5 --config retention.ms=7d=x", 0, "a\tCQkJCQkJCQkJCQkJCQkJCQ\t5\nb\tCQkJCQkJCQkJCQkJCQkJCQ\t5\n", "");
    expect("perigee topic create a --replication-factor 1", 0, "a\tCQkJCQkJCQkJCQkJCQkJCQ\t3\n", "");
    expect("perigee topic create t0 a", CLI_REFUSED, "a\tCQkJCQkJCQkJCQkJCQkJCQ\t3\n", "t0: TOPIC_ALREADY_EXISTS: it is there");
    expect("perigee topic create t0 --if-not-exists", 0, "", "");
    expect("perigee topic create a --partitions 0", CLI_USAGE, "", "--partitions is a number from 1 to 2147483647, not '0'");
    expect("perigee topic create a --partitions 3x", CLI_USAGE, "", "--partitions");
    expect("perigee topic create a --partitions 99999999999999999999", CLI_USAGE, "", "--partitions");
    expect("perigee topic create a --config retention.ms", CLI_USAGE, "", "--config is KEY=VALUE");
    fake_stop(&f);
    start((struct fake){.error = 29});
    expect("perigee topic create a", CLI_DENIED, "", "a: TOPIC_AUTHORIZATION_FAILED: because");
    fake_stop(&f);
    start((struct fake){.error = 40});
    expect("perigee topic create a", CLI_REFUSED, "", "a: INVALID_CONFIG: because");
    fake_stop(&f);
    start((struct fake){.manner = FAKE_NO_TOPICS_API});
    expect("perigee topic create a", CLI_REFUSED, "", "does not serve create_topics");
    fake_stop(&f);
}
END_TEST

START_TEST(grow) {
    start((struct fake){.topics_n = 2});
    expect("perigee topic alter t0 t1 --partitions 5", 0, "t0\t5\nt1\t5\n", "");
    expect("perigee topic alter -p 3 t0 -o json", 0, "[\n{\"name\":\"t0\",\"partitions\":3}\n]\n", "");
    expect("perigee topic alter t0 -p 2", CLI_REFUSED, "", "t0: INVALID_PARTITIONS: it has 2 already");
    expect("perigee topic alter t0 nope -p 4", CLI_NOT_FOUND, "t0\t4\n", "nope: UNKNOWN_TOPIC_OR_PARTITION");
    expect("perigee topic alter t0 -p 0", CLI_USAGE, "", "--partitions is a number from 1 to 2147483647, not '0'");
    expect("perigee topic alter t0", CLI_USAGE, "", "nothing to alter: give --set KEY=VALUE, --unset KEY or --partitions N");
    fake_stop(&f);
    start((struct fake){.topics_n = 1, .error = 29});
    expect("perigee topic alter t0 -p 9", CLI_DENIED, "", "t0: TOPIC_AUTHORIZATION_FAILED");
    fake_stop(&f);
}
END_TEST

START_TEST(settings) {
    start((struct fake){.topics_n = 2});
    expect("perigee topic alter t0 t1 --set retention.ms=7d=x", 0, "t0\nt1\n", "");
    expect("perigee topic alter t0 --unset retention.ms -o json", 0, "[\n{\"name\":\"t0\"}\n]\n", "");
    expect("perigee topic alter t0 --set retention.ms= -p 5", 0, "t0\t5\n", "");
    expect("perigee topic alter t0 --set retention.sm=1", CLI_REFUSED, "", "t0: INVALID_CONFIG: unknown");
    expect("perigee topic alter t0 --set retention.sm=1 -p 5", CLI_REFUSED, "", "t0: INVALID_CONFIG: unknown");
    expect("perigee topic alter t0 nope --set retention.ms=1", CLI_NOT_FOUND, "t0\n", "nope: UNKNOWN_TOPIC_OR_PARTITION");
    expect("perigee topic alter t0 --set retention.ms", CLI_USAGE, "", "--set is KEY=VALUE, not 'retention.ms'");
    expect("perigee topic alter t0 --set =1", CLI_USAGE, "", "--set is KEY=VALUE");
    expect("perigee topic alter t0 --unset retention.ms=1", CLI_USAGE, "", "--unset is KEY, not 'retention.ms=1'");
    expect("perigee topic describe t1 nope --settings", CLI_NOT_FOUND,
           "t1\ta\tv\ttopic\nt1\tb\tv\tbroker\nt1\tc\tv\tall brokers\nt1\td\tv\tfile\nt1\te\tv\tdefault\nt1\tf\t\t\n", "nope: UNKNOWN_TOPIC_OR_PARTITION");
    fake_stop(&f);
    start((struct fake){.topics_n = 1, .error = 29});
    expect("perigee topic alter t0 --set retention.ms=1", CLI_DENIED, "", "t0: TOPIC_AUTHORIZATION_FAILED");
    expect("perigee topic describe t0 --settings", CLI_DENIED, "", "t0: TOPIC_AUTHORIZATION_FAILED");
    fake_stop(&f);
}
END_TEST

START_TEST(delete) {
    start((struct fake){.topics_n = 2});
    ck_assert_ptr_nonnull(freopen("/dev/null", "r", stdin));
    expect("perigee topic delete t0", CLI_USAGE, "", "nothing deleted: give --yes");
    expect("perigee topic delete t0 t1 --yes", 0, "t0\nt1\n", "");
    expect("perigee topic delete -y t0 nope", CLI_NOT_FOUND, "t0\n", "nope: UNKNOWN_TOPIC_OR_PARTITION");
    expect("perigee topic delete -y t0 nope --if-exists", 0, "t0\n", "");
    fake_stop(&f);
    start((struct fake){.topics_n = 2, .error = 73});
    expect("perigee topic delete -y t0", CLI_REFUSED, "", "t0: TOPIC_DELETION_DISABLED");
    fake_stop(&f);
}
END_TEST

/* On a terminal a person is asked, and only y deletes. */
START_TEST(delete_asks) {
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    ck_assert_int_ge(master, 0);
    ck_assert_int_eq(grantpt(master), 0);
    ck_assert_int_eq(unlockpt(master), 0);
    ck_assert_ptr_nonnull(freopen(ptsname(master), "r", stdin));
    start((struct fake){.topics_n = 2});
    ck_assert_int_eq(write(master, "n\n", 2), 2);
    expect("perigee topic delete t0 t1", CLI_USAGE, "", "Delete t0 t1 with all records? [y/N] perigee topic delete: nothing deleted");
    ck_assert_int_eq(write(master, "y\n", 2), 2);
    expect("perigee topic delete t0 t1", 0, "t0\nt1\n", "[y/N]");
    fake_stop(&f);
    close(master);
}
END_TEST

/* S2.4: a broker that knows only older versions is asked in those. */
START_TEST(old_broker) {
    start((struct fake){.topics_n = 1, .manner = FAKE_OLD});
    expect("perigee topic list", 0, "t0\t2\t\n", "");
    expect("perigee topic describe t0", 0, "t0\t\t0\t1\t\t0\t0\nt0\t\t1\t\t\t0\t1\n", "");
    expect("perigee topic create a", 0, "a\t\t\n", "");
    expect("perigee topic delete t0 -y", 0, "t0\n", "");
    fake_stop(&f);
}
END_TEST

START_TEST(slow_bytes) {
    start((struct fake){.topics_n = 2, .manner = FAKE_BYTEWISE});
    expect("perigee topic list", 0, "t0\t2\t" ID1 "\nt1\t2\t" ID2 "\n", "");
    fake_stop(&f);
}
END_TEST

START_TEST(odd_brokers) {
    static const struct { enum fake_manner manner; const char *words; } odd[] = {
        {FAKE_SILENT, "did not answer within 50 ms"},
        {FAKE_HANG_UP, "closed the connection"},
        {FAKE_HTTP, "not in Kafka's protocol"},
        {FAKE_HUGE, "not in Kafka's protocol"},
        {FAKE_WRONG_ID, "not in Kafka's protocol"},
    };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        start((struct fake){.manner = odd[i].manner});
        expect("perigee topic list --timeout 50ms", CLI_UNREACHABLE, "", odd[i].words);
        fake_stop(&f);
    }
}
END_TEST

START_TEST(nobody_there) {
    start((struct fake){.topics_n = 1});
    int port = f.port;
    fake_stop(&f);
    expect("perigee topic list", CLI_UNREACHABLE, "", "cannot reach 127.0.0.1:");
    char line[100];
    snprintf(line, sizeof line, "perigee topic list -b localhost:%d", port);
    expect(line, CLI_UNREACHABLE, "", "cannot reach localhost:");
    expect("perigee topic list -b ''", CLI_USAGE, "", "is no address");
    expect("perigee topic list -b host:port", CLI_USAGE, "", "'host:port' is no address: HOST:PORT is wanted");
    expect("perigee topic list -b host:99999", CLI_USAGE, "", "is no address");
    expect("perigee topic list -b ::1:9092", CLI_USAGE, "", "is no address");
    expect("perigee topic list -b [::1", CLI_USAGE, "", "is no address");
    expect("perigee topic list --timeout soon", CLI_USAGE, "", "--timeout: 'soon' is not a number of milliseconds");
    expect("perigee topic list -o csv", CLI_USAGE, "", "--output");
}
END_TEST

/* -b goes above the environment. */
START_TEST(broker_named) {
    start((struct fake){.topics_n = 1});
    setenv("PERIGEE_BROKER", "127.0.0.1:1", 1);
    char line[100];
    snprintf(line, sizeof line, "perigee topic list --broker=127.0.0.1:%d", f.port);
    expect(line, 0, "t0\t2\t" ID1 "\n", "");
    fake_stop(&f);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("topic");
    TCase *t = tcase_create("topic");
    tcase_set_timeout(t, 30);
    tcase_add_test(t, list);
    tcase_add_test(t, describe);
    tcase_add_test(t, create);
    tcase_add_test(t, grow);
    tcase_add_test(t, settings);
    tcase_add_test(t, delete);
    tcase_add_test(t, delete_asks);
    tcase_add_test(t, old_broker);
    tcase_add_test(t, slow_bytes);
    tcase_add_test(t, odd_brokers);
    tcase_add_test(t, nobody_there);
    tcase_add_test(t, broker_named);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
