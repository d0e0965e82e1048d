/* The broker on the simulated node: its settings, its start, its nemesis.
 *
 * Happy path: boot makes settings and node on the node's heap; a watch starts the node again whenever it is down. In the safety phase the
 * nemesis stops, kills, pauses and cuts the power at random moments, and now and then at a disk operation of the following start.
 * Failure modes: a boot that fails without an excuse (a disk that errs, lies or is full), or a fatal end without one, fails the run.
 * Runs on: the test; boot and the node's callbacks run as the node's code. */
#include <stdio.h>
#include <string.h>

#include "base/must.h"
#include "base/mem.h"
#include "broker/node.h"
#include "kafka/door.h"
#include "sim.h"

#define WATCH_MS 3

struct server {
    struct sim *s;
    bool ready, calm;
    bool keep_down;                    /* the run is over */
    bool struck;                       /* the planned crash is set; its successor goes with the next start */
    bool power;                        /* how a planned crash at an operation would end */
    uint64_t starts, failed_boots;
    /* On the node's heap while it is up. */
    struct conf *conf;
    struct node *node;
};

static bool excused(const struct server *sv) {
    const struct plan *p = &sv->s->plan;
    return p->disk_errors || p->full > 0;
}

static bool on_error_line(void *u, struct world_node *n, const char *event, const char *text) {
    (void)n, (void)event, (void)text;
    return excused(u);
}

static void on_ready(void *u, err e, const char *why) {
    struct server *sv = u;
    if (e != ERR_OK) {
        world_note(sv->s->w, "not ready: %s %s", err_name(e), why);
        if (!excused(sv)) {
            world_fail(sv->s->w, "the broker did not get ready: %s %s", err_name(e), why);
        }
        world_node_crash(sv->s->n, false);
    }
    sv->ready = true;
}

static void on_fatal(void *u, const char *why) {
    struct server *sv = u;
    world_note(sv->s->w, "fatal: %s", why);
    if (!excused(sv)) {
        world_fail(sv->s->w, "the broker ended itself: %s", why);
    }
    world_node_crash(sv->s->n, false);
}

static void on_stopped(void *u) {
    struct server *sv = u;
    sv->ready = false;
}

static void on_ended(void *u) {
    struct server *sv = u;
    node_free(sv->node);
    conf_free(sv->conf);
    sv->node = NULL;
    sv->conf = NULL;
}

static void put(struct server *sv, const char *key, const char *value) {
    char why[256] = "";
    err e = conf_put(sv->conf, span_str(key), span_str(value), CONF_SET, why, sizeof why);
    if (e != ERR_OK) {
        world_fail(sv->s->w, "setting %s=%s: %s", key, value, why);
    }
}

static void settings(struct server *sv) {
    char text[64];
    must(conf_new(&sv->conf) == ERR_OK);
    (void)snprintf(text, sizeof text, "PLAINTEXT://127.0.0.1:%d", SIM_PORT);
    put(sv, "listeners", text);
    put(sv, "auto.create.topics.enable", "false");
    for (size_t i = 0; i < sv->s->plan.settings_n; i++) {
        put(sv, sv->s->plan.settings[i].key, sv->s->plan.settings[i].value);
    }
}

static void boot(void *u, struct port **ports, uint32_t shards) {
    struct server *sv = u;
    char why[512] = "";
    struct node_conf conf;
    settings(sv);
    err e = node_conf_from(sv->conf, &conf, why, sizeof why);
    conf.admit_bytes /= shards;
    conf.tail_bytes_max /= shards;
    struct node_boot b = {.conf = &conf, .ports = ports, .ports_n = shards, .door = door_kafka(), .on_ready = on_ready,
                          .on_stopped = on_stopped, .on_fatal = on_fatal, .u = sv};
    e = e == ERR_OK ? node_boot(&b, &sv->node, why, sizeof why) : e;
    if (e == ERR_OK) {
        return;
    }
    world_note(sv->s->w, "boot failed: %s %s", err_name(e), why);
    sv->failed_boots++;
    if (!excused(sv)) {
        world_fail(sv->s->w, "the broker does not start: %s %s", err_name(e), why);
    }
    world_node_crash(sv->s->n, false);             /* exit 74 or 78 */
}

static void start(struct server *sv) {
    struct sim *s = sv->s;
    sv->ready = false;
    uint32_t shards = s->plan.shards[sv->starts++ % (sizeof s->plan.shards / sizeof s->plan.shards[0])];
    bool in_boot = !sv->calm && s->phase == SIM_SAFETY && s->plan.crash_in_boot > 0 && prng_chance(&s->rng, s->plan.crash_in_boot, 8);
    sv->power = prng_chance(&s->rng, 1, 2);
    uint64_t at = in_boot ? 1 + prng_below(&s->rng, 60) : 0;
    if (sv->struck) {
        at = s->plan.again_op;
        sv->power = s->plan.again_power;
        sv->struck = false;
    }
    world_node_crash_at(s->n, at, sv->power);
    (void)world_node_start(s->n, shards, boot, sv);            /* it may crash in boot: the watch tries again */
}

/* A crash at a counted operation happens behind our back: notice it here. */
static void watch(void *u) {
    struct server *sv = u;
    if (!world_node_is_up(sv->s->n) && !sv->keep_down) {
        start(sv);
    }
    world_after(sv->s->w, 1 + (ms)prng_below(&sv->s->rng, WATCH_MS), watch, sv);
}

static void on_down(void *u, struct world_node *n, bool power) {
    struct server *sv = u;
    (void)n;
    sv->ready = false;
    sv->node = NULL;
    sv->conf = NULL;
    if (power) {
        history_power_loss(&sv->s->hist);
    }
}

static void stop_node(void *u) {
    struct server *sv = u;
    sv->ready = false;
    node_stop(sv->node);
}

static void act(struct server *sv) {
    struct sim *s = sv->s;
    const struct plan *p = &s->plan;
    uint32_t weights[] = {p->power, p->kill, p->stop, p->pause, p->jump, p->crash_at, p->full};
    uint32_t sum = 0, which = 0;
    for (size_t i = 0; i < sizeof weights / sizeof weights[0]; i++) {
        sum += weights[i];
    }
    if (sum == 0 || !world_node_is_up(s->n)) {
        return;
    }
    uint32_t x = (uint32_t)prng_below(&s->rng, sum);
    for (; x >= weights[which]; which++) {
        x -= weights[which];
    }
    switch (which) {
    case 0:
    case 1:
        world_node_crash(s->n, which == 0);
        break;
    case 2:
        if (sv->ready) {
            (void)world_node_call(s->n, 0, stop_node, sv);     /* it may crash on the way down */
        }
        break;
    case 3:
        world_node_pause(s->n, (ms)prng_below(&s->rng, 3000));
        break;
    case 4:
        world_node_wall_jump(s->n, (ms)prng_below(&s->rng, 7200000) - 3600000);
        break;
    case 5:
        world_node_crash_at(s->n, 1 + prng_below(&s->rng, 100), prng_chance(&s->rng, 1, 2));
        break;
    default: {
        struct world_faults f = p->faults;
        f.space_bytes = prng_chance(&s->rng, 1, 2) ? 0 : f.space_bytes;
        world_faults_set(s->w, &f);
        break;
    }
    }
}

static void nemesis(void *u) {
    struct server *sv = u;
    if (sv->calm || sv->s->plan.nemesis_gap == 0) {
        return;
    }
    act(sv);
    world_after(sv->s->w, 1 + (ms)prng_below(&sv->s->rng, (uint64_t)sv->s->plan.nemesis_gap), nemesis, sv);
}

struct server *server_new(struct sim *s) {
    struct server *sv = mem_zalloc(MEM_TEST, sizeof *sv);
    must(sv);
    sv->s = s;
    world_on_error_line(s->w, on_error_line, sv);
    world_node_on_ended(s->n, on_ended, sv);
    world_node_on_down(s->n, on_down, sv);
    world_faults_set(s->w, &s->plan.calm);
    watch(sv);
    return sv;
}

void server_trouble(struct server *sv) {
    world_faults_set(sv->s->w, &sv->s->plan.faults);
    if (sv->s->plan.crash_op > 0) {
        world_node_crash_at(sv->s->n, sv->s->plan.crash_op, sv->s->plan.crash_power);
        sv->struck = true;
    }
    nemesis(sv);
}

void server_free(struct server *sv) {
    mem_free(sv);
}

bool server_may_refuse(const struct server *sv) {
    return excused(sv) || !sv->ready || sv->s->plan.stop > 0;
}

void server_stop(struct server *sv) {
    sv->keep_down = true;
    if (world_node_is_up(sv->s->n)) {
        (void)world_node_call(sv->s->n, 0, stop_node, sv);     /* up or down: the caller waits for down */
    }
}

bool server_is_ready(const struct server *sv) {
    return sv->ready;
}

void server_calm(struct server *sv) {
    sv->calm = true;
    world_faults_set(sv->s->w, &sv->s->plan.calm);
    if (sv->s->plan.crash_op == 0) {
        world_node_crash_at(sv->s->n, 0, false);
    }
    if (excused(sv) && world_node_is_up(sv->s->n)) {
        world_node_crash(sv->s->n, false);
    }
}
