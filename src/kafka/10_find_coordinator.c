/* FindCoordinator v0-6: who coordinates a group, a transactional id or a share partition.
 *
 * Behaviour: one node, so it is this one, for any key (BR-002: clients ask before they fetch). Which calls the coordinator then serves, the advertised list says.
 * Versions: v1+ key type; v3 flexible; v4+ several keys, each with its own code; v6+ share keys (type 2), which need CLUSTER_ACTION (S9.2).
 * Runs on: home shard. */
#include "api.h"
#include "wire/k_find_coordinator.h"

enum { FIND_GROUP = 0, FIND_TXN = 1, FIND_SHARE = 2 };

/* S14.9: the code follows the resource. */
static int16_t find_coordinator_judge(const struct rq *rq, int8_t type, span key) {
    if (type == FIND_GROUP) {
        return rq_allow(rq, ALLOW_DESCRIBE, ALLOW_GROUP, key) ? 0 : 30;
    }
    if (type == FIND_TXN) {
        return rq_allow(rq, ALLOW_DESCRIBE, ALLOW_TXN_ID, key) ? 0 : 53;
    }
    if (type == FIND_SHARE && rq->version >= 6) {
        return rq_allow(rq, ALLOW_CLUSTER_ACTION, ALLOW_CLUSTER, SPAN_LIT("kafka-cluster")) ? 0 : 31;
    }
    return errmap_code(ERR_BAD_REQUEST);
}

static span find_coordinator_words(int16_t code) {
    if (code == 30 || code == 31 || code == 53) {
        return SPAN_LIT("not allowed to look up this coordinator: an administrator can grant it by an ACL");
    }
    return SPAN_LIT("no such kind of key: 0 is a group, 1 a transactional id, 2 (from version 6 on) a share partition");
}

static void find_coordinator_one(const struct rq *rq, int8_t type, span key, struct k_find_coordinator_resp_coordinator *to) {
    struct api_self self = api_self(rq);
    k_find_coordinator_resp_coordinator_init(to);
    to->key = key;
    to->error_code = find_coordinator_judge(rq, type, key);
    if (to->error_code != 0) {
        to->error_message = find_coordinator_words(to->error_code);
        to->node_id = -1;
        to->port = -1;
        to->host = SPAN_LIT("");
        return;
    }
    to->node_id = self.node_id;
    to->host = self.host;
    to->port = self.port;
}

static void find_coordinator_old(const struct rq *rq, const struct k_find_coordinator_req *q, struct k_find_coordinator_resp *r) {
    struct k_find_coordinator_resp_coordinator one;
    find_coordinator_one(rq, rq->version == 0 ? FIND_GROUP : q->key_type, q->key, &one);
    r->error_code = one.error_code;
    r->error_message = one.error_message;
    r->node_id = one.node_id;
    r->host = one.host;
    r->port = one.port;
}

void find_coordinator_run(struct rq *rq) {
    const struct k_find_coordinator_req *q = rq->body;
    struct k_find_coordinator_resp *r = rq_array(rq, 1, sizeof(*r));
    size_t n = rq->version >= 4 && q->keys_n > 0 ? (size_t)q->keys_n : 0;
    struct k_find_coordinator_resp_coordinator *all = rq_array(rq, n, sizeof(*all));
    if (r == NULL || all == NULL) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    k_find_coordinator_resp_init(r);
    if (rq->version < 4) {
        find_coordinator_old(rq, q, r);
    }
    for (size_t i = 0; i < n; i++) {
        find_coordinator_one(rq, q->key_type, q->keys[i], &all[i]);
    }
    r->coordinators = all;
    r->coordinators_n = (int32_t)n;
    rq_reply(rq, r);
}
