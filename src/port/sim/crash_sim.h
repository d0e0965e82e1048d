/* What a power loss leaves of a file system. */
#pragma once

#include "fs_sim.h"

/* The process's handles are closed and no snapshot is alive. Afterwards cache and platter are the same. */
void crash_sim_power(struct fs_sim *fs);
