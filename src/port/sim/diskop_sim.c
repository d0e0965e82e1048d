/* Each disk_op on the simulated file system, with everything that can go wrong with it.
 *
 * Happy path: planned failures and chance are asked first; then the operation's function does it and sets the outputs.
 * Failure modes: a failed write has written a prefix and perhaps a little more than it admits; a failed sync leaves its pages clean whether
 * they reached the platter or not, and syncing that descriptor again fails the run (DESIGN 4); everything else has not happened.
 * Wrong use (a path with "..", a closed file, a write through a read-only file) is a broken invariant of the caller.
 * Runs on: the world's thread. */
#include "diskop_sim.h"

#include <stdio.h>
#include <string.h>

#include "base/crc.h"
#include "base/must.h"
#include "dir_sim.h"

#define NO_LIMIT (INT64_MAX / 2)

struct lock {
    struct list link;            /* node's locks */
    char *path;
};

const char *diskop_sim_path(const struct disk_req *rq) {
    switch (rq->op) {
    case DISK_CLOSE:
    case DISK_WRITE:
    case DISK_READ:
    case DISK_TRUNCATE:
    case DISK_FORGET:
    case DISK_AHEAD:
    case DISK_ROOM:
        return rq->file->path;
    case DISK_SYNC:
        return rq->files_n > 0 ? rq->files[0]->path : rq->dirs_n > 0 ? rq->dirs[0] : NULL;
    case DISK_SYNCFS:
    case DISK_SPACE:
        return NULL;
    default:
        return rq->path;
    }
}

struct facts {                   /* numbers of a trace line */
    int64_t a, b, c;
};

static void trace(const struct diskop_sim *x, enum trace_kind kind, const char *name, struct facts f) {
    world_sim_trace(x->n->w, &(struct trace_ev){
        .kind = kind, .node = x->n->id, .shard = x->shard, .name = name, .a = f.a, .b = f.b, .c = f.c});
}

static void trace_fault(const struct diskop_sim *x, const char *what, int64_t detail, err e) {
    trace(x, TRACE_DISK_FAULT, what, (struct facts){x->rq->op, detail, e});
}

static int64_t space(const struct diskop_sim *x) {
    return x->outside ? NO_LIMIT : x->n->w->faults.space_bytes;
}

static struct disk_file *file_open(struct diskop_sim *x, struct fs_inode *ino) {
    struct disk_file *f = world_mem_new(sizeof *f);
    f->node = x->n;
    f->ino = fs_sim_ref(ino);
    f->path = world_mem_str(x->rq->path);
    f->writable = (x->rq->flags & DISK_RDWR) != 0;
    f->outside = x->outside;
    fs_sim_count(ino, 0, 1);
    list_push_back(&x->n->files, &f->link);
    x->n->files_n += x->outside ? 0 : 1;
    return f;
}

static ms wall(const struct diskop_sim *x) {
    return (x->n->w->now + x->n->wall_base) / 1000;
}

/* The inode to be opened, made when asked for. */
static err find_or_create(struct diskop_sim *x, struct fs_inode **ret) {
    uint32_t flags = x->rq->flags;
    err e = dir_sim_find(&x->n->fs, x->rq->path, ret);
    if (e == ERR_NOT_FOUND && (flags & DISK_CREATE)) {
        e = dir_sim_create(&x->n->fs, x->rq->path, false, ret);
        if (e == ERR_OK) {
            (*ret)->mtime = wall(x);
        }
        return e;
    }
    if (e == ERR_OK && (flags & DISK_CREATE) && (flags & DISK_EXCL)) {
        return ERR_EXISTS;
    }
    if (e == ERR_OK && (*ret)->is_dir) {
        return ERR_IO;
    }
    if (e == ERR_OK && (flags & DISK_TRUNC) && (*ret)->size > 0) {
        fs_sim_truncate(*ret, 0);
    }
    return e;
}

static err op_open(struct diskop_sim *x) {
    if (!x->outside && x->n->files_n >= x->n->w->faults.files_max) {
        return ERR_LIMIT;
    }
    struct fs_inode *ino;
    err e = find_or_create(x, &ino);
    if (e == ERR_OK) {
        x->rq->file = file_open(x, ino);
        x->rq->size = ino->size;
    }
    return e;
}

static void file_close(struct disk_file *f) {
    list_remove(&f->link);
    f->node->files_n -= f->outside ? 0 : 1;
    fs_sim_count(f->ino, 0, -1);
    fs_sim_unref(f->ino);
    mem_free(f->path);
    mem_free(f);
}

static err op_close(struct diskop_sim *x) {
    must(x->rq->file->in_flight == 0);
    file_close(x->rq->file);
    x->rq->file = NULL;
    return ERR_OK;
}

static size_t iov_bytes(const struct disk_req *rq) {
    size_t n = 0;
    for (size_t i = 0; i < rq->iov_n; i++) {
        n += rq->iov[i].iov_len;
    }
    return n;
}

/* At most `most` bytes of the request's, from `at` on. */
static size_t write_into(struct diskop_sim *x, struct fs_inode *ino, size_t most, int64_t at) {
    struct disk_req *rq = x->rq;
    struct iovec stack[16], *iov = rq->iov_n <= 16 ? stack : world_mem_new(rq->iov_n * sizeof *iov);
    size_t n = 0, left = most;
    for (; n < rq->iov_n && left > 0; n++) {
        iov[n] = rq->iov[n];
        iov[n].iov_len = iov[n].iov_len < left ? iov[n].iov_len : left;
        left -= iov[n].iov_len;
    }
    size_t did = fs_sim_write(ino, at, iov, n, space(x));
    ino->mtime = wall(x);
    if (iov != stack) {
        mem_free(iov);
    }
    return did;
}

/* Shifted by so much. */
static size_t write_some(struct diskop_sim *x, size_t most, int64_t shift) {
    return write_into(x, x->rq->file->ino, most, x->rq->at + shift);
}

/* The file is opened, and at most `most` bytes of it are written. */
static err put_some(struct diskop_sim *x, size_t most) {
    struct fs_inode *ino;
    err e = find_or_create(x, &ino);
    if (e == ERR_OK && most > 0) {
        x->rq->did = write_into(x, ino, most, 0);
    }
    return e;
}

static err op_put(struct diskop_sim *x) {
    struct disk_req *rq = x->rq;
    must(rq->flags & DISK_RDWR);
    rq->did = 0;
    if (!x->outside && x->n->files_n >= x->n->w->faults.files_max) {
        return ERR_LIMIT;
    }
    err e = put_some(x, iov_bytes(rq));
    return e != ERR_OK ? e : rq->did == iov_bytes(rq) ? ERR_OK : ERR_NOSPACE;
}

static err op_write(struct diskop_sim *x) {
    struct disk_req *rq = x->rq;
    must(rq->file->writable && rq->at >= 0);
    size_t n = iov_bytes(rq);
    int64_t shift = 0;
    if (!x->outside && world_sim_strikes(x->n->w, x->n->w->faults.write_astray)) {
        shift = FS_PAGE * (int64_t)(1 + prng_below(&x->n->w->rng, 4));
        trace_fault(x, "astray", shift, ERR_OK);
    }
    rq->did = write_some(x, n, shift);
    if (!x->outside && prng_chance(&x->n->w->rng, 1, 32)) {
        fs_sim_write_back(rq->file->ino);
    }
    return rq->did == n ? ERR_OK : ERR_NOSPACE;
}

static err op_read(struct diskop_sim *x) {
    struct disk_req *rq = x->rq;
    must(rq->at >= 0);
    struct fs_inode *ino = rq->file->ino;
    if (!x->outside && rq->len > 0 && rq->at < ino->size && world_sim_strikes(x->n->w, x->n->w->faults.read_rot)) {
        int64_t left = ino->size - rq->at;
        int64_t at = rq->at + (int64_t)prng_below(&x->n->w->rng, (uint64_t)(left < (int64_t)rq->len ? left : (int64_t)rq->len));
        trace_fault(x, "rot", at, ERR_OK);
        fs_sim_flip(ino, at, (uint8_t)(1u << prng_below(&x->n->w->rng, 8)));
    }
    rq->did = fs_sim_read(ino, rq->at, rq->buf, rq->len);
    return ERR_OK;
}

static void refuse_second_sync(struct diskop_sim *x) {
    for (size_t i = 0; i < x->rq->files_n; i++) {
        if (x->rq->files[i]->sync_failed) {
            world_fail(x->n->w, "%s: '%s' synced again after a failed sync", x->n->name, x->rq->files[i]->path);
        }
    }
    if (x->rq->op == DISK_SYNCFS && x->n->syncfs_failed) {
        world_fail(x->n->w, "%s: syncfs again after a failed one", x->n->name);
    }
}

static err dirs_exist(struct diskop_sim *x) {
    for (size_t i = 0; i < x->rq->dirs_n; i++) {
        struct fs_inode *dir;
        err e = dir_sim_find(&x->n->fs, x->rq->dirs[i], &dir);
        if (e != ERR_OK || !dir->is_dir) {
            return e != ERR_OK ? e : ERR_IO;
        }
    }
    return ERR_OK;
}

static err op_sync(struct diskop_sim *x) {
    struct world *w = x->n->w;
    if (!x->outside && world_sim_strikes(w, w->faults.sync_lost)) {
        trace_fault(x, "lost", 0, ERR_OK);
        snap_sim_lie(x->snap, &w->rng);
        return ERR_OK;
    }
    snap_sim_commit(x->snap);
    return dirs_exist(x);
}

static err op_truncate(struct diskop_sim *x) {
    must(x->rq->file->writable && x->rq->at >= 0);
    fs_sim_truncate(x->rq->file->ino, x->rq->at);
    return ERR_OK;
}

static err op_rename(struct diskop_sim *x) {
    return dir_sim_rename(&x->n->fs, x->rq->path, x->rq->path2);
}

static err op_unlink(struct diskop_sim *x) {
    struct fs_inode *ino;
    err e = dir_sim_find(&x->n->fs, x->rq->path, &ino);
    if (e != ERR_OK || ino->is_dir) {
        return e != ERR_OK ? e : ERR_IO;
    }
    return dir_sim_unlink(&x->n->fs, x->rq->path);
}

static err op_mkdir(struct diskop_sim *x) {
    struct fs_inode *ino;
    err e = dir_sim_find(&x->n->fs, x->rq->path, &ino);
    if (e == ERR_OK) {
        return ino->is_dir ? ERR_OK : ERR_EXISTS;
    }
    return e == ERR_NOT_FOUND ? dir_sim_create(&x->n->fs, x->rq->path, true, &ino) : e;
}

static err op_rmtree(struct diskop_sim *x) {
    return dir_sim_rmtree(&x->n->fs, x->rq->path);
}

/* Entries in any order, as readdir gives them, on the heap of whoever asked. */
static err list_dir(const struct fs_inode *dir, struct prng *rng, struct disk_req *rq) {
    size_t n = dir->now.n;
    struct disk_entry *v = mem_zalloc(MEM_DISK, n * sizeof *v);
    for (size_t i = 0; v && i < n; i++) {
        size_t at = (size_t)prng_below(rng, i + 1);
        const struct fs_name *name = &dir->now.v[i];
        v[i] = v[at];
        v[at] = (struct disk_entry){mem_strdup(MEM_DISK, name->name), name->ino->size, name->ino->is_dir, name->ino->mtime};
        if (!v[at].name) {
            disk_entries_free(v, n);
            return ERR_NOMEM;
        }
    }
    rq->entries = v;
    rq->entries_n = v ? n : 0;
    return v ? ERR_OK : ERR_NOMEM;
}

static err op_list(struct diskop_sim *x) {
    struct fs_inode *dir;
    err e = dir_sim_find(&x->n->fs, x->rq->path, &dir);
    if (e != ERR_OK || !dir->is_dir) {
        return e != ERR_OK ? e : ERR_IO;
    }
    bool in_lane = !x->outside && x->n->w->running != x->n;
    struct mem_heap *former = in_lane ? mem_use(x->n->heap) : NULL;
    e = list_dir(dir, &x->n->w->rng, x->rq);
    if (in_lane) {
        (void)mem_use(former);
    }
    return e;
}

static err op_stat(struct diskop_sim *x) {
    struct fs_inode *ino;
    err e = dir_sim_find(&x->n->fs, x->rq->path, &ino);
    if (e == ERR_OK) {
        x->rq->size = ino->is_dir ? FS_PAGE : ino->size;
        x->rq->is_dir = ino->is_dir;
    }
    return e;
}

static err op_space(struct diskop_sim *x) {
    int64_t left = space(x) - x->n->fs.pages_used * FS_PAGE;
    x->rq->size = left > 0 ? left : 0;
    x->rq->total = space(x);
    return ERR_OK;
}

static err op_forget(struct diskop_sim *x) {
    fs_sim_forget(x->rq->file->ino, x->rq->at, x->rq->len);
    return ERR_OK;
}

static err op_ahead(struct diskop_sim *x) {
    must(x->rq->at >= 0);
    return ERR_OK;                                 /* the cache decides when to read, as ever */
}

/* This disk keeps room for nobody. */
static err op_room(struct diskop_sim *x) {
    must(x->rq->at >= 0 && x->rq->len > 0);
    return ERR_OK;
}

static err op_lock(struct diskop_sim *x) {
    list_each(it, &x->n->locks) {
        if (strcmp(list_entry(it, struct lock, link)->path, x->rq->path) == 0) {
            return ERR_LOCKED;
        }
    }
    struct fs_inode *ino;
    err e = dir_sim_find(&x->n->fs, x->rq->path, &ino);
    if (e == ERR_NOT_FOUND) {
        e = dir_sim_create(&x->n->fs, x->rq->path, false, &ino);
    }
    if (e == ERR_OK && !x->outside) {
        struct lock *lk = world_mem_new(sizeof *lk);
        lk->path = world_mem_str(x->rq->path);
        list_push_back(&x->n->locks, &lk->link);
    }
    return e;
}

static const struct {
    err (*run)(struct diskop_sim *x);
    enum trace_kind kind;
} ops[] = {
    [DISK_OPEN] = {op_open, TRACE_DISK_OPEN},           [DISK_CLOSE] = {op_close, TRACE_DISK_CLOSE},
    [DISK_WRITE] = {op_write, TRACE_DISK_WRITE},        [DISK_READ] = {op_read, TRACE_DISK_READ},
    [DISK_SYNC] = {op_sync, TRACE_DISK_SYNC},           [DISK_SYNCFS] = {op_sync, TRACE_DISK_SYNCFS},
    [DISK_TRUNCATE] = {op_truncate, TRACE_DISK_TRUNCATE}, [DISK_RENAME] = {op_rename, TRACE_DISK_RENAME},
    [DISK_UNLINK] = {op_unlink, TRACE_DISK_UNLINK},     [DISK_MKDIR] = {op_mkdir, TRACE_DISK_MKDIR},
    [DISK_RMTREE] = {op_rmtree, TRACE_DISK_RMTREE},     [DISK_LIST] = {op_list, TRACE_DISK_LIST},
    [DISK_STAT] = {op_stat, TRACE_DISK_STAT},           [DISK_SPACE] = {op_space, TRACE_DISK_SPACE},
    [DISK_FORGET] = {op_forget, TRACE_DISK_FORGET},     [DISK_LOCK] = {op_lock, TRACE_DISK_LOCK},
    [DISK_PUT] = {op_put, TRACE_DISK_PUT},              [DISK_AHEAD] = {op_ahead, TRACE_DISK_AHEAD},
    [DISK_ROOM] = {op_room, TRACE_DISK_ROOM},
};

static uint32_t iov_crc(const struct disk_req *rq) {
    uint32_t crc = 0;
    for (size_t i = 0; i < rq->iov_n; i++) {
        crc = crc32c_more(crc, rq->iov[i].iov_base, rq->iov[i].iov_len);
    }
    return crc;
}

/* What is worth telling of a request that was executed. */
static struct facts facts_of(const struct disk_req *rq, err e) {
    bool ok = e == ERR_OK;
    switch (rq->op) {
    case DISK_WRITE:
        return (struct facts){rq->at, (int64_t)rq->did, ok ? (int64_t)iov_crc(rq) : -(int64_t)e};
    case DISK_READ:
        return (struct facts){rq->at, (int64_t)rq->did, ok ? (int64_t)crc32c(rq->buf, rq->did) : -(int64_t)e};
    case DISK_PUT:
        return (struct facts){rq->flags, (int64_t)rq->did, ok ? (int64_t)iov_crc(rq) : -(int64_t)e};
    case DISK_SYNC:
        return (struct facts){(int64_t)rq->files_n, (int64_t)rq->dirs_n, e};
    case DISK_OPEN:
        return (struct facts){rq->flags, ok ? rq->size : 0, e};
    case DISK_TRUNCATE:
    case DISK_FORGET:
    case DISK_AHEAD:
    case DISK_ROOM:
        return (struct facts){rq->at, (int64_t)rq->len, e};
    case DISK_LIST:
        return (struct facts){ok ? (int64_t)rq->entries_n : 0, 0, e};
    case DISK_STAT:
    case DISK_SPACE:
        return (struct facts){ok ? rq->size : 0, 0, e};
    default:
        return (struct facts){0, 0, e};
    }
}

struct snap_sim *diskop_sim_snap(struct world_node *n, const struct disk_req *rq) {
    if (rq->op != DISK_SYNC && rq->op != DISK_SYNCFS) {
        return NULL;
    }
    struct snap_sim *s = snap_sim_new(&n->fs);
    if (rq->op == DISK_SYNCFS) {
        snap_sim_add_all(s, &n->fs);
        return s;
    }
    for (size_t i = 0; i < rq->files_n; i++) {
        must(rq->files[i]->node == n);
        snap_sim_add(s, rq->files[i]->ino);
    }
    for (size_t i = 0; i < rq->dirs_n; i++) {
        struct fs_inode *dir;
        if (dir_sim_find(&n->fs, rq->dirs[i], &dir) == ERR_OK) {
            snap_sim_add(s, dir);
        }
    }
    return s;
}

/* Whether this one is to fail, and how. */
static err strike(struct diskop_sim *x) {
    struct world *w = x->n->w;
    struct node_fail *f = &x->n->fail[x->rq->op];
    if (f->in > 0 && --f->in == 0) {
        return f->e;
    }
    bool sync = x->rq->op == DISK_SYNC || x->rq->op == DISK_SYNCFS;
    bool put = x->rq->op == DISK_PUT;
    uint32_t rate = sync ? w->faults.sync_eio : put || x->rq->op == DISK_WRITE ? w->faults.write_eio
                    : x->rq->op == DISK_READ ? w->faults.read_eio : 0;
    return world_sim_strikes(w, rate) ? ERR_IO : ERR_OK;
}

static void fail(struct diskop_sim *x, err e) {
    struct disk_req *rq = x->rq;
    struct prng *rng = &x->n->w->rng;
    trace_fault(x, diskop_sim_path(rq), 0, e);
    rq->did = 0;
    if (rq->op == DISK_WRITE) {
        size_t n = iov_bytes(rq), got = (size_t)prng_below(rng, n > 0 ? n : 1);
        size_t did = write_some(x, got, 0);
        rq->did = did > 0 && prng_chance(rng, 1, 4) ? (size_t)prng_below(rng, did) : did;
    } else if (rq->op == DISK_PUT) {
        size_t n = iov_bytes(rq);
        if (prng_chance(rng, 1, 2)) {              /* else it could not even be opened */
            (void)put_some(x, (size_t)prng_below(rng, n > 0 ? n : 1));
        }
    } else if (rq->op == DISK_SYNC || rq->op == DISK_SYNCFS) {
        snap_sim_fail(x->snap, rng);
        for (size_t i = 0; i < rq->files_n; i++) {
            rq->files[i]->sync_failed = true;
        }
        x->n->syncfs_failed = x->n->syncfs_failed || rq->op == DISK_SYNCFS;
    }
}

err diskop_sim_run(struct diskop_sim *x) {
    struct disk_req *rq = x->rq;
    char path[256];                                /* DISK_CLOSE frees the original */
    const char *p = diskop_sim_path(rq);
    (void)snprintf(path, sizeof path, "%s", p ? p : "");
    rq->sys_errno = 0;
    if (!x->outside) {
        refuse_second_sync(x);
    }
    err e = x->outside ? ERR_OK : strike(x);
    if (e != ERR_OK) {
        fail(x, e);
    } else {
        e = ops[rq->op].run(x);
    }
    if (x->snap) {
        snap_sim_free(x->snap);
        x->snap = NULL;
    }
    trace(x, ops[rq->op].kind, path, facts_of(rq, e));
    rq->err = e;
    return e;
}

/* Some of the tree's names are gone already. */
static void rmtree_half(struct diskop_sim *x) {
    struct fs_inode *dir;
    if (dir_sim_find(&x->n->fs, x->rq->path, &dir) != ERR_OK || !dir->is_dir) {
        return;
    }
    for (size_t k = prng_below(&x->n->w->rng, dir->now.n + 1); k > 0; k--) {
        char path[1024];
        int len = snprintf(path, sizeof path, "%s/%s", x->rq->path, dir->now.v[dir->now.n - 1].name);
        must(len > 0 && (size_t)len < sizeof path);
        (void)dir_sim_rmtree(&x->n->fs, path);     /* it was there a moment ago */
    }
}

static void do_whole(struct diskop_sim *x) {
    struct disk_req *rq = x->rq;
    struct fs_inode *ino;
    switch (rq->op) {
    case DISK_OPEN:
        (void)find_or_create(x, &ino);             /* whether it worked, nobody will hear */
        break;
    case DISK_WRITE:
        (void)write_some(x, iov_bytes(rq), 0);
        break;
    case DISK_PUT:
        (void)put_some(x, iov_bytes(rq));
        break;
    case DISK_SYNC:
    case DISK_SYNCFS:
        snap_sim_commit(x->snap);
        break;
    case DISK_TRUNCATE:
    case DISK_RENAME:
    case DISK_UNLINK:
    case DISK_MKDIR:
    case DISK_RMTREE:
        (void)ops[rq->op].run(x);
        break;
    default:
        break;
    }
}

bool diskop_sim_half(struct diskop_sim *x) {
    struct disk_req *rq = x->rq;
    struct prng *rng = &x->n->w->rng;
    bool whole = prng_chance(rng, 1, 2), begun = prng_chance(rng, 1, 2);
    size_t did = 0;
    if (whole) {
        do_whole(x);
    } else if (begun && rq->op == DISK_WRITE) {
        did = write_some(x, (size_t)prng_below(rng, iov_bytes(rq) + 1), 0);
    } else if (begun && rq->op == DISK_PUT) {
        (void)put_some(x, (size_t)prng_below(rng, iov_bytes(rq) + 1));
    } else if (begun && rq->op == DISK_RMTREE) {
        rmtree_half(x);
    }
    trace(x, TRACE_DISK_HALF, diskop_sim_path(rq), (struct facts){rq->op, whole ? -1 : (int64_t)did, 0});
    if (x->snap) {
        snap_sim_free(x->snap);
        x->snap = NULL;
    }
    return whole;
}

size_t diskop_sim_process_ended(struct world_node *n) {
    size_t open = 0;
    list_each_safe(it, &n->files) {
        struct disk_file *f = list_entry(it, struct disk_file, link);
        if (!f->outside) {
            file_close(f);
            open++;
        }
    }
    while (!list_empty(&n->locks)) {
        struct lock *lk = list_entry(n->locks.next, struct lock, link);
        list_remove(&lk->link);
        mem_free(lk->path);
        mem_free(lk);
    }
    n->syncfs_failed = false;
    return open;
}
