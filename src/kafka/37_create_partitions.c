/* CreatePartitions v0-3: topics get more partitions (S4.16).
 *
 * Behaviour: per topic its own verdict; the rules are state/meta_grow's. The answer leaves when every shard knows the new partitions, so that clients use them at once; those that were there keep
 * data, leaders and epochs. validate_only checks and changes nothing. Without ALTER there is no hint whether the topic exists.
 * Versions: v2 flexible; v3 differs only by the quota error, and quotas are not served yet.
 * Runs on: home shard; decided on shard 0. */
#include "api.h"
#include "broker/topics.h"
#include "seen.h"
#include "wire/k_create_partitions.h"

struct create_partitions_one {
    struct topics_change change;
    struct rq *rq;
    struct k_create_partitions_resp_result *to;
};

struct create_partitions_work {
    struct k_create_partitions_resp resp;
    uint32_t *first, *times;           /* per entry: the first one of its name; how often the request names it, told of the first */
    size_t left;
};

#define CREATE_PARTITIONS_MAX 10000    /* topics in one request */

static void create_partitions_verdict(struct k_create_partitions_resp_result *to, err e, const char *why) {
    to->error_code = errmap_code(e);
    if (e != ERR_OK) {
        to->error_message = span_str(why[0] == '\0' ? err_text(e) : why);
    }
}

static void create_partitions_done(struct ask *ask) {
    struct create_partitions_one *one = list_entry(list_entry(ask, struct topics_change, ask), struct create_partitions_one, change);
    struct create_partitions_work *w = one->rq->work;
    create_partitions_verdict(one->to, ask->err, one->change.why);
    if (--w->left == 0) {
        rq_reply(one->rq, &w->resp);
    }
}

static bool create_partitions_input(struct rq *rq, const struct k_create_partitions_req_topic *from, struct meta_grow *in) {
    size_t n = from->assignments_n > 0 ? (size_t)from->assignments_n : 0;
    span *brokers = rq_array(rq, n, sizeof(*brokers));
    if (brokers == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        size_t bn = from->assignments[i].brokers_n > 0 ? (size_t)from->assignments[i].brokers_n : 0;
        brokers[i] = span_of(from->assignments[i].brokers, bn * sizeof(int32_t));
    }
    *in = (struct meta_grow){
        .count = from->count,
        .has_manual = from->assignments_n >= 0,
        .assignments_n = (int32_t)n,
        .assignment_brokers = brokers,
    };
    return true;
}

static err create_partitions_send(struct rq *rq, const struct k_create_partitions_req_topic *from, const struct meta_topic *t, struct k_create_partitions_resp_result *to) {
    const struct k_create_partitions_req *q = rq->body;
    struct create_partitions_work *w = rq->work;
    struct create_partitions_one *one = rq_array(rq, 1, sizeof(*one));
    if (one == NULL) {
        return ERR_NOMEM;
    }
    topics_init(&one->change, TOPICS_GROW, create_partitions_done);
    if (!create_partitions_input(rq, from, &one->change.grow)) {
        return ERR_NOMEM;
    }
    one->rq = rq;
    one->to = to;
    one->change.topic_id = t->id;
    one->change.validate_only = q->validate_only;
    w->left++;
    topics_send(rq->sh, &one->change);
    return ERR_OK;
}

static err create_partitions_judge(const struct rq *rq, size_t i, const struct meta_topic **ret_t, const char **why) {
    const struct k_create_partitions_req *q = rq->body;
    const struct create_partitions_work *w = rq->work;
    if (!rq_allow(rq, ALLOW_ALTER, ALLOW_TOPIC, q->topics[i].name)) {
        return ERR_DENIED;
    }
    if (w->times[i] > 1) {
        *why = "the request names this topic more than once";
        return ERR_BAD_REQUEST;
    }
    if (q->topics_n > CREATE_PARTITIONS_MAX) {
        *why = "more than 10000 topics in one request";
        return ERR_LIMIT;
    }
    err e = ERR_OK;
    *ret_t = api_topic(rq, q->topics[i].name, (uuid){{0}}, false, &e);
    return e;
}

/* One entry per name in the answer. */
static void create_partitions_entry(struct rq *rq, size_t i) {
    const struct k_create_partitions_req *q = rq->body;
    struct create_partitions_work *w = rq->work;
    struct k_create_partitions_resp_result *to = &w->resp.results[w->resp.results_n++];
    const struct meta_topic *t = NULL;
    const char *why = "";
    k_create_partitions_resp_result_init(to);
    to->name = q->topics[i].name;
    err e = create_partitions_judge(rq, i, &t, &why);
    e = e == ERR_OK ? create_partitions_send(rq, &q->topics[i], t, to) : e;
    if (e != ERR_OK) {
        create_partitions_verdict(to, e, why);
    }
}

static bool create_partitions_same(const void *u, uint32_t a, uint32_t b) {
    const struct k_create_partitions_req *q = u;
    return span_eq(q->topics[a].name, q->topics[b].name);
}

static bool create_partitions_count(struct rq *rq, size_t n) {
    const struct k_create_partitions_req *q = rq->body;
    struct create_partitions_work *w = rq->work;
    struct seen seen;
    w->first = rq_array(rq, n, sizeof(*w->first));
    w->times = rq_array(rq, n, sizeof(*w->times));
    if (w->first == NULL || w->times == NULL || !seen_init(&seen, rq, n)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        w->first[i] = seen_add(&seen, seen_hash(&seen, q->topics[i].name), i, create_partitions_same, q);
        w->times[w->first[i]]++;
    }
    return true;
}

void create_partitions_run(struct rq *rq) {
    const struct k_create_partitions_req *q = rq->body;
    size_t n = q->topics_n > 0 ? (size_t)q->topics_n : 0;
    struct create_partitions_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    struct k_create_partitions_resp_result *results = rq_array(rq, n, sizeof(*results));
    if (w == NULL || results == NULL || !create_partitions_count(rq, n)) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    rq->arena.ceiling += (n < CREATE_PARTITIONS_MAX ? n : CREATE_PARTITIONS_MAX) * (sizeof(struct create_partitions_one) + 64);
    k_create_partitions_resp_init(&w->resp);
    w->resp.results = results;
    w->left = 1;
    for (size_t i = 0; i < n; i++) {
        if (w->first[i] == i) {
            create_partitions_entry(rq, i);
        }
    }
    if (--w->left == 0) {
        rq_reply(rq, &w->resp);
    }
}
