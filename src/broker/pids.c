/* Producer ids from blocks that the metadata log grants.
 * Happy path: the shard's block has one left. Else one ask to shard 0 for a new block serves everyone who waits. Failure modes: the grant is refused: all who wait get that err.
 * Runs on: the shard. */
#include "broker/pids.h"

#include "broker/topics.h"
#include "inside.h"

#define PIDS_BLOCK 1000

struct pids_grant {
    struct topics_change change;
    struct shard *sh;
};

static void pids_granted(struct ask *ask) {
    struct topics_change *c = list_entry(ask, struct topics_change, ask);
    struct pids_grant *g = list_entry(c, struct pids_grant, change);
    struct shard *sh = g->sh;
    err e = ask->err;
    sh->pid_asking = false;
    if (e == ERR_OK) {
        sh->pid_next = c->ids_first;
        sh->pid_end = c->ids_first + c->ids_n;
    }
    mem_free(g);
    struct list todo;
    list_init(&todo);
    list_splice_back(&todo, &sh->pid_waiting);
    struct list *link;
    while ((link = list_pop_front(&todo)) != NULL) {
        struct pids_ask *a = list_entry(link, struct pids_ask, link);
        if (e == ERR_OK) {
            pids_take(sh, a);                      /* a block may be too small for all: those ask again */
        } else {
            a->err = e;
            a->done(a);
        }
    }
}

static err pids_request(struct shard *sh) {
    struct pids_grant *g = mem_alloc(MEM_META, sizeof(*g));
    if (g == NULL) {
        return ERR_NOMEM;
    }
    topics_init(&g->change, TOPICS_PRODUCER_BLOCK, pids_granted);
    g->change.ids_n = PIDS_BLOCK;
    g->sh = sh;
    sh->pid_asking = true;
    topics_send(sh, &g->change);
    return ERR_OK;
}

void pids_take(struct shard *sh, struct pids_ask *a) {
    list_init(&a->link);
    a->err = ERR_OK;
    if (sh->pid_next < sh->pid_end) {
        a->id = sh->pid_next++;
        a->done(a);
        return;
    }
    if (!sh->pid_asking) {
        a->err = pids_request(sh);
        if (a->err != ERR_OK) {
            a->done(a);
            return;
        }
    }
    list_push_back(&sh->pid_waiting, &a->link);
}
