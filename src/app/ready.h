/* The ready file: where the doors are, once the broker serves (DESIGN 7). */
#pragma once

#include "broker/node.h"

/* Write temp, then rename. False with errno set. */
bool ready_write(const char *path, const struct node *n);
void ready_remove(const char *path);   /* NULL-safe */
