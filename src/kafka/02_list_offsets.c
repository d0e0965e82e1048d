/* ListOffsets v0-11: the offset of a time, or of a special place.
 *
 * Behaviour: latest answers when what was written at its arrival is stable (D6); times are looked up inside batches (BR-010) and "none" is offset -1, timestamp -1, error 0 (S8.6, BR-011).
 * Versions: v0 old-style arrays (S8.7); v2+ isolation; v4+ leader epoch (74, 75); v7+ -3, v8+ -4, v9+ -5, v11+ -6, below 35 (S8.5); the same partition twice: 42 (S8.8).
 * Runs on: home shard. */
#include "owners.h"
#include "wire/k_list_offsets.h"

struct list_offsets_work {
    struct owners owners;
    struct k_list_offsets_resp resp;
};

/* S8.5: what a version may ask for. */
static bool list_offsets_knows(int version, int64_t ts) {
    switch (ts) {
    case OFFSETS_LATEST:
    case OFFSETS_EARLIEST: return true;
    case OFFSETS_MAX_TS: return version >= 7;
    case OFFSETS_EARLIEST_LOCAL: return version >= 8;
    case OFFSETS_LATEST_TIERED: return version >= 9;
    case OFFSETS_EARLIEST_PENDING: return version >= 11;
    default: return ts >= 0;
    }
}

static void list_offsets_fill(struct rq *rq, void *resp, const struct offsets_part *p) {
    struct k_list_offsets_resp_topic_part *to = resp;
    to->error_code = errmap_code(p->err);
    if (p->err != ERR_OK) {
        return;
    }
    to->offset = p->offset;
    to->timestamp = p->found_ts;
    to->leader_epoch = p->leader_epoch;
    if (rq->version == 0 && p->old_n > 0) {
        to->old_offsets = rq_array(rq, (size_t)p->old_n, sizeof(*to->old_offsets));
        for (int32_t i = 0; to->old_offsets != NULL && i < p->old_n; i++) {
            to->old_offsets[to->old_offsets_n++] = p->old[i];
        }
    }
}

static bool list_offsets_twice(const struct k_list_offsets_req_topic *from, int32_t at) {
    for (int32_t i = 0; i < from->partitions_n; i++) {
        if (i != at && from->partitions[i].index == from->partitions[at].index) {
            return true;
        }
    }
    return false;
}

#define LIST_OFFSETS_TWICE_MAX 2048    /* more partitions of one topic than this are not searched pair by pair */

static err list_offsets_judge(const struct rq *rq, const struct k_list_offsets_req_topic *from, int32_t i, const struct meta_topic *t, err e) {
    if (e != ERR_OK) {
        return e;
    }
    if (from->partitions_n <= LIST_OFFSETS_TWICE_MAX && list_offsets_twice(from, i)) {
        return ERR_BAD_REQUEST;
    }
    if (from->partitions[i].index < 0 || from->partitions[i].index >= t->parts_n) {
        return ERR_NO_TOPIC;
    }
    return list_offsets_knows(rq->version, from->partitions[i].timestamp) ? ERR_OK : ERR_BAD_VERSION;
}

struct list_offsets_topic {
    const struct k_list_offsets_req_topic *from;
    const struct meta_topic *topic;    /* NULL: e says why */
    err e;
};

static void list_offsets_part(struct rq *rq, const struct list_offsets_topic *lt, int32_t i, struct k_list_offsets_resp_topic_part *to) {
    const struct k_list_offsets_req_topic *from = lt->from;
    const struct meta_topic *t = lt->topic;
    const struct k_list_offsets_req *q = rq->body;
    struct list_offsets_work *w = rq->work;
    const struct k_list_offsets_req_topic_part *fp = &from->partitions[i];
    k_list_offsets_resp_topic_part_init(to);
    to->index = fp->index;
    err e = list_offsets_judge(rq, from, i, t, lt->e);
    to->error_code = errmap_code(e);
    if (e != ERR_OK) {
        return;
    }
    struct owners_part *p = &w->owners.parts[w->owners.parts_n++];
    p->asked = true;
    p->topic = t;
    p->resp = to;
    p->want = (struct offsets_part){
        .topic_id = t->id,
        .partition = fp->index,
        .current_epoch = fp->current_leader_epoch,
        .ts = fp->timestamp,
        .read_committed = q->isolation_level == 1,
        .old_style = rq->version == 0,
        .old_max = fp->max_offsets,
    };
}

static bool list_offsets_topic_run(struct rq *rq, const struct k_list_offsets_req_topic *from, struct k_list_offsets_resp_topic *to) {
    err e = ERR_OK;
    struct meta_topic *t = NULL;
    if (rq_allow(rq, ALLOW_DESCRIBE, ALLOW_TOPIC, from->name)) {
        t = api_topic(rq, from->name, (uuid){{0}}, false, &e);
    } else {
        e = ERR_DENIED;
    }
    size_t n = from->partitions_n > 0 ? (size_t)from->partitions_n : 0;
    k_list_offsets_resp_topic_init(to);
    to->name = from->name;
    to->partitions = rq_array(rq, n, sizeof(*to->partitions));
    if (to->partitions == NULL) {
        return false;
    }
    struct list_offsets_topic lt = {from, t, e};
    for (size_t i = 0; i < n; i++) {
        list_offsets_part(rq, &lt, (int32_t)i, &to->partitions[i]);
    }
    to->partitions_n = (int32_t)n;
    return true;
}

void list_offsets_run(struct rq *rq) {
    const struct k_list_offsets_req *q = rq->body;
    size_t topics_n = q->topics_n > 0 ? (size_t)q->topics_n : 0, parts_n = 0;
    for (size_t i = 0; i < topics_n; i++) {
        parts_n += q->topics[i].partitions_n > 0 ? (size_t)q->topics[i].partitions_n : 0;
    }
    rq->arena.ceiling += parts_n * (2 * sizeof(struct owners_part) + sizeof(struct k_list_offsets_resp_topic_part));
    struct list_offsets_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    struct owners_part *parts = rq_array(rq, parts_n, sizeof(*parts));
    struct k_list_offsets_resp_topic *topics = rq_array(rq, topics_n, sizeof(*topics));
    bool ok = w != NULL && parts != NULL && topics != NULL;
    if (ok) {
        k_list_offsets_resp_init(&w->resp);
        w->resp.topics = topics;
        w->owners = (struct owners){.rq = rq, .parts = parts, .fill = list_offsets_fill, .answer = &w->resp};
    }
    for (size_t i = 0; i < topics_n && ok; i++) {
        ok = list_offsets_topic_run(rq, &q->topics[i], &topics[w->resp.topics_n++]);
    }
    if (!ok) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    owners_send(&w->owners, false);
}
