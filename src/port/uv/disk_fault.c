/* The crash points of disk_fault.h: which one is armed, how often it was passed, and the death itself.
 *
 * Happy path: PERIGEE_FAULT is not set and every crash point costs one branch on a flag that never changes.
 * Failure modes: a malformed PERIGEE_FAULT arms nothing but says so on stderr, for a test that believes to crash
 * must not pass by surviving.
 * Runs on: init on any thread, once; the rest on disk threads and on whoever uses disk_call. */
#include "disk_fault.h"

#ifndef NDEBUG_FAULTS

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool disk_fault_armed;
static int armed_what;
static uint64_t armed_at;
static _Atomic uint64_t passed;

static const char *const names[] = {
    [DISK_OPEN] = "disk.open",         [DISK_CLOSE] = "disk.close",   [DISK_WRITE] = "disk.write",
    [DISK_READ] = "disk.read",         [DISK_SYNC] = "disk.sync",     [DISK_SYNCFS] = "disk.syncfs",
    [DISK_TRUNCATE] = "disk.truncate", [DISK_RENAME] = "disk.rename", [DISK_UNLINK] = "disk.unlink",
    [DISK_MKDIR] = "disk.mkdir",       [DISK_RMTREE] = "disk.rmtree", [DISK_LIST] = "disk.list",
    [DISK_STAT] = "disk.stat",         [DISK_SPACE] = "disk.space",   [DISK_FORGET] = "disk.forget",
    [DISK_LOCK] = "disk.lock",         [DISK_PUT] = "disk.put",     [DISK_AHEAD] = "disk.ahead",
    [DISK_ROOM] = "disk.room",
    [DISK_FAULT_TEAR] = "disk.tear",
};

static bool arm(const char *spec) {
    const char *colon = strchr(spec, ':');
    char *end = NULL;
    uint64_t k = colon ? strtoull(colon + 1, &end, 10) : 0;
    if (k == 0 || *end != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == (size_t)(colon - spec) && memcmp(names[i], spec, (size_t)(colon - spec)) == 0) {
            armed_what = (int)i;
            armed_at = k;
            return true;
        }
    }
    return false;
}

static void init(void) {
    const char *spec = getenv("PERIGEE_FAULT");
    disk_fault_armed = spec && arm(spec);
    /* Another room's crash points may share the variable: only names that claim to be ours are judged. */
    if (spec && strncmp(spec, "disk.", 5) == 0 && !disk_fault_armed) {
        (void)fprintf(stderr, "PERIGEE_FAULT='%s' names no crash point\n", spec);
    }
}

void disk_fault_init(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, init);
}

bool disk_fault_is_due(int what) {
    return what == armed_what && atomic_fetch_add_explicit(&passed, 1, memory_order_relaxed) + 1 == armed_at;
}

void disk_fault_die(void) {
    for (;;) {
        (void)kill(getpid(), SIGKILL);
    }
}

void disk_fault_count(int what) {
    if (disk_fault_is_due(what)) {
        disk_fault_die();
    }
}

#endif
