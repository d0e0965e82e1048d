/* A request's life: new -> decode -> (wait for its turn on the connection) -> run -> reply -> encoded and sent by conn.c -> free.
 * Failure modes: undecodable: the connection closes (S1.6); no memory: likewise, with one line.
 * Runs on: home shard. */
#include "rq.h"

#include <string.h>

#include "api.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/must.h"

#define RQ_KEPT 256

struct rq *rq_new(struct conn *cn, struct chunk *frame, size_t n, size_t charge) {
    struct conn_set *set = cn->set;
    struct list *kept = list_pop_front(&set->free_rqs);
    struct rq *rq = kept != NULL ? list_entry(kept, struct rq, link) : mem_alloc(MEM_CONN, sizeof(*rq));
    if (rq == NULL) {
        return NULL;
    }
    set->free_rqs_n -= kept != NULL;
    *rq = (struct rq){.cn = cn, .sh = set->sh, .frame = frame, .frame_n = n, .frame_charge = charge};
    list_init(&rq->link);
    list_init(&rq->admit.link);
    arena_init(&rq->arena, &set->sh->arenas, LIMIT_ARENA_BYTES + 4 * n);
    return rq;
}

static void rq_uncharge_frame(struct rq *rq) {
    size_t n = rq->frame_charge;
    rq->frame_charge = 0;
    if (n > 0) {
        admit_give(&rq->sh->admit, n);
    }
}

void rq_free(struct rq *rq) {
    struct conn_set *set = rq->cn->set;
    if (rq->forget != NULL) {
        rq->forget(rq);
    }
    list_remove(&rq->link);
    admit_cancel(&rq->admit);
    chunk_unref(rq->frame);
    arena_done(&rq->arena);
    rq_uncharge(rq, rq->charge);
    rq_uncharge_frame(rq);
    if (set->free_rqs_n < RQ_KEPT) {
        set->free_rqs_n++;
        list_push_back(&set->free_rqs, &rq->link);
    } else {
        mem_free(rq);
    }
}

static err rq_decode_body(struct rq *rq, struct rd *r) {
    const struct msg *m = rq->api->req;
    rq->body = arena_alloc(&rq->arena, m->bytes);
    if (rq->body == NULL) {
        return ERR_NOMEM;
    }
    return m->get(rq->body, r, rq->version);       /* bytes left over are tolerated (S1.6) */
}

err rq_decode(struct rq *rq) {
    struct rd r;
    struct k_request_header h;
    rd_init(&r, span_of(rq->frame->data, rq->frame_n), &rq->arena);
    err e = head_request_get(&r, &h, &rq->api);
    if (e != ERR_OK) {
        return e;
    }
    rq->version = h.api_version;
    rq->correlation = h.correlation_id;
    rq->client_id = h.client_id;
    rq->row = rq->api == NULL ? NULL : api_row_find(h.api_key);
    if (rq->row == NULL) {
        return ERR_BAD_VERSION;
    }
    if (h.api_version < rq->api->min || h.api_version > rq->api->max) {
        rq->v0_layout = h.api_key == K_API_VERSIONS;               /* S2.4: not parsed, answered in the oldest layout */
        return rq->v0_layout ? ERR_OK : ERR_BAD_VERSION;
    }
    return rq_decode_body(rq, &r);
}

void rq_run(struct rq *rq) {
    rq->state = RQ_RUNNING;
    rq->sh->stats.requests++;
    rq->row->run(rq);
}

void rq_reply(struct rq *rq, const void *resp) {
    must(rq->state == RQ_RUNNING);
    rq->resp = resp;
    rq->state = RQ_DONE;
    rq->hurry = NULL;
    conn_changed(rq->cn);
}

void rq_silent(struct rq *rq) {
    rq->no_reply = true;
    rq_reply(rq, NULL);
}

void rq_fail(struct rq *rq, err why) {
    log_warn("rq.failed", "api=%s peer=%s reason='%s' action='connection closed'", rq->api->name, rq->cn->peer.host, err_text(why));
    conn_close(rq->cn, CONN_AFTER_REPLIES);
    rq_silent(rq);
}

void rq_drop_frame(struct rq *rq) {
    if (rq->frame == NULL) {
        return;
    }
    rq->body = NULL;
    rq->client_id = SPAN_NULL;
    chunk_unref(rq->frame);
    rq->frame = NULL;
    rq_uncharge_frame(rq);
}

static void rq_admitted(struct admit_wait *w) {
    struct rq *rq = list_entry(w, struct rq, admit);
    rq->charge += w->bytes;
    rq->admitted(rq);
}

void rq_charge(struct rq *rq, size_t n, void (*next)(struct rq *rq)) {
    struct admit *a = &rq->sh->admit;
    rq->admitted = next;
    rq->little = rq->charge == 0 && n <= LIMIT_REPLY_LITTLE_BYTES;
    if (rq->little ? admit_take_little(a, &rq->admit, n, rq_admitted) : admit_take_reply(a, &rq->admit, n, rq_admitted)) {
        rq->charge += n;
        next(rq);
    }
}

void rq_charge_over(struct rq *rq, size_t n) {
    rq->charge += n;
    admit_over(&rq->sh->admit, n, rq->little);
}

void rq_uncharge(struct rq *rq, size_t n) {
    n = n < rq->charge ? n : rq->charge;
    rq->charge -= n;
    if (n > 0 && rq->little) {
        admit_give_little(&rq->sh->admit, n);
    } else if (n > 0) {
        admit_give_reply(&rq->sh->admit, n);
    }
}

void *rq_array(struct rq *rq, size_t n, size_t bytes) { return arena_zalloc(&rq->arena, n * bytes); }

bool rq_allow(const struct rq *rq, enum allow_op op, enum allow_kind kind, span name) { return allow(&rq->cn->who, op, kind, name); }
