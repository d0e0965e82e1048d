/* Computation off the turn: what would keep a shard longer than a turn may last. One thread a shard runs the requests, first come first served; each comes home
 * like a disk request. The caller embeds a work_req and owns it until `done` runs on the shard's own thread (from the poll, before the turn). */
#pragma once

#include "base/list.h"

struct work_req {
    struct list link;              /* private while submitted */
    void (*run)(struct work_req *rq);          /* on the worker's thread: touches only what the request owns, and memory (base/mem.h) */
    void (*done)(struct work_req *rq);
    bool ran;                      /* private */
};

struct work {
    void (*submit)(struct work *w, struct work_req *rq);       /* `done` never runs inside */
};

static inline void work_submit(struct work *w, struct work_req *rq) { w->submit(w, rq); }
