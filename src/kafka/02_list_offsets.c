/* ListOffsets v0-11: the offset of a time, or of a special place.
 *
 * Behaviour: latest answers when what was written at its arrival is stable (D6); times are looked up inside batches (BR-010) and "none" is offset -1, timestamp -1, error 0 (S8.6, BR-011).
 * Versions: v0 old-style arrays (S8.7); v2+ isolation; v4+ leader epoch (74, 75); v7+ -3, v8+ -4, v9+ -5, v11+ -6, below 35 (S8.5); the same partition twice: 42 (S8.8).
 * Runs on: home shard. */
#include "owners.h"
#include "seen.h"
#include "wire/k_list_offsets.h"

struct list_offsets_entry {            /* one partition asked, topic by topic */
    const struct k_list_offsets_req_topic *topic;
    int32_t partition;
    bool twice;
};

struct list_offsets_work {
    struct owners owners;
    struct k_list_offsets_resp resp;
    struct list_offsets_entry *entries;
    size_t looked;                     /* entries answered or sent so far */
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
        to->error_code = errmap_code(to->old_offsets == NULL ? ERR_NOMEM : ERR_OK);
        for (int32_t i = 0; to->old_offsets != NULL && i < p->old_n; i++) {
            to->old_offsets[to->old_offsets_n++] = p->old[i];
        }
    }
}

static bool list_offsets_same(const void *u, uint32_t a, uint32_t b) {
    const struct list_offsets_entry *x = (const struct list_offsets_entry *)u + a, *y = (const struct list_offsets_entry *)u + b;
    return x->partition == y->partition && (x->topic == y->topic || span_eq(x->topic->name, y->topic->name));
}

/* S8.8: which partitions the request names more than once. */
static bool list_offsets_look(struct rq *rq, size_t parts_n) {
    const struct k_list_offsets_req *q = rq->body;
    struct list_offsets_work *w = rq->work;
    struct seen seen;
    w->entries = rq_array(rq, parts_n, sizeof(*w->entries));
    if (w->entries == NULL || !seen_init(&seen, rq, parts_n)) {
        return false;
    }
    uint32_t n = 0;
    for (int32_t i = 0; i < q->topics_n; i++) {
        const struct k_list_offsets_req_topic *t = &q->topics[i];
        uint64_t hash = seen_hash(&seen, t->name);
        for (int32_t k = 0; k < t->partitions_n; k++, n++) {
            struct list_offsets_entry *en = &w->entries[n];
            *en = (struct list_offsets_entry){.topic = t, .partition = t->partitions[k].index};
            uint32_t first = seen_add(&seen, seen_hash_part(&seen, hash, en->partition), n, list_offsets_same, w->entries);
            en->twice = first != n;
            w->entries[first].twice = w->entries[first].twice || en->twice;
        }
    }
    return true;
}

static err list_offsets_judge(const struct rq *rq, const struct k_list_offsets_req_topic *from, int32_t i, const struct meta_topic *t, err e) {
    struct list_offsets_work *w = rq->work;
    bool twice = w->entries[w->looked++].twice;
    if (e != ERR_OK) {
        return e;
    }
    if (twice) {
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
    bool ok = w != NULL && parts != NULL && topics != NULL && list_offsets_look(rq, parts_n);
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
    owners_send(&w->owners, OFFSETS_LIST);
}
