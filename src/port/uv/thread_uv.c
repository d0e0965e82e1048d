/* A helper's thread: a small stack, signals blocked, a name for top and gdb.
 * Failure modes: the machine has no thread left: false, and nothing happened.
 * Runs on: the shard that starts it. */
#include "thread_uv.h"

#include <signal.h>
#include <stdio.h>

#include "base/must.h"

bool thread_uv_start(pthread_t *ret_thread, const char *name, size_t stack_bytes, void *(*body)(void *u), void *u) {
    sigset_t all, former;
    pthread_attr_t attr;
    must(sigfillset(&all) == 0);
    must(pthread_attr_init(&attr) == 0);
    must(pthread_attr_setstacksize(&attr, stack_bytes) == 0);
    must(pthread_sigmask(SIG_SETMASK, &all, &former) == 0);
    bool started = pthread_create(ret_thread, &attr, body, u) == 0;
    must(pthread_sigmask(SIG_SETMASK, &former, NULL) == 0);
    must(pthread_attr_destroy(&attr) == 0);
    if (started) {
        (void)pthread_setname_np(*ret_thread, name);       /* only for people */
    }
    return started;
}
