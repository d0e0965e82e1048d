/* Files, asynchronously. One struct disk per shard, rooted at the data directory; paths are relative to it ('/' separated, no "..").
 *
 * Three lanes, write, sync and read, never wait for each other; one lane executes its requests in submission order. Across lanes
 * there is no order at all: whoever needs one waits for the completion. The caller embeds a disk_req and owns it until `done` runs on the
 * shard's own thread (from the poll, before the turn). A request's pointers (path, iov, buf, files) stay valid until then.
 *
 * disk_call() executes the same request on the calling thread and returns its err: for boot, recovery and offline tools only, never
 * while the shard serves.
 *
 * Durability: WRITE has reached the page cache (survives kill -9, not power loss). SYNC covers exactly the writes completed before it was
 * submitted, per file; SYNCFS covers every file and directory of the file system. A new, renamed or removed name needs SYNC_DIR of its
 * directory. A failed sync is final: never sync the same descriptor again (DESIGN 4). Short writes are continued, EINTR retried, inside. */
#pragma once

#include <sys/uio.h>

#include "base/err.h"
#include "base/list.h"

enum disk_lane { DISK_LANE_WRITE, DISK_LANE_SYNC, DISK_LANE_READ, DISK_LANES };

enum disk_op {
    DISK_OPEN,       /* path, flags -> file, size. Any lane */
    DISK_CLOSE,      /* file (also frees the handle). Any lane */
    DISK_WRITE,      /* file, at, iov[iov_n] -> did (bytes). On error did says how much is surely written */
    DISK_PUT,        /* path, flags, iov[iov_n] -> did: a small file written whole, from its beginning: opened (flags as DISK_OPEN's), written and
                      * closed, which costs one way to the lane instead of three. On error the file may be there, with any part of it */
    DISK_READ,       /* file, at, buf, len -> did; did < len at the end of the file */
    DISK_SYNC,       /* files[files_n] fdatasync'd in order, then paths in dirs[dirs_n] fsync'd; first error ends it */
    DISK_SYNCFS,     /* the whole file system of the root */
    DISK_TRUNCATE,   /* file, at = new size */
    DISK_RENAME,     /* path -> path2 (replaces) */
    DISK_UNLINK,     /* path */
    DISK_MKDIR,      /* path; EXISTS is ok */
    DISK_RMTREE,     /* path: directory with its files, one level of nesting at least */
    DISK_LIST,       /* path -> entries (mem_alloc'd array, caller frees with disk_entries_free) */
    DISK_STAT,       /* path -> size, is_dir; NOT_FOUND */
    DISK_SPACE,      /* -> size = free bytes of the file system for us, total = its size */
    DISK_FORGET,     /* file, at, len: drop clean cached pages (POSIX_FADV_DONTNEED); len 0: to the end. What is
                      * covered only in part may stay */
    DISK_AHEAD,      /* file, at, len: begin to read this range into the page cache, without waiting for it: a hint */
    DISK_ROOM,       /* file, at, len: let the file system keep blocks for this range; the file's size stays. NOSPACE; where that is not known: a hint, OK */
    DISK_LOCK,       /* path: create and hold an exclusive lock for the life of the process; LOCKED when another holds it */
};

#define DISK_RDONLY 0x1
#define DISK_RDWR 0x2
#define DISK_CREATE 0x4
#define DISK_EXCL 0x8
#define DISK_TRUNC 0x10

struct disk_file;                  /* an open descriptor; owned by whoever opened it until DISK_CLOSE */

struct disk_entry {
    char *name;
    int64_t size;                  /* of a file */
    bool is_dir;
    ms mtime;                      /* of a file: last written, wall clock */
};

struct disk_req {
    struct list link;              /* private while submitted */
    enum disk_op op;
    enum disk_lane lane;
    uint32_t flags;
    struct disk_file *file;
    const char *path, *path2;
    int64_t at, size, total;
    const struct iovec *iov;
    size_t iov_n;
    void *buf;
    size_t len, did;
    struct disk_file **files;
    size_t files_n;
    const char **dirs;
    size_t dirs_n;
    struct disk_entry *entries;
    size_t entries_n;
    bool is_dir;
    err err;                       /* OK, IO, NOSPACE, NOT_FOUND, EXISTS, LOCKED, NOMEM, LIMIT (no descriptors left) */
    int sys_errno;                 /* detail for the log line; 0 in simulation */
    int64_t took_us;
    void (*done)(struct disk_req *rq);
    void *u;                       /* caller's */
};

struct disk {
    void (*submit)(struct disk *d, struct disk_req *rq);
    err (*call)(struct disk *d, struct disk_req *rq);
};

static inline void disk_submit(struct disk *d, struct disk_req *rq) { d->submit(d, rq); }
static inline err disk_call(struct disk *d, struct disk_req *rq) { return d->call(d, rq); }

void disk_entries_free(struct disk_entry *e, size_t n);

/* Synchronous helpers over disk_call. */
/* The whole file, mem_alloc'd, with a NUL behind its ret_n bytes; LIMIT above max. */
err disk_read_all(struct disk *d, const char *path, size_t max, void **ret_buf, size_t *ret_n);
/* Write temp, sync, rename, sync directory: old or new content after a crash, never neither. */
err disk_replace_all(struct disk *d, const char *path, const void *buf, size_t n);
