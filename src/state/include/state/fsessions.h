/* The cache of fetch sessions of one shard: ids, epochs, room and eviction (S7.32, 7.33, 7.36, 7.38). Quiet. What a session holds: fsession.h. Runs on: home shard. */
#pragma once

#include "state/fsession.h"

#define FSESSIONS_IDLE_MS 120000       /* without a poll for longer: the first to be evicted; older: may be evicted by a larger one (S7.38) */

struct fsessions_conf {
    size_t sessions_max;               /* 0: none is ever opened */
    size_t bytes_max;                  /* memory of all */
    size_t parts_max;                  /* of one session */
    size_t part_bytes;                 /* the caller's struct, which begins with a fsession_part */
    uint32_t index, of;                /* this is cache number `index` of `of`: ids of different caches differ */
    uint64_t seed;
    void (*drop)(void *u, struct fsession_part *p);
    void *u;
};

struct fsessions {
    struct fsessions_conf conf;
    struct map by_id;
    struct list used;                  /* the one not polled for longest first */
    size_t n;
    size_t bytes;                      /* charged, dropped parts included */
    size_t dropped, dropped_bytes;     /* parts that wait for their watches */
    ms believed_until;                 /* until then a session needs more than believed_parts partitions to evict one */
    size_t believed_parts;
    uint64_t evicted;
};

void fsessions_init(struct fsessions *fs, const struct fsessions_conf *conf);
void fsessions_done(struct fsessions *fs);             /* every session closed, no poll under way, no part dropped any more */
void fsessions_close_all(struct fsessions *fs);        /* busy ones when their polls end */
bool fsessions_is_empty(const struct fsessions *fs);   /* nothing is left, dropped parts included */
struct fsession *fsessions_by_id(struct fsessions *fs, int32_t id);
/* The session of an incremental poll: NO_SESSION; BAD_SESSION_EPOCH, also while a poll of it is under way elsewhere; SESSION_BY_ID (S7.32, S7.36). */
err fsessions_find(struct fsessions *fs, int32_t id, int32_t epoch, bool by_id, struct fsession **ret_s);

struct fsession_open {
    ms now;
    uint64_t random;                   /* chooses the id */
    size_t parts_n;                    /* it will hold */
    bool by_id, privileged;
};
/* A new session, without parts. LIMIT: no room, and none that may be evicted for this one; NOMEM. */
err fsessions_open(struct fsessions *fs, const struct fsession_open *in, struct fsession **ret_s);
/* Not found any more; freed now, or when the poll under way ends. */
void fsessions_close(struct fsession *s);

void fsessions_begin(struct fsession *s, ms now);       /* a poll: the epoch moves on (S7.33) */
void fsessions_end(struct fsession *s, ms now);         /* s may be gone afterwards */
