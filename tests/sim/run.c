/* A run: topics are made, producers and consumers work while the nemesis strikes (safety phase); then all trouble ends and every batch must
 * be acknowledged within half a minute of simulated time (I15); the broker is crashed once more or not, a fresh reader reads everything, the
 * history is judged, and the broker must end cleanly with nothing left allocated or open.
 *
 * Failure modes: each phase that does not come to its end in time fails the run. A disk that lies is watched for a while only: nothing is
 * promised but that what is read is right.
 * Runs on: the test. */
#include "run.h"

#include "sim.h"

#define SOON_MS 15
#define SETUP_MS 30000
#define LYING_MS 3000                  /* how long a disk that lies is watched after the safety phase */

ms sim_soon(struct sim *s) {
    return 1 + (ms)prng_below(&s->rng, SOON_MS);
}

static bool made(void *u) {
    const struct sim *s = u;
    return admin_is_ready(s->admin);
}

static bool all_done(void *u) {
    const struct sim *s = u;
    for (size_t i = 0; i < s->plan.producers_n; i++) {
        if (!producer_is_done(s->producers[i])) {
            return false;
        }
    }
    return admin_is_done(s->admin) && meddler_is_done(s->meddler) && server_is_ready(s->server);
}

static bool all_read(void *u) {
    const struct sim *s = u;
    return consumer_is_done(s->final);
}

static bool is_down(void *u) {
    const struct sim *s = u;
    return !world_node_is_up(s->n);
}

static void enter(struct sim *s, enum sim_phase phase, const char *name) {
    s->phase = phase;
    world_note(s->w, "---- %s", name);
}

static void setup(struct sim *s) {
    enter(s, SIM_SETUP, "setup");
    s->server = server_new(s);
    s->admin = admin_new(s);
    if (!world_run(s->w, made, s, SETUP_MS)) {
        world_fail(s->w, "the topics were not made within %d ms", SETUP_MS);
    }
}

static void safety(struct sim *s) {
    enter(s, SIM_SAFETY, "safety");
    s->meddler = meddler_new(s);
    for (size_t i = 0; i < s->plan.producers_n; i++) {
        s->producers[i] = producer_new(s, i);
    }
    for (size_t i = 0; i < s->plan.consumers_n; i++) {
        s->consumers[i] = consumer_new(s, false);
    }
    server_trouble(s->server);
    (void)world_run(s->w, NULL, NULL, s->plan.safety);
}

static void heal(struct sim *s) {
    enter(s, SIM_HEAL, "heal");
    server_calm(s->server);
    if (!world_run(s->w, all_done, s, s->plan.lies ? LYING_MS : SIM_LIVENESS_MS) && !s->plan.lies) {
        for (size_t i = 0; i < s->plan.producers_n; i++) {
            if (!producer_is_done(s->producers[i])) {
                world_note(s->w, "producer %zu is not done", i);
            }
        }
        world_fail(s->w, "I15: no progress within %d ms after all trouble ended (ready=%d admin=%d meddler=%d)", SIM_LIVENESS_MS,
                   server_is_ready(s->server), admin_is_done(s->admin), meddler_is_done(s->meddler));
    }
}

static void final(struct sim *s) {
    enter(s, SIM_FINAL, "final");
    if (world_node_is_up(s->n) && prng_chance(&s->rng, 2, 3)) {
        world_node_crash(s->n, prng_chance(&s->rng, 1, 2));
    }
    s->final = consumer_new(s, true);
    if (!world_run(s->w, all_read, s, s->plan.lies ? LYING_MS : SIM_LIVENESS_MS) && !s->plan.lies) {
        world_fail(s->w, "I15: not everything could be read within %d ms", SIM_LIVENESS_MS);
    }
    history_judge(&s->hist);
}

static void free_clients(struct sim *s) {
    for (size_t i = 0; i < s->plan.producers_n; i++) {
        producer_free(s->producers[i]);
    }
    for (size_t i = 0; i < s->plan.consumers_n; i++) {
        consumer_free(s->consumers[i]);
    }
    consumer_free(s->final);
}

static void stop(struct sim *s) {
    enter(s, SIM_DONE, "stop");
    server_stop(s->server);
    if (!world_run(s->w, is_down, s, SIM_LIVENESS_MS)) {
        world_fail(s->w, "the broker does not stop");
    }
}

static void add_totals(struct run_totals *t, const struct sim *s) {
    t->runs++;
    t->acked += s->hist.acked;
    t->read += s->hist.read;
    t->losses += s->hist.losses;
    t->starts += world_node_starts(s->n);
    t->events += world_events(s->w);
    t->cycles += admin_cycles(s->admin);
    t->changes += meddler_changes(s->meddler);
    t->refused += s->hist.refused;
    t->ms += (uint64_t)(world_now_us(s->w) / 1000);
}

uint64_t run_plan(uint64_t seed, const struct plan *p, void (*on_line)(void *u, const char *line), struct run_totals *t) {
    struct sim s = {.seed = seed, .plan = *p};
    s.w = world_new(seed);
    if (on_line) {
        plan_print(&s.plan, on_line, NULL);
        world_trace(s.w, on_line, NULL);
    }
    prng_seed(&s.rng, seed ^ 0x6163746f7273);
    s.n = world_node_new(s.w, "broker");
    history_init(&s.hist, s.w, &s.plan);
    setup(&s);
    uint64_t ops = world_node_disk_ops(s.n);
    safety(&s);
    heal(&s);
    t->ops += world_node_disk_ops(s.n) - ops;
    final(&s);
    stop(&s);
    add_totals(t, &s);
    uint64_t hash = world_trace_hash(s.w);
    free_clients(&s);
    admin_free(s.admin);
    meddler_free(s.meddler);
    world_free(s.w);
    server_free(s.server);
    history_done(&s.hist);
    return hash;
}
