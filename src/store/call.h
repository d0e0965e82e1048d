/* Short forms of disk_call, for boot and offline tools. */
#pragma once

#include "port/disk.h"

err call_open(struct disk *d, const char *path, uint32_t flags, struct disk_file **ret_file, int64_t *ret_size);   /* ret_size may be NULL */
void call_close(struct disk *d, struct disk_file *f);                  /* NULL-safe; nothing unsynced may hang on it */
err call_read(struct disk *d, struct disk_file *f, int64_t at, void *buf, size_t n, size_t *ret_did);
err call_write(struct disk *d, struct disk_file *f, int64_t at, const void *buf, size_t n);
err call_sync(struct disk *d, struct disk_file *f, const char *dir);   /* either may be NULL */
err call_path(struct disk *d, enum disk_op op, const char *path, const char *path2);   /* MKDIR, UNLINK, RENAME, RMTREE, SYNCFS, LOCK */
err call_truncate(struct disk *d, struct disk_file *f, int64_t size);
void call_forget(struct disk *d, struct disk_file *f, int64_t at, int64_t n);
err call_list(struct disk *d, const char *path, struct disk_entry **ret, size_t *ret_n);
