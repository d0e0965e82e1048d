/* The connection of a scripted Kafka client.
 *
 * Happy path: a request is encoded into an arena, flattened and handed to the simulated socket; received bytes are collected until a
 * frame is whole, then the oldest call is answered with its decoded body.
 * Failure modes: the connection ends: every open call is answered with NULL, then `down`. Nonsense from the broker fails the run.
 * Runs on: the world's thread. */
#include "kclient.h"

#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/mem.h"
#include "base/must.h"
#include "wire/head.h"

#define ARENA_BYTES (64 << 20)

struct call {
    struct list link;
    const struct msg_api *api;
    int16_t v;
    int32_t correlation;
    kclient_done *done;
    void *u;
};

struct kclient {
    struct world *w;
    struct world_client *wc;
    const struct kclient_events *ev;
    void *u;
    int16_t versions[KCLIENT_APIS];
    struct list calls;                 /* oldest first */
    size_t calls_n;
    int32_t correlation;
    uint8_t *in;                       /* bytes of the frame being received */
    size_t in_n, in_cap;
    bool up, busy, closed;             /* busy: inside a callback, freed behind it */
};

static void forget_calls(struct kclient *kc) {
    for (struct list *it; (it = list_pop_front(&kc->calls));) {
        mem_free(list_entry(it, struct call, link));
    }
    kc->calls_n = 0;
}

static void free_now(struct kclient *kc) {
    forget_calls(kc);
    mem_free(kc->in);
    mem_free(kc);
}

/* Leave a callback; false when the client was closed in it. */
static bool leave(struct kclient *kc) {
    kc->busy = false;
    if (kc->closed) {
        free_now(kc);
        return false;
    }
    return true;
}

static void on_up(void *u) {
    struct kclient *kc = u;
    kc->up = true;
    if (kc->ev && kc->ev->up) {
        kc->busy = true;
        kc->ev->up(kc->u);
        (void)leave(kc);
    }
}

static bool answer(struct kclient *kc, struct call *c, const void *resp) {
    kc->calls_n--;
    kc->busy = true;
    c->done(c->u, resp, c->v);
    mem_free(c);
    return leave(kc);
}

static void on_down(void *u, err why) {
    struct kclient *kc = u;
    (void)why;
    kc->up = false;
    for (struct list *it; (it = list_pop_front(&kc->calls));) {
        if (!answer(kc, list_entry(it, struct call, link), NULL)) {
            return;
        }
    }
    kc->busy = true;
    if (kc->ev && kc->ev->down) {
        kc->ev->down(kc->u);
    }
    (void)leave(kc);
}

/* Decode one frame (without its size) and answer the oldest call; false when the client was closed. */
static bool take_frame(struct kclient *kc, span frame) {
    struct list *it = list_pop_front(&kc->calls);
    if (!it) {
        world_fail(kc->w, "an answer without a request (%zu bytes)", frame.n);
    }
    struct call *c = list_entry(it, struct call, link);
    struct arena a;
    arena_init(&a, NULL, ARENA_BYTES);
    struct rd r;
    rd_init(&r, frame, &a);
    struct k_response_header h;
    if (head_response_get(&r, c->api, c->v, &h) != ERR_OK || h.correlation_id != c->correlation) {
        world_fail(kc->w, "%s v%d: correlation %d, expected %d", c->api->name, c->v, h.correlation_id, c->correlation);
    }
    void *resp = arena_alloc(&a, c->api->resp->bytes);
    must(resp);
    c->api->resp->init(resp);
    err e = c->api->resp->get(resp, &r, c->v);
    if (e != ERR_OK || rd_left(&r) != 0) {
        world_fail(kc->w, "%s v%d: answer does not decode: %s, %zu bytes left", c->api->name, c->v, err_name(e), rd_left(&r));
    }
    bool open = answer(kc, c, resp);
    arena_done(&a);
    return open;
}

static void collect(struct kclient *kc, const uint8_t *p, size_t n) {
    if (kc->in_n + n > kc->in_cap) {
        kc->in_cap = (kc->in_n + n) * 2;
        kc->in = mem_realloc(MEM_TEST, kc->in, kc->in_cap);
        must(kc->in);
    }
    memcpy(kc->in + kc->in_n, p, n);
    kc->in_n += n;
}

static void on_data(void *u, const uint8_t *p, size_t n) {
    struct kclient *kc = u;
    collect(kc, p, n);
    size_t at = 0;
    while (kc->in_n - at >= 4) {
        uint32_t size = be32_get(kc->in + at);
        if (size > ARENA_BYTES) {
            world_fail(kc->w, "an answer of %u bytes", size);
        }
        if (kc->in_n - at - 4 < size) {
            break;
        }
        if (!take_frame(kc, span_of(kc->in + at + 4, size))) {
            return;
        }
        at += 4 + size;
    }
    memmove(kc->in, kc->in + at, kc->in_n - at);
    kc->in_n -= at;
}

struct kclient *kclient_open(struct world *w, struct world_node *n, uint16_t port, const int16_t versions[KCLIENT_APIS]) {
    static const struct world_client_events events = {on_up, on_data, on_down};
    struct kclient *kc = mem_zalloc(MEM_TEST, sizeof *kc);
    must(kc);
    kc->w = w;
    memcpy(kc->versions, versions, sizeof kc->versions);
    list_init(&kc->calls);
    kc->correlation = (int32_t)prng_next(world_rng(w));
    kc->wc = world_connect(w, n, port, &events, kc);
    return kc;
}

void kclient_listen(struct kclient *kc, const struct kclient_events *ev, void *u) {
    kc->ev = ev;
    kc->u = u;
}

static void end(struct kclient *kc) {
    kc->closed = true;
    kc->up = false;
    kc->wc = NULL;
    if (!kc->busy) {
        free_now(kc);
    }
}

void kclient_close(struct kclient *kc) {
    if (kc && !kc->closed) {
        world_client_close(kc->wc);
        end(kc);
    }
}

void kclient_break(struct kclient *kc) {
    must(!kc->busy && kc->wc);
    world_client_reset(kc->wc);
    kc->wc = NULL;
    on_down(kc, ERR_CANCELLED);
}

bool kclient_is_up(const struct kclient *kc) {
    return kc && kc->up;
}

size_t kclient_pending(const struct kclient *kc) {
    return kc->calls_n;
}

int16_t kclient_version(const struct kclient *kc, int key) {
    return kc->versions[key];
}

static void send_request(struct kclient *kc, const struct msg_api *api, const struct k_request_header *h, const void *req) {
    struct arena a;
    struct chain out;
    arena_init(&a, NULL, ARENA_BYTES);
    chain_init(&out, &a);
    struct wr w = wr_to(&out);
    uint8_t *size = chain_ink(&out, 4);
    head_request_put(h, api, &w);
    api->req->put(req, &w, h->api_version);
    must(chain_ok(&out));
    be32_put(size, (uint32_t)(out.bytes - 4));
    uint8_t *flat = arena_alloc(&a, out.bytes);
    must(flat);
    chain_flatten(&out, flat);
    world_client_send(kc->wc, flat, out.bytes);
    chain_done(&out);
    arena_done(&a);
}

void kclient_call(struct kclient *kc, int key, const void *req, kclient_done *done, void *u) {
    const struct msg_api *api = k_api_find(key);
    must(api && kc->up);
    int16_t v = kc->versions[key];
    struct k_request_header h;
    k_request_header_init(&h);
    h.api_key = (int16_t)key;
    h.api_version = v;
    h.correlation_id = kc->correlation = (int32_t)((uint32_t)kc->correlation + 1);
    h.client_id = SPAN_LIT("sim");
    if (done) {
        struct call *c = mem_zalloc(MEM_TEST, sizeof *c);
        must(c);
        *c = (struct call){.api = api, .v = v, .correlation = h.correlation_id, .done = done, .u = u};
        list_push_back(&kc->calls, &c->link);
        kc->calls_n++;
    }
    send_request(kc, api, &h, req);
}

void kclient_raw(struct kclient *kc, const void *p, size_t n) {
    world_client_send(kc->wc, p, n);
}

void kclient_draw_versions(struct prng *r, int16_t ret_versions[KCLIENT_APIS]) {
    memset(ret_versions, 0, KCLIENT_APIS * sizeof ret_versions[0]);
    for (size_t i = 0; i < K_APIS; i++) {
        const struct msg_api *api = &k_apis[i];
        ret_versions[api->key] = (int16_t)(api->serve_min + (int16_t)prng_below(r, (uint64_t)(api->serve_max - api->serve_min + 1)));
    }
}
