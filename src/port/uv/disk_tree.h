/* Directories: listed, and removed with what is in them. Both return 0 or an errno. Block. Any thread. */
#pragma once

#include "port/disk.h"

/* All entries of a directory but "." and "..", in no order; the array and its names are for disk_entries_free. */
int disk_tree_list(int root, const char *path, struct disk_entry **ret_entries, size_t *ret_n);
/* A directory with everything below it, at most DISK_TREE_DEPTH levels. Symbolic links are removed, never followed. */
int disk_tree_remove(int root, const char *path);

#define DISK_TREE_DEPTH 8
