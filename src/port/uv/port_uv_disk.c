/* A disk without a loop, for boot and offline tools: disk_call works, disk_submit is a broken invariant.
 *
 * Happy path: one descriptor of the data directory, no thread, every request on the caller's.
 * Failure modes: the directory is not there or cannot be opened: the err of opening it.
 * Runs on: any one thread. */
#include "base/mem.h"
#include "disk_uv.h"
#include "port_uv/port_uv.h"

err port_uv_disk_new(const char *root, struct disk **ret_d) {
    struct disk_uv *d = mem_alloc(MEM_DISK, sizeof *d);
    if (!d) {
        return ERR_NOMEM;
    }
    err e = disk_uv_init(d, root, NULL, NULL);
    if (e != ERR_OK) {
        mem_free(d);
        return e;
    }
    *ret_d = &d->disk;
    return ERR_OK;
}

void port_uv_disk_free(struct disk *d) {
    if (d) {
        disk_uv_done((struct disk_uv *)d);
        mem_free(d);
    }
}
