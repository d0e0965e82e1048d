/* A shard and its turn.
 *
 * Happy path: poll callbacks cut frames and dispatch (step 0), then shard_turn does steps 1 to 5 in this order and nothing else. Group commit and
 * durability-before-reply fall out of the order: whatever step 1 appended is written by step 3, what a finished sync moved is released by step 4 and leaves in step 5.
 * Failure modes: none; each step handles its own.
 * Runs on: its own thread. */
#include "broker/shard.h"

#include <string.h>

#include "base/crc.h"
#include "base/limits.h"
#include "inside.h"
#include "store/store.h"

ms shard_now(struct shard *sh) {
    if (!sh->now_is_fresh) {
        sh->now = clock_now(sh->port->clock);
        sh->now_is_fresh = true;
    }
    return sh->now;
}

ms shard_wall(struct shard *sh) { return clock_wall(sh->port->clock); }

void shard_again(struct shard *sh) { sh->port->again(sh->port); }

void shard_flush_later(struct shard *sh, struct shard_flush *f) {
    if (list_empty(&f->link)) {
        list_push_back(&sh->flushes, &f->link);
        shard_again(sh);
    }
}

struct shard *shard_owner(struct shard *sh, const struct meta_topic *t, int32_t partition) {
    uint32_t h = crc32c(t->name, strlen(t->name));         /* spreads topics; their partitions go round robin */
    return sh->node->shards[((uint64_t)h + (uint64_t)partition) % sh->node->shards_n];
}

/* Step 1, and again after step 4: what is here now, not what arrives meanwhile for ever. */
static void shard_deliver(struct shard *sh) {
    struct list in;
    list_init(&in);
    sh->port->inbox->drain(sh->port->inbox, &in, LIMIT_INBOX_PER_TURN);
    for (size_t n = 0; n < LIMIT_INBOX_PER_TURN; n++) {
        if (list_empty(&in)) {
            list_splice_back(&in, &sh->local);
        }
        struct list *link = list_pop_front(&in);
        if (link == NULL) {
            return;
        }
        ask_deliver(sh, link);
    }
    list_splice_back(&in, &sh->local);             /* older ones first */
    list_splice_back(&sh->local, &in);
    shard_again(sh);
}

/* Step 5: replies encoded and handed to the sockets. */
static void shard_flush_all(struct shard *sh) {
    struct list now;
    list_init(&now);
    list_splice_back(&now, &sh->flushes);
    struct list *link;
    while ((link = list_pop_front(&now)) != NULL) {
        struct shard_flush *f = list_entry(link, struct shard_flush, link);
        f->flush(f);
    }
}

static void shard_sleep(struct shard *sh) {
    ms due = wheel_next(&sh->wheel);
    ms store = store_due(sh->store);
    sh->port->wake_at(sh->port, due < store ? due : store);
    if (!list_empty(&sh->local) || !list_empty(&sh->flushes) || !list_empty(&sh->moved)) {
        shard_again(sh);
    }
}

static void shard_turn(void *u) {
    struct shard *sh = u;
    int64_t began_us = clock_now_us(sh->port->clock);
    sh->now = began_us / 1000;
    sh->now_is_fresh = true;
    sh->stats.turns++;
    shard_deliver(sh);                                                  /* 1 */
    wheel_run(&sh->wheel, sh->now, LIMIT_TIMERS_PER_TURN);              /* 2 */
    topics_pass(sh);                                                    /*    a slice of the topics that come or go */
    store_pass(sh->store, sh->now);                                     /* 3: after every append of this turn, so one write carries all */
    marks_settle(sh);                                                   /* 4: after the pass, which may have moved marks at once */
    append_resume(sh);
    shard_deliver(sh);                                                  /*    released asks to ourselves get home before the flush */
    shard_flush_all(sh);                                                /* 5: last, so that one send carries all replies of the turn */
    shard_sleep(sh);
    int64_t took = clock_now_us(sh->port->clock) - began_us;
    sh->stats.turn_us_max = took > sh->stats.turn_us_max ? took : sh->stats.turn_us_max;
    sh->now_is_fresh = false;
}

void shard_conf(struct shard *sh) {
    const struct node_conf *c = &sh->node->conf;
    sh->live = (struct shard_live){
        .conns_max = (uint32_t)meta_conf_int(sh->meta, "max.connections", c->conns_max),
        .producer_expiry = meta_conf_int(sh->meta, "producer.id.expiration.ms", c->producer_expiry),
    };
}

err shard_new(struct node *n, struct port *port, uint32_t index, struct shard **ret_sh) {
    struct shard *sh = mem_zalloc(MEM_MISC, sizeof(*sh));
    if (sh == NULL) {
        return ERR_NOMEM;
    }
    sh->port = port;
    sh->node = n;
    sh->index = index;
    wheel_init(&sh->wheel, clock_now(port->clock));
    prod_shard_init(sh);
    arena_pool_init(&sh->arenas, LIMIT_ARENAS_KEPT_BYTES);
    admit_init(&sh->admit, n->conf.admit_bytes, LIMIT_ADMIT_RESERVE_BYTES);
    map_init(&sh->parts, prng_next(port->rng));
    list_init(&sh->chores);
    list_init(&sh->applied);
    list_init(&sh->local);
    list_init(&sh->moved);
    list_init(&sh->full);
    list_init(&sh->flushes);
    list_init(&sh->pid_waiting);
    offsets_shard_init(sh);
    retain_shard_init(sh);
    sh->chunks = chunk_pool_new(LIMIT_CHUNKS_KEPT_BYTES);
    if (sh->chunks == NULL || meta_new(&n->conf.topic_defaults, prng_next(port->rng), &sh->meta) != ERR_OK) {
        shard_free(sh);
        return ERR_NOMEM;
    }
    sh->meta->node_id = n->conf.node_id;
    shard_conf(sh);
    port->on_turn(port, shard_turn, sh);
    *ret_sh = sh;
    return ERR_OK;
}

void shard_free(struct shard *sh) {
    if (sh == NULL) {
        return;
    }
    topics_shard_done(sh);
    for (struct map_node *nd = map_next(&sh->parts, NULL); nd != NULL;) {
        struct map_node *next = map_next(&sh->parts, nd);
        part_free(list_entry(nd, struct part, node));
        nd = next;
    }
    store_free(sh->store);
    map_done(&sh->parts);
    meta_free(sh->meta);
    chunk_pool_free(sh->chunks);
    arena_pool_done(&sh->arenas);
    mem_free(sh);
}
