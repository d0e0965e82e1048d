/* A partition's struct: found by (topic id, index), opened when metadata says so, removed with its topic.
 * Runs on: owner shard. */
#include "part.h"

#include <string.h>

#include "base/must.h"
#include "inside.h"

struct part_key {
    uuid topic_id;
    int32_t index;
};

static bool part_eq(const struct map_node *node, const void *key) {
    const struct part *pt = list_entry(node, const struct part, node);
    const struct part_key *k = key;
    return pt->index == k->index && uuid_eq(pt->topic->id, k->topic_id);
}

static uint64_t part_hash(const struct shard *sh, uuid topic_id, int32_t index) {
    uint64_t a, b;
    memcpy(&a, topic_id.b, 8);
    memcpy(&b, topic_id.b + 8, 8);
    return map_hash_u64(&sh->parts, a ^ (b * 0x9e3779b97f4a7c15u) ^ ((uint64_t)(uint32_t)index << 17));
}

struct part *part_find(struct shard *sh, uuid topic_id, int32_t index) {
    struct part_key key = {topic_id, index};
    struct map_node *nd = map_find(&sh->parts, part_hash(sh, topic_id, index), part_eq, &key);
    return nd == NULL ? NULL : list_entry(nd, struct part, node);
}

static void part_log_conf(const struct meta_topic *topic, struct log_conf *ret) {
    const struct topicconf *t = &topic->conf;
    *ret = (struct log_conf){
        .segment_bytes = t->segment_bytes,
        .segment_age = t->segment_age,
        .segment_jitter = t->segment_jitter,
        .index_interval_bytes = t->index_interval_bytes,
        .index_bytes_max = t->index_bytes_max,
        .write_caching = t->write_caching,
        .internal = topic->internal,               /* the broker's own writes may use the space kept back (DESIGN 4) */
    };
}

err part_open(struct shard *sh, struct meta_topic *t, int32_t index, struct part **ret_pt) {
    struct part *pt = mem_zalloc(MEM_PART, sizeof(*pt));
    if (pt == NULL) {
        return ERR_NOMEM;
    }
    pt->sh = sh;
    pt->topic = t;
    pt->index = index;
    pt->leader_epoch = t->parts[index].leader_epoch;
    list_init(&pt->moved);
    list_init(&pt->appends);
    list_init(&pt->watches);
    list_init(&pt->bounds);
    part_log_conf(t, &pt->log_conf);
    err e = map_insert(&sh->parts, &pt->node, part_hash(sh, t->id, index));
    if (e != ERR_OK) {
        mem_free(pt);
        return e;
    }
    struct plog_id id = {.topic = t->name, .topic_id = t->id, .partition = index};
    e = plog_open(sh->store, &id, &pt->log_conf, pt, &pt->log);        /* last of what may fail: the store keeps pt from here on */
    if (e != ERR_OK) {
        map_remove(&sh->parts, &pt->node);
        mem_free(pt);
        return e;
    }
    meta_topic_ref(t);
    plog_epoch(pt->log, pt->leader_epoch);
    struct plog_ends ends;
    plog_ends(pt->log, &ends);
    pt->committed = ends.bound;
    *ret_pt = pt;
    return ERR_OK;
}

err part_get(struct shard *sh, uuid topic_id, int32_t index, struct part **ret_pt) {
    struct part *pt = part_find(sh, topic_id, index);
    if (pt != NULL) {
        *ret_pt = pt;
        return ERR_OK;
    }
    struct meta_topic *t = meta_topic_by_id(sh->meta, topic_id);
    bool ours = t != NULL && index >= 0 && index < t->parts_n && shard_owner(sh, t, index) == sh;
    return ours ? part_open(sh, t, index, ret_pt) : ERR_NO_TOPIC;
}

void part_remove(struct part *pt) {
    append_fail(pt, 0, ERR_NO_TOPIC);
    offsets_fail(pt, ERR_NO_TOPIC);
    watch_wake(pt);
    plog_delete(pt->log);
    part_free(pt);
}

void part_free(struct part *pt) {
    must(list_empty(&pt->appends));
    list_remove(&pt->moved);
    map_remove(&pt->sh->parts, &pt->node);
    prod_free(pt);
    meta_topic_unref(pt->topic);
    mem_free(pt);
}

void part_epoch(struct part *pt, int32_t leader_epoch) {
    must(leader_epoch >= pt->leader_epoch);        /* S3.9 */
    pt->leader_epoch = leader_epoch;
    plog_epoch(pt->log, leader_epoch);
    watch_wake(pt);
}

/* write.caching goes off while readers saw more than is synced: the log keeps its old class until the disk holds what they saw, and nothing more becomes visible
 * before it is synced (part_bound). */
static void part_uncache(struct part *pt) {
    pt->log_conf.write_caching = true;
    pt->uncaching = true;
    pt->seen = pt->committed;
    plog_sync_wanted(pt->log);
}

void part_conf(struct part *pt) {
    bool cached = pt->log_conf.write_caching, before = pt->uncaching;
    part_log_conf(pt->topic, &pt->log_conf);
    pt->uncaching = false;
    if (cached && !pt->log_conf.write_caching) {
        off64 seen = pt->seen;
        part_uncache(pt);
        pt->seen = before ? seen : pt->seen;
    }
    plog_conf(pt->log, &pt->log_conf);
    marks_touch(pt);                               /* the bound may be another */
}

off64 part_bound(struct part *pt, const struct plog_ends *ends) {
    if (!pt->uncaching) {
        return ends->bound;
    }
    if (ends->stable < pt->seen) {
        return pt->seen;
    }
    pt->uncaching = pt->log_conf.write_caching = false;
    return ends->stable;
}

void part_want_visible(struct part *pt) {
    if (!pt->topic->conf.write_caching) {
        plog_sync_wanted(pt->log);
    }
}

err part_check(const struct part *pt, int32_t current_epoch) {
    if (plog_is_lost(pt->log)) {
        return ERR_FENCED;
    }
    if (current_epoch < 0 || current_epoch == pt->leader_epoch) {
        return ERR_OK;
    }
    return current_epoch < pt->leader_epoch ? ERR_EPOCH_FENCED : ERR_EPOCH_UNKNOWN;
}
