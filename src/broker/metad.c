/* The metadata writer, on shard 0. Changes are decided against `ahead`, the metadata with everything queued so far applied, so that many share one sync; clients see only what
 * their shard's own copy holds, which a frame reaches after it is durable.
 *
 * Happy path: decide on ahead -> apply to ahead -> metalog_append -> durable -> every shard applies the same frame -> the change is answered. A change that a rule refuses is
 * answered after the frames before it, since the refusal may show what they did (D4).
 * Failure modes: the append is refused (NOSPACE): every round from it on fails, new changes wait until the last one is back, ahead is rebuilt from shard 0's copy. A failed sync is fatal:
 * metalog says so. A snapshot that is refused leaves the log as it is and is tried again when that has grown as much again.
 * Runs on: shard 0. */
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/must.h"
#include "broker/topics.h"
#include "inside.h"
#include "store/metalog.h"

#define METAD_SNAPSHOT_BYTES (4 << 20)

struct metad_apply {
    struct ask ask;
    struct metad_round *round;
};

struct metad_round {
    struct list link;                  /* in md->rounds, oldest first */
    struct metad *md;
    struct metalog_append ap;
    struct chunk *frame;
    size_t n;
    struct list changes;               /* topics_change.link: answered when every shard has applied */
    void (*done)(void *u, err e);      /* of metad_propose */
    void *u;
    uint32_t left;
    struct metad_apply apply[];
};

struct metad {
    struct node *node;
    struct metalog *log;
    struct meta *ahead;
    struct list rounds;
    struct list waiting;               /* changes held while ahead is to be rebuilt, or a snapshot is written */
    bool broken;                       /* an append was refused: ahead shows what will never be */
    bool snapshotting, stopping;
    int64_t snapshot_at;               /* a snapshot is due when the log has grown to this */
    void (*stopped)(void *u);
    void *u;
};

static void metad_next(struct metad *md);

static span metad_frame(const struct metad_round *r) { return span_of(r->frame->data, r->n); }

static void metad_answer(struct metad_round *r, err e) {
    struct list *link;
    while ((link = list_pop_front(&r->changes)) != NULL) {
        struct topics_change *c = list_entry(link, struct topics_change, link);
        ask_return(&c->ask, e != ERR_OK ? e : c->ask.err);         /* a verdict over what never was is none */
    }
    if (r->done != NULL) {
        r->done(r->u, e);
    }
}

static void metad_round_end(struct metad_round *r, err e) {
    struct metad *md = r->md;
    metad_answer(r, e);
    list_remove(&r->link);
    chunk_unref(r->frame);
    mem_free(r);
    metad_next(md);
}

/* ---- every shard applies ---- */

static void metad_apply_run(struct ask *ask) {
    struct metad_apply *ap = list_entry(ask, struct metad_apply, ask);
    err e = meta_apply(ask->owner->meta, metad_frame(ap->round));
    must(e == ERR_OK || e == ERR_NOMEM);           /* decide made the frame, ahead took it */
    if (e == ERR_NOMEM) {
        ask->owner->node->on_fatal(ask->owner->node->u, "out of memory while applying a metadata change");
    }
    if (!topics_hold(ask->owner, ask)) {
        ask_return(ask, e);
    }
}

static void metad_apply_home(struct ask *ask) {
    struct metad_round *r = list_entry(ask, struct metad_apply, ask)->round;
    if (--r->left == 0) {
        metad_round_end(r, ERR_OK);
    }
}

static void metad_durable(struct metalog_append *ap) {
    struct metad_round *r = list_entry(ap, struct metad_round, ap);
    struct node *n = r->md->node;
    if (ap->err != ERR_OK) {
        r->md->broken = true;
        metad_round_end(r, ap->err);
        return;
    }
    r->left = n->shards_n;
    for (uint32_t i = 0; i < n->shards_n; i++) {
        r->apply[i].round = r;
        ask_init(&r->apply[i].ask, metad_apply_run, metad_apply_home);
        ask_send(n->shards[0], n->shards[i], &r->apply[i].ask);
    }
}

/* ---- a frame on its way ---- */

static err metad_queue(struct metad *md, span frame, struct metad_round **ret_r) {
    struct metad_round *r = mem_zalloc(MEM_META, sizeof(*r) + md->node->shards_n * sizeof(r->apply[0]));
    struct chunk *c = r == NULL ? NULL : chunk_new(md->node->shards[0]->chunks, frame.n);
    err e = c == NULL ? ERR_NOMEM : meta_apply(md->ahead, frame);
    if (e != ERR_OK) {
        chunk_unref(c);
        mem_free(r);
        return e;
    }
    memcpy(c->data, frame.p, frame.n);
    r->md = md;
    r->frame = c;
    r->n = frame.n;
    list_init(&r->changes);
    list_push_back(&md->rounds, &r->link);
    r->ap.records = metad_frame(r);
    r->ap.done = metad_durable;
    *ret_r = r;
    return ERR_OK;
}

/* Refusals show the state with all that is queued: they leave with the last round. */
static void metad_refuse(struct metad *md, struct topics_change *c, err e) {
    if (list_empty(&md->rounds)) {
        ask_return(&c->ask, e);
        return;
    }
    c->ask.err = e;
    list_push_back(&list_entry(md->rounds.prev, struct metad_round, link)->changes, &c->link);
}

static err metad_decide(struct metad *md, struct topics_change *c, struct str *frame) {
    const struct meta_topic *t = NULL;
    if (c->op == TOPICS_DELETE || c->op == TOPICS_EPOCH || c->op == TOPICS_GROW) {
        t = meta_topic_by_id(md->ahead, c->topic_id);
        if (t == NULL) {
            return ERR_NO_TOPIC;
        }
    }
    switch (c->op) {
    case TOPICS_CREATE:
        c->create.id = c->topic_id;
        return meta_decide_create(md->ahead, &c->create, frame, &c->partitions, c->why, sizeof(c->why));
    case TOPICS_DELETE:
        return meta_decide_delete(md->ahead, t, frame);
    case TOPICS_GROW:
        c->grow.topic = t;
        return meta_grow_decide(md->ahead, &c->grow, frame, c->why, sizeof(c->why));
    case TOPICS_CONF:
        c->conf.conf = md->node->conf.conf;
        return meta_conf_decide(md->ahead, &c->conf, frame, c->why, sizeof(c->why));
    case TOPICS_EPOCH:
        return meta_decide_epoch(md->ahead, t, c->partition, frame);
    case TOPICS_PRODUCER_BLOCK:
        c->ids_first = md->ahead->producer_ids_next;
        return meta_decide_producer_block(md->ahead, c->ids_n, frame);
    }
    return ERR_INTERNAL;
}

static void metad_take(struct metad *md, struct topics_change *c) {
    struct str frame;
    str_init(&frame, LIMIT_META_RECORD_BYTES);
    err e = metad_decide(md, c, &frame);
    e = e == ERR_OK && frame.bad ? (frame.n == frame.ceiling ? ERR_LIMIT : ERR_NOMEM) : e;
    struct metad_round *r = NULL;
    if (e == ERR_OK && !c->validate_only) {
        e = metad_queue(md, str_span(&frame), &r);
    }
    if (r != NULL) {
        list_push_back(&r->changes, &c->link);
        metalog_append(md->log, &r->ap);
    } else {
        metad_refuse(md, c, e);
    }
    str_done(&frame);
}

void metad_change(struct metad *md, struct topics_change *c) {
    c->ask.err = ERR_OK;
    if (md->stopping) {
        ask_return(&c->ask, ERR_CLOSING);
    } else if (md->broken || md->snapshotting || !list_empty(&md->waiting)) {
        list_push_back(&md->waiting, &c->link);
    } else {
        metad_take(md, c);
    }
}

void metad_propose(struct metad *md, span frame, void (*done)(void *u, err e), void *u) {
    struct metad_round *r;
    err e = metad_queue(md, frame, &r);
    if (e != ERR_OK) {
        done(u, e);
        return;
    }
    r->done = done;
    r->u = u;
    metalog_append(md->log, &r->ap);
}

/* ---- between rounds ---- */

/* ahead = shard 0's copy again: what was refused is forgotten. */
static void metad_rebuild(struct metad *md) {
    struct str frames;
    str_init(&frames, SIZE_MAX);
    struct meta *fresh = NULL;
    const struct meta *ours = md->node->shards[0]->meta;
    err e = meta_snapshot(ours, &frames);
    e = e == ERR_OK ? meta_new(ours->defaults, prng_next(md->node->shards[0]->port->rng), &fresh) : e;
    if (e == ERR_OK) {
        fresh->node_id = ours->node_id;
        e = meta_apply(fresh, str_span(&frames));
    }
    str_done(&frames);
    if (e != ERR_OK) {
        meta_free(fresh);
        md->node->on_fatal(md->node->u, "out of memory while rebuilding metadata after a refused write");
        return;
    }
    meta_free(md->ahead);
    md->ahead = fresh;
    md->broken = false;
}

static void metad_snapshot_done(void *u, err e) {
    struct metad *md = u;
    md->snapshotting = false;
    md->snapshot_at = METAD_SNAPSHOT_BYTES;
    if (e != ERR_OK) {
        md->snapshot_at += metalog_grown(md->log);             /* not at once: changes would wait for ever behind a full disk */
        log_warn("metad.snapshot", "reason='%s' effect='the metadata log keeps growing; tried again later'", err_text(e));
    }
    metad_next(md);
}

static bool metad_snapshot(struct metad *md) {
    struct str frames;
    str_init(&frames, SIZE_MAX);
    if (metalog_grown(md->log) < md->snapshot_at) {
        return false;
    }
    if (meta_snapshot(md->node->shards[0]->meta, &frames) != ERR_OK) {
        md->snapshot_at = METAD_SNAPSHOT_BYTES + metalog_grown(md->log);
        str_done(&frames);
        return false;
    }
    md->snapshotting = true;
    metalog_snapshot(md->log, frames.p, frames.n, metad_snapshot_done, md);    /* takes the bytes over */
    return true;
}

/* After a round or a snapshot ended: mend, snapshot, stop, or take up what waited. */
static void metad_next(struct metad *md) {
    if (!list_empty(&md->rounds) || md->snapshotting) {
        return;
    }
    if (md->broken) {
        metad_rebuild(md);
    }
    if (md->stopping) {
        if (md->stopped != NULL) {
            metalog_stop(md->log, md->stopped, md->u);
            md->stopped = NULL;
        }
        return;
    }
    if (metad_snapshot(md)) {
        return;
    }
    struct list todo;
    list_init(&todo);
    list_splice_back(&todo, &md->waiting);
    struct list *link;
    while ((link = list_pop_front(&todo)) != NULL) {
        metad_take(md, list_entry(link, struct topics_change, link));
    }
}

void metad_stop(struct metad *md, void (*done)(void *u), void *u) {
    md->stopping = true;
    md->stopped = done;
    md->u = u;
    struct list *link;
    while ((link = list_pop_front(&md->waiting)) != NULL) {
        ask_return(&list_entry(link, struct topics_change, link)->ask, ERR_CLOSING);
    }
    metad_next(md);
}

struct meta *metad_ahead(struct metad *md) { return md->ahead; }

static void metad_fatal(void *u, const char *why) {
    struct metad *md = u;
    md->node->on_fatal(md->node->u, why);
}

void metad_bind(struct metad *md, struct metalog *ml) { md->log = ml; }

void metad_start(struct metad *md, struct port *port) { metalog_bind(md->log, port, metad_fatal, md); }

err metad_new(struct node *n, struct meta *ahead, struct metad **ret_md) {
    struct metad *md = mem_zalloc(MEM_META, sizeof(*md));
    if (md == NULL) {
        return ERR_NOMEM;
    }
    md->node = n;
    md->ahead = ahead;
    md->snapshot_at = METAD_SNAPSHOT_BYTES;
    list_init(&md->rounds);
    list_init(&md->waiting);
    *ret_md = md;
    return ERR_OK;
}

void metad_free(struct metad *md) {
    if (md == NULL) {
        return;
    }
    meta_free(md->ahead);
    metalog_free(md->log);
    mem_free(md);
}
