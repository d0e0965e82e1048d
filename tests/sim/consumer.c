/* A scripted consumer: reads its partitions in offset order and tells the history what it saw.
 *
 * Happy path: Fetch with random limits, each batch judged, the position moves behind it; now and then everything is read again from the start. After each
 * connection, and at times between, it asks where the epoch of its last batch ends, as real consumers do (KIP-320): before its position only where
 * records may be taken back, and then it goes back to there.
 * The final reader asks ListOffsets for the ends first, reads up to all of them, then asks of each epoch it met: it must end where the next one begins.
 * Failure modes: errors that a restart explains are tried again; an offset out of range is only excused where records may be taken back.
 * Runs on: the test. */
#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "link.h"
#include "wire/k_fetch.h"
#include "wire/k_list_offsets.h"
#include "wire/k_offset_for_leader_epoch.h"

#define PARTS_MAX (PLAN_TOPICS * PLAN_PARTS)

struct begin {                         /* where an epoch begins, as read */
    int32_t epoch;
    off64 at;
};

struct place {
    uint32_t topic, part;
    off64 at;                          /* next offset */
    int32_t epoch;                     /* of the batch before it; -1: none */
    off64 end;                         /* final: where to stop; -1: not known yet */
    bool done;
    struct history_marks marks;
    struct begin *begins;              /* final */
    size_t begins_n, begins_cap, asked;        /* asked: how many were asked of and answered */
};

struct consumer {
    struct sim *s;
    struct link link;
    bool final, ticking, asking;
    bool unsure;                       /* positions are to be validated before the next fetch */
    struct place places[PARTS_MAX];
    size_t places_n, done;
};

enum { OUT_OF_RANGE = 1 };

static void go(struct consumer *c);

static void tick(void *u) {
    struct consumer *c = u;
    c->ticking = false;
    go(c);
}

static void tick_soon(struct consumer *c) {
    if (!c->ticking) {
        c->ticking = true;
        world_after(c->s->w, sim_soon(c->s), tick, c);
    }
}

static bool retriable(const struct consumer *c, int16_t code) {
    bool storage = code == 56 && server_may_refuse(c->s->server);
    return code == 3 || code == 5 || code == 6 || code == 9 || code == 100 || storage;
}

static struct place *place_of(struct consumer *c, span name, uuid id, bool by_id, int32_t part) {
    for (size_t i = 0; i < c->places_n; i++) {
        struct place *pl = &c->places[i];
        bool same = by_id ? uuid_eq(id, c->s->hist.ids[pl->topic]) : span_eq_str(name, c->s->plan.topics[pl->topic].name);
        if (same && pl->part == (uint32_t)part) {
            return pl;
        }
    }
    world_fail(c->s->w, "an answer for a partition that was not asked");
}

static struct history_where where(const struct consumer *c, const struct place *pl) {
    return (struct history_where){pl->topic, pl->part, pl->at, c->final};
}

static void go_to(struct place *pl, off64 at) {
    pl->at = at;
    pl->epoch = -1;
    pl->begins_n = at == 0 ? 0 : pl->begins_n;
}

/* ---- reading ---- */

static void note_epoch(struct consumer *c, struct place *pl, const struct batch_head *head) {
    bool begins = pl->begins_n == 0 || pl->begins[pl->begins_n - 1].epoch < head->leader_epoch;
    pl->epoch = head->leader_epoch;
    if (!c->final || !begins) {
        return;
    }
    if (pl->begins_n == pl->begins_cap) {
        pl->begins_cap = pl->begins_cap ? pl->begins_cap * 2 : 8;
        pl->begins = mem_realloc(MEM_TEST, pl->begins, pl->begins_cap * sizeof *pl->begins);
        must(pl->begins);
    }
    pl->begins[pl->begins_n++] = (struct begin){head->leader_epoch, head->base_offset};
}

static void read_batches(struct consumer *c, struct place *pl, span records, off64 high) {
    while (records.n > 0) {
        struct batch_head head;
        if (batch_head_get(records, &head) == ERR_TORN) {
            break;                     /* cut by the size limit: read again */
        }
        if (head.base_offset + head.last_offset_delta >= high) {
            world_fail(c->s->w, "%s-%u: offset %lld is not below the high watermark %lld", c->s->plan.topics[pl->topic].name, pl->part,
                       (long long)(head.base_offset + head.last_offset_delta), (long long)high);
        }
        struct history_where at = where(c, pl);
        pl->at = history_read(&c->s->hist, &at, span_of(records.p, head.bytes));
        note_epoch(c, pl, &head);
        records.p += head.bytes;
        records.n -= head.bytes;
    }
}

static void arrive_at_end(struct consumer *c, struct place *pl) {
    if (c->final && !pl->done && pl->end >= 0 && pl->at >= pl->end) {
        struct history_where at = where(c, pl);
        history_final_end(&c->s->hist, &at, pl->at);
        pl->done = true;
        c->done++;
    }
}

static void part_fetched(struct consumer *c, struct place *pl, const struct k_fetch_resp_topic_part *m) {
    if (m->error_code == OUT_OF_RANGE && (c->s->plan.lies || c->s->plan.topics[pl->topic].caching)) {
        go_to(pl, 0);
        return;
    }
    if (m->error_code != 0) {
        if (!retriable(c, m->error_code)) {
            world_fail(c->s->w, "fetch of %s-%u at %lld: error %d", c->s->plan.topics[pl->topic].name, pl->part, (long long)pl->at,
                       m->error_code);
        }
        tick_soon(c);
        return;
    }
    if (m->diverging_epoch.epoch >= 0) {           /* S7.14 */
        if (!history_is_weak(&c->s->hist, pl->topic)) {
            world_fail(c->s->w, "S7.14: %s-%u was read up to %lld in epoch %d; told: diverges, epoch %d ends at %lld",
                       c->s->plan.topics[pl->topic].name, pl->part, (long long)pl->at, pl->epoch, m->diverging_epoch.epoch,
                       (long long)m->diverging_epoch.end_offset);
        }
        go_to(pl, m->diverging_epoch.end_offset < pl->at ? m->diverging_epoch.end_offset : 0);
        return;
    }
    struct history_where at = where(c, pl);
    off64 start = m->log_start_offset < 0 ? pl->marks.start : m->log_start_offset;     /* older versions do not tell */
    history_marks_seen(&c->s->hist, &pl->marks, &at, m->high_watermark, start);
    read_batches(c, pl, m->records, m->high_watermark);
    arrive_at_end(c, pl);
    if (!c->final && prng_chance(&c->s->rng, 1, 40)) {
        go_to(pl, 0);
    }
    c->unsure = c->unsure || prng_chance(&c->s->rng, 1, 100);
}

static void fetched(void *u, const void *resp, int v) {
    struct consumer *c = u;
    const struct k_fetch_resp *m = resp;
    c->asking = false;
    if (!m) {
        return;                        /* on_up goes on */
    }
    if (m->error_code != 0 || m->session_id != 0) {
        world_fail(c->s->w, "fetch v%d: error %d, session %d", v, m->error_code, m->session_id);
    }
    for (int32_t i = 0; i < m->topics_n; i++) {
        const struct k_fetch_resp_topic *t = &m->topics[i];
        for (int32_t k = 0; k < t->partitions_n; k++) {
            part_fetched(c, place_of(c, t->topic, t->topic_id, v >= 13, t->partitions[k].partition), &t->partitions[k]);
        }
    }
    go(c);
}

static int32_t some_limit(struct consumer *c) {
    return prng_chance(&c->s->rng, 1, 3) ? 1 + (int32_t)prng_below(&c->s->rng, 20000) : 1 << 20;
}

static void fetch(struct consumer *c) {
    struct k_fetch_req m;
    struct k_fetch_req_topic topics[PLAN_TOPICS];
    struct k_fetch_req_topic_part parts[PLAN_TOPICS][PLAN_PARTS];
    k_fetch_req_init(&m);
    m.max_wait_ms = (int32_t)prng_below(&c->s->rng, 500);
    m.min_bytes = prng_chance(&c->s->rng, 1, 4) ? (int32_t)prng_below(&c->s->rng, 5000) : 1;
    m.max_bytes = some_limit(c);
    m.session_epoch = -1;
    m.topics = topics;
    m.topics_n = 0;
    bool by_epoch = prng_chance(&c->s->rng, 1, 2); /* version 12 and later say it */
    for (uint32_t t = 0; t < c->s->plan.topics_n; t++) {
        struct k_fetch_req_topic *tp = &topics[m.topics_n];
        k_fetch_req_topic_init(tp);
        tp->topic = span_str(c->s->plan.topics[t].name);
        tp->topic_id = c->s->hist.ids[t];
        tp->partitions = parts[t];
        tp->partitions_n = 0;
        for (size_t i = 0; i < c->places_n; i++) {
            if (c->places[i].topic == t && !c->places[i].done) {
                struct k_fetch_req_topic_part *pt = &parts[t][tp->partitions_n++];
                k_fetch_req_topic_part_init(pt);
                pt->partition = (int32_t)c->places[i].part;
                pt->current_leader_epoch = -1;
                pt->last_fetched_epoch = by_epoch ? c->places[i].epoch : -1;
                pt->fetch_offset = c->places[i].at;
                pt->partition_max_bytes = some_limit(c);
            }
        }
        m.topics_n += tp->partitions_n > 0;
    }
    c->asking = true;
    kclient_call(c->link.kc, K_FETCH, &m, fetched, c);
}

/* ---- the final reader asks for the ends ---- */

static void ends_known(void *u, const void *resp, int v) {
    struct consumer *c = u;
    const struct k_list_offsets_resp *m = resp;
    (void)v;
    c->asking = false;
    for (int32_t i = 0; m && i < m->topics_n; i++) {
        for (int32_t k = 0; k < m->topics[i].partitions_n; k++) {
            const struct k_list_offsets_resp_topic_part *pt = &m->topics[i].partitions[k];
            struct place *pl = place_of(c, m->topics[i].name, (uuid){{0}}, false, pt->index);
            if (pt->error_code != 0 && !retriable(c, pt->error_code)) {
                world_fail(c->s->w, "ListOffsets of %s-%u: error %d", c->s->plan.topics[pl->topic].name, pl->part, pt->error_code);
            }
            pl->end = pt->error_code == 0 ? pt->offset : -1;
            arrive_at_end(c, pl);      /* an empty partition is read already */
        }
    }
    tick_soon(c);
}

static bool ends_missing(const struct consumer *c) {
    for (size_t i = 0; c->final && i < c->places_n; i++) {
        if (c->places[i].end < 0) {
            return true;
        }
    }
    return false;
}

static void ask_ends(struct consumer *c) {
    struct k_list_offsets_req m;
    struct k_list_offsets_req_topic topics[PLAN_TOPICS];
    struct k_list_offsets_req_topic_part parts[PLAN_TOPICS][PLAN_PARTS];
    k_list_offsets_req_init(&m);
    m.replica_id = -1;
    m.topics = topics;
    m.topics_n = (int32_t)c->s->plan.topics_n;
    for (size_t t = 0; t < c->s->plan.topics_n; t++) {
        k_list_offsets_req_topic_init(&topics[t]);
        topics[t].name = span_str(c->s->plan.topics[t].name);
        topics[t].partitions = parts[t];
        topics[t].partitions_n = c->s->plan.topics[t].parts;
        for (int32_t i = 0; i < c->s->plan.topics[t].parts; i++) {
            k_list_offsets_req_topic_part_init(&parts[t][i]);
            parts[t][i].index = i;
            parts[t][i].current_leader_epoch = -1;
            parts[t][i].timestamp = -1;
        }
    }
    c->asking = true;
    kclient_call(c->link.kc, K_LIST_OFFSETS, &m, ends_known, c);
}

/* ---- epochs ---- */

/* The epoch to ask of; -1: none. */
static int32_t epoch_wanted(const struct consumer *c, const struct place *pl) {
    if (c->final) {
        return pl->done && pl->asked < pl->begins_n && !c->s->plan.lies ? pl->begins[pl->asked].epoch : -1;
    }
    return c->unsure && pl->at > 0 ? pl->epoch : -1;
}

static void epoch_told(struct consumer *c, struct place *pl, int32_t epoch, off64 end) {
    int32_t wanted = epoch_wanted(c, pl);
    const char *topic = c->s->plan.topics[pl->topic].name;
    if (c->final) {
        bool last = ++pl->asked == pl->begins_n;
        if (epoch != wanted || (last ? end < pl->at : end != pl->begins[pl->asked].at)) {
            world_fail(c->s->w, "S4.20: epoch %d of %s-%u, read up to %lld, is told to be %d and to end at %lld", wanted, topic, pl->part,
                       (long long)(last ? pl->at : pl->begins[pl->asked].at), epoch, (long long)end);
        }
    } else if (epoch != wanted || end < pl->at) {
        if (!history_is_weak(&c->s->hist, pl->topic)) {
            world_fail(c->s->w, "S4.20: %s-%u was read up to %lld in epoch %d; told: epoch %d ends at %lld", topic, pl->part, (long long)pl->at,
                       wanted, epoch, (long long)end);
        }
        go_to(pl, end < 0 ? 0 : end < pl->at ? end : pl->at);
    }
}

static void epochs_told(void *u, const void *resp, int v) {
    struct consumer *c = u;
    const struct k_offset_for_leader_epoch_resp *m = resp;
    bool again = !m;
    (void)v;
    c->asking = false;
    for (int32_t i = 0; m && i < m->topics_n; i++) {
        for (int32_t k = 0; k < m->topics[i].partitions_n; k++) {
            const struct k_offset_for_leader_epoch_resp_topic_part *pt = &m->topics[i].partitions[k];
            struct place *pl = place_of(c, m->topics[i].topic, (uuid){{0}}, false, pt->partition);
            if (pt->error_code == 0) {
                epoch_told(c, pl, pt->leader_epoch, pt->end_offset);
            } else if (!retriable(c, pt->error_code)) {
                world_fail(c->s->w, "OffsetForLeaderEpoch of %s-%u: error %d", c->s->plan.topics[pl->topic].name, pl->part, pt->error_code);
            } else {
                again = true;
            }
        }
    }
    c->unsure = again;
    if (m && again) {
        tick_soon(c);
    } else if (m) {
        go(c);
    }
}

/* False: there is nothing to ask. */
static bool ask_epochs(struct consumer *c) {
    struct k_offset_for_leader_epoch_req m;
    struct k_offset_for_leader_epoch_req_topic topics[PLAN_TOPICS];
    struct k_offset_for_leader_epoch_req_topic_part parts[PLAN_TOPICS][PLAN_PARTS];
    k_offset_for_leader_epoch_req_init(&m);
    m.replica_id = -1;
    m.topics = topics;
    for (uint32_t t = 0; t < c->s->plan.topics_n; t++) {
        struct k_offset_for_leader_epoch_req_topic *tp = &topics[m.topics_n];
        k_offset_for_leader_epoch_req_topic_init(tp);
        tp->topic = span_str(c->s->plan.topics[t].name);
        tp->partitions = parts[t];
        for (size_t i = 0; i < c->places_n; i++) {
            int32_t epoch = c->places[i].topic == t ? epoch_wanted(c, &c->places[i]) : -1;
            if (epoch >= 0) {
                struct k_offset_for_leader_epoch_req_topic_part *pt = &parts[t][tp->partitions_n++];
                k_offset_for_leader_epoch_req_topic_part_init(pt);
                pt->partition = (int32_t)c->places[i].part;
                pt->current_leader_epoch = -1;
                pt->leader_epoch = epoch;
            }
        }
        m.topics_n += tp->partitions_n > 0;
    }
    if (m.topics_n > 0) {
        c->asking = true;
        kclient_call(c->link.kc, K_OFFSET_FOR_LEADER_EPOCH, &m, epochs_told, c);
    }
    return m.topics_n > 0;
}

static void go(struct consumer *c) {
    if (!link_is_up(&c->link) || c->asking || c->ticking || (c->final && consumer_is_done(c))) {
        return;
    }
    if (ends_missing(c)) {
        ask_ends(c);
    } else if (!ask_epochs(c)) {
        c->unsure = false;
        fetch(c);
    }
}

static void on_up(void *u) {
    struct consumer *c = u;
    c->unsure = true;
    go(c);
}

struct consumer *consumer_new(struct sim *s, bool final) {
    struct consumer *c = mem_zalloc(MEM_TEST, sizeof *c);
    must(c);
    c->s = s;
    c->final = final;
    bool all = final || prng_chance(&s->rng, 1, 2);
    for (uint32_t t = 0; t < s->plan.topics_n; t++) {
        for (uint32_t i = 0; i < (uint32_t)s->plan.topics[t].parts; i++) {
            if (all || prng_chance(&s->rng, 1, 2)) {
                c->places[c->places_n++] = (struct place){.topic = t, .part = i, .end = -1, .epoch = -1};
            }
        }
    }
    if (c->places_n == 0) {
        c->places[c->places_n++] = (struct place){.end = -1, .epoch = -1};
    }
    link_open(&c->link, s, on_up, NULL, c);
    link_at_least(&c->link, K_LIST_OFFSETS, 1);
    if (s->plan.zstd) {
        link_at_least(&c->link, K_FETCH, 10);
    }
    return c;
}

void consumer_free(struct consumer *c) {
    if (c) {
        link_close(&c->link);
        for (size_t i = 0; i < c->places_n; i++) {
            mem_free(c->places[i].begins);
        }
        mem_free(c);
    }
}

bool consumer_is_done(const struct consumer *c) {
    for (size_t i = 0; i < c->places_n; i++) {
        if (epoch_wanted(c, &c->places[i]) >= 0) {
            return false;
        }
    }
    return c->done == c->places_n;
}
