/* One index file of a segment: entries in the file's own format, those that the file holds and those that wait for
 * the next heavy checkpoint. Offset index: {offset - base i32, position i32}; time index: {timestamp i64, offset -
 * base i32}; big-endian, strictly increasing. */
#pragma once

#include "base/err.h"
#include "base/types.h"

#define SEGIDX_OFFSET_BYTES 8
#define SEGIDX_TIME_BYTES 12

struct segidx {
    uint8_t *pend;                 /* entries after those in the file */
    uint32_t pend_n, pend_cap;
    uint32_t file_n;               /* entries of the file that count */
    uint8_t *loaded;               /* the file's entries while a reader needs them; NULL: not in memory */
};

void segidx_done(struct segidx *ix);
static inline uint32_t segidx_count(const struct segidx *ix) { return ix->file_n + ix->pend_n; }
/* Adds an entry; without memory it is left out, which an index of every few KiB can bear. */
void segidx_add_offset(struct segidx *ix, uint32_t rel, uint32_t position);
void segidx_add_time(struct segidx *ix, ms ts, uint32_t rel);
/* Forget waiting entries at or after a position (offset index), or a relative offset (time index). */
void segidx_cut_offset(struct segidx *ix, uint32_t position);
void segidx_cut_time(struct segidx *ix, uint32_t rel);
ms segidx_last_time(const struct segidx *ix, ms in_file);    /* of the waiting entries; in_file when there are none */
/* The first n waiting entries are in the file now. */
void segidx_wrote(struct segidx *ix, uint32_t n, size_t entry_bytes);

struct segidx_at {
    uint32_t rel, position;
};
/* The last entry whose offset is <= rel; false when there is none or the file's part is needed and not loaded (then
 * *ret_cold). */
bool segidx_find(const struct segidx *ix, uint32_t rel, struct segidx_at *ret, bool *ret_cold);
/* The last entry whose timestamp is < ts; ret->rel is its offset. */
bool segidx_find_time(const struct segidx *ix, ms ts, uint32_t *ret_rel, bool *ret_cold);
/* Are these file bytes a sane index: strictly increasing, below the given ends? */
bool segidx_offsets_ok(const uint8_t *p, size_t n, uint64_t rel_max, uint64_t position_max);
bool segidx_times_ok(const uint8_t *p, size_t n, uint64_t rel_max);
