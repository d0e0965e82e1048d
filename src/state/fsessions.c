/* The cache of fetch sessions: ids, epochs, room, eviction. See fsessions.h.
 *
 * Happy path: open makes room at need, find checks what a poll says of itself, begin and end frame the poll.
 * Eviction is Kafka's (S7.38): first the session that nobody polled for more than two minutes; else, of those that exist for longer than that (a follower: of all consumers'), the smallest,
 * if the new one is worth more: a follower's before a consumer's, then the one with more partitions. A session whose poll is under way stays.
 * Failure modes: no room: LIMIT, and the client goes on without a session. So that thousands of clients without one do not look through all sessions at each fetch, a look that found
 * nobody is believed for a second.
 * Runs on: home shard. */
#include "base/mark.h"
#include "base/mem.h"
#include "base/must.h"
#include "fsession_in.h"

#define FSESSIONS_BELIEVED_MS 1000
#define FSESSIONS_BASE_BYTES (sizeof(struct fsession) + 2 * 16 * sizeof(void *))  /* with its maps' first slots */

void fsessions_init(struct fsessions *fs, const struct fsessions_conf *conf) {
    must(conf->of > conf->index && conf->part_bytes >= sizeof(struct fsession_part));
    *fs = (struct fsessions){.conf = *conf, .believed_until = INT64_MIN};
    map_init(&fs->by_id, conf->seed);
    list_init(&fs->used);
}

void fsessions_close_all(struct fsessions *fs) {
    list_each_safe(it, &fs->used) {
        fsessions_close(list_entry(it, struct fsession, used_link));
    }
}

bool fsessions_is_empty(const struct fsessions *fs) { return fs->bytes == 0; }

void fsessions_done(struct fsessions *fs) {
    must(fs->n == 0 && fs->bytes == 0);
    map_done(&fs->by_id);
}

/* ---- finding ---- */

static bool fsession_id_eq(const struct map_node *node, const void *key) {
    return list_entry(node, const struct fsession, node)->id == *(const int32_t *)key;
}

struct fsession *fsessions_by_id(struct fsessions *fs, int32_t id) {
    struct map_node *nd = map_find(&fs->by_id, map_hash_u64(&fs->by_id, (uint32_t)id), fsession_id_eq, &id);
    return nd == NULL ? NULL : list_entry(nd, struct fsession, node);
}

err fsessions_find(struct fsessions *fs, int32_t id, int32_t epoch, bool by_id, struct fsession **ret_s) {
    struct fsession *s = fsessions_by_id(fs, id);
    if (s == NULL) {
        return ERR_NO_SESSION;
    }
    if (s->next_epoch != epoch || s->busy) {
        return ERR_BAD_SESSION_EPOCH;
    }
    if (s->by_id != by_id) {
        return ERR_SESSION_BY_ID;
    }
    *ret_s = s;
    return ERR_OK;
}

/* Cache number i of n hands out i + 1, i + 1 + n, ...: never 0, and known to no other. */
static int32_t fsession_new_id(struct fsessions *fs, uint64_t random) {
    uint32_t of = fs->conf.of, ids = ((uint32_t)INT32_MAX - fs->conf.index - 1) / of;
    uint32_t at = (uint32_t)(random % ids);
    for (;; at = (at + 1) % ids) {
        int32_t id = (int32_t)(at * of + fs->conf.index + 1);
        if (fsessions_by_id(fs, id) == NULL) {
            return id;
        }
    }
}

/* ---- closing ---- */

static void fsession_free(struct fsession *s) {
    struct fsessions *fs = s->all;
    for (struct map_node *nd = map_next(&s->parts, NULL); nd != NULL;) {
        struct map_node *next = map_next(&s->parts, nd);
        fsession_part_drop(list_entry(nd, struct fsession_part, node));
        nd = next;
    }
    must(s->topics.n == 0 && s->found == 0);
    map_done(&s->topics);
    map_done(&s->parts);
    fs->bytes -= FSESSIONS_BASE_BYTES;
    mem_free(s);
}

void fsessions_close(struct fsession *s) {
    if (s->gone) {
        return;
    }
    s->gone = true;
    map_remove(&s->all->by_id, &s->node);
    list_remove(&s->used_link);
    s->all->n--;
    if (!s->busy) {
        fsession_free(s);
    }
}

/* ---- room ---- */

static bool fsession_is_stale(const struct fsession *s, ms now) { return now - s->used > FSESSIONS_IDLE_MS; }

/* The busy ones at the front of the list are those whose polls wait long: few pass two minutes. */
static struct fsession *fsession_stale(const struct fsessions *fs, ms now) {
    list_each(it, &fs->used) {
        struct fsession *s = list_entry(it, struct fsession, used_link);
        if (!fsession_is_stale(s, now)) {
            return NULL;
        }
        if (!s->busy) {
            return s;
        }
    }
    return NULL;
}

static bool fsession_may_go(const struct fsession *s, const struct fsession_open *in) {
    return !s->busy && (in->now - s->created > FSESSIONS_IDLE_MS || (in->privileged && !s->privileged));
}

static bool fsession_is_worth_less(const struct fsession *a, const struct fsession *b) {
    if (a->privileged != b->privileged) {
        return b->privileged;
    }
    return a->parts.n != b->parts.n ? a->parts.n < b->parts.n : a->id < b->id;
}

static struct fsession *fsession_least(const struct fsessions *fs, const struct fsession_open *in) {
    struct fsession *least = NULL;
    list_each(it, &fs->used) {
        struct fsession *s = list_entry(it, struct fsession, used_link);
        if (fsession_may_go(s, in) && (least == NULL || fsession_is_worth_less(s, least))) {
            least = s;
        }
    }
    return least;
}

static struct fsession *fsession_victim(struct fsessions *fs, const struct fsession_open *in) {
    struct fsession *s = fsession_stale(fs, in->now);
    if (s != NULL) {
        return s;
    }
    if (!in->privileged && in->now < fs->believed_until && in->parts_n <= fs->believed_parts) {
        return NULL;
    }
    s = fsession_least(fs, in);
    bool worth = s != NULL && (s->privileged != in->privileged ? in->privileged : s->parts.n < in->parts_n);
    if (!worth) {
        fs->believed_until = in->now + FSESSIONS_BELIEVED_MS;
        fs->believed_parts = s == NULL || s->privileged ? SIZE_MAX : s->parts.n;
    }
    return worth ? s : NULL;
}

static bool fsession_fits(const struct fsessions *fs, size_t bytes) {
    return fs->n < fs->conf.sessions_max && fs->bytes - fs->dropped_bytes + bytes <= fs->conf.bytes_max;
}

static bool fsession_make_room(struct fsessions *fs, const struct fsession_open *in, size_t bytes) {
    if (fs->conf.sessions_max == 0 || in->parts_n > fs->conf.parts_max || bytes > fs->conf.bytes_max) {
        return false;
    }
    while (!fsession_fits(fs, bytes)) {
        struct fsession *s = fsession_victim(fs, in);
        if (s == NULL) {
            return false;
        }
        mark("fsession.evicted");
        fs->evicted++;
        fsessions_close(s);
    }
    return true;
}

/* ---- opening, and the frame of a poll ---- */

err fsessions_open(struct fsessions *fs, const struct fsession_open *in, struct fsession **ret_s) {
    if (!fsession_make_room(fs, in, FSESSIONS_BASE_BYTES + in->parts_n * fsession_part_bytes(fs))) {
        return ERR_LIMIT;
    }
    struct fsession *s = mem_zalloc(MEM_SESSION, sizeof *s);
    if (s == NULL) {
        return ERR_NOMEM;
    }
    s->all = fs;
    s->id = fsession_new_id(fs, in->random);
    if (map_insert(&fs->by_id, &s->node, map_hash_u64(&fs->by_id, (uint32_t)s->id)) != ERR_OK) {
        mem_free(s);
        return ERR_NOMEM;
    }
    s->next_epoch = 1;
    s->by_id = in->by_id;
    s->privileged = in->privileged;
    s->created = s->used = in->now;
    map_init(&s->topics, fs->conf.seed ^ 0x746f706963);
    map_init(&s->parts, fs->conf.seed ^ 0x70617274);
    list_init(&s->due);
    list_init(&s->out);
    list_init(&s->some);
    list_push_back(&fs->used, &s->used_link);
    fs->bytes += FSESSIONS_BASE_BYTES;
    fs->n++;
    *ret_s = s;
    return ERR_OK;
}

static void fsession_use(struct fsession *s, ms now) {
    s->used = now;
    list_remove(&s->used_link);
    list_push_back(&s->all->used, &s->used_link);
}

void fsessions_begin(struct fsession *s, ms now) {
    must(!s->busy && !s->gone);
    s->busy = true;
    s->next_epoch = s->next_epoch == INT32_MAX ? 1 : s->next_epoch + 1;        /* S7.33 */
    fsession_use(s, now);
}

void fsessions_end(struct fsession *s, ms now) {
    must(s->busy && list_empty(&s->out));
    s->busy = false;
    s->u = NULL;
    if (s->gone) {
        fsession_free(s);
    } else {
        fsession_use(s, now);                      /* it waited, perhaps for long: that was use, too */
    }
}
