/* SIGTERM, SIGINT and SIGHUP of the process, handed to one loop.
 *
 * Happy path: the handler notes the signal and wakes the loop; on_signal runs there, from the poll.
 * A second TERM or INT ends the process at once with exit code 1, in the handler itself: it must work when the loop
 * is the one that hangs (BR-063). The handler uses only what is allowed there: atomics, uv_async_send, _exit.
 * Failure modes: none; a second port asking for signals is a broken invariant.
 * Runs on: the handler on any thread, the rest on the loop's. */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/must.h"
#include "port_uv/port_uv.h"
#include "port_uv_loop.h"

static const int wanted[] = {SIGTERM, SIGINT, SIGHUP};

/* A signal handler has nowhere else to look. */
static struct {
    _Atomic(struct port_uv *) port;
    atomic_uint pending[3];            /* by index of `wanted` */
    atomic_uint stops;                 /* TERM and INT so far */
    void (*on_signal)(void *u, int signo);
    void *u;
} here;

static void handle(int signo) {
    int saved = errno;
    if (signo != SIGHUP && atomic_fetch_add(&here.stops, 1) > 0) {
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
    atomic_store(&here.stops, 0);
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
