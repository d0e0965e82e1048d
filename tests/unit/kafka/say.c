/* See say.h.
 * Failure modes: anything unexpected in a reply (order, correlation, encoding) fails the test.
 * Runs on: the world's thread, outside the node. */
#include "say.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/be.h"

#define TAKE_MS 60000

/* ---- the connection ---- */

static void say_on_up(void *u) {
    struct say *s = u;
    s->up = true;
}

static void say_on_data(void *u, const uint8_t *p, size_t n) {
    struct say *s = u;
    if (s->in_n + n > s->in_cap) {
        s->in_cap = (s->in_n + n) * 2;
        s->in = mem_realloc(MEM_TEST, s->in, s->in_cap);
        ck_assert_ptr_nonnull(s->in);
    }
    memcpy(s->in + s->in_n, p, n);
    s->in_n += n;
    s->bytes_in += n;
    s->at_us = world_now_us(s->r->w);
}

static void say_on_down(void *u, err why) {
    struct say *s = u;
    s->down = true;
    s->why = why;
}

struct say *say_knock(struct rig *r) {
    static const struct world_client_events events = {say_on_up, say_on_data, say_on_down};
    struct say *s = mem_zalloc(MEM_TEST, sizeof *s);
    ck_assert_ptr_nonnull(s);
    s->r = r;
    arena_init(&s->arena, NULL, SIZE_MAX);
    s->c = world_connect(r->w, r->n, RIG_PORT, &events, s);
    return s;
}

static bool say_is_settled(void *u) {
    struct say *s = u;
    return s->up || s->down;
}

struct say *say_open(struct rig *r) {
    struct say *s = say_knock(r);
    ck_assert(world_run(r->w, say_is_settled, s, TAKE_MS));
    ck_assert_msg(s->up && !s->down, "the connection was refused");
    s->home = r->opened++ % r->shards;
    return s;
}

static void say_free(struct say *s) {
    arena_done(&s->arena);
    mem_free(s->in);
    mem_free(s);
}

void say_close(struct say *s) {
    world_client_close(s->c);
    say_free(s);
}

void say_reset(struct say *s) {
    world_client_reset(s->c);
    say_free(s);
}

void say_bytes(struct say *s, const void *p, size_t n) { world_client_send(s->c, p, n); }

void say_forget(struct say *s) { arena_done(&s->arena); }

/* ---- frames ---- */

span say_frame(struct say *s, int key, int version, const void *req) {
    const struct msg_api *api = k_api_find(key);
    ck_assert_ptr_nonnull(api);
    struct chain c;
    chain_init(&c, &s->arena);
    struct wr w = wr_to(&c);
    wr_i32(&w, 0);
    struct k_request_header h;
    k_request_header_init(&h);
    h.api_key = (int16_t)key;
    h.api_version = (int16_t)version;
    h.correlation_id = ++s->correlation;
    h.client_id = SPAN_LIT("say");
    head_request_put(&h, api, &w);
    api->req->put(req, &w, version);
    ck_assert(chain_ok(&c));
    uint8_t *p = arena_alloc(&s->arena, c.bytes);
    ck_assert_ptr_nonnull(p);
    chain_flatten(&c, p);
    be32_put(p, (uint32_t)(c.bytes - 4));
    size_t n = c.bytes;
    chain_done(&c);
    return span_of(p, n);
}

void say_send_mute(struct say *s, int key, int version, const void *req) {
    span f = say_frame(s, key, version, req);
    say_bytes(s, f.p, f.n);
}

void say_send(struct say *s, int key, int version, const void *req) {
    say_send_mute(s, key, version, req);
    ck_assert_uint_lt(s->asked_n, SAY_ASKED_MAX);
    s->asked[(s->asked_at + s->asked_n++) % SAY_ASKED_MAX] =
        (struct say_asked){.api = k_api_find(key), .version = (int16_t)version, .correlation = s->correlation};
}

bool say_has(struct say *s) { return s->in_n >= 4 && s->in_n - 4 >= be32_get(s->in); }

static bool say_has_or_down(void *u) {
    struct say *s = u;
    return say_has(s) || s->down;
}

bool say_await(struct say *s, ms limit) {
    (void)world_run(s->r->w, say_has_or_down, s, limit);
    return say_has(s);
}

const void *say_take(struct say *s) {
    ck_assert_uint_gt(s->asked_n, 0);
    const struct say_asked *a = &s->asked[s->asked_at];
    ck_assert_msg(say_await(s, TAKE_MS), "no answer to %s (%s)", a->api->name, s->down ? "closed" : "time over");
    s->asked_at = (s->asked_at + 1) % SAY_ASKED_MAX;
    s->asked_n--;
    size_t n = be32_get(s->in);
    span f = arena_copy(&s->arena, span_of(s->in + 4, n));
    memmove(s->in, s->in + 4 + n, s->in_n - 4 - n);
    s->in_n -= 4 + n;
    struct rd r;
    rd_init(&r, f, &s->arena);
    struct k_response_header h;
    ck_assert_int_eq(head_response_get(&r, a->api, a->version, &h), ERR_OK);
    ck_assert_int_eq(h.correlation_id, a->correlation);
    void *resp = arena_alloc(&s->arena, a->api->resp->bytes);
    ck_assert_int_eq(a->api->resp->get(resp, &r, a->version), ERR_OK);
    ck_assert_uint_eq(rd_left(&r), 0);
    return resp;
}

const void *say_ask(struct say *s, int key, int version, const void *req) {
    say_send(s, key, version, req);
    return say_take(s);
}

static bool say_is_down(void *u) {
    struct say *s = u;
    return s->down;
}

bool say_await_down(struct say *s, ms limit) { return world_run(s->r->w, say_is_down, s, limit); }

/* ---- batches ---- */

span say_batch(struct say *s, const struct say_batch *b) {
    struct record_build rb;
    record_build_init(&rb, &s->arena, b->codec);
    size_t n = b->value_n == 0 ? 10 : b->value_n;
    uint8_t *value = arena_alloc(&s->arena, n);
    memset(value, b->fill == 0 ? 'v' : b->fill, n);
    for (int32_t i = 0; i < (b->records == 0 ? 1 : b->records); i++) {
        record_build_add(&rb, b->ts, b->keyless ? SPAN_NULL : SPAN_LIT("k"), span_of(value, n), NULL, 0);
    }
    if (b->pid > 0) {
        rb.producer_id = b->pid - 1;
        rb.producer_epoch = b->epoch;
        rb.base_sequence = b->seq;
    }
    span out;
    ck_assert_int_eq(record_build_finish(&rb, &out), ERR_OK);
    return out;
}

static void *say_new(struct say *s, size_t n) {
    void *p = arena_zalloc(&s->arena, n);
    ck_assert_ptr_nonnull(p);
    return p;
}

/* ---- produce ---- */

const struct k_produce_req *say_produce_req(struct say *s, struct say_to to, int16_t acks, span batch) {
    struct k_produce_req *q = say_new(s, sizeof *q);
    struct k_produce_req_topic *t = say_new(s, sizeof *t);
    struct k_produce_req_topic_part *p = say_new(s, sizeof *p);
    k_produce_req_init(q);
    k_produce_req_topic_init(t);
    k_produce_req_topic_part_init(p);
    p->index = to.part;
    p->records = batch;
    t->name = span_str(to.topic);
    t->partitions = p;
    t->partitions_n = 1;
    q->acks = acks;
    q->timeout_ms = 30000;
    q->topics = t;
    q->topics_n = 1;
    return q;
}

void say_produce(struct say *s, struct say_to to, int16_t acks, span batch) {
    const struct k_produce_req *q = say_produce_req(s, to, acks, batch);
    if (acks == 0) {
        say_send_mute(s, K_PRODUCE, 9, q);
    } else {
        say_send(s, K_PRODUCE, 9, q);
    }
}

struct k_produce_resp_topic_part *say_produced(struct say *s) {
    const struct k_produce_resp *r = say_take(s);
    ck_assert_int_eq(r->topics_n, 1);
    ck_assert_int_eq(r->topics[0].partitions_n, 1);
    return r->topics[0].partitions;
}

/* ---- fetch ---- */

const struct k_fetch_req *say_fetch_req(struct say *s, struct say_to to, int64_t from, ms wait, int32_t min_bytes) {
    struct k_fetch_req *q = say_new(s, sizeof *q);
    struct k_fetch_req_topic *t = say_new(s, sizeof *t);
    struct k_fetch_req_topic_part *p = say_new(s, sizeof *p);
    k_fetch_req_init(q);
    k_fetch_req_topic_init(t);
    k_fetch_req_topic_part_init(p);
    p->partition = to.part;
    p->current_leader_epoch = -1;
    p->last_fetched_epoch = -1;
    p->fetch_offset = from;
    p->partition_max_bytes = 1 << 20;
    t->topic = span_str(to.topic);
    t->partitions = p;
    t->partitions_n = 1;
    q->replica_id = -1;
    q->max_wait_ms = (int32_t)wait;
    q->min_bytes = min_bytes;
    q->max_bytes = 50 << 20;
    q->session_epoch = -1;
    q->topics = t;
    q->topics_n = 1;
    return q;
}

void say_fetch(struct say *s, struct say_to to, int64_t from, ms wait, int32_t min_bytes) {
    say_send(s, K_FETCH, 12, say_fetch_req(s, to, from, wait, min_bytes));
}

struct k_fetch_resp_topic_part *say_fetched(struct say *s) {
    const struct k_fetch_resp *r = say_take(s);
    ck_assert_int_eq(r->error_code, 0);
    ck_assert_int_eq(r->topics_n, 1);
    ck_assert_int_eq(r->topics[0].partitions_n, 1);
    ck_assert_ptr_nonnull(r->topics[0].partitions[0].records.p);       /* S7.8: never null */
    return r->topics[0].partitions;
}

int64_t say_read_all(struct say *s, struct say_to to, int64_t from, void (*on)(void *u, const struct batch_head *h, span batch), void *u) {
    for (;;) {
        say_fetch(s, to, from, 0, 1);
        const struct k_fetch_resp_topic_part *p = say_fetched(s);
        ck_assert_int_eq(p->error_code, 0);
        if (p->records.n == 0) {
            return from;
        }
        for (span left = p->records; left.n > 0;) {
            struct batch_head h;
            if (batch_head_get(left, &h) != ERR_OK) {
                ck_assert_ptr_ne(left.p, p->records.p);
                break;                             /* a batch cut off at the end (S7.2) */
            }
            span batch = span_of(left.p, h.bytes);
            ck_assert(batch_crc_ok(batch));
            if (on != NULL) {
                on(u, &h, batch);
            }
            from = batch_last_offset(&h) + 1;
            left = span_of(left.p + h.bytes, left.n - h.bytes);
        }
    }
}

/* ---- offsets ---- */

void say_list(struct say *s, struct say_to to, int64_t ts) {
    struct k_list_offsets_req *q = say_new(s, sizeof *q);
    struct k_list_offsets_req_topic *t = say_new(s, sizeof *t);
    struct k_list_offsets_req_topic_part *p = say_new(s, sizeof *p);
    k_list_offsets_req_init(q);
    k_list_offsets_req_topic_init(t);
    k_list_offsets_req_topic_part_init(p);
    p->index = to.part;
    p->current_leader_epoch = -1;
    p->timestamp = ts;
    t->name = span_str(to.topic);
    t->partitions = p;
    t->partitions_n = 1;
    q->replica_id = -1;
    q->topics = t;
    q->topics_n = 1;
    say_send(s, K_LIST_OFFSETS, 7, q);
}

struct k_list_offsets_resp_topic_part *say_listed(struct say *s) {
    const struct k_list_offsets_resp *r = say_take(s);
    ck_assert_int_eq(r->topics_n, 1);
    ck_assert_int_eq(r->topics[0].partitions_n, 1);
    return r->topics[0].partitions;
}

int64_t say_latest(struct say *s, struct say_to to) {
    say_list(s, to, -1);
    const struct k_list_offsets_resp_topic_part *p = say_listed(s);
    ck_assert_int_eq(p->error_code, 0);
    return p->offset;
}

/* ---- topics ---- */

static struct k_create_topics_req *say_create_req(struct say *s, const char *topic, int32_t partitions) {
    struct k_create_topics_req *q = say_new(s, sizeof *q);
    struct k_create_topics_req_topic *t = say_new(s, sizeof *t);
    k_create_topics_req_init(q);
    k_create_topics_req_topic_init(t);
    t->name = span_str(topic);
    t->partitions = partitions;
    t->replication_factor = -1;
    q->topics = t;
    q->topics_n = 1;
    q->timeout_ms = 30000;
    return q;
}

void say_create_send(struct say *s, const char *topic, int32_t partitions) { say_send(s, K_CREATE_TOPICS, 7, say_create_req(s, topic, partitions)); }

int16_t say_created(struct say *s) {
    const struct k_create_topics_resp *r = say_take(s);
    ck_assert_int_eq(r->topics_n, 1);
    return r->topics[0].error_code;
}

int16_t say_create(struct say *s, const char *topic, int32_t partitions) {
    say_create_send(s, topic, partitions);
    return say_created(s);
}

int16_t say_create_with(struct say *s, const char *topic, const char *key, const char *value) {
    struct k_create_topics_req *q = say_create_req(s, topic, 1);
    struct k_create_topics_req_topic_config *c = say_new(s, sizeof *c);
    k_create_topics_req_topic_config_init(c);
    c->name = span_str(key);
    c->value = span_str(value);
    q->topics[0].configs = c;
    q->topics[0].configs_n = 1;
    say_send(s, K_CREATE_TOPICS, 7, q);
    return say_created(s);
}

void say_delete_send(struct say *s, const char *topic) {
    struct k_delete_topics_req *q = say_new(s, sizeof *q);
    struct k_delete_topics_req_topic *t = say_new(s, sizeof *t);
    k_delete_topics_req_init(q);
    k_delete_topics_req_topic_init(t);
    t->name = span_str(topic);
    q->topics = t;
    q->topics_n = 1;
    q->timeout_ms = 30000;
    say_send(s, K_DELETE_TOPICS, 6, q);
}

int16_t say_deleted(struct say *s) {
    const struct k_delete_topics_resp *r = say_take(s);
    ck_assert_int_eq(r->topics_n, 1);
    return r->topics[0].error_code;
}

int16_t say_delete(struct say *s, const char *topic) {
    say_delete_send(s, topic);
    return say_deleted(s);
}

void say_metadata_send(struct say *s, const char *topic) {
    struct k_metadata_req *q = say_new(s, sizeof *q);
    struct k_metadata_req_topic *t = say_new(s, sizeof *t);
    k_metadata_req_init(q);
    k_metadata_req_topic_init(t);
    t->name = span_str(topic);
    q->topics = t;
    q->topics_n = 1;
    q->allow_auto_create = false;
    say_send(s, K_METADATA, 12, q);
}

struct k_metadata_resp_topic *say_described(struct say *s) {
    const struct k_metadata_resp *r = say_take(s);
    ck_assert_int_eq(r->topics_n, 1);
    return r->topics;
}

struct k_metadata_resp_topic *say_describe(struct say *s, const char *topic) {
    say_metadata_send(s, topic);
    return say_described(s);
}

int64_t say_producer_id(struct say *s) {
    struct k_init_producer_id_req q;
    k_init_producer_id_req_init(&q);
    q.transactional_id = SPAN_NULL;
    const struct k_init_producer_id_resp *r = say_ask(s, K_INIT_PRODUCER_ID, 4, &q);
    ck_assert_int_eq(r->error_code, 0);
    ck_assert_int_eq(r->producer_epoch, 0);
    return r->producer_id;
}
