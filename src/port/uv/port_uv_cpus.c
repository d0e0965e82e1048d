/* How many CPUs this process may use: its affinity, and the quota of its cgroup and of all the parents.
 *
 * Happy path: sched_getaffinity counts; in a container cpu.max (version 2) or cpu.cfs_quota_us over
 * cpu.cfs_period_us (version 1) says less. A quota of 1.5 counts as 2: whoever paid for a part may use it.
 * Failure modes: a file that is missing or nonsense sets no limit. A container may see the host's path of its
 * cgroup but only its own files, right at the mount: therefore every level up to the mount is asked and missing
 * ones do not matter.
 * Runs on: boot. */
#include "port_uv_cpus.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port_uv/port_uv.h"

#define PATH_BYTES 4352
#define CPUS_MAX 8192                  /* what the kernel can have at most */

/* The first line of dir/name. */
static bool read_line(const char *dir, const char *name, char *ret, size_t cap) {
    char path[PATH_BYTES + 32];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);     /* cut: then it does not exist */
    FILE *f = fopen(path, "re");
    if (!f) {
        return false;
    }
    bool ok = fgets(ret, (int)cap, f) != NULL;
    (void)fclose(f);                   /* read only */
    return ok;
}

/* The number a line begins with; 0: none. */
static long long number_of(const char *line) {
    char *end;
    errno = 0;
    long long n = strtoll(line, &end, 10);
    return end == line || errno != 0 ? 0 : n;
}

static uint32_t whole_cpus(long long quota, long long period) {
    if (quota <= 0 || period <= 0) {
        return 0;
    }
    long long cpus = (quota + period - 1) / period;
    return cpus > CPUS_MAX ? CPUS_MAX : (uint32_t)cpus;
}

static uint32_t quota_v2(const char *dir) {
    char line[64];
    long long quota, period;
    bool ok = read_line(dir, "cpu.max", line, sizeof line) && sscanf(line, "%lld %lld", &quota, &period) == 2;
    return ok ? whole_cpus(quota, period) : 0;                 /* "max 100000" is no number */
}

static uint32_t quota_v1(const char *dir) {
    char quota[32], period[32];
    bool ok = read_line(dir, "cpu.cfs_quota_us", quota, sizeof quota) &&
              read_line(dir, "cpu.cfs_period_us", period, sizeof period);
    return ok ? whole_cpus(number_of(quota), number_of(period)) : 0;       /* -1: none */
}

static uint32_t lesser(uint32_t a, uint32_t b) {
    return a == 0 ? b : b == 0 || a < b ? a : b;
}

/* The least quota from base + path up to base. */
static uint32_t quota_upwards(const char *base, const char *path, uint32_t (*quota_of)(const char *dir)) {
    char dir[PATH_BYTES];
    size_t base_n = strlen(base);
    int n = snprintf(dir, sizeof dir, "%s%s", base, path);
    if (n < 0 || (size_t)n >= sizeof dir) {
        return quota_of(base);
    }
    uint32_t least = 0;
    for (;;) {
        least = lesser(least, quota_of(dir));
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < base_n) {
            return least;
        }
        *slash = 0;
    }
}

static bool has_word(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *p = list; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, word, n) == 0 && (p[n] == 0 || p[n] == ',')) {
            return true;
        }
    }
    return false;
}

/* One line "hierarchy:controllers:path". */
static uint32_t quota_of_line(char *line, const char *mount) {
    char *controllers = strchr(line, ':');
    char *path = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!path) {
        return 0;
    }
    *controllers++ = 0;
    *path++ = 0;
    path[strcspn(path, "\n")] = 0;
    if (strcmp(line, "0") == 0 && controllers[0] == 0) {
        return quota_upwards(mount, path, quota_v2);
    }
    if (!has_word(controllers, "cpu")) {
        return 0;
    }
    char base[PATH_BYTES];
    int n = snprintf(base, sizeof base, "%s/%s", mount, controllers);
    uint32_t joint = n > 0 && (size_t)n < sizeof base ? quota_upwards(base, path, quota_v1) : 0;
    n = snprintf(base, sizeof base, "%s/cpu", mount);
    return lesser(joint, n > 0 && (size_t)n < sizeof base ? quota_upwards(base, path, quota_v1) : 0);
}

uint32_t port_uv_cpus_quota(const char *membership, const char *mount) {
    FILE *f = fopen(membership, "re");
    if (!f) {
        return 0;
    }
    uint32_t least = 0;
    char line[4096];
    while (fgets(line, sizeof line, f)) {
        least = lesser(least, quota_of_line(line, mount));
    }
    (void)fclose(f);                   /* read only */
    return least;
}

static uint32_t affinity(void) {
    cpu_set_t sets[CPUS_MAX / CPU_SETSIZE];
    int n = sched_getaffinity(0, sizeof sets, sets) == 0 ? CPU_COUNT_S(sizeof sets, sets) : 1;
    return n > 0 ? (uint32_t)n : 1;
}

uint32_t port_uv_cpus(void) {
    return lesser(affinity(), port_uv_cpus_quota("/proc/self/cgroup", "/sys/fs/cgroup"));
}
