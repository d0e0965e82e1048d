/* One disk_req, executed: the system calls behind each disk_op. Blocks. Any thread. */
#pragma once

#include "port/disk.h"

struct disk_file {
    int fd;
};

/* Runs rq below the directory `root` and fills its outputs, err, sys_errno and took_us; returns rq->err. Does not call
 * rq->done. */
err disk_ops_run(int root, struct disk_req *rq);
/* The err that stands for an errno of a disk operation. */
err disk_ops_err(int sys_errno);
