/* Goal: after a power loss each directory shows a prefix of the changes made to it, at least those a sync covered, and a rename between
 * two directories happened in both or in neither (T3). Method: random changes in three directories against a naive twin that tries all
 * combinations of prefixes. */
#include "dir_sim.h"

#include <stdio.h>
#include <string.h>

#include "crash_sim.h"
#include "run.h"
#include "snap_sim.h"

enum { DIRS = 3, NAMES = 4, OPS = 8, ABSENT = 0 };

/* names[i] is the id of the inode that name i stands for. */
struct view {
    uint64_t names[NAMES];
};

struct change {                  /* one change of one directory */
    int del, add;                /* names, or -1 */
    uint64_t id;
    int twin_dir;                /* of a rename between directories; -1 */
    int number;                  /* the same for both halves */
};

static struct {
    struct prng r;
    struct fs_sim fs;
    struct view base[DIRS];      /* what is surely durable */
    struct change ops[DIRS][OPS];
    int n[DIRS];
    int numbers;
    int lost, kept, part, splits;
} m;

static const char *const dir_names[DIRS] = {"a", "b", "c"};

static void path_of(char *buf, size_t cap, int dir, int name) {
    ck_assert_int_lt(snprintf(buf, cap, "%s/%c", dir_names[dir], 'p' + name), (int)cap);
}

static void apply(struct view *v, const struct change *c) {
    if (c->del >= 0) {
        v->names[c->del] = ABSENT;
    }
    if (c->add >= 0) {
        v->names[c->add] = c->id;
    }
}

static struct view seen(int dir) {
    struct view v = {0};
    struct fs_inode *d;
    ck_assert(dir_sim_find(&m.fs, dir_names[dir], &d) == ERR_OK);
    for (size_t i = 0; i < d->now.n; i++) {
        v.names[d->now.v[i].name[0] - 'p'] = d->now.v[i].ino->id;
    }
    return v;
}

static struct view prefix(int dir, int n) {
    struct view v = m.base[dir];
    for (int i = 0; i < n; i++) {
        apply(&v, &m.ops[dir][i]);
    }
    return v;
}

static bool same(struct view a, struct view b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

static void log_change(int dir, int del, int add, uint64_t id, int twin_dir) {
    m.ops[dir][m.n[dir]++] = (struct change){del, add, id, twin_dir, m.numbers};
}

static void create(int dir, int name) {
    char path[16];
    struct fs_inode *ino;
    path_of(path, sizeof path, dir, name);
    err e = dir_sim_create(&m.fs, path, false, &ino);
    if (e == ERR_OK) {
        m.numbers++;
        log_change(dir, -1, name, ino->id, -1);
    }
}

static void unlink_it(int dir, int name) {
    char path[16];
    path_of(path, sizeof path, dir, name);
    if (dir_sim_unlink(&m.fs, path) == ERR_OK) {
        m.numbers++;
        log_change(dir, name, -1, ABSENT, -1);
    }
}

static void rename_it(int from, int name, int to, int name2) {
    char a[16], b[16];
    uint64_t id = prefix(from, m.n[from]).names[name];
    path_of(a, sizeof a, from, name);
    path_of(b, sizeof b, to, name2);
    err e = dir_sim_rename(&m.fs, a, b);
    ck_assert(e == (id == ABSENT ? ERR_NOT_FOUND : ERR_OK));
    if (e != ERR_OK || (from == to && name == name2)) {
        return;
    }
    m.numbers++;
    if (from == to) {
        log_change(from, name, name2, id, -1);
    } else {
        log_change(from, name, -1, ABSENT, to);
        log_change(to, -1, name2, id, from);
    }
}

/* The first n changes of dir are durable from now on, and what must come along. */
static void settle(int dir, int n) {
    for (int i = 0; i < n; i++) {
        struct change c = m.ops[dir][0];
        apply(&m.base[dir], &c);
        memmove(m.ops[dir], m.ops[dir] + 1, (size_t)--m.n[dir] * sizeof c);
        if (c.twin_dir >= 0) {
            int t = c.twin_dir, k = 0;
            while (k < m.n[t] && m.ops[t][k].number < c.number) {
                k++;
            }
            bool there = k < m.n[t] && m.ops[t][k].number == c.number;
            settle(t, there ? k + 1 : 0);
        }
    }
}

static void sync_dir(int dir) {
    struct fs_inode *d;
    ck_assert(dir_sim_find(&m.fs, dir_names[dir], &d) == ERR_OK);
    struct snap_sim *s = snap_sim_new(&m.fs);
    snap_sim_add(s, d);
    snap_sim_commit(s);
    snap_sim_free(s);
    settle(dir, m.n[dir]);
}

/* Whether all renames between directories are in both prefixes or in none. */
static bool agree(const int k[DIRS]) {
    for (int d = 0; d < DIRS; d++) {
        for (int i = 0; i < m.n[d]; i++) {
            int t = m.ops[d][i].twin_dir;
            for (int j = 0; t >= 0 && j < m.n[t]; j++) {
                if (m.ops[t][j].number == m.ops[d][i].number && (i < k[d]) != (j < k[t])) {
                    return false;
                }
            }
        }
    }
    return true;
}

static bool explains(const struct view got[DIRS], int k[DIRS]) {
    for (k[0] = 0; k[0] <= m.n[0]; k[0]++) {
        for (k[1] = 0; k[1] <= m.n[1]; k[1]++) {
            for (k[2] = 0; k[2] <= m.n[2]; k[2]++) {
                if (agree(k) && same(got[0], prefix(0, k[0])) && same(got[1], prefix(1, k[1])) && same(got[2], prefix(2, k[2]))) {
                    return true;
                }
            }
        }
    }
    return false;
}

static void power_loss(void) {
    crash_sim_power(&m.fs);
    struct view got[DIRS];
    int k[DIRS];
    for (int d = 0; d < DIRS; d++) {
        got[d] = seen(d);
    }
    ck_assert_msg(explains(got, k), "no prefixes explain what is left");
    for (int d = 0; d < DIRS; d++) {
        m.lost += m.n[d] > 0 && k[d] == 0;
        m.kept += m.n[d] > 0 && k[d] == m.n[d];
        m.part += k[d] > 0 && k[d] < m.n[d];
        m.base[d] = got[d];
        m.n[d] = 0;
    }
}

static bool full(void) {
    return m.n[0] >= OPS - 1 || m.n[1] >= OPS - 1 || m.n[2] >= OPS - 1;
}

static void step(void) {
    int dir = (int)prng_below(&m.r, DIRS), name = (int)prng_below(&m.r, NAMES);
    int dir2 = (int)prng_below(&m.r, DIRS), name2 = (int)prng_below(&m.r, NAMES);
    switch (full() ? 9 : prng_below(&m.r, 10)) {
    case 0:
    case 1:
    case 2:
        create(dir, name);
        break;
    case 3:
        unlink_it(dir, name);
        break;
    case 4:
    case 5:
    case 6:
        rename_it(dir, name, dir2, name2);
        break;
    case 7:
        sync_dir(dir);
        break;
    default:
        if (full() || prng_chance(&m.r, 1, 5)) {
            power_loss();
        }
        break;
    }
    for (int d = 0; d < DIRS; d++) {
        ck_assert(same(seen(d), prefix(d, m.n[d])));
    }
}

START_TEST(power_loss_keeps_a_prefix_of_each_directory) {
    for (uint64_t seed = 1; seed <= 200; seed++) {
        prng_seed(&m.r, seed);
        fs_sim_init(&m.fs, &m.r);
        memset(m.base, 0, sizeof m.base);
        memset(m.n, 0, sizeof m.n);
        for (int d = 0; d < DIRS; d++) {
            struct fs_inode *ino;
            ck_assert(dir_sim_create(&m.fs, dir_names[d], true, &ino) == ERR_OK);
        }
        dir_sim_commit(m.fs.root, m.fs.ver);
        for (int k = 0; k < 200; k++) {
            step();
        }
        fs_sim_done(&m.fs);
    }
    ck_assert_int_gt(m.lost, 100);
    ck_assert_int_gt(m.kept, 100);
    ck_assert_int_gt(m.part, 100);
}
END_TEST

/* A file whose data was synced but whose name was not may vanish; synced name and data stay. */
START_TEST(synced_data_without_a_synced_name_may_vanish) {
    int there = 0, gone = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        prng_seed(&m.r, seed);
        fs_sim_init(&m.fs, &m.r);
        struct fs_inode *ino, *found;
        ck_assert(dir_sim_create(&m.fs, "f", false, &ino) == ERR_OK);
        struct iovec iov = {"x", 1};
        ck_assert_uint_eq(fs_sim_write(ino, 0, &iov, 1, INT64_MAX / 2), 1);
        struct snap_sim *s = snap_sim_new(&m.fs);
        snap_sim_add(s, ino);
        snap_sim_commit(s);
        snap_sim_free(s);
        crash_sim_power(&m.fs);
        err e = dir_sim_find(&m.fs, "f", &found);
        there += e == ERR_OK && found->size == 1;
        gone += e == ERR_NOT_FOUND;
        fs_sim_done(&m.fs);
    }
    ck_assert_int_eq(there + gone, 50);
    ck_assert_int_gt(there, 5);
    ck_assert_int_gt(gone, 5);
}
END_TEST

/* Removing a tree is many changes: what is left after a crash is a tree with any prefix of them, or none at all. */
START_TEST(removed_tree_may_come_back_in_part) {
    int whole = 0, part = 0, gone = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        prng_seed(&m.r, seed);
        fs_sim_init(&m.fs, &m.r);
        struct fs_inode *ino;
        ck_assert(dir_sim_create(&m.fs, "t", true, &ino) == ERR_OK);
        ck_assert(dir_sim_create(&m.fs, "t/sub", true, &ino) == ERR_OK);
        ck_assert(dir_sim_create(&m.fs, "t/x", false, &ino) == ERR_OK);
        ck_assert(dir_sim_create(&m.fs, "t/y", false, &ino) == ERR_OK);
        ck_assert(dir_sim_create(&m.fs, "t/sub/z", false, &ino) == ERR_OK);
        struct snap_sim *s = snap_sim_new(&m.fs);
        snap_sim_add_all(s, &m.fs);
        snap_sim_commit(s);
        snap_sim_free(s);
        ck_assert(dir_sim_rmtree(&m.fs, "t") == ERR_OK);
        ck_assert(dir_sim_find(&m.fs, "t", &ino) == ERR_NOT_FOUND);
        crash_sim_power(&m.fs);
        err e = dir_sim_find(&m.fs, "t", &ino);
        gone += e == ERR_NOT_FOUND;
        whole += e == ERR_OK && ino->now.n == 3;
        part += e == ERR_OK && ino->now.n < 3;
        fs_sim_done(&m.fs);
    }
    ck_assert_int_gt(whole, 10);
    ck_assert_int_gt(part, 10);
    ck_assert_int_gt(gone, 10);
}
END_TEST

int main(void) {
    return run("dir_sim", TESTS(power_loss_keeps_a_prefix_of_each_directory, synced_data_without_a_synced_name_may_vanish,
                                removed_tree_may_come_back_in_part), NULL);
}
