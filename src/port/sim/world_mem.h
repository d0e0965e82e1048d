/* Memory of the world itself: never on a node's heap, never NULL. An allocation made to fail by mem_fail_nth is simply tried again, so
 * that torture tests strike the node's code only. */
#pragma once

#include "base/mem.h"

void *world_mem_new(size_t n);                   /* zeroed */
void *world_mem_grow(void *p, size_t n);         /* p may be NULL; what is new is not zeroed */
char *world_mem_str(const char *s);              /* NULL gives NULL */
