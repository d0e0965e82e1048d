/* What concerns the whole process: signals, crash points, the directory lock, a full file system, CPU quota,
 * descriptor limit.
 *
 * Method: each case forks a process that does the thing, and judges it from outside. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/must.h"
#include "port_uv/port_uv.h"
#include "port_uv_cpus.h"

static char root[] = "/tmp/process_XXXXXX";

static void setup(void) {
    must(mkdtemp(root) != NULL);
}

static void teardown(void) {
    char rm[64];
    (void)snprintf(rm, sizeof rm, "rm -rf %s", root);
    must(system(rm) == 0);
}

static int wait_for(pid_t pid) {
    int status;
    must(waitpid(pid, &status, 0) == pid);
    return status;
}

/* --- signals ----------------------------------------------------------------------------------- */

struct sig {
    struct port_uv *p;
    int pipe;                          /* tells what happened */
    bool hangs;
};

static void tell(int fd, char what) {
    must(write(fd, &what, 1) == 1);
}

static char told(int fd) {
    char c = 0;
    must(read(fd, &c, 1) == 1);
    return c;
}

static void on_signal(void *u, int signo) {
    struct sig *s = u;
    tell(s->pipe, signo == SIGHUP ? 'h' : signo == SIGTERM ? 't' : 'i');
    while (s->hangs) {
        (void)pause();                 /* a stop that never ends */
    }
    if (signo != SIGHUP) {
        struct port *p = port_uv_port(s->p);
        p->stop(p);
    }
}

static pid_t sig_process(bool hangs, int *ret_pipe) {
    int fds[2];
    must(pipe(fds) == 0);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        struct sig s = {.pipe = fds[1], .hangs = hangs};
        must(port_uv_new(0, root, &s.p) == ERR_OK);
        port_uv_signals(s.p, on_signal, &s);
        tell(fds[1], 'r');
        port_uv_run(s.p);
        port_uv_free(s.p);
        _exit(0);
    }
    close(fds[1]);
    *ret_pipe = fds[0];
    ck_assert_int_eq(told(fds[0]), 'r');
    return pid;
}

START_TEST(signals_reach_the_loop) {
    int fd;
    pid_t pid = sig_process(false, &fd);
    for (int i = 0; i < 3; i++) {
        must(kill(pid, SIGHUP) == 0);
        ck_assert_int_eq(told(fd), 'h');
    }
    must(kill(pid, SIGTERM) == 0);
    ck_assert_int_eq(told(fd), 't');
    ck_assert_int_eq(wait_for(pid), 0);
    close(fd);
}
END_TEST

START_TEST(second_stop_signal_ends_a_stop_that_hangs) {        /* BR-063 */
    int fd;
    pid_t pid = sig_process(true, &fd);
    must(kill(pid, SIGINT) == 0);
    ck_assert_int_eq(told(fd), 'i');
    must(kill(pid, SIGHUP) == 0);      /* no stop signal */
    must(kill(pid, SIGTERM) == 0);
    int status = wait_for(pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 1);
    close(fd);
}
END_TEST

/* timeout(1) and terminals signal a process and then its group: the same wish told twice is one clean stop. */
START_TEST(stop_signal_told_twice_is_one_stop) {
    int fd;
    pid_t pid = sig_process(false, &fd);
    must(kill(pid, SIGTERM) == 0);
    (void)kill(pid, SIGTERM);          /* it may be gone already */
    ck_assert_int_eq(wait_for(pid), 0);
    close(fd);
}
END_TEST

/* --- crash points ------------------------------------------------------------------------------ */

static void must_call(struct disk *d, struct disk_req rq) {
    must(disk_call(d, &rq) == ERR_OK);
}

/* Ten rounds of write, sync and rename; what is left tells how far it came. */
static void crash_work(void) {
    struct disk *d;
    must(port_uv_disk_new(root, &d) == ERR_OK);
    struct disk_req op = {.op = DISK_OPEN, .path = "log", .flags = DISK_RDWR | DISK_CREATE};
    must(disk_call(d, &op) == ERR_OK);
    for (int i = 0; i < 10; i++) {
        char bytes[20];
        (void)snprintf(bytes, sizeof bytes, "record%d", i);
        struct iovec iov = {.iov_base = bytes, .iov_len = 7};
        must_call(d, (struct disk_req){.op = DISK_WRITE, .file = op.file, .at = i * 7, .iov = &iov, .iov_n = 1});
        must_call(d, (struct disk_req){.op = DISK_SYNC, .files = &op.file, .files_n = 1});
        must_call(d, (struct disk_req){.op = DISK_RENAME, .path = "log", .path2 = i % 2 == 0 ? "log1" : "log2"});
        must_call(d, (struct disk_req){.op = DISK_RENAME, .path = i % 2 == 0 ? "log1" : "log2", .path2 = "log"});
    }
    must_call(d, (struct disk_req){.op = DISK_CLOSE, .file = op.file});
    port_uv_disk_free(d);
}

static int crash_process(const char *fault) {
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        must(setenv("PERIGEE_FAULT", fault, 1) == 0);
        crash_work();
        _exit(0);
    }
    return wait_for(pid);
}

static off_t size_of(const char *name) {
    char path[64];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    return stat(path, &st) == 0 ? st.st_size : -1;
}

START_TEST(process_dies_right_before_the_named_operation) {
    static const struct {
        const char *fault, *name;      /* under which name the file is found */
        off_t size;
    } rows[] = {{"disk.open:1", "log", -1}, {"disk.write:1", "log", 0},  {"disk.write:4", "log", 21}, {"disk.sync:4", "log", 28},
                {"disk.rename:1", "log", 7}, {"disk.rename:4", "log2", 14}, {"disk.close:1", "log", 70}, {"disk.tear:3", "log", 17}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int status = crash_process(rows[i].fault);
        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%s", rows[i].fault);
        ck_assert_msg(size_of(rows[i].name) == rows[i].size, "%s: %lld", rows[i].fault, (long long)size_of(rows[i].name));
        teardown();
        must(mkdir(root, 0700) == 0);
    }
    ck_assert_int_eq(crash_process("disk.write:11"), 0);       /* never reached */
    ck_assert_int_eq(size_of("log"), 70);
    ck_assert_int_eq(crash_process("store.roll:1"), 0);        /* another room's */
}
END_TEST

/* --- the directory's lock ---------------------------------------------------------------------- */

static err lock_dir(struct disk *d) {
    struct disk_req rq = {.op = DISK_LOCK, .path = ".lock"};
    return disk_call(d, &rq);
}

/* Takes the lock as a JVM's FileChannel.tryLock does and holds it until the pipe is closed. */
static pid_t lock_like_java(int *ret_hold) {
    int ready[2], hold[2];
    must(pipe(ready) == 0);
    must(pipe(hold) == 0);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        char path[64], c;
        close(hold[1]);
        (void)snprintf(path, sizeof path, "%s/.lock", root);
        int fd = open(path, O_RDWR | O_CREAT, 0644);
        struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 0};
        must(fcntl(fd, F_SETLK, &all) == 0);
        tell(ready[1], 'l');
        (void)!read(hold[0], &c, 1);
        _exit(0);
    }
    close(hold[0]);
    ck_assert_int_eq(told(ready[0]), 'l');
    *ret_hold = hold[1];
    return pid;
}

START_TEST(lock_and_kafkas_lock_exclude_each_other) {
    struct disk *d;
    must(port_uv_disk_new(root, &d) == ERR_OK);
    int hold;
    pid_t pid = lock_like_java(&hold);
    ck_assert(lock_dir(d) == ERR_LOCKED);
    close(hold);
    ck_assert_int_eq(wait_for(pid), 0);
    ck_assert(lock_dir(d) == ERR_OK);
    port_uv_disk_free(d);              /* held for the life of the process, not of the disk */
    pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        must(port_uv_disk_new(root, &d) == ERR_OK);
        _exit(lock_dir(d) == ERR_LOCKED ? 0 : 1);
    }
    ck_assert_int_eq(wait_for(pid), 0);
}
END_TEST

/* --- a full file system (T15) ------------------------------------------------------------------ */

#define SMALL_FS_BYTES (1 << 20)

static bool mount_small_fs(void) {
    return geteuid() == 0 && unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", root, "tmpfs", 0, "size=1m") == 0;
}

static struct disk_req fill(struct disk *d, struct disk_file *f, int64_t at) {
    static uint8_t block[100000];
    struct iovec iov = {.iov_base = block, .iov_len = sizeof block};
    struct disk_req rq = {.op = DISK_WRITE, .file = f, .at = at, .iov = &iov, .iov_n = 1};
    (void)disk_call(d, &rq);           /* its err is in the request */
    return rq;
}

static int64_t space(struct disk *d) {
    struct disk_req rq = {.op = DISK_SPACE};
    must(disk_call(d, &rq) == ERR_OK);
    return rq.size;
}

static void full_disk(void) {
    struct disk *d;
    must(port_uv_disk_new(root, &d) == ERR_OK);
    struct disk_req op = {.op = DISK_OPEN, .path = "big", .flags = DISK_RDWR | DISK_CREATE};
    must(disk_call(d, &op) == ERR_OK);
    must(space(d) == SMALL_FS_BYTES);
    int64_t at = 0;
    struct disk_req wr;
    while ((wr = fill(d, op.file, at)).err == ERR_OK) {
        at += (int64_t)wr.did;
    }
    must(wr.err == ERR_NOSPACE);
    must(wr.sys_errno == ENOSPC);
    must(at + (int64_t)wr.did == SMALL_FS_BYTES);              /* did counts the part that went in */
    must(space(d) == 0);
    must_call(d, (struct disk_req){.op = DISK_TRUNCATE, .file = op.file, .at = at});   /* a short write is cut back */
    must_call(d, (struct disk_req){.op = DISK_TRUNCATE, .file = op.file, .at = 0});
    must(fill(d, op.file, 0).err == ERR_OK);                   /* space came back: so does service */
    must_call(d, (struct disk_req){.op = DISK_CLOSE, .file = op.file});
    port_uv_disk_free(d);
}

START_TEST(full_disk_is_told_and_recovered_from) {
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        if (!mount_small_fs()) {
            _exit(77);
        }
        full_disk();
        _exit(0);
    }
    int status = wait_for(pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        printf("SKIPPED full_disk: mounting a small tmpfs needs root\n");
        return;
    }
    ck_assert_int_eq(status, 0);
}
END_TEST

/* --- CPUs and descriptors ---------------------------------------------------------------------- */

static void put(const char *dir, const char *name, const char *text) {
    char cmd[256];
    (void)snprintf(cmd, sizeof cmd, "mkdir -p %s/%s && printf '%%b' '%s' > %s/%s/%s", root, dir, text, root, dir, name);
    must(system(cmd) == 0);
}

static uint32_t quota(void) {
    char member[64], mount_dir[64];
    (void)snprintf(member, sizeof member, "%s/self", root);
    (void)snprintf(mount_dir, sizeof mount_dir, "%s/cg", root);
    return port_uv_cpus_quota(member, mount_dir);
}

START_TEST(quota_of_cgroup_version_2) {
    ck_assert_uint_eq(quota(), 0);                     /* no cgroups at all */
    put(".", "self", "0::/a/b\\n");
    ck_assert_uint_eq(quota(), 0);
    put("cg/a/b", "cpu.max", "max 100000\\n");
    ck_assert_uint_eq(quota(), 0);
    put("cg/a/b", "cpu.max", "400000 100000\\n");
    ck_assert_uint_eq(quota(), 4);
    put("cg/a", "cpu.max", "150000 100000\\n");        /* a parent allows less: one and a half are two */
    ck_assert_uint_eq(quota(), 2);
    put("cg", "cpu.max", "10000 100000\\n");           /* the root of a container's own view; less than one is one */
    ck_assert_uint_eq(quota(), 1);
    put("cg", "cpu.max", "nonsense");
    ck_assert_uint_eq(quota(), 2);
}
END_TEST

START_TEST(quota_of_cgroup_version_1) {
    put(".", "self", "5:devices:/x\\n4:cpu,cpuacct:/docker/c\\n1:name=systemd:/\\n0::/\\n");
    put("cg/cpu,cpuacct", "cpu.cfs_quota_us", "-1\\n");
    put("cg/cpu,cpuacct", "cpu.cfs_period_us", "100000\\n");
    ck_assert_uint_eq(quota(), 0);
    put("cg/cpu,cpuacct", "cpu.cfs_quota_us", "250000\\n");    /* a container that sees only its own group, at the mount */
    ck_assert_uint_eq(quota(), 3);
    put("cg/cpu/docker/c", "cpu.cfs_quota_us", "100000\\n");   /* mounted under the short name */
    put("cg/cpu/docker/c", "cpu.cfs_period_us", "100000\\n");
    ck_assert_uint_eq(quota(), 1);
}
END_TEST

START_TEST(cpus_follow_affinity) {
    uint32_t all = port_uv_cpus();
    ck_assert_uint_ge(all, 1);
    cpu_set_t one;
    CPU_ZERO(&one);
    must(sched_getaffinity(0, sizeof one, &one) == 0);
    size_t first = 0;
    while (!CPU_ISSET(first, &one)) {
        first++;
    }
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    must(sched_setaffinity(0, sizeof one, &one) == 0);
    ck_assert_uint_eq(port_uv_cpus(), 1);
}
END_TEST

START_TEST(descriptor_limit_is_raised_to_the_hard_one) {
    struct rlimit lim = {.rlim_cur = 100, .rlim_max = 500};
    must(setrlimit(RLIMIT_NOFILE, &lim) == 0);
    ck_assert_uint_eq(port_uv_fd_limit(), 500);
    must(getrlimit(RLIMIT_NOFILE, &lim) == 0);
    ck_assert_uint_eq(lim.rlim_cur, 500);
}
END_TEST

int main(void) {
    Suite *s = suite_create("port_uv.process");
    TCase *tc = tcase_create("process");
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, signals_reach_the_loop);
    tcase_add_test(tc, second_stop_signal_ends_a_stop_that_hangs);
    tcase_add_test(tc, stop_signal_told_twice_is_one_stop);
    tcase_add_test(tc, process_dies_right_before_the_named_operation);
    tcase_add_test(tc, lock_and_kafkas_lock_exclude_each_other);
    tcase_add_test(tc, full_disk_is_told_and_recovered_from);
    tcase_add_test(tc, quota_of_cgroup_version_2);
    tcase_add_test(tc, quota_of_cgroup_version_1);
    tcase_add_test(tc, cpus_follow_affinity);
    tcase_add_test(tc, descriptor_limit_is_raised_to_the_hard_one);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
