/* Happy path: connect to the broker that -b or the environment names, ask, close. Failure modes: each err becomes one line and an exit code.
 * Runs on: the main thread of a command. */
#include "topic_ask.h"

#include <stdlib.h>

#include "kerror.h"
#include "state/conf.h"

#define TOPIC_ASK_BROKER "127.0.0.1:9092"
#define TOPIC_ASK_WAIT "10s"

static int exit_of(err e) {
    switch (e) {
    case ERR_OK:
        return CLI_OK;
    case ERR_UNREACHABLE:
    case ERR_TIMEOUT:
    case ERR_BAD_FRAME:
        return CLI_UNREACHABLE;
    case ERR_BAD_VERSION:
        return CLI_REFUSED;
    default:
        return CLI_USAGE;
    }
}

static bool wait_of(const struct cli_args *a, int64_t *ret_ms) {
    static const struct conf_key key = {.name = "--timeout", .type = CONF_LONG, .unit = CONF_MS, .min = 1, .max = 86400000};
    const char *text = cli_text(a, "timeout");
    char why[200];
    if (conf_value_int(&key, span_str(text != NULL ? text : TOPIC_ASK_WAIT), ret_ms, why, sizeof why) == ERR_OK) {
        return true;
    }
    (void)cli_fail(a, CLI_USAGE, "%s", why);
    return false;
}

bool topic_ask_number(const struct cli_args *a, const char *option, int64_t max, int64_t *ret) {
    const char *text = cli_text(a, option);
    if (text == NULL) {
        *ret = -1;
        return true;
    }
    int64_t v = 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' || v > max) {
            v = 0;
            break;
        }
        v = v * 10 + (*p - '0');
    }
    if (v < 1 || v > max) {
        (void)cli_fail(a, CLI_USAGE, "--%s is a number from 1 to %lld, not '%s'", option, (long long)max, text);
        return false;
    }
    *ret = v;
    return true;
}

int topic_ask_open(struct topic_ask *t, const struct cli_args *a) {
    struct kconn_why why;
    int64_t wait_ms;
    *t = (struct topic_ask){.a = a};
    if (!out_form_of(a, &t->form) || !wait_of(a, &wait_ms)) {
        return CLI_USAGE;
    }
    const char *broker = cli_text(a, "broker");
    bool named = broker != NULL;
    if (!named) {
        const char *env = getenv("PERIGEE_BROKER");
        broker = env != NULL && env[0] != '\0' ? env : TOPIC_ASK_BROKER;
    }
    err e = kconn_open(broker, wait_ms, a->app->version, &t->k, &why);
    return e == ERR_OK ? CLI_OK : cli_fail(a, exit_of(e), "%s%s", why.text, named || e != ERR_UNREACHABLE ? "" : "; -b or PERIGEE_BROKER names another broker");
}

void topic_ask_close(struct topic_ask *t) { kconn_close(t->k); }

int topic_ask_call(struct topic_ask *t, int key, const void *body, void *ret_body, struct kconn_reply *r) {
    err e = kconn_call(t->k, k_api_find(key), body, ret_body, r);
    return e == ERR_OK ? CLI_OK : cli_fail(t->a, exit_of(e), "%s", kconn_why(t->k));
}

int topic_ask_metadata(struct topic_ask *t, const char *const *names, size_t names_n, struct k_metadata_resp *ret, struct kconn_reply *r) {
    struct k_metadata_req req;
    struct k_metadata_req_topic topics[CLI_WORDS_MAX];
    k_metadata_req_init(&req);
    for (size_t i = 0; i < names_n; i++) {
        k_metadata_req_topic_init(&topics[i]);
        topics[i].name = span_str(names[i]);
    }
    req.topics = topics;
    req.topics_n = names_n == 0 ? -1 : (int32_t)names_n;
    req.allow_auto_create = false;
    int code = topic_ask_call(t, K_METADATA_KEY, &req, ret, r);
    if (code == CLI_OK && ret->error_code != 0) {
        return cli_fail(t->a, kerror_exit(ret->error_code), "%s refused: %s", kconn_peer(t->k), kerror_name(ret->error_code));
    }
    return code;
}

int topic_ask_refused(const struct topic_ask *t, span name, int error, span text) {
    char shown[260], said[400];
    span_printable(name, shown, sizeof shown);
    if (text.n == 0) {
        return cli_fail(t->a, kerror_exit(error), "%s: %s", shown, kerror_name(error));
    }
    return cli_fail(t->a, kerror_exit(error), "%s: %s: %s", shown, kerror_name(error), span_printable(text, said, sizeof said));
}
