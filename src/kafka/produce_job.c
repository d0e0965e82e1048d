/* A batch on its way through the shard's worker.
 *
 * Happy path: memory for what may come out is charged (as reply memory: whoever holds it waits only for the worker and the log, never for other memory), the worker checks and packs, the
 * rest of the charge goes back, done.
 * Failure modes: memory short: it waits its turn. Stopped: the worker gives up at its next piece.
 * Runs on: home shard; produce_job_run on the worker, which touches nothing but the job and the frame's bytes. */
#include "produce_job.h"

#include <string.h>

#include "base/limits.h"
#include "base/mark.h"

static void produce_job_run(struct work_req *w) {
    struct produce_job *j = list_entry(w, struct produce_job, work);
    j->err = produce_check_batch(&j->ck);
}

static void produce_job_home(struct work_req *w) {
    struct produce_job *j = list_entry(w, struct produce_job, work);
    size_t most = j->charge;
    j->charge = j->ck.packed.p != NULL ? j->ck.packed.n : 0;
    if (most > j->charge) {
        admit_give_reply(&j->sh->admit, most - j->charge);
    }
    j->done(j);
}

static void produce_job_admitted(struct admit_wait *w) {
    struct produce_job *j = list_entry(w, struct produce_job, admit);
    j->charge = w->bytes;
    work_submit(j->sh->port->work, &j->work);
}

void produce_job_start(struct produce_job *j, struct shard *sh, const struct produce_check *ck, void (*done)(struct produce_job *j), void *u) {
    *j = (struct produce_job){.ck = *ck, .conf = *ck->conf, .sh = sh, .done = done, .u = u, .work = {.run = produce_job_run, .done = produce_job_home}};
    list_init(&j->admit.link);
    arena_init(&j->arena, NULL, LIMIT_ARENA_BYTES);
    atomic_init(&j->stop, false);
    j->ck.conf = &j->conf;
    j->ck.arena = &j->arena;
    j->ck.stop = &j->stop;
    size_t most = produce_check_packed_max(&j->ck);
    if (most == 0) {
        work_submit(sh->port->work, &j->work);
    } else if (admit_take_reply(&sh->admit, &j->admit, most, produce_job_admitted)) {
        j->charge = most;
        work_submit(sh->port->work, &j->work);
    } else {
        mark("produce.job_waits");
    }
}

struct chunk *produce_job_take(struct produce_job *j) {
    struct zip_sink *z = &j->ck.packed;
    struct chunk *c = chunk_new(j->sh->chunks, z->n);
    if (c != NULL) {
        memcpy(c->data, z->p, z->n);
        j->ck.bytes = span_of(c->data, z->n);
    } else {
        admit_give_reply(&j->sh->admit, j->charge);
        j->charge = 0;
    }
    zip_sink_done(z);
    return c;
}

void produce_job_end(struct produce_job *j) {
    zip_sink_done(&j->ck.packed);
    arena_done(&j->arena);
}

void produce_job_stop(struct produce_job *j) { atomic_store_explicit(&j->stop, true, memory_order_relaxed); }
