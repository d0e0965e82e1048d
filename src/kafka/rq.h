/* One request: decoded, running, replied. Owned by its connection; memory is its arena, freed when the last reply byte left. */
#pragma once

#include "conn.h"

enum rq_state { RQ_WAITING, RQ_RUNNING, RQ_DONE };

struct rq {
    struct list link;                  /* in cn->rqs, then in conn_out->rqs */
    struct conn *cn;
    struct shard *sh;
    struct chunk *frame;               /* NULL once dropped */
    size_t frame_n;
    size_t charge;                     /* admitted bytes of the reply, given back at the end */
    bool little;                       /* they are of the memory for little replies */
    size_t frame_charge;               /* of the frame; its pool follows from its size */
    struct arena arena;
    const struct msg_api *api;
    const struct api_row *row;
    int16_t version;
    int32_t correlation;
    span client_id;                    /* null allowed (S1.11) */
    enum rq_state state;
    bool no_reply;                     /* acks=0 */
    bool sent;                         /* of one that overlaps: all its asks are out, so that the next one keeps the order behind it */
    bool abandoned;                    /* the connection is gone: no answer is wanted */
    bool v0_layout;                    /* ApiVersions of an unknown version (S2.4) */
    void *body;                        /* decoded request: a k_x_req in the arena */
    const void *resp;                  /* encoded at step 5: a k_x_resp in the arena */
    void *work;                        /* the handler's */
    struct admit_wait admit;           /* for a charge that waits */
    void (*admitted)(struct rq *rq);
    /* While running and parked: come home soon, because the client is gone (rq->abandoned) or the broker stops. NULL: it comes by itself. */
    void (*hurry)(struct rq *rq);
    /* Gives back what resp or work hold outside the arena; from rq_free, whether resp was sent or not. NULL: nothing. */
    void (*forget)(struct rq *rq);
};

struct rq *rq_new(struct conn *cn, struct chunk *frame, size_t n, size_t charge);      /* NULL without memory; frame and charge stay the caller's then */
void rq_free(struct rq *rq);
/* Header and body. BAD_FRAME and the like: the connection is closed by the caller (S1.6). */
err rq_decode(struct rq *rq);
void rq_run(struct rq *rq);
/* The answer is ready; resp lies in the arena (or is static). Encoded and sent at step 5, in order of requests. */
void rq_reply(struct rq *rq, const void *resp);
/* Done without an answer: acks=0, or the client is gone. */
void rq_silent(struct rq *rq);
/* Undoable (memory): close the connection, no answer. */
void rq_fail(struct rq *rq, err why);
/* The frame is not needed any more: what is kept was copied. Gives its charge back. */
void rq_drop_frame(struct rq *rq);
/* Charge n more bytes of the reply, now or later; then go on with next(rq). */
void rq_charge(struct rq *rq, size_t n, void (*next)(struct rq *rq));
/* Charge n more that are there already, whatever fits. */
void rq_charge_over(struct rq *rq, size_t n);
void rq_uncharge(struct rq *rq, size_t n);
/* n zeroed elements of size bytes, or NULL (then call rq_fail). */
void *rq_array(struct rq *rq, size_t n, size_t bytes);
bool rq_allow(const struct rq *rq, enum allow_op op, enum allow_kind kind, span name);
