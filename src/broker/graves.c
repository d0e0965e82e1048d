/* Topics that the replayed metadata log saw deleted: should a crash have come between the record and the files, the deletion is finished at the start.
 *
 * Happy path: while the log is replayed graves_note remembers each removed topic; then one look over the names in the data directory finds directories of those names, and
 * partition.metadata says whether it is that topic's. Failure modes: without memory nothing is buried: the directory is reported as a stray.
 * Runs on: boot. */
#include <stdlib.h>
#include <string.h>

#include "inside.h"

struct grave {
    char *name;
    uuid id;
};

static int graves_order(const void *a, const void *b) { return strcmp(((const struct grave *)a)->name, ((const struct grave *)b)->name); }

void graves_note(struct graves *g, const char *name, uuid id) {
    if (g->n == g->cap) {
        size_t cap = g->cap == 0 ? 16 : g->cap * 2;
        struct grave *v = mem_realloc(MEM_META, g->v, cap * sizeof(*v));
        if (v == NULL) {
            return;
        }
        g->v = v;
        g->cap = cap;
    }
    char *copy = mem_strdup(MEM_META, name);
    if (copy != NULL) {
        g->v[g->n++] = (struct grave){copy, id};
    }
}

/* The first of this name, or n. */
static size_t graves_first(const struct graves *g, span topic) {
    size_t low = 0, high = g->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (span_cmp(span_str(g->v[mid].name), topic) < 0) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < g->n && span_eq_str(topic, g->v[low].name) ? low : g->n;
}

static bool graves_knows(void *u, span topic) {
    const struct graves *g = u;
    return graves_first(g, topic) < g->n;
}

static bool graves_is_one(void *u, span topic, uuid id) {
    const struct graves *g = u;
    for (size_t i = graves_first(g, topic); i < g->n && span_eq_str(topic, g->v[i].name); i++) {
        if (uuid_eq(g->v[i].id, id)) {
            return true;
        }
    }
    return false;
}

err graves_bury(struct graves *g, struct datadir *dd) {
    if (g->n == 0) {
        return ERR_OK;
    }
    qsort(g->v, g->n, sizeof(*g->v), graves_order);
    return datadir_bury(dd, graves_knows, graves_is_one, g);
}

void graves_done(struct graves *g) {
    for (size_t i = 0; i < g->n; i++) {
        mem_free(g->v[i].name);
    }
    mem_free(g->v);
    *g = (struct graves){0};
}
