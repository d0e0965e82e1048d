/* Small files, whole: read one into memory, replace one so that a crash leaves the old or the new content.
 *
 * Happy path of a replacement: write `path`.tmp, sync it, rename it over `path`, sync the directory (RELIABILITY 6,
 * rule 1).
 * Failure modes: any step's err is the answer; before the rename the old file is untouched and the temporary one is
 * removed as far as possible. When only the directory's sync failed, the new content stands in the page cache and
 * may or may not survive a power cut.
 * Runs on: boot, offline tools (disk_call blocks); never a serving shard. */
#include "port/disk.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define DISK_PATH_MAX 1024

void disk_entries_free(struct disk_entry *e, size_t n) {
    for (size_t i = 0; i < n; i++) {
        mem_free(e[i].name);
    }
    mem_free(e);
}

static err open_file(struct disk *d, const char *path, uint32_t flags, struct disk_req *ret_rq) {
    struct disk_req rq = {.op = DISK_OPEN, .path = path, .flags = flags};
    err e = disk_call(d, &rq);
    if (e == ERR_OK) {
        *ret_rq = rq;
    }
    return e;
}

static err close_file(struct disk *d, struct disk_file *f) {
    struct disk_req rq = {.op = DISK_CLOSE, .file = f};
    return disk_call(d, &rq);
}

static err read_open(struct disk *d, const struct disk_req *opened, void **ret_buf, size_t *ret_n) {
    size_t n = (size_t)opened->size;
    uint8_t *buf = mem_alloc(MEM_DISK, n + 1);
    if (!buf) {
        return ERR_NOMEM;
    }
    struct disk_req rq = {.op = DISK_READ, .file = opened->file, .buf = buf, .len = n};
    err e = disk_call(d, &rq);
    if (e != ERR_OK) {
        mem_free(buf);
        return e;
    }
    buf[rq.did] = 0;
    *ret_buf = buf;
    *ret_n = rq.did;
    return ERR_OK;
}

err disk_read_all(struct disk *d, const char *path, size_t max, void **ret_buf, size_t *ret_n) {
    struct disk_req opened;
    err e = open_file(d, path, DISK_RDONLY, &opened);
    if (e != ERR_OK) {
        return e;
    }
    if (opened.size < 0 || (uint64_t)opened.size > max) {
        e = ERR_LIMIT;
    } else {
        e = read_open(d, &opened, ret_buf, ret_n);
    }
    (void)close_file(d, opened.file);      /* opened for reading: closing it cannot lose anything */
    return e;
}

/* The new content under its temporary name, on the disk. */
static err write_synced(struct disk *d, const char *path, const void *buf, size_t n) {
    struct disk_req opened;
    err e = open_file(d, path, DISK_RDWR | DISK_CREATE | DISK_TRUNC, &opened);
    if (e != ERR_OK) {
        return e;
    }
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = n};
    struct disk_req wr = {.op = DISK_WRITE, .file = opened.file, .iov = &iov, .iov_n = 1};
    e = disk_call(d, &wr);
    if (e == ERR_OK) {
        struct disk_req sync = {.op = DISK_SYNC, .files = &opened.file, .files_n = 1};
        e = disk_call(d, &sync);
    }
    err closed = close_file(d, opened.file);
    return e != ERR_OK ? e : closed;
}

static err sync_dir_of(struct disk *d, const char *path) {
    char dir[DISK_PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash) {
        memcpy(dir, path, (size_t)(slash - path));
        dir[slash - path] = 0;
    }
    const char *dirs[] = {dir};
    struct disk_req rq = {.op = DISK_SYNC, .dirs = dirs, .dirs_n = 1};
    return disk_call(d, &rq);
}

err disk_replace_all(struct disk *d, const char *path, const void *buf, size_t n) {
    char tmp[DISK_PATH_MAX];
    int len = snprintf(tmp, sizeof tmp, "%s.tmp", path);
    if (len < 0 || (size_t)len >= sizeof tmp) {
        return ERR_LIMIT;
    }
    err e = write_synced(d, tmp, buf, n);
    if (e == ERR_OK) {
        struct disk_req mv = {.op = DISK_RENAME, .path = tmp, .path2 = path};
        e = disk_call(d, &mv);
    }
    if (e != ERR_OK) {
        struct disk_req rm = {.op = DISK_UNLINK, .path = tmp};
        (void)disk_call(d, &rm);           /* best effort: the err of the failed step is the answer */
        return e;
    }
    return sync_dir_of(d, path);
}
