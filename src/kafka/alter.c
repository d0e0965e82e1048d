/* See alter.h. Happy path: each wish is judged here as far as it needs no state, sent to shard 0, decided there against everything queued before, made durable, applied by every shard, and
 * answered. Failure modes: per wish a code and one line; a wish that fails changes nothing (S16.8), its siblings go on. A logger's level is no metadata: it changes at once, here.
 * Runs on: home shard; decided on shard 0. */
#include "alter.h"

#include "api.h"
#include "base/limits.h"
#include "base/log.h"
#include "seen.h"

#define ALTER_RESOURCES_MAX 10000      /* in one request */

static void alter_verdict(struct alter_wish *w, err e, const char *why) {
    w->code = resource_code(w->res.type, e);
    w->message = e == ERR_OK ? SPAN_NULL : span_str(why == NULL || why[0] == '\0' ? err_text(e) : why);
}

static void alter_home(struct ask *ask) {
    struct alter_sent *sent = list_entry(list_entry(ask, struct topics_change, ask), struct alter_sent, change);
    struct alter *al = sent->alter;
    alter_verdict(sent->wish, ask->err, sent->change.why);
    if (--al->left == 0) {
        al->done(al);
    }
}

static void alter_send(struct alter *al, struct alter_wish *w) {
    struct alter_sent *sent = rq_array(al->rq, 1, sizeof(*sent));
    if (sent == NULL) {
        alter_verdict(w, ERR_NOMEM, NULL);
        return;
    }
    sent->wish = w;
    sent->alter = al;
    topics_init(&sent->change, TOPICS_CONF, alter_home);
    sent->change.conf = (struct meta_conf){
        .kind = (enum meta_kind)w->res.type,
        .name = w->res.name,
        .changes = w->changes,
        .changes_n = w->changes_n,
        .replace = al->replace,
    };
    sent->change.validate_only = al->validate_only;
    al->left++;
    topics_send(al->rq->sh, &sent->change);
}

/* ---- loggers ---- */

static int alter_level(span text) {
    span v = conf_value_trim(text);
    for (int i = LOG_DEBUG; i <= LOG_ERROR; i++) {
        if (span_eq_str(v, log_level_name((enum log_level)i))) {
            return i;
        }
    }
    return span_eq_str(v, "TRACE") ? LOG_DEBUG : span_eq_str(v, "FATAL") || span_eq_str(v, "OFF") ? LOG_ERROR : -1;
}

static void alter_logger(const struct alter *al, struct alter_wish *w) {
    int level = -1;
    for (size_t i = 0; i < w->changes_n; i++) {
        const struct meta_conf_change *ch = &w->changes[i];
        if (!span_eq_str(ch->name, RESOURCE_LOGGER)) {
            alter_verdict(w, ERR_BAD_SETTING, "there is one logger here: root");
            return;
        }
        if (ch->op != META_CONF_SET) {
            alter_verdict(w, ERR_BAD_REQUEST, "a logger's level can only be set");
            return;
        }
        level = alter_level(ch->value);
        if (level < 0) {
            alter_verdict(w, ERR_BAD_SETTING, "a log level is one of DEBUG, INFO, WARN, ERROR");
            return;
        }
    }
    if (level >= 0 && !al->validate_only) {
        log_level_set((enum log_level)level);
    }
    alter_verdict(w, ERR_OK, NULL);
}

/* ---- judging ---- */


static bool alter_same_key(const void *u, uint32_t a, uint32_t b) {
    const struct meta_conf_change *v = u;
    return span_eq(v[a].name, v[b].name);
}

/* S16.6: nulls, and keys named twice. NULL without memory in *ret_ok. */
static const char *alter_bad_keys(const struct alter *al, const struct alter_wish *w, bool *ret_ok) {
    struct rq *rq = al->rq;
    struct seen seen;
    char shown[96];
    *ret_ok = seen_init(&seen, rq, w->changes_n);
    for (uint32_t i = 0; *ret_ok && i < w->changes_n; i++) {
        const struct meta_conf_change *ch = &w->changes[i];
        span_printable(ch->name, shown, sizeof(shown));
        if (span_is_null(ch->value) && ch->op != META_CONF_DELETE) {
            return arena_printf(&rq->arena, "%s: null is no value%s", shown, al->replace ? "; leave the setting out to put it back to its default" : "; DELETE puts a setting back to its default");
        }
        if (seen_add(&seen, seen_hash(&seen, ch->name), i, alter_same_key, w->changes) != i) {
            return arena_printf(&rq->arena, "%s is named more than once", shown);
        }
    }
    return NULL;
}

static bool alter_judge(const struct alter *al, struct alter_wish *w) {
    struct rq *rq = al->rq;
    const char *why = NULL;
    if (!resource_allow(rq, &w->res, ALLOW_ALTER_CONFIGS)) {
        alter_verdict(w, ERR_DENIED, NULL);
        return true;
    }
    if (w->twice) {
        alter_verdict(w, ERR_BAD_REQUEST, "the request names this resource more than once");
        return true;
    }
    if (al->n > ALTER_RESOURCES_MAX) {
        alter_verdict(w, ERR_LIMIT, "more than 10000 resources in one request");
        return true;
    }
    err e = resource_check(rq, &w->res, &why);
    if (w->res.type == META_TOPIC && w->res.name.n == 0) {
        e = ERR_BAD_REQUEST;
        why = "there are no settings for all topics: the broker's are their defaults";
    } else if (al->replace && w->res.type == RESOURCE_BROKER_LOGGER) {
        e = ERR_BAD_REQUEST;
        why = "levels of loggers are changed one by one (IncrementalAlterConfigs)";
    }
    if (e != ERR_OK) {
        alter_verdict(w, e, why);
        return true;
    }
    bool ok;
    const char *bad = alter_bad_keys(al, w, &ok);
    if (bad != NULL) {
        alter_verdict(w, ERR_BAD_REQUEST, bad);
    }
    return ok;
}

static bool alter_same(const void *u, uint32_t a, uint32_t b) {
    const struct alter_wish *w = u;
    return w[a].res.type == w[b].res.type && span_eq(w[a].res.name, w[b].res.name);
}

static bool alter_look(struct alter *al) {
    struct seen seen;
    if (!seen_init(&seen, al->rq, al->n)) {
        return false;
    }
    for (uint32_t i = 0; i < al->n; i++) {
        struct alter_wish *w = &al->wishes[i];
        uint32_t first = seen_add(&seen, seen_hash_part(&seen, seen_hash(&seen, w->res.name), w->res.type), i, alter_same, al->wishes);
        w->twice = first != i;
        al->wishes[first].twice = al->wishes[first].twice || first != i;
    }
    return true;
}

bool alter_init(struct alter *al, struct rq *rq, size_t n) {
    rq->arena.ceiling += (n < ALTER_RESOURCES_MAX ? n : ALTER_RESOURCES_MAX) * (sizeof(struct alter_sent) + 512);
    *al = (struct alter){.rq = rq, .n = n, .wishes = rq_array(rq, n, sizeof(struct alter_wish))};
    return al->wishes != NULL;
}

bool alter_run(struct alter *al) {
    if (!alter_look(al)) {
        return false;
    }
    for (size_t i = 0; i < al->n; i++) {
        if (!alter_judge(al, &al->wishes[i])) {
            return false;
        }
    }
    al->left = 1;
    for (size_t i = 0; i < al->n; i++) {
        struct alter_wish *w = &al->wishes[i];
        if (w->code == 0 && w->res.type == RESOURCE_BROKER_LOGGER) {
            alter_logger(al, w);
        } else if (w->code == 0) {
            alter_send(al, w);
        }
    }
    if (--al->left == 0) {
        al->done(al);
    }
    return true;
}
