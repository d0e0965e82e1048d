/* A small blocking client of the Kafka protocol: one connection, one request at a time, every wait with a deadline. One thread. */
#pragma once

#include "base/arena.h"
#include "wire/head.h"

struct kconn;

struct kconn_why {                     /* one line for a person, on failure */
    char text[400];
};

/* What an answer's arrays and spans lie in. */
struct kconn_reply {
    struct arena arena;
    uint8_t *frame;
    int version;                       /* of the message */
};
void kconn_reply_init(struct kconn_reply *r);
void kconn_reply_done(struct kconn_reply *r);      /* may be used again */

/* Connect to "host:port", "host" or "[v6]:port" and learn which versions the broker serves. wait_ms bounds this and each call. UNREACHABLE, USAGE (not
 * an address), NOMEM, BAD_FRAME (no Kafka there). */
err kconn_open(const char *address, int64_t wait_ms, const char *version, struct kconn **ret_k, struct kconn_why *ret_why);
void kconn_close(struct kconn *k);                 /* NULL-safe */
const char *kconn_peer(const struct kconn *k);     /* as given, with port */
/* One request in the newest version that both sides know, and its answer, decoded into ret_body. BAD_VERSION: none; TIMEOUT and UNREACHABLE; after
 * those and BAD_FRAME the connection is of no use. */
err kconn_call(struct kconn *k, const struct msg_api *api, const void *body, void *ret_body, struct kconn_reply *r);
const char *kconn_why(const struct kconn *k);      /* of the last call that failed */
