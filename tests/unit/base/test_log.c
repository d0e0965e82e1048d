/* Goal: one bounded line per event to the right sink, rate-limited by name and second, never recursive, silent until someone listens.
 * Method: a sink that keeps the lines, a clock that is a variable. */
#include "base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "run.h"

struct lines {
    unsigned n;
    enum log_level level;
    char event[64], text[4096];
    bool talkative;
};

static void keep(void *u, enum log_level level, const char *event, const char *text) {
    struct lines *l = u;
    l->n++;
    l->level = level;
    (void)snprintf(l->event, sizeof l->event, "%s", event);
    (void)snprintf(l->text, sizeof l->text, "%s", text);
    if (l->talkative) {
        log_error("sink.failed", "while writing");
    }
}

static ms time_is;
static ms now(void) {
    return time_is;
}

START_TEST(silent_until_a_sink_is_set) {
    log_error("nobody", "hears=%d", 1);
    struct lines l = {0};
    log_default(keep, &l, LOG_INFO);
    log_error("conn.bad_frame", "peer='%s' bytes=%d", "10.0.0.1", 7);
    ck_assert_uint_eq(l.n, 1);
    ck_assert_int_eq(l.level, LOG_ERROR);
    ck_assert_str_eq(l.event, "conn.bad_frame");
    ck_assert_str_eq(l.text, "peer='10.0.0.1' bytes=7");
    log_debug("too", "quiet=1");
    ck_assert_uint_eq(l.n, 1);
    log_info("just", "loud=1");
    log_warn("more", "loud=1");
    ck_assert_uint_eq(l.n, 3);
}
END_TEST

static void *log_from_thread(void *u) {
    log_use(keep, u, LOG_DEBUG);
    log_debug("thread", "own=1");
    log_use(NULL, NULL, LOG_DEBUG);
    log_error("thread", "own=2");
    return NULL;
}

START_TEST(a_thread_may_have_its_own) {
    struct lines shared = {0}, own = {0};
    pthread_t other;
    log_default(keep, &shared, LOG_DEBUG);
    ck_assert_int_eq(pthread_create(&other, NULL, log_from_thread, &own), 0);
    pthread_join(other, NULL);
    ck_assert_uint_eq(own.n, 1);
    ck_assert_uint_eq(shared.n, 0);
    log_info("main", "default=1");
    ck_assert_uint_eq(shared.n, 1);
}
END_TEST

START_TEST(a_line_stays_a_line) {
    struct lines l = {0};
    log_use(keep, &l, LOG_DEBUG);
    log_info("x", "a='%s'", "one\ntwo\r\t\x1b[31m\x7f Zürich");
    ck_assert_str_eq(l.text, "a='one?two???[31m? Zürich'");
    char big[5000];
    memset(big, 'b', sizeof big - 1);
    big[sizeof big - 1] = 0;
    log_info("x", "%s", big);
    ck_assert_uint_lt(strlen(l.text), 2048);
    ck_assert_str_eq(l.text + strlen(l.text) - 5, "bb...");
}
END_TEST

START_TEST(a_sink_that_logs_does_not_recurse) {
    struct lines l = {.talkative = true};
    log_use(keep, &l, LOG_DEBUG);
    log_info("x", "n=%d", 1);
    ck_assert_uint_eq(l.n, 1);
    ck_assert_str_eq(l.event, "x");
    log_info("x", "n=%d", 2);                      /* the guard is lifted again */
    ck_assert_uint_eq(l.n, 2);
}
END_TEST

START_TEST(limited_by_name_and_second) {
    struct lines l = {0};
    log_use(keep, &l, LOG_DEBUG);
    for (int i = 0; i < 100; i++) {
        log_info("no.clock", "i=%d", i);
    }
    ck_assert_uint_eq(l.n, 100);
    log_clock(now);
    time_is = 5000;
    l.n = 0;
    for (int i = 0; i < 100; i++) {
        log_info("flood", "i=%d", i);
    }
    ck_assert_uint_eq(l.n, LOG_BURST);
    log_info("other", "calm=1");
    ck_assert_uint_eq(l.n, LOG_BURST + 1);
    ck_assert_str_eq(l.text, "calm=1");
    time_is = 5999;
    log_info("flood", "still=1");
    ck_assert_uint_eq(l.n, LOG_BURST + 1);
    time_is = 6000;
    log_info("flood", "again=1");
    ck_assert_str_eq(l.text, "again=1 left_out=91");
    log_info("flood", "again=2");
    ck_assert_str_eq(l.text, "again=2");
    log_limit_per_second(2);
    log_info("flood", "again=3");
    ck_assert_str_eq(l.text, "again=2");
    time_is = 7000;
    log_info("flood", "%s", "");
    ck_assert_str_eq(l.text, "left_out=1");
    log_limit_per_second(0);
    l.n = 0;
    for (int i = 0; i < 100; i++) {
        log_info("flood", "i=%d", i);
    }
    ck_assert_uint_eq(l.n, 100);
}
END_TEST

/* More names than a thread remembers: each still gets its lines. */
START_TEST(many_names_push_each_other_out) {
    struct lines l = {0};
    log_use(keep, &l, LOG_DEBUG);
    log_clock(now);
    for (int i = 0; i < 1000; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "e.%d", i);
        time_is = i * 10;
        log_info(name, "i=%d", i);
    }
    ck_assert_uint_eq(l.n, 1000);
}
END_TEST

int main(void) {
    return RUN("log", silent_until_a_sink_is_set, a_thread_may_have_its_own, a_line_stays_a_line, a_sink_that_logs_does_not_recurse,
               limited_by_name_and_second, many_names_push_each_other_out);
}
