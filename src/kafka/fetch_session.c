/* Fetch sessions (KIP-227): the session remembers the client's partitions, a poll names only what changed on its side, the answer only what changed on ours (S7.30-7.39).
 *
 * Happy path: a full fetch with epoch 0 opens a session with its answer. An incremental poll updates it, looks at what is due, and answers or parks. Each partition in which there is nothing
 * to read has a watch with its owner, which stays between polls: the one that moves comes home, its partition is due, a parked poll looks at it. What does not move is not touched, whether
 * polled or not; what the rules are stands in state/fsession.h.
 * Failure modes: unknown id 70, wrong epoch 71, versions mixed 106, each with session id 0 and no partitions (S7.32, S7.36); a session that outgrows its limits is closed, the poll answered
 * with 70, and the client begins anew. No room for a new one: session id 0, a full fetch each time.
 * Sessions live on the connection's shard and survive the connection; nothing of them survives the broker.
 * Runs on: home shard. */
#include <string.h>

#include "base/be.h"
#include "base/limits.h"
#include "base/mark.h"
#include "fetch.h"
#include "fetch_spart.h"

#define FETCH_SESSION_LOOK_BYTES (sizeof(struct fetch_part) + sizeof(struct read_part) + sizeof(struct plog_got *))
#define FETCH_SESSION_TOLD_BYTES (sizeof(struct k_fetch_resp_topic_part) + sizeof(struct k_fetch_resp_topic) + LIMIT_TOPIC_NAME + 64)

static struct conn_set *fetch_session_set(const struct fetch_work *w) { return w->rq->cn->set; }

/* ---- the shard's cache ---- */

static void fetch_session_drop(void *u, struct fsession_part *p) {
    (void)u;
    watch_cancel(&list_entry(p, struct fetch_spart, p)->w);
}

static size_t fetch_session_share(const struct shard *sh, size_t all) {
    uint32_t n = sh->node->shards_n;
    return all / n + (sh->index < all % n);
}

void fetch_session_set_init(struct conn_set *set) {
    struct shard *sh = set->sh;
    fsessions_init(&set->sessions, &(struct fsessions_conf){
        .sessions_max = fetch_session_share(sh, sh->node->conf.fetch_sessions_max),
        .bytes_max = LIMIT_FETCH_SESSION_BYTES / sh->node->shards_n,
        .parts_max = LIMIT_FETCH_SESSION_PARTITIONS,
        .part_bytes = sizeof(struct fetch_spart),
        .index = sh->index,
        .of = sh->node->shards_n,
        .seed = prng_next(sh->port->rng),
        .drop = fetch_session_drop,
        .u = set,
    });
}

/* ---- watches ---- */

static void fetch_session_bounced(struct ask *ask) { fetch_session_look(list_entry(ask, struct fetch_work, bounce)); }

static void fetch_session_bounce(struct ask *ask) { ask_return(ask, ERR_OK); }

/* A partition moved. The poll that waits looks when the other watches that came with this one are home, too: one look for all of them. */
static void fetch_session_wake(struct fsession *s) {
    struct fetch_work *w = s->u;
    if (w != NULL && w->parked) {
        w->parked = false;
        ask_send(w->rq->sh, w->rq->sh, &w->bounce);
    }
}

static void fetch_session_watch_home(struct watch *watch) {
    struct fetch_spart *sp = list_entry(watch, struct fetch_spart, w);
    struct conn_set *set = sp->set;
    if (sp->p.s != NULL) {
        fsession_moved(&sp->p);
        fetch_session_wake(sp->p.s);
        return;
    }
    sp->p.watched = false;
    fsession_part_free(&set->sessions, &sp->p);
    conn_set_changed(set);
}

/* From now on the owner tells when the part is not as this look saw it. */
static void fetch_session_watch(struct fetch_work *w, const struct fetch_part *fp) {
    struct fetch_spart *sp = fp->sp;
    bool rests = sp->p.at == FSESSION_IDLE || sp->p.at == FSESSION_SOME;
    if (!rests || sp->p.watched) {
        return;
    }
    const struct read_part *p = fetch_read_part(w, fp);
    sp->w.topic_id = p->topic_id;
    sp->w.partition = p->partition;
    sp->w.leader_epoch = p->leader_epoch;
    sp->w.high_watermark = p->high_watermark;
    sp->w.log_start = p->log_start;
    sp->p.watched = true;
    watch_send(w->rq->sh, w->asks[fp->shard].ask.owner, &sp->w);
}

/* Every part of this look has its verdict. */
static void fetch_session_file(struct fetch_work *w) {
    fsession_settle(w->session);
    for (size_t i = 0; i < w->parts_n; i++) {
        if (w->parts[i].topic != NULL) {
            fetch_session_watch(w, &w->parts[i]);
        }
    }
}

/* ---- the request ---- */

static bool fetch_session_is_privileged(const struct rq *rq, const struct k_fetch_req *q) {
    int32_t replica = rq->version >= 15 ? q->replica_state.replica_id : q->replica_id;
    return replica >= 0 && rq_allow(rq, ALLOW_CLUSTER_ACTION, ALLOW_CLUSTER, SPAN_LIT("kafka-cluster"));
}

static err fetch_session_put(struct conn_set *set, struct fsession *s, const struct fsession_key *key, const struct fsession_want *want, struct fetch_spart **ret_sp) {
    struct fsession_part *p;
    bool is_new;
    err e = fsession_put(s, key, want, &p, &is_new);
    if (e != ERR_OK) {
        return e;
    }
    struct fetch_spart *sp = list_entry(p, struct fetch_spart, p);
    if (is_new) {
        sp->set = set;
        watch_init(&sp->w, fetch_session_watch_home);
    }
    *ret_sp = sp;
    return ERR_OK;
}

static err fetch_session_put_topic(struct conn_set *set, struct fsession *s, const struct k_fetch_req_topic *t) {
    for (int32_t i = 0; i < t->partitions_n; i++) {
        const struct k_fetch_req_topic_part *q = &t->partitions[i];
        struct fsession_key key = {.name = t->topic, .id = t->topic_id, .partition = q->partition};
        struct fsession_want want = {q->current_leader_epoch, q->last_fetched_epoch, q->fetch_offset, q->partition_max_bytes};
        struct fetch_spart *sp;
        err e = fetch_session_put(set, s, &key, &want, &sp);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

/* S7.34. */
static err fetch_session_update(struct conn_set *set, struct fsession *s, const struct k_fetch_req *q) {
    for (int32_t i = 0; i < q->topics_n; i++) {
        err e = fetch_session_put_topic(set, s, &q->topics[i]);
        if (e != ERR_OK) {
            return e;
        }
    }
    for (int32_t i = 0; i < q->forgotten_n; i++) {
        const struct k_fetch_req_forgotten *f = &q->forgotten[i];
        for (int32_t k = 0; k < f->partitions_n; k++) {
            fsession_forget(s, &(struct fsession_key){.name = f->topic, .id = f->topic_id, .partition = f->partitions[k]});
        }
    }
    return ERR_OK;
}

/* S7.31: a poll of it that waits elsewhere need not wait any longer. */
static void fetch_session_close(struct conn_set *set, int32_t id) {
    struct fsession *s = id == 0 ? NULL : fsessions_by_id(&set->sessions, id);
    if (s == NULL) {
        return;
    }
    struct fetch_work *w = s->u;
    fsessions_close(s);
    if (w != NULL) {
        w->over = true;
        fetch_session_hurry(w);
    }
}

static err fetch_session_poll(struct fetch_work *w, const struct k_fetch_req *q) {
    struct conn_set *set = fetch_session_set(w);
    struct fsession *s;
    err e = fsessions_find(&set->sessions, q->session_id, q->session_epoch, w->rq->version >= 13, &s);
    if (e != ERR_OK) {
        return e;
    }
    fsessions_begin(s, shard_now(w->rq->sh));
    e = fetch_session_update(set, s, q);
    if (e != ERR_OK || s->parts.n == 0) {          /* too large, or nothing is left in it: it closes */
        mark(e != ERR_OK ? "fetch.session.too_large" : "fetch.session.empty");
        fsessions_close(s);
        fsessions_end(s, s->used);
        return e == ERR_OK ? ERR_OK : ERR_NO_SESSION;
    }
    w->session = s;
    s->u = w;
    w->resp.session_id = s->id;
    w->mem = &w->look;
    ask_init(&w->bounce, fetch_session_bounce, fetch_session_bounced);
    return ERR_OK;
}

bool fetch_session_start(struct fetch_work *w, const struct k_fetch_req *q) {
    if (w->rq->version < 7) {
        return true;
    }
    if (q->session_epoch == 0 || q->session_epoch == -1) {
        fetch_session_close(fetch_session_set(w), q->session_id);
        w->wants_session = q->session_epoch == 0;
        w->privileged = fetch_session_is_privileged(w->rq, q);
        return true;
    }
    err e = fetch_session_poll(w, q);
    w->resp.error_code = errmap_code(e);
    return e == ERR_OK;
}

/* ---- looks ---- */

static void fetch_session_end(struct fetch_work *w) {
    struct fsession *s = w->session;
    w->session = NULL;
    fsessions_end(s, shard_now(w->rq->sh));
    conn_set_changed(fetch_session_set(w));
}

void fetch_session_leave(struct fetch_work *w) {
    if (w->session != NULL) {
        fsession_settle(w->session);               /* without verdicts: they stay due */
        fetch_session_end(w);
    }
}

static void fetch_session_fail(struct fetch_work *w) {
    fetch_session_leave(w);
    rq_fail(w->rq, ERR_NOMEM);
}

/* The parts out: which topic and owner each has now. Neighbours mostly share their topic. */
static void fetch_session_resolve(struct fetch_work *w) {
    const struct fsession_topic *last = NULL;
    const struct meta_topic *t = NULL;
    err e = ERR_OK;
    list_each(it, &w->session->out) {
        struct fsession_part *p = list_entry(it, struct fsession_part, link);
        if (p->topic != last) {
            last = p->topic;
            t = NULL;
            e = fetch_resolve(w->rq, span_of(last->name, last->name_n), last->id, &t);
        }
        bool there = t != NULL && p->partition >= 0 && p->partition < t->parts_n;
        struct fetch_part *fp = &w->parts[w->parts_n++];
        *fp = (struct fetch_part){.sp = list_entry(p, struct fetch_spart, p), .topic = there ? t : NULL, .err = e == ERR_OK && !there ? ERR_NO_TOPIC : e};
        fp->shard = there ? shard_owner(w->rq->sh, t, p->partition)->index : 0;
        w->failed = w->failed || !there;
    }
}

static bool fetch_session_prepare(struct fetch_work *w, size_t n) {
    w->look.ceiling = LIMIT_ARENA_BYTES + n * FETCH_SESSION_LOOK_BYTES;
    w->parts = arena_alloc(&w->look, n * sizeof(*w->parts));
    if (w->parts == NULL) {
        return false;
    }
    fetch_session_resolve(w);
    return fetch_asks(w);
}

static void fetch_session_forget_look(struct fetch_work *w) {
    fetch_asks_drop(w);
    w->parts_n = w->asks_n = 0;
    w->failed = false;
    arena_done(&w->look);
}

static void fetch_session_park(struct fetch_work *w) {
    rq_drop_frame(w->rq);
    rq_uncharge(w->rq, w->charged);
    w->charged = 0;
    w->has_counted = false;
    if (!timer_is_set(&w->timer)) {
        shard_timer(w->rq->sh, &w->timer, w->due);
    }
    w->parked = true;
}

static void fetch_session_answer(struct fetch_work *w);

void fetch_session_look(struct fetch_work *w) {
    if (w->rq->abandoned) {
        fetch_gone(w);
        return;
    }
    fetch_session_forget_look(w);
    w->probing = fetch_counts_first(w);
    size_t n = fsession_take(w->session, !w->probing);
    if (n == 0) {
        if (w->over) {
            fetch_session_answer(w);
        } else {
            fetch_session_park(w);                 /* S7.39 */
        }
    } else if (fetch_session_prepare(w, n)) {
        fetch_look(w);
    } else {
        fetch_session_fail(w);
    }
}

void fetch_session_hurry(struct fetch_work *w) {
    if (w->parked) {
        w->parked = false;
        fetch_session_look(w);
    }
}

static struct fsession_ends fetch_session_ends(const struct read_part *p) {
    return (struct fsession_ends){p->high_watermark, p->last_stable, p->log_start};
}

/* No answer yet: who has something waits with it, errors stay due. */
static void fetch_session_keep(struct fetch_work *w) {
    for (size_t i = 0; i < w->parts_n; i++) {
        const struct fetch_part *fp = &w->parts[i];
        const struct read_part *p = fp->topic == NULL ? NULL : fetch_read_part(w, fp);
        if (p == NULL || p->err != ERR_OK || p->diverging_epoch >= 0) {
            continue;
        }
        struct fsession_ends ends = fetch_session_ends(p);
        bool some = p->bytes > 0 || fsession_is_news(&fp->sp->p, &ends);
        fsession_verdict(&fp->sp->p, some ? FSESSION_NOT_ENOUGH : FSESSION_NOTHING, p->bytes);
    }
    fetch_session_file(w);
}

void fetch_session_judge(struct fetch_work *w) {
    struct fetch_found f = fetch_sum(w);
    if (w->rq->abandoned) {
        fetch_gone(w);
        return;
    }
    bool no_bytes = f.bytes == 0 && list_empty(&w->session->some);     /* counted, and there is none to take */
    if ((!w->probing || no_bytes) && (w->over || f.failed || f.bytes >= (size_t)w->min_bytes)) {
        fetch_settle_charge(w, w->probing ? 0 : f.bytes);
        fetch_session_answer(w);
        return;
    }
    fetch_session_keep(w);
    fetch_note_count(w, w->session->found);
    w->over = w->over || f.failed || w->session->found >= (size_t)w->min_bytes;        /* counted: now take the bytes */
    if (w->over || !list_empty(&w->session->due)) {
        fetch_session_look(w);
    } else {
        fetch_session_forget_look(w);
        fetch_session_park(w);
    }
}

/* ---- the answer ---- */

/* Takes the part's bytes and gives its verdict; *ret_told: the answer names it (S7.35). False without memory. */
static bool fetch_session_part(struct fetch_work *w, struct fetch_part *fp, struct fetch_take *take, bool *ret_told) {
    struct fsession_part *p = &fp->sp->p;
    if (fp->topic == NULL) {
        *ret_told = true;
        return true;
    }
    if (!fetch_take(w, fp, take)) {
        return false;
    }
    const struct read_part *rp = fetch_read_part(w, fp);
    struct fsession_ends ends = fetch_session_ends(rp);
    bool failed = rp->err != ERR_OK || rp->diverging_epoch >= 0;
    bool left = failed || fetch_is_starved(w, fp);
    fsession_verdict(p, fp->records != NULL ? FSESSION_SERVED : left ? FSESSION_LEFT : FSESSION_NOTHING, 0);
    *ret_told = failed || fp->records != NULL || fsession_is_news(p, &ends);
    return true;
}

static bool fetch_session_topic(struct fetch_work *w, const struct fsession_topic *from, struct k_fetch_resp_topic_part *first) {
    struct k_fetch_resp_topic *to = &w->resp.topics[w->resp.topics_n++];
    k_fetch_resp_topic_init(to);
    to->topic_id = from->id;
    to->topic = arena_copy(&w->rq->arena, span_of(from->name, from->name_n));
    to->partitions = first;
    return !span_is_null(to->topic);
}

/* Neighbours of one topic stand in one entry, as Kafka has it. */
static bool fetch_session_write(struct fetch_work *w, size_t told_n) {
    struct rq *rq = w->rq;
    rq->arena.ceiling += told_n * FETCH_SESSION_TOLD_BYTES;
    struct k_fetch_resp_topic_part *parts = rq_array(rq, told_n, sizeof(*parts));
    w->resp.topics = rq_array(rq, told_n, sizeof(*w->resp.topics));
    if (parts == NULL || w->resp.topics == NULL) {
        return false;
    }
    const struct fsession_topic *topic = NULL;
    for (size_t i = 0; i < w->parts_n; i++) {
        struct fetch_part *fp = &w->parts[i];
        struct fsession_part *p = &fp->sp->p;
        if (fp->told && p->topic != topic && !fetch_session_topic(w, p->topic, parts)) {
            return false;
        }
        if (fp->told) {
            topic = p->topic;
            fetch_part_blank(w, parts, p->partition);
            if (fp->topic != NULL) {
                fetch_fill(parts, fetch_read_part(w, fp));
            } else {
                parts->error_code = errmap_code(fp->err);
            }
            parts->records_chain = fp->records;
            w->resp.topics[w->resp.topics_n - 1].partitions_n++;
            struct fsession_ends ends = {parts->high_watermark, parts->last_stable_offset, parts->log_start_offset};
            fsession_tell(p, &ends, parts->error_code != 0 || parts->diverging_epoch.epoch >= 0);
            parts++;
        }
    }
    return true;
}

static void fetch_session_answer(struct fetch_work *w) {
    struct fetch_take take = {.left = (size_t)w->max_bytes, .first = true};
    size_t told_n = 0;
    bool ok = true;
    wheel_cancel(&w->rq->sh->wheel, &w->timer);
    for (size_t i = 0; i < w->parts_n && ok; i++) {
        struct fetch_part *fp = &w->parts[i];
        ok = fetch_session_part(w, fp, &take, &fp->told);
        told_n += fp->told;
    }
    if (!ok || !fetch_session_write(w, told_n)) {
        fetch_session_fail(w);
        return;
    }
    fetch_session_file(w);
    fetch_session_end(w);
    rq_reply(w->rq, &w->resp);
}

/* ---- a new session ---- */

static err fetch_session_add(struct fetch_work *w, struct fsession *s, const struct fetch_part *fp) {
    const struct k_fetch_req_topic_part *q = fp->asked;
    struct fsession_key key = {.name = fp->to->topic, .id = fp->to->topic_id, .partition = q->partition};
    struct fsession_want want = {q->current_leader_epoch, q->last_fetched_epoch, q->fetch_offset, q->partition_max_bytes};
    struct fetch_spart *sp;
    err e = fetch_session_put(fetch_session_set(w), s, &key, &want, &sp);
    if (e == ERR_OK) {
        struct fsession_ends ends = {fp->resp->high_watermark, fp->resp->last_stable_offset, fp->resp->log_start_offset};
        fsession_tell(&sp->p, &ends, fp->resp->error_code != 0 || fp->resp->diverging_epoch.epoch >= 0);
    }
    return e;
}

/* In the client's order (parts[] has it backwards), those that were answered with records at the end. */
static err fetch_session_fill(struct fetch_work *w, struct fsession *s) {
    err e = ERR_OK;
    for (int served = 0; served < 2; served++) {
        for (size_t i = w->parts_n; i-- > 0 && e == ERR_OK;) {
            const struct fetch_part *fp = &w->parts[i];
            e = (fp->records != NULL) == (served == 1) ? fetch_session_add(w, s, fp) : ERR_OK;
        }
    }
    return e;
}

void fetch_session_open(struct fetch_work *w) {
    struct conn_set *set = fetch_session_set(w);
    struct shard *sh = w->rq->sh;
    if (w->parts_n == 0 || set->draining) {
        return;
    }
    struct fsession_open in = {.now = shard_now(sh), .parts_n = w->parts_n, .by_id = w->rq->version >= 13, .privileged = w->privileged};
    uint8_t random[8];
    sh->port->secret(sh->port, random, sizeof(random));
    in.random = be64_get(random);
    struct fsession *s;
    if (fsessions_open(&set->sessions, &in, &s) != ERR_OK) {
        mark("fetch.session.none");
        return;
    }
    if (fetch_session_fill(w, s) != ERR_OK) {
        fsessions_close(s);
        return;
    }
    w->resp.session_id = s->id;
}
