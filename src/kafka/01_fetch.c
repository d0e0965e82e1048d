/* Fetch v4-18: read batches from partitions, waiting for more when there is too little.
 *
 * Behaviour: resolve the partitions, one read ask per owner shard, sum. Enough, an error, or time over: answer (S7.4). Else leave watches with the owners and look again when marks move; nothing
 * polls. The home owns timer, sum, budget and answer. Batches go out whole, by reference; the first one even above the limits (S7.2, BR-017), the total stays below fetch.max.bytes and what
 * memory allows. A parked fetch keeps its decoded state, not its frame.
 * Versions: 7+ session fields: session 0 only, answered so (S7.30), another id 70; 9+ leader epoch (74, 75); 10+ zstd; 12+ diverging epoch; 13+ topics by id (100); records are never null (S7.8, BR-004).
 * Runs on: home shard. */
#include <string.h>

#include "api.h"
#include "base/crc.h"
#include "base/limits.h"
#include "base/mark.h"
#include "broker/read.h"
#include "wire/batch.h"
#include "wire/k_fetch.h"

struct fetch_part {
    struct k_fetch_resp_topic_part *resp;
    struct read_part want;
    uint32_t shard;
    bool asked;                        /* resolved and sent to its owner */
    struct read_ask *ask;              /* where its answer is, and at which index */
    size_t at;
};

struct fetch_work {
    struct k_fetch_resp resp;
    struct fetch_part *parts;
    size_t parts_n, asked_n;
    struct read_ask *asks;             /* one per owner that is needed */
    size_t asks_n, out;                /* out: asks not home */
    size_t budget, charged;
    int32_t max_bytes, min_bytes;
    ms due;
    struct timer timer;
    struct rq *rq;
    bool over;                         /* time is over, or the broker stops: answer with what there is */
    bool failed;                       /* some partition has an error: answer at once */
    bool watching, probing, read_committed;
};

static void fetch_look(struct fetch_work *w);

/* ---- the answer ---- */

static void fetch_fill(struct k_fetch_resp_topic_part *to, const struct read_part *p) {
    to->error_code = errmap_code(p->err);
    bool ok = p->err == ERR_OK;
    to->high_watermark = ok ? p->high_watermark : -1;              /* S7.9 */
    to->last_stable_offset = ok ? p->last_stable : -1;
    to->log_start_offset = ok || p->err == ERR_OFFSET_RANGE ? p->log_start : -1;
    if (p->diverging_epoch >= 0) {
        to->diverging_epoch.epoch = p->diverging_epoch;            /* S7.14 */
        to->diverging_epoch.end_offset = p->diverging_end;
    }
}

/* Bytes in the order they were read in; what the budget does not hold after the first non-empty part stays for the next fetch. */
static bool fetch_records(struct fetch_work *w, struct fetch_part *fp, size_t *left, bool *first) {
    struct read_part *p = &fp->ask->parts[fp->at];
    fetch_fill(fp->resp, p);
    bool too_much = p->bytes > *left || p->bytes > p->bytes_max;   /* each owner read its first batch whole; one of them is the answer's first */
    if (p->err != ERR_OK || p->bytes == 0 || (!*first && too_much)) {
        return true;
    }
    struct chain *c = rq_array(w->rq, 1, sizeof(*c));
    if (c == NULL) {
        return false;
    }
    *left -= p->bytes < *left ? p->bytes : *left;
    *first = false;
    chain_init(c, &w->rq->arena);
    read_take(fp->ask, fp->at, c);
    fp->resp->records_chain = c;
    return chain_ok(c);
}

/* Chains that were never written give their chunks back here: no memory, or the connection went before its turn to be encoded. */
static void fetch_forget(struct rq *rq) {
    struct fetch_work *w = rq->work;
    for (size_t i = 0; i < w->asks_n; i++) {
        read_drop(&w->asks[i]);
    }
    for (size_t i = 0; i < w->parts_n; i++) {
        if (w->parts[i].resp->records_chain != NULL) {
            chain_done(w->parts[i].resp->records_chain);
        }
    }
}

static void fetch_answer(struct fetch_work *w) {
    struct rq *rq = w->rq;
    wheel_cancel(&rq->sh->wheel, &w->timer);
    size_t left = (size_t)w->max_bytes;
    bool first = true, ok = !rq->abandoned;
    for (size_t i = 0; i < w->parts_n && ok; i++) {
        if (w->parts[i].asked) {
            ok = fetch_records(w, &w->parts[i], &left, &first);
        }
    }
    if (!ok) {
        if (rq->abandoned) {
            rq_silent(rq);
        } else {
            rq_fail(rq, ERR_NOMEM);
        }
        return;
    }
    rq_reply(rq, &w->resp);
}

/* ---- look, wait, look again ---- */

static void fetch_on_time(struct timer *t, ms now) {
    (void)now;
    struct fetch_work *w = list_entry(t, struct fetch_work, timer);
    w->over = true;
    if (w->watching) {
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
    if (!timer_is_set(&w->timer)) {
        shard_timer(w->rq->sh, &w->timer, w->due);
    }
    w->watching = true;
    w->out = w->asks_n;
    for (size_t i = 0; i < w->asks_n; i++) {
        read_drop(&w->asks[i]);
        read_send(w->rq->sh, w->asks[i].ask.owner, &w->asks[i], READ_WATCH);
    }
}

/* All read asks are home: enough? */
static void fetch_judge(struct fetch_work *w) {
    size_t bytes = 0;
    for (size_t i = 0; i < w->asks_n; i++) {
        for (size_t k = 0; k < w->asks[i].parts_n; k++) {
            const struct read_part *p = &w->asks[i].parts[k];
            bytes += p->bytes;
            w->failed = w->failed || p->err != ERR_OK || p->diverging_epoch >= 0;
        }
    }
    bool enough = w->over || w->failed || w->asks_n == 0 || bytes >= (size_t)w->min_bytes;
    if (!enough) {
        fetch_watch(w);
        return;
    }
    if (w->probing && bytes > 0 && !w->rq->abandoned) {
        w->probing = false;                        /* the sum is there: now take the bytes */
        w->over = true;
        fetch_look(w);
        return;
    }
    size_t unused = w->charged > bytes ? w->charged - bytes : 0;
    rq_uncharge(w->rq, unused);
    w->charged -= unused;
    fetch_answer(w);
}

static void fetch_home(struct read_ask *a) {
    struct fetch_work *w = a->u;
    if (w->watching && a->ask.err == ERR_OK) {     /* woken: the others need not wait any longer */
        for (size_t i = 0; i < w->asks_n; i++) {
            read_cancel(&w->asks[i]);
        }
    }
    if (--w->out > 0) {
        return;
    }
    if (!w->watching) {
        fetch_judge(w);
        return;
    }
    w->watching = false;
    if (w->rq->abandoned) {
        fetch_answer(w);
        return;
    }
    fetch_look(w);
}

/* One round: every owner reads (or, where more than one byte is wanted, first only counts). */
static void fetch_look(struct fetch_work *w) {
    w->probing = w->min_bytes > 1 && !w->over && w->asks_n > 0;
    size_t least = 64 << 10;
    if (!w->probing && w->charged == 0) {
        w->charged = admit_upto(&w->rq->sh->admit, w->budget, least < w->budget ? least : w->budget);
        w->rq->charge += w->charged;
    }
    size_t share = w->asks_n == 0 ? 0 : w->charged / w->asks_n;
    w->out = w->asks_n;
    if (w->asks_n == 0) {
        fetch_judge(w);
        return;
    }
    for (size_t i = 0; i < w->asks_n; i++) {
        w->asks[i].bytes_max = share;
        w->asks[i].min_one = true;
        read_send(w->rq->sh, w->asks[i].ask.owner, &w->asks[i], w->probing ? READ_PROBE : READ_DATA);
    }
}

/* ---- resolving ---- */

static err fetch_resolve(struct rq *rq, const struct k_fetch_req_topic *from, struct meta_topic **ret_t) {
    bool by_id = rq->version >= 13;
    if (!by_id && !rq_allow(rq, ALLOW_READ, ALLOW_TOPIC, from->topic)) {
        return ERR_DENIED;
    }
    err e = ERR_OK;
    *ret_t = api_topic(rq, from->topic, from->topic_id, by_id, &e);
    if (*ret_t != NULL && by_id && !rq_allow(rq, ALLOW_READ, ALLOW_TOPIC, span_str((*ret_t)->name))) {
        *ret_t = NULL;
        e = ERR_DENIED;
    }
    if (*ret_t != NULL && (*ret_t)->conf.codec == CODEC_ZSTD && rq->version < 10) {
        *ret_t = NULL;
        e = ERR_BAD_CODEC;                         /* S7.12 */
    }
    return e;
}

static void fetch_part_init(struct fetch_work *w, struct fetch_part *fp, const struct k_fetch_req_topic_part *from, const struct meta_topic *t, err e) {
    k_fetch_resp_topic_part_init(fp->resp);
    fp->resp->partition = from->partition;
    fp->resp->preferred_read_replica = -1;
    fp->resp->aborted_n = w->read_committed ? 0 : -1;              /* S7.10: nothing is transactional yet */
    fp->resp->records = SPAN_LIT("");              /* never null (S7.8) */
    fp->resp->high_watermark = fp->resp->last_stable_offset = fp->resp->log_start_offset = -1;
    if (e == ERR_OK && (from->partition < 0 || from->partition >= t->parts_n)) {
        e = ERR_NO_TOPIC;
    }
    if (e != ERR_OK) {
        fp->resp->error_code = errmap_code(e);
        w->failed = true;
        return;
    }
    fp->asked = true;
    w->asked_n++;
    fp->want = (struct read_part){
        .topic_id = t->id,
        .partition = from->partition,
        .current_epoch = from->current_leader_epoch,
        .last_fetched_epoch = from->last_fetched_epoch,
        .from = from->fetch_offset,
        .bytes_max = from->partition_max_bytes < 0 ? 0 : (size_t)from->partition_max_bytes,
    };
    fp->shard = shard_owner(w->rq->sh, t, from->partition)->index;
}

/* S7.20: a partition listed twice: the last entry wins. An open-addressed set over (topic, partition), filled from the end. */
struct fetch_seen {
    span topic;                        /* name or id, as the version asks; null: free */
    int32_t partition;
};

static bool fetch_seen_add(struct fetch_seen *set, size_t mask, span topic, uint32_t topic_hash, int32_t partition) {
    size_t i = (topic_hash * 0x9e3779b97f4a7c15u + (uint32_t)partition * 0x85ebca6bu) & mask;
    while (set[i].topic.p != NULL) {
        if (set[i].partition == partition && span_eq(set[i].topic, topic)) {
            return false;
        }
        i = (i + 1) & mask;
    }
    set[i] = (struct fetch_seen){topic, partition};
    return true;
}

static size_t fetch_count(const struct k_fetch_req *q) {
    size_t n = 0;
    for (int32_t i = 0; i < q->topics_n; i++) {
        n += q->topics[i].partitions_n > 0 ? (size_t)q->topics[i].partitions_n : 0;
    }
    return n;
}

static bool fetch_topic(struct fetch_work *w, const struct k_fetch_req_topic *from, struct k_fetch_resp_topic *to, struct fetch_seen *set, size_t mask) {
    struct rq *rq = w->rq;
    struct meta_topic *t = NULL;
    err e = fetch_resolve(rq, from, &t);
    size_t n = from->partitions_n > 0 ? (size_t)from->partitions_n : 0;
    k_fetch_resp_topic_init(to);
    to->topic = arena_copy(&rq->arena, from->topic);
    to->topic_id = from->topic_id;
    to->partitions = rq_array(rq, n, sizeof(*to->partitions));
    if (to->partitions == NULL || (rq->version < 13 && span_is_null(to->topic))) {
        return false;
    }
    span key = rq->version >= 13 ? span_of(from->topic_id.b, sizeof(from->topic_id.b)) : from->topic;
    uint32_t hash = crc32c(key.p, key.n);
    for (size_t i = n; i-- > 0;) {
        const struct k_fetch_req_topic_part *fp = &from->partitions[i];
        if (!fetch_seen_add(set, mask, key, hash, fp->partition)) {
            continue;
        }
        struct fetch_part *p = &w->parts[w->parts_n++];
        p->resp = &to->partitions[to->partitions_n++];
        fetch_part_init(w, p, fp, t, e);
    }
    return true;
}

static bool fetch_topics(struct fetch_work *w, const struct k_fetch_req *q) {
    size_t n = fetch_count(q), cap = 8;
    while (cap < 2 * n) {
        cap *= 2;
    }
    struct fetch_seen *set = rq_array(w->rq, cap, sizeof(*set));
    w->parts = rq_array(w->rq, n, sizeof(*w->parts));
    w->resp.topics = rq_array(w->rq, q->topics_n < 0 ? 0 : (size_t)q->topics_n, sizeof(*w->resp.topics));
    if (set == NULL || w->parts == NULL || w->resp.topics == NULL) {
        return false;
    }
    for (int32_t i = q->topics_n; i-- > 0;) {      /* from the end, so that the last entry wins; answers may come in any order */
        if (!fetch_topic(w, &q->topics[i], &w->resp.topics[w->resp.topics_n++], set, cap - 1)) {
            return false;
        }
    }
    return true;
}

/* S7.21: reading starts at another partition each time, so that none starves behind a small max_bytes. */
static void fetch_rotate(struct fetch_work *w) {
    if (w->parts_n < 2) {
        return;
    }
    size_t by = w->rq->cn->fetches++ % w->parts_n;
    struct fetch_part *turned = rq_array(w->rq, w->parts_n, sizeof(*turned));
    if (turned == NULL) {
        return;                                    /* the order is a courtesy */
    }
    memcpy(turned, w->parts + by, (w->parts_n - by) * sizeof(*turned));
    memcpy(turned + (w->parts_n - by), w->parts, by * sizeof(*turned));
    w->parts = turned;
}

static bool fetch_ask(struct fetch_work *w, uint32_t shard, size_t n) {
    struct read_ask *a = &w->asks[w->asks_n++];
    if (read_init(a, &w->rq->arena, n, fetch_home) != ERR_OK) {
        return false;
    }
    a->u = w;
    a->ask.owner = w->rq->sh->node->shards[shard];
    size_t at = 0;
    for (size_t i = 0; i < w->parts_n; i++) {
        struct fetch_part *p = &w->parts[i];
        if (p->asked && p->shard == shard) {
            a->parts[at] = p->want;
            p->ask = a;
            p->at = at++;
        }
    }
    return true;
}

static bool fetch_asks(struct fetch_work *w) {
    uint32_t shards = w->rq->sh->node->shards_n;
    w->asks = rq_array(w->rq, shards, sizeof(*w->asks));
    size_t *counts = rq_array(w->rq, shards, sizeof(*counts));
    if (w->asks == NULL || counts == NULL) {
        return false;
    }
    for (size_t i = 0; i < w->parts_n; i++) {
        counts[w->parts[i].shard] += w->parts[i].asked;
    }
    for (uint32_t s = 0; s < shards; s++) {
        if (counts[s] > 0 && !fetch_ask(w, s, counts[s])) {
            return false;
        }
    }
    return true;
}

/* ---- the request ---- */

static bool fetch_session(struct rq *rq, const struct k_fetch_req *q, struct k_fetch_resp *r) {
    if (rq->version < 7 || q->session_epoch <= 0) {
        return true;                               /* S7.30, 7.31: a full fetch; no session is made */
    }
    r->error_code = errmap_code(ERR_NO_SESSION);
    return false;
}

static void fetch_limits(struct fetch_work *w, const struct k_fetch_req *q) {
    size_t cap = w->rq->sh->node->conf.fetch_bytes_max;
    w->max_bytes = q->max_bytes < 0 ? 0 : (size_t)q->max_bytes > cap ? (int32_t)cap : q->max_bytes;      /* S7.3 */
    w->min_bytes = q->min_bytes < 0 ? 0 : q->min_bytes > w->max_bytes ? w->max_bytes : q->min_bytes;
    size_t sum = 0;
    for (size_t i = 0; i < w->parts_n; i++) {
        sum += w->parts[i].want.bytes_max;
    }
    w->budget = sum < (size_t)w->max_bytes ? sum : (size_t)w->max_bytes;
    bool stopping = w->rq->cn->closing != CONN_OPEN || w->rq->cn->set->draining;
    w->over = q->max_wait_ms <= 0 || q->min_bytes <= 0 || stopping;                       /* S7.4, S7.6 */
    w->due = shard_now(w->rq->sh) + (q->max_wait_ms < 0 ? 0 : q->max_wait_ms);
}

void fetch_run(struct rq *rq) {
    const struct k_fetch_req *q = rq->body;
    rq->arena.ceiling += fetch_count(q) * (sizeof(struct fetch_part) * 2 + sizeof(struct k_fetch_resp_topic_part) + 1024);
    struct fetch_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    if (w == NULL) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    w->rq = rq;
    w->read_committed = q->isolation_level == 1;
    timer_init(&w->timer, fetch_on_time);
    k_fetch_resp_init(&w->resp);
    if (!fetch_session(rq, q, &w->resp)) {
        rq_reply(rq, &w->resp);
        return;
    }
    if (!fetch_topics(w, q)) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    fetch_rotate(w);
    fetch_limits(w, q);
    if (!fetch_asks(w)) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    rq->hurry = fetch_hurry;
    rq->forget = fetch_forget;
    fetch_look(w);
}
