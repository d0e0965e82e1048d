/* The process's log sink. Happy path: one formatted line, one write(2). Failure modes: standard error is gone: the line is lost, nothing else happens.
 * Runs on: any thread. */
#include "logout.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOGOUT_LINE_MAX 2048

static bool logout_json;

static const char *const logout_levels[] = {"DEBUG", "INFO", "WARN", "ERROR"};

static size_t logout_time(char *buf, size_t cap) {
    struct timespec now;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &tm);
    size_t n = strftime(buf, cap, "%Y-%m-%dT%H:%M:%S", &tm);
    int more = snprintf(buf + n, cap - n, ".%03ldZ", now.tv_nsec / 1000000);
    return n + (size_t)more;
}

/* JSON string content of s into out; control characters become spaces. */
static size_t logout_quote(char *out, size_t cap, const char *s) {
    size_t n = 0;
    for (; *s != '\0' && n + 2 < cap; s++) {
        if (*s == '"' || *s == '\\') {
            out[n++] = '\\';
        }
        out[n++] = (unsigned char)*s < ' ' ? ' ' : *s;
    }
    out[n] = '\0';
    return n;
}

static void logout_line(void *u, enum log_level level, const char *event, const char *text) {
    (void)u;
    char line[LOGOUT_LINE_MAX], when[40], quoted[LOGOUT_LINE_MAX / 2];
    logout_time(when, sizeof(when));
    int n;
    if (logout_json) {
        logout_quote(quoted, sizeof(quoted), text);
        n = snprintf(line, sizeof(line) - 1, "{\"time\":\"%s\",\"level\":\"%s\",\"event\":\"%s\",\"text\":\"%s\"}", when, logout_levels[level], event, quoted);
    } else {
        n = snprintf(line, sizeof(line) - 1, "%s %-5s %s %s", when, logout_levels[level], event, text);
    }
    size_t len = n < 0 ? 0 : (size_t)n < sizeof(line) - 1 ? (size_t)n : sizeof(line) - 2;
    line[len++] = '\n';
    ssize_t did = write(STDERR_FILENO, line, len);
    (void)did;                                     /* nobody left to tell */
}

static ms logout_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (ms)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void logout_open(enum log_level least, bool json) {
    logout_json = json;
    log_clock(logout_now);                         /* without it there would be no rate limit */
    log_default(logout_line, NULL, least);
}
