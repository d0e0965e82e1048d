/* The ledger: what a process did to the files below the root, in the order of the shim's lock, with
 * the bytes it wrote.
 *
 * A record, little-endian: u32 size of all, u8 op, u8[3] zero, i32 n (a descriptor, an errno, a
 * rule), u64 ino, u64 a, i64 b, i64 monotonic ns, u16 length of name 1, u16 length of name 2, u32
 * zero; then the names and, of a write, its bytes. faults/ledger.py reads it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#pragma GCC visibility push(hidden) /* of our names the process sees only libc's */

enum ledger_op {
    LEDGER_START = 1,  /* a process: n its id */
    LEDGER_CREATE,     /* ino, a = directory, name */
    LEDGER_MKDIR,      /* the same */
    LEDGER_UNLINK,     /* the same; also rmdir */
    LEDGER_RENAME,     /* ino, a = directory and name before, b = directory and name 2 after */
    LEDGER_WRITE,      /* ino, a = offset, b = bytes; the bytes, or none without FAULT_DATA */
    LEDGER_SIZE,       /* ino, a = new size */
    LEDGER_SYNC_BEGIN, /* ino, n = descriptor, a = number, b = 1: the whole file system, name */
    LEDGER_SYNC_END,   /* n = errno or 0, a = number, b = 1: it lied */
    LEDGER_FAULT,      /* n = rule, ino, a = errno or 0, name = path */
};

struct ledger_move {
    uint64_t dir1, dir2, ino;
    const char *name1, *name2;
};

/* All of them keep errno; the caller holds the shim's lock. */
void ledger_open(const char *path, bool with_data); /* NULL: no ledger */
void ledger_name(enum ledger_op op, uint64_t dir, uint64_t ino, const char *name);
void ledger_rename(const struct ledger_move *m);
void ledger_write(uint64_t ino, int64_t at, int64_t n, const struct iovec *iov, int iov_n);
void ledger_size(uint64_t ino, int64_t size);
uint64_t ledger_sync_begin(bool whole, uint64_t ino, int fd, const char *path);
void ledger_sync_end(uint64_t id, int error, bool lied);
void ledger_fault(int rule, uint64_t ino, int error, const char *path);

#pragma GCC visibility pop
