/* The wall clock, set wrong: CLOCK_REALTIME, gettimeofday and time are shifted by the milliseconds
 * that stand in the file FAULT_CLOCK (a signed 64-bit number in the machine's order, mapped, so that
 * a test changes it under a running process). The monotonic clock is not touched: no operating
 * system sets it back.
 *
 * Failure modes: no FAULT_CLOCK: the true time. One that cannot be mapped ends the process with 99.
 * Runs on: whatever thread calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *shift_ms; /* NULL: none */

__attribute__((constructor)) static void init(void) {
    const char *path = getenv("FAULT_CLOCK");
    if (!path) {
        return;
    }
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *shift_ms, PROT_READ, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) {
        _exit(99);
    }
    (void)syscall(SYS_close, fd);
    shift_ms = p;
}

static int truth(clockid_t clock, struct timespec *ret) {
    static int (*found)(clockid_t c, struct timespec *t);
    if (!found) {
        found = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    }
    return found ? found(clock, ret) : (int)syscall(SYS_clock_gettime, clock, ret);
}

int clock_gettime(clockid_t clock, struct timespec *ret) {
    int r = truth(clock, ret);
    if (r == 0 && shift_ms && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t ns = ret->tv_nsec + *shift_ms % 1000 * 1000000, more = ns < 0 ? -1 : ns / 1000000000;
        ret->tv_sec += *shift_ms / 1000 + more;
        ret->tv_nsec = ns - more * 1000000000;
    }
    return r;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone) {
    struct timespec t;
    (void)zone;
    int r = clock_gettime(CLOCK_REALTIME, &t);
    ret->tv_sec = t.tv_sec;
    ret->tv_usec = t.tv_nsec / 1000;
    return r;
}

time_t time(time_t *ret) {
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    if (ret) {
        *ret = t.tv_sec;
    }
    return t.tv_sec;
}
