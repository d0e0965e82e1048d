/* Invariants: always on, in release too. must(cond) prints the condition, file and line, and aborts. Hostile input, a full
 * disk or a lost peer is never a must but an err. One condition each. */
#pragma once

#define must(cond) ((cond) ? (void)0 : must_fail(#cond, __FILE__, __LINE__))

_Noreturn void must_fail(const char *cond, const char *file, int line);
