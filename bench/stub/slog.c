/* slog.c: the cheapest log that still keeps what it was given.
 *
 * Purpose: an upper bound for any broker here: one write per turn and file, no index on disk, no recovery.
 * Happy path: small batches of a turn are gathered per file and written by one pwritev in slog_flush; a large one is
 * written at once, straight from the receive buffer. An entry per batch in memory finds it again.
 * Fresh files grow and are rolled; the ring is written round and round, and what was overwritten is forgotten.
 * Failure modes: any failed call dies. Nothing survives a restart.
 * Runs on: the loop's thread. */
#include "slog.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../common/die.h"

static int slog_open(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        die("open %s", path);
    }
    return fd;
}

static void slog_ring_init(struct slog *lg) {
    char path[4096];
    snprintf(path, sizeof path, "%s/ring", lg->cf->dir);
    lg->ring.fd = slog_open(path);
    size_t step = 1 << 20;
    uint8_t *zeros = die_alloc(step, 1);
    for (uint64_t at = 0; at < lg->cf->ring_bytes; at += step) {
        if (pwrite(lg->ring.fd, zeros, step, (off_t)at) != (ssize_t)step) {
            die("pwrite");
        }
    }
    free(zeros);
    if (fsync(lg->ring.fd) != 0) {
        die("fsync");
    }
}

void slog_init(struct slog *lg, const struct sconf *cf) {
    *lg = (struct slog){.cf = cf};
    lg->dirty = die_alloc(SCONF_PARTS_MAX + 1, sizeof lg->dirty[0]);
    lg->unsynced = die_alloc(SCONF_PARTS_MAX + 1, sizeof lg->unsynced[0]);
    lg->touched = die_alloc(SCONF_PARTS_MAX, sizeof lg->touched[0]);
    lg->submitted = die_alloc(SCONF_PARTS_MAX, sizeof lg->submitted[0]);
    if (mkdir(cf->dir, 0755) != 0 && access(cf->dir, W_OK) != 0) {
        die("mkdir %s", cf->dir);
    }
    if (cf->files == SCONF_RECYCLED) {
        slog_ring_init(lg);
    }
}

static void slog_part_done(struct slog *lg, struct slog_part *pt) {
    for (uint32_t i = 0; i < pt->fd_n; i++) {
        close(pt->fds[i]);
    }
    free(pt->fds);
    free(pt->entries);
    if (pt->file != &lg->ring) {
        free(pt->file);
    }
}

static void slog_roll(struct slog *lg, unsigned part) {
    struct slog_part *pt = &lg->parts[part];
    char path[4096];
    snprintf(path, sizeof path, "%s/%u-%020lld.log", lg->cf->dir, part, (long long)pt->next_offset);
    if (pt->fd_n == SLOG_FILES_MAX) {
        die("partition %u: too many files", part);
    }
    pt->fds = realloc(pt->fds, (pt->fd_n + 1) * sizeof pt->fds[0]);
    if (!pt->fds) {
        die("out of memory");
    }
    pt->file->fd = pt->fds[pt->fd_n++] = slog_open(path);
    pt->file->end = 0;
}

void slog_partitions(struct slog *lg, unsigned n) {
    if (n > SCONF_PARTS_MAX) {
        die("%u partitions", n);
    }
    for (unsigned i = 0; i < lg->part_n; i++) {
        slog_part_done(lg, &lg->parts[i]);
    }
    free(lg->parts);
    lg->dirty_n = lg->unsynced_n = lg->touched_n = lg->submitted_n = 0;
    lg->ring.listed = lg->ring.unsynced = false;
    lg->parts = die_alloc(n, sizeof lg->parts[0]);
    lg->part_n = n;
    for (unsigned i = 0; i < n; i++) {
        bool ring = lg->cf->files == SCONF_RECYCLED;
        lg->parts[i].file = ring ? &lg->ring : die_alloc(1, sizeof(struct slog_file));
        if (!ring) {
            slog_roll(lg, i);
        }
    }
}

static void slog_write(struct slog *lg, struct slog_file *f, struct iovec *iov, unsigned n) {
    uint64_t at = lg->cf->files == SCONF_RECYCLED ? f->pending_at % lg->cf->ring_bytes : f->pending_at;
    while (n > 0) {
        ssize_t w = pwritev(f->fd, iov, (int)n, (off_t)at);
        if (w <= 0) {
            die("pwritev");
        }
        at += (uint64_t)w;
        while (n > 0 && (size_t)w >= iov->iov_len) {
            w -= (ssize_t)iov->iov_len;
            iov++;
            n--;
        }
        if (n > 0) {
            iov->iov_base = (uint8_t *)iov->iov_base + w;
            iov->iov_len -= (size_t)w;
        }
    }
    if (!f->unsynced && lg->cf->sync != SCONF_NONE) {
        f->unsynced = true;
        lg->unsynced[lg->unsynced_n++] = f;
    }
}

static void slog_file_flush(struct slog *lg, struct slog_file *f) {
    if (f->pending_n > 0) {
        slog_write(lg, f, f->pending, f->pending_n);
        f->pending_n = 0;
    }
}

static void slog_file_append(struct slog *lg, struct slog_file *f, uint8_t *p, size_t n) {
    if (f->pending_n == SLOG_IOV_MAX) {
        slog_file_flush(lg, f);
    }
    if (f->pending_n == 0) {
        f->pending_at = f->end;
    }
    f->pending[f->pending_n++] = (struct iovec){p, n};
    f->end += n;
    if (n >= SLOG_LARGE) {
        slog_file_flush(lg, f);
    } else if (!f->listed) {
        f->listed = true;
        lg->dirty[lg->dirty_n++] = f;
    }
}

/* The next `n` bytes must lie in one piece: roll the file, or go to the ring's start. */
static void slog_make_room(struct slog *lg, unsigned part, size_t n) {
    struct slog_file *f = lg->parts[part].file;
    if (lg->cf->files == SCONF_RECYCLED) {
        uint64_t left = lg->cf->ring_bytes - f->end % lg->cf->ring_bytes;
        if (left < n) {
            slog_file_flush(lg, f);
            f->end += left;
        }
    } else if (f->end > 0 && f->end + n > lg->cf->roll_bytes) {
        slog_file_flush(lg, f);
        slog_roll(lg, part);
    }
}

static void slog_entry_add(struct slog_part *pt, const struct slog_entry *e) {
    if (pt->last - pt->first == pt->cap) {
        if (pt->cap == SLOG_ENTRIES_MAX) {
            pt->first++;
        } else {
            uint64_t cap = pt->cap ? pt->cap * 2 : 16;
            struct slog_entry *to = die_alloc(cap, sizeof *to);
            for (uint64_t i = pt->first; i < pt->last; i++) {
                to[i % cap] = pt->entries[i % pt->cap];
            }
            free(pt->entries);
            pt->entries = to;
            pt->cap = cap;
        }
    }
    pt->entries[pt->last++ % pt->cap] = *e;
}

int64_t slog_append(struct slog *lg, unsigned part, uint8_t *p, const struct batch_view *b) {
    struct slog_part *pt = &lg->parts[part];
    int64_t base = pt->next_offset;
    kbuf_put64(p, (uint64_t)base);
    slog_make_room(lg, part, b->size);
    struct slog_entry e = {.base = base, .at = pt->file->end, .size = (uint32_t)b->size, .file = pt->fd_n - 1};
    slog_entry_add(pt, &e);
    slog_file_append(lg, pt->file, p, b->size);
    pt->next_offset = base + b->last_delta + 1;
    if (!pt->touched) {
        pt->touched = true;
        lg->touched[lg->touched_n++] = part;
    }
    return base;
}

static void slog_visible(struct slog *lg) {
    for (unsigned i = 0; i < lg->touched_n; i++) {
        struct slog_part *pt = &lg->parts[lg->touched[i]];
        pt->touched = false;
        pt->visible = pt->next_offset;
    }
    lg->moved |= lg->touched_n > 0;
    lg->touched_n = 0;
}

void slog_flush(struct slog *lg) {
    for (unsigned i = 0; i < lg->dirty_n; i++) {
        lg->dirty[i]->listed = false;
        slog_file_flush(lg, lg->dirty[i]);
    }
    lg->dirty_n = 0;
    if (lg->cf->sync == SCONF_NONE) {
        slog_visible(lg);
    }
}

unsigned slog_take_unsynced(struct slog *lg, int *ret_fds) {
    unsigned n = lg->unsynced_n;
    for (unsigned i = 0; i < n; i++) {
        lg->unsynced[i]->unsynced = false;
        ret_fds[i] = lg->unsynced[i]->fd;
    }
    lg->unsynced_n = 0;
    for (unsigned i = 0; i < lg->touched_n; i++) {
        struct slog_part *pt = &lg->parts[lg->touched[i]];
        pt->touched = false;
        pt->submitted = pt->next_offset;
        lg->submitted[i] = lg->touched[i];
    }
    lg->submitted_n = lg->touched_n;
    lg->touched_n = 0;
    return n;
}

void slog_synced(struct slog *lg) {
    for (unsigned i = 0; i < lg->submitted_n; i++) {
        struct slog_part *pt = &lg->parts[lg->submitted[i]];
        pt->visible = pt->submitted;
    }
    lg->moved |= lg->submitted_n > 0;
    lg->submitted_n = 0;
}

/* Forgets what the ring has overwritten. */
static void slog_trim(struct slog *lg, struct slog_part *pt) {
    if (lg->cf->files != SCONF_RECYCLED) {
        return;
    }
    while (pt->first < pt->last && pt->entries[pt->first % pt->cap].at + lg->cf->ring_bytes < lg->ring.end) {
        pt->first++;
    }
}

int64_t slog_start(struct slog *lg, unsigned part) {
    struct slog_part *pt = &lg->parts[part];
    slog_trim(lg, pt);
    return pt->first < pt->last ? pt->entries[pt->first % pt->cap].base : pt->next_offset;
}

/* The entry that holds `offset`, by bisection. */
static uint64_t slog_find(const struct slog_part *pt, int64_t offset) {
    uint64_t lo = pt->first, hi = pt->last;
    while (lo + 1 < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (pt->entries[mid % pt->cap].base <= offset) {
            lo = mid;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static void slog_copy(struct slog *lg, const struct slog_part *pt, const struct slog_entry *e, size_t n,
                      struct kbuf *out) {
    bool ring = lg->cf->files == SCONF_RECYCLED;
    int fd = ring ? lg->ring.fd : pt->fds[e->file];
    off_t at = (off_t)(ring ? e->at % lg->cf->ring_bytes : e->at);
    kbuf_reserve(out, n);
    if (pread(fd, out->p + out->len, n, at) != (ssize_t)n) {
        die("pread");
    }
    out->len += n;
}

size_t slog_read(struct slog *lg, unsigned part, int64_t offset, size_t max, struct kbuf *out) {
    struct slog_part *pt = &lg->parts[part];
    slog_trim(lg, pt);
    size_t got = 0;
    if (offset >= pt->visible || pt->first == pt->last) {
        return 0;
    }
    for (uint64_t i = slog_find(pt, offset); i < pt->last;) {
        const struct slog_entry *e = &pt->entries[i % pt->cap];
        size_t run = 0;
        for (; i < pt->last; i++) {
            const struct slog_entry *x = &pt->entries[i % pt->cap];
            if (x->file != e->file || x->at != e->at + run || x->base >= pt->visible ||
                (got + run > 0 && got + run + x->size > max)) {
                break;
            }
            run += x->size;
        }
        if (run == 0) {
            break;
        }
        slog_copy(lg, pt, e, run, out);
        got += run;
    }
    return got;
}
