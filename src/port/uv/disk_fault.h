/* Named crash points for tests on the real process: with PERIGEE_FAULT=NAME:K in the environment the process kills
 * itself with SIGKILL right before its K-th operation of that name, counted over all lanes and shards (every
 * single system call counts: a sync of three files is three).
 *
 * Names: disk.open close write put read sync syncfs truncate rename unlink mkdir rmtree list stat space forget ahead lock
 * (with "disk." in front), and disk.tear, which writes the first half of its K-th write and dies then. Compiled
 * out by NDEBUG_FAULTS. */
#pragma once

#include "port/disk.h"

enum { DISK_FAULT_TEAR = DISK_LOCK + 1 };  /* follows the last disk_op */

#ifndef NDEBUG_FAULTS

extern bool disk_fault_armed;              /* set once, before any disk exists; read-only afterwards */

void disk_fault_init(void);                /* reads the environment, once. Any thread */
void disk_fault_count(int what);           /* dies when it is the K-th */
bool disk_fault_is_due(int what);          /* counts; true: the caller is to die its own way, with disk_fault_die */
_Noreturn void disk_fault_die(void);

static inline void disk_fault(int what) {
    if (__builtin_expect(disk_fault_armed, 0)) {
        disk_fault_count(what);
    }
}

#else

#define disk_fault_armed false
static inline void disk_fault_init(void) {}
static inline bool disk_fault_is_due(int what) { return (void)what, false; }
_Noreturn static inline void disk_fault_die(void) { __builtin_trap(); }
static inline void disk_fault(int what) { (void)what; }

#endif
