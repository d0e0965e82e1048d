/* The metadata of the cluster in memory: topics by name and by id.
 * Happy path: look-ups. Failure modes: NOMEM for a sorted list. Topics are hashed by their name with '.' turned into '_', so that one search
 * finds a topic and one finds what a new name would collide with (S4.2).
 * Runs on: the shard whose copy it is. */
#include "state/meta.h"

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/must.h"
#include "meta_in.h"

struct meta_topic *meta_by_name_node(struct map_node *n) {
    return n == NULL ? NULL : (struct meta_topic *)(void *)((char *)n - offsetof(struct meta_topic, by_name));
}

static struct meta_topic *by_id_node(struct map_node *n) {
    return n == NULL ? NULL : (struct meta_topic *)(void *)((char *)n - offsetof(struct meta_topic, by_id));
}

err meta_new(const struct topicconf *defaults, uint64_t seed, struct meta **ret_m) {
    must(defaults != NULL);
    struct meta *m = mem_zalloc(MEM_META, sizeof *m);
    if (m == NULL) {
        return ERR_NOMEM;
    }
    map_init(&m->by_name, seed);
    map_init(&m->by_id, seed ^ 0x6d657461);
    map_init(&m->by_resource, seed ^ 0x636f6e66);
    list_init(&m->topics);
    list_init(&m->resources);
    m->node_id = -1;
    m->defaults = defaults;
    m->effective = *defaults;
    *ret_m = m;
    return ERR_OK;
}

void meta_free(struct meta *m) {
    if (m == NULL) {
        return;
    }
    list_each_safe(it, &m->topics) {
        struct meta_topic *t = list_entry(it, struct meta_topic, link);
        list_remove(&t->link);
        t->gone = true;
        meta_topic_unref(t);
    }
    list_each_safe(it, &m->resources) {
        mem_free(list_entry(it, struct meta_resource, link));
    }
    map_done(&m->by_name);
    map_done(&m->by_id);
    map_done(&m->by_resource);
    mem_free(m);
}

void meta_topic_ref(struct meta_topic *t) { t->refs++; }

void meta_topic_unref(struct meta_topic *t) {
    must(t->refs > 0);
    if (--t->refs == 0) {
        must(t->gone);
        mem_free(t->parts_block);
        mem_free(t->entries_block);
        mem_free(t);
    }
}

bool meta_folds_to(span name, const char *folded, size_t n) {
    if (name.n != n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if ((name.p[i] == '.' ? '_' : name.p[i]) != (uint8_t)folded[i]) {
            return false;
        }
    }
    return true;
}

uint64_t meta_name_hash(const struct meta *m, span name, char folded[LIMIT_TOPIC_NAME]) {
    must(name.n <= LIMIT_TOPIC_NAME);
    for (size_t i = 0; i < name.n; i++) {
        folded[i] = name.p[i] == '.' ? '_' : (char)name.p[i];
    }
    return map_hash(&m->by_name, span_of(folded, name.n));
}

static bool name_eq(const struct map_node *node, const void *key) {
    const struct meta_topic *t = (const struct meta_topic *)(const void *)((const char *)node - offsetof(struct meta_topic, by_name));
    return span_eq_str(*(const span *)key, t->name);
}

struct meta_topic *meta_topic_by_name(const struct meta *m, span name) {
    char folded[LIMIT_TOPIC_NAME];
    if (name.n == 0 || name.n > LIMIT_TOPIC_NAME) {
        return NULL;
    }
    return meta_by_name_node(map_find(&m->by_name, meta_name_hash(m, name, folded), name_eq, &name));
}

static bool id_eq(const struct map_node *node, const void *key) {
    const struct meta_topic *t = (const struct meta_topic *)(const void *)((const char *)node - offsetof(struct meta_topic, by_id));
    return uuid_eq(t->id, *(const uuid *)key);
}

struct meta_topic *meta_topic_by_id(const struct meta *m, uuid id) {
    return by_id_node(map_find(&m->by_id, map_hash(&m->by_id, span_of(id.b, sizeof id.b)), id_eq, &id));
}

static int by_topic_name(const void *a, const void *b) {
    return strcmp((*(struct meta_topic *const *)a)->name, (*(struct meta_topic *const *)b)->name);
}

err meta_topics_sorted(const struct meta *m, struct arena *a, struct meta_topic ***ret, size_t *ret_n) {
    struct meta_topic **v = arena_alloc(a, m->topics_n * sizeof(struct meta_topic *));
    size_t n = 0;
    if (v == NULL) {
        return ERR_NOMEM;
    }
    list_each(it, &m->topics) {
        v[n++] = list_entry(it, struct meta_topic, link);
    }
    must(n == m->topics_n);
    qsort(v, n, sizeof(struct meta_topic *), by_topic_name);
    *ret = v;
    *ret_n = n;
    return ERR_OK;
}

bool meta_topic_name_ok(span name) {
    if (name.n == 0 || name.n > LIMIT_TOPIC_NAME || span_eq_str(name, ".") || span_eq_str(name, "..")) {
        return false;
    }
    for (size_t i = 0; i < name.n; i++) {
        uint8_t c = name.p[i];
        if (!text_is_alnum(c) && c != '.' && c != '_' && c != '-') {
            return false;
        }
    }
    return true;
}

bool meta_topic_name_is_internal(span name) {
    return span_eq_str(name, "__consumer_offsets") || span_eq_str(name, "__transaction_state") || span_eq_str(name, "__share_group_state");
}
