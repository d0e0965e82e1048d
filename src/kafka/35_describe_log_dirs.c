/* DescribeLogDirs v1-4: the data directory, and what each partition takes in it.
 *
 * Behaviour: one directory; per partition the bytes of its segments, offset lag 0 (nothing is ever moved between directories here). Null topics: all of them; otherwise those asked, each once;
 * what is not there is left out. Without DESCRIBE on the cluster: no directories, and 31 from v3 on.
 * Versions: v2 flexible; v3 error of the whole; v4 size of the volume and what is free of it (-1: the system does not say).
 * Runs on: home shard. */
#include "owners.h"
#include "seen.h"
#include "wire/k_describe_log_dirs.h"

struct describe_log_dirs_work {
    struct owners owners;
    struct k_describe_log_dirs_resp resp;
    struct k_describe_log_dirs_resp_result dir;
    struct meta_topic **topics;        /* that are answered, and of each the partitions asked: NULL: all */
    const bool **asked;
    size_t topics_n;
    struct disk_req space;
};

static void describe_log_dirs_fill(struct rq *rq, void *resp, const struct offsets_part *p) {
    (void)rq;
    struct k_describe_log_dirs_resp_result_topic_part *to = resp;
    to->size = p->err == ERR_OK ? p->offset : -1;
}

/* Partitions that went away meanwhile are not there. */
static void describe_log_dirs_tidy(struct k_describe_log_dirs_resp_result_topic *t) {
    int32_t kept = 0;
    for (int32_t i = 0; i < t->partitions_n; i++) {
        if (t->partitions[i].size >= 0) {
            t->partitions[kept++] = t->partitions[i];
        }
    }
    t->partitions_n = kept;
}

static void describe_log_dirs_spaced(struct disk_req *rq) {
    struct rq *r = rq->u;
    struct describe_log_dirs_work *w = r->work;
    if (rq->err == ERR_OK) {
        w->dir.total_bytes = rq->total;
        w->dir.usable_bytes = rq->size;
    }
    rq_reply(r, &w->resp);
}

static void describe_log_dirs_sized(struct owners *o) {
    struct rq *rq = o->rq;
    struct describe_log_dirs_work *w = rq->work;
    for (int32_t i = 0; i < w->dir.topics_n; i++) {
        describe_log_dirs_tidy(&w->dir.topics[i]);
    }
    if (rq->version < 4) {
        rq_reply(rq, &w->resp);
        return;
    }
    w->space = (struct disk_req){.op = DISK_SPACE, .lane = DISK_LANE_READ, .done = describe_log_dirs_spaced, .u = rq};
    disk_submit(rq->sh->port->disk, &w->space);
}

static bool describe_log_dirs_same(const void *u, uint32_t a, uint32_t b) {
    const struct k_describe_log_dirs_req_topic *t = u;
    return span_eq(t[a].topic, t[b].topic);
}

/* The partitions that one entry names, each once. */
static const bool *describe_log_dirs_marked(struct rq *rq, const struct k_describe_log_dirs_req_topic *from, const struct meta_topic *t) {
    bool *asked = rq_array(rq, (size_t)t->parts_n, sizeof(*asked));
    for (int32_t i = 0; asked != NULL && i < from->partitions_n; i++) {
        if (from->partitions[i] >= 0 && from->partitions[i] < t->parts_n) {
            asked[from->partitions[i]] = true;
        }
    }
    return asked;
}

static bool describe_log_dirs_some(struct rq *rq) {
    const struct k_describe_log_dirs_req *q = rq->body;
    struct describe_log_dirs_work *w = rq->work;
    struct seen seen;
    size_t n = q->topics_n > 0 ? (size_t)q->topics_n : 0;
    w->topics = rq_array(rq, n, sizeof(*w->topics));
    w->asked = rq_array(rq, n, sizeof(*w->asked));
    if (w->topics == NULL || w->asked == NULL || !seen_init(&seen, rq, n)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        err e = ERR_OK;
        const struct k_describe_log_dirs_req_topic *from = &q->topics[i];
        bool first = seen_add(&seen, seen_hash(&seen, from->topic), i, describe_log_dirs_same, q->topics) == i;
        struct meta_topic *t = first ? api_topic(rq, from->topic, (uuid){{0}}, false, &e) : NULL;
        if (t == NULL) {
            continue;
        }
        w->topics[w->topics_n] = t;
        w->asked[w->topics_n] = describe_log_dirs_marked(rq, from, t);
        if (w->asked[w->topics_n++] == NULL) {
            return false;
        }
    }
    return true;
}

static bool describe_log_dirs_topic(struct rq *rq, const struct meta_topic *t, const bool *asked, struct k_describe_log_dirs_resp_result_topic *to) {
    struct describe_log_dirs_work *w = rq->work;
    k_describe_log_dirs_resp_result_topic_init(to);
    to->name = arena_copy(&rq->arena, span_str(t->name));
    to->partitions = rq_array(rq, (size_t)t->parts_n, sizeof(*to->partitions));
    if (span_is_null(to->name) || to->partitions == NULL) {
        return false;
    }
    for (int32_t i = 0; i < t->parts_n; i++) {
        if (asked != NULL && !asked[i]) {
            continue;
        }
        struct k_describe_log_dirs_resp_result_topic_part *tp = &to->partitions[to->partitions_n++];
        k_describe_log_dirs_resp_result_topic_part_init(tp);
        tp->index = i;
        w->owners.parts[w->owners.parts_n++] = (struct owners_part){.topic = t, .resp = tp, .want = {.topic_id = t->id, .partition = i, .current_epoch = -1}};
    }
    return true;
}

static bool describe_log_dirs_build(struct rq *rq) {
    struct describe_log_dirs_work *w = rq->work;
    size_t parts_n = 0;
    for (size_t i = 0; i < w->topics_n; i++) {
        parts_n += (size_t)w->topics[i]->parts_n;
    }
    rq->arena.ceiling += parts_n * (2 * sizeof(struct owners_part) + sizeof(struct k_describe_log_dirs_resp_result_topic_part)) + w->topics_n * 512;
    w->owners.parts = rq_array(rq, parts_n, sizeof(*w->owners.parts));
    w->dir.topics = rq_array(rq, w->topics_n, sizeof(*w->dir.topics));
    bool ok = w->owners.parts != NULL && w->dir.topics != NULL;
    for (size_t i = 0; i < w->topics_n && ok; i++) {
        ok = describe_log_dirs_topic(rq, w->topics[i], w->asked == NULL ? NULL : w->asked[i], &w->dir.topics[w->dir.topics_n++]);
    }
    return ok;
}

void describe_log_dirs_run(struct rq *rq) {
    const struct k_describe_log_dirs_req *q = rq->body;
    struct describe_log_dirs_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    if (w == NULL) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    k_describe_log_dirs_resp_init(&w->resp);
    if (!rq_allow(rq, ALLOW_DESCRIBE, ALLOW_CLUSTER, SPAN_LIT("kafka-cluster"))) {
        w->resp.error_code = 31;
        rq_reply(rq, &w->resp);
        return;
    }
    const char *path = rq->sh->node->conf.data_path;
    k_describe_log_dirs_resp_result_init(&w->dir);
    w->dir.log_dir = span_str(path == NULL ? "." : path);
    w->resp.results = &w->dir;
    w->resp.results_n = 1;
    w->owners = (struct owners){.rq = rq, .fill = describe_log_dirs_fill, .home = describe_log_dirs_sized};
    rq->arena.ceiling += rq->sh->meta->topics_n * sizeof(struct meta_topic *);
    bool ok = q->topics_n < 0 ? meta_topics_sorted(rq->sh->meta, &rq->arena, &w->topics, &w->topics_n) == ERR_OK : describe_log_dirs_some(rq);
    if (!ok || !describe_log_dirs_build(rq)) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    owners_send(&w->owners, OFFSETS_SIZES);
}
