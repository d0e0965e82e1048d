/* One run: a broker on a simulated node, clients, a nemesis, and the history that judges them all. */
#pragma once

#include "history.h"
#include "kclient.h"
#include "plan.h"

#define SIM_PORT 9092
#define SIM_LIVENESS_MS 30000          /* I15 */

enum sim_phase {
    SIM_SETUP,                         /* topics are being made */
    SIM_SAFETY,                        /* everything may happen */
    SIM_HEAL,                          /* nothing happens any more; all acknowledgements must come */
    SIM_FINAL,                         /* a fresh reader reads everything */
    SIM_DONE
};

struct sim {
    uint64_t seed;
    struct plan plan;
    struct world *w;
    struct world_node *n;
    struct prng rng;                   /* the actors' choices */
    enum sim_phase phase;
    struct history hist;
    struct server *server;
    struct admin *admin;
    struct meddler *meddler;
    int32_t parts_there[PLAN_TOPICS];  /* partitions that were told to exist */
    struct producer *producers[PLAN_PRODUCERS];
    struct consumer *consumers[PLAN_CONSUMERS];
    struct consumer *final;
};

/* A pause before the next attempt, so that many clients do not march in step. */
ms sim_soon(struct sim *s);

/* server.c: the broker on the node, who starts it again, and who troubles it. */
struct server *server_new(struct sim *s);
void server_free(struct server *sv);
bool server_is_ready(const struct server *sv);
bool server_may_refuse(const struct server *sv); /* KAFKA_STORAGE_ERROR has an excuse: it stops, or its disk errs or is full */
void server_stop(struct server *sv);             /* cleanly and for good */
void server_trouble(struct server *sv);          /* the faults of the plan and its nemesis, from now on */
void server_calm(struct server *sv);             /* no trouble from now on; restarts the broker where only that brings fenced partitions back */

/* admin.c: makes the topics of the plan, then makes and deletes others for as long as the safety phase lasts. */
struct admin *admin_new(struct sim *s);
void admin_free(struct admin *ad);
bool admin_is_ready(const struct admin *ad);     /* the topics of the plan exist and their ids are known */
bool admin_is_done(const struct admin *ad);      /* nothing is half made */
uint64_t admin_cycles(const struct admin *ad);   /* topics made and deleted */

/* meddler.c: adds partitions until the topics are as planned, and changes settings; from the safety phase on. */
struct meddler *meddler_new(struct sim *s);
void meddler_free(struct meddler *md);
bool meddler_is_done(const struct meddler *md);  /* every topic has its partitions */
uint64_t meddler_changes(const struct meddler *md);

/* producer.c */
struct producer *producer_new(struct sim *s, size_t index);
void producer_free(struct producer *p);
bool producer_is_done(const struct producer *p); /* all its batches are acknowledged, or given up where that is allowed */

/* consumer.c: reads some partitions for ever, or, as the final reader, all of them from the first offset to the end. */
struct consumer *consumer_new(struct sim *s, bool final);
void consumer_free(struct consumer *c);
bool consumer_is_done(const struct consumer *c); /* final: has read to the end of every partition */
