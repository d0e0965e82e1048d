/* See topic_settings.h. Happy path: one IncrementalAlterConfigs, or one DescribeConfigs, for all names. Failure modes: a line per topic refused, the others stand; the first refusal decides the
 * exit code. Runs on: the main thread of a command. */
#include "topic_settings.h"

#include <string.h>

#include "kerror.h"
#include "wire/k_describe_configs.h"
#include "wire/k_incremental_alter_configs.h"

#define TOPIC_SETTINGS_KIND 2          /* a topic */

enum { TOPIC_SETTINGS_SET, TOPIC_SETTINGS_DELETE };

bool topic_settings_wanted(const struct cli_args *a, bool *ret_any) {
    const char *text;
    *ret_any = cli_each(a, "set", 0) != NULL || cli_each(a, "unset", 0) != NULL;
    for (size_t i = 0; (text = cli_each(a, "set", i)) != NULL; i++) {
        if (strchr(text, '=') == NULL || text[0] == '=') {
            (void)cli_fail(a, CLI_USAGE, "--set is KEY=VALUE, not '%s'", text);
            return false;
        }
    }
    for (size_t i = 0; (text = cli_each(a, "unset", i)) != NULL; i++) {
        if (text[0] == '\0' || strchr(text, '=') != NULL) {
            (void)cli_fail(a, CLI_USAGE, "--unset is KEY, not '%s'", text);
            return false;
        }
    }
    return true;
}

struct topic_settings_wish {
    struct k_incremental_alter_configs_req req;
    struct k_incremental_alter_configs_req_resource resources[CLI_WORDS_MAX];
    struct k_incremental_alter_configs_req_resource_config configs[CLI_VALUES_MAX];
    int32_t configs_n;
};

static void add(struct topic_settings_wish *w, span name, int8_t op, span value) {
    struct k_incremental_alter_configs_req_resource_config *c = &w->configs[w->configs_n++];
    k_incremental_alter_configs_req_resource_config_init(c);
    c->name = name;
    c->op = op;
    c->value = value;
}

static void wish_of(const struct cli_args *a, struct topic_settings_wish *w) {
    const char *text;
    w->configs_n = 0;
    for (size_t i = 0; (text = cli_each(a, "set", i)) != NULL; i++) {
        const char *equals = strchr(text, '=');
        add(w, span_of(text, (size_t)(equals - text)), TOPIC_SETTINGS_SET, span_str(equals + 1));
    }
    for (size_t i = 0; (text = cli_each(a, "unset", i)) != NULL; i++) {
        add(w, span_str(text), TOPIC_SETTINGS_DELETE, SPAN_NULL);
    }
    k_incremental_alter_configs_req_init(&w->req);
    for (size_t i = 0; i < a->words_n; i++) {
        k_incremental_alter_configs_req_resource_init(&w->resources[i]);
        w->resources[i].type = TOPIC_SETTINGS_KIND;
        w->resources[i].name = span_str(a->words[i]);
        w->resources[i].configs = w->configs;
        w->resources[i].configs_n = w->configs_n;
    }
    w->req.resources = w->resources;
    w->req.resources_n = (int32_t)a->words_n;
}

static int print_changed(struct topic_ask *t, const struct k_incremental_alter_configs_resp *resp, bool rows) {
    static const struct out_column columns[] = {{"name", false}};
    struct out o;
    int code = CLI_OK;
    out_begin(&o, t->a, t->form, columns, 1);
    for (int32_t i = 0; i < resp->responses_n; i++) {
        const struct k_incremental_alter_configs_resp_resource *r = &resp->responses[i];
        if (r->error_code != 0) {
            code = topic_ask_first(code, topic_ask_refused(t, r->name, r->error_code, r->error_message));
        } else if (rows) {
            out_span(&o, r->name);
        }
    }
    if (rows) {
        return topic_ask_first(code, out_end(&o, t->a));
    }
    str_done(&o.cells);
    return code;
}

int topic_settings_alter(struct topic_ask *t, bool rows) {
    struct topic_settings_wish w;
    struct kconn_reply r;
    struct k_incremental_alter_configs_resp resp;
    wish_of(t->a, &w);
    kconn_reply_init(&r);
    int code = topic_ask_call(t, K_INCREMENTAL_ALTER_CONFIGS_KEY, &w.req, &resp, &r);
    code = code == CLI_OK ? print_changed(t, &resp, rows) : code;
    kconn_reply_done(&r);
    return code;
}

/* ---- showing ---- */

static const char *origin(int source) {
    switch (source) {
    case 1: return "topic";
    case 2: return "broker";
    case 3: return "all brokers";
    case 4: return "file";
    case 5: return "default";
    default: return NULL;
    }
}

static void print_result(struct out *o, const struct k_describe_configs_resp_result *r, int version) {
    for (int32_t i = 0; i < r->configs_n; i++) {
        const struct k_describe_configs_resp_result_config *c = &r->configs[i];
        out_span(o, r->name);
        out_span(o, c->name);
        span_is_null(c->value) ? out_cell(o, NULL) : out_span(o, c->value);
        out_cell(o, version == 0 ? (c->is_default ? "default" : NULL) : origin(c->source));
    }
}

static int print_shown(struct topic_ask *t, const struct k_describe_configs_resp *resp, int version) {
    static const struct out_column columns[] = {{"topic", false}, {"setting", false}, {"value", false}, {"origin", false}};
    struct out o;
    int code = CLI_OK;
    out_begin(&o, t->a, t->form, columns, 4);
    for (int32_t i = 0; i < resp->results_n; i++) {
        const struct k_describe_configs_resp_result *r = &resp->results[i];
        if (r->error_code != 0) {
            code = topic_ask_first(code, topic_ask_refused(t, r->name, r->error_code, r->error_message));
        } else {
            print_result(&o, r, version);
        }
    }
    return topic_ask_first(code, out_end(&o, t->a));
}

int topic_settings_show(struct topic_ask *t) {
    struct k_describe_configs_req req;
    struct k_describe_configs_req_resource resources[CLI_WORDS_MAX];
    struct k_describe_configs_resp resp;
    struct kconn_reply r;
    k_describe_configs_req_init(&req);
    for (size_t i = 0; i < t->a->words_n; i++) {
        k_describe_configs_req_resource_init(&resources[i]);
        resources[i].type = TOPIC_SETTINGS_KIND;
        resources[i].name = span_str(t->a->words[i]);
        resources[i].keys_n = -1;
    }
    req.resources = resources;
    req.resources_n = (int32_t)t->a->words_n;
    kconn_reply_init(&r);
    int code = topic_ask_call(t, K_DESCRIBE_CONFIGS_KEY, &req, &resp, &r);
    code = code == CLI_OK ? print_shown(t, &resp, r.version) : code;
    kconn_reply_done(&r);
    return code;
}
