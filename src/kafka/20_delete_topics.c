/* DeleteTopics v0-6.
 *
 * Behaviour: per topic its own verdict; gone means gone on every shard when the answer leaves; the files follow off the turn. A name created again gets a new id (S4.10, BR-042).
 * Versions: v1+ throttle time; v3+ 73 when deletion is disabled, 42 below (S4.14); v4 flexible; v5+ a message; v6+ by name or id, exactly one of them: 42 (S4.13).
 * Runs on: home shard; decided on shard 0. */
#include "api.h"
#include "broker/topics.h"
#include "wire/k_delete_topics.h"

struct delete_topics_one {
    struct topics_change change;
    struct rq *rq;
    struct k_delete_topics_resp_topic *to;
};

struct delete_topics_work {
    struct k_delete_topics_resp resp;
    size_t left;
};

static void delete_topics_verdict(struct k_delete_topics_resp_topic *to, err e, const char *why) {
    to->error_code = errmap_code(e);
    if (e != ERR_OK) {
        to->error_message = span_str(why == NULL ? err_text(e) : why);
    }
}

static void delete_topics_done(struct ask *ask) {
    struct delete_topics_one *one = list_entry(list_entry(ask, struct topics_change, ask), struct delete_topics_one, change);
    struct delete_topics_work *w = one->rq->work;
    delete_topics_verdict(one->to, ask->err, NULL);
    if (--w->left == 0) {
        rq_reply(one->rq, &w->resp);
    }
}

static bool delete_topics_is_off(const struct rq *rq) { return !rq->sh->node->conf.delete_topics; }

/* Which topic an entry means. S4.13: without DESCRIBE there is no hint whether it exists. */
static err delete_topics_find(const struct rq *rq, span name, uuid id, struct meta_topic **ret_t, const char **why) {
    bool by_id = rq->version >= 6 && !uuid_is_zero(id);
    if (by_id != span_is_null(name)) {
        *why = "name or id, exactly one of them";
        return ERR_BAD_REQUEST;
    }
    if (!by_id && !rq_allow(rq, ALLOW_DESCRIBE, ALLOW_TOPIC, name)) {
        return ERR_DENIED;
    }
    err e = ERR_OK;
    struct meta_topic *t = api_topic(rq, name, id, by_id, &e);
    if (t == NULL) {
        return e;
    }
    if (!rq_allow(rq, ALLOW_DELETE, ALLOW_TOPIC, span_str(t->name))) {
        return ERR_DENIED;
    }
    if (delete_topics_is_off(rq)) {
        *why = "topic deletion is disabled (delete.topic.enable)";
        return rq->version >= 3 ? ERR_TOPIC_DELETION_OFF : ERR_BAD_REQUEST;
    }
    *ret_t = t;
    return ERR_OK;
}

static size_t delete_topics_count(const struct rq *rq) {
    const struct k_delete_topics_req *q = rq->body;
    int32_t n = rq->version >= 6 ? q->topics_n : q->topic_names_n;
    return n > 0 ? (size_t)n : 0;
}

static void delete_topics_entry(const struct rq *rq, size_t i, span *ret_name, uuid *ret_id) {
    const struct k_delete_topics_req *q = rq->body;
    *ret_name = rq->version >= 6 ? q->topics[i].name : q->topic_names[i];
    *ret_id = rq->version >= 6 ? q->topics[i].topic_id : (uuid){{0}};
}

static bool delete_topics_twice(const struct rq *rq, size_t at, const struct meta_topic *t) {
    for (size_t i = 0; i < delete_topics_count(rq); i++) {
        span name;
        uuid id;
        delete_topics_entry(rq, i, &name, &id);
        if (i != at && (span_eq(name, span_str(t->name)) || uuid_eq(id, t->id))) {
            return true;
        }
    }
    return false;
}

static bool delete_topics_send(struct rq *rq, const struct meta_topic *t, struct k_delete_topics_resp_topic *to) {
    struct delete_topics_work *w = rq->work;
    struct delete_topics_one *one = rq_array(rq, 1, sizeof(*one));
    if (one == NULL) {
        return false;
    }
    topics_init(&one->change, TOPICS_DELETE, delete_topics_done);
    one->rq = rq;
    one->to = to;
    one->change.topic_id = t->id;
    w->left++;
    topics_send(rq->sh, &one->change);
    return true;
}

static bool delete_topics_one_run(struct rq *rq, size_t i) {
    struct delete_topics_work *w = rq->work;
    struct k_delete_topics_resp_topic *to = &w->resp.topics[w->resp.topics_n++];
    const char *why = NULL;
    struct meta_topic *t = NULL;
    span name;
    uuid id;
    delete_topics_entry(rq, i, &name, &id);
    k_delete_topics_resp_topic_init(to);
    to->name = name;
    to->topic_id = id;
    err e = delete_topics_find(rq, name, id, &t, &why);
    if (e == ERR_OK && delete_topics_twice(rq, i, t)) {
        e = ERR_BAD_REQUEST;
        why = "the request names this topic more than once";
    }
    if (e != ERR_OK) {
        delete_topics_verdict(to, e, why);
        return true;
    }
    to->name = arena_copy(&rq->arena, span_str(t->name));
    to->topic_id = t->id;
    return delete_topics_send(rq, t, to);
}

#define DELETE_TOPICS_MAX 10000        /* in one request */

void delete_topics_run(struct rq *rq) {
    size_t n = delete_topics_count(rq);
    rq->arena.ceiling += n * (sizeof(struct delete_topics_one) + 512);
    struct delete_topics_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    struct k_delete_topics_resp_topic *topics = rq_array(rq, n, sizeof(*topics));
    if (w == NULL || topics == NULL || n > DELETE_TOPICS_MAX) {
        rq_fail(rq, n > DELETE_TOPICS_MAX ? ERR_LIMIT : ERR_NOMEM);
        return;
    }
    k_delete_topics_resp_init(&w->resp);
    w->resp.topics = topics;
    w->left = 1;
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++) {
        ok = delete_topics_one_run(rq, i);
    }
    if (!ok) {
        conn_close(rq->cn, CONN_AFTER_REPLIES);
    }
    if (--w->left == 0) {
        rq_reply(rq, &w->resp);
    }
}
