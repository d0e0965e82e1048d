/* InitProducerId v0-5: a producer id for idempotent producing.
 *
 * Behaviour: without a transactional id always a fresh id with epoch 0, unique for ever (S6.10, BR-026). With one: 35, until transactions are served; then the producer knows at once.
 * Versions: v2 flexible; v3+ may name the id and epoch it had: both or neither, else 42 (S6.11), and still gets a fresh one; v4+ PRODUCER_FENCED (transactions only).
 * Runs on: home shard; the id's block comes from shard 0. */
#include "api.h"
#include "broker/pids.h"
#include "wire/k_init_producer_id.h"

struct init_producer_id_work {
    struct pids_ask pid;
    struct k_init_producer_id_resp resp;
};

static void init_producer_id_have(struct pids_ask *a) {
    struct rq *rq = a->u;
    struct init_producer_id_work *w = list_entry(a, struct init_producer_id_work, pid);
    w->resp.error_code = errmap_code(a->err);
    if (a->err == ERR_OK) {
        w->resp.producer_id = a->id;
        w->resp.producer_epoch = 0;
    }
    rq_reply(rq, &w->resp);
}

static int16_t init_producer_id_judge(const struct rq *rq) {
    const struct k_init_producer_id_req *q = rq->body;
    if (!span_is_null(q->transactional_id) && q->transactional_id.n == 0) {
        return errmap_code(ERR_BAD_REQUEST);         /* S10.1 */
    }
    if (!span_is_null(q->transactional_id)) {
        return rq_allow(rq, ALLOW_WRITE, ALLOW_TXN_ID, q->transactional_id) ? errmap_code(ERR_BAD_VERSION) : 53;
    }
    if (rq->version >= 3 && (q->producer_id == -1) != (q->producer_epoch == -1)) {
        return errmap_code(ERR_BAD_REQUEST);
    }
    return rq_allow(rq, ALLOW_IDEMPOTENT_WRITE, ALLOW_CLUSTER, SPAN_LIT("kafka-cluster")) ? 0 : 31;
}

void init_producer_id_run(struct rq *rq) {
    struct init_producer_id_work *w = rq_array(rq, 1, sizeof(*w));
    if (w == NULL) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    k_init_producer_id_resp_init(&w->resp);
    w->resp.producer_epoch = -1;
    w->resp.error_code = init_producer_id_judge(rq);
    if (w->resp.error_code != 0) {
        rq_reply(rq, &w->resp);
        return;
    }
    w->pid.done = init_producer_id_have;
    w->pid.u = rq;
    pids_take(rq->sh, &w->pid);
}
