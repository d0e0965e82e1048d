/* A batch on its way through the shard's worker: what would be too long for a turn, unpacking and packing, is done there (produce_check.h). One job a request at a time. Home shard. */
#pragma once

#include "produce_check.h"
#include "rq.h"

struct produce_job {
    struct produce_check ck;           /* conf points at the copy below */
    err err;                           /* its verdict */
    size_t charge;                     /* reply memory that ck.packed holds; whoever takes it over gives it back with admit_give_reply */
    /* private */
    struct topicconf conf;
    struct shard *sh;
    struct arena arena;
    struct admit_wait admit;
    struct work_req work;
    atomic_bool stop;
    void (*done)(struct produce_job *j);
    void *u;                           /* caller's */
};

/* Takes a copy of what ck says. done comes later, on the shard: then ck holds what was found, its list in the job's arena until produce_job_end. */
void produce_job_start(struct produce_job *j, struct shard *sh, const struct produce_check *ck, void (*done)(struct produce_job *j), void *u);
/* The batch packed anew as a chunk, which is the caller's; its memory is charged as j->charge. NULL without memory, and nothing is charged any more. */
struct chunk *produce_job_take(struct produce_job *j);
/* After done: free what is left. */
void produce_job_end(struct produce_job *j);
/* Come home soon, with CANCELLED. */
void produce_job_stop(struct produce_job *j);
