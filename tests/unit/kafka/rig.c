/* See rig.h. The bell is a listener of the node beside the door's, which is how a test gets onto shard 0's thread, where signals arrive.
 * Failure modes: what a test does not expect ends it through Check's assertions or world_fail.
 * Runs on: the world's thread. */
#include "rig.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "kafka/door.h"

#define BELL_PORT 9
#define WAIT_MS 120000

static bool rig_expects(void *u, struct world_node *n, const char *event, const char *text) {
    struct rig *r = u;
    (void)n;
    r->error_lines++;
    snprintf(r->error_line, sizeof r->error_line, "%s %s", event, text);
    return r->errors_expected;
}

void rig_init(struct rig *r, uint64_t seed, uint32_t shards) {
    *r = (struct rig){.shards = shards};
    r->w = world_new(seed);
    r->n = world_node_new(r->w, "broker");
    world_on_error_line(r->w, rig_expects, r);
    ck_assert_int_eq(conf_new(&r->settings), ERR_OK);
    rig_set(r, "listeners", "PLAINTEXT://127.0.0.1:9092");
}

void rig_done(struct rig *r) {
    world_free(r->w);
    conf_free(r->settings);
}

void rig_set(struct rig *r, const char *key, const char *value) {
    char why[256] = "";
    err e = conf_put(r->settings, span_str(key), span_str(value), CONF_SET, why, sizeof why);
    ck_assert_msg(e == ERR_OK, "%s=%s: %s", key, value, why);
}

static void rig_on_bell(void *u, struct net_accepted *a) {
    struct rig *r = u;
    struct net *net = r->node->shards[0]->port->net;
    net->refuse(net, a);
    void (*call)(struct rig *r) = r->call;
    r->call = NULL;
    if (call != NULL) {
        call(r);
    }
}

static void rig_on_ready(void *u, err e, const char *why) {
    struct rig *r = u;
    r->ready = e;
    r->is_ready = true;
    snprintf(r->why, sizeof r->why, "%s", why);
    if (e != ERR_OK) {
        r->node->shards[0]->port->net->listener_close(r->bell);
        node_stop(r->node);
    }
}

static void rig_on_stopped(void *u) {
    struct rig *r = u;
    r->is_stopped = true;
}

static void rig_on_fatal(void *u, const char *why) {
    struct rig *r = u;
    r->is_fatal = true;
    snprintf(r->why, sizeof r->why, "%s", why);
    world_node_crash(r->n, false);                 /* the process ends at once, with 74 */
}

static void rig_on_ended(void *u) {
    struct rig *r = u;
    if (r->node != NULL) {
        node_free(r->node);
    }
    r->node = NULL;
}

static void rig_no_turn(void *u) { (void)u; }

static void rig_on_boot(void *u, struct port **ports, uint32_t shards) {
    struct rig *r = u;
    r->heap = mem_use(NULL);
    (void)mem_use(r->heap);
    struct node_boot b = {
        .conf = &r->conf,
        .ports = ports,
        .ports_n = shards,
        .door = door_kafka(),
        .on_ready = rig_on_ready,
        .on_stopped = rig_on_stopped,
        .on_fatal = rig_on_fatal,
        .u = r,
    };
    r->boot = node_boot(&b, &r->node, r->why, sizeof r->why);
    if (r->boot == ERR_OK) {
        for (int tries = 0; tries < 2; tries++) {          /* the bell is ours: it rings although one allocation or request fails */
            r->boot = ports[0]->net->listen(ports[0]->net, "127.0.0.1", BELL_PORT, rig_on_bell, r, &r->bell);
            tries += r->boot == ERR_OK;
        }
        ck_assert_int_eq(r->boot, ERR_OK);
        return;
    }
    for (uint32_t i = 0; i < shards; i++) {
        ports[i]->on_turn(ports[i], rig_no_turn, NULL);        /* its shard is gone; the process only ends */
        ports[i]->stop(ports[i]);
    }
}

void rig_boot(struct rig *r) {
    char why[256];
    ck_assert_msg(node_conf_from(r->settings, &r->conf, why, sizeof why) == ERR_OK, "%s", why);
    if (conf_origin(r->settings, "log.retention.ms") == CONF_DEFAULT) {
        r->conf.topic_defaults.retention_age = -1; /* most batches of these tests are of 1970 */
    }
    r->conf.admit_bytes /= r->shards;
    r->conf.tail_bytes_max /= r->shards;
    r->node = NULL;
    r->is_ready = r->is_stopped = r->is_fatal = false;
    r->opened = 0;
    r->boot = ERR_CANCELLED;
    r->why[0] = '\0';
    world_node_on_ended(r->n, rig_on_ended, r);
    (void)world_node_start(r->n, r->shards, rig_on_boot, r);       /* CANCELLED: it crashed in boot */
}

static bool rig_is_settled(void *u) {
    struct rig *r = u;
    return r->is_ready || !world_node_is_up(r->n);
}

static bool rig_is_down(void *u) {
    struct rig *r = u;
    return !world_node_is_up(r->n);
}

bool rig_wait_ready(struct rig *r) {
    ck_assert_msg(world_run(r->w, rig_is_settled, r, WAIT_MS), "the broker neither starts nor ends");
    if (r->is_ready && r->ready != ERR_OK) {
        ck_assert(world_run(r->w, rig_is_down, r, WAIT_MS));
    }
    return world_node_is_up(r->n) && r->is_ready && r->ready == ERR_OK;
}

void rig_start(struct rig *r) {
    rig_boot(r);
    ck_assert_msg(rig_wait_ready(r), "not started: %s", r->why);
}

static void rig_down(void *u, err why) {
    (void)u, (void)why;
}

static void rig_data(void *u, const uint8_t *p, size_t n) {
    (void)u, (void)p, (void)n;
}

static bool rig_is_called(void *u) {
    struct rig *r = u;
    return r->call == NULL || !world_node_is_up(r->n);
}

void rig_call(struct rig *r, void (*f)(struct rig *r)) {
    static const struct world_client_events events = {.data = rig_data, .down = rig_down};
    ck_assert(world_node_is_up(r->n) && r->call == NULL);
    r->call = f;
    struct world_client *c = world_connect(r->w, r->n, BELL_PORT, &events, r);
    ck_assert(world_run(r->w, rig_is_called, r, WAIT_MS));
    world_client_close(c);
}

static void rig_do_stop(struct rig *r) {
    r->node->shards[0]->port->net->listener_close(r->bell);
    node_stop(r->node);
}

void rig_stop_begin(struct rig *r) { rig_call(r, rig_do_stop); }

ms rig_stop_wait(struct rig *r) {
    ms from = rig_now(r);
    ck_assert_msg(world_run(r->w, rig_is_down, r, WAIT_MS), "the broker does not stop");
    ck_assert_msg(r->is_stopped, "the broker ended without a clean stop");
    return rig_now(r) - from;
}

void rig_stop(struct rig *r) {
    rig_stop_begin(r);
    (void)rig_stop_wait(r);
}

void rig_crash(struct rig *r, bool lose_unsynced) {
    world_node_crash(r->n, lose_unsynced);
    r->node = NULL;
}

static bool rig_on_op(void *u, const struct disk_req *rq, const char *path) {
    struct rig *r = u;
    if (rq->op == r->fail.op && path != NULL && strstr(path, r->fail.in) != NULL && ++r->fail.seen == r->fail.k) {
        world_node_fail_op(r->n, rq->op, 1, r->fail.e);        /* this very one */
    }
    return false;
}

void rig_fail_op(struct rig *r, struct rig_fail f) {
    r->fail = f;
    world_node_on_op(r->n, rig_on_op, r, false);
}

/* A heap with a budget of b gives one more byte only when less than b is alive on it. */
static bool rig_affords(size_t b) {
    mem_budget(b);
    void *p = mem_alloc(MEM_TEST, 1);
    mem_free(p);
    return p != NULL;
}

size_t rig_live(struct rig *r) {
    struct mem_heap *former = mem_use(r->heap);
    size_t low = 1, high = (size_t)1 << 40;        /* the least budget that suffices lies in [low, high] */
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (rig_affords(mid)) {
            high = mid;
        } else {
            low = mid + 1;
        }
    }
    mem_budget(0);
    (void)mem_use(former);
    return low - 1;
}

void rig_budget(struct rig *r, size_t bytes) {
    struct mem_heap *former = mem_use(r->heap);
    mem_budget(bytes);
    (void)mem_use(former);
}

ms rig_now(const struct rig *r) { return world_now_us(r->w) / 1000; }

void rig_run(struct rig *r, ms how_long) { (void)world_run(r->w, NULL, NULL, how_long); }
