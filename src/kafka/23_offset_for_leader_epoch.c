/* OffsetForLeaderEpoch v2-4: where a leader epoch ends (KIP-101, KIP-320).
 *
 * Behaviour: the current epoch ends at the log end, an older one where the next began, an unknown one is -1/-1 with error 0 (S4.20, BR-012); the caller's current epoch is fenced (74, 75).
 * Versions: v3+ replica id; v4 flexible.
 * Runs on: home shard. */
#include "owners.h"
#include "wire/k_offset_for_leader_epoch.h"

struct offset_for_leader_epoch_work {
    struct owners owners;
    struct k_offset_for_leader_epoch_resp resp;
};

static void offset_for_leader_epoch_fill(struct rq *rq, void *resp, const struct offsets_part *p) {
    (void)rq;
    struct k_offset_for_leader_epoch_resp_topic_part *to = resp;
    to->error_code = errmap_code(p->err);
    if (p->err == ERR_OK) {
        to->leader_epoch = p->leader_epoch;
        to->end_offset = p->offset;
    }
}

static bool offset_for_leader_epoch_topic(struct rq *rq, const struct k_offset_for_leader_epoch_req_topic *from,
                                          struct k_offset_for_leader_epoch_resp_topic *to) {
    struct offset_for_leader_epoch_work *w = rq->work;
    err e = ERR_OK;
    struct meta_topic *t = NULL;
    if (rq_allow(rq, ALLOW_DESCRIBE, ALLOW_TOPIC, from->topic)) {
        t = api_topic(rq, from->topic, (uuid){{0}}, false, &e);
    } else {
        e = ERR_DENIED;
    }
    size_t n = from->partitions_n > 0 ? (size_t)from->partitions_n : 0;
    k_offset_for_leader_epoch_resp_topic_init(to);
    to->topic = from->topic;
    to->partitions = rq_array(rq, n, sizeof(*to->partitions));
    if (to->partitions == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const struct k_offset_for_leader_epoch_req_topic_part *fp = &from->partitions[i];
        struct k_offset_for_leader_epoch_resp_topic_part *tp = &to->partitions[to->partitions_n++];
        k_offset_for_leader_epoch_resp_topic_part_init(tp);
        tp->partition = fp->partition;
        bool there = e == ERR_OK && fp->partition >= 0 && fp->partition < t->parts_n;
        tp->error_code = errmap_code(e != ERR_OK ? e : there ? ERR_OK : ERR_NO_TOPIC);
        if (there) {
            w->owners.parts[w->owners.parts_n++] = (struct owners_part){
                .topic = t,
                .resp = tp,
                .want = {.topic_id = t->id, .partition = fp->partition, .current_epoch = fp->current_leader_epoch, .asked_epoch = fp->leader_epoch},
            };
        }
    }
    return true;
}

void offset_for_leader_epoch_run(struct rq *rq) {
    const struct k_offset_for_leader_epoch_req *q = rq->body;
    size_t topics_n = q->topics_n > 0 ? (size_t)q->topics_n : 0, parts_n = 0;
    for (size_t i = 0; i < topics_n; i++) {
        parts_n += q->topics[i].partitions_n > 0 ? (size_t)q->topics[i].partitions_n : 0;
    }
    rq->arena.ceiling += parts_n * 2 * sizeof(struct owners_part);
    struct offset_for_leader_epoch_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    struct owners_part *parts = rq_array(rq, parts_n, sizeof(*parts));
    struct k_offset_for_leader_epoch_resp_topic *topics = rq_array(rq, topics_n, sizeof(*topics));
    bool ok = w != NULL && parts != NULL && topics != NULL;
    if (ok) {
        k_offset_for_leader_epoch_resp_init(&w->resp);
        w->resp.topics = topics;
        w->owners = (struct owners){.rq = rq, .parts = parts, .fill = offset_for_leader_epoch_fill, .answer = &w->resp};
    }
    for (size_t i = 0; i < topics_n && ok; i++) {
        ok = offset_for_leader_epoch_topic(rq, &q->topics[i], &topics[w->resp.topics_n++]);
    }
    if (!ok) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    owners_send(&w->owners, OFFSETS_EPOCHS);
}
