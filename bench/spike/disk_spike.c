/* disk_spike.c: one measurement of how a partition log may be written, printed as one JSON line.
 *
 * Purpose: decide chunk alignment, who caches reads and what "written" means (bench/results/spike-disk.md).
 * Happy path: make N partition files, append chunks of an odd size round robin in one of three ways
 * (buffered, buffered with write-behind and DONTNEED, O_DIRECT with a rewritten tail block), optionally
 * sync every G appends under a policy, print rates, latencies and page-cache use, remove the files.
 * Failure modes: any failed call prints its name and exits 1; files stay behind for the script to remove.
 * Runs on: the main thread only. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { BLOCK = 4096, SYNCS_MAX = 2000000 };

enum way { WAY_BUFFERED, WAY_BEHIND, WAY_DIRECT };
enum policy { POLICY_NONE, POLICY_EACH, POLICY_SYNCFS, POLICY_AUTO };

struct options {
    enum way way;
    enum policy policy;
    unsigned parts;     /* partition files */
    size_t chunk;       /* bytes of one append; odd on purpose */
    uint64_t total;     /* bytes of the whole leg */
    unsigned group;     /* appends per sync; 0 = never */
    unsigned keep_size; /* 1 = fallocate(KEEP_SIZE) ahead of the data */
    double seconds_max; /* stop early; a slow leg still gives a rate */
    const char *dir;
};

struct part {
    int fd;
    uint64_t end;         /* bytes of the log */
    uint64_t behind_from; /* write-behind: first byte not yet handed to the disk */
    uint64_t dropped_to;  /* write-behind: first byte still in the page cache */
    uint8_t *tail;        /* direct: the last, partly filled block */
    int dirty;
};

struct spike {
    struct options o;
    struct part *parts;
    unsigned *dirty; /* indexes of parts written since the last sync */
    unsigned dirty_n;
    uint8_t *src;      /* the bytes appended */
    uint8_t *bounce;   /* direct: aligned copy */
    uint32_t *sync_us; /* one entry per sync */
    size_t sync_n;
    uint64_t window; /* write-behind window, bytes per file */
};

static void die(const char *what) {
    fprintf(stderr, "disk_spike: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu_s(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

static long meminfo_kb(const char *key) {
    FILE *f = fopen("/proc/meminfo", "r");
    if (!f) {
        die("meminfo");
    }
    char line[256];
    long kb = -1;
    size_t n = strlen(key);
    while (fgets(line, sizeof line, f)) {
        if (strncmp(line, key, n) == 0 && line[n] == ':') {
            kb = strtol(line + n + 1, NULL, 10);
        }
    }
    fclose(f);
    return kb;
}

static long rss_kb(void) {
    FILE *f = fopen("/proc/self/statm", "r");
    long size = 0, rss = 0;
    if (!f || fscanf(f, "%ld %ld", &size, &rss) != 2) {
        die("statm");
    }
    fclose(f);
    return rss * (sysconf(_SC_PAGESIZE) / 1024);
}

static void part_open(struct spike *s, unsigned i) {
    char path[512];
    snprintf(path, sizeof path, "%s/bench-%u", s->o.dir, i);
    if (mkdir(path, 0755) != 0 && errno != EEXIST) {
        die("mkdir");
    }
    snprintf(path, sizeof path, "%s/bench-%u/00000000000000000000.log", s->o.dir, i);
    int flags = O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | (s->o.way == WAY_DIRECT ? O_DIRECT : 0);
    struct part *p = &s->parts[i];
    p->fd = open(path, flags, 0644);
    if (p->fd < 0) {
        die("open");
    }
    if (s->o.keep_size) {
        off_t len = (off_t)(s->o.total / s->o.parts + s->o.chunk + BLOCK);
        if (fallocate(p->fd, FALLOC_FL_KEEP_SIZE, 0, len) != 0) {
            die("fallocate");
        }
    }
    if (s->o.way == WAY_DIRECT && posix_memalign((void **)&p->tail, BLOCK, BLOCK) != 0) {
        die("memalign");
    }
}

static void write_whole(int fd, const uint8_t *p, size_t n, uint64_t at) {
    while (n > 0) {
        ssize_t w = pwrite(fd, p, n, (off_t)at);
        if (w <= 0) {
            die("pwrite");
        }
        p += w;
        n -= (size_t)w;
        at += (uint64_t)w;
    }
}

/* O_DIRECT: whole blocks from an aligned copy; the last block is written again by the next append. */
static void append_direct(struct spike *s, struct part *p) {
    size_t kept = (size_t)(p->end % BLOCK);
    memcpy(s->bounce, p->tail, kept);
    memcpy(s->bounce + kept, s->src, s->o.chunk);
    size_t have = kept + s->o.chunk;
    size_t padded = (have + BLOCK - 1) / BLOCK * BLOCK;
    memset(s->bounce + have, 0, padded - have);
    write_whole(p->fd, s->bounce, padded, p->end - kept);
    p->end += s->o.chunk;
    size_t left = (size_t)(p->end % BLOCK);
    memcpy(p->tail, s->bounce + have - left, left);
}

/* Start the write of a full window, then wait for the one before it and drop its pages. */
static void write_behind(struct spike *s, struct part *p) {
    if (p->end - p->behind_from < s->window) {
        return;
    }
    off_t from = (off_t)p->behind_from;
    if (sync_file_range(p->fd, from, (off_t)p->end - from, SYNC_FILE_RANGE_WRITE) != 0) {
        die("sync_file_range");
    }
    off_t old = (off_t)p->dropped_to;
    if (from > old) {
        unsigned all = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
        if (sync_file_range(p->fd, old, from - old, all) != 0) {
            die("sync_file_range");
        }
        posix_fadvise(p->fd, old, from - old, POSIX_FADV_DONTNEED);
        p->dropped_to = p->behind_from;
    }
    p->behind_from = p->end;
}

static void append(struct spike *s, unsigned i) {
    struct part *p = &s->parts[i];
    if (s->o.way == WAY_DIRECT) {
        append_direct(s, p);
    } else {
        write_whole(p->fd, s->src, s->o.chunk, p->end);
        p->end += s->o.chunk;
        if (s->o.way == WAY_BEHIND) {
            write_behind(s, p);
        }
    }
    if (!p->dirty) {
        p->dirty = 1;
        s->dirty[s->dirty_n++] = i;
    }
}

static void commit(struct spike *s) {
    double t = now_s();
    int each = s->o.policy == POLICY_EACH || (s->o.policy == POLICY_AUTO && s->dirty_n <= 8);
    for (unsigned d = 0; d < s->dirty_n; d++) {
        struct part *p = &s->parts[s->dirty[d]];
        p->dirty = 0;
        if (each && fdatasync(p->fd) != 0) {
            die("fdatasync");
        }
    }
    if (!each && syncfs(s->parts[0].fd) != 0) {
        die("syncfs");
    }
    s->dirty_n = 0;
    if (s->sync_n < SYNCS_MAX) {
        s->sync_us[s->sync_n++] = (uint32_t)((now_s() - t) * 1e6);
    }
}

static int u32_order(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static double quantile_ms(const struct spike *s, double q) {
    if (s->sync_n == 0) {
        return 0;
    }
    return s->sync_us[(size_t)((double)(s->sync_n - 1) * q)] / 1000.0;
}

/* Reads the last 256 MB written (or all of it) once: from the page cache where it still is. */
static double read_back_mb_s(struct spike *s) {
    uint64_t want = 256u << 20, got = 0;
    uint64_t each = want / s->o.parts + 1;
    double t = now_s();
    for (unsigned i = 0; i < s->o.parts && got < want; i++) {
        struct part *p = &s->parts[i];
        uint64_t from = p->end > each ? (p->end - each) / BLOCK * BLOCK : 0;
        while (from < p->end) {
            size_t n = (size_t)(p->end - from < (1u << 20) ? p->end - from : 1u << 20);
            ssize_t r = pread(p->fd, s->bounce, (n + BLOCK - 1) / BLOCK * BLOCK, (off_t)from);
            if (r <= 0) {
                die("pread");
            }
            from += (uint64_t)r;
            got += (uint64_t)r;
        }
    }
    return (double)got / 1e6 / (now_s() - t);
}

static const char *way_name(enum way w) {
    return w == WAY_BUFFERED ? "buffered" : w == WAY_BEHIND ? "behind" : "direct";
}

static const char *policy_name(enum policy p) {
    return p == POLICY_NONE ? "none" : p == POLICY_EACH ? "each" : p == POLICY_SYNCFS ? "syncfs" : "auto";
}

struct outcome {
    uint64_t bytes, appends;
    double seconds, cpu, flush_s;
    long cached_kb, dirty_kb, rss_kb;
};

static void run(struct spike *s, struct outcome *r) {
    long cached = meminfo_kb("Cached");
    double t0 = now_s(), c0 = cpu_s();
    unsigned i = 0;
    while (r->bytes < s->o.total && now_s() - t0 < s->o.seconds_max) {
        append(s, i);
        i = i + 1 == s->o.parts ? 0 : i + 1;
        r->bytes += s->o.chunk;
        r->appends++;
        if (s->o.group && r->appends % s->o.group == 0) {
            commit(s);
        }
    }
    r->seconds = now_s() - t0;
    r->cpu = cpu_s() - c0;
    r->cached_kb = meminfo_kb("Cached") - cached;
    r->dirty_kb = meminfo_kb("Dirty") + meminfo_kb("Writeback");
    r->rss_kb = rss_kb();
    double tf = now_s();
    if (syncfs(s->parts[0].fd) != 0) {
        die("syncfs");
    }
    r->flush_s = now_s() - tf;
}

static void print(struct spike *s, const struct outcome *r) {
    qsort(s->sync_us, s->sync_n, sizeof s->sync_us[0], u32_order);
    double gb = (double)r->bytes / 1e9;
    printf("{\"way\":\"%s\",\"keep_size\":%u,\"parts\":%u,\"chunk\":%zu,\"policy\":\"%s\",\"group\":%u,"
           "\"mb_s\":%.0f,\"mb_s_with_flush\":%.0f,\"appends_s\":%.0f,\"cpu_s_gb\":%.2f,"
           "\"sync_p50_ms\":%.2f,\"sync_p99_ms\":%.2f,\"syncs\":%zu,"
           "\"cached_mb\":%ld,\"dirty_mb\":%ld,\"rss_mb\":%ld,\"read_back_mb_s\":%.0f}\n",
           way_name(s->o.way), s->o.keep_size, s->o.parts, s->o.chunk, policy_name(s->o.policy), s->o.group,
           gb * 1000 / r->seconds, gb * 1000 / (r->seconds + r->flush_s), (double)r->appends / r->seconds, r->cpu / gb,
           quantile_ms(s, 0.5), quantile_ms(s, 0.99), s->sync_n, r->cached_kb / 1024, r->dirty_kb / 1024,
           r->rss_kb / 1024, read_back_mb_s(s));
}

static void parse(struct options *o, char **argv) {
    const char *w = argv[1], *p = argv[5];
    o->way = w[0] == 'd' ? WAY_DIRECT : strcmp(w, "behind") == 0 ? WAY_BEHIND : WAY_BUFFERED;
    o->parts = (unsigned)strtoul(argv[2], NULL, 10);
    o->chunk = strtoul(argv[3], NULL, 10);
    o->total = strtoull(argv[4], NULL, 10) << 20;
    o->policy = p[0] == 'n' ? POLICY_NONE : p[0] == 'e' ? POLICY_EACH : p[0] == 's' ? POLICY_SYNCFS : POLICY_AUTO;
    o->group = o->policy == POLICY_NONE ? 0 : (unsigned)strtoul(argv[6], NULL, 10);
    o->keep_size = argv[7][0] == '1';
    o->seconds_max = strtod(argv[8], NULL);
    o->dir = argv[9];
}

int main(int argc, char **argv) {
    if (argc != 10) {
        fprintf(stderr, "usage: disk_spike buffered|behind|direct PARTS CHUNK TOTAL_MB "
                        "none|each|syncfs|auto GROUP KEEP_SIZE SECONDS DIR\n");
        return 1;
    }
    struct spike s = {0};
    parse(&s.o, argv);
    struct rlimit rl = {s.o.parts + 64, s.o.parts + 64};
    if (s.o.parts > 900 && setrlimit(RLIMIT_NOFILE, &rl) != 0) {
        die("setrlimit");
    }
    size_t bounce = (s.o.chunk + 3 * BLOCK) > (2u << 20) ? s.o.chunk + 3 * BLOCK : 2u << 20;
    s.parts = calloc(s.o.parts, sizeof s.parts[0]);
    s.dirty = calloc(s.o.parts, sizeof s.dirty[0]);
    s.sync_us = malloc(SYNCS_MAX * sizeof s.sync_us[0]);
    s.src = malloc(s.o.chunk);
    if (!s.parts || !s.dirty || !s.sync_us || !s.src ||
        posix_memalign((void **)&s.bounce, BLOCK, (bounce + BLOCK - 1) / BLOCK * BLOCK) != 0) {
        die("malloc");
    }
    memset(s.src, 0x5a, s.o.chunk);
    memset(s.bounce, 1, bounce);
    uint64_t w = s.o.total / s.o.parts / 4;
    s.window = w < (64u << 10) ? 64u << 10 : w > (8u << 20) ? 8u << 20 : w;
    for (unsigned i = 0; i < s.o.parts; i++) {
        part_open(&s, i);
    }
    syncfs(s.parts[0].fd);
    struct outcome r = {0};
    run(&s, &r);
    print(&s, &r);
    return 0;
}
