/* Fetch v4-18: read batches from partitions, waiting for more when there is too little.
 *
 * Behaviour: resolve the partitions, one read ask per owner shard, sum. Enough, an error, or time over: answer (S7.4). Else leave watches with the owners and look again when marks move; nothing
 * polls. The home owns timer, sum, budget and answer. Batches go out whole, by reference; the first one even above the limits (S7.2, BR-017), the total stays below fetch.max.bytes and what
 * memory allows. A parked fetch keeps its decoded state, not its frame; one that holds much waits only while LIMIT_PARKED_BYTES allow. An incremental fetch (S7.30-7.39) means the partitions of its session: fetch_session.c.
 * Versions: 7+ sessions; 9+ leader epoch (74, 75); 10+ zstd; 12+ diverging epoch; 13+ topics by id (100); records are never null (S7.8, BR-004).
 * Runs on: home shard. */
#include <string.h>

#include "base/mark.h"
#include "fetch.h"
#include "seen.h"
#include "wire/batch.h"

/* ---- the answer ---- */

/* Chains that were never written give their chunks back here: no memory, or the connection went before its turn to be encoded. */
static void fetch_forget(struct rq *rq) {
    struct fetch_work *w = rq->work;
    fetch_session_leave(w);
    fetch_asks_drop(w);
    for (size_t i = 0; i < w->parts_n; i++) {
        if (w->parts[i].records != NULL) {
            chain_done(w->parts[i].records);
        }
    }
    arena_done(&w->look);
    admit_unpark(&rq->sh->admit, w->parked_bytes);
}

void fetch_gone(struct fetch_work *w) {
    wheel_cancel(&w->rq->sh->wheel, &w->timer);
    fetch_session_leave(w);
    rq_silent(w->rq);
}

static void fetch_answer(struct fetch_work *w) {
    struct rq *rq = w->rq;
    if (rq->abandoned) {
        fetch_gone(w);
        return;
    }
    wheel_cancel(&rq->sh->wheel, &w->timer);
    struct fetch_take take = {.left = (size_t)w->max_bytes, .first = true};
    bool starved = false;
    for (size_t i = 0; i < w->parts_n; i++) {
        struct fetch_part *fp = fetch_nth(w, i);
        if (fp->topic == NULL) {
            continue;
        }
        if (!fetch_take(w, fp, &take)) {
            rq_fail(rq, ERR_NOMEM);
            return;
        }
        fetch_fill(fp->resp, fetch_read_part(w, fp));
        fp->resp->records_chain = fp->records;
        if (!starved && fetch_is_starved(w, fp)) {
            starved = true;
            rq->cn->fetches = (uint32_t)(w->start + i);        /* read first next time (S7.21) */
        }
    }
    if (w->wants_session) {
        fetch_session_open(w);
    }
    rq_reply(rq, &w->resp);
}

/* ---- wait, without a session ---- */

static void fetch_on_time(struct timer *t, ms now) {
    (void)now;
    struct fetch_work *w = list_entry(t, struct fetch_work, timer);
    w->over = true;
    if (w->session != NULL) {
        fetch_session_hurry(w);
    } else if (w->watching) {
        for (size_t i = 0; i < w->asks_n; i++) {
            read_cancel(&w->asks[i]);
        }
    }
}

static void fetch_hurry(struct rq *rq) {
    struct fetch_work *w = rq->work;
    fetch_on_time(&w->timer, 0);
}

static void fetch_watch(struct fetch_work *w) {
    rq_drop_frame(w->rq);
    rq_uncharge(w->rq, w->charged);
    w->charged = 0;
    w->has_counted = false;
    if (!timer_is_set(&w->timer)) {
        shard_timer(w->rq->sh, &w->timer, w->due);
    }
    w->watching = true;
    w->out = w->asks_n;
    fetch_asks_drop(w);
    for (size_t i = 0; i < w->asks_n; i++) {
        read_send(w->rq->sh, w->asks[i].ask.owner, &w->asks[i], READ_WATCH);
    }
}

/* A fetch of very many partitions waits only while there is room for such. It is charged once, until it is answered. */
static bool fetch_may_wait(struct fetch_work *w) {
    if (!w->may_wait) {
        w->may_wait = admit_park(&w->rq->sh->admit, w->rq->arena.total, &w->parked_bytes);
    }
    if (!w->may_wait) {
        mark("fetch.no_room_to_wait");
    }
    return w->may_wait;
}

static void fetch_look_again(struct fetch_work *w) {
    w->probing = fetch_counts_first(w) && w->asks_n > 0;
    fetch_look(w);
}

void fetch_judge(struct fetch_work *w) {
    if (w->session != NULL) {
        fetch_session_judge(w);
        return;
    }
    struct fetch_found f = fetch_sum(w);
    w->failed = f.failed;
    fetch_note_count(w, f.bytes);
    bool enough = w->over || w->failed || w->asks_n == 0 || f.bytes >= (size_t)w->min_bytes;
    if (!enough && fetch_may_wait(w)) {
        fetch_watch(w);
        return;
    }
    if (w->probing && f.bytes > 0 && !w->rq->abandoned) {
        w->over = true;                            /* the sum is there: now take the bytes */
        fetch_look_again(w);
        return;
    }
    fetch_settle_charge(w, w->probing ? 0 : f.bytes);
    fetch_answer(w);
}

void fetch_watch_home(struct fetch_work *w, err e) {
    if (e != ERR_CANCELLED) {                      /* woken, or without memory to wait: the others need not wait any longer */
        w->over = w->over || e != ERR_OK;
        for (size_t i = 0; i < w->asks_n; i++) {
            read_cancel(&w->asks[i]);
        }
    }
    if (--w->out > 0) {
        return;
    }
    w->watching = false;
    if (w->rq->abandoned) {
        fetch_gone(w);
        return;
    }
    fetch_look_again(w);
}

/* ---- resolving ---- */

err fetch_resolve(struct rq *rq, span name, uuid id, const struct meta_topic **ret_t) {
    bool by_id = rq->version >= 13;
    if (!by_id && !rq_allow(rq, ALLOW_READ, ALLOW_TOPIC, name)) {
        return ERR_DENIED;
    }
    err e = ERR_OK;
    const struct meta_topic *t = api_topic(rq, name, id, by_id, &e);
    if (t == NULL) {
        return e;
    }
    if (by_id && !rq_allow(rq, ALLOW_READ, ALLOW_TOPIC, span_str(t->name))) {
        return ERR_DENIED;
    }
    if (t->conf.codec == CODEC_ZSTD && rq->version < 10) {
        return ERR_BAD_CODEC;                      /* S7.12 */
    }
    *ret_t = t;
    return ERR_OK;
}

static void fetch_part_init(struct fetch_work *w, struct fetch_part *fp, const struct meta_topic *t, err e) {
    int32_t partition = fp->asked->partition;
    fetch_part_blank(w, fp->resp, partition);
    if (e == ERR_OK && (partition < 0 || partition >= t->parts_n)) {
        e = ERR_NO_TOPIC;
    }
    if (e != ERR_OK) {
        fp->resp->error_code = errmap_code(e);
        w->failed = true;
        return;
    }
    fp->topic = t;
    fp->shard = shard_owner(w->rq->sh, t, partition)->index;
}

static span fetch_key(const struct fetch_work *w, const struct k_fetch_resp_topic *t) {
    return w->rq->version >= 13 ? span_of(t->topic_id.b, sizeof(t->topic_id.b)) : t->topic;
}

static bool fetch_same(const void *u, uint32_t a, uint32_t b) {
    const struct fetch_work *w = u;
    const struct fetch_part *x = &w->parts[a], *y = &w->parts[b];
    return x->asked->partition == y->asked->partition && (x->to == y->to || span_eq(fetch_key(w, x->to), fetch_key(w, y->to)));
}

static size_t fetch_count(const struct k_fetch_req *q) {
    size_t n = 0;
    for (int32_t i = 0; i < q->topics_n; i++) {
        n += q->topics[i].partitions_n > 0 ? (size_t)q->topics[i].partitions_n : 0;
    }
    return n;
}

static bool fetch_topic(struct fetch_work *w, const struct k_fetch_req_topic *from, struct k_fetch_resp_topic *to, struct seen *seen) {
    struct rq *rq = w->rq;
    const struct meta_topic *t = NULL;
    err e = fetch_resolve(rq, from->topic, from->topic_id, &t);
    size_t n = from->partitions_n > 0 ? (size_t)from->partitions_n : 0;
    k_fetch_resp_topic_init(to);
    to->topic = arena_copy(&rq->arena, from->topic);
    to->topic_id = from->topic_id;
    to->partitions = rq_array(rq, n, sizeof(*to->partitions));
    if (to->partitions == NULL || (rq->version < 13 && span_is_null(to->topic))) {
        return false;
    }
    uint64_t hash = seen_hash(seen, fetch_key(w, to));
    for (size_t i = n; i-- > 0;) {
        uint32_t at = (uint32_t)w->parts_n;
        w->parts[at] = (struct fetch_part){.to = to, .asked = &from->partitions[i], .resp = &to->partitions[to->partitions_n]};
        if (seen_add(seen, seen_hash_part(seen, hash, from->partitions[i].partition), at, fetch_same, w) == at) {
            fetch_part_init(w, &w->parts[w->parts_n++], t, e);
            to->partitions_n++;
        }
    }
    return true;
}

/* From the end, so that of a partition listed twice the last entry wins (S7.20); answers may come in any order. */
static bool fetch_topics(struct fetch_work *w, const struct k_fetch_req *q) {
    size_t n = fetch_count(q);
    struct seen seen;
    w->parts = rq_array(w->rq, n, sizeof(*w->parts));
    w->resp.topics = rq_array(w->rq, q->topics_n < 0 ? 0 : (size_t)q->topics_n, sizeof(*w->resp.topics));
    if (w->parts == NULL || w->resp.topics == NULL || !seen_init(&seen, w->rq, n)) {
        return false;
    }
    for (int32_t i = q->topics_n; i-- > 0;) {
        if (!fetch_topic(w, &q->topics[i], &w->resp.topics[w->resp.topics_n++], &seen)) {
            return false;
        }
    }
    return true;
}

/* ---- the request ---- */

static void fetch_limits(struct fetch_work *w, const struct k_fetch_req *q) {
    size_t cap = w->rq->sh->node->conf.fetch_bytes_max;
    w->max_bytes = q->max_bytes < 0 ? 0 : (size_t)q->max_bytes > cap ? (int32_t)cap : q->max_bytes;      /* S7.3 */
    w->min_bytes = q->min_bytes < 0 ? 0 : q->min_bytes > w->max_bytes ? w->max_bytes : q->min_bytes;
    bool stopping = w->rq->cn->closing != CONN_OPEN || w->rq->cn->set->draining;
    w->over = q->max_wait_ms <= 0 || q->min_bytes <= 0 || stopping;                       /* S7.4, S7.6 */
    w->due = shard_now(w->rq->sh) + (q->max_wait_ms < 0 ? 0 : q->max_wait_ms);
}

/* Without a session, or the first of one. */
static void fetch_full(struct fetch_work *w, const struct k_fetch_req *q) {
    if (!fetch_topics(w, q)) {
        rq_fail(w->rq, ERR_NOMEM);
        return;
    }
    w->start = w->parts_n > 0 ? w->rq->cn->fetches++ % w->parts_n : 0;
    if (!fetch_asks(w)) {
        rq_fail(w->rq, ERR_NOMEM);
        return;
    }
    fetch_look_again(w);
}

void fetch_run(struct rq *rq) {
    const struct k_fetch_req *q = rq->body;
    rq->arena.ceiling += fetch_count(q) * (sizeof(struct fetch_part) + sizeof(struct k_fetch_resp_topic_part) + sizeof(struct read_part) + 128);
    struct fetch_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    if (w == NULL) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    w->rq = rq;
    w->mem = &rq->arena;
    w->read_committed = q->isolation_level == 1;
    arena_init(&w->look, &rq->sh->arenas, 0);
    timer_init(&w->timer, fetch_on_time);
    k_fetch_resp_init(&w->resp);
    fetch_limits(w, q);
    rq->hurry = fetch_hurry;
    rq->forget = fetch_forget;
    if (!fetch_session_start(w, q)) {
        rq_reply(rq, &w->resp);
    } else if (w->session != NULL) {
        fetch_session_look(w);
    } else {
        fetch_full(w, q);
    }
}
