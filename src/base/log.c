/* One line per event, to the sink of the calling thread, or the process's default, or nowhere.
 *
 * Happy path: the level is compared, the event's allowance of this second is charged, the text is formatted on the stack and
 * handed to the sink. The room has no clock: log_clock lends it one; without it, or with a limit of 0, nothing is left out.
 * Failure modes: a text longer than LOG_TEXT_CAP is cut and ends in "..."; control characters become '?', so that a line stays a line; a line
 * written from inside a sink is dropped, so that logging never recurses. Nothing is allocated.
 * Runs on: any thread; rate limits and the recursion guard are per thread. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LOG_TEXT_CAP 2048
#define LOG_EVENTS 64            /* event names remembered per thread */
#define LOG_PROBES 4

struct sink {
    log_sink *write;
    void *u;
    enum log_level least;
};

struct allowance {
    uint64_t event;              /* hash of the name; 0: free */
    ms second;
    uint32_t written, left_out;
};

static struct sink fallback;
static _Atomic int fallback_least;
static ms (*_Atomic clock_of)(void);
static _Atomic uint32_t limit = LOG_BURST;

static _Thread_local struct sink own;
static _Thread_local bool own_set, inside;
static _Thread_local struct allowance allowances[LOG_EVENTS];

void log_use(log_sink *sink, void *u, enum log_level least) {
    own = (struct sink){sink, u, least};
    own_set = true;
}

void log_default(log_sink *sink, void *u, enum log_level least) {
    fallback = (struct sink){sink, u, least};
    log_level_set(least);
}

void log_level_set(enum log_level least) {
    atomic_store(&fallback_least, (int)least);
}

enum log_level log_level_least(void) {
    return (enum log_level)atomic_load_explicit(&fallback_least, memory_order_relaxed);
}

const char *log_level_name(enum log_level level) {
    static const char *const names[] = {"DEBUG", "INFO", "WARN", "ERROR"};
    return names[level];
}

void log_clock(ms (*now)(void)) {
    atomic_store(&clock_of, now);
}

void log_limit_per_second(uint32_t lines) {
    atomic_store(&limit, lines);
}

static uint64_t hash(const char *name) {
    uint64_t h = 0xcbf29ce484222325u;
    for (; *name; name++) {
        h = (h ^ (uint8_t)*name) * 0x100000001b3u;
    }
    return h | 1;
}

/* The event's entry; a stranger whose second is oldest makes way for a new event. */
static struct allowance *allowance_of(const char *event) {
    uint64_t h = hash(event);
    struct allowance *oldest = NULL;
    for (size_t i = 0; i < LOG_PROBES; i++) {
        struct allowance *a = &allowances[(h / 2 + i) % LOG_EVENTS];
        if (a->event == h) {
            return a;
        }
        if (!oldest || a->event == 0 || (oldest->event != 0 && a->second < oldest->second)) {
            oldest = a;
        }
    }
    *oldest = (struct allowance){.event = h};
    return oldest;
}

/* Whether one more line of this event may be written now; *ret_left_out counts those that were not since the last one that was. */
static bool allowed(const char *event, uint32_t *ret_left_out) {
    ms (*now)(void) = atomic_load(&clock_of);
    uint32_t most = atomic_load_explicit(&limit, memory_order_relaxed);
    *ret_left_out = 0;
    if (!now || most == 0) {
        return true;
    }
    struct allowance *a = allowance_of(event);
    ms second = now() / 1000;
    if (a->second != second) {
        a->second = second;
        a->written = 0;
    }
    if (a->written >= most) {
        a->left_out++;
        return false;
    }
    a->written++;
    *ret_left_out = a->left_out;
    a->left_out = 0;
    return true;
}

/* Mend a formatted text of `want` bytes in buf: one line, with a sign where it was cut. */
static void tidy(char *buf, size_t cap, size_t want) {
    if (want >= cap) {
        memcpy(buf + cap - 4, "...", 4);
    }
    for (char *c = buf; *c; c++) {
        if ((uint8_t)*c < 0x20 || *c == 0x7f) {
            *c = '?';
        }
    }
}

void log_line(enum log_level level, const char *event, const char *fmt, ...) {
    const struct sink *to = own_set ? &own : &fallback;
    uint32_t left_out;
    if (!to->write || level < (own_set ? own.least : log_level_least()) || inside || !allowed(event, &left_out)) {
        return;
    }
    char text[LOG_TEXT_CAP + 32];
    va_list args;
    va_start(args, fmt);
    int want = vsnprintf(text, LOG_TEXT_CAP, fmt, args);
    va_end(args);
    tidy(text, LOG_TEXT_CAP, want > 0 ? (size_t)want : 0);
    if (left_out > 0) {
        size_t n = strlen(text);
        (void)snprintf(text + n, sizeof text - n, "%sleft_out=%u", n > 0 ? " " : "", left_out);   /* 32 spare bytes hold it */
    }
    inside = true;
    to->write(to->u, level, event, text);
    inside = false;
}
