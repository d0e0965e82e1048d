/* What the shards' stores need from the data directory beyond the public face. Read-only after datadir_open: any
 * shard's thread. */
#pragma once

#include "store/datadir.h"

/* Does a partition directory of this name exist (as of datadir_open)? */
bool datadir_has_dir(const struct datadir *dd, const char *name);
/* In which marks file the newest mark stands; -1: m is not of this directory. */
int32_t datadir_mark_shard(const struct datadir *dd, const struct datadir_mark *m);
