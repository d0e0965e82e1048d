/* `perigee topic delete`: asks a person, then one DeleteTopics for all names.
 * Happy path: nothing is printed but, on a terminal, what was deleted. Failure modes: a line per topic refused, the others are gone.
 * Runs on: the main thread of a command. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "kerror.h"
#include "topic.h"
#include "topic_ask.h"
#include "wire/k_delete_topics.h"

#define TOPIC_DELETE_UNKNOWN 3

static bool may_delete(const struct cli_args *a) {
    char answer[16];
    if (cli_flag(a, "yes")) {
        return true;
    }
    if (!isatty(STDIN_FILENO)) {
        (void)cli_fail(a, CLI_USAGE, "nothing deleted: give --yes to delete without being asked");
        return false;
    }
    fprintf(a->err, "Delete");
    for (size_t i = 0; i < a->words_n; i++) {
        fprintf(a->err, " %s", a->words[i]);
    }
    fprintf(a->err, " with all records? [y/N] ");
    fflush(a->err);
    if (fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y')) {
        return true;
    }
    (void)cli_fail(a, CLI_USAGE, "nothing deleted");
    return false;
}

static int report(struct topic_ask *t, const struct k_delete_topics_resp *resp) {
    static const struct out_column columns[] = {{"deleted", false}};
    struct out o;
    int code = CLI_OK;
    out_begin(&o, t->a, t->form, columns, 1);
    for (int32_t i = 0; i < resp->topics_n; i++) {
        const struct k_delete_topics_resp_topic *r = &resp->topics[i];
        if (r->error_code == TOPIC_DELETE_UNKNOWN && cli_flag(t->a, "if-exists")) {
            continue;
        }
        if (r->error_code != 0) {
            code = topic_ask_first(code, topic_ask_refused(t, r->name, r->error_code, r->error_message));
            continue;
        }
        out_span(&o, r->name);
    }
    return topic_ask_first(code, out_end(&o, t->a));
}

static int delete_named(struct topic_ask *t) {
    struct k_delete_topics_req req;
    struct k_delete_topics_req_topic topics[CLI_WORDS_MAX];
    span names[CLI_WORDS_MAX];
    struct k_delete_topics_resp resp;
    struct kconn_reply r;
    k_delete_topics_req_init(&req);
    for (size_t i = 0; i < t->a->words_n; i++) {
        k_delete_topics_req_topic_init(&topics[i]);
        names[i] = topics[i].name = span_str(t->a->words[i]);
    }
    req.topics = topics;                           /* version 6 */
    req.topic_names = names;                       /* below */
    req.topics_n = req.topic_names_n = (int32_t)t->a->words_n;
    req.timeout_ms = 10000;
    kconn_reply_init(&r);
    int code = topic_ask_call(t, K_DELETE_TOPICS_KEY, &req, &resp, &r);
    code = code == CLI_OK ? report(t, &resp) : code;
    kconn_reply_done(&r);
    return code;
}

int topic_delete(const struct cli_args *a) {
    struct topic_ask t;
    if (!may_delete(a)) {
        return CLI_USAGE;
    }
    int code = topic_ask_open(&t, a);
    if (code == CLI_OK) {
        code = delete_named(&t);
        topic_ask_close(&t);
    }
    return code;
}
