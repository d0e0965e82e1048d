/* An LD_PRELOAD shim over the file and socket calls of port_uv: counts them, fails the k-th, shortens transfers.
 *
 * Happy path: every call is counted and goes on to libc. That a call is counted is itself a thing to test: what the
 * shim cannot see, no fault suite can break (RELIABILITY 6).
 * Failure modes: a name that is not in the table aborts the test program.
 * Runs on: any thread. */
#include "shim.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum call { OPENAT, PWRITEV, PREADV, FDATASYNC, FSYNC, SYNCFS, RENAMEAT, UNLINKAT, FTRUNCATE, MKDIRAT, ACCEPT4, CALLS };

static const char *const names[CALLS] = {"openat",   "pwritev",  "preadv",    "fdatasync", "fsync",  "syncfs",
                                         "renameat", "unlinkat", "ftruncate", "mkdirat",   "accept4"};

static struct {
    atomic_uint seen, fail_at;         /* fail_at: the number (from 1) of the call that fails; 0: none */
    atomic_int fail_with;
    atomic_size_t at_most;
    _Atomic(void *) real;
} plans[CALLS];

/* The test looks these up by name; nobody includes a declaration. */
extern const struct shim shim_face;

static enum call call_of(const char *name) {
    for (int i = 0; i < CALLS; i++) {
        if (strcmp(names[i], name) == 0) {
            return (enum call)i;
        }
    }
    abort();
}

static void reset(void) {
    for (int i = 0; i < CALLS; i++) {
        plans[i].seen = plans[i].fail_at = 0;
        plans[i].at_most = SIZE_MAX;
    }
}

static void refuse(const char *call, unsigned k, int e) {
    enum call c = call_of(call);
    plans[c].fail_with = e;
    plans[c].fail_at = plans[c].seen + k;
}

static void shorten(const char *call, size_t bytes) {
    plans[call_of(call)].at_most = bytes;
}

static unsigned count(const char *call) {
    return plans[call_of(call)].seen;
}

const struct shim shim_face = {.reset = reset, .refuse = refuse, .shorten = shorten, .count = count};

__attribute__((constructor)) static void from_environment(void) {
    reset();
    char call[16];
    unsigned k;
    int e;
    const char *spec = getenv("SHIM_FAIL");
    if (spec && sscanf(spec, "%15[a-z0-9]:%u:%d", call, &k, &e) == 3) {
        refuse(call, k, e);
    }
}

/* True: this call is to fail, and errno is set. */
static bool fails(enum call c) {
    unsigned n = atomic_fetch_add(&plans[c].seen, 1) + 1;
    if (n != plans[c].fail_at) {
        return false;
    }
    errno = plans[c].fail_with;
    return true;
}

static void *real(enum call c) {
    void *f = plans[c].real;
    if (!f) {
        f = dlsym(RTLD_NEXT, names[c]);
        plans[c].real = f;
    }
    return f;
}

/* iov cut to at most n bytes, in place; returns its new length. */
static int cut(struct iovec *iov, int iov_n, size_t n) {
    for (int i = 0; i < iov_n; i++) {
        if (iov[i].iov_len >= n) {
            iov[i].iov_len = n;
            return i + 1;
        }
        n -= iov[i].iov_len;
    }
    return iov_n;
}

static ssize_t transfer(enum call c, int fd, const struct iovec *iov, int iov_n, off_t at) {
    ssize_t (*f)(int, const struct iovec *, int, off_t);
    *(void **)&f = real(c);
    if (fails(c)) {
        return -1;
    }
    size_t most = plans[c].at_most;
    if (most == SIZE_MAX) {
        return f(fd, iov, iov_n, at);
    }
    if (most == 0) {
        return 0;
    }
    struct iovec less[1024];
    memcpy(less, iov, (size_t)iov_n * sizeof *iov);
    return f(fd, less, cut(less, iov_n, most), at);
}

ssize_t pwritev(int fd, const struct iovec *iov, int iov_n, off_t at) {
    return transfer(PWRITEV, fd, iov, iov_n, at);
}

ssize_t preadv(int fd, const struct iovec *iov, int iov_n, off_t at) {
    return transfer(PREADV, fd, iov, iov_n, at);
}

static int of_fd(enum call c, int fd) {
    int (*f)(int);
    *(void **)&f = real(c);
    return fails(c) ? -1 : f(fd);
}

int fdatasync(int fd) {
    return of_fd(FDATASYNC, fd);
}

int fsync(int fd) {
    return of_fd(FSYNC, fd);
}

int syncfs(int fd) {
    return of_fd(SYNCFS, fd);
}

int openat(int dir, const char *path, int flags, ...) {
    int (*f)(int, const char *, int, ...);
    *(void **)&f = real(OPENAT);
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    return fails(OPENAT) ? -1 : f(dir, path, flags, mode);
}

int renameat(int dir, const char *path, int dir2, const char *path2) {
    int (*f)(int, const char *, int, const char *);
    *(void **)&f = real(RENAMEAT);
    return fails(RENAMEAT) ? -1 : f(dir, path, dir2, path2);
}

int unlinkat(int dir, const char *path, int flags) {
    int (*f)(int, const char *, int);
    *(void **)&f = real(UNLINKAT);
    return fails(UNLINKAT) ? -1 : f(dir, path, flags);
}

int ftruncate(int fd, off_t at) {
    int (*f)(int, off_t);
    *(void **)&f = real(FTRUNCATE);
    return fails(FTRUNCATE) ? -1 : f(fd, at);
}

int mkdirat(int dir, const char *path, mode_t mode) {
    int (*f)(int, const char *, mode_t);
    *(void **)&f = real(MKDIRAT);
    return fails(MKDIRAT) ? -1 : f(dir, path, mode);
}

int accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags) {
    int (*f)(int, struct sockaddr *, socklen_t *, int);
    *(void **)&f = real(ACCEPT4);
    return fails(ACCEPT4) ? -1 : f(fd, sa, len, flags);
}
