#pragma once
/* procstat.h: what a process used: CPU seconds and memory, from /proc. */

#include <stdint.h>

struct procstat {
    double cpu_s;        /* user and system, all threads */
    uint64_t rss_bytes;  /* now */
    uint64_t peak_bytes; /* high-water mark of the resident set */
};

/* pid 0 reads nothing and gives zeros; a pid that is gone gives zeros too. */
struct procstat procstat_read(int pid);

/* CPU seconds of this process. */
double procstat_self_cpu(void);
