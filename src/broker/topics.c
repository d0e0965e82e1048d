/* Metadata as a shard sees it: its copy of struct meta, the parts it owns, and the ask to shard 0 for a change.
 *
 * Happy path: topics_send -> shard 0's metad decides and makes durable -> every shard applies the frame (topics_hook opens and removes parts) -> the answer comes home.
 * Many partitions at once are opened and removed over several turns; the answer waits for all of them, and who asks for one that is not open yet opens it (part_get).
 * Failure modes: refused by a rule (c->why says which), NOSPACE, CLOSING.
 * Runs on: home shard (send), every shard (hooks), shard 0 (run). */
#include "broker/topics.h"

#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mark.h"
#include "inside.h"

static void topics_run(struct ask *ask) {
    struct topics_change *c = list_entry(ask, struct topics_change, ask);
    metad_change(ask->owner->node->metad, c);
}

void topics_init(struct topics_change *c, enum topics_op op, void (*done)(struct ask *a)) {
    *c = (struct topics_change){.op = op};
    ask_init(&c->ask, topics_run, done);
    list_init(&c->link);
}

void topics_send(struct shard *home, struct topics_change *c) { ask_send(home, home->node->shards[0], &c->ask); }

/* ---- partitions come and go, many of them over several turns ---- */

struct topics_chore {
    struct list link;                  /* in sh->chores */
    struct meta_topic *t;              /* one reference */
    int32_t at;                        /* the next partition */
    bool removal;
};

static void topics_open_one(struct shard *sh, struct meta_topic *t, int32_t i) {
    if (shard_owner(sh, t, i) != sh || part_find(sh, t->id, i) != NULL) {
        return;
    }
    struct part *pt;
    err e = part_open(sh, t, i, &pt);
    if (e != ERR_OK) {
        log_warn("part.open", "topic='%s' partition=%d reason='%s' effect='opened when somebody asks for it'", t->name, i, err_text(e));
    }
}

static void topics_remove_one(struct shard *sh, const struct meta_topic *t, int32_t i) {
    struct part *pt = part_find(sh, t->id, i);
    if (pt != NULL) {
        part_remove(pt);
    }
}

/* At most n of its partitions; true when it is through. */
static bool topics_slice(struct shard *sh, struct topics_chore *c, int32_t n) {
    for (; n > 0 && c->at < c->t->parts_n; n--, c->at++) {
        if (c->removal) {
            topics_remove_one(sh, c->t, c->at);
        } else {
            topics_open_one(sh, c->t, c->at);
        }
    }
    return c->at >= c->t->parts_n;
}

static void topics_chore_free(struct shard *sh, struct topics_chore *c) {
    shard_again(sh);                               /* topics_pass has an ask to return, or the next chore */
    list_remove(&c->link);
    meta_topic_unref(c->t);
    mem_free(c);
}

/* Now, or the first of them now and the others in turns to come. */
static void topics_begin(struct shard *sh, struct meta_topic *t, int32_t first, bool removal) {
    struct topics_chore now = {.t = t, .at = first, .removal = removal};
    struct topics_chore *c = t->parts_n - first > LIMIT_PARTS_PER_TURN ? mem_alloc(MEM_META, sizeof(*c)) : NULL;
    if (c == NULL) {
        (void)topics_slice(sh, &now, INT32_MAX);
        return;
    }
    mark("topics.slices");
    *c = now;
    meta_topic_ref(t);
    list_push_back(&sh->chores, &c->link);
    shard_again(sh);
}

/* A topic goes: what of it is not open yet need not be. A topic comes: a former one of its name leaves first, since its directories must be out of the way (BR-042). */
static void topics_settle(struct shard *sh, const struct meta_topic *t, bool removed) {
    list_each_safe(it, &sh->chores) {
        struct topics_chore *c = list_entry(it, struct topics_chore, link);
        if (removed && c->t == t) {
            topics_chore_free(sh, c);
        } else if (!removed && c->removal && strcmp(c->t->name, t->name) == 0) {
            (void)topics_slice(sh, c, INT32_MAX);
            topics_chore_free(sh, c);
        }
    }
}

static void topics_on_topic(void *u, struct meta_topic *t, bool removed) {
    topics_settle(u, t, removed);
    topics_begin(u, t, 0, removed);
}

bool topics_hold(struct shard *sh, struct ask *ask) {
    if (list_empty(&sh->chores)) {
        return false;
    }
    list_push_back(&sh->applied, &ask->item.link);
    return true;
}

static void topics_work(struct shard *sh) {
    struct topics_chore *c = list_entry(sh->chores.next, struct topics_chore, link);
    if (topics_slice(sh, c, LIMIT_PARTS_PER_TURN)) {
        topics_chore_free(sh, c);
    }
    shard_again(sh);
}

void topics_pass(struct shard *sh) {
    if (!list_empty(&sh->chores)) {
        topics_work(sh);
    }
    while (list_empty(&sh->chores) && !list_empty(&sh->applied)) {
        ask_return(list_entry(list_pop_front(&sh->applied), struct ask, item.link), ERR_OK);
    }
}

void topics_shard_done(struct shard *sh) {
    list_each_safe(it, &sh->chores) {
        topics_chore_free(sh, list_entry(it, struct topics_chore, link));
    }
}

static void topics_on_epoch(void *u, struct meta_topic *t, int32_t partition) {
    struct part *pt = part_find(u, t->id, partition);
    if (pt != NULL) {
        part_epoch(pt, t->parts[partition].leader_epoch);
    }
}

static void topics_on_growth(void *u, struct meta_topic *t, int32_t first) { topics_begin(u, t, first, false); }

static void topics_on_conf(void *u, struct meta_topic *t) {
    for (int32_t i = 0; i < t->parts_n; i++) {
        struct part *pt = part_find(u, t->id, i);
        if (pt != NULL) {
            part_conf(pt);
        }
    }
}

static void topics_on_broker_conf(void *u) { shard_conf(u); }

void topics_hook(struct shard *sh) {
    sh->meta->on_topic = topics_on_topic;
    sh->meta->on_epoch = topics_on_epoch;
    sh->meta->on_growth = topics_on_growth;
    sh->meta->on_conf = topics_on_conf;
    sh->meta->on_broker_conf = topics_on_broker_conf;
    sh->meta->u = sh;
    shard_conf(sh);
}
