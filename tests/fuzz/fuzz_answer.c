/* What the commands make of a broker's answers. Input: the command, then answers: version, length u16, body. They are decoded as kconn.c decodes
 * them, which this program takes the place of; nothing is sent.
 *
 * Holds: a command ends with one of its exit codes; when it does not end well it says why; text is what it prints, and JSON is JSON. T53. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "fuzz.h"
#include "kconn.h"

#define ARENA_BYTES ((size_t)16 << 20)

struct kconn {
    char why[40];
};

static struct kconn conn;
static span answers;

void kconn_reply_init(struct kconn_reply *r) {
    *r = (struct kconn_reply){.frame = NULL};
    arena_init(&r->arena, NULL, ARENA_BYTES);
}

void kconn_reply_done(struct kconn_reply *r) {
    mem_free(r->frame);
    r->frame = NULL;
    arena_done(&r->arena);
}

err kconn_open(const char *address, int64_t wait_ms, const char *version, struct kconn **ret_k, struct kconn_why *ret_why) {
    (void)address, (void)wait_ms, (void)version, (void)ret_why;
    *ret_k = &conn;
    return ERR_OK;
}

void kconn_close(struct kconn *k) { (void)k; }
const char *kconn_peer(const struct kconn *k) { return (void)k, "broker:9092"; }
const char *kconn_why(const struct kconn *k) { return k->why; }

static err fail(struct kconn *k, err e, const char *why) {
    (void)snprintf(k->why, sizeof k->why, "%s", why);
    return e;
}

err kconn_call(struct kconn *k, const struct msg_api *api, const void *body, void *ret_body, struct kconn_reply *r) {
    struct rd in;
    (void)body;
    kconn_reply_done(r);
    if (answers.n < 3) {
        return fail(k, ERR_UNREACHABLE, "the broker went away");
    }
    size_t n = be16_get(answers.p + 1);
    n = n < answers.n - 3 ? n : answers.n - 3;
    r->version = api->resp->min + answers.p[0] % (api->resp->max - api->resp->min + 1);
    r->frame = mem_alloc(MEM_TEST, n);             /* its own block, so that a sanitizer sees its end */
    must(r->frame != NULL);
    memcpy(r->frame, answers.p + 3, n);
    answers = span_of(answers.p + 3 + n, answers.n - 3 - n);
    rd_init(&in, span_of(r->frame, n), &r->arena);
    err e = api->resp->get(ret_body, &in, r->version);
    return e == ERR_OK ? e : fail(k, ERR_BAD_FRAME, "no Kafka there");
}

/* ---- a command ---- */

static const char *const lines[][8] = {
    {"perigee", "topic", "list"},
    {"perigee", "topic", "describe", "t0"},
    {"perigee", "topic", "describe", "-o", "json", "t0", "t1"},
    {"perigee", "topic", "create", "t0"},
    {"perigee", "topic", "delete", "t0", "t1"},
    {"perigee", "topic", "list", "-o", "json"},
};
#define LINES (sizeof lines / sizeof *lines)

static bool is_code(int code) { return (code >= CLI_OK && code <= CLI_NOT_FOUND) || code == CLI_STORAGE || code == CLI_CONFIG; }

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 1) {
        return -1;
    }
    char *argv[9], *out = NULL, *err_text = NULL;
    int argc = 0;
    size_t out_n = 0, err_n = 0;
    for (const char *const *p = lines[data[0] % LINES]; *p != NULL; p++) {
        argv[argc++] = (char *)(uintptr_t)*p;
    }
    argv[argc] = NULL;
    answers = span_of(data + 1, n - 1);
    struct cli_app app = {.version = "1", .out = open_memstream(&out, &out_n), .err = open_memstream(&err_text, &err_n)};
    must(app.out != NULL && app.err != NULL);
    int code = cli_main(argc, argv, &app);
    (void)fclose(app.out);
    (void)fclose(app.err);
    must(is_code(code));
    must(code == CLI_OK || err_n > 0);
    must(strlen(out) == out_n);                    /* no NUL of somebody else's in it */
    must(mem_live_all() == 0);
    free(out);
    free(err_text);
    return 0;
}
