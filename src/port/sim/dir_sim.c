/* Directories of the simulated file system.
 *
 * Happy path: a change shows at once in `now` and waits as an operation; dir_sim_commit applies operations to `dur` in order.
 * Failure modes: NOT_FOUND, EXISTS. A rename between directories is two operations, twins; neither reaches the platter alone.
 * Runs on: the world's thread. */
#include "dir_sim.h"

#include <string.h>

#include "base/must.h"
#include "world_mem.h"

/* Place of name (n bytes), or where it would go. */
static bool names_find(const struct fs_names *ns, const char *name, size_t n, size_t *ret_i) {
    size_t lo = 0, hi = ns->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        int c = strncmp(ns->v[mid].name, name, n);
        if (c == 0 && ns->v[mid].name[n] != 0) {
            c = 1;
        }
        if (c == 0) {
            *ret_i = mid;
            return true;
        }
        if (c < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    *ret_i = lo;
    return false;
}

/* Returns what the name stood for, its reference now the caller's; NULL when it was not there. */
static struct fs_inode *names_del(struct fs_names *ns, const char *name) {
    size_t i;
    if (!names_find(ns, name, strlen(name), &i)) {
        return NULL;
    }
    struct fs_inode *ino = ns->v[i].ino;
    mem_free(ns->v[i].name);
    memmove(ns->v + i, ns->v + i + 1, (--ns->n - i) * sizeof *ns->v);
    return ino;
}

static void names_add(struct fs_names *ns, const char *name, struct fs_inode *ino) {
    size_t i;
    must(!names_find(ns, name, strlen(name), &i));
    if (ns->n == ns->cap) {
        ns->cap = ns->cap ? ns->cap * 2 : 8;
        ns->v = world_mem_grow(ns->v, ns->cap * sizeof *ns->v);
    }
    memmove(ns->v + i + 1, ns->v + i, (ns->n++ - i) * sizeof *ns->v);
    ns->v[i] = (struct fs_name){world_mem_str(name), fs_sim_ref(ino)};
}

static void names_clear(struct fs_names *ns) {
    while (ns->n > 0) {
        struct fs_name *last = &ns->v[--ns->n];
        mem_free(last->name);
        fs_sim_unref(last->ino);
    }
    mem_free(ns->v);
    *ns = (struct fs_names){.v = NULL};
}

/* One step of a path: *path moves behind the component; false at its end. */
static bool step(const char **path, const char **ret_name, size_t *ret_n) {
    const char *p = *path;
    while (*p == '/' || (p[0] == '.' && (p[1] == '/' || p[1] == 0))) {
        p++;
    }
    if (*p == 0) {
        return false;
    }
    *ret_name = p;
    *ret_n = strcspn(p, "/");
    must(!(*ret_n == 2 && p[0] == '.' && p[1] == '.'));
    *path = p + *ret_n;
    return true;
}

err dir_sim_find(struct fs_sim *fs, const char *path, struct fs_inode **ret) {
    struct fs_inode *at = fs->root;
    const char *name;
    size_t n, i;
    while (step(&path, &name, &n)) {
        if (!at->is_dir || !names_find(&at->now, name, n, &i)) {
            return ERR_NOT_FOUND;
        }
        at = at->now.v[i].ino;
    }
    *ret = at;
    return ERR_OK;
}

struct place {                   /* a name in its directory, whether it exists or not */
    struct fs_inode *dir;
    const char *leaf;
    struct fs_inode *ino;        /* NULL: no such name */
};

static err place_of(struct fs_sim *fs, const char *path, struct place *ret) {
    const char *slash = strrchr(path, '/');
    const char *leaf = slash ? slash + 1 : path;
    must(*leaf != 0 && strcmp(leaf, ".") != 0 && strcmp(leaf, "..") != 0);
    char *parent = world_mem_str(path);
    parent[leaf - path] = 0;
    struct fs_inode *dir;
    err e = dir_sim_find(fs, parent, &dir);
    mem_free(parent);
    if (e != ERR_OK || !dir->is_dir) {
        return ERR_NOT_FOUND;
    }
    size_t i;
    *ret = (struct place){dir, leaf, NULL};
    if (names_find(&dir->now, leaf, strlen(leaf), &i)) {
        ret->ino = dir->now.v[i].ino;
    }
    return ERR_OK;
}

static struct fs_dirop *op_new(struct fs_inode *dir, const char *del, const char *add, struct fs_inode *ino) {
    struct fs_dirop *op = world_mem_new(sizeof *op);
    op->ver = dir->fs->ver;
    op->dir = dir;
    op->del = world_mem_str(del);
    op->add = world_mem_str(add);
    op->ino = add ? fs_sim_ref(ino) : NULL;
    list_push_back(&dir->ops, &op->link);
    fs_sim_judge(dir);
    return op;
}

static void op_free(struct fs_dirop *op) {
    list_remove(&op->link);
    if (op->twin) {
        op->twin->twin = NULL;
    }
    if (op->ino) {
        fs_sim_unref(op->ino);
    }
    mem_free(op->del);
    mem_free(op->add);
    mem_free(op);
}

static void show(struct fs_inode *dir, const char *name, struct fs_inode *ino) {
    names_add(&dir->now, name, ino);
    fs_sim_count(ino, 1, 0);
}

static void hide(struct fs_inode *dir, const char *name) {
    struct fs_inode *ino = names_del(&dir->now, name);
    if (ino) {
        fs_sim_count(ino, -1, 0);
        fs_sim_unref(ino);
    }
}

err dir_sim_create(struct fs_sim *fs, const char *path, bool is_dir, struct fs_inode **ret) {
    struct place at;
    err e = place_of(fs, path, &at);
    if (e != ERR_OK || at.ino) {
        return e != ERR_OK ? e : ERR_EXISTS;
    }
    fs->ver++;
    struct fs_inode *ino = fs_sim_inode(fs, is_dir);
    show(at.dir, at.leaf, ino);
    (void)op_new(at.dir, NULL, at.leaf, ino);
    fs_sim_unref(ino);
    *ret = ino;
    return ERR_OK;
}

err dir_sim_unlink(struct fs_sim *fs, const char *path) {
    struct place at;
    err e = place_of(fs, path, &at);
    if (e != ERR_OK || !at.ino) {
        return ERR_NOT_FOUND;
    }
    if (at.ino->is_dir && at.ino->now.n > 0) {
        return ERR_EXISTS;
    }
    fs->ver++;
    (void)op_new(at.dir, at.leaf, NULL, NULL);
    hide(at.dir, at.leaf);
    return ERR_OK;
}

err dir_sim_rename(struct fs_sim *fs, const char *from, const char *to) {
    struct place a, b;
    err e = place_of(fs, from, &a);
    if (e == ERR_OK) {
        e = a.ino ? place_of(fs, to, &b) : ERR_NOT_FOUND;
    }
    if (e != ERR_OK || a.ino == b.ino) {
        return e;
    }
    if (b.ino && (b.ino->is_dir != a.ino->is_dir || b.ino->now.n > 0)) {
        return ERR_EXISTS;
    }
    fs->ver++;
    struct fs_inode *ino = fs_sim_ref(a.ino);
    if (a.dir == b.dir) {
        (void)op_new(a.dir, a.leaf, b.leaf, ino);
    } else {
        struct fs_dirop *goes = op_new(a.dir, a.leaf, NULL, NULL), *comes = op_new(b.dir, NULL, b.leaf, ino);
        goes->twin = comes;
        comes->twin = goes;
    }
    hide(b.dir, b.leaf);
    hide(a.dir, a.leaf);
    show(b.dir, b.leaf, ino);
    fs_sim_unref(ino);
    return ERR_OK;
}

static void empty(struct fs_inode *dir) {
    while (dir->now.n > 0) {
        const struct fs_name *last = &dir->now.v[dir->now.n - 1];
        if (last->ino->is_dir) {
            empty(last->ino);
        }
        dir->fs->ver++;
        (void)op_new(dir, last->name, NULL, NULL);
        hide(dir, last->name);
    }
}

err dir_sim_rmtree(struct fs_sim *fs, const char *path) {
    struct place at;
    err e = place_of(fs, path, &at);
    if (e != ERR_OK || !at.ino) {
        return ERR_NOT_FOUND;
    }
    if (at.ino->is_dir) {
        empty(at.ino);
    }
    return dir_sim_unlink(fs, path);
}

static void forget_name(struct fs_inode *dir, const char *name) {
    struct fs_inode *gone = names_del(&dir->dur, name);
    if (gone) {
        fs_sim_unref(gone);
    }
}

static void op_apply(struct fs_dirop *op) {
    if (op->del) {
        forget_name(op->dir, op->del);
    }
    if (op->add) {
        forget_name(op->dir, op->add);
        names_add(&op->dir->dur, op->add, op->ino);
    }
}

/* The twin's directory catches up with all that came before the rename, then both halves are applied as one. */
void dir_sim_commit(struct fs_inode *dir, uint64_t ver) {
    (void)fs_sim_ref(dir);
    while (!list_empty(&dir->ops)) {
        struct fs_dirop *op = list_entry(dir->ops.next, struct fs_dirop, link);
        if (op->ver > ver) {
            break;
        }
        struct fs_dirop *twin = op->twin;
        if (twin) {
            dir_sim_commit(twin->dir, twin->ver - 1);
            op_apply(twin);
        }
        op_apply(op);
        if (twin) {
            struct fs_inode *other = twin->dir;
            (void)fs_sim_ref(other);
            op_free(twin);
            fs_sim_judge(other);
            fs_sim_unref(other);
        }
        op_free(op);
    }
    fs_sim_judge(dir);
    fs_sim_unref(dir);
}

void dir_sim_revert(struct fs_inode *dir) {
    while (!list_empty(&dir->ops)) {
        op_free(list_entry(dir->ops.next, struct fs_dirop, link));
    }
    struct fs_names former = dir->now;
    dir->now = (struct fs_names){.v = NULL};
    for (size_t i = 0; i < dir->dur.n; i++) {
        names_add(&dir->now, dir->dur.v[i].name, dir->dur.v[i].ino);
    }
    names_clear(&former);
    fs_sim_judge(dir);
}

void dir_sim_clear(struct fs_inode *dir) {
    while (!list_empty(&dir->ops)) {
        op_free(list_entry(dir->ops.next, struct fs_dirop, link));
    }
    names_clear(&dir->now);
    names_clear(&dir->dur);
}
