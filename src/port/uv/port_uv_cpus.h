/* The cgroup's CPU quota. Private to port_uv; apart for its test. */
#pragma once

#include "base/types.h"

/* Whole CPUs, rounded up, that the cgroups named in `membership` (/proc/self/cgroup) and their parents below
 * `mount` (/sys/fs/cgroup) allow; 0: no quota is set, or none can be read. Version 2 and 1. */
uint32_t port_uv_cpus_quota(const char *membership, const char *mount);
