/* A measurement, no test: what a port costs that has nothing to do (P14, P15, and its part of P9).
 *
 *     port_uv_idle [CONNECTIONS [SECONDS]]
 *
 * Method: the echo server of door.h in a process of its own; this process connects to it, has each connection
 * echoed once, and then reads the server's CPU time (/proc/PID/schedstat of all its threads) and memory
 * (/proc/PID/status) before and after being silent. */
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/must.h"
#include "port_uv/door.h"

static int64_t cpu_ns(pid_t pid) {
    char path[300];
    int64_t all = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *dir = opendir(path);
    must(dir != NULL);
    for (const struct dirent *de; (de = readdir(dir));) {
        long long ns = 0;
        (void)snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, de->d_name);
        FILE *f = de->d_name[0] == '.' ? NULL : fopen(path, "re");
        if (f) {
            must(fscanf(f, "%lld", &ns) == 1);
            (void)fclose(f);           /* read only */
        }
        all += ns;
    }
    (void)closedir(dir);               /* read only */
    return all;
}

static long kib(pid_t pid, const char *what) {
    char path[64], line[256];
    long value = -1;
    (void)snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "re");
    must(f != NULL);
    while (value < 0 && fgets(line, sizeof line, f)) {
        if (strncmp(line, what, strlen(what)) == 0 && line[strlen(what)] == ':') {
            value = strtol(line + strlen(what) + 1, NULL, 10);
        }
    }
    (void)fclose(f);                   /* read only */
    return value;
}

static void serve(int say, int until) {
    (void)port_uv_fd_limit();          /* as high as it goes: nothing to do if that is too low */
    struct door *d = door_new("127.0.0.1", 0);
    uint16_t number = door_number(d);
    must(write(say, &number, sizeof number) == sizeof number);
    char c;
    must(read(until, &c, 1) == 0);
    (void)door_free(d);
    _exit(0);
}

static void print_memory(pid_t pid, const char *when) {
    printf("%-32s VmRSS %ld KiB, of it anonymous %ld KiB\n", when, kib(pid, "VmRSS"), kib(pid, "RssAnon"));
}

int main(int argc, char **argv) {
    int conns = argc > 1 ? atoi(argv[1]) : 1000;
    int seconds = argc > 2 ? atoi(argv[2]) : 10;
    int say[2], until[2];
    must(pipe(say) == 0);
    must(pipe(until) == 0);
    (void)port_uv_fd_limit();          /* as high as it goes */
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        close(until[1]);
        serve(say[1], until[0]);
    }
    uint16_t number;
    must(read(say[0], &number, sizeof number) == sizeof number);
    print_memory(pid, "one idle port:");
    for (int i = 0; i < conns; i++) {
        door_ping(door_connect(number));
    }
    print_memory(pid, "with its connections:");
    int64_t before = cpu_ns(pid);
    (void)poll(NULL, 0, seconds * 1000);
    int64_t used = cpu_ns(pid) - before;
    printf("%d idle connections for %d s: %.3f ms of CPU = %.4f %% of a core\n", conns, seconds, (double)used / 1e6,
           (double)used / 1e7 / seconds);
    close(until[1]);
    int status;
    must(waitpid(pid, &status, 0) == pid);
    return status == 0 ? 0 : 1;
}
