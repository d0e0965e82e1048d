/* IncrementalAlterConfigs v0-1: settings of topics, brokers, groups and metrics subscriptions, one by one.
 *
 * Behaviour: SET, DELETE (back to the default; the value does not matter), APPEND and SUBTRACT on lists, without duplicates; what is not named stays (S16.6). Per resource all or nothing, and
 * a verdict of its own (S16.8). In effect on every shard when the answer leaves (S16.9). validate_only changes nothing. The rules are state/meta_conf's.
 * Versions: v1 flexible.
 * Runs on: home shard; decided on shard 0. */
#include "alter.h"
#include "api.h"
#include "wire/k_incremental_alter_configs.h"

struct incremental_alter_configs_work {
    struct alter alter;
    struct k_incremental_alter_configs_resp resp;
};

static void incremental_alter_configs_done(struct alter *al) {
    struct incremental_alter_configs_work *w = list_entry(al, struct incremental_alter_configs_work, alter);
    for (size_t i = 0; i < al->n; i++) {
        struct k_incremental_alter_configs_resp_resource *to = &w->resp.responses[i];
        k_incremental_alter_configs_resp_resource_init(to);
        to->error_code = al->wishes[i].code;
        to->error_message = al->wishes[i].message;
        to->type = al->wishes[i].res.type;
        to->name = al->wishes[i].res.name;
    }
    w->resp.responses_n = (int32_t)al->n;
    rq_reply(al->rq, &w->resp);
}

static bool incremental_alter_configs_wish(struct alter *al, size_t at, const struct k_incremental_alter_configs_req_resource *from) {
    struct alter_wish *w = &al->wishes[at];
    w->res = (struct resource){.type = from->type, .name = from->name};
    w->changes_n = from->configs_n > 0 ? (size_t)from->configs_n : 0;
    w->changes = rq_array(al->rq, w->changes_n, sizeof(*w->changes));
    for (size_t i = 0; w->changes != NULL && i < w->changes_n; i++) {
        w->changes[i] = (struct meta_conf_change){.name = from->configs[i].name, .value = from->configs[i].value, .op = from->configs[i].op};
    }
    return w->changes != NULL;
}

void incremental_alter_configs_run(struct rq *rq) {
    const struct k_incremental_alter_configs_req *q = rq->body;
    size_t n = q->resources_n > 0 ? (size_t)q->resources_n : 0;
    struct incremental_alter_configs_work *w = rq->work = rq_array(rq, 1, sizeof(*w));
    bool ok = w != NULL && alter_init(&w->alter, rq, n);
    if (ok) {
        k_incremental_alter_configs_resp_init(&w->resp);
        w->alter.done = incremental_alter_configs_done;
        w->alter.validate_only = q->validate_only;
        w->resp.responses = rq_array(rq, n, sizeof(*w->resp.responses));
        ok = w->resp.responses != NULL;
    }
    for (size_t i = 0; ok && i < n; i++) {
        ok = incremental_alter_configs_wish(&w->alter, i, &q->resources[i]);
    }
    if (!ok || !alter_run(&w->alter)) {
        rq_fail(rq, ERR_NOMEM);
    }
}
