/* One fetch session: its topics and partitions, and what of them is due. See fsession.h.
 *
 * Happy path: a client's list goes in by put and forget; take hands out what is due, verdicts come back, settle files each part. What never moves is never touched.
 * Failure modes: at a ceiling or without memory put changes nothing and says so; the caller closes the session and the client begins anew.
 * Runs on: home shard. */
#include "state/fsession.h"

#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "fsession_in.h"

#define FSESSION_SLOT_BYTES 16         /* of a map, per node, at most */

/* ---- topics ---- */

struct fsession_topic_key {
    span name;
    uuid id;
};

static bool fsession_topic_eq(const struct map_node *node, const void *key) {
    const struct fsession_topic *t = list_entry(node, const struct fsession_topic, node);
    const struct fsession_topic_key *k = key;
    return uuid_eq(t->id, k->id) && span_eq(span_of(t->name, t->name_n), k->name);
}

static struct fsession_topic_key fsession_topic_key(const struct fsession *s, const struct fsession_key *key) {
    if (s->by_id) {
        return (struct fsession_topic_key){.name = SPAN_LIT(""), .id = key->id};
    }
    return (struct fsession_topic_key){.name = key->name};
}

static uint64_t fsession_topic_hash(const struct fsession *s, const struct fsession_topic_key *k) {
    return map_hash(&s->topics, s->by_id ? span_of(k->id.b, sizeof k->id.b) : k->name);
}

static struct fsession_topic *fsession_topic_find(const struct fsession *s, const struct fsession_topic_key *k) {
    struct map_node *nd = map_find(&s->topics, fsession_topic_hash(s, k), fsession_topic_eq, k);
    return nd == NULL ? NULL : list_entry(nd, struct fsession_topic, node);
}

static size_t fsession_topic_bytes(size_t name_n) { return sizeof(struct fsession_topic) + name_n + FSESSION_SLOT_BYTES; }

static struct fsession_topic *fsession_topic_new(struct fsession *s, const struct fsession_topic_key *k) {
    struct fsession_topic *t = mem_zalloc(MEM_SESSION, sizeof *t + k->name.n);
    if (t == NULL || map_insert(&s->topics, &t->node, fsession_topic_hash(s, k)) != ERR_OK) {
        mem_free(t);
        return NULL;
    }
    t->id = k->id;
    t->name_n = (uint32_t)k->name.n;
    memcpy(t->name, k->name.p, k->name.n);
    s->all->bytes += fsession_topic_bytes(k->name.n);
    return t;
}

static void fsession_topic_unref(struct fsession *s, struct fsession_topic *t) {
    must(t->refs > 0);
    if (--t->refs == 0) {
        s->all->bytes -= fsession_topic_bytes(t->name_n);
        map_remove(&s->topics, &t->node);
        mem_free(t);
    }
}

/* ---- parts ---- */

struct fsession_part_key {
    const struct fsession_topic *topic;
    int32_t partition;
};

static bool fsession_part_eq(const struct map_node *node, const void *key) {
    const struct fsession_part *p = list_entry(node, const struct fsession_part, node);
    const struct fsession_part_key *k = key;
    return p->topic == k->topic && p->partition == k->partition;
}

static uint64_t fsession_part_hash(const struct fsession *s, const struct fsession_topic *t, int32_t partition) {
    return map_hash_u64(&s->parts, t->node.hash ^ ((uint64_t)(uint32_t)partition << 20));
}

static struct fsession_part *fsession_part_find(const struct fsession *s, const struct fsession_topic *t, int32_t partition) {
    struct fsession_part_key k = {t, partition};
    struct map_node *nd = map_find(&s->parts, fsession_part_hash(s, t, partition), fsession_part_eq, &k);
    return nd == NULL ? NULL : list_entry(nd, struct fsession_part, node);
}

size_t fsession_part_bytes(const struct fsessions *fs) { return fs->conf.part_bytes + FSESSION_SLOT_BYTES; }

static struct fsession_part *fsession_part_new(struct fsession *s, struct fsession_topic *t, int32_t partition) {
    struct fsession_part *p = mem_zalloc(MEM_SESSION, s->all->conf.part_bytes);
    if (p == NULL || map_insert(&s->parts, &p->node, fsession_part_hash(s, t, partition)) != ERR_OK) {
        mem_free(p);
        return NULL;
    }
    s->all->bytes += fsession_part_bytes(s->all);
    t->refs++;
    p->s = s;
    p->topic = t;
    p->partition = partition;
    p->at = FSESSION_IDLE;
    p->told = (struct fsession_ends){-1, -1, -1};
    list_init(&p->link);
    return p;
}

void fsession_part_free(struct fsessions *fs, struct fsession_part *p) {
    must(p->s == NULL && !p->watched && fs->dropped > 0);
    fs->dropped--;
    fs->dropped_bytes -= fsession_part_bytes(fs);
    fs->bytes -= fsession_part_bytes(fs);
    mem_free(p);
}

static void fsession_unlist(struct fsession_part *p) {
    if (p->at == FSESSION_SOME) {
        must(p->s->found >= p->bytes);
        p->s->found -= p->bytes;
    }
    list_remove(&p->link);
    p->bytes = 0;
}

static void fsession_list(struct fsession_part *p, enum fsession_at at) {
    struct fsession *s = p->s;
    must(list_empty(&p->link));
    p->at = (uint8_t)at;
    if (at == FSESSION_SOME) {
        s->found += p->bytes;
    }
    if (at != FSESSION_IDLE) {
        list_push_back(at == FSESSION_SOME ? &s->some : at == FSESSION_DUE ? &s->due : &s->out, &p->link);
    }
}

void fsession_part_drop(struct fsession_part *p) {
    struct fsession *s = p->s;
    struct fsessions *fs = s->all;
    fsession_unlist(p);
    map_remove(&s->parts, &p->node);
    fsession_topic_unref(s, p->topic);
    p->topic = NULL;
    p->s = NULL;
    fs->dropped++;
    fs->dropped_bytes += fsession_part_bytes(fs);
    if (p->watched) {
        fs->conf.drop(fs->conf.u, p);
    } else {
        fsession_part_free(fs, p);
    }
}

/* ---- the client's list ---- */

static bool fsession_has_room(const struct fsession *s, bool new_topic, size_t name_n) {
    const struct fsessions *fs = s->all;
    size_t more = fsession_part_bytes(fs) + (new_topic ? fsession_topic_bytes(name_n) : 0);
    return s->parts.n < fs->conf.parts_max && fs->bytes - fs->dropped_bytes + more <= fs->conf.bytes_max;
}

static err fsession_add(struct fsession *s, const struct fsession_topic_key *k, int32_t partition, struct fsession_part **ret_p) {
    struct fsession_topic *t = fsession_topic_find(s, k);
    if (!fsession_has_room(s, t == NULL, k->name.n)) {
        return ERR_LIMIT;
    }
    bool fresh = t == NULL;
    t = fresh ? fsession_topic_new(s, k) : t;
    if (t == NULL) {
        return ERR_NOMEM;
    }
    *ret_p = fsession_part_new(s, t, partition);
    if (*ret_p == NULL && fresh) {
        t->refs = 1;
        fsession_topic_unref(s, t);
    }
    return *ret_p == NULL ? ERR_NOMEM : ERR_OK;
}

err fsession_put(struct fsession *s, const struct fsession_key *key, const struct fsession_want *want, struct fsession_part **ret_p, bool *ret_new) {
    struct fsession_topic_key k = fsession_topic_key(s, key);
    const struct fsession_topic *t = fsession_topic_find(s, &k);
    struct fsession_part *p = t == NULL ? NULL : fsession_part_find(s, t, key->partition);
    bool is_new = p == NULL;
    if (is_new) {
        err e = fsession_add(s, &k, key->partition, &p);
        if (e != ERR_OK) {
            return e;
        }
    }
    must(p->at != FSESSION_OUT);
    p->want = *want;
    if (p->at != FSESSION_DUE) {
        fsession_unlist(p);
        fsession_list(p, FSESSION_DUE);
    }
    *ret_p = p;
    *ret_new = is_new;
    return ERR_OK;
}

void fsession_forget(struct fsession *s, const struct fsession_key *key) {
    struct fsession_topic_key k = fsession_topic_key(s, key);
    const struct fsession_topic *t = fsession_topic_find(s, &k);
    struct fsession_part *p = t == NULL ? NULL : fsession_part_find(s, t, key->partition);
    if (p != NULL) {
        must(p->at != FSESSION_OUT);
        fsession_part_drop(p);
    }
}

/* ---- looks ---- */

static size_t fsession_take_from(struct list *from) {
    size_t n = 0;
    while (!list_empty(from)) {
        struct fsession_part *p = list_entry(from->next, struct fsession_part, link);
        fsession_unlist(p);
        fsession_list(p, FSESSION_OUT);
        p->moved = false;
        p->verdict = FSESSION_LEFT;
        n++;
    }
    return n;
}

size_t fsession_take(struct fsession *s, bool with_some) {
    must(list_empty(&s->out));
    size_t n = with_some ? fsession_take_from(&s->some) : 0;       /* they have waited longer */
    return n + fsession_take_from(&s->due);
}

/* From the last to the first, so that those that stay come to stand before all others in their old order. */
static void fsession_settle_left(struct fsession *s) {
    for (struct list *it = s->out.prev, *before; it != &s->out; it = before) {
        struct fsession_part *p = list_entry(it, struct fsession_part, link);
        before = it->prev;
        bool moved = p->moved && p->verdict != FSESSION_SERVED;
        if (p->verdict == FSESSION_LEFT || moved) {
            fsession_unlist(p);
            p->at = FSESSION_DUE;
            list_push_front(&s->due, &p->link);
        }
    }
}

void fsession_settle(struct fsession *s) {
    fsession_settle_left(s);
    while (!list_empty(&s->out)) {
        struct fsession_part *p = list_entry(s->out.next, struct fsession_part, link);
        size_t bytes = p->bytes;
        fsession_unlist(p);
        p->bytes = p->verdict == FSESSION_NOT_ENOUGH ? bytes : 0;
        fsession_list(p, p->verdict == FSESSION_SERVED ? FSESSION_DUE : p->verdict == FSESSION_NOT_ENOUGH ? FSESSION_SOME : FSESSION_IDLE);
    }
}

void fsession_moved(struct fsession_part *p) {
    must(p->s != NULL && p->watched);
    p->watched = false;
    if (p->at == FSESSION_OUT) {
        p->moved = true;
    } else if (p->at != FSESSION_DUE) {
        fsession_unlist(p);
        fsession_list(p, FSESSION_DUE);
    }
}

/* ---- what the client knows ---- */

bool fsession_is_news(const struct fsession_part *p, const struct fsession_ends *ends) {
    return p->told.high_watermark != ends->high_watermark || p->told.last_stable != ends->last_stable || p->told.log_start != ends->log_start;
}

void fsession_tell(struct fsession_part *p, const struct fsession_ends *ends, bool failed) {
    p->told = *ends;
    if (failed) {
        p->told.high_watermark = -1;
    }
}
