/* `perigee topic alter`: settings first, then one CreatePartitions for all names.
 * Happy path: a row per topic that was changed. A topic whose settings are refused keeps the others from growing, too: one command, one wish. Failure modes: a line per topic refused, the others stand; the first refusal decides the exit code.
 * Runs on: the main thread of a command. */
#include "kerror.h"
#include "topic.h"
#include "topic_ask.h"
#include "topic_settings.h"
#include "wire/k_create_partitions.h"

struct topic_alter_growth {
    struct k_create_partitions_req req;
    struct k_create_partitions_req_topic topics[CLI_WORDS_MAX];
};

static bool growth_of(const struct cli_args *a, struct topic_alter_growth *g) {
    int64_t partitions;
    if (!topic_ask_number(a, "partitions", INT32_MAX, &partitions)) {
        return false;
    }
    k_create_partitions_req_init(&g->req);
    for (size_t i = 0; i < a->words_n; i++) {
        k_create_partitions_req_topic_init(&g->topics[i]);
        g->topics[i].name = span_str(a->words[i]);
        g->topics[i].count = (int32_t)partitions;
        g->topics[i].assignments_n = -1;           /* the broker's choice */
    }
    g->req.topics = g->topics;
    g->req.topics_n = (int32_t)a->words_n;
    g->req.timeout_ms = 10000;
    return true;
}

static int print(struct topic_ask *t, const struct topic_alter_growth *g, const struct k_create_partitions_resp *resp) {
    static const struct out_column columns[] = {{"name", false}, {"partitions", true}};
    struct out o;
    int code = CLI_OK;
    out_begin(&o, t->a, t->form, columns, 2);
    for (int32_t i = 0; i < resp->results_n; i++) {
        const struct k_create_partitions_resp_result *r = &resp->results[i];
        if (r->error_code != 0) {
            code = topic_ask_first(code, topic_ask_refused(t, r->name, r->error_code, r->error_message));
            continue;
        }
        out_span(&o, r->name);
        out_number(&o, g->topics[0].count);
    }
    return topic_ask_first(code, out_end(&o, t->a));
}

static int grow(struct topic_ask *t, const struct topic_alter_growth *g) {
    struct kconn_reply r;
    struct k_create_partitions_resp resp;
    kconn_reply_init(&r);
    int code = topic_ask_call(t, K_CREATE_PARTITIONS_KEY, &g->req, &resp, &r);
    code = code == CLI_OK ? print(t, g, &resp) : code;
    kconn_reply_done(&r);
    return code;
}

int topic_alter(const struct cli_args *a) {
    struct topic_alter_growth g;
    struct topic_ask t;
    bool settings, growth = cli_text(a, "partitions") != NULL;
    if (!topic_settings_wanted(a, &settings) || (growth && !growth_of(a, &g))) {
        return CLI_USAGE;
    }
    if (!settings && !growth) {
        return cli_fail(a, CLI_USAGE, "nothing to alter: give --set KEY=VALUE, --unset KEY or --partitions N");
    }
    int code = topic_ask_open(&t, a);
    if (code != CLI_OK) {
        return code;
    }
    code = settings ? topic_settings_alter(&t, !growth) : CLI_OK;
    code = code == CLI_OK && growth ? grow(&t, &g) : code;
    topic_ask_close(&t);
    return code;
}
