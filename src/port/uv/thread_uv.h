/* Starting the threads that help a shard: lanes and workers. */
#pragma once

#include <pthread.h>

#include "base/types.h"

/* All signals are blocked there, so that no wait is cut. False: no thread could be made. */
bool thread_uv_start(pthread_t *ret_thread, const char *name, size_t stack_bytes, void *(*body)(void *u), void *u);
