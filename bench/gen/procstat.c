/* procstat.c: looking at the broker from outside.
 *
 * Purpose: CPU-seconds per GB (P13) and RSS beside each throughput figure.
 * Happy path: /proc/PID/stat for the times, /proc/PID/status for VmRSS and VmHWM.
 * Failure modes: a process that is gone, or a line that is missing, leaves zeros.
 * Runs on: the main thread. */
#include "procstat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double procstat_cpu(int pid) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (!f) {
        return 0;
    }
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    char *p = strrchr(text, ')'); /* the name may hold anything, so count fields from its end */
    for (int field = 2; p && field < 14; field++) {
        p = strchr(p + 1, ' ');
    }
    if (!p) {
        return 0;
    }
    char *rest = NULL;
    unsigned long long user = strtoull(p, &rest, 10), sys = strtoull(rest, NULL, 10);
    return (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
}

struct procstat procstat_read(int pid) {
    struct procstat s = {0};
    if (pid <= 0) {
        return s;
    }
    s.cpu_s = procstat_cpu(pid);
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, "VmRSS:", 6) == 0) {
            s.rss_bytes = strtoull(line + 6, NULL, 10) << 10;
        } else if (strncmp(line, "VmHWM:", 6) == 0) {
            s.peak_bytes = strtoull(line + 6, NULL, 10) << 10;
        }
    }
    if (f) {
        fclose(f);
    }
    return s;
}

double procstat_self_cpu(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}
