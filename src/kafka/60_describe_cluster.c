/* DescribeCluster v0-2: brokers, controller and id of the cluster, as Metadata tells them.
 *
 * Behaviour: this node is the one broker and the controller; its address is that of the listener the request came in on (S3.10). Operations only when asked for, 0 without DESCRIBE on the
 * cluster (S3.14); the rest needs no right. Another endpoint type than 1 (brokers) is refused: 114 for controllers, 115 for one that nobody knows (S3.16), with an empty answer.
 * Versions: all flexible; 1+ endpoint type; 2+ fenced brokers, of which there are none.
 * Runs on: home shard. */
#include "api.h"
#include "wire/k_describe_cluster.h"

#define DESCRIBE_CLUSTER_BROKERS 1
#define DESCRIBE_CLUSTER_CONTROLLERS 2

static void describe_cluster_refuse(struct k_describe_cluster_resp *r, int8_t type) {
    bool known = type == DESCRIBE_CLUSTER_CONTROLLERS;
    r->error_code = known ? 114 : 115;
    r->error_message = known ? SPAN_LIT("this is an endpoint of brokers, the request wants controllers (endpoint type 2): ask for brokers, type 1; they answer for the controller, too")
                             : SPAN_LIT("unknown endpoint type; brokers are 1");
}

static bool describe_cluster_fill(struct rq *rq, struct k_describe_cluster_resp *r) {
    const struct k_describe_cluster_req *q = rq->body;
    char *cluster = rq_array(rq, UUID_TEXT_CAP, 1);
    r->brokers = rq_array(rq, 1, sizeof(*r->brokers));
    if (cluster == NULL || r->brokers == NULL) {
        return false;
    }
    struct api_self self = api_self(rq);
    k_describe_cluster_resp_broker_init(r->brokers);
    r->brokers->broker_id = self.node_id;
    r->brokers->host = self.host;
    r->brokers->port = self.port;
    r->brokers_n = 1;
    r->controller_id = self.node_id;
    uuid_text(rq->sh->node->cluster_id, cluster);
    r->cluster_id = span_str(cluster);
    if (q->with_cluster_ops) {
        bool may = rq_allow(rq, ALLOW_DESCRIBE, ALLOW_CLUSTER, SPAN_LIT("kafka-cluster"));
        r->cluster_authorized_ops = may ? API_CLUSTER_OPS : 0;
    }
    return true;
}

void describe_cluster_run(struct rq *rq) {
    const struct k_describe_cluster_req *q = rq->body;
    struct k_describe_cluster_resp *r = rq_array(rq, 1, sizeof(*r));
    if (r == NULL) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    k_describe_cluster_resp_init(r);
    if (q->endpoint_type != DESCRIBE_CLUSTER_BROKERS) {
        describe_cluster_refuse(r, q->endpoint_type);
    } else if (!describe_cluster_fill(rq, r)) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    rq_reply(rq, r);
}
