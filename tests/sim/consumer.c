/* A scripted consumer: reads its partitions in offset order and tells the history what it saw.
 *
 * Happy path: Fetch with random limits, each batch judged, the position moves behind it; now and then everything is read again from the start. After each
 * connection, and at times between, it asks where the epoch of its last batch ends, as real consumers do (KIP-320): before its position only where
 * records may be taken back, and then it goes back to there.
 * Some keep a fetch session (S7.30 to 7.39): they tell only what changed, leave partitions out for a while, try their luck with the old id on a new
 * connection. What such a session does not tell although there is news keeps the reader from its end.
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

struct told {                          /* what the fetch session knows of a place */
    bool in;
    off64 at;
    int32_t epoch, bytes;
};

struct place {
    uint32_t topic, part;
    off64 at;                          /* next offset */
    int32_t epoch;                     /* of the batch before it; -1: none */
    off64 end;                         /* final: where to stop; -1: not known yet */
    bool done;
    bool resting;                      /* left out of fetches for now */
    struct told told;
    struct history_marks marks;
    struct begin *begins;              /* final */
    size_t begins_n, begins_cap, asked;        /* asked: how many were asked of and answered */
};

struct consumer {
    struct sim *s;
    struct link link;
    bool final, ticking, asking;
    bool unsure;                       /* positions are to be validated before the next fetch */
    bool sessions, by_epoch;           /* keeps a session; last_fetched_epoch is told in it */
    bool session_unsure;               /* an answer was lost: nobody knows what the broker's session holds */
    int32_t session, session_epoch;    /* 0: none; the next request's */
    struct place places[PARTS_MAX];
    size_t places_n, done;
};

enum { OUT_OF_RANGE = 1, NO_SESSION = 70 };

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
    if (m->error_code == OUT_OF_RANGE && plan_goes(&c->s->plan.topics[pl->topic]) && m->log_start_offset > pl->at) {       /* T48 */
        pl->begins_n = 0;
        go_to(pl, m->log_start_offset);
        return;
    }
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

/* ---- fetch sessions ---- */

static bool has_session(const struct consumer *c) {
    return c->sessions && kclient_version(c->link.kc, K_FETCH) >= 7;
}

static void session_again(struct consumer *c, int32_t id) {
    c->session = id;
    c->session_epoch = 0;
}

/* What the answer says of the session; false: it says nothing else. */
static bool session_told(struct consumer *c, const struct k_fetch_resp *m, int v) {
    if (c->session_epoch > 0 && m->error_code == NO_SESSION) { /* evicted, another shard's, or the broker's last life's */
        session_again(c, 0);
        tick_soon(c);
        return false;
    }
    bool same = c->session_epoch > 0 ? m->session_id == c->session : has_session(c) || m->session_id == 0;
    if (m->error_code != 0 || !same) {
        world_fail(c->s->w, "S7.32: fetch v%d in session %d, epoch %d: error %d, session %d", v, c->session, c->session_epoch, m->error_code,
                   m->session_id);
    }
    c->session = m->session_id;
    c->session_epoch = c->session != 0 ? c->session_epoch + 1 : 0;
    return true;
}

static void fetched(void *u, const void *resp, int v) {
    struct consumer *c = u;
    const struct k_fetch_resp *m = resp;
    c->asking = false;
    if (!m) {
        c->session_unsure = true;
        return;                        /* on_up goes on */
    }
    if (!session_told(c, m, v)) {
        return;
    }
    for (int32_t i = 0; i < m->topics_n; i++) {
        const struct k_fetch_resp_topic *t = &m->topics[i];
        for (int32_t k = 0; k < t->partitions_n; k++) {
            part_fetched(c, place_of(c, t->topic, t->topic_id, v >= 13, t->partitions[k].partition), &t->partitions[k]);
        }
    }
    go(c);
}

/* ---- the request ---- */

struct fetching {
    struct k_fetch_req m;
    struct k_fetch_req_topic topics[PLAN_TOPICS];
    struct k_fetch_req_topic_part parts[PLAN_TOPICS][PLAN_PARTS];
    struct k_fetch_req_forgotten forgotten[PLAN_TOPICS];
    int32_t forgotten_parts[PLAN_TOPICS][PLAN_PARTS];
};

static int32_t some_limit(struct consumer *c) {
    return prng_chance(&c->s->rng, 1, 3) ? 1 + (int32_t)prng_below(&c->s->rng, 20000) : 1 << 20;
}

/* At times a place is left out; never all of them. */
static void rest_some(struct consumer *c) {
    bool any = false;
    for (size_t i = 0; i < c->places_n; i++) {
        struct place *pl = &c->places[i];
        if (!c->final && prng_chance(&c->s->rng, 1, 30)) {
            pl->resting = !pl->resting;
        }
        any = any || !(pl->resting || pl->done);
    }
    for (size_t i = 0; i < c->places_n && !any; i++) {
        c->places[i].resting = false;
    }
}

/* In a session only news are said. */
static bool must_tell(struct consumer *c, struct place *pl) {
    bool whole = c->session_epoch == 0;            /* no session, or a new one */
    struct told now = {true, pl->at, c->by_epoch ? pl->epoch : -1, pl->told.bytes};
    if (whole || !pl->told.in || prng_chance(&c->s->rng, 1, 8)) {
        now.bytes = some_limit(c);
    }
    bool news = !pl->told.in || pl->told.at != now.at || pl->told.epoch != now.epoch || pl->told.bytes != now.bytes;
    pl->told = now;
    return whole || news;
}

static void tell_part(struct consumer *c, struct fetching *f, struct k_fetch_req_topic *tp, struct place *pl) {
    struct k_fetch_req_topic_part *pt = &f->parts[pl->topic][tp->partitions_n++];
    (void)c;
    k_fetch_req_topic_part_init(pt);
    pt->partition = (int32_t)pl->part;
    pt->current_leader_epoch = -1;
    pt->last_fetched_epoch = pl->told.epoch;
    pt->fetch_offset = pl->told.at;
    pt->partition_max_bytes = pl->told.bytes;
}

static void tell_topic(struct consumer *c, struct fetching *f, uint32_t t) {
    struct k_fetch_req_topic *tp = &f->topics[f->m.topics_n];
    struct k_fetch_req_forgotten *fg = &f->forgotten[f->m.forgotten_n];
    k_fetch_req_topic_init(tp);
    k_fetch_req_forgotten_init(fg);
    tp->topic = fg->topic = span_str(c->s->plan.topics[t].name);
    tp->topic_id = fg->topic_id = c->s->hist.ids[t];
    tp->partitions = f->parts[t];
    tp->partitions_n = fg->partitions_n = 0;
    fg->partitions = f->forgotten_parts[t];
    for (size_t i = 0; i < c->places_n; i++) {
        struct place *pl = &c->places[i];
        if (pl->topic != t) {
            continue;
        }
        if (!pl->done && !pl->resting) {
            if (must_tell(c, pl)) {
                tell_part(c, f, tp, pl);
            }
        } else if (pl->told.in) {
            pl->told.in = false;
            if (c->session_epoch > 0) {
                f->forgotten_parts[t][fg->partitions_n++] = (int32_t)pl->part;
            }
        }
    }
    f->m.topics_n += tp->partitions_n > 0;
    f->m.forgotten_n += fg->partitions_n > 0;
}

static void fetch(struct consumer *c) {
    struct fetching f;
    bool session = has_session(c);
    k_fetch_req_init(&f.m);
    f.m.max_wait_ms = (int32_t)prng_below(&c->s->rng, 500);
    f.m.min_bytes = prng_chance(&c->s->rng, 1, 4) ? (int32_t)prng_below(&c->s->rng, 5000) : 1;
    f.m.max_bytes = some_limit(c);
    f.m.topics = f.topics;
    f.m.forgotten = f.forgotten;
    if (!session || c->session_epoch == 0) {
        c->by_epoch = prng_chance(&c->s->rng, 1, 2);           /* version 12 and later say it */
    }
    if (session) {
        rest_some(c);
    } else {
        session_again(c, 0);
    }
    f.m.session_id = c->session;
    f.m.session_epoch = session ? c->session_epoch : -1;
    for (uint32_t t = 0; t < c->s->plan.topics_n; t++) {
        tell_topic(c, &f, t);
    }
    c->asking = true;
    kclient_call(c->link.kc, K_FETCH, &f.m, fetched, c);
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
        bool trimmed = plan_goes(&c->s->plan.topics[pl->topic]) && !last && end > pl->begins[pl->asked].at;    /* S19.4: the log start is told */
        if (epoch != wanted || (last ? end < pl->at : end != pl->begins[pl->asked].at && !trimmed)) {
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

/* A new connection: the old session is given up, closed on the way to a new one, or gone on with as if nothing had been. */
static void on_up(void *u) {
    struct consumer *c = u;
    c->unsure = true;
    if (c->session != 0 && (c->session_unsure || prng_chance(&c->s->rng, 1, 2))) {
        session_again(c, prng_chance(&c->s->rng, 1, 2) ? c->session : 0);
    }
    c->session_unsure = false;
    go(c);
}

struct consumer *consumer_new(struct sim *s, bool final) {
    struct consumer *c = mem_zalloc(MEM_TEST, sizeof *c);
    must(c);
    c->s = s;
    c->final = final;
    c->sessions = prng_chance(&s->rng, 1, 2);
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
    link_at_least(&c->link, K_FETCH, 5);           /* the log start */
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
