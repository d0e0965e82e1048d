/* A scripted producer: batches to all partitions, several requests in flight, each batch sent again until it is acknowledged.
 *
 * Happy path: one batch for one or a few partitions goes into a request; its answer acknowledges each. An idempotent producer numbers its
 * batches per partition and sends again in order, as the protocol wants it; others send again and may duplicate.
 * Failure modes: after an error or a lost connection a partition waits until nothing of it is in flight, then begins with its oldest
 * batch. A sequence error on the oldest batch, or an error nobody has an excuse for, fails the run.
 * Runs on: the test. */
#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "link.h"
#include "wire/k_init_producer_id.h"
#include "wire/k_produce.h"
#include "wire/record.h"

#define PARTS_MAX (PLAN_TOPICS * PLAN_PARTS)
#define ARENA_BYTES (8 << 20)
#define YESTERDAY_MS 1699000000000     /* the clients' clock: behind the brokers', whatever jumps they make */

struct batch {
    struct list link;                  /* its partition's, oldest first */
    struct part *pt;
    uint32_t number;                   /* in the history */
    bool flying;
    uint8_t *bytes;
    size_t n;
};

struct part {
    uint32_t topic, part;
    struct list batches;               /* not yet acknowledged */
    int flying;
    bool stalled;                      /* wait until nothing is flying, then begin with the oldest */
    int32_t sequence;                  /* of the next new batch */
    uint32_t made;
};

struct request {                       /* what one Produce carried */
    struct list link;                  /* its producer's, until it is answered */
    struct producer *p;
    size_t n;
    struct batch *batches[PARTS_MAX];
    bool answered[PARTS_MAX];
};

struct producer {
    struct sim *s;
    const struct plan_producer *plan;
    uint32_t index;
    struct link link;
    int64_t id;                        /* -1: none, or not yet known */
    int16_t epoch;
    bool asking;                       /* InitProducerId is on its way */
    struct part parts[PARTS_MAX];
    size_t parts_n;
    struct list open;                  /* requests in flight */
    int requests, left;                /* how many; batches still to be made */
    bool ticking, gave_up;
};

enum { TOO_LARGE = 10, BAD_TIMESTAMP = 32 };

static void pump(struct producer *p);

static void tick(void *u) {
    struct producer *p = u;
    p->ticking = false;
    pump(p);
}

static void tick_soon(struct producer *p) {
    if (!p->ticking) {
        p->ticking = true;
        world_after(p->s->w, p->plan->pause > 0 ? 1 + (ms)prng_below(&p->s->rng, (uint64_t)p->plan->pause) : sim_soon(p->s), tick, p);
    }
}

/* ---- batches ---- */

static size_t value_bytes(struct producer *p, const struct part *pt) {
    size_t n = 8 + prng_below(&p->s->rng, (uint64_t)p->plan->bytes_max);
    size_t most = (size_t)p->s->plan.topics[pt->topic].segment_bytes / (size_t)p->plan->records_max / 2;
    return n < most ? n : most > 8 ? most : 8;
}

static void fill_batch(struct producer *p, const struct part *pt, struct record_build *b, uint32_t records) {
    uint8_t value[4096];
    uint32_t number = (uint32_t)p->s->hist.batches_n;
    must((size_t)p->plan->bytes_max + 8 <= sizeof value);
    for (uint32_t i = 0; i < records; i++) {
        size_t n = value_bytes(p, pt);
        history_value(value, number, i);
        memset(value + 8, (int)('a' + number % 26), n - 8);
        if (prng_chance(&p->s->rng, 1, 2)) {
            prng_bytes(&p->s->rng, value + 8, n - 8);
        }
        span key = i % 2 ? SPAN_NULL : span_of(value, 8);
        record_build_add(b, YESTERDAY_MS + world_now_us(p->s->w) / 1000, key, span_of(value, n), NULL, 0);
    }
}

static struct batch *make_batch(struct producer *p, struct part *pt) {
    struct arena a;
    struct record_build b;
    span bytes;
    arena_init(&a, NULL, ARENA_BYTES);
    record_build_init(&b, &a, p->plan->codec);
    uint32_t records = 1 + (uint32_t)prng_below(&p->s->rng, (uint64_t)p->plan->records_max);
    if (p->plan->idempotent) {
        b.producer_id = p->id;
        b.producer_epoch = p->epoch;
        b.base_sequence = pt->sequence;
    }
    fill_batch(p, pt, &b, records);
    must(record_build_finish(&b, &bytes) == ERR_OK);
    struct history_batch h = {.topic = pt->topic, .part = pt->part, .producer = p->index, .number = pt->made++,
                              .bytes = (uint8_t *)(uintptr_t)bytes.p, .n = bytes.n, .records = records, .acks = p->plan->acks};
    struct batch *bt = mem_zalloc(MEM_TEST, sizeof *bt);
    must(bt);
    bt->pt = pt;
    bt->number = history_sent(&p->s->hist, &h);
    bt->bytes = mem_alloc(MEM_TEST, bytes.n);
    must(bt->bytes);
    memcpy(bt->bytes, bytes.p, bytes.n);
    bt->n = bytes.n;
    pt->sequence = batch_sequence_add(pt->sequence, (int32_t)records);
    list_push_back(&pt->batches, &bt->link);
    p->left--;
    arena_done(&a);
    return bt;
}

static void batch_free(struct batch *bt) {
    list_remove(&bt->link);
    mem_free(bt->bytes);
    mem_free(bt);
}

/* The next batch of this partition to be sent, made if need be; NULL: none now. */
static struct batch *batch_to_send(struct producer *p, struct part *pt) {
    bool there = pt->part < (uint32_t)p->s->parts_there[pt->topic];
    if (pt->stalled || (p->plan->idempotent && !there)) {     /* several in flight to none: the later ones might find it, and be first (S6.6) */
        return NULL;
    }
    list_each(it, &pt->batches) {
        struct batch *bt = list_entry(it, struct batch, link);
        if (!bt->flying) {
            return bt;
        }
    }
    return p->left > 0 && p->s->phase == SIM_SAFETY ? make_batch(p, pt) : NULL;
}

/* ---- answers ---- */

static void note(struct producer *p, const struct batch *bt, const char *what, long long detail) {
    struct batch_head h;
    must(batch_head_get(span_of(bt->bytes, bt->n), &h) == ERR_OK);
    world_note(p->s->w, "producer %u: batch %u of %s-%u pid=%lld seq=%d..%d %s %lld", p->index, bt->number,
               p->s->plan.topics[bt->pt->topic].name, bt->pt->part, (long long)h.producer_id, h.base_sequence, batch_last_sequence(&h), what,
               detail);
}

static void stall(struct producer *p, struct part *pt) {
    pt->stalled = true;
    tick_soon(p);
}

static bool retriable(int16_t code) {
    return code == 3 || code == 6 || code == 7 || code == 19 || code == 20 || code == 56 || code == 100;
}

/* Refused for good by the topic's settings. Idempotent producers keep away from such topics: a batch that will never come would be a gap. */
static bool is_refused(const struct producer *p, const struct batch *bt, int16_t code) {
    const struct plan_topic *t = &p->s->plan.topics[bt->pt->topic];
    return (code == TOO_LARGE && t->message_max > 0 && bt->n > (size_t)t->message_max) ||
           (code == BAD_TIMESTAMP && t->times_checked && !t->append_time);
}

static void batch_failed(struct producer *p, struct batch *bt, int16_t code) {
    if (is_refused(p, bt, code)) {
        history_refused(&p->s->hist, bt->number);
        batch_free(bt);
        return;
    }
    bool oldest = bt->pt->batches.next == &bt->link;
    if (code == 45 && p->plan->idempotent && !(oldest && !p->s->plan.lies)) {
        p->gave_up = p->s->plan.lies;
        stall(p, bt->pt);
        return;
    }
    if (!retriable(code) || (code == 56 && !server_may_refuse(p->s->server))) {
        world_fail(p->s->w, "produce: batch %u of producer %u (%s-%u): error %d", bt->number, p->index,
                   p->s->plan.topics[bt->pt->topic].name, bt->pt->part, code);
    }
    stall(p, bt->pt);
}

static void batch_answered(struct producer *p, struct batch *bt, const struct k_produce_resp_topic_part *m) {
    bt->flying = false;
    bt->pt->flying--;
    note(p, bt, m->error_code != 0 ? "refused, error" : "acknowledged at", m->error_code != 0 ? m->error_code : m->base_offset);
    if (m->error_code != 0) {
        batch_failed(p, bt, m->error_code);
        return;
    }
    history_acked(&p->s->hist, bt->number, m->base_offset);
    batch_free(bt);
}

static void match(struct request *rq, const struct k_produce_resp_topic *t, const struct k_produce_resp_topic_part *m, int v) {
    struct producer *p = rq->p;
    for (size_t i = 0; i < rq->n; i++) {
        const struct part *pt = rq->answered[i] ? NULL : rq->batches[i]->pt;
        bool same = pt && (v >= 13 ? uuid_eq(t->topic_id, p->s->hist.ids[pt->topic]) : span_eq_str(t->name, p->s->plan.topics[pt->topic].name));
        if (same && pt->part == (uint32_t)m->index) {
            rq->answered[i] = true;
            batch_answered(p, rq->batches[i], m);
            return;
        }
    }
    world_fail(p->s->w, "produce v%d: an answer for a partition that was not asked", v);
}

static void lost(struct request *rq) {
    for (size_t i = 0; i < rq->n; i++) {
        struct batch *bt = rq->batches[i];
        bt->flying = false;
        bt->pt->flying--;
        stall(rq->p, bt->pt);
    }
}

static void answered(void *u, const void *resp, int v) {
    struct request *rq = u;
    struct producer *p = rq->p;
    const struct k_produce_resp *m = resp;
    size_t n = 0;
    p->requests--;
    for (int32_t i = 0; m && i < m->topics_n; i++) {
        for (int32_t k = 0; k < m->topics[i].partitions_n; k++, n++) {
            match(rq, &m->topics[i], &m->topics[i].partitions[k], v);
        }
    }
    if (!m) {
        lost(rq);
    } else if (n != rq->n) {
        world_fail(p->s->w, "produce v%d: %zu of %zu partitions answered", v, n, rq->n);
    }
    list_remove(&rq->link);
    mem_free(rq);
    if (m && p->plan->pause > 0) {
        tick_soon(p);
    } else if (m) {
        pump(p);
    }
}

/* ---- requests ---- */

static void send_request(struct producer *p, struct request *rq) {
    struct k_produce_req m;
    struct k_produce_req_topic topics[PLAN_TOPICS];
    struct k_produce_req_topic_part parts[PLAN_TOPICS][PLAN_PARTS];
    k_produce_req_init(&m);
    m.transactional_id = SPAN_NULL;
    m.acks = p->plan->acks;
    m.timeout_ms = 30000;
    m.topics = topics;
    m.topics_n = 0;
    for (uint32_t t = 0; t < p->s->plan.topics_n; t++) {
        struct k_produce_req_topic *tp = &topics[m.topics_n];
        k_produce_req_topic_init(tp);
        tp->name = span_str(p->s->plan.topics[t].name);
        tp->topic_id = p->s->hist.ids[t];
        tp->partitions = parts[t];
        tp->partitions_n = 0;
        for (size_t i = 0; i < rq->n; i++) {
            if (rq->batches[i]->pt->topic == t) {
                struct k_produce_req_topic_part *pt = &parts[t][tp->partitions_n++];
                k_produce_req_topic_part_init(pt);
                pt->index = (int32_t)rq->batches[i]->pt->part;
                pt->records = span_of(rq->batches[i]->bytes, rq->batches[i]->n);
            }
        }
        m.topics_n += tp->partitions_n > 0;
    }
    kclient_call(p->link.kc, K_PRODUCE, &m, p->plan->acks != 0 ? answered : NULL, rq);
}

/* acks=0: nobody will tell. */
static void forget_sent(struct request *rq) {
    for (size_t i = 0; i < rq->n; i++) {
        batch_free(rq->batches[i]);
    }
    mem_free(rq);
}

static bool send_one(struct producer *p) {
    struct request *rq = mem_zalloc(MEM_TEST, sizeof *rq);
    must(rq);
    rq->p = p;
    list_init(&rq->link);
    size_t first = prng_below(&p->s->rng, p->parts_n), most = prng_chance(&p->s->rng, 1, 2) ? 1 : p->parts_n;
    for (size_t i = 0; i < p->parts_n && rq->n < most; i++) {
        struct batch *bt = batch_to_send(p, &p->parts[(first + i) % p->parts_n]);
        if (bt) {
            rq->batches[rq->n++] = bt;
        }
    }
    if (rq->n == 0) {
        mem_free(rq);
        return false;
    }
    send_request(p, rq);
    if (p->plan->acks == 0) {
        forget_sent(rq);
        return false;                  /* one at a time, or it would all go at once */
    }
    for (size_t i = 0; i < rq->n; i++) {
        note(p, rq->batches[i], "sent, acks", p->plan->acks);
        history_on_its_way(&p->s->hist, rq->batches[i]->number);
        rq->batches[i]->flying = true;
        rq->batches[i]->pt->flying++;
    }
    list_push_back(&p->open, &rq->link);
    p->requests++;
    return true;
}

static void id_known(void *u, const void *resp, int v) {
    struct producer *p = u;
    const struct k_init_producer_id_resp *m = resp;
    (void)v;
    p->asking = false;
    if (m && m->error_code != 0 && !(server_may_refuse(p->s->server) && retriable(m->error_code))) {
        world_fail(p->s->w, "InitProducerId: error %d", m->error_code);
    }
    if (m && m->error_code == 0) {
        p->id = m->producer_id;
        p->epoch = m->producer_epoch;
        history_producer_id(&p->s->hist, p->id);
    }
    tick_soon(p);
}

static void ask_id(struct producer *p) {
    struct k_init_producer_id_req m;
    k_init_producer_id_req_init(&m);
    m.transactional_id = SPAN_NULL;
    m.transaction_timeout_ms = 60000;
    p->asking = true;
    kclient_call(p->link.kc, K_INIT_PRODUCER_ID, &m, id_known, p);
}

static void unstall(struct producer *p) {
    for (size_t i = 0; i < p->parts_n; i++) {
        p->parts[i].stalled = p->parts[i].stalled && p->parts[i].flying > 0;
    }
}

static void pump(struct producer *p) {
    if (!link_is_up(&p->link) || p->gave_up) {
        return;                        /* on_up comes here again */
    }
    if (p->plan->idempotent && p->id < 0) {
        if (!p->asking) {
            ask_id(p);
        }
        return;
    }
    if (p->ticking) {
        return;                        /* a pause was wanted */
    }
    unstall(p);
    while (p->requests < p->plan->window && send_one(p)) {
    }
    if (!producer_is_done(p) && p->requests == 0) {
        tick_soon(p);
    }
}

static void on_up(void *u) {
    pump(u);
}

/* For an idempotent producer: it may forget sequences, or refuse batches. */
static bool is_unfit(const struct plan_topic *t) { return t->caching || t->message_max > 0 || t->times_checked; }

struct producer *producer_new(struct sim *s, size_t index) {
    struct producer *p = mem_zalloc(MEM_TEST, sizeof *p);
    must(p);
    p->s = s;
    p->plan = &s->plan.producers[index];
    p->index = (uint32_t)index;
    list_init(&p->open);
    p->id = -1;
    p->left = p->plan->batches;
    for (uint32_t t = 0; t < s->plan.topics_n; t++) {
        for (uint32_t i = 0; !(p->plan->idempotent && is_unfit(&s->plan.topics[t])) && i < (uint32_t)s->plan.topics[t].parts; i++) {
            struct part *pt = &p->parts[p->parts_n++];
            pt->topic = t;
            pt->part = i;
            list_init(&pt->batches);
        }
    }
    if (p->parts_n == 0) {
        p->gave_up = true;             /* only topics that may forget sequences or refuse batches */
    }
    link_open(&p->link, s, on_up, NULL, p);
    if (p->plan->codec == CODEC_ZSTD) {
        link_at_least(&p->link, K_PRODUCE, 7);
    }
    return p;
}

void producer_free(struct producer *p) {
    if (!p) {
        return;
    }
    link_close(&p->link);
    while (!list_empty(&p->open)) {    /* only where a disk lied */
        struct request *rq = list_entry(list_pop_front(&p->open), struct request, link);
        mem_free(rq);
    }
    for (size_t i = 0; i < p->parts_n; i++) {
        while (!list_empty(&p->parts[i].batches)) {
            batch_free(list_entry(p->parts[i].batches.next, struct batch, link));
        }
    }
    mem_free(p);
}

bool producer_is_done(const struct producer *p) {
    if (p->gave_up) {
        return true;
    }
    for (size_t i = 0; i < p->parts_n; i++) {
        if (!list_empty(&p->parts[i].batches)) {
            return false;
        }
    }
    return p->left == 0 || p->s->phase > SIM_SAFETY;
}
