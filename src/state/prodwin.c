/* Idempotent producers of one partition: one entry per producer id with its newest batches, oldest first.
 *
 * Happy path: prodwin_check finds that the batch follows the last one, prodwin_reserve makes room, the log takes the batch, prodwin_note
 * remembers it, prodwin_stable says that it survives. A retry finds itself among the last five batches and is answered as a duplicate.
 * Failure modes: an append that failed is taken back by prodwin_undo. So that this is exact, a window keeps every batch that is not yet
 * stable and below them the five newest stable ones. Only a producer with more than PRODWIN_BATCHES unstable batches can lose its past, and
 * then it is forgotten whole (S6.6: any first sequence is accepted) rather than remembered wrongly. A producer of which nothing is left, or
 * whose first batch found no room in the log, is remembered by the sequence that is due: what was in flight behind the refused batch must
 * not be taken for a first one.
 * Producers are on a list in order of their last append: expiry and eviction at the ceiling take the oldest, never one with unstable data.
 * Runs on: owner shard. */
#include "state/prodwin.h"

#include "base/crc.h"
#include "base/be.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/mark.h"
#include "base/mem.h"
#include "base/must.h"

#include <stdlib.h>

#define PRODWIN_NO_SEQUENCE (-1)
#define PRODWIN_SNAPSHOT_VERSION 1
#define PRODWIN_HEAD_BYTES 6           /* version and CRC, which the CRC does not cover */
#define PRODWIN_ENTRY_BYTES 46
#define PRODWIN_OLDER_MAGIC 0x50475731u /* "PGW1": what follows Kafka's array, which Kafka's readers leave alone */
#define PRODWIN_OLDER_BYTES 34          /* producer id, base offset, timestamp, first sequence, offset delta, epoch */
#define PRODWIN_NEVER INT64_MIN        /* loaded from a file: the first prodwin_expire gives it a time */

/* One remembered batch. first == PRODWIN_NO_SEQUENCE: a control batch that raised the epoch and carries no sequence. */
struct prodwin_batch {
    off64 base;
    ms ts;
    int32_t first, delta;
    int16_t epoch;
};

struct prodwin_entry {
    struct map_node node;
    struct list link;                  /* in prodwin->order */
    int64_t id;
    ms touched;                        /* instant of the last append, as prodwin_note was told; PRODWIN_NEVER */
    uint8_t n, cap;                    /* batches remembered; n == 0: reserved and never noted, or all taken back */
    bool due;                          /* n == 0: the next batch must be the one that was refused: due_epoch, due_first */
    int16_t due_epoch;
    int32_t due_first;
    off64 lost;                        /* last offset of the batches dropped while unstable, -1 for none */
    struct prodwin_batch *batches;     /* oldest first */
};

struct prodwin {
    struct map entries;
    struct list order;                 /* oldest append first */
    size_t n;                          /* entries with a batch */
    off64 stable;
    bool untimed;                      /* some entry has touched == PRODWIN_NEVER */
};

static int32_t seq_add(int32_t seq, int32_t n) {
    int64_t sum = (int64_t)seq + n;
    return (int32_t)(sum > INT32_MAX ? sum - INT32_MAX - 1 : sum);
}

static int32_t seq_sub(int32_t seq, int32_t n) {
    int64_t diff = (int64_t)seq - n;
    return (int32_t)(diff < 0 ? diff + INT32_MAX + 1 : diff);
}

static int32_t last_seq(const struct prodwin_batch *b) {
    return b->first == PRODWIN_NO_SEQUENCE ? PRODWIN_NO_SEQUENCE : seq_add(b->first, b->delta);
}

static off64 last_offset(const struct prodwin_batch *b) { return b->base + b->delta; }

static const struct prodwin_batch *newest(const struct prodwin_entry *e) { return &e->batches[e->n - 1]; }

static bool entry_eq(const struct map_node *node, const void *key) {
    return ((const struct prodwin_entry *)(const void *)node)->id == *(const int64_t *)key;
}

static struct prodwin_entry *entry_find(const struct prodwin *w, int64_t id) {
    if (w == NULL) {
        return NULL;
    }
    return (struct prodwin_entry *)(void *)map_find(&w->entries, map_hash_u64(&w->entries, (uint64_t)id), entry_eq, &id);
}

static void entry_free(struct prodwin *w, struct prodwin_entry *e) {
    w->n -= e->n > 0;
    map_remove(&w->entries, &e->node);
    list_remove(&e->link);
    mem_free(e->batches);
    mem_free(e);
}

/* Nothing of e could still be taken back. */
static bool entry_is_stable(const struct prodwin *w, const struct prodwin_entry *e) {
    return e->n == 0 || last_offset(newest(e)) < w->stable;
}

/* ---- decide ---- */

static const struct prodwin_batch *duplicate_of(const struct prodwin_entry *e, const struct batch_head *h) {
    for (int i = e->n - 1; i >= 0 && i >= e->n - PRODWIN_DUPLICATES; i--) {
        const struct prodwin_batch *b = &e->batches[i];
        if (b->epoch != h->producer_epoch) {
            return NULL;
        }
        if (b->first == h->base_sequence && b->delta == h->last_offset_delta) {
            return b;
        }
    }
    return NULL;
}

static int32_t next_seq(const struct prodwin_entry *e) {
    int32_t last = last_seq(newest(e));
    return last == PRODWIN_NO_SEQUENCE ? 0 : seq_add(last, 1);
}

/* Nothing of the producer is in the log: S6.6, unless a batch of it was refused, which must come first then. */
static err check_hollow(const struct prodwin_entry *e, const struct batch_head *h) {
    if (e == NULL || !e->due || h->base_sequence < 0 || h->producer_epoch < e->due_epoch) {
        return ERR_OK;
    }
    int32_t want = h->producer_epoch > e->due_epoch ? 0 : e->due_first;
    return h->base_sequence == want ? ERR_OK : ERR_SEQUENCE_GAP;
}

err prodwin_check(const struct prodwin *w, const struct batch_head *h, struct prodwin_answer *ret) {
    must(h->producer_id >= 0);
    bool control = (h->attributes & BATCH_ATTR_CONTROL) != 0;
    if (!control && h->base_sequence < 0) {
        return ERR_BAD_RECORD;
    }
    const struct prodwin_entry *e = entry_find(w, h->producer_id);
    struct prodwin_answer append = {.verdict = PRODWIN_APPEND, .base_offset = -1, .last_offset = -1, .append_ts = -1};
    if (e == NULL || e->n == 0) {
        err hollow = check_hollow(e, h);
        *ret = hollow == ERR_OK ? append : *ret;
        return hollow;
    }
    if (h->producer_epoch < newest(e)->epoch) {
        return ERR_PRODUCER_FENCED;
    }
    if (control) {
        *ret = append;
        return ERR_OK;
    }
    if (h->producer_epoch > newest(e)->epoch) {
        if (h->base_sequence != 0) {
            return ERR_SEQUENCE_GAP;
        }
        *ret = append;
        return ERR_OK;
    }
    const struct prodwin_batch *b = duplicate_of(e, h);
    if (b != NULL) {
        *ret = (struct prodwin_answer){PRODWIN_DUPLICATE, b->base, last_offset(b), b->ts};
        return ERR_OK;
    }
    if (h->base_sequence != next_seq(e)) {
        return ERR_SEQUENCE_GAP;
    }
    *ret = append;
    return ERR_OK;
}

/* ---- change ---- */

static err prodwin_new(struct prodwin **ret_w, uint64_t seed) {
    struct prodwin *w = mem_zalloc(MEM_PROD, sizeof *w);
    if (w == NULL) {
        return ERR_NOMEM;
    }
    map_init(&w->entries, seed);
    list_init(&w->order);
    *ret_w = w;
    return ERR_OK;
}

/* At the ceiling the producer that was silent longest makes room; S6.6 lets it go on. */
static err make_room(struct prodwin *w, size_t ceiling) {
    if (w->entries.n < ceiling) {
        return ERR_OK;
    }
    list_each(it, &w->order) {
        struct prodwin_entry *e = list_entry(it, struct prodwin_entry, link);
        if (entry_is_stable(w, e)) {
            mark("prodwin.evicted");
            entry_free(w, e);
            return ERR_OK;
        }
    }
    return w->entries.n < LIMIT_PRODUCERS_PER_PARTITION ? ERR_OK : ERR_LIMIT;
}

static err entry_new(struct prodwin *w, int64_t id, size_t ceiling, struct prodwin_entry **ret_e) {
    err e = make_room(w, ceiling);
    if (e != ERR_OK) {
        return e;
    }
    struct prodwin_entry *en = mem_zalloc(MEM_PROD, sizeof *en);
    if (en == NULL) {
        return ERR_NOMEM;
    }
    en->id = id;
    en->lost = -1;
    e = map_insert(&w->entries, &en->node, map_hash_u64(&w->entries, (uint64_t)id));
    if (e != ERR_OK) {
        mem_free(en);
        return e;
    }
    list_push_front(&w->order, &en->link);         /* hollow: the first to go should the append never come */
    *ret_e = en;
    return ERR_OK;
}

static err entry_grow(struct prodwin_entry *e) {
    if (e->n < e->cap || e->cap == PRODWIN_BATCHES) {
        return ERR_OK;
    }
    uint8_t cap = e->cap == 0 ? 1 : e->cap == 1 ? PRODWIN_DUPLICATES + 1 : PRODWIN_BATCHES;   /* most need 1 or 6 */
    struct prodwin_batch *grown = mem_realloc(MEM_PROD, e->batches, cap * sizeof *grown);
    if (grown == NULL) {
        return ERR_NOMEM;
    }
    e->batches = grown;
    e->cap = cap;
    return ERR_OK;
}

static void drop_oldest(struct prodwin_entry *e) {
    for (int i = 1; i < e->n; i++) {
        e->batches[i - 1] = e->batches[i];
    }
    e->n--;
}

/* Keep what may be taken back, and below it the newest five that are stable: undo falls back on them. */
static void entry_trim(const struct prodwin *w, struct prodwin_entry *e) {
    while (e->n > PRODWIN_DUPLICATES && last_offset(&e->batches[PRODWIN_DUPLICATES]) < w->stable) {
        drop_oldest(e);
    }
}

static void entry_owe(struct prodwin_entry *e, int16_t epoch, int32_t first) {
    e->due = true;
    e->due_epoch = epoch;
    e->due_first = first;
}

err prodwin_reserve(struct prodwin **w, const struct batch_head *h, uint64_t seed) {
    return prodwin_reserve_within(w, h, seed, LIMIT_PRODUCERS_PER_PARTITION);
}

err prodwin_reserve_within(struct prodwin **w, const struct batch_head *h, uint64_t seed, size_t ceiling) {
    if (*w == NULL) {
        err e = prodwin_new(w, seed);
        if (e != ERR_OK) {
            return e;
        }
    }
    struct prodwin_entry *en = entry_find(*w, h->producer_id);
    if (en == NULL) {
        err e = entry_new(*w, h->producer_id, ceiling, &en);
        if (e != ERR_OK) {
            return e;
        }
    }
    if (en->n == 0 && !en->due && h->base_sequence >= 0) {
        entry_owe(en, h->producer_epoch, h->base_sequence);
    }
    entry_trim(*w, en);
    return entry_grow(en);
}

void prodwin_note(struct prodwin *w, const struct batch_head *h, ms now) {
    must(w != NULL);
    struct prodwin_entry *e = entry_find(w, h->producer_id);
    must(e != NULL);
    list_remove(&e->link);
    list_push_back(&w->order, &e->link);
    e->touched = now;
    bool bare = h->base_sequence < 0;              /* a control batch: only a raised epoch matters */
    if (bare && e->n > 0 && newest(e)->epoch == h->producer_epoch) {
        return;
    }
    if (e->n == e->cap) {
        must(e->cap == PRODWIN_BATCHES);
        mark("prodwin.overflow");
        e->lost = last_offset(&e->batches[0]);
        drop_oldest(e);
    }
    w->n += e->n == 0;
    e->due = false;
    e->batches[e->n++] = (struct prodwin_batch){
        .base = h->base_offset,
        .ts = h->max_ts_ms,
        .first = bare ? PRODWIN_NO_SEQUENCE : h->base_sequence,
        .delta = h->last_offset_delta,
        .epoch = h->producer_epoch,
    };
    entry_trim(w, e);
}

/* All that is remembered was not appended. The oldest of it is due, unless even older ones went with it. */
static void entry_empty(struct prodwin *w, struct prodwin_entry *e, off64 from) {
    const struct prodwin_batch *b = &e->batches[0];
    if (e->lost >= from || b->first == PRODWIN_NO_SEQUENCE) {
        entry_free(w, e);
        return;
    }
    mark("prodwin.due");
    entry_owe(e, b->epoch, b->first);
    e->n = 0;
    e->lost = -1;
    w->n--;
    list_remove(&e->link);
    list_push_front(&w->order, &e->link);
}

void prodwin_undo(struct prodwin *w, off64 from) {
    if (w == NULL) {
        return;
    }
    if (w->stable > from) {
        w->stable = from;
    }
    list_each_safe(it, &w->order) {
        struct prodwin_entry *e = list_entry(it, struct prodwin_entry, link);
        uint8_t n = e->n;
        while (n > 0 && last_offset(&e->batches[n - 1]) >= from) {
            n--;
        }
        if (e->n > 0 && n == 0) {
            entry_empty(w, e, from);
        } else {
            e->n = n;
        }
    }
}

void prodwin_stable(struct prodwin *w, off64 stable) {
    if (w != NULL && w->stable < stable) {
        w->stable = stable;
    }
}

static void give_times(struct prodwin *w, ms now) {
    list_each(it, &w->order) {
        struct prodwin_entry *e = list_entry(it, struct prodwin_entry, link);
        if (e->touched == PRODWIN_NEVER) {
            e->touched = now;
        }
    }
    w->untimed = false;
}

size_t prodwin_expire(struct prodwin *w, ms now, ms expiry) {
    if (w == NULL) {
        return 0;
    }
    if (w->untimed) {
        give_times(w, now);
    }
    size_t gone = 0;
    list_each_safe(it, &w->order) {
        struct prodwin_entry *e = list_entry(it, struct prodwin_entry, link);
        if (e->n > 0 && now - e->touched < expiry) {
            break;
        }
        if (entry_is_stable(w, e)) {
            gone += e->n > 0;
            entry_free(w, e);
        }
    }
    return gone;
}

size_t prodwin_entries(const struct prodwin *w) { return w == NULL ? 0 : w->entries.n; }

size_t prodwin_count(const struct prodwin *w) { return w == NULL ? 0 : w->n; }

void prodwin_free(struct prodwin *w) {
    if (w == NULL) {
        return;
    }
    list_each_safe(it, &w->order) {
        entry_free(w, list_entry(it, struct prodwin_entry, link));
    }
    map_done(&w->entries);
    mem_free(w);
}

/* ---- snapshot: Kafka's file ---- */

static int by_id(const void *a, const void *b) {
    int64_t x = (*(struct prodwin_entry *const *)a)->id, y = (*(struct prodwin_entry *const *)b)->id;
    return (x > y) - (x < y);
}

static void entry_put(uint8_t *p, const struct prodwin_entry *e) {
    const struct prodwin_batch *b = newest(e);
    bool bare = b->first == PRODWIN_NO_SEQUENCE;
    be64_put(p, (uint64_t)e->id);
    be16_put(p + 8, (uint16_t)b->epoch);
    be32_put(p + 10, (uint32_t)last_seq(b));
    be64_put(p + 14, bare ? UINT64_MAX : (uint64_t)last_offset(b));
    be32_put(p + 22, bare ? 0 : (uint32_t)b->delta);
    be64_put(p + 26, (uint64_t)b->ts);
    be32_put(p + 34, UINT32_MAX);                  /* coordinator epoch: none */
    be64_put(p + 38, UINT64_MAX);                  /* first offset of an open transaction: none */
}

/* How many batches before the newest go into the file: what is left of the five. */
/* Those before the newest that a retry may be found among: of its epoch. */
static uint8_t older_n(const struct prodwin_entry *e) {
    uint8_t n = 0;
    while (n < PRODWIN_DUPLICATES - 1 && n + 1 < e->n && e->batches[e->n - 2 - n].epoch == newest(e)->epoch) {
        n++;
    }
    return n;
}

static void older_put(uint8_t *p, int64_t id, const struct prodwin_batch *b) {
    be64_put(p, (uint64_t)id);
    be64_put(p + 8, (uint64_t)b->base);
    be64_put(p + 16, (uint64_t)b->ts);
    be32_put(p + 24, (uint32_t)b->first);
    be32_put(p + 28, (uint32_t)b->delta);
    be16_put(p + 32, (uint16_t)b->epoch);
}

/* Kafka's file knows each producer's last batch only; the four before it stand behind its array, so that a retry after a clean restart is still recognised (S6.8, BR-027). */
static size_t older_put_all(uint8_t *p, struct prodwin_entry *const *sorted, size_t n) {
    size_t at = 4;
    be32_put(p, PRODWIN_OLDER_MAGIC);
    for (size_t i = 0; i < n; i++) {
        for (uint8_t k = older_n(sorted[i]); k > 0; k--, at += PRODWIN_OLDER_BYTES) {
            older_put(p + at, sorted[i]->id, &sorted[i]->batches[sorted[i]->n - 1 - k]);
        }
    }
    return at;
}

static err older_load(struct prodwin *w, const uint8_t *p) {
    struct prodwin_batch b = {
        .base = (off64)be64_get(p + 8),
        .ts = (ms)be64_get(p + 16),
        .first = (int32_t)be32_get(p + 24),
        .delta = (int32_t)be32_get(p + 28),
        .epoch = (int16_t)be16_get(p + 32),
    };
    struct prodwin_entry *e = entry_find(w, (int64_t)be64_get(p));
    if (e == NULL || e->n == 0 || b.base < 0 || b.delta < 0 || b.first < PRODWIN_NO_SEQUENCE || b.epoch < 0 || e->n >= PRODWIN_DUPLICATES) {
        return ERR_DAMAGED;
    }
    const struct prodwin_batch *before = e->n > 1 ? &e->batches[e->n - 2] : NULL;
    if (last_offset(&b) >= newest(e)->base || (before != NULL && b.base <= last_offset(before))) {
        return ERR_DAMAGED;
    }
    err er = entry_grow(e);
    if (er != ERR_OK) {
        return er;
    }
    e->batches[e->n] = e->batches[e->n - 1];
    e->batches[e->n - 1] = b;
    e->n++;
    return ERR_OK;
}

static err older_load_all(struct prodwin *w, span more) {
    if (more.n == 0) {
        return ERR_OK;
    }
    if (more.n < 4 || be32_get(more.p) != PRODWIN_OLDER_MAGIC || (more.n - 4) % PRODWIN_OLDER_BYTES != 0) {
        return ERR_DAMAGED;
    }
    err e = ERR_OK;
    for (size_t at = 4; e == ERR_OK && at < more.n; at += PRODWIN_OLDER_BYTES) {
        e = older_load(w, more.p + at);
    }
    return e;
}

err prodwin_snapshot(const struct prodwin *w, struct str *ret_file) {
    if (prodwin_count(w) == 0) {
        return ERR_OK;
    }
    size_t bytes = PRODWIN_HEAD_BYTES + 4 + w->n * PRODWIN_ENTRY_BYTES, n = 0, older = 0;
    list_each(it, &w->order) {
        older += older_n(list_entry(it, struct prodwin_entry, link));
    }
    struct prodwin_entry **sorted = mem_alloc(MEM_PROD, w->n * sizeof(struct prodwin_entry *));
    uint8_t *file = mem_alloc(MEM_PROD, bytes + 4 + older * PRODWIN_OLDER_BYTES);
    if (sorted == NULL || file == NULL) {
        mem_free(sorted);
        mem_free(file);
        return ERR_NOMEM;
    }
    list_each(it, &w->order) {
        struct prodwin_entry *e = list_entry(it, struct prodwin_entry, link);
        if (e->n > 0) {
            sorted[n++] = e;
        }
    }
    must(n == w->n);
    qsort(sorted, n, sizeof(struct prodwin_entry *), by_id);
    be16_put(file, PRODWIN_SNAPSHOT_VERSION);
    be32_put(file + PRODWIN_HEAD_BYTES, (uint32_t)n);
    for (size_t i = 0; i < n; i++) {
        entry_put(file + PRODWIN_HEAD_BYTES + 4 + i * PRODWIN_ENTRY_BYTES, sorted[i]);
    }
    bytes += older > 0 ? older_put_all(file + bytes, sorted, n) : 0;
    be32_put(file + 2, crc32c(file + PRODWIN_HEAD_BYTES, bytes - PRODWIN_HEAD_BYTES));
    str_add(ret_file, span_of(file, bytes));
    mem_free(sorted);
    mem_free(file);
    return ret_file->bad ? ERR_NOMEM : ERR_OK;
}

static err entry_load(struct prodwin *w, const uint8_t *p) {
    int64_t id = (int64_t)be64_get(p), last = (int64_t)be64_get(p + 14);
    int16_t epoch = (int16_t)be16_get(p + 8);
    int32_t seq = (int32_t)be32_get(p + 10), delta = (int32_t)be32_get(p + 22);
    if (id < 0 || epoch < 0 || seq < PRODWIN_NO_SEQUENCE || last < -1 || delta < 0 || delta > INT32_MAX - 1) {
        return ERR_DAMAGED;
    }
    if (entry_find(w, id) != NULL || (seq >= 0 && last < delta)) {
        return ERR_DAMAGED;
    }
    struct prodwin_entry *e = NULL;
    err er = entry_new(w, id, LIMIT_PRODUCERS_PER_PARTITION, &e);
    if (er != ERR_OK) {
        return er;
    }
    er = entry_grow(e);
    if (er != ERR_OK) {
        return er;
    }
    bool bare = seq == PRODWIN_NO_SEQUENCE;
    e->batches[0] = (struct prodwin_batch){
        .base = bare ? last : last - delta,
        .ts = (ms)be64_get(p + 26),
        .first = bare ? PRODWIN_NO_SEQUENCE : seq_sub(seq, delta),
        .delta = bare ? 0 : delta,
        .epoch = epoch,
    };
    e->n = 1;
    e->touched = PRODWIN_NEVER;
    w->n++;
    w->untimed = true;
    list_remove(&e->link);
    list_push_back(&w->order, &e->link);
    prodwin_stable(w, last + 1);                   /* a snapshot is written behind a sync only */
    return ERR_OK;
}

err prodwin_load(struct prodwin **w, span file, uint64_t seed) {
    if (file.n < PRODWIN_HEAD_BYTES + 4 || be16_get(file.p) != PRODWIN_SNAPSHOT_VERSION) {
        return ERR_DAMAGED;
    }
    if (be32_get(file.p + 2) != crc32c(file.p + PRODWIN_HEAD_BYTES, file.n - PRODWIN_HEAD_BYTES)) {
        return ERR_DAMAGED;
    }
    uint64_t n = be32_get(file.p + PRODWIN_HEAD_BYTES);
    const uint8_t *p = file.p + PRODWIN_HEAD_BYTES + 4;
    uint64_t kafka = PRODWIN_HEAD_BYTES + 4 + n * PRODWIN_ENTRY_BYTES;
    if (file.n < kafka) {
        return ERR_DAMAGED;
    }
    struct prodwin *loaded = NULL;
    err e = prodwin_new(&loaded, seed);
    for (uint64_t i = 0; e == ERR_OK && i < n; i++) {
        e = entry_load(loaded, p + i * PRODWIN_ENTRY_BYTES);
    }
    e = e == ERR_OK ? older_load_all(loaded, span_of(file.p + kafka, file.n - kafka)) : e;
    if (e != ERR_OK) {
        prodwin_free(loaded);
        return e;
    }
    prodwin_free(*w);
    *w = loaded;
    return ERR_OK;
}
