/* One broker process: boot, start, stop.
 *
 * Boot (synchronous, before the loops run): data directory, metadata replay into every shard's copy, stores, recovery of every log.
 * Start (shard 0, once its loop runs): the format record on a fresh directory and raised leader epochs (raise.c) become durable, then the doors open, then on_ready.
 * Stop: doors close and drain on every shard; when the last one is idle (its requests may need any shard's logs) stores write their CLEAN marks, the metadata log closes,
 * on_stopped, loops end. A stop before the start is over opens no doors.
 * Failure modes: a boot error frees everything and says one line; connections that do not drain in 3 s are cut by the door; a failed stop of a store leaves the directory unclean, which the
 * next start repairs.
 * Runs on: the boot thread; then shard 0, asks to the others. */
#include "broker/node.h"

#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "inside.h"
#include "store/metalog.h"

#define NODE_OPENED_MAX 64

struct node_errand {                   /* one small task on another shard */
    struct ask ask;
    struct node *node;
};

struct node_phase {
    struct node_errand start, drain[LIMIT_SHARDS], stop[LIMIT_SHARDS], end[LIMIT_SHARDS];
    struct raise raise;                /* leader epochs that are to rise */
    struct graves graves;              /* boot: topics that the log saw deleted */
    bool stopping;
    uint32_t left;
};

/* ---- boot ---- */

static err node_on_record(void *u, span record) {
    struct node *n = u;
    for (uint32_t i = 0; i < n->shards_n; i++) {
        err e = meta_apply(n->shards[i]->meta, record);
        if (e != ERR_OK) {
            return e;
        }
    }
    return meta_apply(metad_ahead(n->metad), record);
}

static void node_on_topic(void *u, struct meta_topic *t, bool removed) {
    struct node *n = u;
    if (removed) {
        graves_note(&n->phase->graves, t->name, t->id);
    }
}

static err node_boot_shards(struct node *n, const struct node_boot *b) {
    for (uint32_t i = 0; i < b->ports_n; i++) {
        err e = shard_new(n, b->ports[i], i, &n->shards[i]);
        if (e != ERR_OK) {
            return e;
        }
        n->shards_n = i + 1;
    }
    return ERR_OK;
}

static err node_boot_meta(struct node *n, char *why, size_t cap) {
    struct shard *sh = n->shards[0];
    struct meta *ahead = NULL;
    err e = meta_new(&n->conf.topic_defaults, prng_next(sh->port->rng), &ahead);
    if (e != ERR_OK) {
        return e;
    }
    ahead->node_id = n->conf.node_id;
    e = metad_new(n, ahead, &n->metad);
    if (e != ERR_OK) {
        meta_free(ahead);
        return e;
    }
    struct metalog *ml = NULL;
    ahead->on_topic = node_on_topic;
    ahead->u = n;
    e = metalog_open(sh->port->disk, node_on_record, n, &ml, (struct why){why, cap});
    ahead->on_topic = NULL;
    if (e == ERR_OK) {
        metad_bind(n->metad, ml);
        e = graves_bury(&n->phase->graves, n->datadir);
    }
    graves_done(&n->phase->graves);
    return e;
}

static err node_boot_stores(struct node *n) {
    struct store_conf conf = {
        .sync_age_max = n->conf.sync_age_max,
        .unsynced_bytes_max = n->conf.unsynced_bytes_max,
        .tail_bytes_max = n->conf.tail_bytes_max,
        .checkpoint_bytes = 64 << 20,
        .checkpoint_age = 1000,
        .heavy_bytes = 4 << 20,
        .files_max = n->conf.files_max / n->shards_n,
        .space_reserve_bytes = n->conf.space_reserve_bytes,
    };
    for (uint32_t i = 0; i < n->shards_n; i++) {
        struct store_hooks hooks;
        marks_hooks(n->shards[i], &hooks);
        err e = store_new(&n->shards[i]->store, n->shards[i]->port, n->datadir, &conf, &hooks);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

/* Every log is opened on its owner and recovered; who had bytes above its mark, or may have shown some that are gone, gets a higher leader epoch before
 * anything is served. */
static err node_boot_log(struct node *n, struct part *pt) {
    struct plog_recovery r = {0};
    err e = plog_recover(pt->log, &r);
    if (e == ERR_DAMAGED || e == ERR_IO) {
        return ERR_OK;                             /* this log stays fenced, its files untouched; the others are served */
    }
    struct plog_ends ends;
    plog_ends(pt->log, &ends);
    pt->committed = ends.bound;
    plog_epoch(pt->log, pt->leader_epoch);         /* recovery knows only epochs that have batches */
    if (e == ERR_OK && (r.above_mark || (r.unclean && pt->log_conf.write_caching))) {
        e = raise_owe(&n->phase->raise, pt);
    }
    return e;
}

/* Logs that were opened and whose reading has begun: while one is recovered the disk works on those behind it. */
struct node_opened {
    struct part *v[NODE_OPENED_MAX];
    size_t n;
};

static err node_recover_opened(struct node *n, struct node_opened *op) {
    err e = ERR_OK;
    for (size_t i = 0; i < op->n && e == ERR_OK; i++) {
        e = node_boot_log(n, op->v[i]);
    }
    op->n = 0;
    return e;
}

static err node_open_log(struct node *n, struct node_opened *op, struct shard *sh, struct meta_topic *t, int32_t i) {
    err e = op->n == NODE_OPENED_MAX ? node_recover_opened(n, op) : ERR_OK;
    e = e == ERR_OK ? part_open(sh, t, i, &op->v[op->n]) : e;
    if (e == ERR_OK) {
        plog_ahead(op->v[op->n++]->log);
    }
    return e;
}

static err node_boot_shard_logs(struct node *n, struct shard *sh) {
    struct node_opened op = {.n = 0};
    list_each(it, &sh->meta->topics) {
        struct meta_topic *t = list_entry(it, struct meta_topic, link);
        for (int32_t i = 0; i < t->parts_n; i++) {
            err e = shard_owner(sh, t, i) == sh ? node_open_log(n, &op, sh, t, i) : ERR_OK;
            if (e != ERR_OK) {
                return e;
            }
        }
    }
    return node_recover_opened(n, &op);
}

static err node_boot_logs(struct node *n) {
    for (uint32_t s = 0; s < n->shards_n; s++) {
        err e = node_boot_shard_logs(n, n->shards[s]);
        if (e != ERR_OK) {
            return e;
        }
        topics_hook(n->shards[s]);
        e = store_begin(n->shards[s]->store);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

static bool node_dir_known(void *u, const char *dir_name) {
    struct node *n = u;
    const char *dash = strrchr(dir_name, '-');
    return dash != NULL && meta_topic_by_name(n->shards[0]->meta, span_of(dir_name, (size_t)(dash - dir_name))) != NULL;
}

static void node_dir_stray(void *u, const char *dir_name) {
    (void)u;
    log_warn("datadir.stray", "dir='%s' effect='kept, not served: no topic of this broker has that name'", dir_name);
}

static err node_boot_dir(struct node *n, char *why, size_t cap) {
    struct port *port = n->shards[0]->port;
    uint8_t random[16];
    port->secret(port, random, sizeof(random));
    err e = datadir_open(port->disk, n->conf.node_id, uuid_from_random(random), &n->datadir, (struct why){why, cap});
    if (e != ERR_OK) {
        return e;
    }
    n->cluster_id = datadir_cluster_id(n->datadir);
    if (!datadir_is_clean(n->datadir)) {
        log_info("datadir.unclean", "action='recovering: bytes above the durable marks are checked'");
        e = datadir_settle(n->datadir);
    }
    return e == ERR_OK ? datadir_sweep(n->datadir) : e;
}

static void node_dir_doomed(void *u, const char *dir_name) {
    struct node *n = u;
    store_remove_dir(n->shards[0]->store, dir_name);
}

static err node_boot_all(struct node *n, const struct node_boot *b, char *why, size_t cap) {
    err e = node_boot_shards(n, b);
    e = e == ERR_OK ? node_boot_dir(n, why, cap) : e;
    e = e == ERR_OK ? node_boot_meta(n, why, cap) : e;
    e = e == ERR_OK ? node_boot_stores(n) : e;
    e = e == ERR_OK ? node_boot_logs(n) : e;
    e = e == ERR_OK ? datadir_strays(n->datadir, node_dir_known, n, node_dir_stray) : e;
    if (e == ERR_OK) {
        datadir_doomed(n->datadir, node_dir_doomed, n);
    }
    return e;
}

/* ---- start ---- */

static void node_ready(struct node *n, err e) {
    char why[256] = "";
    if (n->phase->stopping) {
        return;
    }
    if (e == ERR_OK) {
        e = n->door.start(n, n->door.u, why, sizeof(why));
    } else {
        snprintf(why, sizeof(why), "metadata cannot be written: %s", err_text(e));
    }
    n->on_ready(n->u, e, why);
}

static void node_formatted(void *u, err e) {
    struct node *n = u;
    if (e != ERR_OK) {
        node_ready(n, e);
        return;
    }
    raise_start(&n->phase->raise, n, node_ready);
}

static void node_start_run(struct ask *ask) {
    struct node *n = list_entry(ask, struct node_errand, ask)->node;
    struct shard *sh = n->shards[0];
    metad_start(n->metad, sh->port);
    if (!uuid_is_zero(sh->meta->cluster_id)) {
        raise_start(&n->phase->raise, n, node_ready);
        return;
    }
    struct str frame;
    str_init(&frame, LIMIT_META_RECORD_BYTES);
    err e = meta_decide_format(n->cluster_id, n->conf.node_id, &frame);
    if (e != ERR_OK) {
        node_ready(n, e);
    } else {
        metad_propose(n->metad, str_span(&frame), node_formatted, n);
    }
    str_done(&frame);
}

static void node_errand_done(struct ask *ask) { (void)ask; }

err node_boot(const struct node_boot *b, struct node **ret_n, char *ret_why, size_t cap) {
    struct node *n = mem_zalloc(MEM_MISC, sizeof(*n));
    struct node_phase *ph = mem_zalloc(MEM_MISC, sizeof(*ph));
    if (n == NULL || ph == NULL) {
        mem_free(n);
        mem_free(ph);
        snprintf(ret_why, cap, "%s", err_text(ERR_NOMEM));
        return ERR_NOMEM;
    }
    ret_why[0] = '\0';
    n->phase = ph;
    n->conf = *b->conf;
    n->door = b->door;
    n->on_ready = b->on_ready;
    n->on_stopped = b->on_stopped;
    n->on_fatal = b->on_fatal;
    n->u = b->u;
    err e = node_boot_all(n, b, ret_why, cap);
    if (e != ERR_OK) {
        if (ret_why[0] == '\0') {
            snprintf(ret_why, cap, "%s", err_text(e));
        }
        node_free(n);
        return e;
    }
    ph->start.node = n;
    ask_init(&ph->start.ask, node_start_run, node_errand_done);
    ask_send(n->shards[0], n->shards[0], &ph->start.ask);
    for (uint32_t i = 1; i < n->shards_n; i++) {
        shard_again(n->shards[i]);                 /* a first turn, in which it learns of its timers: perhaps nobody ever asks it for anything */
    }
    *ret_n = n;
    return ERR_OK;
}

/* ---- stop ---- */

static void node_end_run(struct ask *ask) {
    struct shard *sh = ask->owner;
    sh->port->stop(sh->port);
}

static void node_meta_stopped(void *u) {
    struct node *n = u;
    n->on_stopped(n->u);
    for (uint32_t i = n->shards_n; i-- > 0;) {
        ask_init(&n->phase->end[i].ask, node_end_run, node_errand_done);
        ask_send(n->shards[0], n->shards[i], &n->phase->end[i].ask);
    }
}

static void node_store_stopped_home(struct ask *ask) {
    struct node *n = list_entry(ask, struct node_errand, ask)->node;
    n->stop_err = ask->err != ERR_OK ? ask->err : n->stop_err;
    if (--n->phase->left == 0) {
        metad_stop(n->metad, node_meta_stopped, n);
    }
}

static void node_store_stopped(void *u, err e) {
    struct shard *sh = u;
    if (e != ERR_OK) {
        log_error("store.stop", "shard=%u reason='%s' effect='the next start recovers'", sh->index, err_text(e));
    }
    ask_return(&sh->node->phase->stop[sh->index].ask, e);
}

static void node_store_stop_run(struct ask *ask) { store_stop(ask->owner->store, node_store_stopped, ask->owner); }

static void node_send_all(struct node *n, struct node_errand *errands, void (*run)(struct ask *a), void (*home)(struct ask *a)) {
    n->phase->left = n->shards_n;
    for (uint32_t i = 0; i < n->shards_n; i++) {
        errands[i].node = n;
        ask_init(&errands[i].ask, run, home);
        ask_send(n->shards[0], n->shards[i], &errands[i].ask);
    }
}

/* Nobody has a request under way any more. */
static void node_drained_home(struct ask *ask) {
    struct node *n = list_entry(ask, struct node_errand, ask)->node;
    if (--n->phase->left == 0) {
        node_send_all(n, n->phase->stop, node_store_stop_run, node_store_stopped_home);
    }
}

void node_door_idle(struct shard *sh) { ask_return(&sh->node->phase->drain[sh->index].ask, ERR_OK); }

static void node_drain_run(struct ask *ask) {
    struct shard *sh = ask->owner;
    sh->node->door.drain(sh, sh->node->door.u);
}

void node_stop(struct node *n) {
    if (n->phase->stopping) {
        return;
    }
    n->phase->stopping = true;
    raise_stop(&n->phase->raise);
    n->door.close(n, n->door.u);
    node_send_all(n, n->phase->drain, node_drain_run, node_drained_home);
}

void node_free(struct node *n) {
    if (n == NULL) {
        return;
    }
    if (n->door.free != NULL) {
        n->door.free(n, n->door.u);
    }
    for (uint32_t i = 0; i < n->shards_n; i++) {
        shard_free(n->shards[i]);
    }
    metad_free(n->metad);
    datadir_free(n->datadir);
    raise_free(&n->phase->raise);
    mem_free(n->phase);
    mem_free(n);
}
