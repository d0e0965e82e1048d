/* Writes the records of ledger.h.
 *
 * Happy path: one append of head, names and bytes per record; in the page cache it outlives the
 * process, however that ends.
 * Failure modes: what cannot be written ends the process with 99. A SIGKILL may tear the last
 * record; the reader cuts it off.
 * Runs on: whoever holds the shim's lock. */
#define _GNU_SOURCE
#include "ledger.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { PIECES = 1024 + 3 };

struct record {
    uint32_t size;
    uint8_t op, zero[3];
    int32_t n;
    uint32_t zero2;
    uint64_t ino, a;
    int64_t b, ns;
    uint16_t name1_n, name2_n;
    uint32_t zero3;
};
_Static_assert(sizeof(struct record) == 56, "as ledger.py reads it");

static int fd = -1;
static bool has_data;
static uint64_t syncs;

static void put_pieces(struct iovec *iov, int n) {
    for (;;) {
        while (n > 0 && iov->iov_len == 0) {
            iov++;
            n--;
        }
        if (n == 0) {
            return;
        }
        ssize_t did = syscall(SYS_writev, fd, iov, n > 1024 ? 1024 : n);
        if (did < 0 && errno != EINTR) {
            _exit(99);
        }
        for (int i = 0; did > 0; i++) {
            size_t k = iov[i].iov_len < (size_t)did ? iov[i].iov_len : (size_t)did;
            iov[i].iov_base = (char *)iov[i].iov_base + k;
            iov[i].iov_len -= k;
            did -= (ssize_t)k;
        }
    }
}

static void put(struct record *r, const char *name1, const char *name2, const struct iovec *data,
                int data_n) {
    struct iovec iov[PIECES];
    struct timespec t;
    int e = errno, n = 3;
    if (fd < 0) {
        return;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    r->ns = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    r->name1_n = (uint16_t)strlen(name1);
    r->name2_n = (uint16_t)strlen(name2);
    iov[0] = (struct iovec){r, sizeof *r};
    iov[1] = (struct iovec){(void *)(uintptr_t)name1, r->name1_n};
    iov[2] = (struct iovec){(void *)(uintptr_t)name2, r->name2_n};
    int64_t left = r->op == LEDGER_WRITE && has_data ? r->b : 0;
    r->size = (uint32_t)(sizeof *r + r->name1_n + r->name2_n + (size_t)left);
    for (int i = 0; i < data_n && left > 0; i++) {
        iov[n] = data[i];
        iov[n].iov_len = (int64_t)data[i].iov_len < left ? data[i].iov_len : (size_t)left;
        left -= (int64_t)iov[n++].iov_len;
    }
    put_pieces(iov, n);
    errno = e;
}

void ledger_open(const char *path, bool with_data) {
    has_data = with_data;
    if (!path) {
        return;
    }
    fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) {
        _exit(99);
    }
    put(&(struct record){.op = LEDGER_START, .n = getpid()}, "", "", NULL, 0);
}

void ledger_name(enum ledger_op op, uint64_t dir, uint64_t ino, const char *name) {
    put(&(struct record){.op = (uint8_t)op, .ino = ino, .a = dir}, name, "", NULL, 0);
}

void ledger_rename(const struct ledger_move *m) {
    put(&(struct record){.op = LEDGER_RENAME, .ino = m->ino, .a = m->dir1, .b = (int64_t)m->dir2},
        m->name1, m->name2, NULL, 0);
}

void ledger_write(uint64_t ino, int64_t at, int64_t n, const struct iovec *iov, int iov_n) {
    put(&(struct record){.op = LEDGER_WRITE, .ino = ino, .a = (uint64_t)at, .b = n}, "", "", iov,
        iov_n);
}

void ledger_size(uint64_t ino, int64_t size) {
    put(&(struct record){.op = LEDGER_SIZE, .ino = ino, .a = (uint64_t)size}, "", "", NULL, 0);
}

uint64_t ledger_sync_begin(bool whole, uint64_t ino, int of, const char *path) {
    put(&(struct record){.op = LEDGER_SYNC_BEGIN, .n = of, .ino = ino, .a = ++syncs, .b = whole},
        path, "", NULL, 0);
    return syncs;
}

void ledger_sync_end(uint64_t id, int error, bool lied) {
    put(&(struct record){.op = LEDGER_SYNC_END, .n = error, .a = id, .b = lied}, "", "", NULL, 0);
}

void ledger_fault(int rule, uint64_t ino, int error, const char *path) {
    put(&(struct record){.op = LEDGER_FAULT, .n = rule, .ino = ino, .a = (uint64_t)error}, path, "",
        NULL, 0);
}
