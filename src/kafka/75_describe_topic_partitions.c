/* DescribeTopicPartitions v0: topics and their partitions by name, page by page (S3.17).
 *
 * Behaviour: the topics asked (none: all of them), each once, sorted by name, from the cursor on; at most min(the request's limit, max.request.partition.size.limit) partitions and at least
 * one; next_cursor names the first one left out. A topic that is not there: 3, an illegal name: 17; without DESCRIBE: 29 when it was named, left out of a list of all (S3.7). A cursor whose
 * topic is not among those asked, or whose partition is negative: 42 for each topic asked. Replicas that are eligible besides the in-sync ones: none (empty lists).
 * A page costs one walk over the topics, not a sort of them: only as many as fit a page are kept.
 * Runs on: home shard. */
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "wire/k_describe_topic_partitions.h"

#define DESCRIBE_TOPIC_PARTITIONS_PART_BYTES 160   /* charged per partition of the answer: struct and encoded bytes */
#define DESCRIBE_TOPIC_PARTITIONS_TOPIC_BYTES 512

struct describe_topic_partitions_work {
    struct k_describe_topic_partitions_resp resp;
    const struct k_describe_topic_partitions_req *q;
    span from;                         /* the cursor's topic, "" without */
    span *names;                       /* of the page, sorted; one more than may fit */
    size_t names_n, names_max;
    int32_t left;                      /* partitions that the page may hold */
    bool all;
    int32_t *self;                     /* replicas of every partition */
};

/* ---- which topics ---- */

static int describe_topic_partitions_cmp(const void *a, const void *b) { return span_cmp(*(const span *)a, *(const span *)b); }

static void describe_topic_partitions_swap(span *a, span *b) {
    span t = *a;
    *a = *b;
    *b = t;
}

/* names[] is a heap with the last name on top. */
static void describe_topic_partitions_sink(struct describe_topic_partitions_work *w) {
    for (size_t i = 0;;) {
        size_t most = i, l = 2 * i + 1, r = l + 1;
        most = l < w->names_n && span_cmp(w->names[l], w->names[most]) > 0 ? l : most;
        most = r < w->names_n && span_cmp(w->names[r], w->names[most]) > 0 ? r : most;
        if (most == i) {
            return;
        }
        describe_topic_partitions_swap(&w->names[i], &w->names[most]);
        i = most;
    }
}

static void describe_topic_partitions_rise(struct describe_topic_partitions_work *w) {
    for (size_t i = w->names_n - 1; i > 0 && span_cmp(w->names[i], w->names[(i - 1) / 2]) > 0; i = (i - 1) / 2) {
        describe_topic_partitions_swap(&w->names[i], &w->names[(i - 1) / 2]);
    }
}

/* Keep the first names_max of all names. */
static void describe_topic_partitions_note(struct describe_topic_partitions_work *w, span name) {
    if (w->names_n < w->names_max) {
        w->names[w->names_n++] = name;
        describe_topic_partitions_rise(w);
    } else if (span_cmp(name, w->names[0]) < 0) {
        w->names[0] = name;
        describe_topic_partitions_sink(w);
    }
}

/* Each topic has a partition at least, so a page never needs more names than it may have partitions, and one for the cursor. */
static bool describe_topic_partitions_all(struct rq *rq) {
    struct describe_topic_partitions_work *w = rq->work;
    size_t topics = rq->sh->meta->topics_n, most = (size_t)w->left + 1;
    w->names_max = topics < most ? topics : most;
    w->names = rq_array(rq, w->names_max, sizeof(*w->names));
    if (w->names == NULL) {
        return false;
    }
    list_each(it, &rq->sh->meta->topics) {
        span name = span_str(list_entry(it, const struct meta_topic, link)->name);
        if (span_cmp(name, w->from) >= 0 && rq_allow(rq, ALLOW_DESCRIBE, ALLOW_TOPIC, name)) {
            describe_topic_partitions_note(w, name);
        }
    }
    qsort(w->names, w->names_n, sizeof(*w->names), describe_topic_partitions_cmp);
    return true;
}

static bool describe_topic_partitions_asked(struct rq *rq) {
    struct describe_topic_partitions_work *w = rq->work;
    size_t n = (size_t)w->q->topics_n, kept = 0;
    w->names = rq_array(rq, n, sizeof(*w->names));
    if (w->names == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (span_cmp(w->q->topics[i].name, w->from) >= 0) {
            w->names[w->names_n++] = w->q->topics[i].name;
        }
    }
    qsort(w->names, w->names_n, sizeof(*w->names), describe_topic_partitions_cmp);
    for (size_t i = 0; i < w->names_n; i++) {
        if (kept == 0 || !span_eq(w->names[i], w->names[kept - 1])) {
            w->names[kept++] = w->names[i];
        }
    }
    w->names_n = kept;
    return true;
}

/* ---- the answer ---- */

static struct k_describe_topic_partitions_resp_topic *describe_topic_partitions_add(struct rq *rq, span name) {
    struct describe_topic_partitions_work *w = rq->work;
    struct k_describe_topic_partitions_resp_topic *to = &w->resp.topics[w->resp.topics_n++];
    k_describe_topic_partitions_resp_topic_init(to);
    to->name = arena_copy(&rq->arena, name);
    to->is_internal = meta_topic_name_is_internal(name);
    return to;
}

static bool describe_topic_partitions_cursor(struct rq *rq, span name, int32_t partition) {
    struct describe_topic_partitions_work *w = rq->work;
    struct k_describe_topic_partitions_resp_cursor *c = rq_array(rq, 1, sizeof(*c));
    if (c == NULL) {
        return false;
    }
    k_describe_topic_partitions_resp_cursor_init(c);
    c->topic_name = arena_copy(&rq->arena, name);
    c->partition_index = partition;
    w->resp.next_cursor = c;
    return !span_is_null(c->topic_name);
}

static void describe_topic_partitions_part(struct describe_topic_partitions_work *w, const struct meta_topic *t, int32_t i, struct k_describe_topic_partitions_resp_topic_part *p) {
    k_describe_topic_partitions_resp_topic_part_init(p);
    p->index = i;
    p->leader_id = t->parts[i].leader;
    p->leader_epoch = t->parts[i].leader_epoch;
    p->replicas = p->isr = w->self;
    p->replicas_n = p->isr_n = 1;
    p->eligible_leaders_n = p->last_known_eligible_n = 0;
}

static bool describe_topic_partitions_topic(struct rq *rq, const struct meta_topic *t, struct k_describe_topic_partitions_resp_topic *to) {
    struct describe_topic_partitions_work *w = rq->work;
    span name = span_str(t->name);
    int32_t first = span_eq(name, w->from) ? w->q->cursor->partition_index : 0;
    int32_t there = first < t->parts_n ? t->parts_n - first : 0, n = there < w->left ? there : w->left;
    to->topic_id = t->id;
    to->partitions = rq_array(rq, (size_t)n, sizeof(*to->partitions));
    if (to->partitions == NULL) {
        return false;
    }
    for (int32_t i = 0; i < n; i++) {
        describe_topic_partitions_part(w, t, first + i, &to->partitions[i]);
    }
    to->partitions_n = n;
    w->left -= n;
    return n == there || describe_topic_partitions_cursor(rq, name, first + n);
}

static bool describe_topic_partitions_one(struct rq *rq, span name) {
    struct k_describe_topic_partitions_resp_topic *to = describe_topic_partitions_add(rq, name);
    if (span_is_null(to->name)) {
        return false;
    }
    if (!rq_allow(rq, ALLOW_DESCRIBE, ALLOW_TOPIC, name)) {
        to->error_code = errmap_code(ERR_DENIED);
        to->is_internal = false;
        return true;
    }
    to->authorized_ops = API_TOPIC_OPS;
    const struct meta_topic *t = meta_topic_by_name(rq->sh->meta, name);
    if (t == NULL) {
        to->error_code = errmap_code(meta_topic_name_ok(name) ? ERR_NO_TOPIC : ERR_BAD_TOPIC);
        return true;
    }
    return describe_topic_partitions_topic(rq, t, to);
}

static bool describe_topic_partitions_page(struct rq *rq) {
    struct describe_topic_partitions_work *w = rq->work;
    w->resp.topics = rq_array(rq, w->names_n, sizeof(*w->resp.topics));
    w->self = rq_array(rq, 1, sizeof(*w->self));
    if (w->resp.topics == NULL || w->self == NULL) {
        return false;
    }
    *w->self = rq->sh->node->conf.node_id;
    for (size_t i = 0; i < w->names_n && w->resp.next_cursor == NULL; i++) {
        if (w->left == 0) {
            return describe_topic_partitions_cursor(rq, w->names[i], 0);
        }
        if (!describe_topic_partitions_one(rq, w->names[i])) {
            return false;
        }
    }
    return true;
}

/* ---- the request ---- */

static bool describe_topic_partitions_cursor_ok(const struct k_describe_topic_partitions_req *q) {
    const struct k_describe_topic_partitions_req_cursor *c = q->cursor;
    bool named = c == NULL || q->topics_n <= 0;
    for (int32_t i = 0; i < q->topics_n && !named; i++) {
        named = span_eq(q->topics[i].name, c->topic_name);
    }
    return c == NULL || (named && c->partition_index >= 0);
}

static bool describe_topic_partitions_refuse(struct rq *rq) {
    struct describe_topic_partitions_work *w = rq->work;
    size_t n = w->q->topics_n > 0 ? (size_t)w->q->topics_n : 0;
    w->resp.topics = rq_array(rq, n, sizeof(*w->resp.topics));
    for (size_t i = 0; i < n && w->resp.topics != NULL; i++) {
        struct k_describe_topic_partitions_resp_topic *to = describe_topic_partitions_add(rq, w->q->topics[i].name);
        to->error_code = errmap_code(ERR_BAD_REQUEST);
        to->is_internal = false;
    }
    return w->resp.topics != NULL;
}

static void describe_topic_partitions_charged(struct rq *rq) {
    struct describe_topic_partitions_work *w = rq->work;
    if (rq->abandoned) {
        rq_silent(rq);
        return;
    }
    bool ok = describe_topic_partitions_cursor_ok(w->q);
    ok = ok ? (w->all ? describe_topic_partitions_all(rq) : describe_topic_partitions_asked(rq)) && describe_topic_partitions_page(rq) : describe_topic_partitions_refuse(rq);
    if (!ok) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    rq_reply(rq, &w->resp);
}

static int32_t describe_topic_partitions_limit(const struct rq *rq, const struct k_describe_topic_partitions_req *q) {
    int32_t most = rq->sh->node->conf.describe_parts_max;
    most = q->response_partition_limit < most ? q->response_partition_limit : most;
    return most > 1 ? most : 1;
}

/* Charged before it is built, as Metadata. */
void describe_topic_partitions_run(struct rq *rq) {
    struct describe_topic_partitions_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    if (w == NULL) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    k_describe_topic_partitions_resp_init(&w->resp);
    w->q = rq->body;
    w->all = w->q->topics_n <= 0;
    w->from = w->q->cursor == NULL ? SPAN_LIT("") : w->q->cursor->topic_name;
    w->left = describe_topic_partitions_limit(rq, w->q);
    const struct meta *m = rq->sh->meta;
    size_t parts = (size_t)w->left < (size_t)m->partitions_n ? (size_t)w->left : (size_t)m->partitions_n;
    size_t topics = !w->all ? (size_t)w->q->topics_n : parts + 1;
    size_t bytes = parts * DESCRIBE_TOPIC_PARTITIONS_PART_BYTES + topics * DESCRIBE_TOPIC_PARTITIONS_TOPIC_BYTES;
    rq->arena.ceiling += 2 * bytes;
    rq_charge(rq, bytes, describe_topic_partitions_charged);
}
