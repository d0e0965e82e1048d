/* bench_start.c: how long a broker takes to start, and what it weighs at rest (P9 to P12).
 *
 * Purpose: time from spawning the process to its first ApiVersions reply, and to the end offsets of every partition
 * of a topic; then, after a rest, its RSS and the CPU it used while nobody talked to it; then the time SIGTERM takes.
 * Happy path: choose a free port, put it in place of {port} in the command, spawn, knock every 100 us, ask, rest, stop.
 * Failure modes: a broker that exits or does not answer in time is killed and the run dies.
 * Runs on: the main thread. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../common/die.h"
#include "../gen/clock.h"
#include "../gen/conf.h"
#include "../gen/procstat.h"
#include "../gen/rpc.h"

extern char **environ;

struct start {
    struct conf cf; /* host, port, topic and partitions only */
    bool ask_offsets;
    int rest_s, timeout_s, signal;
    int core;        /* the broker runs on this one only, we on the others; -1: wherever */
    const char *log; /* where the broker's output goes */
    pid_t pid;
};

__attribute__((noreturn)) static void start_fail(struct start *st, const char *what) {
    if (st->pid > 0) {
        kill(st->pid, SIGKILL);
    }
    die("%s", what);
}

static uint16_t start_free_port(void) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || getsockname(fd, (struct sockaddr *)&a, &n) != 0) {
        die("no free port");
    }
    close(fd);
    return ntohs(a.sin_port);
}

/* The argument with every {port} replaced. The caller keeps it for the life of the process. */
static char *start_argument(const char *arg, uint16_t port) {
    char text[8192] = "", digits[8];
    snprintf(digits, sizeof digits, "%u", port);
    for (const char *p = arg; *p;) {
        const char *piece = p;
        size_t n = 1, at = strlen(text);
        if (strncmp(p, "{port}", 6) == 0) {
            piece = digits;
            n = strlen(digits);
            p += 6;
        } else {
            p++;
        }
        if (at + n >= sizeof text) {
            die("argument too long");
        }
        memcpy(text + at, piece, n);
        text[at + n] = 0;
    }
    char *copy = strdup(text);
    if (!copy) {
        die("out of memory");
    }
    return copy;
}

/* The broker inherits our core; afterwards we leave it to the broker. */
static void start_core(const struct start *st, bool ours) {
    cpu_set_t set;
    if (st->core < 0 || sched_getaffinity(0, sizeof set, &set) != 0) {
        return;
    }
    CPU_ZERO(&set);
    for (int i = 0; i < (int)sysconf(_SC_NPROCESSORS_CONF); i++) {
        if ((i == st->core) != ours) {
            CPU_SET((size_t)i, &set);
        }
    }
    (void)sched_setaffinity(0, sizeof set, &set); /* fails on one core: then both share it */
}

static void start_spawn(struct start *st, char **argv) {
    posix_spawn_file_actions_t fa;
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 1, st->log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    posix_spawn_file_actions_adddup2(&fa, 1, 2);
    start_core(st, false);
    int e = posix_spawnp(&st->pid, argv[0], &fa, NULL, argv, environ);
    start_core(st, true);
    posix_spawn_file_actions_destroy(&fa);
    if (e != 0) {
        errno = e;
        die("spawn %s", argv[0]);
    }
}

static int start_knock(struct start *st, uint64_t t0) {
    for (;;) {
        int fd = rpc_try_connect(&st->cf, st->timeout_s);
        if (fd >= 0) {
            return fd;
        }
        if (waitpid(st->pid, NULL, WNOHANG) == st->pid) {
            st->pid = 0;
            start_fail(st, "the broker exited; see its log");
        }
        if (clock_ns() - t0 > (uint64_t)st->timeout_s * 1000000000u) {
            start_fail(st, "the broker does not listen");
        }
        struct timespec pause = {.tv_nsec = 100000};
        nanosleep(&pause, NULL);
    }
}

static void start_parse(struct start *st, int argc, char **argv) {
    static const struct option options[] = {
        {"topic", required_argument, NULL, 't'}, {"partitions", required_argument, NULL, 'n'},
        {"rest", required_argument, NULL, 'r'},  {"timeout", required_argument, NULL, 'o'},
        {"core", required_argument, NULL, 'c'},  {"kill", no_argument, NULL, 'k'},
        {"log", required_argument, NULL, 'l'},   {0},
    };
    *st = (struct start){.timeout_s = 60,
                         .core = -1,
                         .signal = SIGTERM,
                         .log = "/dev/null",
                         .cf = {.host = "127.0.0.1", .partitions = 1}};
    int opt;
    while ((opt = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        switch (opt) {
        case 't':
            st->cf.topic = optarg;
            st->ask_offsets = true;
            break;
        case 'n': st->cf.partitions = (unsigned)strtoul(optarg, NULL, 10); break;
        case 'r': st->rest_s = atoi(optarg); break;
        case 'o': st->timeout_s = atoi(optarg); break;
        case 'c': st->core = atoi(optarg); break;
        case 'k': st->signal = SIGKILL; break;
        case 'l': st->log = optarg; break;
        default: optind = argc; break;
        }
    }
    if (optind >= argc) {
        fprintf(
            stderr,
            "usage: bench_start [--topic T --partitions N] [--rest S] [--timeout S] [--core C] [--kill] [--log FILE] "
            "-- COMMAND with {port}\n");
        exit(2);
    }
}

static void start_stop(struct start *st, double *ret_ms, int *ret_status) {
    uint64_t t = clock_ns();
    kill(st->pid, st->signal);
    while (waitpid(st->pid, ret_status, WNOHANG) != st->pid) {
        if (clock_ns() - t > 120000000000ull) {
            start_fail(st, "the broker does not stop");
        }
        (void)poll(NULL, 0, 1);
    }
    *ret_ms = (double)(clock_ns() - t) * 1e-6;
}

int main(int argc, char **argv) {
    struct start st;
    start_parse(&st, argc, argv);
    st.cf.port = start_free_port();
    for (int i = optind; i < argc; i++) {
        argv[i] = start_argument(argv[i], st.cf.port);
    }
    uint64_t t0 = clock_ns();
    start_spawn(&st, argv + optind);
    int fd = start_knock(&st, t0);
    rpc_api_versions(fd);
    double hello_ms = (double)(clock_ns() - t0) * 1e-6, offsets_ms = 0;
    if (st.ask_offsets) {
        int64_t *ends = die_alloc(st.cf.partitions, sizeof *ends);
        rpc_topic_wait(fd, &st.cf);
        rpc_offsets(fd, &st.cf, -1, ends);
        offsets_ms = (double)(clock_ns() - t0) * 1e-6;
        free(ends);
    }
    close(fd);
    struct procstat early = procstat_read(st.pid);
    (void)poll(NULL, 0, st.rest_s * 1000);
    struct procstat late = procstat_read(st.pid);
    double stop_ms = 0;
    int status = 0;
    start_stop(&st, &stop_ms, &status);
    printf("{\"hello_ms\":%.2f,\"offsets_ms\":%.2f,\"rss_mb\":%.2f,\"peak_mb\":%.2f,\"start_cpu_s\":%.2f,"
           "\"idle_cpu_percent\":%.3f,\"stop_ms\":%.1f,\"exit\":%d}\n",
           hello_ms, offsets_ms, (double)late.rss_bytes / 1048576, (double)late.peak_bytes / 1048576, early.cpu_s,
           st.rest_s ? 100 * (late.cpu_s - early.cpu_s) / st.rest_s : 0, stop_ms,
           WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return 0;
}
