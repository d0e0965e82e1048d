/* Trouble between a process and its disk, and a ledger of what it did there: an LD_PRELOAD library.
 *
 * Happy path: every call on a file below FAULT_ROOT is judged by the rules in the file
 * FAULT_CONTROL (read again whenever it changes; rules.h has the notation), done, and written to
 * the ledger FAULT_LOG (ledger.h): names made, renamed and removed, bytes written with their
 * contents, sizes cut, syncs begun and ended. From it ledger.py plays a power cut: what no sync
 * covered is lost, torn or kept, as a seed says.
 * Failure modes: a ledger that cannot be written ends the process with 99, for a test that believes
 * in it must not pass.
 * One mutex orders calls and ledger alike; only syncs, reads and delays run outside of it, so that
 * lanes still do not wait for each other. A call cut off by SIGKILL between the kernel and the
 * ledger is not in it: ledger.py compares with the real files after each kill.
 * Runs on: whatever thread calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "ledger.h"
#include "rules.h"

enum { PATH_CAP = 4096, IOV_CAP = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_CAP];
static size_t root_n;

/* The next definition of a function: libc's, or a sanitizer's. Looked up once. */
#define REAL(name)                                              \
    (*({                                                        \
        static __typeof__(&name) found;                         \
        found = found ? found : (__typeof__(&name))real(#name); \
        found;                                                  \
    }))

static void *real(const char *name) {
    void *f = dlsym(RTLD_NEXT, name);
    if (!f) {
        _exit(99);
    }
    return f;
}

/* The library's constructor: before any thread. */
__attribute__((constructor)) static void init(void) {
    const char *dir = getenv("FAULT_ROOT");
    if (dir) {
        (void)snprintf(root, sizeof root, "%s", dir);
        root_n = strlen(root);
        ledger_open(getenv("FAULT_LOG"), getenv("FAULT_DATA") != NULL);
        rules_open(getenv("FAULT_CONTROL"));
    }
}

static void enter(void) {
    (void)pthread_mutex_lock(&lock);
}

static void leave(void) {
    (void)pthread_mutex_unlock(&lock);
}

/* ---- whose file is it ---- */

struct place {
    char full[PATH_CAP * 2];
    const char *path; /* below the root; "" is the root itself */
    uint64_t ino;     /* 0: does not exist */
    bool dir;
    int64_t size;
};

static bool below(struct place *pl) {
    size_t n = strlen(pl->full);
    while (n > 1 &&
           (pl->full[n - 1] == '/' || (pl->full[n - 1] == '.' && pl->full[n - 2] == '/'))) {
        pl->full[--n] = 0;
    }
    if (root_n == 0 || strncmp(pl->full, root, root_n) != 0 ||
        (pl->full[root_n] != 0 && pl->full[root_n] != '/')) {
        return false;
    }
    pl->path = pl->full + root_n + (pl->full[root_n] == '/');
    return true;
}

static bool link_of(int fd, char *ret, size_t cap) {
    char name[64];
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(name, ret, cap - 1);
    if (n < 0) {
        return false;
    }
    ret[n] = 0;
    return true;
}

static void take_stat(struct place *pl, const struct stat *st) {
    pl->ino = st->st_ino;
    pl->dir = S_ISDIR(st->st_mode);
    pl->size = st->st_size;
}

/* Is fd a file or directory below the root? errno is kept. */
static bool place_fd(struct place *pl, int fd) {
    int e = errno;
    struct stat st;
    bool ours = root_n > 0 && link_of(fd, pl->full, sizeof pl->full) && below(pl) &&
                fstat(fd, &st) == 0;
    if (ours) {
        take_stat(pl, &st);
    }
    errno = e;
    return ours;
}

/* The same, with the lock taken when it is ours. Others' descriptors are never kept waiting: a
 * signal handler may write to one. */
static bool enter_fd(struct place *pl, int fd) {
    if (!place_fd(pl, fd)) {
        return false;
    }
    enter();
    return place_fd(pl, fd) || (leave(), false);
}

static bool place_at(struct place *pl, int at, const char *path) {
    int e = errno;
    char base[PATH_CAP] = "";
    struct stat st;
    bool known = root_n > 0 &&
                 (path[0] == '/' || (at == AT_FDCWD ? getcwd(base, sizeof base) != NULL
                                                    : link_of(at, base, sizeof base)));
    if (known) {
        (void)snprintf(pl->full, sizeof pl->full, path[0] == '/' ? "%s%s" : "%s/%s", base, path);
    }
    bool ours = known && below(pl);
    pl->ino = 0;
    if (ours && lstat(pl->full, &st) == 0) {
        take_stat(pl, &st);
    }
    errno = e;
    return ours;
}

/* The inode of the directory that holds it, and its name there. */
static uint64_t parent(const struct place *pl, const char **ret_name) {
    char dir[PATH_CAP * 2];
    struct stat st;
    const char *slash = strrchr(pl->full, '/');
    *ret_name = slash + 1;
    (void)snprintf(dir, sizeof dir, "%.*s", (int)(slash - pl->full), pl->full);
    return stat(dir, &st) == 0 ? st.st_ino : 0;
}

/* ---- judging ---- */

static void wait_ms(int64_t ms) {
    if (ms > 0) {
        (void)poll(NULL, 0, (int)ms);
    }
}

static struct verdict judge(enum kind kind, const struct place *pl, int64_t at, int64_t n) {
    struct verdict v = rules_judge(kind, pl->path, at, n);
    if (v.rule >= 0) {
        ledger_fault(v.rule, pl->ino, v.error, pl->path);
    }
    return v;
}

/* Inside the lock: the delay (with the lock open) and the error of a verdict. True: the call fails.
 */
static bool struck(const struct verdict *v) {
    if (v->delay_ms > 0) {
        leave();
        wait_ms(v->delay_ms);
        enter();
    }
    if (v->error != 0) {
        errno = v->error;
    }
    return v->error != 0;
}

/* ---- bytes ---- */

static int64_t total(const struct iovec *iov, int n) {
    int64_t sum = 0;
    for (int i = 0; i < n; i++) {
        sum += (int64_t)iov[i].iov_len;
    }
    return sum;
}

/* The first `bytes` of iov in ret; how many pieces. */
static int head_of(const struct iovec *iov, int n, int64_t bytes, struct iovec *ret) {
    int k = 0;
    for (; k < n && bytes > 0; k++) {
        ret[k] = iov[k];
        if ((int64_t)ret[k].iov_len > bytes) {
            ret[k].iov_len = (size_t)bytes;
        }
        bytes -= (int64_t)ret[k].iov_len;
    }
    return k;
}

/* Ours only, lock held. at < 0: at the descriptor's position. */
static ssize_t write_ours(int fd, const struct place *pl, const struct iovec *iov, int n,
                          off_t at) {
    struct iovec cut[IOV_CAP];
    off_t from = at >= 0 ? at : fcntl(fd, F_GETFL) & O_APPEND ? pl->size : lseek(fd, 0, SEEK_CUR);
    struct verdict v = judge(KIND_WRITE, pl, from, total(iov, n));
    if (struck(&v)) {
        return -1;
    }
    if (v.cut >= 0 && n <= IOV_CAP) {
        n = head_of(iov, n, v.cut, cut);
        iov = cut;
    }
    ssize_t did = at >= 0 ? REAL(pwritev)(fd, iov, n, at) : REAL(writev)(fd, iov, n);
    if (did > 0) {
        ledger_write(pl->ino, from, did, iov, n);
    }
    return did;
}

static ssize_t write_any(int fd, const struct iovec *iov, int n, off_t at) {
    struct place pl;
    if (enter_fd(&pl, fd)) {
        ssize_t did = write_ours(fd, &pl, iov, n, at);
        leave();
        return did;
    }
    return at >= 0 ? REAL(pwritev)(fd, iov, n, at) : REAL(writev)(fd, iov, n);
}

ssize_t write(int fd, const void *buf, size_t n) {
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = n};
    return write_any(fd, &iov, 1, -1);
}

ssize_t writev(int fd, const struct iovec *iov, int n) {
    return write_any(fd, iov, n, -1);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t at) {
    struct iovec iov = {.iov_base = (void *)buf, .iov_len = n};
    return write_any(fd, &iov, 1, at);
}

ssize_t pwritev(int fd, const struct iovec *iov, int n, off_t at) {
    return write_any(fd, iov, n, at);
}

ssize_t pwritev2(int fd, const struct iovec *iov, int n, off_t at, int flags) {
    (void)flags; /* none that perigee would need */
    return write_any(fd, iov, n, at);
}

static ssize_t read_any(int fd, const struct iovec *iov, int n, off_t at) {
    struct place pl;
    struct verdict v = {.rule = -1};
    bool fails = false;
    if (enter_fd(&pl, fd)) {
        v = judge(KIND_READ, &pl, at, total(iov, n));
        fails = struck(&v);
        leave();
    }
    ssize_t did = fails ? -1 : REAL(preadv)(fd, iov, n, at);
    if (v.flip && did > 0) {
        ((uint8_t *)iov[0]
             .iov_base)[(iov[0].iov_len < (size_t)did ? iov[0].iov_len : (size_t)did) / 2] ^= 0x10;
    }
    return did;
}

ssize_t pread(int fd, void *buf, size_t n, off_t at) {
    struct iovec iov = {.iov_base = buf, .iov_len = n};
    return read_any(fd, &iov, 1, at);
}

ssize_t preadv(int fd, const struct iovec *iov, int n, off_t at) {
    return read_any(fd, iov, n, at);
}

/* ---- syncs ---- */

static int sync_any(enum kind kind, int fd, int (*how)(int)) {
    struct place pl;
    if (!enter_fd(&pl, fd)) {
        return how(fd);
    }
    struct verdict v = judge(kind, &pl, 0, 0);
    uint64_t id = ledger_sync_begin(kind == KIND_SYNCFS, pl.ino, fd, pl.path);
    leave();
    wait_ms(v.delay_ms);
    int r = v.error != 0 ? -1 : v.lie ? 0 : how(fd);
    int e = v.error != 0 ? v.error : errno;
    enter();
    ledger_sync_end(id, r == 0 ? 0 : e, v.lie);
    leave();
    errno = e;
    return r;
}

int fdatasync(int fd) {
    return sync_any(KIND_SYNC, fd, &REAL(fdatasync));
}

int fsync(int fd) {
    return sync_any(KIND_SYNC, fd, &REAL(fsync));
}

int syncfs(int fd) {
    return sync_any(KIND_SYNCFS, fd, &REAL(syncfs));
}

/* ---- names ---- */

static int open_ours(struct place *pl, int at, const char *path, int flags, mode_t mode) {
    bool makes = (flags & O_CREAT) != 0 && pl->ino == 0;
    const char *name;
    struct verdict v = judge(makes ? KIND_CREATE : KIND_OPEN, pl, 0, 0);
    if (struck(&v)) {
        return -1;
    }
    int fd = REAL(openat)(at, path, flags, mode);
    if (fd < 0) {
        return fd;
    }
    struct place made;
    if (makes && place_fd(&made, fd)) {
        uint64_t dir = parent(pl, &name);
        ledger_name(LEDGER_CREATE, dir, made.ino, name);
    } else if ((flags & O_TRUNC) != 0 && pl->size > 0) {
        ledger_size(pl->ino, 0);
    }
    return fd;
}

static int open_any(int at, const char *path, int flags, mode_t mode) {
    struct place pl;
    enter();
    int fd = place_at(&pl, at, path) ? open_ours(&pl, at, path, flags, mode)
                                     : REAL(openat)(at, path, flags, mode);
    leave();
    return fd;
}

static mode_t mode_of(int flags, va_list ap) {
    return (flags & (O_CREAT | O_TMPFILE)) != 0 ? (mode_t)va_arg(ap, int) : 0;
}

int openat(int at, const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, ap);
    va_end(ap);
    return open_any(at, path, flags, mode);
}

int open(const char *path, int flags, ...) {
    va_list ap;
    va_start(ap, flags);
    mode_t mode = mode_of(flags, ap);
    va_end(ap);
    return open_any(AT_FDCWD, path, flags, mode);
}

int renameat(int at1, const char *path1, int at2, const char *path2) {
    struct place from, to;
    enter();
    if (!place_at(&from, at1, path1) || !place_at(&to, at2, path2)) {
        leave();
        return REAL(renameat)(at1, path1, at2, path2);
    }
    struct verdict v = judge(KIND_RENAME, &to, 0, 0);
    int r = struck(&v) ? -1 : REAL(renameat)(at1, path1, at2, path2);
    if (r == 0) {
        const char *name1, *name2;
        uint64_t dir1 = parent(&from, &name1), dir2 = parent(&to, &name2);
        ledger_rename(&(struct ledger_move){
            .dir1 = dir1, .name1 = name1, .dir2 = dir2, .name2 = name2, .ino = from.ino});
    }
    leave();
    return r;
}

int rename(const char *path1, const char *path2) {
    return renameat(AT_FDCWD, path1, AT_FDCWD, path2);
}

int unlinkat(int at, const char *path, int flags) {
    struct place pl;
    enter();
    if (!place_at(&pl, at, path)) {
        leave();
        return REAL(unlinkat)(at, path, flags);
    }
    struct verdict v = judge(KIND_UNLINK, &pl, 0, 0);
    int r = struck(&v) ? -1 : REAL(unlinkat)(at, path, flags);
    if (r == 0) {
        const char *name;
        uint64_t dir = parent(&pl, &name);
        ledger_name(LEDGER_UNLINK, dir, pl.ino, name);
    }
    leave();
    return r;
}

int unlink(const char *path) {
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path) {
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdirat(int at, const char *path, mode_t mode) {
    struct place pl;
    enter();
    if (!place_at(&pl, at, path)) {
        leave();
        return REAL(mkdirat)(at, path, mode);
    }
    struct verdict v = judge(KIND_MKDIR, &pl, 0, 0);
    int r = struck(&v) ? -1 : REAL(mkdirat)(at, path, mode);
    if (r == 0 && place_at(&pl, at, path) && pl.path[0] != 0) {
        const char *name;
        uint64_t dir = parent(&pl, &name);
        ledger_name(LEDGER_MKDIR, dir, pl.ino, name);
    }
    leave();
    return r;
}

int mkdir(const char *path, mode_t mode) {
    return mkdirat(AT_FDCWD, path, mode);
}

/* ---- sizes and space ---- */

int ftruncate(int fd, off_t size) {
    struct place pl;
    if (!enter_fd(&pl, fd)) {
        return REAL(ftruncate)(fd, size);
    }
    struct verdict v = judge(KIND_TRUNCATE, &pl, size, 0);
    int r = struck(&v) ? -1 : REAL(ftruncate)(fd, size);
    if (r == 0) {
        ledger_size(pl.ino, size);
    }
    leave();
    return r;
}

int fallocate(int fd, int mode, off_t at, off_t n) {
    struct place pl;
    if (!enter_fd(&pl, fd)) {
        return REAL(fallocate)(fd, mode, at, n);
    }
    struct verdict v = judge(KIND_FALLOCATE, &pl, at, n);
    int r = struck(&v) ? -1 : REAL(fallocate)(fd, mode, at, n);
    if (r == 0 && mode == 0 && at + n > pl.size) {
        ledger_size(pl.ino, at + n);
    }
    leave();
    return r;
}

int fstatvfs(int fd, struct statvfs *ret) {
    struct place pl;
    struct verdict v = {.rule = -1};
    bool fails = false;
    if (enter_fd(&pl, fd)) {
        v = judge(KIND_STATVFS, &pl, 0, 0);
        fails = struck(&v);
        leave();
    }
    int r = fails ? -1 : REAL(fstatvfs)(fd, ret);
    if (r == 0 && v.free >= 0 && v.rule >= 0) {
        ret->f_bavail = ret->f_bfree = (fsblkcnt_t)v.free / ret->f_frsize;
    }
    return r;
}

/* ---- the same functions under their other names ---- */

#define ALSO(other, name) extern __typeof__(name) other __attribute__((alias(#name)));
ALSO(openat64, openat)
ALSO(open64, open)
ALSO(pwrite64, pwrite)
ALSO(pwritev64, pwritev)
ALSO(pwritev64v2, pwritev2)
ALSO(pread64, pread)
ALSO(preadv64, preadv)
ALSO(ftruncate64, ftruncate)
ALSO(fallocate64, fallocate)

int fstatvfs64(int fd, struct statvfs64 *ret) {
    return fstatvfs(fd, (struct statvfs *)ret); /* the same layout on 64-bit machines */
}

int __openat_2(int at, const char *path, int flags) {
    return open_any(at, path, flags, 0);
}

int __open_2(const char *path, int flags) {
    return open_any(AT_FDCWD, path, flags, 0);
}
