/* Fetch v4-18: read batches from partitions, waiting for more when there is too little.
 *
 * Behaviour: resolve the partitions, one read ask per owner shard, sum. Enough, an error, or time over: answer (S7.4). Else leave watches with the owners and look again when marks move; nothing
 * polls. The home owns timer, sum, budget and answer. Batches go out whole, by reference; the first one even above the limits (S7.2, BR-017), the total stays below fetch.max.bytes and what
 * memory allows. A parked fetch keeps its decoded state, not its frame.
 * Versions: 7+ session fields: session 0 only, answered so (S7.30), another id 70; 9+ leader epoch (74, 75); 10+ zstd; 12+ diverging epoch; 13+ topics by id (100); records are never null (S7.8, BR-004).
 * Runs on: home shard. */
#include <string.h>

#include "api.h"
#include "broker/read.h"
#include "seen.h"
#include "wire/batch.h"
#include "wire/k_fetch.h"

struct fetch_part {
    struct k_fetch_resp_topic_part *resp;
    const struct k_fetch_req_topic *asked_topic;       /* decoded, in the arena */
    const struct k_fetch_req_topic_part *asked;
    const struct meta_topic *topic;    /* NULL: resp is final. Looked at only before anything is sent */
    uint32_t shard;                    /* of the owner, then index of its ask */
    uint32_t at;                       /* in that ask's parts */
};

struct fetch_work {
    struct k_fetch_resp resp;
    struct fetch_part *parts;
    size_t parts_n;
    size_t start;                      /* the part that is read first; then its neighbours, round to it again */
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

#define FETCH_LEAST_BYTES ((size_t)64 << 10)       /* waited for, if need be; more is a matter of room */

static void fetch_look(struct fetch_work *w);

static struct fetch_part *fetch_nth(const struct fetch_work *w, size_t i) {
    size_t at = w->start + i;
    return &w->parts[at < w->parts_n ? at : at - w->parts_n];
}

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
    struct read_ask *a = &w->asks[fp->shard];
    struct read_part *p = &a->parts[fp->at];
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
    read_take(a, fp->at, c);
    fp->resp->records_chain = c;
    return chain_ok(c);
}

/* There was something to read, and it got nothing of it. */
static bool fetch_is_starved(const struct fetch_work *w, const struct fetch_part *fp) {
    const struct read_part *p = &w->asks[fp->shard].parts[fp->at];
    return p->err == ERR_OK && p->diverging_epoch < 0 && p->from < p->high_watermark && fp->resp->records_chain == NULL;
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
    bool starved = false;
    for (size_t i = 0; i < w->parts_n && ok; i++) {
        struct fetch_part *fp = fetch_nth(w, i);
        if (fp->topic == NULL) {
            continue;
        }
        ok = fetch_records(w, fp, &left, &first);
        if (!starved && fetch_is_starved(w, fp)) {
            starved = true;
            rq->cn->fetches = (uint32_t)(w->start + i);        /* read first next time (S7.21) */
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
    bytes = w->probing ? 0 : bytes;
    if (bytes > w->charged) {
        admit_over(&w->rq->sh->admit, bytes - w->charged);     /* a first batch came whole (S7.2) */
        w->rq->charge += bytes - w->charged;
    } else {
        rq_uncharge(w->rq, w->charged - bytes);
    }
    w->charged = bytes;
    fetch_answer(w);
}

static void fetch_home(struct read_ask *a) {
    struct fetch_work *w = a->u;
    if (w->watching && a->ask.err != ERR_CANCELLED) {          /* woken, or without memory to wait: the others need not wait any longer */
        w->over = w->over || a->ask.err != ERR_OK;
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

static void fetch_read(struct fetch_work *w) {
    w->out = w->asks_n;
    for (size_t i = 0; i < w->asks_n; i++) {
        w->asks[i].bytes_max = w->charged / w->asks_n;
        w->asks[i].min_one = true;
        read_send(w->rq->sh, w->asks[i].ask.owner, &w->asks[i], w->probing ? READ_PROBE : READ_DATA);
    }
}

static void fetch_admitted(struct rq *rq) {
    struct fetch_work *w = rq->work;
    if (rq->abandoned) {
        fetch_answer(w);
        return;
    }
    size_t more = admit_more(&rq->sh->admit, w->budget - rq->charge);
    rq->charge += more;
    w->charged = rq->charge;
    fetch_read(w);
}

/* One round: every owner reads (or, where more than one byte is wanted, first only counts). What may be read is charged first, after those who wait for the same. */
static void fetch_look(struct fetch_work *w) {
    w->probing = w->min_bytes > 1 && !w->over && w->asks_n > 0;
    if (w->asks_n == 0) {
        fetch_judge(w);
    } else if (w->probing || w->charged > 0) {
        fetch_read(w);
    } else {
        rq_charge(w->rq, w->budget < FETCH_LEAST_BYTES ? w->budget : FETCH_LEAST_BYTES, fetch_admitted);
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

static void fetch_part_init(struct fetch_work *w, struct fetch_part *fp, const struct meta_topic *t, err e) {
    int32_t partition = fp->asked->partition;
    k_fetch_resp_topic_part_init(fp->resp);
    fp->resp->partition = partition;
    fp->resp->preferred_read_replica = -1;
    fp->resp->aborted_n = w->read_committed ? 0 : -1;              /* S7.10: nothing is transactional yet */
    fp->resp->records = SPAN_LIT("");              /* never null (S7.8) */
    fp->resp->high_watermark = fp->resp->last_stable_offset = fp->resp->log_start_offset = -1;
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

static span fetch_key(const struct fetch_work *w, const struct k_fetch_req_topic *t) {
    return w->rq->version >= 13 ? span_of(t->topic_id.b, sizeof(t->topic_id.b)) : t->topic;
}

static bool fetch_same(const void *u, uint32_t a, uint32_t b) {
    const struct fetch_work *w = u;
    const struct fetch_part *x = &w->parts[a], *y = &w->parts[b];
    return x->asked->partition == y->asked->partition &&
           (x->asked_topic == y->asked_topic || span_eq(fetch_key(w, x->asked_topic), fetch_key(w, y->asked_topic)));
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
    struct meta_topic *t = NULL;
    err e = fetch_resolve(rq, from, &t);
    size_t n = from->partitions_n > 0 ? (size_t)from->partitions_n : 0;
    uint64_t hash = seen_hash(seen, fetch_key(w, from));
    k_fetch_resp_topic_init(to);
    to->topic = arena_copy(&rq->arena, from->topic);
    to->topic_id = from->topic_id;
    to->partitions = rq_array(rq, n, sizeof(*to->partitions));
    if (to->partitions == NULL || (rq->version < 13 && span_is_null(to->topic))) {
        return false;
    }
    for (size_t i = n; i-- > 0;) {
        uint32_t at = (uint32_t)w->parts_n;
        w->parts[at] = (struct fetch_part){.asked_topic = from, .asked = &from->partitions[i], .resp = &to->partitions[to->partitions_n]};
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

static void fetch_want(struct fetch_work *w, struct fetch_part *fp) {
    const struct k_fetch_req_topic_part *from = fp->asked;
    w->asks[fp->shard].parts[fp->at] = (struct read_part){
        .topic_id = fp->topic->id,
        .partition = from->partition,
        .current_epoch = from->current_leader_epoch,
        .last_fetched_epoch = from->last_fetched_epoch,
        .from = from->fetch_offset,
        .bytes_max = from->partition_max_bytes < 0 ? 0 : (size_t)from->partition_max_bytes,
    };
}

/* One ask for each owner, of `counts` parts. */
static bool fetch_asks_init(struct fetch_work *w, uint32_t *counts) {
    struct node *n = w->rq->sh->node;
    for (uint32_t s = 0; s < n->shards_n; s++) {
        if (counts[s] == 0) {
            continue;
        }
        struct read_ask *a = &w->asks[w->asks_n];
        if (read_init(a, &w->rq->arena, counts[s], fetch_home) != ERR_OK) {
            return false;
        }
        a->u = w;
        a->ask.owner = n->shards[s];
        counts[s] = (uint32_t)w->asks_n++;         /* from now on: which ask */
    }
    return true;
}

static bool fetch_asks(struct fetch_work *w) {
    uint32_t shards = w->rq->sh->node->shards_n;
    w->asks = rq_array(w->rq, shards, sizeof(*w->asks));
    uint32_t *counts = rq_array(w->rq, shards, sizeof(*counts));
    if (w->asks == NULL || counts == NULL) {
        return false;
    }
    for (size_t i = 0; i < w->parts_n; i++) {      /* S7.21: who is read first changes, so that none starves behind those before it */
        struct fetch_part *fp = fetch_nth(w, i);
        if (fp->topic != NULL) {
            fp->at = counts[fp->shard]++;
        }
    }
    if (!fetch_asks_init(w, counts)) {
        return false;
    }
    for (size_t i = 0; i < w->parts_n; i++) {
        struct fetch_part *fp = &w->parts[i];
        if (fp->topic != NULL) {
            fp->shard = counts[fp->shard];
            fetch_want(w, fp);
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
        const struct fetch_part *fp = &w->parts[i];
        sum += fp->topic != NULL && fp->asked->partition_max_bytes > 0 ? (size_t)fp->asked->partition_max_bytes : 0;
    }
    w->budget = sum < (size_t)w->max_bytes ? sum : (size_t)w->max_bytes;
    bool stopping = w->rq->cn->closing != CONN_OPEN || w->rq->cn->set->draining;
    w->over = q->max_wait_ms <= 0 || q->min_bytes <= 0 || stopping;                       /* S7.4, S7.6 */
    w->due = shard_now(w->rq->sh) + (q->max_wait_ms < 0 ? 0 : q->max_wait_ms);
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
    w->start = w->parts_n > 0 ? rq->cn->fetches++ % w->parts_n : 0;
    fetch_limits(w, q);
    if (!fetch_asks(w)) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    rq->hurry = fetch_hurry;
    rq->forget = fetch_forget;
    fetch_look(w);
}
