/* Each disk_op as plain system calls, relative to the data directory: openat, pwritev, preadv, fdatasync, syncfs,
 * renameat, … through libc's functions only, so that an LD_PRELOAD shim sees (and may fail, shorten or delay) every
 * one of them.
 *
 * Happy path: one or two calls a request. Writes and reads go on after a short one until everything is done, the
 * file ends or an error comes; EINTR is repeated, also of fdatasync: it says that the wait was cut, not that a page
 * was lost.
 * Failure modes: the errno stays in rq->sys_errno and is folded into the few errs that callers act upon; `did` of a
 * failed write counts what the kernel took before. A failed sync is reported once and never repeated here
 * (RELIABILITY 6, rule 4).
 * Paths are ours, not a client's, yet one that leaves the data directory is refused (T64's last line of defence).
 * Runs on: the disk threads of port_uv, and whoever calls disk_call. */
#include "disk_ops.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/mark.h"
#include "base/mem.h"
#include "disk_fault.h"
#include "disk_tree.h"

#define FILE_MODE 0644
#define DIR_MODE 0755

static_assert(sizeof(off_t) == 8, "files above 2 GiB");

err disk_ops_err(int sys_errno) {
    switch (sys_errno) {
    case 0:
        return ERR_OK;
    case ENOSPC:
    case EDQUOT:
        return ERR_NOSPACE;
    case EMFILE:
    case ENFILE:
        return ERR_LIMIT;
    case ENOMEM:
        return ERR_NOMEM;
    case ENOENT:
        return ERR_NOT_FOUND;
    case EEXIST:
        return ERR_EXISTS;
    case EWOULDBLOCK:                  /* only DISK_LOCK may meet it */
        return ERR_LOCKED;
    default:
        return ERR_IO;
    }
}

/* 0 or EINVAL: relative, and no ".." between slashes. */
static int check_path(const char *path) {
    if (!path || path[0] == '/') {
        return EINVAL;
    }
    for (const char *p = path; p; p = strchr(p, '/')) {
        p += *p == '/';
        if (p[0] == '.' && p[1] == '.' && (p[2] == '/' || p[2] == 0)) {
            return EINVAL;
        }
    }
    return 0;
}

static const char *or_root(const char *path) {
    return path[0] ? path : ".";
}

/* Like openat, but never interrupted, and -errno on failure. */
static int open_at(int root, const char *path, int flags) {
    int fd;
    do {
        fd = openat(root, or_root(path), flags | O_CLOEXEC, FILE_MODE);
    } while (fd < 0 && errno == EINTR);
    return fd < 0 ? -errno : fd;
}

static int open_flags(uint32_t flags) {
    int fl = flags & DISK_RDWR ? O_RDWR : O_RDONLY;
    fl |= flags & DISK_CREATE ? O_CREAT : 0;
    fl |= flags & DISK_EXCL ? O_EXCL : 0;
    fl |= flags & DISK_TRUNC ? O_TRUNC : 0;
    return fl;
}

static int op_open(int root, struct disk_req *rq) {
    struct disk_file *f = mem_alloc(MEM_DISK, sizeof *f);
    if (!f) {
        return ENOMEM;
    }
    struct stat st;
    f->fd = open_at(root, rq->path, open_flags(rq->flags));
    int e = f->fd < 0 ? -f->fd : fstat(f->fd, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? EISDIR : 0;
    if (e != 0) {
        if (f->fd >= 0) {
            (void)close(f->fd);        /* nothing was written through it */
        }
        mem_free(f);
        return e;
    }
    rq->file = f;
    rq->size = st.st_size;
    return 0;
}

static int op_close(int root, struct disk_req *rq) {
    (void)root;
    int e = close(rq->file->fd) == 0 || errno == EINTR ? 0 : errno;    /* Linux: closed in either case */
    mem_free(rq->file);
    rq->file = NULL;
    return e;
}

/* The rest of one piece that a short write cut, or whole pieces: what comes next after `skip` bytes of iov[0]. */
static ssize_t write_next(int fd, const struct iovec *iov, size_t n, size_t skip, off_t at) {
    if (skip == 0) {
        return pwritev(fd, iov, n > IOV_MAX ? IOV_MAX : (int)n, at);
    }
    struct iovec rest = {.iov_base = (char *)iov->iov_base + skip, .iov_len = iov->iov_len - skip};
    return pwritev(fd, &rest, 1, at);
}

/* Half of the first piece, then death: what a power cut or kill in the middle of a write leaves behind. */
static void tear(int fd, const struct iovec *iov, size_t skip, off_t at) {
    struct iovec half = {.iov_base = (char *)iov->iov_base + skip, .iov_len = (iov->iov_len - skip) / 2};
    (void)!pwritev(fd, &half, 1, at);
    disk_fault_die();
}

static int op_write(int root, struct disk_req *rq) {
    (void)root;
    size_t i = 0, skip = 0;
    rq->did = 0;
    for (;;) {
        for (; i < rq->iov_n && skip == rq->iov[i].iov_len; i++) {
            skip = 0;
        }
        if (i == rq->iov_n) {
            return 0;
        }
        off_t at = rq->at + (off_t)rq->did;
        disk_fault(DISK_WRITE);
        if (disk_fault_armed && disk_fault_is_due(DISK_FAULT_TEAR)) {
            tear(rq->file->fd, &rq->iov[i], skip, at);
        }
        ssize_t n = write_next(rq->file->fd, &rq->iov[i], rq->iov_n - i, skip, at);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n < 0 ? errno : EIO;            /* 0 for bytes that exist: no progress will come */
        }
        rq->did += (size_t)n;
        for (skip += (size_t)n; i < rq->iov_n && skip > rq->iov[i].iov_len; i++) {
            skip -= rq->iov[i].iov_len;
        }
    }
}

/* Its writes are crash points, too. */
static int op_put(int root, struct disk_req *rq) {
    disk_fault(DISK_PUT);
    struct disk_file f = {.fd = open_at(root, rq->path, open_flags(rq->flags))};
    if (f.fd < 0) {
        return -f.fd;
    }
    struct disk_req wr = {.file = &f, .iov = rq->iov, .iov_n = rq->iov_n};
    int e = op_write(root, &wr);
    rq->did = wr.did;
    int closed = close(f.fd) == 0 || errno == EINTR ? 0 : errno;
    return e != 0 ? e : closed;
}

static int op_read(int root, struct disk_req *rq) {
    (void)root;
    rq->did = 0;
    while (rq->did < rq->len) {
        struct iovec iov = {.iov_base = (char *)rq->buf + rq->did, .iov_len = rq->len - rq->did};
        disk_fault(DISK_READ);
        ssize_t n = preadv(rq->file->fd, &iov, 1, rq->at + (off_t)rq->did);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno;
        }
        if (n == 0) {
            break;
        }
        rq->did += (size_t)n;
    }
    return 0;
}

static int sync_fd(int (*how)(int), int fd) {
    disk_fault(DISK_SYNC);
    while (how(fd) != 0) {
        if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

static int sync_dir(int root, const char *path) {
    int e = check_path(path);
    int fd = e != 0 ? -e : open_at(root, path, O_RDONLY | O_DIRECTORY);
    if (fd < 0) {
        return -fd;
    }
    e = sync_fd(fsync, fd);
    (void)close(fd);                   /* opened for reading: nothing of ours can be lost by it */
    return e;
}

static int op_syncfs(int root, struct disk_req *rq);

/* A directory that cannot be opened for want of descriptors was not synced, nor did its sync fail: the whole file system is synced instead,
 * which needs none (T57). */
static int op_sync(int root, struct disk_req *rq) {
    int e = 0;
    for (size_t i = 0; e == 0 && i < rq->files_n; i++) {
        e = sync_fd(fdatasync, rq->files[i]->fd);
    }
    for (size_t i = 0; e == 0 && i < rq->dirs_n; i++) {
        e = sync_dir(root, rq->dirs[i]);
    }
    if (e == EMFILE || e == ENFILE) {
        mark("disk.sync_without_descriptors");
        return op_syncfs(root, rq);
    }
    return e;
}

static int op_syncfs(int root, struct disk_req *rq) {
    (void)rq;
    while (syncfs(root) != 0) {
        if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

static int op_truncate(int root, struct disk_req *rq) {
    (void)root;
    while (ftruncate(rq->file->fd, rq->at) != 0) {
        if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

static int op_rename(int root, struct disk_req *rq) {
    int e = check_path(rq->path2);
    return e != 0 ? e : renameat(root, rq->path, root, rq->path2) == 0 ? 0 : errno;
}

static int op_unlink(int root, struct disk_req *rq) {
    return unlinkat(root, rq->path, 0) == 0 ? 0 : errno;
}

static int op_mkdir(int root, struct disk_req *rq) {
    if (mkdirat(root, rq->path, DIR_MODE) == 0) {
        return 0;
    }
    int e = errno;
    struct stat st;
    bool there = e == EEXIST && fstatat(root, rq->path, &st, 0) == 0 && S_ISDIR(st.st_mode);
    return there ? 0 : e;
}

static int op_rmtree(int root, struct disk_req *rq) {
    return disk_tree_remove(root, rq->path);
}

static int op_list(int root, struct disk_req *rq) {
    return disk_tree_list(root, or_root(rq->path), &rq->entries, &rq->entries_n);
}

static int op_stat(int root, struct disk_req *rq) {
    struct stat st;
    if (fstatat(root, or_root(rq->path), &st, 0) != 0) {
        return errno;
    }
    rq->size = st.st_size;
    rq->is_dir = S_ISDIR(st.st_mode);
    return 0;
}

static int op_space(int root, struct disk_req *rq) {
    struct statvfs vfs;
    while (fstatvfs(root, &vfs) != 0) {
        if (errno != EINTR) {
            return errno;
        }
    }
    rq->size = (int64_t)(vfs.f_bavail * vfs.f_frsize);
    rq->total = (int64_t)(vfs.f_blocks * vfs.f_frsize);
    return 0;
}

static int op_forget(int root, struct disk_req *rq) {
    (void)root;
    return posix_fadvise(rq->file->fd, rq->at, (off_t)rq->len, POSIX_FADV_DONTNEED);
}

static int op_ahead(int root, struct disk_req *rq) {
    (void)root;
    return posix_fadvise(rq->file->fd, rq->at, (off_t)rq->len, POSIX_FADV_WILLNEED);
}

static int op_room(int root, struct disk_req *rq) {
    (void)root;
    while (fallocate(rq->file->fd, FALLOC_FL_KEEP_SIZE, rq->at, (off_t)rq->len) != 0) {
        if (errno != EINTR) {
            return errno == EOPNOTSUPP || errno == ENOSYS ? 0 : errno;
        }
    }
    return 0;
}

/* The lock that Kafka's FileChannel.tryLock takes: a POSIX write lock on the whole file. The kernel drops it as
 * soon as any descriptor of this file is closed in this process, so this one stays open for ever. */
static int op_lock(int root, struct disk_req *rq) {
    int fd = open_at(root, rq->path, O_RDWR | O_CREAT);
    if (fd < 0) {
        return -fd;
    }
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_SETLK, &all) == 0) {
        return 0;
    }
    int e = errno;
    (void)close(fd);                   /* we hold no lock on it that this could drop */
    return e == EACCES ? EWOULDBLOCK : e;
}

static const struct {
    int (*run)(int root, struct disk_req *rq);     /* 0 or an errno */
    bool has_path, counts_itself;                  /* crash points: passed here, or at each system call inside */
} ops[] = {
    [DISK_OPEN] = {op_open, true, false},         [DISK_CLOSE] = {op_close, false, false},
    [DISK_WRITE] = {op_write, false, true},       [DISK_READ] = {op_read, false, true},
    [DISK_SYNC] = {op_sync, false, true},         [DISK_SYNCFS] = {op_syncfs, false, false},
    [DISK_TRUNCATE] = {op_truncate, false, false}, [DISK_RENAME] = {op_rename, true, false},
    [DISK_UNLINK] = {op_unlink, true, false},     [DISK_MKDIR] = {op_mkdir, true, false},
    [DISK_RMTREE] = {op_rmtree, true, true},      [DISK_LIST] = {op_list, true, false},
    [DISK_STAT] = {op_stat, true, false},         [DISK_SPACE] = {op_space, false, false},
    [DISK_FORGET] = {op_forget, false, false},    [DISK_LOCK] = {op_lock, true, false},
    [DISK_PUT] = {op_put, true, true},            [DISK_AHEAD] = {op_ahead, false, false},
    [DISK_ROOM] = {op_room, false, false},
};

static int64_t now_us(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);      /* cannot fail with this clock */
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

err disk_ops_run(int root, struct disk_req *rq) {
    int64_t began = now_us();
    int e = ops[rq->op].has_path ? check_path(rq->path) : 0;
    if (e == 0) {
        if (!ops[rq->op].counts_itself) {
            disk_fault((int)rq->op);
        }
        e = ops[rq->op].run(root, rq);
    }
    rq->sys_errno = e;
    rq->err = disk_ops_err(e);
    rq->took_us = now_us() - began;
    return rq->err;
}
