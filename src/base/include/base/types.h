/* Small values passed by copy everywhere. */
#pragma once

#include <assert.h>      /* static_assert; for invariants there is base/must.h */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int64_t ms;      /* milliseconds: monotonic instants and durations, or wall time where a name says so */
typedef int64_t off64;   /* a record offset in a partition */
