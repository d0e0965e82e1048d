/* Run the broker in the foreground: `perigee serve` and `perigee dev`. */
#pragma once

#include "state/conf.h"

struct serve_opts {
    const struct conf *conf;           /* checked */
    const char *data_dir;              /* created when missing */
    const char *ready_file;            /* NULL: none */
    bool dev;                          /* print a friendly banner once serving */
    bool temp;                         /* remove data_dir at the end */
};

/* Returns the process's exit code: 0 clean stop, 1 cannot serve, 74 storage failed or damaged, 78 bad configuration or directory. */
int serve_run(const struct serve_opts *o);
