/* Short forms of disk_call.
 * Happy path: one request on the calling thread, its answer unpacked. Failure modes: the request's own err.
 * Runs on: boot and offline tools. */
#include "call.h"

err call_open(struct disk *d, const char *path, uint32_t flags, struct disk_file **ret_file, int64_t *ret_size) {
    struct disk_req rq = {.op = DISK_OPEN, .path = path, .flags = flags};
    err e = disk_call(d, &rq);
    if (e == ERR_OK) {
        *ret_file = rq.file;
        if (ret_size) {
            *ret_size = rq.size;
        }
    }
    return e;
}

void call_close(struct disk *d, struct disk_file *f) {
    struct disk_req rq = {.op = DISK_CLOSE, .file = f};
    if (f) {
        (void)disk_call(d, &rq);   /* what mattered was synced before */
    }
}

err call_read(struct disk *d, struct disk_file *f, int64_t at, struct iovec into, size_t *ret_did) {
    struct disk_req rq = {.op = DISK_READ, .file = f, .at = at, .buf = into.iov_base, .len = into.iov_len};
    err e = disk_call(d, &rq);
    if (e == ERR_OK) {
        *ret_did = rq.did;
    }
    return e;
}

err call_write(struct disk *d, struct disk_file *f, int64_t at, const void *buf, size_t n) {
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = n};
    struct disk_req rq = {.op = DISK_WRITE, .file = f, .at = at, .iov = &iov, .iov_n = 1};
    return disk_call(d, &rq);
}

err call_sync(struct disk *d, struct disk_file *f, const char *dir) {
    struct disk_req rq = {.op = DISK_SYNC, .files = &f, .files_n = f != NULL, .dirs = &dir, .dirs_n = dir != NULL};
    return disk_call(d, &rq);
}

err call_path(struct disk *d, enum disk_op op, const char *path, const char *path2) {
    struct disk_req rq = {.op = op, .path = path, .path2 = path2};
    return disk_call(d, &rq);
}

err call_truncate(struct disk *d, struct disk_file *f, int64_t size) {
    struct disk_req rq = {.op = DISK_TRUNCATE, .file = f, .at = size};
    return disk_call(d, &rq);
}

void call_forget(struct disk *d, struct disk_file *f, int64_t at) {
    struct disk_req rq = {.op = DISK_FORGET, .file = f, .at = at - at % FORGET_ALIGN};
    (void)disk_call(d, &rq);       /* a hint: what stays cached was covered by the syncfs before */
}

err call_read_all(struct disk *d, const char *path, size_t max, void **ret_buf, size_t *ret_n) {
    struct disk_file *f;
    err e = call_open(d, path, DISK_RDONLY, &f, NULL);
    if (e != ERR_OK) {
        return e;
    }
    call_forget(d, f, 0);
    call_close(d, f);
    return disk_read_all(d, path, max, ret_buf, ret_n);
}

err call_list(struct disk *d, const char *path, struct disk_entry **ret, size_t *ret_n) {
    struct disk_req rq = {.op = DISK_LIST, .path = path};
    err e = disk_call(d, &rq);
    if (e == ERR_OK) {
        *ret = rq.entries;
        *ret_n = rq.entries_n;
    }
    return e;
}
