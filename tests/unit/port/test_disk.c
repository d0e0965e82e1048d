/* The helpers for whole files over a disk that only records: which operations, in which order, and what happens
 * when one fails.
 *
 * The order is a rule of its own: write, sync the file, rename, sync the directory (RELIABILITY 6, rule 1). */
#include <check.h>
#include <string.h>

#include "base/mem.h"
#include "port/disk.h"

static struct {
    char done[256];                    /* one word per operation */
    char dir[64];                      /* the directory that was synced */
    int n, fail_at;                    /* the n-th operation fails (from 1) */
    int open_files;
    int64_t size;
} rec;

static const char *word(const struct disk_req *rq) {
    switch (rq->op) {
    case DISK_OPEN:
        return "open ";
    case DISK_WRITE:
        return "write ";
    case DISK_READ:
        return "read ";
    case DISK_CLOSE:
        return "close ";
    case DISK_RENAME:
        return "rename ";
    case DISK_UNLINK:
        return "unlink ";
    case DISK_SYNC:
        return rq->dirs_n > 0 ? "syncdir " : "sync ";
    default:
        return "? ";
    }
}

static err call(struct disk *d, struct disk_req *rq) {
    (void)d;
    strcat(rec.done, word(rq));
    rec.open_files -= rq->op == DISK_CLOSE;
    if (++rec.n == rec.fail_at) {
        rq->err = ERR_IO;
        return ERR_IO;
    }
    if (rq->op == DISK_OPEN) {
        rec.open_files++;
        rq->size = rec.size;
    }
    if (rq->op == DISK_READ) {
        memset(rq->buf, 'x', rq->len);
        rq->did = rq->len;
    }
    if (rq->op == DISK_SYNC && rq->dirs_n > 0) {
        strcpy(rec.dir, rq->dirs[0]);
    }
    rq->err = ERR_OK;
    return ERR_OK;
}

static struct disk disk = {.call = call};

static void again(int fail_at, int64_t size) {
    memset(&rec, 0, sizeof rec);
    rec.fail_at = fail_at;
    rec.size = size;
}

START_TEST(replacement_keeps_the_order_of_crash_safety) {
    again(0, 0);
    ck_assert(disk_replace_all(&disk, "a/b/c", "x", 1) == ERR_OK);
    ck_assert_str_eq(rec.done, "open write sync close rename syncdir ");
    ck_assert_str_eq(rec.dir, "a/b");
    again(0, 0);
    ck_assert(disk_replace_all(&disk, "c", "x", 1) == ERR_OK);
    ck_assert_str_eq(rec.dir, ".");
}
END_TEST

START_TEST(failed_step_ends_a_replacement_and_removes_its_file) {
    static const char *const rows[] = {"open unlink ", "open write close unlink ", "open write sync close unlink ",
                                       "open write sync close unlink ", "open write sync close rename unlink ",
                                       "open write sync close rename syncdir "};
    for (int i = 0; i < 6; i++) {
        again(i + 1, 0);
        ck_assert(disk_replace_all(&disk, "a/c", "x", 1) == ERR_IO);
        ck_assert_str_eq(rec.done, rows[i]);
        ck_assert_int_eq(rec.open_files, 0);
    }
}
END_TEST

START_TEST(path_that_is_too_long_touches_nothing) {
    char path[1100];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = 0;
    again(0, 0);
    ck_assert(disk_replace_all(&disk, path, "x", 1) == ERR_LIMIT);
    ck_assert_str_eq(rec.done, "");
}
END_TEST

START_TEST(reading_closes_the_file_whatever_happens) {
    static const struct {
        int fail_at;
        uint64_t fail_alloc;
        int64_t size;
        const char *done;
        err want;
    } rows[] = {{0, 0, 5, "open read close ", ERR_OK}, {1, 0, 5, "open ", ERR_IO}, {2, 0, 5, "open read close ", ERR_IO},
                {3, 0, 5, "open read close ", ERR_OK}, {0, 0, 6, "open close ", ERR_LIMIT}, {0, 1, 5, "open close ", ERR_NOMEM}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *buf = NULL;
        size_t n = 0;
        again(rows[i].fail_at, rows[i].size);
        mem_fail_nth(rows[i].fail_alloc);
        err e = disk_read_all(&disk, "f", 5, &buf, &n);
        mem_fail_nth(0);
        ck_assert_msg(e == rows[i].want, "row %zu: %s", i, err_name(e));
        ck_assert_str_eq(rec.done, rows[i].done);
        ck_assert_int_eq(rec.open_files, 0);
        ck_assert((buf != NULL) == (e == ERR_OK));
        ck_assert(e != ERR_OK || strcmp(buf, "xxxxx") == 0);
        mem_free(buf);
    }
}
END_TEST

int main(void) {
    Suite *s = suite_create("port.disk");
    TCase *tc = tcase_create("disk");
    tcase_add_test(tc, replacement_keeps_the_order_of_crash_safety);
    tcase_add_test(tc, failed_step_ends_a_replacement_and_removes_its_file);
    tcase_add_test(tc, path_that_is_too_long_touches_nothing);
    tcase_add_test(tc, reading_closes_the_file_whatever_happens);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
