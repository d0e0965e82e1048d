/* `perigee topic create`: one CreateTopics for all names.
 * Happy path: a row per topic made. Failure modes: a line per topic refused, the others stand; the first refusal decides the exit code.
 * Runs on: the main thread of a command. */
#include <string.h>

#include "kerror.h"
#include "topic.h"
#include "topic_ask.h"
#include "wire/k_create_topics.h"

#define TOPIC_CREATE_EXISTS 36

struct topic_create_wish {
    struct k_create_topics_req req;
    struct k_create_topics_req_topic topics[CLI_WORDS_MAX];
    struct k_create_topics_req_topic_config configs[CLI_VALUES_MAX];
    int32_t configs_n;
};

static bool configs_of(const struct cli_args *a, struct topic_create_wish *w) {
    const char *text;
    for (size_t i = 0; (text = cli_each(a, "config", i)) != NULL; i++) {
        const char *equals = strchr(text, '=');
        if (equals == NULL || equals == text) {
            (void)cli_fail(a, CLI_USAGE, "--config is KEY=VALUE, not '%s'", text);
            return false;
        }
        struct k_create_topics_req_topic_config *c = &w->configs[w->configs_n++];
        k_create_topics_req_topic_config_init(c);
        c->name = span_of(text, (size_t)(equals - text));
        c->value = span_str(equals + 1);
    }
    return true;
}

static bool wish_of(const struct cli_args *a, struct topic_create_wish *w) {
    int64_t partitions, replication;
    w->configs_n = 0;
    if (!topic_ask_number(a, "partitions", INT32_MAX, &partitions) || !topic_ask_number(a, "replication-factor", INT16_MAX, &replication) || !configs_of(a, w)) {
        return false;
    }
    k_create_topics_req_init(&w->req);
    for (size_t i = 0; i < a->words_n; i++) {
        struct k_create_topics_req_topic *t = &w->topics[i];
        k_create_topics_req_topic_init(t);
        t->name = span_str(a->words[i]);
        t->partitions = (int32_t)partitions;
        t->replication_factor = (int16_t)replication;
        t->configs = w->configs;
        t->configs_n = w->configs_n;
    }
    w->req.topics = w->topics;
    w->req.topics_n = (int32_t)a->words_n;
    w->req.timeout_ms = 10000;
    return true;
}

static int print(struct topic_ask *t, const struct k_create_topics_resp *resp) {
    static const struct out_column columns[] = {{"name", false}, {"id", false}, {"partitions", true}};
    struct out o;
    int code = CLI_OK;
    out_begin(&o, t->a, t->form, columns, 3);
    for (int32_t i = 0; i < resp->topics_n; i++) {
        const struct k_create_topics_resp_topic *r = &resp->topics[i];
        if (r->error_code == TOPIC_CREATE_EXISTS && cli_flag(t->a, "if-not-exists")) {
            continue;
        }
        if (r->error_code != 0) {
            code = topic_ask_first(code, topic_ask_refused(t, r->name, r->error_code, r->error_message));
            continue;
        }
        char id[UUID_TEXT_CAP];
        uuid_text(r->topic_id, id);
        out_span(&o, r->name);
        out_cell(&o, uuid_is_zero(r->topic_id) ? NULL : id);
        r->partitions < 0 ? out_cell(&o, NULL) : out_number(&o, r->partitions);
    }
    return topic_ask_first(code, out_end(&o, t->a));
}

int topic_create(const struct cli_args *a) {
    struct topic_create_wish w;
    struct topic_ask t;
    if (!wish_of(a, &w)) {
        return CLI_USAGE;
    }
    int code = topic_ask_open(&t, a);
    if (code != CLI_OK) {
        return code;
    }
    struct kconn_reply r;
    struct k_create_topics_resp resp;
    kconn_reply_init(&r);
    code = topic_ask_call(&t, K_CREATE_TOPICS_KEY, &w.req, &resp, &r);
    code = code == CLI_OK ? print(&t, &resp) : code;
    kconn_reply_done(&r);
    topic_ask_close(&t);
    return code;
}
