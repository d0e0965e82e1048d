/* What the topic commands share: the connection, and turning failures into one line and an exit code. */
#pragma once

#include "cli/out.h"
#include "kconn.h"
#include "wire/k_metadata.h"

struct topic_ask {
    const struct cli_args *a;
    struct kconn *k;
    enum out_form form;
};

/* The value of an option that is a number from 1 to max; -1: it was not given. False after a line on err. */
bool topic_ask_number(const struct cli_args *a, const char *option, int64_t max, int64_t *ret);
/* CLI_OK, or the exit code after a line on err. */
int topic_ask_open(struct topic_ask *t, const struct cli_args *a);
void topic_ask_close(struct topic_ask *t);
int topic_ask_call(struct topic_ask *t, int key, const void *body, void *ret_body, struct kconn_reply *r);
/* All topics (names_n 0), or the named ones, with their partitions; never creates any. Arrays lie in r. */
int topic_ask_metadata(struct topic_ask *t, const char *const *names, size_t names_n, struct k_metadata_resp *ret, struct kconn_reply *r);
/* A line about one topic that the broker refused; returns the exit code for the error. text may be null. */
int topic_ask_refused(const struct topic_ask *t, span name, int error, span text);
/* The first failure of a command decides its exit code. */
static inline int topic_ask_first(int code, int next) { return code != CLI_OK ? code : next; }
