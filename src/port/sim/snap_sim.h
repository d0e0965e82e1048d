/* What one sync covers: taken when it is submitted, brought to the platter when it completes. */
#pragma once

#include "fs_sim.h"

struct snap_page {
    struct fs_inode *ino;
    size_t index;
    struct fs_buf *buf;          /* one reference; NULL: cut away */
    uint64_t ver;
};

struct snap_inode {              /* one reference */
    struct fs_inode *ino;
    int64_t size;
    uint64_t size_ver;
};

struct snap_sim {
    struct list link;            /* the lane's, in order of submission */
    uint64_t ver;                /* covers changes up to this one */
    struct snap_inode *inodes;
    size_t inodes_n, inodes_cap;
    struct snap_page *pages;
    size_t pages_n, pages_cap;
};

struct snap_sim *snap_sim_new(struct fs_sim *fs);
void snap_sim_free(struct snap_sim *s);
void snap_sim_add(struct snap_sim *s, struct fs_inode *ino);    /* a file or a directory */
void snap_sim_add_all(struct snap_sim *s, struct fs_sim *fs);
void snap_sim_commit(struct snap_sim *s);
void snap_sim_lie(struct snap_sim *s, struct prng *rng);        /* says OK, but one page stays behind; then commits the rest */
/* The sync failed: each page may have reached the platter, and the size as far as they go; all count as clean ever after. Operations on names
 * stay pending; that a file was cut gets there, or stays pending with all that came after. */
void snap_sim_fail(struct snap_sim *s, struct prng *rng);
