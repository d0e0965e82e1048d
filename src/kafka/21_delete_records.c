/* DeleteRecords v0-2: the log start offset moves up (S4.17, S4.18).
 *
 * Behaviour: per partition its own verdict, and where the partition begins then (-1 on an error). -1 is the end as it is on arrival; an offset below the start is a success that changes nothing;
 * one above the end is 1. The answer leaves when what is deleted was stable and the new start survives a power loss (D6); space follows off the turn, in whole segments. Topics whose
 * cleanup.policy lacks delete answer 44, internal ones 17, partitions that are not there 3; after timeout_ms 7, and the start may still move.
 * Versions: v2 flexible.
 * Runs on: home shard. */
#include "owners.h"
#include "wire/k_delete_records.h"

struct delete_records_work {
    struct owners owners;
    struct k_delete_records_resp resp;
};

static void delete_records_fill(struct rq *rq, void *resp, const struct offsets_part *p) {
    (void)rq;
    struct k_delete_records_resp_topic_part *to = resp;
    to->error_code = errmap_code(p->err);
    to->low_watermark = p->err == ERR_OK ? p->offset : -1;
}

static void delete_records_part(struct rq *rq, const struct k_delete_records_req_topic_part *from, const struct meta_topic *t, struct k_delete_records_resp_topic_part *to) {
    struct delete_records_work *w = rq->work;
    if (from->index < 0 || from->index >= t->parts_n) {
        to->error_code = errmap_code(ERR_NO_TOPIC);
        return;
    }
    w->owners.parts[w->owners.parts_n++] = (struct owners_part){
        .topic = t,
        .resp = to,
        .want = {.topic_id = t->id, .partition = from->index, .current_epoch = -1, .delete_to = from->offset},
    };
}

static bool delete_records_topic(struct rq *rq, const struct k_delete_records_req_topic *from, struct k_delete_records_resp_topic *to) {
    err e = ERR_OK;
    struct meta_topic *t = NULL;
    if (rq_allow(rq, ALLOW_DELETE, ALLOW_TOPIC, from->name)) {
        t = api_topic(rq, from->name, (uuid){{0}}, false, &e);
    } else {
        e = ERR_DENIED;
    }
    size_t n = from->partitions_n > 0 ? (size_t)from->partitions_n : 0;
    k_delete_records_resp_topic_init(to);
    to->name = from->name;
    to->partitions = rq_array(rq, n, sizeof(*to->partitions));
    if (to->partitions == NULL) {
        return false;
    }
    for (; to->partitions_n < (int32_t)n; to->partitions_n++) {
        const struct k_delete_records_req_topic_part *fp = &from->partitions[to->partitions_n];
        struct k_delete_records_resp_topic_part *tp = &to->partitions[to->partitions_n];
        k_delete_records_resp_topic_part_init(tp);
        tp->index = fp->index;
        tp->low_watermark = -1;
        tp->error_code = errmap_code(e);
        if (t != NULL) {
            delete_records_part(rq, fp, t, tp);
        }
    }
    return true;
}

void delete_records_run(struct rq *rq) {
    const struct k_delete_records_req *q = rq->body;
    size_t topics_n = q->topics_n > 0 ? (size_t)q->topics_n : 0, parts_n = 0;
    for (size_t i = 0; i < topics_n; i++) {
        parts_n += q->topics[i].partitions_n > 0 ? (size_t)q->topics[i].partitions_n : 0;
    }
    rq->arena.ceiling += parts_n * (2 * sizeof(struct owners_part) + sizeof(struct k_delete_records_resp_topic_part));
    struct delete_records_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    struct owners_part *parts = rq_array(rq, parts_n, sizeof(*parts));
    struct k_delete_records_resp_topic *topics = rq_array(rq, topics_n, sizeof(*topics));
    bool ok = w != NULL && parts != NULL && topics != NULL;
    if (ok) {
        k_delete_records_resp_init(&w->resp);
        w->resp.topics = topics;
        w->owners = (struct owners){.rq = rq, .parts = parts, .timeout = q->timeout_ms, .fill = delete_records_fill, .answer = &w->resp};
    }
    for (size_t i = 0; i < topics_n && ok; i++) {
        ok = delete_records_topic(rq, &q->topics[i], &topics[w->resp.topics_n++]);
    }
    if (!ok) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    owners_send(&w->owners, OFFSETS_DELETE);
}
