/* One index file of a segment, in memory.
 *
 * Happy path: each index.interval.bytes of log an entry is added to `pend`; a heavy checkpoint appends them to the
 * file and segidx_wrote drops them. A cold read that needs older ones loads the file's part, which may be dropped
 * again at any time.
 * Failure modes: without memory an entry is left out. What was loaded is checked (segidx_*_ok) before it is
 * believed, and whoever uses an entry checks the batch that it points at: an index can make a read slower, never wrong.
 * Runs on: owner shard. */
#include "segidx.h"

#include <string.h>

#include "base/be.h"
#include "base/mem.h"
#include "base/must.h"

void segidx_done(struct segidx *ix) {
    mem_free(ix->pend);
    mem_free(ix->loaded);
    *ix = (struct segidx){0};
}

static uint8_t *grow(struct segidx *ix, size_t entry_bytes) {
    if (ix->pend_n == ix->pend_cap) {
        uint32_t cap = ix->pend_cap ? ix->pend_cap * 2 : 4;
        uint8_t *p = mem_realloc(MEM_INDEX, ix->pend, cap * entry_bytes);
        if (!p) {
            return NULL;
        }
        ix->pend = p;
        ix->pend_cap = cap;
    }
    return ix->pend + entry_bytes * ix->pend_n++;
}

void segidx_add_offset(struct segidx *ix, uint32_t rel, uint32_t position) {
    uint8_t *p = grow(ix, SEGIDX_OFFSET_BYTES);
    if (p) {
        be32_put(p, rel);
        be32_put(p + 4, position);
    }
}

void segidx_add_time(struct segidx *ix, ms ts, uint32_t rel) {
    uint8_t *p = grow(ix, SEGIDX_TIME_BYTES);
    if (p) {
        be64_put(p, (uint64_t)ts);
        be32_put(p + 8, rel);
    }
}

void segidx_cut_offset(struct segidx *ix, uint32_t position) {
    while (ix->pend_n > 0 && be32_get(ix->pend + (ix->pend_n - 1) * SEGIDX_OFFSET_BYTES + 4) >= position) {
        ix->pend_n--;
    }
}

void segidx_cut_time(struct segidx *ix, uint32_t rel) {
    while (ix->pend_n > 0 && be32_get(ix->pend + (ix->pend_n - 1) * SEGIDX_TIME_BYTES + 8) >= rel) {
        ix->pend_n--;
    }
}

ms segidx_last_time(const struct segidx *ix, ms in_file) {
    return ix->pend_n > 0 ? (ms)be64_get(ix->pend + (size_t)(ix->pend_n - 1) * SEGIDX_TIME_BYTES) : in_file;
}

void segidx_wrote(struct segidx *ix, uint32_t n, size_t entry_bytes) {
    must(n <= ix->pend_n);
    if (n == 0) {
        return;
    }
    mem_free(ix->loaded);          /* it ends before what was added */
    ix->loaded = NULL;
    memmove(ix->pend, ix->pend + n * entry_bytes, (ix->pend_n - n) * entry_bytes);
    ix->pend_n -= n;
    ix->file_n += n;
    if (ix->pend_n == 0) {
        mem_free(ix->pend);
        ix->pend = NULL;
        ix->pend_cap = 0;
    }
}

/* How many of n entries have rel <= key (offset index). */
static uint32_t offsets_upto(const uint8_t *p, uint32_t n, uint32_t rel) {
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (be32_get(p + (size_t)mid * SEGIDX_OFFSET_BYTES) <= rel) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

static uint32_t times_before(const uint8_t *p, uint32_t n, ms ts) {
    uint32_t lo = 0, hi = n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if ((ms)be64_get(p + (size_t)mid * SEGIDX_TIME_BYTES) < ts) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

bool segidx_find(const struct segidx *ix, uint32_t rel, struct segidx_at *ret, bool *ret_cold) {
    const uint8_t *p = ix->pend;
    uint32_t n = offsets_upto(p, ix->pend_n, rel);
    if (n == 0 && ix->file_n > 0) {
        if (!ix->loaded) {
            *ret_cold = true;
            return false;
        }
        p = ix->loaded;
        n = offsets_upto(p, ix->file_n, rel);
    }
    *ret_cold = false;
    if (n == 0) {
        return false;
    }
    p += (size_t)(n - 1) * SEGIDX_OFFSET_BYTES;
    *ret = (struct segidx_at){.rel = be32_get(p), .position = be32_get(p + 4)};
    return true;
}

bool segidx_find_time(const struct segidx *ix, ms ts, uint32_t *ret_rel, bool *ret_cold) {
    const uint8_t *p = ix->pend;
    uint32_t n = times_before(p, ix->pend_n, ts);
    if (n == 0 && ix->file_n > 0) {
        if (!ix->loaded) {
            *ret_cold = true;
            return false;
        }
        p = ix->loaded;
        n = times_before(p, ix->file_n, ts);
    }
    *ret_cold = false;
    if (n == 0) {
        return false;
    }
    *ret_rel = be32_get(p + (size_t)(n - 1) * SEGIDX_TIME_BYTES + 8);
    return true;
}

bool segidx_offsets_ok(const uint8_t *p, size_t n, uint64_t rel_max, uint64_t position_max) {
    int64_t rel = -1, position = -1;
    for (size_t i = 0; i < n; i++, p += SEGIDX_OFFSET_BYTES) {
        int64_t r = be32_get(p), at = be32_get(p + 4);
        if (r <= rel || at <= position || (uint64_t)r >= rel_max || (uint64_t)at >= position_max) {
            return false;
        }
        rel = r;
        position = at;
    }
    return true;
}

bool segidx_times_ok(const uint8_t *p, size_t n, uint64_t rel_max) {
    int64_t ts = -1, rel = -1;
    for (size_t i = 0; i < n; i++, p += SEGIDX_TIME_BYTES) {
        int64_t t = (int64_t)be64_get(p), r = be32_get(p + 8);
        if (t <= ts || r <= rel || (uint64_t)r >= rel_max) {
            return false;
        }
        ts = t;
        rel = r;
    }
    return true;
}
