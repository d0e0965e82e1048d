/* The simulation of a whole broker: many seeds, each run twice and compared.
 *
 *     sim [--seeds A..B | --seed N] [--trace] [--once] [--seconds S]
 *
 * Each seed is a run of its own: topics are made, producers and consumers work while the nemesis strikes (safety phase); then all trouble
 * ends, every batch must be acknowledged within half a minute of simulated time (I15), the broker is crashed once more or restarted,
 * a fresh reader reads everything, the history is judged, and the broker must end cleanly with nothing left allocated or open.
 * Failure modes: a broken rule, a `must`, an unexpected error line or a second run that differs: the seed is printed and the program
 * ends with a failure at once. scripts/seed.sh N replays a seed with its trace.
 * Runs on: the main thread. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "sim.h"

#define SOON_MS 15
#define SETUP_MS 30000
#define LYING_MS 3000                  /* how long a disk that lies is watched after the safety phase */

struct options {
    uint64_t first, last;
    bool trace, once;
    int seconds;                       /* begin no new seed after so long; 0: no limit */
};

struct totals {
    uint64_t acked, read, losses, starts, events, cycles, ms;
};

static uint64_t current_seed;

static void print_line(void *u, const char *line) {
    (void)u;
    puts(line);
}

ms sim_soon(struct sim *s) {
    return 1 + (ms)prng_below(&s->rng, SOON_MS);
}

/* ---- phases ---- */

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
    return admin_is_done(s->admin) && server_is_ready(s->server);
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
        world_fail(s->w, "I15: no progress within %d ms after all trouble ended (ready=%d admin=%d)", SIM_LIVENESS_MS,
                   server_is_ready(s->server), admin_is_done(s->admin));
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

static void add_totals(struct totals *t, const struct sim *s) {
    t->acked += s->hist.acked;
    t->read += s->hist.read;
    t->losses += s->hist.losses;
    t->starts += world_node_starts(s->n);
    t->events += world_events(s->w);
    t->cycles += admin_cycles(s->admin);
    t->ms += (uint64_t)(world_now_us(s->w) / 1000);
}

/* One run; its hash. */
static uint64_t run(uint64_t seed, bool trace, struct totals *t) {
    struct sim s = {.seed = seed};
    plan_draw(seed, &s.plan);
    s.w = world_new(seed);
    if (trace) {
        plan_print(&s.plan, print_line, NULL);
        world_trace(s.w, print_line, NULL);
    }
    prng_seed(&s.rng, seed ^ 0x6163746f7273);
    s.n = world_node_new(s.w, "broker");
    history_init(&s.hist, s.w, &s.plan);
    setup(&s);
    safety(&s);
    heal(&s);
    final(&s);
    stop(&s);
    add_totals(t, &s);
    uint64_t hash = world_trace_hash(s.w);
    free_clients(&s);
    admin_free(s.admin);
    world_free(s.w);
    server_free(s.server);
    history_done(&s.hist);
    return hash;
}

static void run_twice(uint64_t seed, const struct options *o, struct totals *t) {
    current_seed = seed;
    struct totals again = {0};
    uint64_t hash = run(seed, o->trace, t);
    if (!o->once && run(seed, false, &again) != hash) {
        fprintf(stderr, "simulation failed: seed=%llu: two runs of one seed differ\n", (unsigned long long)seed);
        abort();
    }
    if (mem_live_all() != 0) {
        fprintf(stderr, "simulation failed: seed=%llu: %zu bytes of the test's memory leaked\n", (unsigned long long)seed, mem_live_all());
        abort();
    }
}

/* ---- command line ---- */

static void on_abort(int signo) {
    char text[160];
    int n = snprintf(text, sizeof text, "sim: signal %d in seed %llu; replay with scripts/seed.sh %llu\n", signo,
                     (unsigned long long)current_seed, (unsigned long long)current_seed);
    if (n > 0) {
        (void)!write(STDERR_FILENO, text, (size_t)n);
    }
    signal(signo, SIG_DFL);
    raise(signo);
}

static bool parse(int argc, char **argv, struct options *o) {
    for (int i = 1; i < argc; i++) {
        unsigned long long a, b;
        if (strcmp(argv[i], "--trace") == 0) {
            o->trace = true;
        } else if (strcmp(argv[i], "--once") == 0) {
            o->once = true;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc && sscanf(argv[i + 1], "%llu", &a) == 1) {
            o->first = o->last = a;
            i++;
        } else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc && sscanf(argv[i + 1], "%llu..%llu", &a, &b) == 2) {
            o->first = a;
            o->last = b;
            i++;
        } else if (strcmp(argv[i], "--seconds") == 0 && i + 1 < argc && sscanf(argv[i + 1], "%d", &o->seconds) == 1) {
            i++;
        } else {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv) {
    struct options o = {.first = 1, .last = 200};
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    struct totals t = {0};
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "usage: sim [--seeds A..B | --seed N] [--trace] [--once] [--seconds S]\n");
        return EXIT_FAILURE;
    }
    signal(SIGABRT, on_abort);
    signal(SIGSEGV, on_abort);
    time_t begun = time(NULL);
    uint64_t seed = o.first, n = 0;
    for (; seed <= o.last && (o.seconds == 0 || time(NULL) - begun < o.seconds); seed++, n++) {
        run_twice(seed, &o, &t);
    }
    printf("sim: %llu seeds from %llu%s: acked=%llu read=%llu starts=%llu power_losses=%llu topics=%llu events=%llu simulated_s=%llu "
           "real_s=%lld\n", (unsigned long long)n, (unsigned long long)o.first, o.once ? "" : ", each twice", (unsigned long long)t.acked,
           (unsigned long long)t.read, (unsigned long long)t.starts, (unsigned long long)t.losses, (unsigned long long)t.cycles,
           (unsigned long long)t.events, (unsigned long long)(t.ms / 1000), (long long)(time(NULL) - begun));
    return EXIT_SUCCESS;
}
