/* Fetch sessions (KIP-227, S7.30-7.39): what a session holds, what in it may have changed, its epochs, and the cache of sessions with its eviction. Quiet: the
 * caller says what time it is, what was read and which partition moved.
 *
 * A partition of a session is in one of four places, so that a poll costs what is due and not what is there:
 *   due    the next look takes it: new, asked anew by the client, moved, or answered with something. First come, first read
 *   out    a look has it
 *   some   looked at, with something to tell that was not enough for an answer; watched
 *   idle   looked at, nothing to tell; watched
 * "Watched" says that the caller has a watch out that ends in fsession_moved. A watched partition that leaves its session goes to `drop`, and its memory stays until the
 * caller, whose watch came home, gives it to fsession_part_free.
 *
 * One poll of a session:  fsessions_find, fsessions_begin, fsession_put and fsession_forget, then rounds of fsession_take, per part fsession_verdict, fsession_settle;
 * fsessions_end. A session whose poll is under way (busy) is never evicted, and closed only when that poll ends. Runs on: home shard. */
#pragma once

#include "base/list.h"
#include "base/map.h"
#include "base/uuid.h"

enum fsession_at { FSESSION_IDLE, FSESSION_SOME, FSESSION_DUE, FSESSION_OUT };

/* What a look found. */
enum fsession_verdict {
    FSESSION_NOTHING,                  /* idle until it moves */
    FSESSION_NOT_ENOUGH,               /* something to tell, in an answer that does not leave yet */
    FSESSION_LEFT,                     /* something is there and stays there: first in the next look, where it was */
    FSESSION_SERVED,                   /* its records go out: last in the next look (S7.37) */
};

struct fsession_want {                 /* as the client asked last */
    int32_t current_epoch, last_fetched_epoch;
    off64 from;
    int32_t bytes_max;
};

struct fsession_ends {                 /* -1: not told, or an error */
    off64 high_watermark, last_stable, log_start;
};

struct fsessions;

struct fsession_topic {
    struct map_node node;              /* in s->topics */
    uint32_t refs;                     /* parts */
    uuid id;                           /* zero when the session goes by names */
    uint32_t name_n;                   /* 0 when it goes by ids */
    uint8_t name[];
};

struct fsession_part {
    struct map_node node;              /* in s->parts */
    struct list link;                  /* in s->due, out or some; in no list when idle */
    struct fsession *s;                /* NULL: dropped, kept for its watch */
    struct fsession_topic *topic;
    int32_t partition;
    uint8_t at;                        /* enum fsession_at */
    uint8_t verdict;
    bool watched;                      /* set by the caller when its watch goes out */
    bool moved;                        /* while out */
    struct fsession_want want;
    struct fsession_ends told;         /* in the last answer that named it */
    size_t bytes;                      /* while in some: bytes found */
};

struct fsession {
    struct map_node node;              /* in all->by_id */
    struct list used_link;             /* in all->used */
    struct fsessions *all;
    int32_t id;
    int32_t next_epoch;                /* expected of the next poll */
    bool by_id;                        /* topics by id: opened by version 13 or later (S7.36) */
    bool privileged;                   /* a follower's */
    bool busy, gone;                   /* a poll is under way; closed meanwhile */
    ms created, used;
    struct map topics, parts;
    struct list due, out, some;
    size_t found;                      /* bytes of the parts in some */
    void *u;                           /* caller's: its poll */
};

struct fsession_key {
    span name;                         /* when the session goes by names */
    uuid id;                           /* else */
    int32_t partition;
};
/* Add or update; due from now on. *ret_new: the caller's own fields are to be set up. LIMIT, NOMEM: nothing changed. */
err fsession_put(struct fsession *s, const struct fsession_key *key, const struct fsession_want *want, struct fsession_part **ret_p, bool *ret_new);
void fsession_forget(struct fsession *s, const struct fsession_key *key);      /* no-op when it is not there */

/* Everything due goes to s->out (with_some: what has something to tell before it); how many are there. */
size_t fsession_take(struct fsession *s, bool with_some);
static inline void fsession_verdict(struct fsession_part *p, enum fsession_verdict v, size_t bytes) {
    p->verdict = (uint8_t)v;
    p->bytes = bytes;
}
/* Every part out goes where its verdict says. Those that are idle or in some and not watched are to be watched by the caller. */
void fsession_settle(struct fsession *s);
/* The watch of p came home: it is not watched any more, and due. Not for dropped ones. */
void fsession_moved(struct fsession_part *p);
void fsession_part_free(struct fsessions *fs, struct fsession_part *p);        /* a dropped one, its watch home */

/* Would an answer with these ends tell the client anything that it does not know (S7.35)? */
bool fsession_is_news(const struct fsession_part *p, const struct fsession_ends *ends);
/* They go out. After an error (failed) whatever comes next is news. */
void fsession_tell(struct fsession_part *p, const struct fsession_ends *ends, bool failed);
