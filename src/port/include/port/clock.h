/* Time. Monotonic for every deadline; wall time only for timestamps in records and logs, never for deadlines. */
#pragma once

#include "base/types.h"

struct clock {
    ms (*now)(struct clock *c);            /* monotonic milliseconds; suspended time does not count */
    int64_t (*now_us)(struct clock *c);    /* the same clock in microseconds, for measurements */
    ms (*wall)(struct clock *c);           /* milliseconds since 1970 */
};

static inline ms clock_now(struct clock *c) { return c->now(c); }
static inline int64_t clock_now_us(struct clock *c) { return c->now_us(c); }
static inline ms clock_wall(struct clock *c) { return c->wall(c); }
