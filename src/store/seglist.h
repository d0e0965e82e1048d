/* The segments of a log as its directory shows them. */
#pragma once

#include "base/err.h"
#include "port/disk.h"

struct plog;

/* Base of the first segment that counts: the one that holds the log start, or a later one. What lies before it is on its way out (trim.c). `active`
 * is known to count, whether its file is there or not; other files without bytes hold nothing. -1: all count; so it is while recovery may still need
 * producer states from below the start. */
off64 seglist_low(const struct plog *lg, const struct disk_entry *entries, size_t n, off64 active);
/* Is this a file of a segment before that one, or one that was about to be removed? Snapshots are not (heavy.c). */
bool seglist_is_left_over(const struct disk_entry *en, off64 low);
/* Bases of the segment files before `low`, the first one that counts; mem_alloc'd; returns how many. */
size_t seglist_left_over(off64 low, const struct disk_entry *entries, size_t n, off64 **ret_bases);
/* Says when each segment was written last where that is not known yet. */
void seglist_times(struct plog *lg, const struct disk_entry *entries, size_t n);

/* Adds a segment for each "<base>.log" in a listing whose base is below `below`, in order, before those that lg
 * knows; those below `closed` only when they have bytes. Sizes, index entries and
 * prefix sums are set. NOMEM (then nothing was added). */
err seglist_add(struct plog *lg, const struct disk_entry *entries, size_t n, off64 below, off64 closed);
