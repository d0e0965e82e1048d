/* Finding a setting by name, and the nearest name for a misspelt one.
 * Happy path: a binary search. Failure modes: none; an unknown name gives NULL. Families of keys that only Kafka's plug-ins and removed
 * parts know (zookeeper.*, listener.name.*, ...) are recognised by prefix and ignored as a whole. Runs on: any. */
#include "state/conf.h"

#include <string.h>

#define CONF_KEY_NAME_MAX 80           /* longer names are not compared for nearness */

const struct conf_key *conf_key_find(span name, uint32_t where) {
    size_t lo = 0, hi = conf_keys_n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int c = span_cmp(span_str(conf_keys[mid].name), name);
        if (c == 0) {
            return (conf_keys[mid].flags & where) != 0 ? &conf_keys[mid] : NULL;
        }
        if (c < 0) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return NULL;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Edits (insert, delete, change) from a to b; row by row. */
static size_t distance(span a, span b) {
    size_t row[CONF_KEY_NAME_MAX + 1];
    for (size_t j = 0; j <= b.n; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a.n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b.n; j++) {
            size_t above = row[j];
            size_t change = diagonal + (a.p[i - 1] != b.p[j - 1]);
            row[j] = least(change, least(above, row[j - 1]) + 1);
            diagonal = above;
        }
    }
    return row[b.n];
}

const char *conf_key_nearest(span name, uint32_t where) {
    if (name.n == 0 || name.n > CONF_KEY_NAME_MAX) {
        return NULL;
    }
    size_t best = name.n / 3 + 1;                  /* farther than a third of the name is not near */
    const char *found = NULL;
    for (size_t i = 0; i < conf_keys_n; i++) {
        span key = span_str(conf_keys[i].name);
        if ((conf_keys[i].flags & where) == 0 || key.n > CONF_KEY_NAME_MAX) {
            continue;
        }
        size_t d = distance(name, key);
        if (d < best) {
            best = d;
            found = conf_keys[i].name;
        }
    }
    return found;
}

bool conf_key_is_foreign(span name) {
    static const char *const prefixes[] = {
        "config.providers.", "internal.", "listener.name.", "log4j.", "password.encoder.", "plugin.", "remote.log.metadata.",
        "rlmm.config.", "rsm.config.", "sasl.oauthbearer.", "zookeeper.",
    };
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        span p = span_str(prefixes[i]);
        if (name.n > p.n && memcmp(name.p, p.p, p.n) == 0) {
            return true;
        }
    }
    return false;
}
