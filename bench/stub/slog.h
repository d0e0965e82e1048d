#pragma once
/* slog.h: the stub's log: batches appended to files, found again by offset. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "../common/batch.h"
#include "../common/kbuf.h"
#include "sconf.h"

enum {
    SLOG_IOV_MAX = 64,          /* small batches gathered into one write */
    SLOG_LARGE = 64 << 10,      /* from here on a batch is written at once, while it is in the cache */
    SLOG_FILES_MAX = 1024,      /* rolled files of one partition */
    SLOG_ENTRIES_MAX = 1 << 22, /* remembered batches of one partition; older ones are forgotten */
};

/* A file that is being appended to. */
struct slog_file {
    int fd;
    uint64_t end;        /* logical end; in the ring it only grows */
    uint64_t pending_at; /* where the gathered pieces belong */
    unsigned pending_n;
    struct iovec pending[SLOG_IOV_MAX]; /* borrowed from the connections until slog_flush */
    bool listed, unsynced;              /* on the list of files to flush; written since the last sync */
};

struct slog_entry {
    int64_t base;
    uint64_t at; /* place in the file; in the ring: logical place */
    uint32_t size, file;
};

struct slog_part {
    struct slog_file *file; /* fresh: its own; recycled: the ring */
    int *fds;               /* fresh: every file so far, the last one is being written */
    uint32_t fd_n;
    struct slog_entry *entries; /* ring buffer of `cap` (a power of two): [first, last) */
    uint64_t first, last, cap;
    int64_t next_offset, visible, submitted;
    bool touched;
};

struct slog {
    const struct sconf *cf;
    struct slog_part *parts;
    unsigned part_n;
    struct slog_file ring;
    struct slog_file **dirty; /* files with gathered pieces */
    unsigned dirty_n;
    struct slog_file **unsynced; /* files written since the last sync was taken */
    unsigned unsynced_n;
    uint32_t *touched; /* partitions appended to since the last sync was taken */
    unsigned touched_n;
    uint32_t *submitted; /* partitions that the sync in flight makes visible */
    unsigned submitted_n;
    bool moved; /* something became visible since the flag was cleared */
};

/* recycled: writes the whole ring once, so that its blocks and pages exist. */
void slog_init(struct slog *lg, const struct sconf *cf);

/* Makes `n` empty partitions; drops what was there. */
void slog_partitions(struct slog *lg, unsigned n);

/* Stamps the base offset into the batch (outside the CRC) and queues or writes it. `p` must stay valid and in
 * place until slog_flush. Returns the base offset. */
int64_t slog_append(struct slog *lg, unsigned part, uint8_t *p, const struct batch_view *b);

/* Writes everything queued. Without sync everything written becomes visible. */
void slog_flush(struct slog *lg);

/* Takes the list of descriptors to sync (place for SCONF_PARTS_MAX + 1); returns how many. 0: nothing to do.
 * slog_synced makes what was taken visible. */
unsigned slog_take_unsynced(struct slog *lg, int *ret_fds);
void slog_synced(struct slog *lg);

int64_t slog_start(struct slog *lg, unsigned part);

/* Bytes of whole batches from `offset` on, at most `max` but at least one batch; 0 at the end. They are
 * appended to `out` (read from the page cache). */
size_t slog_read(struct slog *lg, unsigned part, int64_t offset, size_t max, struct kbuf *out);
