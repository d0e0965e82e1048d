/* The segments of a log as its directory shows them. */
#pragma once

#include "base/err.h"
#include "port/disk.h"

struct plog;

/* Adds a segment for each "<base>.log" in a listing whose base is below `below`, in order, before those that lg
 * knows; those below `closed` only when they have bytes. Sizes, index entries and
 * prefix sums are set. NOMEM (then nothing was added). */
err seglist_add(struct plog *lg, const struct disk_entry *entries, size_t n, off64 below, off64 closed);
