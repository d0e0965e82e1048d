/* The rules of trouble, one a line in the control file; the file is replaced whole, and read again
 * when it changed.
 *
 *   KIND [match=TEXT] [skip=N] [times=N] [pct=P] [seed=S] [at=BYTE]
 *        [errno=EIO|ENOSPC|EINTR|...] [short] [delay=MS] [lie] [flip] [free=BYTES]
 *
 * KIND: write read sync (fdatasync, fsync) syncfs open create rename truncate unlink mkdir
 * fallocate statvfs. A rule looks at calls of its kind whose path below the root contains `match`
 * (match=/NAME: ends with NAME; none: all), lets `skip` of them pass, then strikes `times` times
 * (0: for ever), each with `pct` per cent (seeded). `at`: only a write that covers this byte of the
 * file; it is cut short before it, and the next one, which begins there, meets the error. `short`:
 * only cut. `lie`: a sync answers well and does nothing. The first rule that strikes decides. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden) /* of our names the process sees only libc's */

enum kind {
    KIND_WRITE,
    KIND_READ,
    KIND_SYNC,
    KIND_SYNCFS,
    KIND_OPEN,
    KIND_CREATE,
    KIND_RENAME,
    KIND_TRUNCATE,
    KIND_UNLINK,
    KIND_MKDIR,
    KIND_FALLOCATE,
    KIND_STATVFS,
    KINDS
};

struct verdict {
    int rule;    /* its line, from 0; -1: nothing strikes */
    int error;   /* errno, or 0 */
    int64_t cut; /* write only so many bytes; -1: all */
    int64_t delay_ms;
    int64_t free; /* statvfs says so many bytes; -1: the truth */
    bool lie, flip;
};

void rules_open(const char *control); /* NULL: no rules ever */
/* What befalls this call? The caller holds the shim's lock. */
struct verdict rules_judge(enum kind kind, const char *path, int64_t at, int64_t n);

#pragma GCC visibility pop
