/* One whole run of the simulation, from the first start of the broker to its clean end. */
#pragma once

#include "plan.h"

struct run_totals {
    uint64_t runs, acked, read, losses, starts, events, cycles, changes, refused, ms;
    uint64_t ops;                      /* disk operations of the broker between setup and the final reading */
};

/* Runs the plan and judges it; a broken rule ends the process. Returns the hash of the trace and adds to t. on_line may be NULL. */
uint64_t run_plan(uint64_t seed, const struct plan *p, void (*on_line)(void *u, const char *line), struct run_totals *t);
