/* Short forms of disk_call, for boot and offline tools. */
#pragma once

#include "port/disk.h"

err call_open(struct disk *d, const char *path, uint32_t flags, struct disk_file **ret_file,
              int64_t *ret_size);                                      /* ret_size may be NULL */
void call_close(struct disk *d, struct disk_file *f);                  /* NULL-safe; nothing unsynced may hang on it */
err call_read(struct disk *d, struct disk_file *f, int64_t at, struct iovec into, size_t *ret_did);
err call_write(struct disk *d, struct disk_file *f, int64_t at, const void *buf, size_t n);
err call_sync(struct disk *d, struct disk_file *f, const char *dir);   /* either may be NULL */
err call_path(struct disk *d, enum disk_op op, const char *path,
              const char *path2); /* MKDIR, UNLINK, RENAME, RMTREE, SYNCFS, LOCK */
err call_truncate(struct disk *d, struct disk_file *f, int64_t size);
/* From `at` to the file's end. The kernel keeps what the range covers only in part, pages and larger folios alike:
 * so it begins at a place where none of them can straddle. Bytes before `at` that go, too, are only read again. */
#define FORGET_ALIGN ((int64_t)2 << 20)
void call_forget(struct disk *d, struct disk_file *f, int64_t at);
/* disk_read_all of what the disk has: a sync that failed may have left clean pages in the cache that exist nowhere
 * else (T13). What is still dirty stays: a sync must follow before anything relies on it. */
err call_read_all(struct disk *d, const char *path, size_t max, void **ret_buf, size_t *ret_n);
err call_list(struct disk *d, const char *path, struct disk_entry **ret, size_t *ret_n);
