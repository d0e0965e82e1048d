/* Listing a directory, and removing one with its contents.
 *
 * Happy path: list reads the names, then asks each that is no directory for its size; an entry that vanishes in between is left out.
 * remove empties a directory from below and unlinks it last, so that an interrupted removal can be repeated.
 * Failure modes: without memory nothing is returned; a removal ends at its first error and leaves the rest where it
 * is.
 * Runs on: the disk threads, and whoever calls disk_call. */
#include "disk_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "disk_fault.h"

/* An open directory, or NULL with errno. */
static DIR *open_dir(int root, const char *path, int extra_flags) {
    int fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | extra_flags);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !dir) {
        int e = errno;
        (void)close(fd);
        errno = e;
    }
    return dir;
}

/* The next one that is neither "." nor ".."; NULL at the end (errno 0) or on failure. */
static const struct dirent *next_entry(DIR *dir) {
    for (;;) {
        errno = 0;
        const struct dirent *de = readdir(dir);
        if (!de || (strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0)) {
            return de;
        }
    }
}

struct listing {
    struct disk_entry *entries;
    size_t n, cap;
};

static int add(struct listing *ls, const char *name, const struct stat *st) {
    if (ls->n == ls->cap) {
        size_t cap = ls->cap ? ls->cap * 2 : 16;
        struct disk_entry *grown = mem_realloc(MEM_DISK, ls->entries, cap * sizeof *grown);
        if (!grown) {
            return ENOMEM;
        }
        ls->entries = grown;
        ls->cap = cap;
    }
    char *copy = mem_strdup(MEM_DISK, name);
    if (!copy) {
        return ENOMEM;
    }
    ls->entries[ls->n++] = (struct disk_entry){.name = copy, .is_dir = !st};
    if (st) {
        struct disk_entry *en = &ls->entries[ls->n - 1];
        en->size = st->st_size;
        en->is_dir = S_ISDIR(st->st_mode);
        en->mtime = (ms)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
    }
    return 0;
}

static int add_asked(struct listing *ls, DIR *dir, const char *name) {
    struct stat st;
    return fstatat(dirfd(dir), name, &st, 0) != 0 ? errno : add(ls, name, &st);
}

static int list_into(DIR *dir, struct listing *ls) {
    for (const struct dirent *de; (de = next_entry(dir));) {
        int e = de->d_type == DT_DIR ? add(ls, de->d_name, NULL) : add_asked(ls, dir, de->d_name);
        if (e != 0 && e != ENOENT) {
            return e;
        }
    }
    return errno;
}

int disk_tree_list(int root, const char *path, struct disk_entry **ret_entries, size_t *ret_n) {
    DIR *dir = open_dir(root, path, 0);
    if (!dir) {
        return errno;
    }
    struct listing ls = {0};
    int e = list_into(dir, &ls);
    (void)closedir(dir);               /* opened for reading */
    if (e != 0) {
        disk_entries_free(ls.entries, ls.n);
        return e;
    }
    *ret_entries = ls.entries;
    *ret_n = ls.n;
    return 0;
}

static int remove_at(int at, const char *name, int depth);

static int empty_dir(DIR *dir, int depth) {
    for (const struct dirent *de; (de = next_entry(dir));) {
        int e = remove_at(dirfd(dir), de->d_name, depth);
        if (e != 0) {
            return e;
        }
    }
    return errno;
}

static int remove_dir(int at, const char *name, int depth) {
    if (depth == DISK_TREE_DEPTH) {
        return ELOOP;
    }
    DIR *dir = open_dir(at, name, O_NOFOLLOW);
    if (!dir) {
        return errno;
    }
    int e = empty_dir(dir, depth + 1);
    (void)closedir(dir);               /* opened for reading */
    disk_fault(DISK_RMTREE);
    return e != 0 ? e : unlinkat(at, name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

static int remove_at(int at, const char *name, int depth) {
    struct stat st;
    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        return errno;
    }
    if (S_ISDIR(st.st_mode)) {
        return remove_dir(at, name, depth);
    }
    disk_fault(DISK_RMTREE);
    return unlinkat(at, name, 0) == 0 ? 0 : errno;
}

int disk_tree_remove(int root, const char *path) {
    if (path[0] == 0 || strcmp(path, ".") == 0) {
        return EINVAL;                 /* the data directory itself is not ours to remove */
    }
    return remove_dir(root, path, 0);
}
