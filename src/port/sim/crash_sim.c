/* The outcome of a power loss, drawn at random among all that the rules allow.
 *
 * Directories: each keeps a prefix of its unsynced operations; a rename between two of them is kept by both or by neither.
 * Files: the unsynced cuts that happened are a prefix; what followed the first that did not happen is gone with it. Of the other unsynced
 * pages any subset survives, one possibly torn at 512 B. The size lies anywhere between the synced one and the last one, whatever pages
 * survived, so there may be zeros before its end.
 * What counted as synced and was not (a lost or failed sync) goes, too: the cache that hid it is gone.
 * Failure modes: none.
 * Runs on: the world's thread. */
#include "crash_sim.h"

#include <string.h>

#include "dir_sim.h"
#include "world_mem.h"

/* A number in [0, n], the ends more often than chance would have it. */
static size_t prefix(struct prng *rng, size_t n) {
    switch (prng_below(rng, 4)) {
    case 0:
        return 0;
    case 1:
        return n;
    default:
        return (size_t)prng_below(rng, n + 1);
    }
}

static void dir_choose(struct fs_inode *dir) {
    size_t n = 0;
    list_each(it, &dir->ops) {
        n++;
    }
    size_t kept = prefix(dir->fs->rng, n);
    dir->keep = 0;
    list_each(it, &dir->ops) {
        if (kept-- == 0) {
            break;
        }
        dir->keep = list_entry(it, struct fs_dirop, link)->ver;
    }
}

/* Shorten dir's prefix to before the first rename whose other half is lost. */
static bool dir_agree(struct fs_inode *dir) {
    list_each(it, &dir->ops) {
        const struct fs_dirop *op = list_entry(it, struct fs_dirop, link);
        if (op->ver > dir->keep) {
            break;
        }
        if (op->twin && op->twin->dir->keep < op->ver) {
            dir->keep = op->ver - 1;
            return true;
        }
    }
    return false;
}

struct fate {                    /* of one file */
    size_t cuts;                 /* how many of its cuts happened */
    const struct fs_cut *undone; /* the first that did not; NULL: all did */
    uint32_t survive;            /* of 4: chance of each page */
    size_t torn;                 /* this page is a mixture; SIZE_MAX: none */
    int64_t size;
};

static int64_t size_choose(struct fs_inode *ino, const struct fate *f) {
    int64_t lo = ino->dur_size, hi = f->undone ? f->undone->before : ino->size;
    for (size_t i = 0; i < f->cuts; i++) {
        lo = ino->cuts[i].size < lo ? ino->cuts[i].size : lo;
    }
    if (ino->size_ver == ino->dur_size_ver || hi <= lo) {
        return lo;
    }
    int64_t between = lo + (int64_t)prng_below(ino->fs->rng, (uint64_t)(hi - lo) + 1);
    switch (prng_below(ino->fs->rng, 4)) {
    case 0:
        return lo;
    case 1:
        return hi;
    case 2:
        return between;
    default:
        between -= between % FS_PAGE;
        return between < lo ? lo : between;
    }
}

static struct fate fate_choose(struct fs_inode *ino) {
    struct prng *rng = ino->fs->rng;
    struct fate f = {.cuts = prefix(rng, ino->cuts_n), .torn = SIZE_MAX};
    f.undone = f.cuts < ino->cuts_n ? &ino->cuts[f.cuts] : NULL;
    f.survive = (uint32_t)prng_below(rng, 5);
    if (ino->lo < ino->hi && prng_chance(rng, 1, 2)) {
        f.torn = ino->lo + prng_below(rng, ino->hi - ino->lo);
    }
    f.size = size_choose(ino, &f);
    return f;
}

/* The page as the platter has it once the cuts that happened are applied. A reference, or NULL. */
static struct fs_buf *page_base(const struct fs_inode *ino, size_t i, const struct fate *f) {
    const struct fs_page *pg = &ino->pages[i];
    struct fs_buf *b = pg->dur;
    if (!b) {
        return NULL;
    }
    b->refs++;
    for (size_t k = 0; k < f->cuts; k++) {
        int64_t keep = ino->cuts[k].size - (int64_t)i * FS_PAGE;
        if (ino->cuts[k].ver < pg->dur_ver || keep >= FS_PAGE) {
            continue;
        }
        struct fs_buf *cut = keep > 0 ? fs_sim_buf(b) : NULL;
        if (cut) {
            memset(cut->data + keep, 0, (size_t)(FS_PAGE - keep));
        }
        fs_sim_buf_drop(b);
        if (!cut) {
            return NULL;
        }
        b = cut;
    }
    return b;
}

static bool page_may_survive(const struct fs_inode *ino, size_t i, const struct fate *f) {
    const struct fs_page *pg = &ino->pages[i];
    bool undone = f->undone && pg->cur_ver >= f->undone->ver && (int64_t)(i + 1) * FS_PAGE > f->undone->size;
    return pg->cur_ver != pg->dur_ver && !undone;
}

static struct fs_buf *page_tear(struct prng *rng, const struct fs_buf *before, const struct fs_buf *after) {
    struct fs_buf *b = fs_sim_buf(before);
    for (size_t at = 0; at < FS_PAGE; at += FS_SECTOR) {
        if (prng_chance(rng, 1, 2)) {
            if (after) {
                memcpy(b->data + at, after->data + at, FS_SECTOR);
            } else {
                memset(b->data + at, 0, FS_SECTOR);
            }
        }
    }
    return b;
}

static struct fs_buf *page_outcome(const struct fs_inode *ino, size_t i, const struct fate *f) {
    struct fs_buf *base = page_base(ino, i, f);
    struct fs_buf *cur = ino->pages[i].cur;
    if (!page_may_survive(ino, i, f)) {
        return base;
    }
    if (i == f->torn) {
        struct fs_buf *mix = page_tear(ino->fs->rng, base, cur);
        fs_sim_buf_drop(base);
        return mix;
    }
    if (!prng_chance(ino->fs->rng, f->survive, 4)) {
        return base;
    }
    fs_sim_buf_drop(base);
    if (cur) {
        cur->refs++;
    }
    return cur;
}

/* Bytes behind the end of the file are no part of it, whatever the platter has there. */
static struct fs_buf *page_trim(struct fs_buf *b, size_t i, int64_t size) {
    int64_t keep = size - (int64_t)i * FS_PAGE;
    if (!b || keep >= FS_PAGE) {
        return b;
    }
    struct fs_buf *cut = keep > 0 ? fs_sim_buf(b) : NULL;
    if (cut) {
        memset(cut->data + keep, 0, (size_t)(FS_PAGE - keep));
    }
    fs_sim_buf_drop(b);
    return cut;
}

static void file_decide(struct fs_inode *ino) {
    struct fate f = fate_choose(ino);
    uint64_t ver = ino->fs->ver;
    for (size_t i = 0; i < ino->pages_n; i++) {
        struct fs_page *pg = &ino->pages[i];
        if (pg->cur == pg->dur && pg->cur_ver == pg->dur_ver && (int64_t)(i + 1) * FS_PAGE <= f.size) {
            continue;
        }
        struct fs_buf *left = page_trim(page_outcome(ino, i, &f), i, f.size);
        if (left) {
            left->refs++;
        }
        fs_sim_page_set(ino, pg, left);
        fs_sim_buf_drop(pg->dur);
        pg->dur = left;
        pg->cur_ver = pg->dur_ver = ver;
    }
    ino->size = ino->dur_size = ino->back_size = f.size;
    ino->size_ver = ino->dur_size_ver = ver;
    ino->cuts_n = 0;
    ino->lies = false;
    fs_sim_judge(ino);
}

/* All of fs->dirty, held; the caller drops them. */
static struct fs_inode **hold_dirty(struct fs_sim *fs, size_t *ret_n) {
    size_t n = 0;
    list_each(it, &fs->dirty) {
        n++;
    }
    struct fs_inode **held = world_mem_new((n + 1) * sizeof *held);
    n = 0;
    list_each(it, &fs->dirty) {
        held[n++] = fs_sim_ref(list_entry(it, struct fs_inode, dirty));
    }
    *ret_n = n;
    return held;
}

static void dirs_decide(struct fs_inode **held, size_t n) {
    for (size_t i = 0; i < n; i++) {
        dir_choose(held[i]);
    }
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < n; i++) {
            again = dir_agree(held[i]) || again;
        }
    }
    for (size_t i = 0; i < n; i++) {
        dir_sim_commit(held[i], held[i]->keep);
    }
    for (size_t i = 0; i < n; i++) {
        if (held[i]->is_dir) {
            dir_sim_revert(held[i]);
        }
    }
}

void crash_sim_power(struct fs_sim *fs) {
    size_t n;
    struct fs_inode **held = hold_dirty(fs, &n);
    fs->ver++;
    list_each(it, &fs->inodes) {
        list_entry(it, struct fs_inode, link)->names = 0;
    }
    dirs_decide(held, n);
    for (size_t i = 0; i < n; i++) {
        if (!held[i]->is_dir) {
            file_decide(held[i]);
        }
        fs_sim_unref(held[i]);
    }
    list_each(it, &fs->inodes) {
        struct fs_inode *ino = list_entry(it, struct fs_inode, link);
        if (ino->lies) {
            file_decide(ino);
        }
    }
    mem_free(held);
    fs_sim_recount(fs);
}
