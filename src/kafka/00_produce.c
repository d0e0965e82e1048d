/* Produce v3-13: append one batch per partition.
 *
 * Behaviour: each partition succeeds or fails on its own (S5.22). The home authorises and validates the bytes (produce_check.c; S5.1-5.7, 5.10-5.16), the owner judges sequence, space and size and answers when
 * acks says so. acks=0 gets no answer; if a partition failed, the connection closes so that the client looks at its metadata (S1.7, 1.8).
 * Partitions are looked at in order. A batch that takes longer than a turn may last goes to the shard's worker (produce_job.c), and the request goes on when it is back; a large request goes on in the
 * next turn after LIMIT_PRODUCE_BYTES_PER_TURN. The connection's next request waits until all of this one is sent on (rq->sent), so that a partition's batches keep their order (S5.27).
 * Versions: 0-2 are listed but refused with 35 per partition (BR-002, BR-008); 7+ zstd, 76 below; 8+ record errors and a message; 9 flexible; 10+ leader hints, which a single node never needs;
 * 12+ KIP-890 (transactions are not served yet: 48); 13+ topics by id.
 * Runs on: home shard. */
#include <string.h>

#include "api.h"
#include "base/limits.h"
#include "broker/append.h"
#include "produce_job.h"

#define PRODUCE_WAIT_MS_MIN 1000       /* a request's timeout is about other replicas; this one's sync may take its time: Kafka answers a timeout of 0 with success, too */

#define PRODUCE_PART_COST 256         /* what a partition takes of a turn beside its bytes, in bytes */

struct produce_part {
    struct append_ask ask;
    struct rq *rq;
    struct k_produce_resp_topic_part *resp;
    size_t charge;                     /* of a chunk of its own; 0: the bytes lie in the frame */
};

struct produce_work {
    struct k_produce_resp resp;
    struct rq *rq;
    size_t left;                       /* asks that are out, and one until every partition was looked at */
    int32_t topic, part;               /* to be looked at next */
    size_t spent;                      /* bytes looked at in this turn */
    struct shard_flush again;          /* another turn goes on */
    struct produce_job *job;           /* one at a time; NULL until one is needed */
    uuid job_topic;
    int32_t errors_n;                  /* bad records listed so far, at most LIMIT_RECORD_ERRORS */
    bool failed;
};

/* A topic of the request, found again in each turn: it may be gone by then. */
struct produce_topic {
    int32_t at;                        /* -1: none yet */
    struct meta_topic *t;
    err e;                             /* why no partition of it can be written */
};

static void produce_go(struct rq *rq);

static void produce_finish(struct rq *rq) {
    struct produce_work *w = rq->work;
    const struct k_produce_req *q = rq->body;
    if (q->acks != 0) {
        rq_reply(rq, &w->resp);
        return;
    }
    if (w->failed) {
        conn_close(rq->cn, CONN_AFTER_REPLIES);
    }
    rq_silent(rq);
}

static void produce_refuse(struct rq *rq, struct k_produce_resp_topic_part *to, err e, const char *why) {
    struct produce_work *w = rq->work;
    w->failed = true;
    to->error_code = errmap_code(e);
    to->base_offset = -1;
    to->log_append_ms = -1;
    to->error_message = span_str(why == NULL ? err_text(e) : why);
}

/* ---- to the owner and back ---- */

static void produce_done(struct ask *ask) {
    struct append_ask *a = list_entry(ask, struct append_ask, ask);
    struct produce_part *p = list_entry(a, struct produce_part, ask);
    struct produce_work *w = p->rq->work;
    if (ask->err != ERR_OK) {
        produce_refuse(p->rq, p->resp, ask->err, NULL);
    } else {
        p->resp->base_offset = a->base_offset;
        p->resp->log_append_ms = a->append_ts;
    }
    p->resp->log_start_offset = a->log_start;
    if (p->charge > 0) {
        chunk_unref(a->chunk);
        admit_give_reply(&p->rq->sh->admit, p->charge);
    }
    if (--w->left == 0) {
        produce_finish(p->rq);
    }
}

/* The batch lies in the frame, or in a chunk that is the part's own. */
static void produce_send(struct rq *rq, struct produce_part *p, const struct meta_topic *t, const struct produce_check *ck, struct chunk *own) {
    const struct k_produce_req *q = rq->body;
    struct produce_work *w = rq->work;
    append_init(&p->ask, produce_done);
    p->rq = rq;
    p->ask.topic_id = t->id;
    p->ask.partition = p->resp->index;
    p->ask.acks = q->acks;
    p->ask.timeout = q->timeout_ms < PRODUCE_WAIT_MS_MIN ? PRODUCE_WAIT_MS_MIN : q->timeout_ms;
    p->ask.log_append_time = t->conf.ts_type == TS_LOG_APPEND_TIME;
    p->ask.chunk = own != NULL ? own : rq->frame;
    p->ask.batch = ck->bytes;
    p->ask.head = ck->head;
    w->left++;
    append_send(rq->sh, shard_owner(rq->sh, t, p->resp->index), &p->ask);
}

static struct produce_part *produce_part_new(struct rq *rq, struct k_produce_resp_topic_part *to) {
    struct produce_part *p = rq_array(rq, 1, sizeof(*p));
    if (p == NULL) {
        produce_refuse(rq, to, ERR_NOMEM, NULL);
    } else {
        p->resp = to;
    }
    return p;
}

/* ---- one partition's verdict ---- */

/* A check is over; the list, which lies in ck->arena, becomes the answer's. */
static void produce_refuse_checked(struct rq *rq, struct k_produce_resp_topic_part *to, err e, const struct produce_check *ck) {
    struct produce_work *w = rq->work;
    to->record_errors = rq_array(rq, (size_t)ck->errors_n, sizeof(*ck->errors));      /* S5.15 */
    if (to->record_errors != NULL && ck->errors_n > 0) {
        memcpy(to->record_errors, ck->errors, (size_t)ck->errors_n * sizeof(*ck->errors));
        to->record_errors_n = ck->errors_n;
        w->errors_n += ck->errors_n;
    }
    produce_refuse(rq, to, e, ck->why);
}

/* The batch in the frame is fit: its header tells what its records have (S5.11). */
static void produce_stamp(struct rq *rq, struct produce_check *ck) {
    if (ck->facts.walked && ck->conf->ts_type == TS_CREATE_TIME && ck->facts.max_ts_ms != ck->head.max_ts_ms) {
        batch_stamp_max_ts(rq->frame->data + (ck->bytes.p - rq->frame->data), ck->bytes.n, ck->facts.max_ts_ms);
        ck->head.max_ts_ms = ck->facts.max_ts_ms;
    }
}

static void produce_now(struct rq *rq, const struct meta_topic *t, struct produce_check *ck, struct k_produce_resp_topic_part *to) {
    err e = produce_check_batch(ck);
    if (e != ERR_OK) {
        produce_refuse_checked(rq, to, e, ck);
        return;
    }
    produce_stamp(rq, ck);
    struct produce_part *p = produce_part_new(rq, to);
    if (p != NULL) {
        produce_send(rq, p, t, ck, NULL);
    }
}

/* ---- through the worker ---- */

static struct k_produce_resp_topic_part *produce_to(struct produce_work *w) { return &w->resp.topics[w->topic].partitions[w->part]; }

/* The topic that the job was for, unless it is gone or another one has its name by now. */
static struct meta_topic *produce_job_topic(struct rq *rq) {
    struct produce_work *w = rq->work;
    return meta_topic_by_id(rq->sh->meta, w->job_topic);
}

static void produce_job_send(struct rq *rq, struct produce_job *j, struct k_produce_resp_topic_part *to) {
    struct meta_topic *t = produce_job_topic(rq);
    if (t == NULL) {
        produce_refuse(rq, to, ERR_NO_TOPIC, NULL);
        return;
    }
    struct produce_part *p = produce_part_new(rq, to);
    if (p == NULL) {
        return;
    }
    struct chunk *own = NULL;
    if (j->ck.packed.p != NULL) {
        own = produce_job_take(j);
        if (own == NULL) {
            produce_refuse(rq, to, ERR_NOMEM, NULL);
            return;
        }
        p->charge = j->charge;
        j->charge = 0;
    } else {
        produce_stamp(rq, &j->ck);
    }
    produce_send(rq, p, t, &j->ck, own);
}

static void produce_job_done(struct produce_job *j) {
    struct rq *rq = j->u;
    struct produce_work *w = rq->work;
    rq->hurry = NULL;
    if (j->err != ERR_OK) {
        produce_refuse_checked(rq, produce_to(w), j->err, &j->ck);
    } else {
        produce_job_send(rq, j, produce_to(w));
    }
    produce_job_end(j);
    w->part++;
    produce_go(rq);
}

/* Nobody waits for the answer, and the broker stops: a long computation would only be in the way. */
static bool produce_is_moot(const struct rq *rq) { return rq->abandoned && rq->cn->set->draining; }

static void produce_hurry(struct rq *rq) {
    struct produce_work *w = rq->work;
    if (produce_is_moot(rq)) {
        produce_job_stop(w->job);
    }
}

/* True: the request goes on when the job is back. */
static bool produce_later(struct rq *rq, const struct meta_topic *t, const struct produce_check *ck, struct k_produce_resp_topic_part *to) {
    struct produce_work *w = rq->work;
    w->job = w->job != NULL ? w->job : rq_array(rq, 1, sizeof(*w->job));
    if (w->job == NULL) {
        produce_refuse(rq, to, ERR_NOMEM, NULL);
        return false;
    }
    w->job_topic = t->id;
    rq->hurry = produce_hurry;
    produce_job_start(w->job, rq->sh, ck, produce_job_done, rq);
    return true;
}

/* ---- the request ---- */

/* Why no partition of this topic can be written, or OK. */
static err produce_topic_judge(struct rq *rq, const struct k_produce_req_topic *from, struct meta_topic **ret_t) {
    const struct k_produce_req *q = rq->body;
    if (rq->version < rq->api->serve_min) {
        return ERR_BAD_VERSION;
    }
    if (q->acks < -1 || q->acks > 1) {
        return ERR_BAD_ACKS;                       /* S5.1 */
    }
    err e = ERR_OK;
    struct meta_topic *t = api_topic(rq, from->name, from->topic_id, rq->version >= 13, &e);
    if (t == NULL) {
        bool allowed = rq->version >= 13 || rq_allow(rq, ALLOW_WRITE, ALLOW_TOPIC, from->name);
        return allowed ? e : ERR_DENIED;
    }
    if (!rq_allow(rq, ALLOW_WRITE, ALLOW_TOPIC, span_str(t->name))) {
        return ERR_DENIED;
    }
    if (t->internal && !span_eq_str(rq->client_id, "__admin_client")) {
        return ERR_BAD_TOPIC;                      /* S5.25 */
    }
    *ret_t = t;
    return ERR_OK;
}

/* The next partition. True: it is in the worker's hands, and the request goes on when it is back. */
static bool produce_next(struct rq *rq, const struct produce_topic *at) {
    struct produce_work *w = rq->work;
    const struct k_produce_req *q = rq->body;
    const struct k_produce_req_topic_part *from = &q->topics[w->topic].partitions[w->part];
    struct k_produce_resp_topic_part *to = produce_to(w);
    w->spent += from->records.n + PRODUCE_PART_COST;
    err e = at->e == ERR_OK && produce_is_moot(rq) ? ERR_CLOSING : at->e;
    e = e == ERR_OK && (from->index < 0 || from->index >= at->t->parts_n) ? ERR_NO_TOPIC : e;
    if (e != ERR_OK) {
        produce_refuse(rq, to, e, NULL);
        return false;
    }
    struct produce_check ck = {.version = rq->version, .now = shard_wall(rq->sh), .conf = &at->t->conf, .bytes = from->records, .arena = &rq->arena,
                               .list_max = LIMIT_RECORD_ERRORS - w->errors_n};
    if (produce_check_is_heavy(&ck)) {
        return produce_later(rq, at->t, &ck, to);
    }
    produce_now(rq, at->t, &ck, to);
    return false;
}

/* Look at partitions until all are sent on, one is with the worker, or the turn has had enough. */
static void produce_go(struct rq *rq) {
    struct produce_work *w = rq->work;
    const struct k_produce_req *q = rq->body;
    struct produce_topic at = {.at = -1};
    w->spent = 0;
    for (; w->topic < w->resp.topics_n; w->topic++, w->part = 0) {
        for (; w->part < w->resp.topics[w->topic].partitions_n; w->part++) {
            if (w->spent > LIMIT_PRODUCE_BYTES_PER_TURN) {
                shard_flush_later(rq->sh, &w->again);
                return;
            }
            if (at.at != w->topic) {
                at = (struct produce_topic){.at = w->topic};
                at.e = produce_topic_judge(rq, &q->topics[w->topic], &at.t);
            }
            if (produce_next(rq, &at)) {
                return;
            }
        }
    }
    rq->sent = true;
    conn_changed(rq->cn);                          /* the next request may start */
    if (--w->left == 0) {
        produce_finish(rq);
    }
}

static void produce_again(struct shard_flush *f) { produce_go(list_entry(f, struct produce_work, again)->rq); }

/* Room for the whole answer, before anything is appended: half of one would lie (S5.21). */
static bool produce_answer(struct rq *rq, struct produce_work *w) {
    const struct k_produce_req *q = rq->body;
    size_t n = q->topics_n < 0 ? 0 : (size_t)q->topics_n;
    w->resp.topics = rq_array(rq, n, sizeof(*w->resp.topics));
    for (size_t i = 0; i < n && w->resp.topics != NULL; i++) {
        struct k_produce_resp_topic *to = &w->resp.topics[i];
        size_t parts_n = q->topics[i].partitions_n < 0 ? 0 : (size_t)q->topics[i].partitions_n;
        k_produce_resp_topic_init(to);
        to->name = q->topics[i].name;
        to->topic_id = q->topics[i].topic_id;
        to->partitions = rq_array(rq, parts_n, sizeof(*to->partitions));
        if (to->partitions == NULL) {
            return false;
        }
        for (size_t k = 0; k < parts_n; k++) {
            k_produce_resp_topic_part_init(&to->partitions[k]);
            to->partitions[k].index = q->topics[i].partitions[k].index;
        }
        to->partitions_n = (int32_t)parts_n;
    }
    w->resp.topics_n = (int32_t)n;
    return w->resp.topics != NULL;
}

void produce_run(struct rq *rq) {
    struct produce_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    if (w == NULL) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    k_produce_resp_init(&w->resp);
    if (!produce_answer(rq, w)) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    w->rq = rq;
    w->left = 1;
    list_init(&w->again.link);
    w->again.flush = produce_again;
    produce_go(rq);
}
