/* Makes the topics of the plan; then, for as long as the safety phase lasts, makes a topic, sees it through another connection (and so
 * mostly through another shard), deletes it and sees it gone (S4.12; DESIGN 4, metadata log).
 *
 * Happy path: CreateTopics -> Metadata until all ids are known -> ready. Then create, look, delete, look, and again.
 * Failure modes: an answer that contradicts one before fails the run; a connection that ends leaves the step to be repeated.
 * Runs on: the test. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "link.h"
#include "wire/k_create_topics.h"
#include "wire/k_delete_records.h"
#include "wire/k_delete_topics.h"
#include "wire/k_metadata.h"

enum step { MAKE_PLAN, LEARN_IDS, IDLE, TRIM, CREATE, SEE_IT, DELETE, SEE_IT_GONE };

struct admin {
    struct sim *s;
    struct link link, other;
    enum step step;
    bool busy;                         /* an answer or a timer is awaited */
    bool unsure;                       /* a create or delete may have happened without an answer */
    uint32_t scratch;                  /* number of the topic being made and deleted */
    char name[32];
    uint64_t cycles;
    uint32_t topic, part;              /* whose records are being deleted */
};

enum { NONE = 0, OUT_OF_RANGE = 1, UNKNOWN_TOPIC = 3, TOPIC_EXISTS = 36, STORAGE = 56, TIMED_OUT = 7, NOT_CONTROLLER = 41 };

static void go(void *u);

static void later(struct admin *ad) {
    ad->busy = true;
    world_after(ad->s->w, sim_soon(ad->s), go, ad);
}

static void next(struct admin *ad, enum step step) {
    ad->step = step;
    later(ad);
}

static void refuse(struct admin *ad, const char *what, const char *name, int code) {
    bool excused = server_may_refuse(ad->s->server);
    bool known = code == STORAGE || code == TIMED_OUT || code == NOT_CONTROLLER;
    if (!known || !excused) {
        world_fail(ad->s->w, "%s '%s': error %d", what, name, code);
    }
    ad->unsure = true;
    later(ad);
}

/* ---- creating ---- */

static void plan_made(void *u, const void *resp, int v) {
    struct admin *ad = u;
    const struct k_create_topics_resp *m = resp;
    (void)v;
    if (!m) {
        later(ad);
        return;
    }
    for (int32_t i = 0; i < m->topics_n; i++) {
        int16_t code = m->topics[i].error_code;
        if (code != NONE && code != TOPIC_EXISTS) {
            refuse(ad, "create", "plan", code);
            return;
        }
    }
    next(ad, LEARN_IDS);
}

static void make_plan(struct admin *ad) {
    static const char *const codecs[] = {"uncompressed", "gzip", "snappy", "lz4", "zstd"};
    struct k_create_topics_req m;
    struct k_create_topics_req_topic topics[PLAN_TOPICS];
    struct k_create_topics_req_topic_config configs[PLAN_TOPICS][8];
    char bytes[PLAN_TOPICS][24], keep[PLAN_TOPICS][24], age[PLAN_TOPICS][24], largest[PLAN_TOPICS][24];
    const struct plan *p = &ad->s->plan;
    k_create_topics_req_init(&m);
    for (size_t i = 0; i < p->topics_n; i++) {
        const struct plan_topic *t = &p->topics[i];
        k_create_topics_req_topic_init(&topics[i]);
        topics[i].name = span_str(t->name);
        topics[i].partitions = t->parts_first;
        topics[i].replication_factor = 1;
        (void)snprintf(bytes[i], sizeof bytes[i], "%lld", (long long)t->segment_bytes);
        (void)snprintf(keep[i], sizeof keep[i], "%lld", (long long)t->retention_bytes);
        (void)snprintf(age[i], sizeof age[i], "%lld", (long long)t->retention_age);
        for (size_t k = 0; k < 8; k++) {
            k_create_topics_req_topic_config_init(&configs[i][k]);
        }
        configs[i][0].name = SPAN_LIT("segment.bytes");
        configs[i][0].value = span_str(bytes[i]);
        configs[i][1].name = SPAN_LIT("write.caching");
        configs[i][1].value = span_str(t->caching ? "true" : "false");
        configs[i][2].name = SPAN_LIT("message.timestamp.type");
        configs[i][2].value = span_str(t->append_time ? "LogAppendTime" : "CreateTime");
        configs[i][3].name = SPAN_LIT("retention.bytes");
        configs[i][3].value = span_str(keep[i]);
        configs[i][4].name = SPAN_LIT("retention.ms");
        configs[i][4].value = span_str(age[i]);
        topics[i].configs = configs[i];
        topics[i].configs_n = 5;
        if (t->message_max > 0) {
            (void)snprintf(largest[i], sizeof largest[i], "%lld", (long long)t->message_max);
            configs[i][topics[i].configs_n].name = SPAN_LIT("max.message.bytes");
            configs[i][topics[i].configs_n++].value = span_str(largest[i]);
        }
        if (t->codec >= 0) {
            configs[i][topics[i].configs_n].name = SPAN_LIT("compression.type");
            configs[i][topics[i].configs_n++].value = span_str(codecs[t->codec]);
        }
        if (t->times_checked) {
            configs[i][topics[i].configs_n].name = SPAN_LIT("message.timestamp.before.max.ms");
            configs[i][topics[i].configs_n++].value = SPAN_LIT("1000");
        }
    }
    m.topics = topics;
    m.topics_n = (int32_t)p->topics_n;
    m.timeout_ms = 10000;
    kclient_call(ad->link.kc, K_CREATE_TOPICS, &m, plan_made, ad);
}

static void ids_seen(void *u, const void *resp, int v) {
    struct admin *ad = u;
    const struct k_metadata_resp *m = resp;
    (void)v;
    size_t known = 0;
    for (int32_t i = 0; m && i < m->topics_n; i++) {
        for (size_t t = 0; t < ad->s->plan.topics_n; t++) {
            if (m->topics[i].error_code == NONE && span_eq_str(m->topics[i].name, ad->s->plan.topics[t].name)) {
                if (m->topics[i].partitions_n != ad->s->plan.topics[t].parts_first || uuid_is_zero(m->topics[i].topic_id)) {
                    world_fail(ad->s->w, "metadata of '%s': %d partitions", ad->s->plan.topics[t].name, m->topics[i].partitions_n);
                }
                ad->s->hist.ids[t] = m->topics[i].topic_id;
                known++;
            }
        }
    }
    if (m && known != ad->s->plan.topics_n) {
        world_fail(ad->s->w, "S4.12: %zu of %zu topics visible after they were made", known, ad->s->plan.topics_n);
    }
    next(ad, m ? IDLE : LEARN_IDS);
}

static void ask_metadata(struct link *l, kclient_done *done, struct admin *ad) {
    struct k_metadata_req m;
    k_metadata_req_init(&m);
    m.topics_n = -1;                   /* all (S4.1) */
    m.allow_auto_create = false;
    kclient_call(l->kc, K_METADATA, &m, done, ad);
}

/* ---- records go ---- */

static void trimmed(void *u, const void *resp, int v) {
    struct admin *ad = u;
    struct sim *s = ad->s;
    const struct k_delete_records_resp *m = resp;
    (void)v;
    if (m) {
        const struct k_delete_records_resp_topic_part *p = m->topics_n == 1 ? &m->topics[0].partitions[0] : NULL;
        int16_t code = p ? p->error_code : -1;
        bool weak = history_is_weak(&s->hist, ad->topic);          /* what was read may have been taken back */
        bool young = code == UNKNOWN_TOPIC && ad->part >= (uint32_t)s->plan.topics[ad->topic].parts_first;   /* perhaps not yet added */
        if (code == NONE) {
            history_delete_acked(&s->hist, ad->topic, ad->part, p->low_watermark);
        } else if (!young && !(code == OUT_OF_RANGE && weak) && !((code == STORAGE || code == TIMED_OUT || code == UNKNOWN_TOPIC) && server_may_refuse(s->server))) {
            world_fail(s->w, "DeleteRecords of %s-%u: error %d", s->plan.topics[ad->topic].name, ad->part, code);
        }
    }
    next(ad, IDLE);
}

/* Up to an offset that somebody read, or all. False: no topic of the plan wants it. */
static bool trim(struct admin *ad) {
    struct sim *s = ad->s;
    ad->topic = (uint32_t)prng_below(&s->rng, s->plan.topics_n);
    const struct plan_topic *t = &s->plan.topics[ad->topic];
    if (!t->deletes) {
        return false;
    }
    ad->part = (uint32_t)prng_below(&s->rng, (uint64_t)t->parts);
    struct k_delete_records_req m;
    struct k_delete_records_req_topic topic;
    struct k_delete_records_req_topic_part p;
    k_delete_records_req_init(&m);
    k_delete_records_req_topic_init(&topic);
    k_delete_records_req_topic_part_init(&p);
    p.index = (int32_t)ad->part;
    p.offset = prng_chance(&s->rng, 1, 4) ? -1 : (off64)prng_below(&s->rng, (uint64_t)s->hist.parts[ad->topic][ad->part].read_end + 1);
    history_delete_asked(&s->hist, ad->topic, ad->part, p.offset);
    topic.name = span_str(t->name);
    topic.partitions = &p;
    topic.partitions_n = 1;
    m.topics = &topic;
    m.topics_n = 1;
    m.timeout_ms = 10000;
    ad->step = TRIM;
    kclient_call(ad->link.kc, K_DELETE_RECORDS, &m, trimmed, ad);
    return true;
}

/* ---- a topic for a while ---- */

static void created(void *u, const void *resp, int v) {
    struct admin *ad = u;
    const struct k_create_topics_resp *m = resp;
    (void)v;
    if (!m) {
        ad->unsure = true;
        later(ad);
        return;
    }
    int16_t code = m->topics_n == 1 ? m->topics[0].error_code : -1;
    if (code == TOPIC_EXISTS && (ad->unsure || ad->s->plan.lies)) {
        code = NONE;
    }
    if (code != NONE) {
        refuse(ad, "create", ad->name, code);
        return;
    }
    ad->unsure = false;
    next(ad, SEE_IT);
}

static void create(struct admin *ad) {
    struct k_create_topics_req m;
    struct k_create_topics_req_topic t;
    k_create_topics_req_init(&m);
    k_create_topics_req_topic_init(&t);
    t.name = span_str(ad->name);
    t.partitions = (int32_t)(1 + ad->scratch % 5);
    t.replication_factor = 1;
    m.topics = &t;
    m.topics_n = 1;
    m.timeout_ms = 10000;
    kclient_call(ad->link.kc, K_CREATE_TOPICS, &m, created, ad);
}

static bool shows(const struct admin *ad, const struct k_metadata_resp *m) {
    for (int32_t i = 0; i < m->topics_n; i++) {
        if (span_eq_str(m->topics[i].name, ad->name)) {
            return true;
        }
    }
    return false;
}

static void looked(void *u, const void *resp, int v) {
    struct admin *ad = u;
    const struct k_metadata_resp *m = resp;
    (void)v;
    if (!m) {
        later(ad);
        return;
    }
    bool there = shows(ad, m), wanted = ad->step == SEE_IT;
    if (there != wanted && !ad->s->plan.lies) {
        world_fail(ad->s->w, "S4.12: topic '%s' is %s after it was %s", ad->name, there ? "there" : "not there", wanted ? "made" : "deleted");
    }
    if (wanted) {
        next(ad, DELETE);
        return;
    }
    ad->cycles++;
    next(ad, IDLE);
}

static void deleted(void *u, const void *resp, int v) {
    struct admin *ad = u;
    const struct k_delete_topics_resp *m = resp;
    (void)v;
    if (!m) {
        ad->unsure = true;
        later(ad);
        return;
    }
    int16_t code = m->topics_n == 1 ? m->topics[0].error_code : -1;
    if (code == UNKNOWN_TOPIC && (ad->unsure || ad->s->plan.lies)) {
        code = NONE;
    }
    if (code != NONE) {
        refuse(ad, "delete", ad->name, code);
        return;
    }
    ad->unsure = false;
    next(ad, SEE_IT_GONE);
}

static void delete(struct admin *ad) {
    struct k_delete_topics_req m;
    struct k_delete_topics_req_topic t;
    span name = span_str(ad->name);
    k_delete_topics_req_init(&m);
    k_delete_topics_req_topic_init(&t);
    t.name = name;
    m.topics = &t;
    m.topics_n = 1;
    m.topic_names = &name;
    m.topic_names_n = 1;
    m.timeout_ms = 10000;
    kclient_call(ad->link.kc, K_DELETE_TOPICS, &m, deleted, ad);
}

static void begin_cycle(struct admin *ad) {
    (void)snprintf(ad->name, sizeof ad->name, "scratch-%u", ++ad->scratch);
    ad->unsure = false;
    ad->step = CREATE;
    create(ad);
}

static void go(void *u) {
    struct admin *ad = u;
    ad->busy = false;
    struct link *l = ad->step == SEE_IT || ad->step == SEE_IT_GONE ? &ad->other : &ad->link;
    if (!link_is_up(l)) {
        return;                        /* its on_up comes here again */
    }
    ad->busy = true;
    switch (ad->step) {
    case MAKE_PLAN:
        make_plan(ad);
        break;
    case LEARN_IDS:
        ask_metadata(l, ids_seen, ad);
        break;
    case IDLE:
        if (ad->s->phase == SIM_SAFETY) {
            if (prng_chance(&ad->s->rng, 1, 3) || !trim(ad)) {
                begin_cycle(ad);
            }
        } else {
            later(ad);
        }
        break;
    case TRIM:                         /* its answer was lost: whether it happened, the log start tells */
        next(ad, IDLE);
        break;
    case CREATE:
        create(ad);
        break;
    case DELETE:
        delete(ad);
        break;
    case SEE_IT:
    case SEE_IT_GONE:
        ask_metadata(l, looked, ad);
        break;
    }
}

static void on_up(void *u) {
    struct admin *ad = u;
    if (!ad->busy) {
        go(ad);
    }
}

struct admin *admin_new(struct sim *s) {
    struct admin *ad = mem_zalloc(MEM_TEST, sizeof *ad);
    must(ad);
    ad->s = s;
    link_open(&ad->link, s, on_up, NULL, ad);
    link_open(&ad->other, s, on_up, NULL, ad);
    link_at_least(&ad->link, K_METADATA, 10);          /* topic ids */
    return ad;
}

void admin_free(struct admin *ad) {
    if (ad) {
        link_close(&ad->link);
        link_close(&ad->other);
        mem_free(ad);
    }
}

bool admin_is_ready(const struct admin *ad) {
    return ad->step >= IDLE;
}

bool admin_is_done(const struct admin *ad) {
    return ad->step == IDLE;
}

uint64_t admin_cycles(const struct admin *ad) {
    return ad->cycles;
}
