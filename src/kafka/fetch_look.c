/* One look of a fetch at its partitions: an ask to each owner, its charge, the bytes that come back.
 *
 * Happy path: what may be read is charged, the owners read (or, where more than one byte is wanted, first only count), fetch_judge decides, fetch_take hands bytes to the answer.
 * Failure modes: no memory: false, and the request fails.
 * Runs on: home shard. */
#include "fetch.h"
#include "fetch_spart.h"

#define FETCH_LEAST_BYTES ((size_t)64 << 10)       /* waited for, if need be; more is a matter of room */

struct fetch_part *fetch_nth(const struct fetch_work *w, size_t i) {
    size_t at = w->start + i;
    return &w->parts[at < w->parts_n ? at : at - w->parts_n];
}

struct read_part *fetch_read_part(const struct fetch_work *w, const struct fetch_part *fp) { return &w->asks[fp->shard].parts[fp->at]; }

/* ---- the bytes ---- */

void fetch_part_blank(const struct fetch_work *w, struct k_fetch_resp_topic_part *to, int32_t partition) {
    k_fetch_resp_topic_part_init(to);
    to->partition = partition;
    to->preferred_read_replica = -1;
    to->aborted_n = w->read_committed ? 0 : -1;                    /* S7.10: nothing is transactional yet */
    to->records = SPAN_LIT("");                    /* never null (S7.8) */
    to->high_watermark = to->last_stable_offset = to->log_start_offset = -1;
}

void fetch_fill(struct k_fetch_resp_topic_part *to, const struct read_part *p) {
    to->error_code = errmap_code(p->err);
    bool ok = p->err == ERR_OK;
    to->high_watermark = ok ? p->high_watermark : -1;              /* S7.9 */
    to->last_stable_offset = ok ? p->last_stable : -1;
    to->log_start_offset = ok || p->err == ERR_OFFSET_RANGE ? p->log_start : -1;
    if (p->diverging_epoch >= 0) {
        to->diverging_epoch.epoch = p->diverging_epoch;            /* S7.14 */
        to->diverging_epoch.end_offset = p->diverging_end;
    }
}

bool fetch_take(struct fetch_work *w, struct fetch_part *fp, struct fetch_take *t) {
    struct read_part *p = fetch_read_part(w, fp);
    bool too_much = p->bytes > t->left || p->bytes > p->bytes_max; /* each owner read its first batch whole; one of them is the answer's first */
    if (p->err != ERR_OK || p->bytes == 0 || (!t->first && too_much)) {
        return true;
    }
    struct chain *c = rq_array(w->rq, 1, sizeof(*c));
    if (c == NULL) {
        return false;
    }
    t->left -= p->bytes < t->left ? p->bytes : t->left;
    t->first = false;
    chain_init(c, &w->rq->arena);
    read_take(&w->asks[fp->shard], fp->at, c);
    fp->records = c;
    return chain_ok(c);
}

bool fetch_is_starved(const struct fetch_work *w, const struct fetch_part *fp) {
    const struct read_part *p = fetch_read_part(w, fp);
    return p->err == ERR_OK && p->diverging_epoch < 0 && p->from < p->high_watermark && fp->records == NULL;
}

/* ---- the asks ---- */

void fetch_asks_drop(struct fetch_work *w) {
    for (size_t i = 0; i < w->asks_n; i++) {
        read_drop(&w->asks[i]);
    }
}

static void fetch_home(struct read_ask *a) {
    struct fetch_work *w = a->u;
    if (w->watching) {
        fetch_watch_home(w, a->ask.err);
    } else if (--w->out == 0) {
        fetch_judge(w);
    }
}

static struct fsession_want fetch_want(const struct fetch_part *fp) {
    if (fp->sp != NULL) {
        return fp->sp->p.want;
    }
    const struct k_fetch_req_topic_part *q = fp->asked;
    return (struct fsession_want){q->current_leader_epoch, q->last_fetched_epoch, q->fetch_offset, q->partition_max_bytes};
}

static void fetch_ask_part(struct fetch_work *w, const struct fetch_part *fp, int32_t partition) {
    struct fsession_want want = fetch_want(fp);
    *fetch_read_part(w, fp) = (struct read_part){
        .topic_id = fp->topic->id,
        .partition = partition,
        .current_epoch = want.current_epoch,
        .last_fetched_epoch = want.last_fetched_epoch,
        .from = want.from,
        .bytes_max = want.bytes_max < 0 ? 0 : (size_t)want.bytes_max,
    };
}

/* One ask for each owner, of `counts` parts. */
static bool fetch_asks_init(struct fetch_work *w, uint32_t *counts) {
    struct node *n = w->rq->sh->node;
    for (uint32_t s = 0; s < n->shards_n; s++) {
        if (counts[s] == 0) {
            continue;
        }
        struct read_ask *a = &w->asks[w->asks_n];
        if (read_init(a, w->mem, counts[s], fetch_home) != ERR_OK) {
            return false;
        }
        a->u = w;
        a->ask.owner = n->shards[s];
        counts[s] = (uint32_t)w->asks_n++;         /* from now on: which ask */
    }
    return true;
}

static void fetch_budget(struct fetch_work *w) {
    size_t sum = 0;
    for (size_t i = 0; i < w->parts_n; i++) {
        struct fsession_want want = fetch_want(&w->parts[i]);
        sum += w->parts[i].topic != NULL && want.bytes_max > 0 ? (size_t)want.bytes_max : 0;
    }
    w->budget = sum < (size_t)w->max_bytes ? sum : (size_t)w->max_bytes;
}

bool fetch_asks(struct fetch_work *w) {
    uint32_t shards = w->rq->sh->node->shards_n;
    w->asks_n = 0;
    w->asks = arena_zalloc(w->mem, shards * sizeof(*w->asks));
    uint32_t *counts = arena_zalloc(w->mem, shards * sizeof(*counts));
    if (w->asks == NULL || counts == NULL) {
        return false;
    }
    for (size_t i = 0; i < w->parts_n; i++) {      /* S7.21: who is read first changes, so that none starves behind those before it */
        struct fetch_part *fp = fetch_nth(w, i);
        if (fp->topic != NULL) {
            fp->at = counts[fp->shard]++;
        }
    }
    if (!fetch_asks_init(w, counts)) {
        return false;
    }
    for (size_t i = 0; i < w->parts_n; i++) {
        struct fetch_part *fp = &w->parts[i];
        if (fp->topic != NULL) {
            fp->shard = counts[fp->shard];
            fetch_ask_part(w, fp, fp->sp != NULL ? fp->sp->p.partition : fp->asked->partition);
        }
    }
    fetch_budget(w);
    return true;
}

/* ---- the look ---- */

static void fetch_read(struct fetch_work *w) {
    w->out = w->asks_n;
    for (size_t i = 0, n = w->asks_n; i < n; i++) {
        w->asks[i].bytes_max = w->charged / w->asks_n;
        w->asks[i].min_one = true;
        read_send(w->rq->sh, w->asks[i].ask.owner, &w->asks[i], w->probing ? READ_PROBE : READ_DATA);
    }
}

static void fetch_admitted(struct rq *rq) {
    struct fetch_work *w = rq->work;
    if (rq->abandoned) {
        fetch_gone(w);
        return;
    }
    rq->charge += rq->little ? 0 : admit_more(&rq->sh->admit, w->budget - rq->charge);
    w->charged = rq->charge;
    fetch_read(w);
}

void fetch_look(struct fetch_work *w) {
    if (w->asks_n == 0) {
        fetch_judge(w);
    } else if (w->probing || w->charged > 0) {
        fetch_read(w);
    } else {
        size_t least = w->budget < FETCH_LEAST_BYTES ? w->budget : FETCH_LEAST_BYTES;
        rq_charge(w->rq, w->counted > 0 && w->counted < least ? w->counted : least, fetch_admitted);
    }
}

bool fetch_counts_first(const struct fetch_work *w) {
    return (w->min_bytes > 1 && !w->over) || (!w->has_counted && admit_is_full_of_replies(&w->rq->sh->admit, FETCH_LEAST_BYTES));
}

void fetch_note_count(struct fetch_work *w, size_t bytes) {
    w->has_counted = w->probing;
    w->counted = w->probing ? bytes : 0;
}

struct fetch_found fetch_sum(const struct fetch_work *w) {
    struct fetch_found f = {.failed = w->failed};
    for (size_t i = 0; i < w->asks_n; i++) {
        for (size_t k = 0; k < w->asks[i].parts_n; k++) {
            const struct read_part *p = &w->asks[i].parts[k];
            f.bytes += p->bytes;
            f.failed = f.failed || p->err != ERR_OK || p->diverging_epoch >= 0;
        }
    }
    return f;
}

void fetch_settle_charge(struct fetch_work *w, size_t bytes) {
    if (bytes > w->charged) {
        rq_charge_over(w->rq, bytes - w->charged);     /* a first batch came whole (S7.2) */
    } else {
        rq_uncharge(w->rq, w->charged - bytes);
    }
    w->charged = bytes;
}
