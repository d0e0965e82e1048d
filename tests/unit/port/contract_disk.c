/* Cases about files: what each operation does, that disk_call and disk_submit agree, and that lanes keep their
 * order and never wait for each other.
 *
 * Method: a script of operations with what they must yield is run twice, by disk_call and as a chain of submitted requests. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "port/contract.h"

static const struct contract_rig *rig;

/* --- the script -------------------------------------------------------------------------------- */

/* File operations work on the file opened last. */
struct step {
    enum disk_op op;
    const char *path, *path2;
    uint32_t flags;
    int64_t at;
    size_t len;                        /* READ: asked; FORGET */
    const char *text;                  /* WRITE: the bytes. READ: the bytes expected. LIST: "name:size name/" in order of name */
    err want;
    int64_t size;                      /* OPEN, STAT: expected */
    bool is_dir;                       /* STAT: expected */
};

#define RDWR_NEW (DISK_RDWR | DISK_CREATE)

static const struct step script[] = {
    {.op = DISK_OPEN, .path = "a", .flags = DISK_RDWR, .want = ERR_NOT_FOUND},
    {.op = DISK_OPEN, .path = "a", .flags = RDWR_NEW | DISK_EXCL},
    {.op = DISK_WRITE, .at = 0, .text = "hello world"},
    {.op = DISK_WRITE, .at = 6, .text = "there"},
    {.op = DISK_READ, .at = 0, .len = 11, .text = "hello there"},
    {.op = DISK_READ, .at = 6, .len = 100, .text = "there"},
    {.op = DISK_READ, .at = 11, .len = 100, .text = ""},
    {.op = DISK_READ, .at = 5000, .len = 100, .text = ""},
    {.op = DISK_SYNC},
    {.op = DISK_TRUNCATE, .at = 5},
    {.op = DISK_READ, .at = 0, .len = 100, .text = "hello"},
    {.op = DISK_FORGET, .at = 0, .len = 5},
    {.op = DISK_READ, .at = 0, .len = 100, .text = "hello"},
    {.op = DISK_STAT, .path = "a", .size = 5},
    {.op = DISK_CLOSE},
    {.op = DISK_OPEN, .path = "a", .flags = RDWR_NEW | DISK_EXCL, .want = ERR_EXISTS},
    {.op = DISK_OPEN, .path = "a", .flags = DISK_RDONLY, .size = 5},
    {.op = DISK_READ, .at = 1, .len = 3, .text = "ell"},
    {.op = DISK_CLOSE},
    {.op = DISK_OPEN, .path = "a", .flags = DISK_RDWR | DISK_TRUNC, .size = 0},
    {.op = DISK_WRITE, .at = 3, .text = "x"},
    {.op = DISK_STAT, .path = "a", .size = 4},
    {.op = DISK_CLOSE},
    {.op = DISK_MKDIR, .path = "t"},
    {.op = DISK_MKDIR, .path = "t"},
    {.op = DISK_STAT, .path = "t", .is_dir = true},
    {.op = DISK_STAT, .path = "t/none", .want = ERR_NOT_FOUND},
    {.op = DISK_MKDIR, .path = "none/deep", .want = ERR_NOT_FOUND},
    {.op = DISK_MKDIR, .path = "a", .want = ERR_EXISTS},
    {.op = DISK_RENAME, .path = "a", .path2 = "t/b"},
    {.op = DISK_STAT, .path = "a", .want = ERR_NOT_FOUND},
    {.op = DISK_RENAME, .path = "a", .path2 = "t/c", .want = ERR_NOT_FOUND},
    {.op = DISK_OPEN, .path = "t/c", .flags = RDWR_NEW},
    {.op = DISK_WRITE, .at = 0, .text = "four"},
    {.op = DISK_CLOSE},
    {.op = DISK_MKDIR, .path = "t/sub"},
    {.op = DISK_SYNC, .path = "t"},
    {.op = DISK_LIST, .path = "t", .text = "b:4 c:4 sub/"},
    {.op = DISK_RENAME, .path = "t/c", .path2 = "t/b"},
    {.op = DISK_LIST, .path = "t", .text = "b:4 sub/"},
    {.op = DISK_OPEN, .path = "t/b", .flags = DISK_RDONLY, .size = 4},
    {.op = DISK_READ, .at = 0, .len = 9, .text = "four"},
    {.op = DISK_UNLINK, .path = "t/b"},
    {.op = DISK_READ, .at = 0, .len = 9, .text = "four"},        /* an open file outlives its name */
    {.op = DISK_CLOSE},
    {.op = DISK_UNLINK, .path = "t/b", .want = ERR_NOT_FOUND},
    {.op = DISK_OPEN, .path = "t/sub/deep", .flags = RDWR_NEW},
    {.op = DISK_CLOSE},
    {.op = DISK_OPEN, .path = "t/e", .flags = RDWR_NEW},
    {.op = DISK_CLOSE},
    {.op = DISK_RENAME, .path = "t", .path2 = "t.gone"},
    {.op = DISK_LIST, .path = "t", .want = ERR_NOT_FOUND},
    {.op = DISK_LIST, .path = ".", .text = "t.gone/"},
    {.op = DISK_RMTREE, .path = "t.gone"},
    {.op = DISK_RMTREE, .path = "t.gone", .want = ERR_NOT_FOUND},
    {.op = DISK_LIST, .path = ".", .text = ""},
    {.op = DISK_PUT, .path = "p", .flags = DISK_RDWR | DISK_CREATE | DISK_EXCL, .text = "whole"},
    {.op = DISK_PUT, .path = "p", .flags = DISK_RDWR | DISK_CREATE | DISK_EXCL, .text = "another", .want = ERR_EXISTS},
    {.op = DISK_PUT, .path = "none/p", .flags = DISK_RDWR | DISK_CREATE, .text = "lost", .want = ERR_NOT_FOUND},
    {.op = DISK_LIST, .path = ".", .text = "p:5"},
    {.op = DISK_PUT, .path = "p", .flags = DISK_RDWR | DISK_CREATE | DISK_TRUNC, .text = "new"},
    {.op = DISK_OPEN, .path = "p", .flags = DISK_RDONLY, .size = 3},
    {.op = DISK_FORGET, .at = 0},
    {.op = DISK_AHEAD, .at = 0, .len = 3},
    {.op = DISK_READ, .at = 0, .len = 9, .text = "new"},
    {.op = DISK_CLOSE},
    {.op = DISK_OPEN, .path = "p", .flags = DISK_RDWR, .size = 3},
    {.op = DISK_ROOM, .at = 3, .len = 100000},
    {.op = DISK_READ, .at = 0, .len = 9, .text = "new"},
    {.op = DISK_CLOSE},
    {.op = DISK_OPEN, .path = "p", .flags = DISK_RDONLY, .size = 3},
    {.op = DISK_CLOSE},
    {.op = DISK_UNLINK, .path = "p"},
    {.op = DISK_SYNCFS},
    {.op = DISK_SPACE, .size = 1},
    {.op = DISK_LOCK, .path = ".lock"},
};
#define STEPS (sizeof script / sizeof script[0])

static struct {
    struct port *port;
    struct disk_req rq;
    struct disk_file *file;
    struct iovec iov;
    const char *dir;
    char buf[128];
    size_t i;
    bool is_inside;                    /* inside disk_submit */
} sc;

static void make(const struct step *st, struct disk_req *rq) {
    *rq = (struct disk_req){.op = st->op, .lane = (enum disk_lane)(sc.i % DISK_LANES), .path = st->path, .path2 = st->path2,
                            .flags = st->flags, .file = sc.file, .at = st->at, .buf = sc.buf, .len = st->len};
    if (st->op == DISK_OPEN) {
        rq->file = NULL;
    }
    if (st->op == DISK_WRITE || st->op == DISK_PUT) {
        sc.iov = (struct iovec){.iov_base = (void *)(uintptr_t)st->text, .iov_len = strlen(st->text)};
        rq->iov = &sc.iov;
        rq->iov_n = 1;
    }
    if (st->op == DISK_SYNC) {
        sc.dir = st->path;
        rq->files = &sc.file;
        rq->files_n = st->path ? 0 : 1;
        rq->dirs = &sc.dir;
        rq->dirs_n = st->path ? 1 : 0;
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct disk_entry *)a)->name, ((const struct disk_entry *)b)->name);
}

static void check_list(const struct step *st, struct disk_req *rq) {
    char all[256] = "";
    size_t at = 0;
    if (rq->entries_n > 0) {
        qsort(rq->entries, rq->entries_n, sizeof *rq->entries, by_name);
    }
    for (size_t i = 0; i < rq->entries_n; i++) {
        const struct disk_entry *e = &rq->entries[i];
        const char *space = i > 0 ? " " : "";
        int n = e->is_dir ? snprintf(all + at, sizeof all - at, "%s%s/", space, e->name)
                          : snprintf(all + at, sizeof all - at, "%s%s:%lld", space, e->name, (long long)e->size);
        at += (size_t)n;
    }
    ck_assert_str_eq(all, st->text);
    disk_entries_free(rq->entries, rq->entries_n);
}

static void check(const struct step *st, struct disk_req *rq) {
    ck_assert_msg(rq->err == st->want, "step %zu: %s, expected %s", sc.i, err_name(rq->err), err_name(st->want));
    if (rq->err != ERR_OK) {
        return;
    }
    switch (st->op) {
    case DISK_OPEN:
        ck_assert_int_eq(rq->size, st->size);
        sc.file = rq->file;
        break;
    case DISK_READ:
        ck_assert_uint_eq(rq->did, strlen(st->text));
        ck_assert_int_eq(memcmp(sc.buf, st->text, rq->did), 0);
        break;
    case DISK_WRITE:
    case DISK_PUT:
        ck_assert_uint_eq(rq->did, strlen(st->text));
        break;
    case DISK_STAT:
        ck_assert(rq->is_dir == st->is_dir);
        ck_assert(st->is_dir || rq->size == st->size);
        break;
    case DISK_SPACE:
        ck_assert_int_ge(rq->size, st->size);
        break;
    case DISK_LIST:
        check_list(st, rq);
        break;
    default:
        break;
    }
}

static void stop_turn(void *u) {
    struct port *p = u;
    p->stop(p);
}

static void call_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    struct port *p = ports[0];
    for (sc.i = 0; sc.i < STEPS; sc.i++) {
        make(&script[sc.i], &sc.rq);
        ck_assert(disk_call(p->disk, &sc.rq) == sc.rq.err);
        check(&script[sc.i], &sc.rq);
    }
    p->on_turn(p, stop_turn, p);
    p->again(p);
}

START_TEST(each_operation_by_call) {
    ck_assert(rig->run(1, call_boot, NULL));
    ck_assert_uint_eq(sc.i, STEPS);
}
END_TEST

static void submit_step(void);

static void step_done(struct disk_req *rq) {
    ck_assert(!sc.is_inside);
    check(&script[sc.i], rq);
    if (++sc.i < STEPS) {
        submit_step();
    }
}

static void submit_step(void) {
    make(&script[sc.i], &sc.rq);
    sc.rq.done = step_done;
    sc.is_inside = true;
    disk_submit(sc.port->disk, &sc.rq);
    sc.is_inside = false;
}

/* Each completion brings a turn: the last one finds the script at its end. */
static void script_turn(void *u) {
    struct port *p = u;
    if (sc.i == STEPS) {
        p->stop(p);
    }
}

static void submit_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    sc.port = ports[0];
    ports[0]->on_turn(ports[0], script_turn, ports[0]);
    submit_step();
}

START_TEST(each_operation_by_submit) {
    ck_assert(rig->run(1, submit_boot, NULL));
    ck_assert_uint_eq(sc.i, STEPS);
}
END_TEST

/* --- one lane is a queue ----------------------------------------------------------------------- */

#define QUEUED 300

static struct {
    struct disk_req rq[DISK_LANES][QUEUED];
    int next[DISK_LANES];
    bool is_wrong;
} q;

static void queue_done(struct disk_req *rq) {
    int *next = &q.next[rq->lane];
    q.is_wrong = q.is_wrong || rq != &q.rq[rq->lane][*next] || rq->err != ERR_NOT_FOUND;
    ++*next;
}

static void queue_turn(void *u) {
    struct port *p = u;
    if (q.next[0] == QUEUED && q.next[1] == QUEUED && q.next[2] == QUEUED) {
        p->stop(p);
    }
}

static void queue_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    ports[0]->on_turn(ports[0], queue_turn, ports[0]);
    for (int i = 0; i < QUEUED; i++) {
        for (int lane = 0; lane < DISK_LANES; lane++) {
            q.rq[lane][i] = (struct disk_req){.op = DISK_STAT, .lane = (enum disk_lane)lane, .path = "none", .done = queue_done};
            disk_submit(ports[0]->disk, &q.rq[lane][i]);
        }
    }
}

START_TEST(lane_completes_in_order_of_submission) {
    ck_assert(rig->run(1, queue_boot, NULL));
    ck_assert(!q.is_wrong);
}
END_TEST

/* --- a gathered write of more pieces than one system call takes -------------------------------- */

#define PIECES 2500
#define PIECE_BYTES 37

static struct {
    uint8_t out[PIECES * PIECE_BYTES], in[PIECES * PIECE_BYTES + 1];
    struct iovec iov[PIECES + 2];
} gw;

static void gather_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    struct disk *d = ports[0]->disk;
    size_t n = 0;
    for (size_t i = 0; i < sizeof gw.out; i++) {
        gw.out[i] = (uint8_t)(i * 31 + i / 251);
    }
    for (size_t i = 0; i < PIECES; i++) {
        if (i == 0 || i == PIECES / 2) {
            gw.iov[n++] = (struct iovec){.iov_base = gw.out};          /* an empty piece is no obstacle */
        }
        gw.iov[n++] = (struct iovec){.iov_base = gw.out + i * PIECE_BYTES, .iov_len = PIECE_BYTES};
    }
    struct disk_req op = {.op = DISK_OPEN, .path = "g", .flags = RDWR_NEW};
    ck_assert(disk_call(d, &op) == ERR_OK);
    struct disk_req wr = {.op = DISK_WRITE, .file = op.file, .at = 5, .iov = gw.iov, .iov_n = n};
    ck_assert(disk_call(d, &wr) == ERR_OK);
    ck_assert_uint_eq(wr.did, sizeof gw.out);
    struct disk_req rd = {.op = DISK_READ, .file = op.file, .at = 5, .buf = gw.in, .len = sizeof gw.in};
    ck_assert(disk_call(d, &rd) == ERR_OK);
    ck_assert_uint_eq(rd.did, sizeof gw.out);
    ck_assert_int_eq(memcmp(gw.in, gw.out, sizeof gw.out), 0);
    struct disk_req cl = {.op = DISK_CLOSE, .file = op.file};
    ck_assert(disk_call(d, &cl) == ERR_OK);
    ports[0]->on_turn(ports[0], stop_turn, ports[0]);
    ports[0]->again(ports[0]);
}

START_TEST(write_of_more_pieces_than_iov_max) {
    ck_assert(rig->run(1, gather_boot, NULL));
}
END_TEST

/* --- lanes never wait for each other ----------------------------------------------------------- */

static struct {
    struct port *port;
    struct disk_file *file;
    struct disk_req open, sync, write, read;
    struct iovec iov;
    char buf[8];
    bool sync_done, write_done, read_done, early, finished;
} ln;

static void lanes_closed(struct disk_req *rq) {
    ck_assert(rq->err == ERR_OK);
    ln.finished = true;
}

static void lanes_sync_done(struct disk_req *rq) {
    ck_assert(rq->err == ERR_OK);
    ln.sync_done = true;
    ln.open = (struct disk_req){.op = DISK_CLOSE, .lane = DISK_LANE_WRITE, .file = ln.file, .done = lanes_closed};
    disk_submit(ln.port->disk, &ln.open);
}

/* The sync was submitted first and is still on its way: let it go. */
static void lanes_read_done(struct disk_req *rq) {
    ck_assert(rq->err == ERR_OK);
    ck_assert_uint_eq(rq->did, 4);
    ln.read_done = true;
    ln.early = ln.write_done && !ln.sync_done;
    rig->hold_syncs(false);
}

static void lanes_write_done(struct disk_req *rq) {
    ck_assert(rq->err == ERR_OK);
    ln.write_done = true;
    ln.read = (struct disk_req){.op = DISK_READ, .lane = DISK_LANE_READ, .file = ln.file, .buf = ln.buf, .len = 8,
                                .done = lanes_read_done};
    disk_submit(ln.port->disk, &ln.read);
}

static void lanes_open_done(struct disk_req *rq) {
    ck_assert(rq->err == ERR_OK);
    ln.file = rq->file;
    rig->hold_syncs(true);
    ln.sync = (struct disk_req){.op = DISK_SYNC, .lane = DISK_LANE_SYNC, .files = &ln.file, .files_n = 1, .done = lanes_sync_done};
    disk_submit(ln.port->disk, &ln.sync);
    ln.iov = (struct iovec){.iov_base = (void *)(uintptr_t)"data", .iov_len = 4};
    ln.write = (struct disk_req){.op = DISK_WRITE, .lane = DISK_LANE_WRITE, .file = ln.file, .iov = &ln.iov, .iov_n = 1,
                                 .done = lanes_write_done};
    disk_submit(ln.port->disk, &ln.write);
}

static void lanes_turn(void *u) {
    struct port *p = u;
    if (ln.finished) {
        p->stop(p);
    }
}

static void lanes_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    ln.port = ports[0];
    ports[0]->on_turn(ports[0], lanes_turn, ports[0]);
    ln.open = (struct disk_req){.op = DISK_OPEN, .path = "l", .flags = RDWR_NEW, .done = lanes_open_done};
    disk_submit(ports[0]->disk, &ln.open);
}

START_TEST(write_and_read_complete_while_a_sync_hangs) {       /* DESIGN 4; T19 */
    if (!rig->hold_syncs) {
        return;
    }
    ck_assert(rig->run(1, lanes_boot, NULL));
    ck_assert(ln.early);
    ck_assert(ln.sync_done);
}
END_TEST

/* --- whole files ------------------------------------------------------------------------------- */

static void whole_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    struct disk *d = ports[0]->disk;
    void *buf = NULL;
    size_t n = 99;
    ck_assert(disk_read_all(d, "w", 100, &buf, &n) == ERR_NOT_FOUND);
    ck_assert(!buf && n == 99);
    ck_assert(disk_replace_all(d, "w", "first", 5) == ERR_OK);
    ck_assert(disk_replace_all(d, "w", "2nd", 3) == ERR_OK);
    ck_assert(disk_read_all(d, "w", 2, &buf, &n) == ERR_LIMIT);
    ck_assert(!buf && n == 99);
    ck_assert(disk_read_all(d, "w", 3, &buf, &n) == ERR_OK);
    ck_assert_uint_eq(n, 3);
    ck_assert_str_eq(buf, "2nd");
    mem_free(buf);
    ck_assert(disk_replace_all(d, "w", "", 0) == ERR_OK);
    ck_assert(disk_read_all(d, "w", 0, &buf, &n) == ERR_OK);
    ck_assert_uint_eq(n, 0);
    mem_free(buf);
    struct disk_req ls = {.op = DISK_LIST, .path = "."};
    ck_assert(disk_call(d, &ls) == ERR_OK);
    ck_assert_uint_eq(ls.entries_n, 1);                        /* no temporary file is left */
    disk_entries_free(ls.entries, ls.entries_n);
    ck_assert(disk_replace_all(d, "none/w", "x", 1) == ERR_NOT_FOUND);
    ports[0]->on_turn(ports[0], stop_turn, ports[0]);
    ports[0]->again(ports[0]);
}

START_TEST(whole_files_are_read_and_replaced) {
    ck_assert(rig->run(1, whole_boot, NULL));
}
END_TEST

TCase *contract_disk(const struct contract_rig *r) {
    rig = r;
    TCase *tc = tcase_create("disk");
    tcase_add_test(tc, each_operation_by_call);
    tcase_add_test(tc, each_operation_by_submit);
    tcase_add_test(tc, lane_completes_in_order_of_submission);
    tcase_add_test(tc, write_of_more_pieces_than_iov_max);
    tcase_add_test(tc, write_and_read_complete_while_a_sync_hangs);
    tcase_add_test(tc, whole_files_are_read_and_replaced);
    return tc;
}
