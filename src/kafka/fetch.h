/* A fetch under way, as three files see it: 01_fetch.c (the request, and waiting without a session), fetch_look.c (one look at partitions: ask, charge, read, take bytes) and fetch_session.c
 * (what a session adds, and waiting with one). */
#pragma once

#include "api.h"
#include "broker/read.h"
#include "broker/watch.h"
#include "state/fsessions.h"
#include "wire/k_fetch.h"

struct fetch_spart;

struct fetch_part {
    struct k_fetch_resp_topic_part *resp;              /* in a session: made when it is told */
    const struct k_fetch_resp_topic *to;               /* NULL in a session */
    const struct k_fetch_req_topic_part *asked;        /* decoded, in the arena; NULL in a session */
    struct fetch_spart *sp;                            /* of a session, else NULL */
    const struct meta_topic *topic;    /* NULL: err says why. Looked at only before anything is sent */
    struct chain *records;             /* NULL: none */
    err err;
    bool told;                         /* in a session: the answer names it */
    uint32_t shard;                    /* of the owner, then index of its ask */
    uint32_t at;                       /* in that ask's parts */
};

struct fetch_work {
    struct k_fetch_resp resp;
    struct rq *rq;
    struct fetch_part *parts;
    size_t parts_n;
    size_t start;                      /* the part that is read first; then its neighbours, round to it again */
    struct read_ask *asks;             /* one per owner that is needed */
    size_t asks_n, out;                /* out: asks not home */
    struct arena *mem;                 /* of parts and asks: the request's, or `look` */
    struct arena look;                 /* in a session: what one look needs */
    size_t budget, charged;
    size_t counted;                    /* bytes that the last look counted; 0: none, or it took them */
    size_t parked_bytes;               /* charged for waiting */
    int32_t max_bytes, min_bytes;
    ms due;
    struct timer timer;
    bool over;                         /* time is over, or the broker stops: answer with what there is */
    bool failed;                       /* some partition has an error: answer at once */
    bool watching, probing, read_committed;
    bool wants_session;                /* the answer may open one */
    bool privileged;
    bool has_counted;                  /* the last look did */
    bool may_wait;                     /* parked_bytes is charged */
    bool parked;                       /* in a session: nothing is out but watches */
    struct fsession *session;          /* busy with this */
    struct ask bounce;                 /* to ourselves, behind the watches that came home with the one that woke us */
};

/* What one look found. */
struct fetch_found {
    size_t bytes;
    bool failed;
};

struct fetch_take {                    /* while an answer is put together */
    size_t left;
    bool first;
};

/* fetch_look.c */
void fetch_asks_drop(struct fetch_work *w);
bool fetch_asks(struct fetch_work *w);             /* one ask for each owner of w->parts; false without memory */
struct fetch_part *fetch_nth(const struct fetch_work *w, size_t i);
struct read_part *fetch_read_part(const struct fetch_work *w, const struct fetch_part *fp);
/* Charge (after those who wait for the same), read or count; fetch_judge when all is home. */
void fetch_look(struct fetch_work *w);
/* Are bytes counted before they are taken? Where more than one is wanted; and when memory is short, for who wants little need not wait behind who wants much. */
bool fetch_counts_first(const struct fetch_work *w);
void fetch_note_count(struct fetch_work *w, size_t bytes);     /* a look is home */
struct fetch_found fetch_sum(const struct fetch_work *w);
void fetch_settle_charge(struct fetch_work *w, size_t bytes);
void fetch_part_blank(const struct fetch_work *w, struct k_fetch_resp_topic_part *to, int32_t partition);
void fetch_fill(struct k_fetch_resp_topic_part *to, const struct read_part *p);
/* Bytes of the part into fp->records, as the answer's limits allow; in the order of reading. False without memory. */
bool fetch_take(struct fetch_work *w, struct fetch_part *fp, struct fetch_take *t);
/* There was something to read, and it got nothing of it. */
bool fetch_is_starved(const struct fetch_work *w, const struct fetch_part *fp);

/* 01_fetch.c */
void fetch_judge(struct fetch_work *w);            /* all read asks are home: enough? */
void fetch_watch_home(struct fetch_work *w, err e);            /* a READ_WATCH came home */
void fetch_gone(struct fetch_work *w);             /* the client is: no answer */
err fetch_resolve(struct rq *rq, span name, uuid id, const struct meta_topic **ret_t);

/* fetch_session.c */
void fetch_session_set_init(struct conn_set *set);
/* What the request says about sessions. False: refused, w->resp says why. Else w->session, w->wants_session, or neither. */
bool fetch_session_start(struct fetch_work *w, const struct k_fetch_req *q);
void fetch_session_look(struct fetch_work *w);
void fetch_session_judge(struct fetch_work *w);
void fetch_session_hurry(struct fetch_work *w);    /* w->over was set */
void fetch_session_leave(struct fetch_work *w);    /* without an answer; no-op without a session */
void fetch_session_open(struct fetch_work *w);     /* the answer of a full fetch is complete: a session of what it names, if there is room */
