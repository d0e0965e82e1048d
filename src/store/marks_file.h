/* The bytes of perigee.meta/marks.<shard>: which frames there are and what an entry looks like. */
#pragma once

#include "frames.h"
#include "store/datadir.h"

#define MARKS_ENTRY_BYTES 184

enum marks_kind { MARKS_OPEN = 1, MARKS_MOVED = 2, MARKS_CLEAN = 3 };

void marks_file_put(uint8_t *p, const struct datadir_mark *m, bool gone);
/* DAMAGED when the entry contradicts itself. */
err marks_file_get(const uint8_t *p, struct datadir_mark *ret, bool *ret_gone);
