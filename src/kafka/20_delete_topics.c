/* DeleteTopics v0-6.
 *
 * Behaviour: per topic its own verdict; gone means gone on every shard when the answer leaves; the files follow off the turn. A name created again gets a new id (S4.10, BR-042).
 * Versions: v1+ throttle time; v3+ 73 when deletion is disabled, 42 below (S4.14); v4 flexible; v5+ a message; v6+ by name or id, exactly one of them: 42 (S4.13).
 * Runs on: home shard; decided on shard 0. */
#include "api.h"
#include "broker/topics.h"
#include "seen.h"
#include "wire/k_delete_topics.h"

struct delete_topics_one {
    struct topics_change change;
    struct rq *rq;
    struct k_delete_topics_resp_topic *to;
};

/* An entry as it was understood, before anything is sent. */
struct delete_topics_entry {
    span name;
    uuid id;
    const struct meta_topic *topic;    /* NULL: e says why */
    const char *why;
    err e;
    bool twice;                        /* another entry means the same */
};

struct delete_topics_work {
    struct k_delete_topics_resp resp;
    struct delete_topics_entry *entries;
    size_t left;
};

#define DELETE_TOPICS_MAX 10000        /* in one request */

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
static err delete_topics_find(const struct rq *rq, struct delete_topics_entry *en) {
    bool by_id = rq->version >= 6 && !uuid_is_zero(en->id);
    if (by_id != span_is_null(en->name)) {
        en->why = "name or id, exactly one of them";
        return ERR_BAD_REQUEST;
    }
    if (!by_id && !rq_allow(rq, ALLOW_DESCRIBE, ALLOW_TOPIC, en->name)) {
        return ERR_DENIED;
    }
    err e = ERR_OK;
    struct meta_topic *t = api_topic(rq, en->name, en->id, by_id, &e);
    if (t == NULL) {
        return e;
    }
    if (!rq_allow(rq, ALLOW_DELETE, ALLOW_TOPIC, span_str(t->name))) {
        return ERR_DENIED;
    }
    if (delete_topics_is_off(rq)) {
        en->why = "topic deletion is disabled (delete.topic.enable)";
        return rq->version >= 3 ? ERR_TOPIC_DELETION_OFF : ERR_BAD_REQUEST;
    }
    en->topic = t;
    return ERR_OK;
}

static size_t delete_topics_count(const struct rq *rq) {
    const struct k_delete_topics_req *q = rq->body;
    int32_t n = rq->version >= 6 ? q->topics_n : q->topic_names_n;
    return n > 0 ? (size_t)n : 0;
}

/* What an entry means: a topic by its id, however it was named, else the name or id that is not known. */
static span delete_topics_key(const struct delete_topics_entry *en) {
    if (en->topic != NULL) {
        return span_of(en->topic->id.b, sizeof(en->topic->id.b));
    }
    return span_is_null(en->name) ? span_of(en->id.b, sizeof(en->id.b)) : en->name;
}

static bool delete_topics_same(const void *u, uint32_t a, uint32_t b) {
    const struct delete_topics_entry *entries = u;
    return span_eq(delete_topics_key(&entries[a]), delete_topics_key(&entries[b]));
}

static bool delete_topics_look(struct rq *rq, size_t n) {
    const struct k_delete_topics_req *q = rq->body;
    struct delete_topics_work *w = rq->work;
    struct seen seen;
    w->entries = rq_array(rq, n, sizeof(*w->entries));
    if (w->entries == NULL || !seen_init(&seen, rq, n)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        struct delete_topics_entry *en = &w->entries[i];
        en->name = rq->version >= 6 ? q->topics[i].name : q->topic_names[i];
        en->id = rq->version >= 6 ? q->topics[i].topic_id : (uuid){{0}};
        en->e = delete_topics_find(rq, en);
        uint32_t first = seen_add(&seen, seen_hash(&seen, delete_topics_key(en)), i, delete_topics_same, w->entries);
        en->twice = w->entries[first].twice = first != i || en->twice || w->entries[first].twice;
    }
    return true;
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

static void delete_topics_answer(struct rq *rq, const struct delete_topics_entry *en) {
    struct delete_topics_work *w = rq->work;
    struct k_delete_topics_resp_topic *to = &w->resp.topics[w->resp.topics_n++];
    k_delete_topics_resp_topic_init(to);
    to->name = en->name;
    to->topic_id = en->id;
    if (en->e != ERR_BAD_REQUEST && en->e != ERR_DENIED && en->twice) {
        delete_topics_verdict(to, ERR_BAD_REQUEST, "the request names this topic more than once");
        return;
    }
    if (en->e != ERR_OK) {
        delete_topics_verdict(to, en->e, en->why);
        return;
    }
    if (delete_topics_count(rq) > DELETE_TOPICS_MAX) {
        delete_topics_verdict(to, ERR_LIMIT, "more than 10000 topics in one request");
        return;
    }
    to->name = arena_copy(&rq->arena, span_str(en->topic->name));
    to->topic_id = en->topic->id;
    if (span_is_null(to->name) || !delete_topics_send(rq, en->topic, to)) {
        delete_topics_verdict(to, ERR_NOMEM, NULL);
    }
}

void delete_topics_run(struct rq *rq) {
    size_t n = delete_topics_count(rq);
    struct delete_topics_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    struct k_delete_topics_resp_topic *topics = rq_array(rq, n, sizeof(*topics));
    if (w == NULL || topics == NULL || !delete_topics_look(rq, n)) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    rq->arena.ceiling += (n < DELETE_TOPICS_MAX ? n : DELETE_TOPICS_MAX) * (sizeof(struct delete_topics_one) + 512);
    k_delete_topics_resp_init(&w->resp);
    w->resp.topics = topics;
    w->left = 1;
    for (size_t i = 0; i < n; i++) {
        delete_topics_answer(rq, &w->entries[i]);
    }
    if (--w->left == 0) {
        rq_reply(rq, &w->resp);
    }
}
