/* The exact reach of a sync.
 *
 * Happy path: snap_sim_add takes references to the dirty pages of a file as they are now; writes that follow copy them first, so the
 * commit brings exactly the submitted state to the platter, even if the page has changed since (then it stays dirty).
 * Failure modes: a failed sync leaves pages clean and, at random, absent, as Linux does; a lost one says OK. That a file was cut is in the file system's
 * journal: a failed sync may leave it to the next one, but the kernel does not forget it as it does with pages.
 * Runs on: the world's thread. */
#include "snap_sim.h"

#include <string.h>

#include "dir_sim.h"
#include "world_mem.h"

struct snap_sim *snap_sim_new(struct fs_sim *fs) {
    struct snap_sim *s = world_mem_new(sizeof *s);
    list_init(&s->link);
    s->ver = fs->ver;
    return s;
}

void snap_sim_free(struct snap_sim *s) {
    list_remove(&s->link);
    for (size_t i = 0; i < s->pages_n; i++) {
        fs_sim_buf_drop(s->pages[i].buf);
    }
    for (size_t i = 0; i < s->inodes_n; i++) {
        fs_sim_unref(s->inodes[i].ino);
    }
    mem_free(s->pages);
    mem_free(s->inodes);
    mem_free(s);
}

static void add_page(struct snap_sim *s, struct fs_inode *ino, size_t i) {
    if (s->pages_n == s->pages_cap) {
        s->pages_cap = s->pages_cap ? s->pages_cap * 2 : 8;
        s->pages = world_mem_grow(s->pages, s->pages_cap * sizeof *s->pages);
    }
    const struct fs_page *pg = &ino->pages[i];
    s->pages[s->pages_n++] = (struct snap_page){ino, i, pg->cur, pg->cur_ver};
    if (pg->cur) {
        pg->cur->refs++;
    }
}

void snap_sim_add(struct snap_sim *s, struct fs_inode *ino) {
    if (list_empty(&ino->dirty)) {
        return;
    }
    if (s->inodes_n == s->inodes_cap) {
        s->inodes_cap = s->inodes_cap ? s->inodes_cap * 2 : 4;
        s->inodes = world_mem_grow(s->inodes, s->inodes_cap * sizeof *s->inodes);
    }
    s->inodes[s->inodes_n++] = (struct snap_inode){fs_sim_ref(ino), ino->size, ino->size_ver};
    for (size_t i = ino->lo; i < ino->hi; i++) {
        if (ino->pages[i].cur_ver != ino->pages[i].dur_ver) {
            add_page(s, ino, i);
        }
    }
}

void snap_sim_add_all(struct snap_sim *s, struct fs_sim *fs) {
    list_each(it, &fs->dirty) {
        snap_sim_add(s, list_entry(it, struct fs_inode, dirty));
    }
}

static void commit_page(const struct snap_page *sp) {
    struct fs_page *pg = &sp->ino->pages[sp->index];
    if (pg->dur_ver >= sp->ver) {
        return;
    }
    if (sp->buf) {
        sp->buf->refs++;
    }
    fs_sim_buf_drop(pg->dur);
    pg->dur = sp->buf;
    pg->dur_ver = sp->ver;
}

static void pretend_page(const struct snap_page *sp) {
    struct fs_page *pg = &sp->ino->pages[sp->index];
    if (pg->dur_ver < sp->ver) {
        pg->dur_ver = sp->ver;
        sp->ino->lies = true;
    }
}

static void settle_cuts(struct fs_inode *ino, uint64_t ver) {
    size_t gone = 0;
    while (gone < ino->cuts_n && ino->cuts[gone].ver <= ver) {
        gone++;
    }
    ino->cuts_n -= gone;
    if (gone > 0) {
        memmove(ino->cuts, ino->cuts + gone, ino->cuts_n * sizeof *ino->cuts);
    }
}

/* size: what reaches the platter of a file's size. */
static void commit_inode(const struct snap_inode *si, uint64_t ver, int64_t size) {
    struct fs_inode *ino = si->ino;
    if (ino->is_dir) {
        dir_sim_commit(ino, ver);
        return;
    }
    if (ino->dur_size_ver < si->size_ver) {
        ino->dur_size_ver = si->size_ver;
        ino->dur_size = size;
        ino->lies = ino->lies || size != si->size;
    }
    settle_cuts(ino, ver);
    fs_sim_judge(ino);
}

static void commit_but(struct snap_sim *s, size_t left_behind) {
    for (size_t i = 0; i < s->pages_n; i++) {
        if (i == left_behind) {
            pretend_page(&s->pages[i]);
        } else {
            commit_page(&s->pages[i]);
        }
    }
    for (size_t i = 0; i < s->inodes_n; i++) {
        commit_inode(&s->inodes[i], s->ver, s->inodes[i].size);
    }
}

void snap_sim_commit(struct snap_sim *s) {
    commit_but(s, SIZE_MAX);
}

void snap_sim_lie(struct snap_sim *s, struct prng *rng) {
    commit_but(s, s->pages_n > 0 ? prng_below(rng, s->pages_n) : SIZE_MAX);
}

/* A file grows on the platter with the pages that get there, now or before. */
static int64_t size_reached(const struct snap_inode *si, int64_t pages_end) {
    pages_end = pages_end > si->ino->back_size ? pages_end : si->ino->back_size;
    int64_t reached = pages_end < si->size ? pages_end : si->size;
    return si->size < si->ino->dur_size || reached < si->ino->dur_size ? si->ino->dur_size : reached;
}

/* Where the page ends when the file is cut there; FS_PAGE or more: whole. */
static int64_t page_left(const struct fs_page *pg, size_t i, const struct fs_cut *cut) {
    return cut->ver < pg->dur_ver ? FS_PAGE : cut->size - (int64_t)i * FS_PAGE;
}

static void cut_for_good(struct fs_inode *ino, const struct fs_cut *cut) {
    for (size_t i = 0; i < ino->pages_n; i++) {
        struct fs_page *pg = &ino->pages[i];
        int64_t left = page_left(pg, i, cut);
        if (left >= FS_PAGE || !pg->dur) {
            continue;
        }
        struct fs_buf *b = left > 0 ? fs_sim_buf(pg->dur) : NULL;
        if (b) {
            memset(b->data + left, 0, (size_t)(FS_PAGE - left));
        }
        fs_sim_buf_drop(pg->dur);
        pg->dur = b;
    }
    ino->dur_size = cut->size < ino->dur_size ? cut->size : ino->dur_size;
}

/* False: the file was cut, and all that was done to it waits for the next sync. */
static bool fail_begins(const struct snap_inode *si, uint64_t ver, struct prng *rng) {
    struct fs_inode *ino = si->ino;
    bool cut = ino->cuts_n > 0 && ino->cuts[0].ver <= ver;
    if (cut && prng_chance(rng, 1, 2)) {
        return false;
    }
    for (size_t k = 0; k < ino->cuts_n && ino->cuts[k].ver <= ver; k++) {
        cut_for_good(ino, &ino->cuts[k]);
    }
    return true;
}

void snap_sim_fail(struct snap_sim *s, struct prng *rng) {
    size_t p = 0;
    for (size_t i = 0; i < s->inodes_n; i++) {
        int64_t end = 0;
        bool begins = fail_begins(&s->inodes[i], s->ver, rng);
        for (; p < s->pages_n && s->pages[p].ino == s->inodes[i].ino; p++) {
            if (begins && (!s->pages[p].buf || prng_chance(rng, 1, 2))) {
                commit_page(&s->pages[p]);
                end = (int64_t)(s->pages[p].index + 1) * FS_PAGE;
            } else if (begins) {
                pretend_page(&s->pages[p]);
            }
        }
        if (begins && !s->inodes[i].ino->is_dir) {
            commit_inode(&s->inodes[i], s->ver, size_reached(&s->inodes[i], end));
        }
    }
}
