/* Faults of the kernel under the disk: short transfers, EINTR, EIO, a full disk, no descriptors (T13, T14, T57).
 *
 * Method: the program preloads shim.c into itself and plans a fault before each request. That the shim counts a
 * call proves that a fault suite with LD_PRELOAD can reach it. */
#include "port_uv/shim.h"

#include <check.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mark.h"
#include "base/mem.h"
#include "base/must.h"
#include "port_uv/door.h"
#include "port_uv/port_uv.h"

static const struct shim *shim;
static char root[] = "/tmp/shim_XXXXXX";
static struct disk *d;

static void setup(void) {
    must(mkdtemp(root) != NULL);
    must(port_uv_disk_new(root, &d) == ERR_OK);
    shim->reset();
}

static void teardown(void) {
    shim->reset();
    port_uv_disk_free(d);
    char rm[64];
    (void)snprintf(rm, sizeof rm, "rm -rf %s", root);
    must(system(rm) == 0);
    memcpy(root + sizeof root - 7, "XXXXXX", 6);
}

static err open_file(const char *path, struct disk_file **ret_f) {
    struct disk_req rq = {.op = DISK_OPEN, .path = path, .flags = DISK_RDWR | DISK_CREATE};
    err e = disk_call(d, &rq);
    if (e == ERR_OK) {
        *ret_f = rq.file;
    }
    return e;
}

static struct disk_file *opened(const char *path) {
    struct disk_file *f = NULL;
    ck_assert(open_file(path, &f) == ERR_OK);
    return f;
}

static void close_file(struct disk_file *f) {
    struct disk_req rq = {.op = DISK_CLOSE, .file = f};
    ck_assert(disk_call(d, &rq) == ERR_OK);
}

#define PIECES 5
#define PIECE_BYTES 100
static uint8_t bytes[PIECES * PIECE_BYTES];
static struct iovec pieces[PIECES];

static struct disk_req write_pieces(struct disk_file *f) {
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 13 + i / 256);
    }
    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = (struct iovec){.iov_base = bytes + i * PIECE_BYTES, .iov_len = PIECE_BYTES};
    }
    struct disk_req rq = {.op = DISK_WRITE, .file = f, .iov = pieces, .iov_n = PIECES};
    (void)disk_call(d, &rq);                           /* its err is in the request */
    return rq;
}

static struct disk_req read_all(struct disk_file *f, uint8_t *buf, size_t n) {
    struct disk_req rq = {.op = DISK_READ, .file = f, .buf = buf, .len = n};
    (void)disk_call(d, &rq);                           /* its err is in the request */
    return rq;
}

static struct disk_req sync_file(struct disk_file **f, size_t n, const char **dirs, size_t dirs_n) {
    struct disk_req rq = {.op = DISK_SYNC, .files = f, .files_n = n, .dirs = dirs, .dirs_n = dirs_n};
    (void)disk_call(d, &rq);                           /* its err is in the request */
    return rq;
}

static err plain(enum disk_op op, struct disk_file *f, const char *path, const char *path2) {
    struct disk_req rq = {.op = op, .file = f, .path = path, .path2 = path2};
    return disk_call(d, &rq);
}

START_TEST(shim_sees_every_call) {
    struct disk_file *f = opened("a");
    const char *dirs[] = {"."};
    uint8_t buf[10];
    ck_assert(write_pieces(f).err == ERR_OK);
    ck_assert(read_all(f, buf, 10).err == ERR_OK);
    ck_assert(sync_file(&f, 1, dirs, 1).err == ERR_OK);
    ck_assert(plain(DISK_SYNCFS, NULL, NULL, NULL) == ERR_OK);
    ck_assert(plain(DISK_TRUNCATE, f, NULL, NULL) == ERR_OK);
    ck_assert(plain(DISK_MKDIR, NULL, "t", NULL) == ERR_OK);
    ck_assert(plain(DISK_RENAME, NULL, "a", "b") == ERR_OK);
    ck_assert(plain(DISK_UNLINK, NULL, "b", NULL) == ERR_OK);
    ck_assert(plain(DISK_RMTREE, NULL, "t", NULL) == ERR_OK);
    close_file(f);
    static const struct {
        const char *call;
        unsigned least;
    } want[] = {{"openat", 3}, {"pwritev", 1}, {"preadv", 1}, {"fdatasync", 1}, {"fsync", 1}, {"syncfs", 1},
                {"renameat", 1}, {"unlinkat", 2}, {"ftruncate", 1}, {"mkdirat", 1}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        ck_assert_msg(shim->count(want[i].call) >= want[i].least, "%s: %u", want[i].call, shim->count(want[i].call));
    }
}
END_TEST

START_TEST(short_transfers_are_continued) {            /* T14; _i bytes a call */
    struct disk_file *f = opened("a");
    shim->shorten("pwritev", (size_t)_i);
    struct disk_req wr = write_pieces(f);
    ck_assert(wr.err == ERR_OK);
    ck_assert_uint_eq(wr.did, sizeof bytes);
    ck_assert_uint_ge(shim->count("pwritev"), (sizeof bytes + (size_t)_i - 1) / (size_t)_i);
    uint8_t back[sizeof bytes + 50];
    shim->shorten("preadv", (size_t)_i);
    struct disk_req rd = read_all(f, back, sizeof back);
    ck_assert(rd.err == ERR_OK);
    ck_assert_uint_eq(rd.did, sizeof bytes);
    ck_assert_int_eq(memcmp(back, bytes, sizeof bytes), 0);
    close_file(f);
}
END_TEST

START_TEST(write_that_makes_no_progress_is_an_error) {
    struct disk_file *f = opened("a");
    shim->shorten("pwritev", 0);
    struct disk_req wr = write_pieces(f);
    ck_assert(wr.err == ERR_IO);
    ck_assert_uint_eq(shim->count("pwritev"), 1);
    close_file(f);
}
END_TEST

START_TEST(interrupted_calls_are_repeated) {           /* T14 */
    static const char *const calls[] = {"openat", "pwritev", "preadv", "fdatasync", "fsync", "syncfs", "ftruncate"};
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        shim->refuse(calls[i], 1, EINTR);
    }
    const char *dirs[] = {"."};
    uint8_t buf[sizeof bytes];
    struct disk_file *f = opened("a");
    ck_assert(write_pieces(f).did == sizeof bytes);
    ck_assert(read_all(f, buf, sizeof buf).did == sizeof bytes);
    ck_assert(sync_file(&f, 1, dirs, 1).err == ERR_OK);
    ck_assert(plain(DISK_SYNCFS, NULL, NULL, NULL) == ERR_OK);
    ck_assert(plain(DISK_TRUNCATE, f, NULL, NULL) == ERR_OK);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        ck_assert_msg(shim->count(calls[i]) >= 2, "%s", calls[i]);
    }
    close_file(f);
}
END_TEST

START_TEST(failed_write_tells_what_is_written) {       /* T14: _i calls of 70 bytes succeed before */
    struct disk_file *f = opened("a");
    shim->shorten("pwritev", 70);
    shim->refuse("pwritev", (unsigned)_i + 1, EIO);
    struct disk_req wr = write_pieces(f);
    ck_assert(wr.err == ERR_IO);
    ck_assert_int_eq(wr.sys_errno, EIO);
    ck_assert_uint_eq(shim->count("pwritev"), (unsigned)_i + 1);
    ck_assert_uint_ge(wr.did, (size_t)_i * PIECE_BYTES / 2);       /* 70, then what is left of the piece, … */
    struct disk_req st = {.op = DISK_STAT, .path = "a"};
    ck_assert(disk_call(d, &st) == ERR_OK);
    ck_assert_int_eq(st.size, (int64_t)wr.did);
    close_file(f);
}
END_TEST

START_TEST(failed_sync_is_reported_once_and_not_repeated) {    /* T13 */
    struct disk_file *f[] = {opened("a"), opened("b"), opened("c")};
    const char *dirs[] = {"."};
    shim->refuse("fdatasync", 2, EIO);
    struct disk_req sy = sync_file(f, 3, dirs, 1);
    ck_assert(sy.err == ERR_IO);
    ck_assert_int_eq(sy.sys_errno, EIO);
    ck_assert_uint_eq(shim->count("fdatasync"), 2);    /* the first error ends it */
    ck_assert_uint_eq(shim->count("fsync"), 0);
    for (int i = 0; i < 3; i++) {
        close_file(f[i]);
    }
}
END_TEST

START_TEST(errnos_become_the_errs_that_callers_act_upon) {
    static const struct {
        int e;
        err want;
    } of_open[] = {{EMFILE, ERR_LIMIT}, {ENFILE, ERR_LIMIT}, {ENOMEM, ERR_NOMEM}, {ENOSPC, ERR_NOSPACE}, {EDQUOT, ERR_NOSPACE},
                   {EACCES, ERR_IO}, {EROFS, ERR_IO}, {EIO, ERR_IO}};
    struct disk_file *f = NULL;
    for (size_t i = 0; i < sizeof of_open / sizeof of_open[0]; i++) {
        shim->refuse("openat", 1, of_open[i].e);
        ck_assert(open_file("a", &f) == of_open[i].want);
        ck_assert_ptr_null(f);
    }
    f = opened("a");
    shim->refuse("pwritev", 1, ENOSPC);
    struct disk_req wr = write_pieces(f);
    ck_assert(wr.err == ERR_NOSPACE && wr.did == 0);
    ck_assert(write_pieces(f).err == ERR_OK);          /* space again: service goes on */
    shim->refuse("preadv", 1, EIO);
    uint8_t buf[10];
    ck_assert(read_all(f, buf, 10).err == ERR_IO);     /* T17 */
    shim->refuse("syncfs", 1, EIO);
    ck_assert(plain(DISK_SYNCFS, NULL, NULL, NULL) == ERR_IO);
    close_file(f);
}
END_TEST

static void expect_content(const char *want) {
    void *buf;
    size_t n;
    ck_assert(disk_read_all(d, "w", 100, &buf, &n) == ERR_OK);
    ck_assert_str_eq(buf, want);
    mem_free(buf);
}

START_TEST(replacement_keeps_the_old_content_when_a_step_fails) {
    static const char *const steps[] = {"openat", "pwritev", "fdatasync", "renameat"};
    ck_assert(disk_replace_all(d, "w", "old", 3) == ERR_OK);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        shim->refuse(steps[i], 1, EIO);
        ck_assert(disk_replace_all(d, "w", "new", 3) == ERR_IO);
        expect_content("old");
        ck_assert(plain(DISK_STAT, NULL, "w.tmp", NULL) == ERR_NOT_FOUND);
    }
    shim->refuse("fsync", 1, EIO);                       /* of the directory: renamed, but nobody knows whether for good */
    ck_assert(disk_replace_all(d, "w", "new", 3) == ERR_IO);
    expect_content("new");
}
END_TEST

/* Marks are counted in all builds but release. */
#ifdef PERIGEE_MARKS
#define expect_mark(name, n) ck_assert_uint_eq(mark_count(name), n)
#else
#define expect_mark(name, n) ((void)0)
#endif


START_TEST(accept_without_descriptors_pauses_and_serves_later) {  /* T57 */
    struct door *door = door_new("127.0.0.1", 0);
    mark_reset();
    shim->refuse("accept4", 1, EMFILE);
    int first = door_connect(door_number(door));
    door_ping(first);                                  /* not hung up on: accepted by the retry */
    expect_mark("net.accept_starved", 1);
    expect_mark("net.accept_paused", 1);
    expect_mark("net.accept_resumed", 1);
    shim->refuse("accept4", 1, ECONNABORTED);            /* one that died in the backlog does not stop the others */
    int second = door_connect(door_number(door));
    door_ping(second);
    expect_mark("net.accept_paused", 1);
    close(first);
    close(second);
    struct door_counts end = door_free(door);
    ck_assert_int_eq(end.accepted, 2);
}
END_TEST

/* Run this program again with the shim in front of libc. */
static void preload(char **argv) {
    const char *asan = getenv("ASAN_OPTIONS");
    char options[512];
    (void)snprintf(options, sizeof options, "%s%sverify_asan_link_order=0", asan ? asan : "", asan ? ":" : "");
    must(setenv("ASAN_OPTIONS", options, 1) == 0);
    must(setenv("LD_PRELOAD", SHIM_PATH, 1) == 0);
    execv("/proc/self/exe", argv);
    perror("execv");
    exit(1);
}

int main(int argc, char **argv) {
    (void)argc;
    shim = dlsym(RTLD_DEFAULT, "shim_face");
    if (!shim) {
        must(!getenv("LD_PRELOAD") || !strstr(getenv("LD_PRELOAD"), SHIM_PATH));
        preload(argv);
    }
    Suite *s = suite_create("port_uv.shim");
    TCase *tc = tcase_create("shim");
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, shim_sees_every_call);
    tcase_add_loop_test(tc, short_transfers_are_continued, 1, 120);
    tcase_add_test(tc, write_that_makes_no_progress_is_an_error);
    tcase_add_test(tc, interrupted_calls_are_repeated);
    tcase_add_loop_test(tc, failed_write_tells_what_is_written, 0, 7);
    tcase_add_test(tc, failed_sync_is_reported_once_and_not_repeated);
    tcase_add_test(tc, errnos_become_the_errs_that_callers_act_upon);
    tcase_add_test(tc, replacement_keeps_the_old_content_when_a_step_fails);
    tcase_add_test(tc, accept_without_descriptors_pauses_and_serves_later);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
