/* See owners.h. Happy path: one ask per owner that has a partition in the request; the last one home fills the rest of the answer.
 * Failure modes: no memory: the connection closes; an owner without memory: that code for its partitions.
 * Runs on: home shard. */
#include "owners.h"

static void owners_reply(struct owners *o) {
    if (o->home != NULL) {
        o->home(o);
    } else {
        rq_reply(o->rq, o->answer);
    }
}

static void owners_finish(struct owners *o) {
    for (size_t i = 0; i < o->asks_n; i++) {
        struct offsets_ask *a = &o->asks[i];
        for (size_t k = 0; k < a->parts_n; k++) {
            a->parts[k].err = a->ask.err != ERR_OK ? a->ask.err : a->parts[k].err;
            o->fill(o->rq, a->parts[k].u, &a->parts[k]);
        }
        offsets_drop(a);
    }
    owners_reply(o);
}

static void owners_home(struct ask *ask) {
    struct owners *o = list_entry(ask, struct offsets_ask, ask)->u;
    if (--o->out == 0) {
        owners_finish(o);
    }
}

static bool owners_ask(struct owners *o, uint32_t shard, size_t n, enum offsets_op op) {
    struct offsets_ask *a = &o->asks[o->asks_n++];
    if (offsets_init(a, &o->rq->arena, n, op, owners_home) != ERR_OK) {
        return false;
    }
    a->u = o;
    a->timeout = o->timeout;
    a->ask.owner = o->rq->sh->node->shards[shard];
    size_t at = 0;
    for (size_t i = 0; i < o->parts_n; i++) {
        struct owners_part *p = &o->parts[i];
        if (p->shard == shard) {
            a->parts[at] = p->want;
            a->parts[at++].u = p->resp;
        }
    }
    return true;
}

static bool owners_asks(struct owners *o, enum offsets_op op) {
    uint32_t shards = o->rq->sh->node->shards_n;
    size_t *counts = rq_array(o->rq, shards, sizeof(*counts));
    o->asks = rq_array(o->rq, shards, sizeof(*o->asks));
    if (counts == NULL || o->asks == NULL) {
        return false;
    }
    for (size_t i = 0; i < o->parts_n; i++) {
        struct owners_part *p = &o->parts[i];
        p->shard = shard_owner(o->rq->sh, p->topic, p->want.partition)->index;
        counts[p->shard]++;
    }
    for (uint32_t s = 0; s < shards; s++) {
        if (counts[s] > 0 && !owners_ask(o, s, counts[s], op)) {
            return false;
        }
    }
    return true;
}

void owners_send(struct owners *o, enum offsets_op op) {
    if (!owners_asks(o, op)) {
        rq_fail(o->rq, ERR_NOMEM);
        return;
    }
    if (o->asks_n == 0) {
        owners_reply(o);
        return;
    }
    o->out = o->asks_n;
    for (size_t i = 0, n = o->asks_n; i < n; i++) {
        offsets_send(o->rq->sh, o->asks[i].ask.owner, &o->asks[i]);
    }
}
