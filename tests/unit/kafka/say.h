/* A scripted Kafka client over one simulated connection: requests are encoded by the generated code, replies are decoded in the order
 * in which they come, which must be the order of the requests (S1.2), with the same correlation ids (S1.3).
 *
 * Memory of a reply lives until the connection is closed (say_close), or say_forget. */
#pragma once

#include "rig.h"
#include "wire/head.h"
#include "wire/k_create_topics.h"
#include "wire/k_delete_topics.h"
#include "wire/k_fetch.h"
#include "wire/k_init_producer_id.h"
#include "wire/k_list_offsets.h"
#include "wire/k_metadata.h"
#include "wire/k_offset_for_leader_epoch.h"
#include "wire/k_produce.h"
#include "wire/record.h"

#define SAY_ASKED_MAX 4096

struct say_asked {                     /* a request that waits for its reply */
    const struct msg_api *api;
    int16_t version;
    int32_t correlation;
};

struct say {
    struct rig *r;
    struct world_client *c;
    uint32_t home;                     /* index of its shard */
    bool up, down;
    err why;                           /* of down */
    struct say_asked asked[SAY_ASKED_MAX];
    uint32_t asked_at, asked_n;
    int32_t correlation;               /* of the last request */
    uint8_t *in;                       /* bytes that arrived and were not taken yet */
    size_t in_n, in_cap;
    uint64_t bytes_in;
    int64_t at_us;                     /* when the last whole reply arrived */
    struct arena arena;
};

struct say *say_open(struct rig *r);               /* connected; fails the test when it is refused */
struct say *say_knock(struct rig *r);              /* the same without waiting: look at up and down */
void say_close(struct say *s);
void say_reset(struct say *s);                     /* RST */
void say_bytes(struct say *s, const void *p, size_t n);        /* raw */
void say_forget(struct say *s);                    /* frees what replies hold */

/* Encode and send; nothing is awaited. For acks=0 Produce, and for requests that shall close the connection, use say_send_mute. */
void say_send(struct say *s, int key, int version, const void *req);
void say_send_mute(struct say *s, int key, int version, const void *req);
/* The whole frame, size included, as say_send would send it; in the arena. */
span say_frame(struct say *s, int key, int version, const void *req);
bool say_has(struct say *s);                       /* a whole reply is here */
bool say_await(struct say *s, ms limit);           /* run until it is; false: not within limit, or the connection went down */
const void *say_take(struct say *s);               /* the next reply, waiting up to 60 s; fails the test if it does not come */
const void *say_ask(struct say *s, int key, int version, const void *req);     /* send and take */
bool say_await_down(struct say *s, ms limit);      /* run until the broker has closed the connection */

/* ---- batches ---- */
struct say_batch {
    int32_t records;                   /* 0: one */
    size_t value_n;                    /* bytes of each value; 0: 10 */
    int64_t pid;                       /* 0: not idempotent; else id + 1 */
    int16_t epoch;
    int32_t seq;
    ms ts;                             /* of each record */
    uint8_t fill;                      /* value bytes */
    enum batch_codec codec;
    bool keyless;
};
span say_batch(struct say *s, const struct say_batch *b);

/* ---- requests with one topic and one partition ---- */
struct say_to {
    const char *topic;
    int32_t part;
};
const struct k_produce_req *say_produce_req(struct say *s, struct say_to to, int16_t acks, span batch);
void say_produce(struct say *s, struct say_to to, int16_t acks, span batch);           /* v9, sent */
struct k_produce_resp_topic_part *say_produced(struct say *s);                         /* the answer of one partition */
const struct k_fetch_req *say_fetch_req(struct say *s, struct say_to to, int64_t from, ms wait, int32_t min_bytes);
void say_fetch(struct say *s, struct say_to to, int64_t from, ms wait, int32_t min_bytes);     /* v12, sent */
struct k_fetch_resp_topic_part *say_fetched(struct say *s);
void say_list(struct say *s, struct say_to to, int64_t ts);                            /* v7, sent */
struct k_list_offsets_resp_topic_part *say_listed(struct say *s);
int64_t say_latest(struct say *s, struct say_to to);                                   /* ListOffsets(-1), error 0 */
void say_create_send(struct say *s, const char *topic, int32_t partitions);            /* v7 */
int16_t say_created(struct say *s);
int16_t say_create(struct say *s, const char *topic, int32_t partitions);
int16_t say_create_with(struct say *s, const char *topic, const char *key, const char *value);   /* one partition, one setting */
void say_delete_send(struct say *s, const char *topic);                                /* v6, by name */
int16_t say_deleted(struct say *s);
int16_t say_delete(struct say *s, const char *topic);
/* Metadata v12 of one topic, no auto-creation. */
void say_metadata_send(struct say *s, const char *topic);
struct k_metadata_resp_topic *say_described(struct say *s);
struct k_metadata_resp_topic *say_describe(struct say *s, const char *topic);
int64_t say_producer_id(struct say *s);

/* Every batch of one partition from `from` on, in order: calls on(u, head, batch). Returns the offset after the last one. */
int64_t say_read_all(struct say *s, struct say_to to, int64_t from, void (*on)(void *u, const struct batch_head *h, span batch), void *u);
