/* Leader epochs of one log.
 *
 * Happy path: one entry, held in place; a crash that raised the epoch adds one (DESIGN 4). Entries are ordered by
 * epoch and by start, both strictly increasing; an entry that a new one contradicts is dropped, as Kafka's cache
 * does (KIP-101). The file: "0", the number of entries, then "epoch start" per line.
 * Failure modes: NOMEM from epochs_reserve only; a malformed file is DAMAGED and its content rebuilt from the log by
 * the caller. At LIMIT_EPOCHS the two oldest become one: a follower or consumer that old re-reads a little more.
 * Runs on: owner shard. */
#include "epochs.h"

#include <string.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/must.h"

void epochs_init(struct epochs *es) {
    *es = (struct epochs){0};
}

void epochs_done(struct epochs *es) {
    mem_free(es->v);
    epochs_init(es);
}

static struct epochs_entry *entries(const struct epochs *es) {
    return es->cap ? es->v : (struct epochs_entry *)&es->one;
}

err epochs_reserve(struct epochs *es) {
    if (es->n == 0 || es->n < es->cap) {
        return ERR_OK;
    }
    uint32_t cap = es->cap ? es->cap * 2 : 4;
    struct epochs_entry *v = mem_realloc(MEM_LOG, es->v, cap * sizeof *v);
    if (!v) {
        return ERR_NOMEM;
    }
    if (!es->cap) {
        v[0] = es->one;
    }
    es->v = v;
    es->cap = cap;
    return ERR_OK;
}

bool epochs_add(struct epochs *es, int32_t epoch, off64 start) {
    struct epochs_entry *v = entries(es);
    if (es->n > 0 && v[es->n - 1].epoch == epoch) {
        return false;
    }
    while (es->n > 0 && (v[es->n - 1].epoch > epoch || v[es->n - 1].start >= start)) {
        es->n--;
    }
    if (es->n > 0 && v[es->n - 1].epoch == epoch) {
        return true;               /* it began earlier than what contradicted it */
    }
    if (es->n == LIMIT_EPOCHS) {
        memmove(v + 1, v + 2, (es->n - 2) * sizeof *v);
        es->n--;
    }
    must(es->n < (es->cap ? es->cap : 1));
    v[es->n++] = (struct epochs_entry){.start = start, .epoch = epoch};
    return true;
}

void epochs_drop(struct epochs *es, off64 from) {
    const struct epochs_entry *v = entries(es);
    while (es->n > 0 && v[es->n - 1].start >= from) {
        es->n--;
    }
}

void epochs_trim(struct epochs *es, off64 start) {
    struct epochs_entry *v = entries(es);
    uint32_t n = 0;
    while (n + 1 < es->n && v[n + 1].start <= start) {
        n++;
    }
    if (n > 0) {
        memmove(v, v + n, (es->n - n) * sizeof *v);
        es->n -= n;
    }
}

void epochs_cut(struct epochs *es, off64 end) {
    struct epochs_entry *v = entries(es);
    if (es->n == 0 || v[es->n - 1].start <= end) {
        return;
    }
    int32_t current = v[es->n - 1].epoch;
    epochs_drop(es, end);
    v[es->n++] = (struct epochs_entry){.start = end, .epoch = current};
}

/* First entry with an epoch above; es->n when none. */
static uint32_t first_above(const struct epochs *es, int32_t epoch) {
    const struct epochs_entry *v = entries(es);
    uint32_t i = es->n;
    while (i > 0 && v[i - 1].epoch > epoch) {
        i--;
    }
    return i;
}

void epochs_end_for(const struct epochs *es, int32_t asked, off64 log_end, struct epochs_entry *ret) {
    const struct epochs_entry *v = entries(es);
    *ret = (struct epochs_entry){.start = -1, .epoch = -1};
    if (asked < 0 || es->n == 0) {
        return;
    }
    if (v[es->n - 1].epoch == asked) {
        *ret = (struct epochs_entry){.start = log_end, .epoch = asked};
        return;
    }
    uint32_t above = first_above(es, asked);
    if (above == es->n) {
        return;
    }
    *ret = (struct epochs_entry){.start = v[above].start, .epoch = above == 0 ? asked : v[above - 1].epoch};
}

int32_t epochs_at(const struct epochs *es, off64 at) {
    const struct epochs_entry *v = entries(es);
    for (uint32_t i = es->n; i > 0; i--) {
        if (v[i - 1].start <= at) {
            return v[i - 1].epoch;
        }
    }
    return -1;
}

bool epochs_agree(const struct epochs *es, off64 at, int32_t epoch) {
    int32_t known = epochs_at(es, at);
    return known < 0 || known == epoch || es->n == LIMIT_EPOCHS;
}

struct epochs_entry epochs_last_before(const struct epochs *es, off64 end) {
    const struct epochs_entry *v = entries(es);
    for (uint32_t i = es->n; i > 0; i--) {
        if (v[i - 1].start < end) {
            return v[i - 1];
        }
    }
    return es->n > 0 ? v[0] : (struct epochs_entry){.start = 0, .epoch = -1};
}

void epochs_print(const struct epochs *es, struct str *ret) {
    const struct epochs_entry *v = entries(es);
    str_addf(ret, "0\n%u\n", es->n);
    for (uint32_t i = 0; i < es->n; i++) {
        str_addf(ret, "%d %lld\n", v[i].epoch, (long long)v[i].start);
    }
}

/* A decimal number ended by `end`; *at moves behind it. */
static bool number(span *at, uint8_t end, int64_t max, int64_t *ret) {
    int64_t v = 0;
    size_t i = 0;
    for (; i < at->n && at->p[i] >= '0' && at->p[i] <= '9'; i++) {
        int64_t digit = at->p[i] - '0';
        if (v > max / 10 || v * 10 > max - digit) {
            return false;
        }
        v = v * 10 + digit;
    }
    if (i == 0 || i == at->n || at->p[i] != end) {
        return false;
    }
    *at = span_of(at->p + i + 1, at->n - i - 1);
    *ret = v;
    return true;
}

static err parse_entries(struct epochs *es, span text, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        int64_t epoch, start;
        if (!number(&text, ' ', INT32_MAX, &epoch) || !number(&text, '\n', INT64_MAX, &start)) {
            return ERR_DAMAGED;
        }
        const struct epochs_entry *last = es->n > 0 ? &entries(es)[es->n - 1] : NULL;
        if (last && (last->epoch >= epoch || last->start >= start)) {
            return ERR_DAMAGED;
        }
        err e = epochs_reserve(es);
        if (e != ERR_OK) {
            return e;
        }
        epochs_add(es, (int32_t)epoch, start);
    }
    return text.n == 0 ? ERR_OK : ERR_DAMAGED;
}

err epochs_parse(struct epochs *es, span text) {
    int64_t version, n;
    epochs_done(es);
    if (!number(&text, '\n', 0, &version) || !number(&text, '\n', LIMIT_EPOCHS, &n)) {
        return ERR_DAMAGED;
    }
    err e = parse_entries(es, text, n);
    if (e != ERR_OK) {
        epochs_done(es);
    }
    return e;
}
