#pragma once
/* die.h: the bench programs have one way to fail: say what happened on standard error and exit 1. */

#include <stddef.h>

void die(const char *fmt, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Zeroed memory, or die. The caller owns it and frees it with free(). */
void *die_alloc(size_t n, size_t size);
