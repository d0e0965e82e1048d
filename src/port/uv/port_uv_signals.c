/* SIGTERM, SIGINT and SIGHUP of the process, handed to one loop.
 *
 * Happy path: the handler notes the signal and wakes the loop; on_signal runs there, from the poll.
 * A second TERM or INT (not one of the same burst) ends the process at once with exit code 1, in the handler itself: it must work when the loop
 * is the one that hangs (BR-063). The handler uses only what is allowed there: atomics, uv_async_send, _exit.
 * Failure modes: none; a second port asking for signals is a broken invariant.
 * Runs on: the handler on any thread, the rest on the loop's. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "base/must.h"
#include "port_uv/port_uv.h"
#include "port_uv_loop.h"

#define BURST_MS 20

static const int wanted[] = {SIGTERM, SIGINT, SIGHUP};

/* A signal handler has nowhere else to look. */
static struct {
    _Atomic(struct port_uv *) port;
    atomic_uint pending[3];            /* by index of `wanted` */
    atomic_int first;                  /* which it was */
    _Atomic int64_t first_ms;          /* when the first TERM or INT came; 0: none yet */
    void (*on_signal)(void *u, int signo);
    void *u;
} here;

/* Is this TERM or INT a wish of its own, after the first? The same signal within BURST_MS of it is the same wish told twice: timeout(1) and
 * terminals signal a process and then its group. clock_gettime is allowed in a handler. */
static bool is_second_thought(int signo) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);      /* cannot fail for this clock */
    int64_t now_ms = (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000, none = 0;
    if (atomic_compare_exchange_strong(&here.first_ms, &none, now_ms)) {
        atomic_store(&here.first, signo);
        return false;
    }
    return signo != atomic_load(&here.first) || now_ms - none >= BURST_MS;
}

static void handle(int signo) {
    int saved = errno;
    if (signo != SIGHUP && is_second_thought(signo)) {
        _exit(1);
    }
    for (size_t i = 0; i < 3; i++) {
        if (wanted[i] == signo) {
            atomic_fetch_add(&here.pending[i], 1);
        }
    }
    struct port_uv *p = atomic_load(&here.port);
    if (p) {
        (void)uv_async_send(&p->async);            /* nobody to tell in a handler */
    }
    errno = saved;
}

static void set_action(void (*action)(int)) {
    struct sigaction sa = {.sa_handler = action, .sa_flags = SA_RESTART};
    must(sigemptyset(&sa.sa_mask) == 0);
    for (size_t i = 0; i < 3; i++) {
        must(sigaction(wanted[i], &sa, NULL) == 0);
    }
}

void port_uv_signals(struct port_uv *p, void (*on_signal)(void *u, int signo), void *u) {
    must(!atomic_load(&here.port));
    here.on_signal = on_signal;
    here.u = u;
    atomic_store(&here.first_ms, 0);
    atomic_store(&here.port, p);
    set_action(handle);
}

void port_uv_signals_take(struct port_uv *p) {
    if (atomic_load(&here.port) != p) {
        return;
    }
    for (size_t i = 0; i < 3; i++) {
        if (atomic_exchange(&here.pending[i], 0) > 0) {
            here.on_signal(here.u, wanted[i]);
        }
    }
}

void port_uv_signals_forget(struct port_uv *p) {
    if (atomic_load(&here.port) == p) {
        set_action(SIG_DFL);
        atomic_store(&here.port, NULL);
    }
}
