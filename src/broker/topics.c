/* Metadata as a shard sees it: its copy of struct meta, the parts it owns, and the ask to shard 0 for a change.
 *
 * Happy path: topics_send -> shard 0's metad decides and makes durable -> every shard applies the frame (topics_hook opens and removes parts) -> the answer comes home.
 * Failure modes: refused by a rule (c->why says which), NOSPACE, CLOSING.
 * Runs on: home shard (send), every shard (hooks), shard 0 (run). */
#include "broker/topics.h"

#include "base/log.h"
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

static void topics_open_parts(struct shard *sh, struct meta_topic *t, int32_t first) {
    for (int32_t i = first; i < t->parts_n; i++) {
        if (shard_owner(sh, t, i) != sh || part_find(sh, t->id, i) != NULL) {
            continue;
        }
        struct part *pt;
        err e = part_open(sh, t, i, &pt);
        if (e != ERR_OK) {
            log_warn("part.open", "topic='%s' partition=%d reason='%s' effect='opened when somebody asks for it'", t->name, i, err_text(e));
        }
    }
}

static void topics_remove_parts(struct shard *sh, struct meta_topic *t) {
    for (int32_t i = 0; i < t->parts_n; i++) {
        struct part *pt = part_find(sh, t->id, i);
        if (pt != NULL) {
            part_remove(pt);
        }
    }
}

static void topics_on_topic(void *u, struct meta_topic *t, bool removed) {
    if (removed) {
        topics_remove_parts(u, t);
    } else {
        topics_open_parts(u, t, 0);
    }
}

static void topics_on_epoch(void *u, struct meta_topic *t, int32_t partition) {
    struct part *pt = part_find(u, t->id, partition);
    if (pt != NULL) {
        part_epoch(pt, t->parts[partition].leader_epoch);
    }
}

static void topics_on_growth(void *u, struct meta_topic *t, int32_t first) { topics_open_parts(u, t, first); }

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
