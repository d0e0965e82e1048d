/* mark("lease.redelivered") says that a rare line ran; a test asserts that it ran *that* line. Free in release builds. */
#pragma once

#include "base/types.h"

#ifdef PERIGEE_MARKS
#define mark(name) mark_hit(name)
#else
#define mark(name) ((void)0)
#endif

void mark_hit(const char *name);                 /* name is a literal; any thread */
uint64_t mark_count(const char *name);           /* hits since the process started (or mark_reset) */
void mark_reset(void);
/* All names and counts, in order of name, into a callback. */
void mark_each(void (*on)(void *u, const char *name, uint64_t n), void *u);
