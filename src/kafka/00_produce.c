/* Produce v3-13: append one batch per partition.
 *
 * Behaviour: each partition succeeds or fails on its own (S5.22). The home authorises and validates the bytes (produce_check.c; S5.1-5.7, 5.10-5.15), the owner judges sequence, space and size and answers when
 * acks says so. acks=0 gets no answer; if a partition failed, the connection closes so that the client looks at its metadata (S1.7, 1.8).
 * Versions: 0-2 are listed but refused with 35 per partition (BR-002, BR-008); 7+ zstd, 76 below; 8+ record errors and a message; 9 flexible; 10+ leader hints, which a single node never needs;
 * 12+ KIP-890 (transactions are not served yet: 48); 13+ topics by id.
 * Runs on: home shard. */
#include "api.h"
#include "base/limits.h"
#include "broker/append.h"
#include "produce_check.h"

struct produce_part {
    struct append_ask ask;
    struct rq *rq;
    struct k_produce_resp_topic_part *resp;
};

struct produce_work {
    struct k_produce_resp resp;
    size_t left;                       /* asks that are out */
    int32_t errors_n;                  /* bad records listed so far, at most LIMIT_RECORD_ERRORS */
    bool failed;
    bool cut;                          /* no memory for the whole answer, and half of one would lie (S5.21) */
};

static void produce_finish(struct rq *rq) {
    struct produce_work *w = rq->work;
    const struct k_produce_req *q = rq->body;
    if (w->cut) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
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
    if (--w->left == 0) {
        produce_finish(p->rq);
    }
}

static void produce_send(struct rq *rq, struct produce_part *p, const struct meta_topic *t, const struct produce_check *ck) {
    const struct k_produce_req *q = rq->body;
    struct produce_work *w = rq->work;
    append_init(&p->ask, produce_done);
    p->rq = rq;
    p->ask.topic_id = t->id;
    p->ask.partition = p->resp->index;
    p->ask.acks = q->acks;
    p->ask.timeout = q->timeout_ms < 0 ? 0 : q->timeout_ms;
    p->ask.log_append_time = t->conf.ts_type == TS_LOG_APPEND_TIME;
    p->ask.chunk = rq->frame;
    p->ask.batch = ck->bytes;
    p->ask.head = ck->head;
    w->left++;
    append_send(rq->sh, shard_owner(rq->sh, t, p->resp->index), &p->ask);
}

/* The batch as it will be sent on, or why not. */
static err produce_judge(struct rq *rq, struct produce_check *ck, struct k_produce_resp_topic_part *to) {
    struct produce_work *w = rq->work;
    ck->list_max = LIMIT_RECORD_ERRORS - w->errors_n;
    err e = produce_check_batch(ck);
    if (e != ERR_OK) {
        w->errors_n += ck->errors_n;
        to->record_errors = ck->errors;            /* S5.15 */
        to->record_errors_n = ck->errors_n;
    } else if (ck->facts.walked && ck->conf->ts_type == TS_CREATE_TIME && ck->facts.max_ts_ms != ck->head.max_ts_ms) {    /* S5.11 */
        batch_stamp_max_ts(rq->frame->data + (ck->bytes.p - rq->frame->data), ck->bytes.n, ck->facts.max_ts_ms);
        ck->head.max_ts_ms = ck->facts.max_ts_ms;
    }
    return e;
}

static void produce_part_run(struct rq *rq, const struct meta_topic *t, const struct k_produce_req_topic_part *from, struct k_produce_resp_topic_part *to) {
    if (from->index < 0 || from->index >= t->parts_n) {
        produce_refuse(rq, to, ERR_NO_TOPIC, NULL);
        return;
    }
    struct produce_check ck = {.rq = rq, .conf = &t->conf, .bytes = from->records};
    err e = produce_judge(rq, &ck, to);
    if (e != ERR_OK) {
        produce_refuse(rq, to, e, ck.why);
        return;
    }
    struct produce_part *p = rq_array(rq, 1, sizeof(*p));
    if (p == NULL) {
        produce_refuse(rq, to, ERR_NOMEM, NULL);
        return;
    }
    p->resp = to;
    produce_send(rq, p, t, &ck);
}

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

static bool produce_topic_run(struct rq *rq, const struct k_produce_req_topic *from, struct k_produce_resp_topic *to) {
    size_t n = from->partitions_n < 0 ? 0 : (size_t)from->partitions_n;
    k_produce_resp_topic_init(to);
    to->name = from->name;
    to->topic_id = from->topic_id;
    to->partitions = rq_array(rq, n, sizeof(*to->partitions));
    if (to->partitions == NULL) {
        return false;
    }
    struct meta_topic *t = NULL;
    err e = produce_topic_judge(rq, from, &t);
    for (size_t i = 0; i < n; i++) {
        k_produce_resp_topic_part_init(&to->partitions[i]);
        to->partitions[i].index = from->partitions[i].index;
        if (e != ERR_OK) {
            produce_refuse(rq, &to->partitions[i], e, NULL);
        } else {
            produce_part_run(rq, t, &from->partitions[i], &to->partitions[i]);
        }
    }
    to->partitions_n = (int32_t)n;
    return true;
}

void produce_run(struct rq *rq) {
    const struct k_produce_req *q = rq->body;
    struct produce_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    size_t n = q->topics_n < 0 ? 0 : (size_t)q->topics_n;
    struct k_produce_resp_topic *topics = rq_array(rq, n, sizeof(*topics));
    if (w == NULL || topics == NULL) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    k_produce_resp_init(&w->resp);
    w->resp.topics = topics;
    w->left = 1;                                   /* kept until every partition was looked at */
    for (size_t i = 0; i < n && !w->cut; i++) {
        w->cut = !produce_topic_run(rq, &q->topics[i], &topics[i]);
        w->resp.topics_n++;
    }
    if (--w->left == 0) {
        produce_finish(rq);
    }
}
