/* The file system of one simulated node: what a process sees now, what is on the platter, and what lies between.
 *
 * Files are 4 KiB pages, each twice: `cur` (page cache) and `dur` (platter), stamped with the version of their last change. A page whose
 * stamps differ is dirty: a sync has not covered it. Directories have their names twice and the operations in between as a list.
 * fs->ver counts all changes; a snapshot of it is what a sync covers. No time, no lanes, no faults: those are disk_sim's. */
#pragma once

#include <sys/uio.h>

#include "base/err.h"
#include "base/list.h"
#include "base/prng.h"

#define FS_PAGE 4096
#define FS_SECTOR 512

struct fs_buf {                  /* bytes of one page; never written while shared */
    uint32_t refs;
    uint8_t data[FS_PAGE];
};

struct fs_page {
    struct fs_buf *cur, *dur;    /* NULL: zeros */
    uint64_t cur_ver, dur_ver;   /* change that made cur; change that a sync (or write-back) brought to the platter */
};

struct fs_cut {                  /* the file was made shorter, and no sync has covered that yet */
    uint64_t ver;
    int64_t size, before;
};

struct fs_inode;

struct fs_name {
    char *name;
    struct fs_inode *ino;        /* one reference */
};

struct fs_names {                /* sorted by name */
    struct fs_name *v;
    size_t n, cap;
};

struct fs_dirop {                /* one change of a directory's names: `del` goes, `add` comes (replacing), atomically */
    struct list link;            /* dir->ops, in order */
    uint64_t ver;
    struct fs_inode *dir;
    char *del, *add;             /* each may be NULL */
    struct fs_inode *ino;        /* what add names; one reference */
    struct fs_dirop *twin;       /* the other half of a rename between directories: both happen or neither */
};

struct fs_inode {
    struct list link;            /* fs->inodes, by age */
    struct list dirty;           /* fs->dirty while anything is unsynced */
    struct fs_sim *fs;
    uint64_t id;
    uint32_t refs;               /* names (both sets), operations, handles, snapshots */
    uint32_t names, opens;       /* names it has now; open handles. Both 0: its pages are free space */
    bool is_dir;
    bool lies;                   /* a page or the size counts as synced and is not on the platter */
    struct fs_page *pages;
    size_t pages_n, pages_cap, pages_held;       /* held: with a cur */
    size_t lo, hi;               /* no dirty page outside [lo, hi) */
    int64_t size, dur_size;
    ms mtime;                    /* wall clock of the last write, for listings; a crash does not take it back */
    int64_t back_size;           /* where pages that were written back end: a failed sync does not make the file shorter than that */
    uint64_t size_ver, dur_size_ver;
    struct fs_cut *cuts;         /* oldest first */
    size_t cuts_n, cuts_cap;
    struct fs_names now, dur;    /* of a directory */
    struct list ops;
    uint64_t keep;               /* crash_sim's scratch: operations up to this version survive */
};

struct fs_sim {
    struct prng *rng;
    struct fs_inode *root;
    struct list inodes, dirty;
    uint64_t ver, inodes_made;
    int64_t pages_used;          /* of inodes with a name or a handle */
};

void fs_sim_init(struct fs_sim *fs, struct prng *rng);
void fs_sim_done(struct fs_sim *fs);

/* Inodes (made and named by dir_sim). */
struct fs_inode *fs_sim_inode(struct fs_sim *fs, bool is_dir);  /* one reference for the caller */
struct fs_inode *fs_sim_ref(struct fs_inode *ino);
void fs_sim_unref(struct fs_inode *ino);
void fs_sim_count(struct fs_inode *ino, int names, int opens);  /* adds to the counters and keeps pages_used right */
void fs_sim_recount(struct fs_sim *fs);                         /* after a power loss: counters, from the names that are left */
void fs_sim_judge(struct fs_inode *ino);                        /* puts it on the dirty list, or takes it off */

/* Files. Writing stops at the first page for which fewer than `space` bytes would be left; returns the bytes written. */
size_t fs_sim_write(struct fs_inode *ino, int64_t at, const struct iovec *iov, size_t iov_n, int64_t space);
size_t fs_sim_read(const struct fs_inode *ino, int64_t at, void *buf, size_t n);
void fs_sim_truncate(struct fs_inode *ino, int64_t size);
void fs_sim_forget(struct fs_inode *ino, int64_t at, size_t n);  /* clean pages are read from the platter again */
void fs_sim_write_back(struct fs_inode *ino);                    /* the kernel's flusher picks a dirty page */
void fs_sim_flip(struct fs_inode *ino, int64_t at, uint8_t mask); /* at rest: cache and platter */
void fs_sim_chop(struct fs_inode *ino, int64_t size);            /* at rest */
int64_t fs_sim_unsynced(const struct fs_sim *fs);

struct fs_buf *fs_sim_buf(const struct fs_buf *like);            /* a copy of `like`, or zeros */
void fs_sim_buf_drop(struct fs_buf *b);
void fs_sim_page_set(struct fs_inode *ino, struct fs_page *pg, struct fs_buf *cur);   /* takes the reference */
