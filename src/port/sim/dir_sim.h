/* Names: what each directory of a simulated file system shows now, and the changes that no sync has covered yet. Paths are relative to
 * the root, '/' separated; "" or "." is the root itself. */
#pragma once

#include "fs_sim.h"

err dir_sim_find(struct fs_sim *fs, const char *path, struct fs_inode **ret);            /* NOT_FOUND; no reference taken */
err dir_sim_create(struct fs_sim *fs, const char *path, bool is_dir, struct fs_inode **ret);   /* EXISTS, NOT_FOUND (parent) */
err dir_sim_unlink(struct fs_sim *fs, const char *path);                                 /* of a file, or an empty directory */
err dir_sim_rename(struct fs_sim *fs, const char *from, const char *to);                 /* replaces a file or an empty directory */
err dir_sim_rmtree(struct fs_sim *fs, const char *path);
/* Bring the operations of dir up to version ver to the platter, with what must come along (the other half of a rename, and what that
 * directory did before it). */
void dir_sim_commit(struct fs_inode *dir, uint64_t ver);
void dir_sim_revert(struct fs_inode *dir);       /* power loss: shows what is on the platter; operations are gone */
void dir_sim_clear(struct fs_inode *dir);        /* no names, no operations; does nothing to a file */
