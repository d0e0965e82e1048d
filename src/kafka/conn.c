/* A connection: frames in, replies out.
 *
 * Happy path: bytes land in the shard's scratch until a frame's size is known and its first 4 KiB (or all of it) are there; the size is charged, a chunk taken, and the rest of the frame
 * lands in the chunk itself. A whole frame is
 * decoded and joins cn->rqs. A request starts when all before it are done, except that consecutive Produce requests overlap once the former is sent on to the logs (S1.2). At step 5 the done ones at the front are encoded into
 * one chain and sent at once; they are freed when the kernel has taken the last byte.
 * Failure modes: a size that is negative or above the maximum, undecodable bytes, an API or version not served: closed, with one line (S1.1, S1.6). Memory short: the frame waits, the
 * socket is not read. A frame that comes too slowly (while we read), a reply not taken for 30 s or drop by drop while others wait for its memory: closed. The client goes, or
 * the connection is not read any more: parked requests are hurried home; once it is closed the memory goes.
 * Runs on: home shard. */
#include "conn.h"

#include <stdio.h>
#include <string.h>

#include "api.h"
#include "base/be.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/mark.h"
#include "base/mem.h"
#include "fetch.h"

#define CONN_STALL_MS 30000
#define CONN_HEAD_MS 10000
#define CONN_BODY_BYTES_PER_MS 4
#define CONN_TIGHT_MS 4000             /* while others wait for memory a body must come at 64 KB/s from then on */
#define CONN_TIGHT_BYTES_PER_MS 64
#define CONN_DRAIN_MS 3000
#define CONN_OUTS_KEPT 64

/* Replies of one flush, on their way to the socket. */
struct conn_out {
    struct list link;
    struct conn *cn;
    struct arena arena;
    struct chain chain;
    struct net_send send;
    struct list rqs;
};

static void conn_cut(struct conn *cn, struct chunk *in, const uint8_t *p, size_t n);
static void conn_start(struct conn *cn);
static void conn_frame(struct conn *cn);
static bool conn_is_full(const struct conn *cn);

static const char *conn_name(const struct conn *cn) { return cn->client[0] != '\0' ? cn->client : "?"; }

/* ---- closing ---- */

static void conn_free_if_over(struct conn *cn) {
    if (!cn->closed || !list_empty(&cn->rqs) || !list_empty(&cn->outs)) {
        return;
    }
    struct conn_set *set = cn->set;
    list_remove(&cn->link);
    list_remove(&cn->flush.link);
    wheel_cancel(&set->sh->wheel, &cn->timer);
    chunk_unref(cn->frame);
    chunk_unref(cn->aside);
    atomic_fetch_sub(&set->sh->node->conns, 1);
    set->sh->stats.conns--;
    mem_free(cn);
    conn_set_changed(set);
}

/* No answer can reach the client any more: requests that wait for their turn go, running ones are hurried. */
static void conn_abandon(struct conn *cn) {
    list_each_safe(it, &cn->rqs) {
        struct rq *rq = list_entry(it, struct rq, link);
        bool runs = rq->state == RQ_WAITING && rq->row->overlaps && !cn->set->draining;    /* what came whole is stored, whoever waits for it or not */
        rq->abandoned = true;
        if (!runs && (rq->state == RQ_WAITING || rq->state == RQ_DONE)) {
            cn->rqs_n--;
            rq_free(rq);
        } else if (rq->hurry != NULL) {
            rq->hurry(rq);
        }
    }
}

/* Parked requests come home with what there is. */
static void conn_hurry(struct conn *cn) {
    list_each_safe(it, &cn->rqs) {
        struct rq *rq = list_entry(it, struct rq, link);
        if (rq->hurry != NULL) {
            rq->hurry(rq);
        }
    }
}

/* Not read because too many requests wait: behind a parked one they would wait long, and nobody would see the client go. */
static void conn_hurry_full(struct conn *cn) {
    if (conn_is_full(cn)) {
        conn_hurry(cn);
    }
}

static void conn_give(struct conn *cn, size_t charge) { admit_give(&cn->set->sh->admit, charge); }

static void conn_stop_reading(struct conn *cn) {
    if (cn->waiting_admit) {
        admit_cancel(&cn->admit);
        cn->waiting_admit = false;
    } else if (cn->frame != NULL && !cn->early) {
        conn_give(cn, cn->frame_n + ADMIT_RQ_BYTES);
    }
    chunk_unref(cn->frame);
    cn->frame = NULL;
    cn->early = false;
    chunk_unref(cn->aside);
    cn->aside = NULL;
    cn->head_n = 0;
}

void conn_close(struct conn *cn, enum conn_close how) {
    if (cn->closing >= how) {
        return;
    }
    if (cn->closing == CONN_OPEN) {
        conn_stop_reading(cn);
    }
    cn->closing = how;
    if (how == CONN_NOW) {
        cn->set->sh->port->net->close(cn->net);
        conn_abandon(cn);
    } else {
        conn_hurry(cn);                            /* it is not read any more: nobody would see the client go while one waits */
    }
    conn_changed(cn);
}

static void conn_refuse(struct conn *cn, const char *why) {
    log_warn("conn.refused", "peer=%s:%u client='%s' listener=%s reason='%s' action='closed'", cn->peer.host, cn->peer.port, conn_name(cn),
             cn->listener->name, why);
    conn_close(cn, CONN_AFTER_REPLIES);
}

static void conn_on_gone(void *u, err why) {
    struct conn *cn = u;
    (void)why;
    if (cn->closing == CONN_NOW) {
        cn->set->sh->port->net->close(cn->net);    /* it was closing after its last replies: nobody takes them any more */
        return;
    }
    conn_close(cn, CONN_NOW);
}

static void conn_on_closed(void *u) {
    struct conn *cn = u;
    cn->closed = true;
    conn_changed(cn);
}

/* ---- replies ---- */

static struct conn_out *conn_out_new(struct conn *cn) {
    struct conn_set *set = cn->set;
    struct list *kept = list_pop_front(&set->free_outs);
    struct conn_out *o = kept != NULL ? list_entry(kept, struct conn_out, link) : mem_alloc(MEM_CONN, sizeof(*o));
    if (o == NULL) {
        return NULL;
    }
    set->free_outs_n -= kept != NULL;
    *o = (struct conn_out){.cn = cn};
    arena_init(&o->arena, &set->sh->arenas, SIZE_MAX);
    chain_init(&o->chain, &o->arena);
    list_init(&o->rqs);
    list_push_back(&cn->outs, &o->link);
    return o;
}

static void conn_out_free(struct conn_out *o) {
    struct conn_set *set = o->cn->set;
    list_remove(&o->link);
    chain_done(&o->chain);
    while (!list_empty(&o->rqs)) {
        o->cn->unsent_n--;
        rq_free(list_entry(o->rqs.next, struct rq, link));
    }
    arena_done(&o->arena);
    if (set->free_outs_n < CONN_OUTS_KEPT) {
        set->free_outs_n++;
        list_push_back(&set->free_outs, &o->link);
    } else {
        mem_free(o);
    }
}

static void conn_sent(struct net_send *s) {
    struct conn_out *o = s->u;
    struct conn *cn = o->cn;
    cn->active = shard_now(cn->set->sh);
    conn_out_free(o);
    conn_changed(cn);
}

static void conn_encode(struct conn_out *o, struct rq *rq) {
    uint8_t *size = chain_ink(&o->chain, 4);
    size_t before = o->chain.bytes;
    struct wr w = wr_to(&o->chain);
    struct k_response_header h;
    k_response_header_init(&h);
    h.correlation_id = rq->correlation;
    int v = rq->v0_layout ? 0 : rq->version;
    head_response_put(&h, rq->api, v, &w);
    rq->api->resp->put(rq->resp, &w, v);
    if (size != NULL) {
        be32_put(size, (uint32_t)(o->chain.bytes - before));
    }
}

/* Replies are on their way from now on: the timer looks whether they are taken. */
static void conn_watch_outs(struct conn *cn, size_t bytes) {
    ms now = shard_now(cn->set->sh);
    if (cn->queued == cn->taken) {
        cn->looked = cn->moved = now;
        cn->owed = cn->queued + bytes;
    }
    cn->queued += bytes;
    if (cn->timer.due > now + CONN_TIGHT_MS) {
        shard_timer(cn->set->sh, &cn->timer, now + CONN_TIGHT_MS);
    }
}

/* The done ones at the front of the queue, encoded into one chain. */
static void conn_reply(struct conn *cn) {
    struct conn_out *o = NULL;
    while (!list_empty(&cn->rqs)) {
        struct rq *rq = list_entry(cn->rqs.next, struct rq, link);
        if (rq->state != RQ_DONE) {
            break;
        }
        cn->rqs_n--;
        list_remove(&rq->link);
        if (rq->no_reply || cn->closing == CONN_NOW) {
            rq_free(rq);
            continue;
        }
        o = o != NULL ? o : conn_out_new(cn);
        if (o == NULL) {
            rq_free(rq);
            conn_close(cn, CONN_NOW);
            continue;
        }
        conn_encode(o, rq);
        list_push_back(&o->rqs, &rq->link);
        cn->unsent_n++;
    }
    if (o == NULL) {
        return;
    }
    if (!chain_ok(&o->chain) || cn->closing == CONN_NOW) {
        conn_out_free(o);
        conn_close(cn, CONN_NOW);                  /* a half-encoded answer never leaves (S1.10) */
        return;
    }
    o->send = (struct net_send){.chain = &o->chain, .done = conn_sent, .u = o};
    conn_watch_outs(cn, o->chain.bytes);
    cn->set->sh->port->net->send(cn->net, &o->send);
}

/* The last ones wait for those before them. */
static bool conn_is_full(const struct conn *cn) {
    uint32_t waiting = 0;
    for (const struct list *it = cn->rqs.prev; it != &cn->rqs && waiting < LIMIT_CONN_WAITING && list_entry(it, const struct rq, link)->state == RQ_WAITING; it = it->prev) {
        waiting++;
    }
    return waiting == LIMIT_CONN_WAITING || cn->rqs_n >= LIMIT_CONN_INFLIGHT || (cn->rqs_n >= LIMIT_CONN_INFLIGHT_SHORT && admit_is_short(&cn->set->sh->admit));
}

static bool conn_has_room(const struct conn *cn) {
    return cn->closing == CONN_OPEN && !cn->waiting_admit && !conn_is_full(cn) && cn->unsent_n < LIMIT_CONN_UNSENT &&
           cn->set->sh->port->net->unsent(cn->net) < LIMIT_CONN_OUT_BYTES;
}

/* A frame that was whole before it was charged. */
static bool conn_is_pending(const struct conn *cn) { return cn->frame != NULL && !cn->early && cn->frame_got == cn->frame_n; }

static void conn_resume(struct conn *cn) {
    if (conn_is_pending(cn) && conn_has_room(cn)) {
        conn_frame(cn);
    }
    if (cn->aside != NULL && conn_has_room(cn)) {
        struct chunk *c = cn->aside;
        cn->aside = NULL;
        conn_cut(cn, c, cn->aside_p, cn->aside_n);
        chunk_unref(c);
    }
    if (cn->paused && cn->aside == NULL && conn_has_room(cn)) {
        cn->paused = false;
        cn->frame_since = shard_now(cn->set->sh);  /* how slow it was meanwhile, nobody knows */
        cn->set->sh->port->net->read_more(cn->net);
    }
}

static void conn_on_flush(struct shard_flush *f) {
    struct conn *cn = list_entry(f, struct conn, flush);
    conn_start(cn);
    conn_reply(cn);
    if (cn->closing == CONN_AFTER_REPLIES && list_empty(&cn->rqs)) {
        cn->closing = CONN_NOW;
        cn->set->sh->port->net->close_after_send(cn->net, CONN_DRAIN_MS);
    }
    if (cn->closing == CONN_OPEN) {
        conn_resume(cn);
    }
    conn_free_if_over(cn);
}

void conn_changed(struct conn *cn) { shard_flush_later(cn->set->sh, &cn->flush); }

/* ---- requests ---- */

/* Beside producing nothing is begun for a client that does not take the replies it has: it would hold more memory of those that read (T56). */
static bool conn_takes(const struct conn *cn) { return list_empty(&cn->outs) || cn->set->sh->port->net->unsent(cn->net) == 0; }

static bool conn_may_start(const struct rq *rq, bool running, bool all_overlap, bool takes) {
    return rq->state == RQ_WAITING && (takes || rq->row->overlaps) && (!running || (all_overlap && rq->row->overlaps));
}

/* Start what order allows: the first, and consecutive ones that overlap. */
static void conn_start(struct conn *cn) {
    bool running = false, all_overlap = true, takes = conn_takes(cn);
    list_each_safe(it, &cn->rqs) {
        struct rq *rq = list_entry(it, struct rq, link);
        if (conn_may_start(rq, running, all_overlap, takes)) {
            rq_run(rq);
        }
        if (rq->state == RQ_WAITING) {
            return;
        }
        if (rq->state == RQ_RUNNING) {
            running = true;
            all_overlap = all_overlap && rq->row->overlaps && rq->sent;
        }
    }
}

static void conn_frame(struct conn *cn) {
    struct chunk *frame = cn->frame;
    size_t charge = cn->frame_n + ADMIT_RQ_BYTES;
    cn->frame = NULL;
    struct rq *rq = rq_new(cn, frame, cn->frame_n, charge);
    if (rq == NULL) {
        chunk_unref(frame);
        conn_give(cn, charge);
        conn_close(cn, CONN_AFTER_REPLIES);
        return;
    }
    err e = rq_decode(rq);
    if (e != ERR_OK) {
        char why[96];
        int key = rq->frame_n >= 2 ? be16_get(frame->data) : -1;
        snprintf(why, sizeof(why), "%s (api key %d version %d)", err_text(e), key, rq->version);
        rq_free(rq);
        conn_refuse(cn, why);
        return;
    }
    list_push_back(&cn->rqs, &rq->link);
    cn->rqs_n++;
    conn_start(cn);
}

/* ---- frames ---- */

static const char *conn_bad_size(const struct conn *cn, uint32_t n) {
    if (memcmp(cn->head, "GET ", 4) == 0 || memcmp(cn->head, "POST", 4) == 0 || memcmp(cn->head, "HEAD", 4) == 0) {
        return "this is the Kafka port, the peer speaks HTTP";
    }
    if (cn->head[0] == 0x16 && cn->head[1] == 0x03) {
        return "this listener is plaintext, the peer speaks TLS";
    }
    return n > INT32_MAX ? "negative frame size" : "frame above socket.request.max.bytes";
}

/* Bytes that the chunk of the frame being read is for. */
static size_t conn_frame_room(const struct conn *cn) { return cn->early && cn->frame_n > LIMIT_FRAME_TINY_BYTES ? LIMIT_FRAME_TINY_BYTES : cn->frame_n; }

static bool conn_take_chunk(struct conn *cn, size_t n) {
    struct chunk *early = cn->frame;
    cn->frame = chunk_new(cn->set->sh->chunks, n);
    if (cn->frame != NULL && early != NULL) {
        memcpy(cn->frame->data, early->data, cn->frame_got);
    }
    chunk_unref(early);
    return cn->frame != NULL;
}

/* The frame is charged: it may be read on. */
static bool conn_take_frame(struct conn *cn) {
    size_t n = cn->frame_n;
    bool whole = cn->frame != NULL && cn->frame_got == n;
    cn->early = false;
    cn->frame_since = shard_now(cn->set->sh);
    if (!whole && !conn_take_chunk(cn, n)) {
        conn_give(cn, n + ADMIT_RQ_BYTES);
        conn_refuse(cn, "out of memory");
        return false;
    }
    return true;
}

static void conn_admitted(struct admit_wait *w) {
    struct conn *cn = list_entry(w, struct conn, admit);
    cn->waiting_admit = false;
    if (conn_take_frame(cn)) {
        conn_changed(cn);                          /* step 5 goes on with what lies aside, and with reading */
    }
}

/* True when the frame may be filled on now. */
static bool conn_charge(struct conn *cn) {
    if (!admit_take(&cn->set->sh->admit, &cn->admit, cn->frame_n + ADMIT_RQ_BYTES, conn_admitted)) {
        mark("conn.admission");
        cn->waiting_admit = true;
        return false;
    }
    return conn_take_frame(cn);
}

/* The chunk of the frame being read is full. */
static void conn_filled(struct conn *cn) {
    if (cn->early && !conn_charge(cn)) {
        return;
    }
    if (cn->frame_got == cn->frame_n) {
        conn_frame(cn);
    }
}

/* The four bytes of a size are there, and `have` bytes behind them. True when the frame may be filled now. */
static bool conn_size(struct conn *cn, size_t have) {
    uint32_t n = be32_get(cn->head);
    cn->head_n = 0;
    if (n > cn->set->sh->node->conf.frame_bytes_max || n > INT32_MAX) {
        char why[128];
        snprintf(why, sizeof(why), "%s: size %u, limit %zu", conn_bad_size(cn, n), n, cn->set->sh->node->conf.frame_bytes_max);
        conn_refuse(cn, why);
        return false;
    }
    if (n < 8) {
        conn_refuse(cn, "frame too short for a request header");
        return false;
    }
    cn->frame_since = shard_now(cn->set->sh);
    cn->frame_n = n;
    cn->frame_got = 0;
    cn->early = true;
    if (have >= conn_frame_room(cn)) {
        return conn_charge(cn);
    }
    if (!conn_take_chunk(cn, conn_frame_room(cn))) {
        conn_refuse(cn, "out of memory");
        return false;
    }
    return true;
}

/* Keep what cannot be taken in now; it is bounded by one read. */
static void conn_set_aside(struct conn *cn, struct chunk *in, const uint8_t *p, size_t n) {
    if (n == 0 || cn->closing != CONN_OPEN) {
        return;
    }
    conn_hurry_full(cn);
    cn->aside = in != NULL ? chunk_ref(in) : chunk_new(cn->set->sh->chunks, n);
    if (cn->aside == NULL) {
        conn_refuse(cn, "out of memory");
        return;
    }
    if (in == NULL) {
        memcpy(cn->aside->data, p, n);
        p = cn->aside->data;
    }
    cn->aside_p = p;
    cn->aside_n = n;
}

/* p[n]: in a chunk that may be kept, or (NULL) in the scratch. */
static void conn_cut(struct conn *cn, struct chunk *in, const uint8_t *p, size_t n) {
    while (n > 0 && conn_has_room(cn)) {
        if (cn->frame == NULL) {
            size_t take = 4 - cn->head_n < n ? 4 - cn->head_n : n;
            memcpy(cn->head + cn->head_n, p, take);
            cn->head_n += (uint32_t)take;
            p += take;
            n -= take;
            if (cn->head_n < 4 || !conn_size(cn, n)) {
                continue;
            }
        }
        size_t want = conn_frame_room(cn) - cn->frame_got;
        size_t take = want < n ? want : n;
        memcpy(cn->frame->data + cn->frame_got, p, take);
        cn->frame_got += take;
        p += take;
        n -= take;
        if (cn->frame_got == conn_frame_room(cn)) {
            conn_filled(cn);
        }
    }
    conn_set_aside(cn, in, p, n);
}

static size_t conn_on_room(void *u, uint8_t **ret_p) {
    struct conn *cn = u;
    if (cn->aside != NULL || !conn_has_room(cn) || conn_is_pending(cn)) {
        cn->paused = true;
        conn_hurry_full(cn);
        return 0;
    }
    if (cn->frame != NULL) {
        *ret_p = cn->frame->data + cn->frame_got;
        return conn_frame_room(cn) - cn->frame_got;
    }
    *ret_p = cn->set->scratch;
    return admit_is_short(&cn->set->sh->admit) ? CONN_SCRATCH_TIGHT_BYTES : CONN_SCRATCH_BYTES;
}

/* Does a frame or its size begin here and end later? Then the timer must watch it. */
static void conn_watch_partial(struct conn *cn) {
    ms by = cn->active + CONN_TIGHT_MS;
    if (cn->closing == CONN_OPEN && (cn->frame != NULL || cn->head_n > 0) && cn->timer.due > by) {
        shard_timer(cn->set->sh, &cn->timer, by);
    }
}

static void conn_on_data(void *u, size_t n) {
    struct conn *cn = u;
    bool began = cn->frame == NULL && cn->head_n == 0;
    cn->active = shard_now(cn->set->sh);
    cn->frame_since = began ? cn->active : cn->frame_since;
    if (cn->frame != NULL) {
        cn->frame_got += n;
        if (cn->frame_got == conn_frame_room(cn)) {
            conn_filled(cn);
        }
    } else {
        conn_cut(cn, NULL, cn->set->scratch, n);
    }
    conn_watch_partial(cn);
    conn_changed(cn);
}

/* ---- time ---- */

static ms conn_idle_due(const struct conn *cn) {
    ms idle = cn->set->sh->node->conf.conn_idle_max;
    return idle <= 0 ? cn->active + 600000 : cn->active + idle;
}

/* T56: a size is four bytes; a body may take its time, but not for ever, and less of it while others wait for the memory that it holds. */
static bool conn_is_slow(const struct conn *cn, ms now) {
    ms took = now - cn->frame_since;
    if (cn->frame == NULL) {
        return took >= CONN_HEAD_MS;
    }
    bool tight = !cn->early && admit_is_tight_for(&cn->set->sh->admit, cn->frame_n + ADMIT_RQ_BYTES);
    ms least = tight ? CONN_TIGHT_BYTES_PER_MS : CONN_BODY_BYTES_PER_MS;
    return took >= (tight ? CONN_TIGHT_MS : CONN_STALL_MS) && (ms)cn->frame_got < took * least;
}

/* A large reply may take long: what counts is that the client goes on taking; at 64 KB/s while others wait for the memory. */
static bool conn_is_stalled(struct conn *cn, ms now) {
    uint64_t taken = list_empty(&cn->outs) || cn->closed ? cn->queued : cn->queued - cn->set->sh->port->net->unsent(cn->net);
    uint64_t did = taken - cn->taken;
    ms since = now - cn->looked;
    bool late = taken < cn->owed && since >= CONN_TIGHT_MS && did < (uint64_t)since * CONN_TIGHT_BYTES_PER_MS;
    cn->taken = taken;
    cn->owed = cn->queued;
    cn->looked = now;
    if (did > 0) {
        cn->moved = cn->active = now;
    }
    bool tight = admit_waits_for_replies(&cn->set->sh->admit) || admit_is_short(&cn->set->sh->admit);
    return (late && tight) || (taken < cn->queued && now - cn->moved >= CONN_STALL_MS);
}

static void conn_on_time(struct timer *t, ms now) {
    struct conn *cn = list_entry(t, struct conn, timer);
    struct conn_set *set = cn->set;
    bool stalled = conn_is_stalled(cn, now);
    bool partial = cn->closing == CONN_OPEN && !cn->waiting_admit && !cn->paused && (cn->frame != NULL || cn->head_n > 0);
    if (partial && conn_is_slow(cn, now)) {
        mark("conn.slow_frame");
        conn_refuse(cn, "a request was begun and comes too slowly: 10 s for its size, then 4 KB/s");
    } else if (stalled) {
        mark("conn.slow_reader");
        log_warn("conn.slow", "peer=%s:%u client='%s' reason='replies were not taken for 30 s, or at less than 64 KB/s while others wait for memory' action='closed'",
                 cn->peer.host, cn->peer.port, conn_name(cn));
        conn_close(cn, CONN_NOW);
    } else if (list_empty(&cn->rqs) && set->sh->node->conf.conn_idle_max > 0 && now >= conn_idle_due(cn)) {
        mark("conn.idle");                         /* connections that wait for an answer are spared (S1.9) */
        conn_close(cn, CONN_NOW);
    }
    ms next = conn_idle_due(cn);
    bool watch = partial || !list_empty(&cn->outs);
    next = next <= now || watch ? now + (watch ? CONN_TIGHT_MS : CONN_STALL_MS) : next;
    shard_timer(set->sh, &cn->timer, next);
}

/* ---- opening ---- */

static const struct net_events conn_events = {conn_on_room, conn_on_data, conn_on_gone, conn_on_closed};

/* Protected mode: a listener without authentication serves this machine only. */
static bool conn_is_protected(struct conn_set *set, const struct node_listener *l, const struct net_addr *peer) {
    if (!set->sh->node->conf.protected_mode || peer->loopback) {
        return false;
    }
    log_warn("conn.protected", "peer=%s listener=%s reason='protected mode: a listener without authentication accepts only this machine' remedy='set protected.mode=no "
             "if the network is trusted'", peer->host, l->name);
    return true;
}

void conn_open(struct conn_set *set, const struct node_listener *l, struct net_accepted *a) {
    struct shard *sh = set->sh;
    struct net *net = sh->port->net;
    struct net_addr peer;
    net->peer(a, &peer);
    struct conn *cn = set->draining || conn_is_protected(set, l, &peer) ? NULL : mem_zalloc(MEM_CONN, sizeof(*cn));
    if (cn == NULL) {
        net->refuse(net, a);
        atomic_fetch_sub(&sh->node->conns, 1);
        return;
    }
    cn->set = set;
    cn->listener = l;
    cn->who = (struct allow_who){.principal = "User:ANONYMOUS", .host = cn->peer.host};
    list_init(&cn->rqs);
    list_init(&cn->outs);
    list_init(&cn->flush.link);
    list_init(&cn->admit.link);
    cn->flush.flush = conn_on_flush;
    cn->active = shard_now(sh);
    timer_init(&cn->timer, conn_on_time);
    if (net->adopt(net, a, &conn_events, cn, &cn->net) != ERR_OK) {
        atomic_fetch_sub(&sh->node->conns, 1);
        mem_free(cn);
        return;
    }
    net->addr(cn->net, &cn->local, &cn->peer);
    list_push_back(&set->conns, &cn->link);
    shard_timer(sh, &cn->timer, conn_idle_due(cn));
    sh->stats.conns++;
}

/* ---- the set ---- */

bool conn_set_init(struct conn_set *set, struct shard *sh) {
    set->sh = sh;
    set->draining = set->idle = false;
    fetch_session_set_init(set);
    set->free_rqs_n = set->free_outs_n = 0;
    list_init(&set->conns);
    list_init(&set->free_rqs);
    list_init(&set->free_outs);
    set->scratch = mem_alloc(MEM_CONN, CONN_SCRATCH_BYTES);
    return set->scratch != NULL;
}

void conn_set_done(struct conn_set *set) {
    struct list *link;
    while ((link = list_pop_front(&set->free_rqs)) != NULL) {
        mem_free(list_entry(link, struct rq, link));
    }
    while ((link = list_pop_front(&set->free_outs)) != NULL) {
        mem_free(list_entry(link, struct conn_out, link));
    }
    fsessions_done(&set->sessions);
    mem_free(set->scratch);
}

void conn_set_changed(struct conn_set *set) {
    if (set->draining && !set->idle && list_empty(&set->conns) && fsessions_is_empty(&set->sessions)) {
        set->idle = true;
        wheel_cancel(&set->sh->wheel, &set->drain);
        node_door_idle(set->sh);
    }
}

static void conn_set_cut(struct timer *t, ms now) {
    (void)now;
    struct conn_set *set = list_entry(t, struct conn_set, drain);
    mark("conn.drain_cut");
    list_each_safe(it, &set->conns) {
        conn_close(list_entry(it, struct conn, link), CONN_NOW);
    }
}

void conn_set_drain(struct conn_set *set) {
    set->draining = true;
    timer_init(&set->drain, conn_set_cut);
    fsessions_close_all(&set->sessions);
    conn_set_changed(set);
    if (set->idle) {
        return;
    }
    shard_timer(set->sh, &set->drain, shard_now(set->sh) + CONN_DRAIN_MS);
    list_each_safe(it, &set->conns) {
        conn_close(list_entry(it, struct conn, link), CONN_AFTER_REPLIES);
    }
}
