/* Metadata v0-13: brokers, controller, topics.
 *
 * Behaviour: missing topics that the request names are created when broker and request allow it, and the answer shows them finished (S3.3, BR-044); never for a list of all (BR-043). Per topic
 * an error of its own: 17 for an illegal name, 3 unknown, 100 unknown id, 29 refused. The address is that of the listener the request came in on (S3.10, BR-040, BR-041). A topic that is
 * named twice is answered once, so that no answer is larger than one for all topics.
 * Versions: v0 empty array = all, v1+ null = all (S3.1); v4+ auto-creation flag; v8+ authorised operations; v9 flexible; v10+ topic ids; v10-11 may not ask by id: 42 (S3.5); v12+ by id; v13 top-level error.
 * Runs on: home shard; creations on shard 0. */
#include <string.h>

#include "api.h"
#include "broker/topics.h"
#include "seen.h"
#include "wire/k_metadata.h"

#define METADATA_PART_BYTES 112        /* charged per partition of the answer: struct and encoded bytes */
#define METADATA_TOPIC_BYTES 384

struct metadata_create {
    struct topics_change change;
    struct rq *rq;
    size_t i;                          /* index in asked[] */
};

struct metadata_asked {                /* a topic that the request means, the first time it names it */
    const struct k_metadata_req_topic *topic;
    err created;                       /* why creation failed, OK otherwise */
};

struct metadata_work {
    struct k_metadata_resp resp;
    const struct k_metadata_req *q;
    struct metadata_asked *asked;
    size_t asked_n;
    size_t left;
    bool all, by_id;
};

/* ---- the answer ---- */

static int32_t *metadata_self_list(struct rq *rq) {
    int32_t *ids = rq_array(rq, 1, sizeof(*ids));
    if (ids != NULL) {
        ids[0] = rq->sh->node->conf.node_id;
    }
    return ids;
}

static bool metadata_parts(struct rq *rq, const struct meta_topic *t, struct k_metadata_resp_topic *to) {
    int32_t *ids = metadata_self_list(rq);
    to->partitions = rq_array(rq, (size_t)t->parts_n, sizeof(*to->partitions));
    if (ids == NULL || to->partitions == NULL) {
        return false;
    }
    for (int32_t i = 0; i < t->parts_n; i++) {
        struct k_metadata_resp_topic_part *p = &to->partitions[i];
        k_metadata_resp_topic_part_init(p);
        p->index = i;
        p->leader_id = t->parts[i].leader;
        p->leader_epoch = t->parts[i].leader_epoch;
        p->replicas = p->isr = ids;
        p->replicas_n = p->isr_n = 1;
    }
    to->partitions_n = t->parts_n;
    return true;
}

static bool metadata_topic(struct rq *rq, const struct meta_topic *t, struct k_metadata_resp_topic *to) {
    struct metadata_work *w = rq->work;
    k_metadata_resp_topic_init(to);
    to->name = arena_copy(&rq->arena, span_str(t->name));
    to->topic_id = t->id;
    to->is_internal = t->internal;
    to->authorized_ops = w->q->with_topic_ops ? API_TOPIC_OPS : API_OPS_UNASKED;
    return !span_is_null(to->name) && metadata_parts(rq, t, to);
}

/* S3.7: what the caller may not describe looks the same whether it exists or not. */
static void metadata_no_topic(struct k_metadata_resp_topic *to, const struct k_metadata_req_topic *asked, bool by_id, err e) {
    k_metadata_resp_topic_init(to);
    to->error_code = errmap_code(e);
    to->name = by_id ? SPAN_NULL : asked->name;
    to->topic_id = by_id && e != ERR_DENIED ? asked->topic_id : (uuid){{0}};
}

static bool metadata_named(struct rq *rq, const struct metadata_asked *asked, struct k_metadata_resp_topic *to) {
    bool by_id = ((struct metadata_work *)rq->work)->by_id;
    const struct k_metadata_req_topic *q = asked->topic;
    err e = ERR_OK;
    if (!by_id && !rq_allow(rq, ALLOW_DESCRIBE, ALLOW_TOPIC, q->name)) {
        metadata_no_topic(to, q, by_id, ERR_DENIED);
        return true;
    }
    const struct meta_topic *t = api_topic(rq, q->name, q->topic_id, by_id, &e);
    if (t != NULL && by_id && !rq_allow(rq, ALLOW_DESCRIBE, ALLOW_TOPIC, span_str(t->name))) {
        t = NULL;
        e = ERR_NO_TOPIC_ID;
    }
    if (t != NULL) {
        return metadata_topic(rq, t, to);
    }
    if (!by_id && !meta_topic_name_ok(q->name)) {
        e = ERR_BAD_TOPIC;                         /* S3.4 */
    } else if (!by_id && asked->created != ERR_OK && asked->created != ERR_TOPIC_EXISTS) {
        e = asked->created == ERR_BAD_TOPIC ? ERR_BAD_TOPIC : ERR_NO_TOPIC;
    }
    metadata_no_topic(to, q, by_id, e);
    return true;
}

static bool metadata_all(struct rq *rq) {
    struct metadata_work *w = rq->work;
    struct meta_topic **list;
    size_t n;
    if (meta_topics_sorted(rq->sh->meta, &rq->arena, &list, &n) != ERR_OK) {
        return false;
    }
    w->resp.topics = rq_array(rq, n, sizeof(*w->resp.topics));
    if (w->resp.topics == NULL) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (rq_allow(rq, ALLOW_DESCRIBE, ALLOW_TOPIC, span_str(list[i]->name))) {
            if (!metadata_topic(rq, list[i], &w->resp.topics[w->resp.topics_n++])) {
                return false;
            }
        }
    }
    return true;
}

static bool metadata_each(struct rq *rq) {
    struct metadata_work *w = rq->work;
    w->resp.topics = rq_array(rq, w->asked_n, sizeof(*w->resp.topics));
    if (w->resp.topics == NULL) {
        return false;
    }
    for (size_t i = 0; i < w->asked_n; i++) {
        if (!metadata_named(rq, &w->asked[i], &w->resp.topics[w->resp.topics_n++])) {
            return false;
        }
    }
    return true;
}

static bool metadata_head(struct rq *rq) {
    struct metadata_work *w = rq->work;
    struct k_metadata_resp_broker *b = rq_array(rq, 1, sizeof(*b));
    char *cluster = rq_array(rq, UUID_TEXT_CAP, 1);
    if (b == NULL || cluster == NULL) {
        return false;
    }
    struct api_self self = api_self(rq);
    k_metadata_resp_broker_init(b);
    b->node_id = self.node_id;
    b->host = self.host;
    b->port = self.port;
    uuid_text(rq->sh->node->cluster_id, cluster);
    w->resp.brokers = b;
    w->resp.brokers_n = 1;
    w->resp.cluster_id = span_str(cluster);
    w->resp.controller_id = self.node_id;
    w->resp.cluster_authorized_ops = API_OPS_UNASKED;
    if (w->q->with_cluster_ops) {
        bool may = rq_allow(rq, ALLOW_DESCRIBE, ALLOW_CLUSTER, SPAN_LIT("kafka-cluster"));
        w->resp.cluster_authorized_ops = may ? API_CLUSTER_OPS : 0;       /* S3.14 */
    }
    return true;
}

static void metadata_answer(struct rq *rq) {
    struct metadata_work *w = rq->work;
    if (rq->abandoned) {
        rq_silent(rq);
        return;
    }
    bool ok = metadata_head(rq) && (w->all ? metadata_all(rq) : metadata_each(rq));
    if (!ok) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    rq_reply(rq, &w->resp);
}

/* An answer is charged before it is built: thousands of clients asking for everything wait instead of filling memory (BR-060). */
static void metadata_charge(struct rq *rq) {
    struct metadata_work *w = rq->work;
    const struct meta *m = rq->sh->meta;
    size_t bytes = 0;
    if (w->all) {
        bytes = m->topics_n * METADATA_TOPIC_BYTES + (size_t)m->partitions_n * METADATA_PART_BYTES;
    }
    for (size_t i = 0; i < w->asked_n; i++) {
        err e;
        const struct k_metadata_req_topic *q = w->asked[i].topic;
        const struct meta_topic *t = api_topic(rq, q->name, q->topic_id, w->by_id, &e);
        bytes += METADATA_TOPIC_BYTES + (t == NULL ? 0 : (size_t)t->parts_n * METADATA_PART_BYTES);
    }
    rq->arena.ceiling += bytes * 2;
    rq_charge(rq, bytes, metadata_answer);
}

/* ---- creation ---- */

static void metadata_created(struct ask *ask) {
    struct metadata_create *c = list_entry(list_entry(ask, struct topics_change, ask), struct metadata_create, change);
    struct metadata_work *w = c->rq->work;
    w->asked[c->i].created = ask->err;
    if (--w->left == 0) {
        metadata_charge(c->rq);
    }
}

static bool metadata_may_create(const struct rq *rq, const struct k_metadata_req_topic *asked) {
    return !span_is_null(asked->name) && uuid_is_zero(asked->topic_id) && meta_topic_name_ok(asked->name) &&
           meta_topic_by_name(rq->sh->meta, asked->name) == NULL && !span_eq_str(asked->name, "__cluster_metadata") &&
           (rq_allow(rq, ALLOW_CREATE, ALLOW_CLUSTER, SPAN_LIT("kafka-cluster")) || rq_allow(rq, ALLOW_CREATE, ALLOW_TOPIC, asked->name));
}

static bool metadata_create(struct rq *rq, size_t i) {
    struct metadata_work *w = rq->work;
    struct metadata_create *c = rq_array(rq, 1, sizeof(*c));
    if (c == NULL) {
        return false;
    }
    uint8_t random[16];
    rq->sh->port->secret(rq->sh->port, random, sizeof(random));
    topics_init(&c->change, TOPICS_CREATE, metadata_created);
    c->rq = rq;
    c->i = i;
    c->change.topic_id = uuid_from_random(random);
    c->change.create.name = w->asked[i].topic->name;
    c->change.create.partitions = -1;
    c->change.create.replication = -1;
    c->change.create.num_partitions_default = rq->sh->node->conf.num_partitions;
    w->left++;
    topics_send(rq->sh, &c->change);
    return true;
}

static bool metadata_auto_create(struct rq *rq) {
    struct metadata_work *w = rq->work;
    bool may = rq->sh->node->conf.auto_create_topics && (rq->version < 4 || w->q->allow_auto_create) && !w->by_id;
    for (size_t i = 0; may && i < w->asked_n; i++) {
        if (metadata_may_create(rq, w->asked[i].topic) && !metadata_create(rq, i)) {
            return false;
        }
    }
    return true;
}

/* ---- the request ---- */

static span metadata_key(const struct metadata_work *w, const struct k_metadata_req_topic *q) {
    return w->by_id ? span_of(q->topic_id.b, sizeof(q->topic_id.b)) : q->name;
}

static bool metadata_same(const void *u, uint32_t a, uint32_t b) {
    const struct metadata_work *w = u;
    return span_eq(metadata_key(w, w->asked[a].topic), metadata_key(w, w->asked[b].topic));
}

static bool metadata_distinct(struct rq *rq) {
    struct metadata_work *w = rq->work;
    size_t n = w->all ? 0 : (size_t)w->q->topics_n;
    struct seen seen;
    w->asked = rq_array(rq, n, sizeof(*w->asked));
    if (w->asked == NULL || !seen_init(&seen, rq, n)) {
        return false;
    }
    for (size_t i = 0; i < n && rq->version >= 12; i++) {
        w->by_id = w->by_id || !uuid_is_zero(w->q->topics[i].topic_id);
    }
    for (size_t i = 0; i < n; i++) {
        const struct k_metadata_req_topic *q = &w->q->topics[i];
        if (w->by_id && uuid_is_zero(q->topic_id)) {
            continue;                              /* S3.6: with any id, names are ignored */
        }
        w->asked[w->asked_n].topic = q;
        uint32_t at = (uint32_t)w->asked_n;
        w->asked_n += seen_add(&seen, seen_hash(&seen, metadata_key(w, q)), at, metadata_same, w) == at;
    }
    return true;
}

/* S3.5. */
static bool metadata_is_contradictory(const struct rq *rq, const struct k_metadata_req *q) {
    for (int32_t i = 0; i < q->topics_n; i++) {
        bool named = !span_is_null(q->topics[i].name), by_id = !uuid_is_zero(q->topics[i].topic_id);
        if ((rq->version < 12 && (by_id || !named)) || (!named && !by_id)) {
            return true;
        }
    }
    return false;
}

/* There is no top-level code below v13: each topic carries it. */
static void metadata_refuse(struct rq *rq, err e) {
    struct metadata_work *w = rq->work;
    w->resp.topics = rq_array(rq, (size_t)w->q->topics_n, sizeof(*w->resp.topics));
    if (w->resp.topics == NULL || !metadata_head(rq)) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    w->resp.error_code = errmap_code(e);
    for (int32_t i = 0; i < w->q->topics_n; i++) {
        metadata_no_topic(&w->resp.topics[w->resp.topics_n++], &w->q->topics[i], !uuid_is_zero(w->q->topics[i].topic_id), e);
        if (rq->version < 12 && span_is_null(w->resp.topics[i].name)) {
            w->resp.topics[i].name = SPAN_LIT("");
        }
    }
    rq_reply(rq, &w->resp);
}

void metadata_run(struct rq *rq) {
    struct metadata_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    if (w == NULL) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    k_metadata_resp_init(&w->resp);
    w->q = rq->body;
    w->all = w->q->topics_n < 0 || (rq->version == 0 && w->q->topics_n == 0);          /* S3.1 */
    if (!w->all && metadata_is_contradictory(rq, w->q)) {
        metadata_refuse(rq, ERR_BAD_REQUEST);
        return;
    }
    if (!metadata_distinct(rq)) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    w->left = 1;
    if (!metadata_auto_create(rq)) {
        conn_close(rq->cn, CONN_AFTER_REPLIES);
    }
    if (--w->left == 0) {
        metadata_charge(rq);
    }
}
