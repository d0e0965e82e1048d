/* The simulation of a whole broker: many seeds, each run twice and compared; and every crash point of a short run.
 *
 *     sim [--seeds A..B | --seed N] [--trace] [--once] [--seconds S] [--all]
 *     sim --points A..B [--point K] ...
 *
 * --seeds: each seed is a swarm of its own (plan.h, run.h). --points: the plan of each seed is a short run without other trouble; it is
 * measured first, then run again once for each of its disk operations with a crash there, by power loss and by kill in turn, and mostly with
 * a second crash in the recovery (T2, T3, T4). --all goes on behind a failure and names every failing seed at the end.
 * Failure modes: a broken rule, a `must`, an unexpected error line, a leak or a second run that differs: seed and point are printed, the exit
 * status is a failure. scripts/seed.sh N replays a seed with its trace.
 * Runs on: the main thread. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "run.h"

struct options {
    uint64_t first, last, point;       /* point 0: all of them */
    bool trace, once, points, all;
    int seconds;                       /* begin no new seed after so long; 0: no limit */
};

static uint64_t current_seed, current_point;

static void print_line(void *u, const char *line) {
    (void)u;
    puts(line);
}

static void fail(const char *what) {
    fprintf(stderr, "simulation failed: seed=%llu point=%llu: %s\n", (unsigned long long)current_seed, (unsigned long long)current_point, what);
    abort();
}

static void run_twice(const struct plan *p, const struct options *o, struct run_totals *t) {
    struct run_totals again = {0};
    uint64_t hash = run_plan(current_seed, p, o->trace ? print_line : NULL, t);
    if (!o->once && run_plan(current_seed, p, NULL, &again) != hash) {
        fail("two runs of one seed differ");
    }
    if (mem_live_all() != 0) {
        fail("memory of the test leaked");
    }
}

static void run_seed(const struct options *o, struct run_totals *t) {
    struct plan p;
    current_point = 0;
    plan_draw(current_seed, &p);
    run_twice(&p, o, t);
}

static void run_point(uint64_t k, const struct options *o, struct run_totals *t) {
    struct plan p;
    current_point = k;
    plan_points(current_seed, &p);
    plan_crash(&p, k);
    struct options once = *o;
    once.once = once.once || k % 16 != 0;              /* sameness is tried on some */
    run_twice(&p, &once, t);
}

static void run_points(const struct options *o, struct run_totals *t) {
    struct plan p;
    struct run_totals first = {0};
    if (o->point > 0) {
        run_point(o->point, o, t);
        return;
    }
    current_point = 0;
    plan_points(current_seed, &p);
    (void)run_plan(current_seed, &p, NULL, &first);
    for (uint64_t k = 1; k <= 2 * first.ops; k++) {
        run_point(k, o, t);
    }
}

/* ---- command line ---- */

static void on_abort(int signo) {
    char text[200];
    int n = snprintf(text, sizeof text, "sim: signal %d in seed %llu point %llu; replay with scripts/seed.sh %llu%s\n", signo,
                     (unsigned long long)current_seed, (unsigned long long)current_point, (unsigned long long)current_seed,
                     current_point > 0 ? " and the point" : "");
    if (n > 0) {
        (void)!write(STDERR_FILENO, text, (size_t)n);
    }
    signal(signo, SIG_DFL);
    raise(signo);
}

/* In a process of its own, so that a failure does not end the others. */
static bool forked(const struct options *o, void (*fn)(const struct options *o, struct run_totals *t), struct run_totals *t) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        fn(o, t);
        exit(EXIT_SUCCESS);
    }
    int status = 0;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

static bool parse_range(const char *text, struct options *o) {
    unsigned long long a, b;
    int n = sscanf(text, "%llu..%llu", &a, &b);
    o->first = a;
    o->last = n == 2 ? b : a;
    return n >= 1;
}

static bool parse_valued(const char *name, const char *value, struct options *o) {
    unsigned long long k;
    if (strcmp(name, "--seed") == 0 || strcmp(name, "--seeds") == 0) {
        return parse_range(value, o);
    }
    if (strcmp(name, "--points") == 0) {
        o->points = true;
        return parse_range(value, o);
    }
    if (strcmp(name, "--point") == 0 && sscanf(value, "%llu", &k) == 1) {
        o->point = k;
        return true;
    }
    return strcmp(name, "--seconds") == 0 && sscanf(value, "%d", &o->seconds) == 1;
}

static bool parse(int argc, char **argv, struct options *o) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0) {
            o->trace = true;
        } else if (strcmp(argv[i], "--once") == 0) {
            o->once = true;
        } else if (strcmp(argv[i], "--all") == 0) {
            o->all = true;
        } else if (i + 1 >= argc || !parse_valued(argv[i], argv[i + 1], o)) {
            return false;
        } else {
            i++;
        }
    }
    return true;
}

int main(int argc, char **argv) {
    struct options o = {.first = 1, .last = 200};
    struct run_totals *t = mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);      /* children add to it */
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    if (t == MAP_FAILED || !parse(argc, argv, &o)) {
        fprintf(stderr, "usage: sim [--seeds A..B | --points A..B [--point K]] [--trace] [--once] [--seconds S] [--all]\n");
        return EXIT_FAILURE;
    }
    signal(SIGABRT, on_abort);
    signal(SIGSEGV, on_abort);
    time_t begun = time(NULL);
    uint64_t n = 0, failed = 0;
    void (*fn)(const struct options *opts, struct run_totals *totals) = o.points ? run_points : run_seed;
    for (current_seed = o.first; current_seed <= o.last && (o.seconds == 0 || time(NULL) - begun < o.seconds); current_seed++, n++) {
        if (!o.all) {
            fn(&o, t);
        } else if (!forked(&o, fn, t)) {
            failed++;
        }
    }
    printf("sim: %llu seeds from %llu%s%s, %llu failed: runs=%llu acked=%llu read=%llu starts=%llu power_losses=%llu topics=%llu changes=%llu refused=%llu events=%llu "
           "simulated_s=%llu real_s=%lld\n", (unsigned long long)n, (unsigned long long)o.first, o.points ? " at all crash points" : "",
           o.once ? "" : ", twice", (unsigned long long)failed, (unsigned long long)t->runs, (unsigned long long)t->acked,
           (unsigned long long)t->read, (unsigned long long)t->starts, (unsigned long long)t->losses, (unsigned long long)t->cycles,
           (unsigned long long)t->changes, (unsigned long long)t->refused,
           (unsigned long long)t->events, (unsigned long long)(t->ms / 1000), (long long)(time(NULL) - begun));
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
