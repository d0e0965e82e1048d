/* Cases about the worker: computation off the turn.
 *
 * Method: two ports submit requests that write into memory of their own; `run` and `done` note in what order they came. */
#include "port/contract.h"

static const struct contract_rig *rig;

#define JOBS 500
#define SHARDS 2

struct job {
    struct work_req rq;
    struct desk *desk;
    int number;
    uint64_t sum;
};

/* One shard's. The worker's thread writes ran and sum, the loop reads them when the request is home. */
static struct desk {
    struct port *port;
    struct job jobs[JOBS];
    int ran, home, turns;
    bool submitting;
} desks[SHARDS];

static void job_run(struct work_req *rq) {
    struct job *j = list_entry(rq, struct job, rq);
    ck_assert_int_eq(j->number, j->desk->ran++);
    for (int i = 0; i < 1000; i++) {
        j->sum += (uint64_t)i * (uint64_t)j->number;
    }
}

static void submit(struct job *j) {
    j->desk->submitting = true;
    work_submit(j->desk->port->work, &j->rq);
    j->desk->submitting = false;
}

static void job_done(struct work_req *rq) {
    struct job *j = list_entry(rq, struct job, rq);
    struct desk *d = j->desk;
    ck_assert(!d->submitting);                     /* never inside submit */
    ck_assert_int_eq(j->number, d->home++);
    ck_assert_uint_eq(j->sum, 499500u * (uint64_t)j->number);
    if (j->number % 2 == 0) {
        submit(j + 1);                             /* from within done */
    }
}

static void work_turn(void *u) {
    struct desk *d = u;
    if (d->turns++ == 0) {
        submit(&d->jobs[0]);
    }
    if (d->home == JOBS) {
        d->port->stop(d->port);
    } else if (d->home % 2 == 0 && d->home > 0 && d->jobs[d->home].desk == NULL) {
        d->jobs[d->home].desk = d;                 /* every other one from the turn */
        submit(&d->jobs[d->home]);
    }
}

static void work_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u;
    for (uint32_t s = 0; s < shards; s++) {
        struct desk *d = &desks[s];
        d->port = ports[s];
        for (int i = 0; i < JOBS; i++) {
            d->jobs[i] = (struct job){.rq = {.run = job_run, .done = job_done}, .desk = i % 2 == 1 || i == 0 ? d : NULL, .number = i};
        }
        ports[s]->on_turn(ports[s], work_turn, d);
        ports[s]->again(ports[s]);
    }
}

START_TEST(work_is_run_and_comes_home_in_order_and_brings_a_turn) {
    ck_assert(rig->run(SHARDS, work_boot, NULL));
    for (int s = 0; s < SHARDS; s++) {
        ck_assert_int_eq(desks[s].ran, JOBS);
        ck_assert_int_eq(desks[s].home, JOBS);
        ck_assert_int_gt(desks[s].turns, 2);
    }
}
END_TEST

/* All at once: a queue, worked on one by one. */
static void queue_turn(void *u) {
    struct desk *d = u;
    if (d->turns++ == 0) {
        for (int i = 0; i < JOBS; i++) {
            submit(&d->jobs[i]);
        }
    }
    if (d->home == JOBS) {
        d->port->stop(d->port);
    }
}

static void queue_done(struct work_req *rq) {
    struct job *j = list_entry(rq, struct job, rq);
    ck_assert(!j->desk->submitting);
    ck_assert_int_eq(j->number, j->desk->home++);
}

static void queue_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    struct desk *d = &desks[0];
    d->port = ports[0];
    for (int i = 0; i < JOBS; i++) {
        d->jobs[i] = (struct job){.rq = {.run = job_run, .done = queue_done}, .desk = d, .number = i};
    }
    ports[0]->on_turn(ports[0], queue_turn, d);
    ports[0]->again(ports[0]);
}

START_TEST(much_work_is_done_first_come_first_served) {
    ck_assert(rig->run(1, queue_boot, NULL));
    ck_assert_int_eq(desks[0].home, JOBS);
}
END_TEST

TCase *contract_work(const struct contract_rig *r) {
    rig = r;
    TCase *tc = tcase_create("work");
    tcase_add_test(tc, work_is_run_and_comes_home_in_order_and_brings_a_turn);
    tcase_add_test(tc, much_work_is_done_first_come_first_served);
    return tc;
}
