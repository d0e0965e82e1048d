/* Inodes and the contents of files, in the cache and on the platter.
 *
 * Happy path: a write makes the pages it touches its own (copies what a snapshot or the platter still holds), stamps them with a new
 * version and so makes them dirty; a snapshot (snap_sim) later brings them to the platter.
 * A truncation is a change with a version too: its pages are dirty with nothing in them, and it is remembered as a cut until a sync covers
 * it, because a crash may undo it only together with all that came after.
 * Failure modes: a full file system shortens a write. Everything else is the caller's to refuse.
 * Runs on: the world's thread. */
#include "fs_sim.h"

#include <string.h>

#include "base/must.h"
#include "dir_sim.h"
#include "world_mem.h"

struct fs_buf *fs_sim_buf(const struct fs_buf *like) {
    struct fs_buf *b = world_mem_new(sizeof *b);
    b->refs = 1;
    if (like) {
        memcpy(b->data, like->data, FS_PAGE);
    }
    return b;
}

void fs_sim_buf_drop(struct fs_buf *b) {
    if (b && --b->refs == 0) {
        mem_free(b);
    }
}

void fs_sim_init(struct fs_sim *fs, struct prng *rng) {
    *fs = (struct fs_sim){.rng = rng};
    list_init(&fs->inodes);
    list_init(&fs->dirty);
    fs->root = fs_sim_inode(fs, true);
    fs->root->names = 1;
}

static void inode_free(struct fs_inode *ino) {
    list_remove(&ino->link);
    list_remove(&ino->dirty);
    for (size_t i = 0; i < ino->pages_n; i++) {
        fs_sim_buf_drop(ino->pages[i].cur);
        fs_sim_buf_drop(ino->pages[i].dur);
    }
    mem_free(ino->pages);
    mem_free(ino->cuts);
    mem_free(ino);
}

/* All references are between inodes: names and operations are taken apart first, the inodes then go by themselves. */
void fs_sim_done(struct fs_sim *fs) {
    list_each(it, &fs->inodes) {
        struct fs_inode *ino = list_entry(it, struct fs_inode, link);
        ino->refs++;
    }
    list_each(it, &fs->inodes) {
        dir_sim_clear(list_entry(it, struct fs_inode, link));
    }
    fs_sim_unref(fs->root);
    list_each_safe(it, &fs->inodes) {
        struct fs_inode *ino = list_entry(it, struct fs_inode, link);
        must(ino->refs == 1);
        inode_free(ino);
    }
}

struct fs_inode *fs_sim_inode(struct fs_sim *fs, bool is_dir) {
    struct fs_inode *ino = world_mem_new(sizeof *ino);
    ino->fs = fs;
    ino->id = ++fs->inodes_made;
    ino->refs = 1;
    ino->is_dir = is_dir;
    list_init(&ino->dirty);
    list_init(&ino->ops);
    list_push_back(&fs->inodes, &ino->link);
    return ino;
}

struct fs_inode *fs_sim_ref(struct fs_inode *ino) {
    ino->refs++;
    return ino;
}

void fs_sim_unref(struct fs_inode *ino) {
    must(ino->refs > 0);
    if (--ino->refs == 0) {
        must(ino->names == 0 && ino->opens == 0);
        dir_sim_clear(ino);
        inode_free(ino);
    }
}

static bool counts(const struct fs_inode *ino) {
    return ino->names > 0 || ino->opens > 0;
}

void fs_sim_count(struct fs_inode *ino, int names, int opens) {
    int64_t held = (int64_t)ino->pages_held;
    ino->fs->pages_used -= counts(ino) ? held : 0;
    ino->names += (uint32_t)names;
    ino->opens += (uint32_t)opens;
    ino->fs->pages_used += counts(ino) ? held : 0;
}

static void recount_dir(struct fs_inode *dir) {
    for (size_t i = 0; i < dir->now.n; i++) {
        struct fs_inode *ino = dir->now.v[i].ino;
        ino->names++;
        if (ino->is_dir) {
            recount_dir(ino);
        }
    }
}

void fs_sim_recount(struct fs_sim *fs) {
    list_each(it, &fs->inodes) {
        list_entry(it, struct fs_inode, link)->names = 0;
    }
    fs->root->names = 1;
    recount_dir(fs->root);
    fs->pages_used = 0;
    list_each(it, &fs->inodes) {
        const struct fs_inode *ino = list_entry(it, struct fs_inode, link);
        fs->pages_used += counts(ino) ? (int64_t)ino->pages_held : 0;
    }
}

static bool page_dirty(const struct fs_page *pg) {
    return pg->cur_ver != pg->dur_ver;
}

/* Narrow [lo, hi) to what is dirty. */
static void narrow(struct fs_inode *ino) {
    while (ino->lo < ino->hi && !page_dirty(&ino->pages[ino->lo])) {
        ino->lo++;
    }
    while (ino->hi > ino->lo && !page_dirty(&ino->pages[ino->hi - 1])) {
        ino->hi--;
    }
}

void fs_sim_judge(struct fs_inode *ino) {
    narrow(ino);
    bool dirty = ino->lo < ino->hi || ino->size_ver != ino->dur_size_ver || ino->cuts_n > 0 || !list_empty(&ino->ops);
    if (dirty && list_empty(&ino->dirty)) {
        list_push_back(&ino->fs->dirty, &ino->dirty);
    } else if (!dirty) {
        list_remove(&ino->dirty);
    }
}

static void pages_reach(struct fs_inode *ino, size_t n) {
    if (n > ino->pages_cap) {
        size_t cap = ino->pages_cap ? ino->pages_cap : 4;
        while (cap < n) {
            cap *= 2;
        }
        ino->pages = world_mem_grow(ino->pages, cap * sizeof *ino->pages);
        ino->pages_cap = cap;
    }
    if (n > ino->pages_n) {
        memset(ino->pages + ino->pages_n, 0, (n - ino->pages_n) * sizeof *ino->pages);
        ino->pages_n = n;
    }
}

void fs_sim_page_set(struct fs_inode *ino, struct fs_page *pg, struct fs_buf *cur) {
    int delta = (cur ? 1 : 0) - (pg->cur ? 1 : 0);
    ino->pages_held = (size_t)((int64_t)ino->pages_held + delta);
    ino->fs->pages_used += counts(ino) ? delta : 0;
    fs_sim_buf_drop(pg->cur);
    pg->cur = cur;
}

static void page_touch(struct fs_inode *ino, size_t i, uint64_t ver) {
    ino->pages[i].cur_ver = ver;
    if (ino->lo == ino->hi) {
        ino->lo = i;
        ino->hi = i + 1;
    }
    ino->lo = i < ino->lo ? i : ino->lo;
    ino->hi = i + 1 > ino->hi ? i + 1 : ino->hi;
}

/* The page's bytes, for writing at version ver. */
static uint8_t *page_own(struct fs_inode *ino, size_t i, uint64_t ver) {
    pages_reach(ino, i + 1);
    struct fs_page *pg = &ino->pages[i];
    if (!pg->cur || pg->cur->refs > 1) {
        fs_sim_page_set(ino, pg, fs_sim_buf(pg->cur));
    }
    page_touch(ino, i, ver);
    return pg->cur->data;
}

static bool page_held(const struct fs_inode *ino, size_t i) {
    return i < ino->pages_n && ino->pages[i].cur;
}

struct source {                  /* bytes of an iovec, taken in pieces */
    const struct iovec *iov;
    size_t i, skip;
};

static void source_take(struct source *s, uint8_t *to, size_t n) {
    while (n > 0) {
        size_t left = s->iov[s->i].iov_len - s->skip;
        size_t step = left < n ? left : n;
        if (step > 0) {
            memcpy(to, (const uint8_t *)s->iov[s->i].iov_base + s->skip, step);
        }
        to += step;
        n -= step;
        s->skip += step;
        if (s->skip == s->iov[s->i].iov_len) {
            s->i++;
            s->skip = 0;
        }
    }
}

static void size_set(struct fs_inode *ino, int64_t size, uint64_t ver) {
    if (size != ino->size) {
        ino->size = size;
        ino->size_ver = ver;
    }
}

size_t fs_sim_write(struct fs_inode *ino, int64_t at, const struct iovec *iov, size_t iov_n, int64_t space) {
    size_t total = 0, did = 0;
    for (size_t i = 0; i < iov_n; i++) {
        total += iov[i].iov_len;
    }
    uint64_t ver = ++ino->fs->ver;
    struct source from = {iov, 0, 0};
    while (did < total) {
        size_t page = (size_t)((at + (int64_t)did) / FS_PAGE);
        size_t in = (size_t)((at + (int64_t)did) % FS_PAGE);
        size_t step = FS_PAGE - in < total - did ? FS_PAGE - in : total - did;
        if (!page_held(ino, page) && (ino->fs->pages_used + 1) * FS_PAGE > space) {
            break;
        }
        source_take(&from, page_own(ino, page, ver) + in, step);
        did += step;
    }
    if (did > 0 && at + (int64_t)did > ino->size) {
        size_set(ino, at + (int64_t)did, ver);
    }
    fs_sim_judge(ino);
    return did;
}

size_t fs_sim_read(const struct fs_inode *ino, int64_t at, void *buf, size_t n) {
    if (at >= ino->size) {
        return 0;
    }
    size_t left = (size_t)(ino->size - at);
    n = n < left ? n : left;
    for (size_t did = 0; did < n;) {
        size_t page = (size_t)((at + (int64_t)did) / FS_PAGE);
        size_t in = (size_t)((at + (int64_t)did) % FS_PAGE);
        size_t step = FS_PAGE - in < n - did ? FS_PAGE - in : n - did;
        if (page_held(ino, page)) {
            memcpy((uint8_t *)buf + did, ino->pages[page].cur->data + in, step);
        } else {
            memset((uint8_t *)buf + did, 0, step);
        }
        did += step;
    }
    return n;
}

static void cut_remember(struct fs_inode *ino, int64_t size, uint64_t ver) {
    if (ino->cuts_n == ino->cuts_cap) {
        ino->cuts_cap = ino->cuts_cap ? ino->cuts_cap * 2 : 4;
        ino->cuts = world_mem_grow(ino->cuts, ino->cuts_cap * sizeof *ino->cuts);
    }
    ino->cuts[ino->cuts_n++] = (struct fs_cut){ver, size, ino->size};
}

static void cut_pages(struct fs_inode *ino, int64_t size, uint64_t ver) {
    size_t first = (size_t)(size / FS_PAGE), in = (size_t)(size % FS_PAGE);
    if (in > 0 && page_held(ino, first)) {
        memset(page_own(ino, first, ver) + in, 0, FS_PAGE - in);
    }
    for (size_t i = first + (in > 0 ? 1 : 0); i < ino->pages_n; i++) {
        struct fs_page *pg = &ino->pages[i];
        if (pg->cur || pg->dur) {
            fs_sim_page_set(ino, pg, NULL);
            page_touch(ino, i, ver);
        }
    }
}

void fs_sim_truncate(struct fs_inode *ino, int64_t size) {
    uint64_t ver = ++ino->fs->ver;
    if (size < ino->size) {
        cut_remember(ino, size, ver);
        cut_pages(ino, size, ver);
        ino->back_size = ino->back_size < size ? ino->back_size : size;
    }
    size_set(ino, size, ver);
    fs_sim_judge(ino);
}

/* As Linux does: a page that the range covers in part stays, but for the last one of the file. */
void fs_sim_forget(struct fs_inode *ino, int64_t at, size_t n) {
    size_t first = (size_t)((at + FS_PAGE - 1) / FS_PAGE);
    int64_t end = n == 0 || at + (int64_t)n == ino->size ? INT64_MAX : at + (int64_t)n;
    for (size_t i = first; i < ino->pages_n && (int64_t)i < end / FS_PAGE; i++) {
        struct fs_page *pg = &ino->pages[i];
        if (!page_dirty(pg) && pg->cur != pg->dur) {
            if (pg->dur) {
                pg->dur->refs++;
            }
            fs_sim_page_set(ino, pg, pg->dur);
        }
    }
}

/* Not while a cut is unsynced: the platter may not have what came after a cut without the cut. */
void fs_sim_write_back(struct fs_inode *ino) {
    if (ino->lo == ino->hi || ino->cuts_n > 0) {
        return;
    }
    size_t i = ino->lo + (size_t)prng_below(ino->fs->rng, ino->hi - ino->lo);
    struct fs_page *pg = &ino->pages[i];
    if (page_dirty(pg) && pg->cur) {
        int64_t end = (int64_t)(i + 1) * FS_PAGE < ino->size ? (int64_t)(i + 1) * FS_PAGE : ino->size;
        ino->back_size = end > ino->back_size ? end : ino->back_size;
        fs_sim_buf_drop(pg->dur);
        pg->dur = pg->cur;
        pg->dur->refs++;
        pg->dur_ver = pg->cur_ver;
        fs_sim_judge(ino);
    }
}

void fs_sim_flip(struct fs_inode *ino, int64_t at, uint8_t mask) {
    size_t page = (size_t)(at / FS_PAGE), in = (size_t)(at % FS_PAGE);
    pages_reach(ino, page + 1);
    struct fs_page *pg = &ino->pages[page];
    bool same = pg->cur == pg->dur;
    struct fs_buf *cur = fs_sim_buf(pg->cur);
    cur->data[in] ^= mask;
    fs_sim_page_set(ino, pg, cur);
    if (same) {
        fs_sim_buf_drop(pg->dur);
        pg->dur = cur;
        cur->refs++;
    } else if (pg->dur) {
        struct fs_buf *dur = fs_sim_buf(pg->dur);
        dur->data[in] ^= mask;
        fs_sim_buf_drop(pg->dur);
        pg->dur = dur;
    }
}

void fs_sim_chop(struct fs_inode *ino, int64_t size) {
    fs_sim_truncate(ino, size);
    for (size_t i = 0; i < ino->pages_n; i++) {
        struct fs_page *pg = &ino->pages[i];
        if ((int64_t)(i + 1) * FS_PAGE > size) {
            fs_sim_buf_drop(pg->dur);
            pg->dur = pg->cur;
            if (pg->dur) {
                pg->dur->refs++;
            }
            pg->dur_ver = pg->cur_ver;
        }
    }
    ino->cuts_n = 0;
    ino->dur_size = size < ino->dur_size ? size : ino->dur_size;
    ino->dur_size_ver = ino->dur_size == size ? ino->size_ver : ino->dur_size_ver;
    fs_sim_judge(ino);
}

int64_t fs_sim_unsynced(const struct fs_sim *fs) {
    int64_t sum = 0;
    list_each(it, &fs->dirty) {
        const struct fs_inode *ino = list_entry(it, struct fs_inode, dirty);
        for (size_t i = ino->lo; i < ino->hi; i++) {
            sum += page_dirty(&ino->pages[i]) ? FS_PAGE : 0;
        }
        list_each(op, &ino->ops) {
            sum++;
        }
    }
    return sum;
}
