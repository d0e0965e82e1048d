/* Changes what the topics of the plan are like while everybody works: partitions are added until there are as many as planned, settings are set and
 * taken back (S4.16, S16.7 to 16.9). What was told done is seen through another connection, and so mostly through another shard.
 *
 * Happy path: a pause, then CreatePartitions or IncrementalAlterConfigs of one topic, then a look: Metadata, or DescribeConfigs. In the healing phase
 * all that is missing is grown, and nothing else is done.
 * Failure modes: no answer, or an error that a stop or the disk explains: the step may have happened; the same is wished again. What contradicts an
 * answer given before fails the run.
 * Runs on: the test. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "link.h"
#include "wire/k_create_partitions.h"
#include "wire/k_describe_configs.h"
#include "wire/k_incremental_alter_configs.h"
#include "wire/k_metadata.h"

enum { NONE = 0, TIMED_OUT = 7, INVALID_PARTITIONS = 37, NOT_CONTROLLER = 41, STORAGE = 56 };
enum { RESOURCE_TOPIC = 2, OP_SET = 0, OP_DELETE = 1 };
enum step { PAUSE, GROW, SEE_PARTS, ALTER, SEE_CONF };

struct choice {
    const char *key;
    int64_t least, most;
};
/* Nothing that changes what is promised, or makes a batch too large (segment.bytes: never less than planned). */
static const struct choice choices[] = {
    {"segment.bytes", 0, 1 << 20},        {"segment.ms", 20, 5000},  {"index.interval.bytes", 0, 8192},
    {"segment.index.bytes", 24, 2000},    {"segment.jitter.ms", 0, 500},
};
#define CHOICES (sizeof choices / sizeof *choices)

struct wish {                              /* what one setting of one topic should be */
    bool set, unsure;
    int64_t value;
};

struct meddler {
    struct sim *s;
    struct link link, other;
    enum step step;
    bool busy;                             /* an answer or a timer is awaited */
    uint32_t topic;
    size_t choice;
    int32_t parts[PLAN_TOPICS], count;     /* told so; wished now */
    bool parts_unsure[PLAN_TOPICS];
    struct wish wishes[PLAN_TOPICS][CHOICES];
    uint64_t changes;
};

static void go(void *u);

static void later(struct meddler *md, ms pause) {
    md->busy = true;
    world_after(md->s->w, pause, go, md);
}

static void next(struct meddler *md, enum step step) {
    md->step = step;
    later(md, step == PAUSE ? 1 + (ms)prng_below(&md->s->rng, 150) : sim_soon(md->s));
}

static const char *topic_name(const struct meddler *md) { return md->s->plan.topics[md->topic].name; }

/* An error that has an excuse: try again. */
static void refuse(struct meddler *md, const char *what, int code) {
    bool known = code == STORAGE || code == TIMED_OUT || code == NOT_CONTROLLER;
    if (!known || !server_may_refuse(md->s->server)) {
        world_fail(md->s->w, "%s of '%s': error %d", what, topic_name(md), code);
    }
    later(md, sim_soon(md->s));
}

/* ---- partitions ---- */

static void grown(void *u, const void *resp, int v) {
    struct meddler *md = u;
    const struct k_create_partitions_resp *m = resp;
    (void)v;
    if (!m) {
        md->parts_unsure[md->topic] = true;
        later(md, sim_soon(md->s));
        return;
    }
    int16_t code = m->results_n == 1 ? m->results[0].error_code : -1;
    if (code == INVALID_PARTITIONS && md->parts_unsure[md->topic]) {   /* it has them since a try that nobody answered */
        code = NONE;
    }
    if (code != NONE) {
        md->parts_unsure[md->topic] = true;
        refuse(md, "growth", code);
        return;
    }
    md->parts_unsure[md->topic] = false;
    md->parts[md->topic] = md->s->parts_there[md->topic] = md->count;
    md->changes++;
    next(md, SEE_PARTS);
}

static void grow(struct meddler *md) {
    struct k_create_partitions_req m;
    struct k_create_partitions_req_topic t;
    k_create_partitions_req_init(&m);
    k_create_partitions_req_topic_init(&t);
    t.name = span_str(topic_name(md));
    t.count = md->count;
    t.assignments_n = -1;                  /* the broker's choice */
    m.topics = &t;
    m.topics_n = 1;
    m.timeout_ms = 10000;
    kclient_call(md->link.kc, K_CREATE_PARTITIONS, &m, grown, md);
}

static void parts_seen(void *u, const void *resp, int v) {
    struct meddler *md = u;
    const struct k_metadata_resp *m = resp;
    (void)v;
    for (int32_t i = 0; m && i < m->topics_n; i++) {
        if (span_eq_str(m->topics[i].name, topic_name(md)) && m->topics[i].partitions_n != md->parts[md->topic] && !md->s->plan.lies) {
            world_fail(md->s->w, "S4.16: '%s' has %d partitions, %d were told", topic_name(md), m->topics[i].partitions_n, md->parts[md->topic]);
        }
    }
    next(md, m ? PAUSE : SEE_PARTS);
}

static void see_parts(struct meddler *md) {
    struct k_metadata_req m;
    k_metadata_req_init(&m);
    m.topics_n = -1;
    m.allow_auto_create = false;
    kclient_call(md->other.kc, K_METADATA, &m, parts_seen, md);
}

/* ---- settings ---- */

static void altered(void *u, const void *resp, int v) {
    struct meddler *md = u;
    const struct k_incremental_alter_configs_resp *m = resp;
    (void)v;
    int16_t code = m ? m->responses_n == 1 ? m->responses[0].error_code : -1 : NONE;
    if (code != NONE) {
        refuse(md, "settings", code);
    } else if (!m) {
        later(md, sim_soon(md->s));        /* the same again */
    } else {
        md->wishes[md->topic][md->choice].unsure = false;
        md->changes++;
        next(md, SEE_CONF);
    }
}

static void alter(struct meddler *md) {
    struct k_incremental_alter_configs_req m;
    struct k_incremental_alter_configs_req_resource r;
    struct k_incremental_alter_configs_req_resource_config c;
    const struct wish *w = &md->wishes[md->topic][md->choice];
    char value[24];
    k_incremental_alter_configs_req_init(&m);
    k_incremental_alter_configs_req_resource_init(&r);
    k_incremental_alter_configs_req_resource_config_init(&c);
    (void)snprintf(value, sizeof value, "%lld", (long long)w->value);
    c.name = span_str(choices[md->choice].key);
    c.op = w->set ? OP_SET : OP_DELETE;
    c.value = w->set ? span_str(value) : SPAN_NULL;
    r.type = RESOURCE_TOPIC;
    r.name = span_str(topic_name(md));
    r.configs = &c;
    r.configs_n = 1;
    m.resources = &r;
    m.resources_n = 1;
    kclient_call(md->link.kc, K_INCREMENTAL_ALTER_CONFIGS, &m, altered, md);
}

static void judge_conf(struct meddler *md, const struct k_describe_configs_resp_result_config *c) {
    const struct wish *w = &md->wishes[md->topic][md->choice];
    char value[24];
    (void)snprintf(value, sizeof value, "%lld", (long long)w->value);
    if (!span_eq_str(c->name, choices[md->choice].key) || (w->set && !span_eq_str(c->value, value))) {
        world_fail(md->s->w, "S16.9: %s of '%s' is %.*s, %s was told", choices[md->choice].key, topic_name(md), (int)c->value.n,
                   (const char *)c->value.p, w->set ? value : "its default");
    }
}

static void conf_seen(void *u, const void *resp, int v) {
    struct meddler *md = u;
    const struct k_describe_configs_resp *m = resp;
    (void)v;
    int16_t code = m ? m->results_n == 1 ? m->results[0].error_code : -1 : NONE;
    if (code != NONE) {
        refuse(md, "description", code);
        return;
    }
    if (m && m->results[0].configs_n != 1) {
        world_fail(md->s->w, "DescribeConfigs of one key of '%s': %d", topic_name(md), m->results[0].configs_n);
    }
    if (m && !md->s->plan.lies) {
        judge_conf(md, &m->results[0].configs[0]);
    }
    next(md, m ? PAUSE : SEE_CONF);
}

static void see_conf(struct meddler *md) {
    struct k_describe_configs_req m;
    struct k_describe_configs_req_resource r;
    span key = span_str(choices[md->choice].key);
    k_describe_configs_req_init(&m);
    k_describe_configs_req_resource_init(&r);
    r.type = RESOURCE_TOPIC;
    r.name = span_str(topic_name(md));
    r.keys = &key;
    r.keys_n = 1;
    m.resources = &r;
    m.resources_n = 1;
    kclient_call(md->other.kc, K_DESCRIBE_CONFIGS, &m, conf_seen, md);
}

/* ---- what next ---- */

static bool wish_parts(struct meddler *md) {
    const struct plan *p = &md->s->plan;
    bool all = md->s->phase > SIM_SAFETY;
    for (size_t i = 0; i < p->topics_n; i++) {
        md->topic = (uint32_t)((md->topic + 1) % p->topics_n);
        int32_t have = md->parts[md->topic], most = p->topics[md->topic].parts;
        if (have < most && (all || prng_chance(&md->s->rng, 1, 3))) {
            md->count = all || md->parts_unsure[md->topic] ? most : have + 1 + (int32_t)prng_below(&md->s->rng, (uint64_t)(most - have));
            return true;
        }
    }
    return false;
}

static void wish_setting(struct meddler *md) {
    struct prng *r = &md->s->rng;
    md->topic = (uint32_t)prng_below(r, md->s->plan.topics_n);
    md->choice = prng_below(r, CHOICES);
    const struct choice *c = &choices[md->choice];
    int64_t least = md->choice == 0 ? md->s->plan.topics[md->topic].segment_bytes : c->least;
    md->wishes[md->topic][md->choice] = (struct wish){
        .set = md->choice == 0 || prng_chance(r, 3, 4),
        .unsure = true,
        .value = least + (int64_t)prng_below(r, (uint64_t)(c->most - least) + 1),
    };
}

static void choose(struct meddler *md) {
    if (wish_parts(md)) {
        next(md, GROW);
    } else if (md->s->phase == SIM_SAFETY && md->s->plan.meddles) {
        wish_setting(md);
        next(md, ALTER);
    } else {
        next(md, PAUSE);
    }
}

static void go(void *u) {
    struct meddler *md = u;
    md->busy = false;
    if (!link_is_up(md->step == SEE_PARTS || md->step == SEE_CONF ? &md->other : &md->link)) {
        return;                            /* its on_up comes here again */
    }
    md->busy = true;
    switch (md->step) {
    case PAUSE:
        choose(md);
        break;
    case GROW:
        grow(md);
        break;
    case SEE_PARTS:
        see_parts(md);
        break;
    case ALTER:
        alter(md);
        break;
    case SEE_CONF:
        see_conf(md);
        break;
    }
}

static void on_up(void *u) {
    struct meddler *md = u;
    if (!md->busy) {
        go(md);
    }
}

struct meddler *meddler_new(struct sim *s) {
    struct meddler *md = mem_zalloc(MEM_TEST, sizeof *md);
    must(md);
    md->s = s;
    for (size_t i = 0; i < s->plan.topics_n; i++) {
        md->parts[i] = s->parts_there[i] = s->plan.topics[i].parts_first;
    }
    link_open(&md->link, s, on_up, NULL, md);
    link_open(&md->other, s, on_up, NULL, md);
    return md;
}

void meddler_free(struct meddler *md) {
    if (md) {
        link_close(&md->link);
        link_close(&md->other);
        mem_free(md);
    }
}

bool meddler_is_done(const struct meddler *md) {
    for (size_t i = 0; i < md->s->plan.topics_n; i++) {
        if (md->parts[i] < md->s->plan.topics[i].parts) {
            return false;
        }
    }
    return md->step == PAUSE;
}

uint64_t meddler_changes(const struct meddler *md) { return md->changes; }
