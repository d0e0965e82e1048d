/* Leader epochs that are to rise before anything is appended: of logs that a crash may have shortened (DESIGN 4).
 *
 * Happy path: the boot owes one for each such log, which is held from then on; raise_start makes all of them durable as one frame of the metadata log, every shard applies it, and
 * that frees the logs (plog_epoch). Then the doors open.
 * Failure modes: no space for the frame (BR-061): the doors open all the same, for readers and administration; producers of held logs are refused as on any full disk, and the frame is
 * tried again every second. A topic that is deleted meanwhile owes nothing.
 * Runs on: raise_owe at boot, the rest on shard 0. */
#include "base/log.h"
#include "inside.h"
#include "store/plog.h"

#define RAISE_AGAIN_MS 1000

err raise_owe(struct raise *ra, struct part *pt) {
    if (ra->n == ra->cap) {
        size_t cap = ra->cap > 0 ? ra->cap * 2 : 16;
        struct raise_owed *v = mem_realloc(MEM_META, ra->v, cap * sizeof(*v));
        if (v == NULL) {
            return ERR_NOMEM;
        }
        ra->v = v;
        ra->cap = cap;
    }
    ra->v[ra->n++] = (struct raise_owed){.topic_id = pt->topic->id, .partition = pt->index};
    plog_hold(pt->log);
    return ERR_OK;
}

/* One that is on its way out according to what is queued waits for what becomes of that. */
static err raise_frame(struct raise *ra, struct str *frame) {
    const struct meta *ours = ra->node->shards[0]->meta, *ahead = metad_ahead(ra->node->metad);
    err e = ERR_OK;
    size_t kept = 0;
    for (size_t i = 0; i < ra->n && e == ERR_OK; i++) {
        struct raise_owed *o = &ra->v[i];
        const struct meta_topic *t = meta_topic_by_id(ours, o->topic_id);
        if (t == NULL) {
            continue;
        }
        o->asked = meta_topic_by_id(ahead, o->topic_id) != NULL;
        e = o->asked ? meta_decide_epoch(ours, t, o->partition, frame) : ERR_OK;
        ra->v[kept++] = *o;
    }
    ra->n = e == ERR_OK ? kept : ra->n;
    return e == ERR_OK && frame->bad ? ERR_NOMEM : e;
}

static void raise_forget_asked(struct raise *ra) {
    size_t kept = 0;
    for (size_t i = 0; i < ra->n; i++) {
        if (!ra->v[i].asked) {
            ra->v[kept++] = ra->v[i];
        }
    }
    ra->n = kept;
}

static void raise_later(struct raise *ra) {
    struct shard *sh = ra->node->shards[0];
    if (!ra->stopped) {
        shard_timer(sh, &ra->again, shard_now(sh) + RAISE_AGAIN_MS);
    }
}

static void raise_settled(void *u, err e) {
    struct raise *ra = u;
    void (*done)(struct node *n, err r) = ra->done;
    if (e == ERR_OK) {
        raise_forget_asked(ra);
    }
    if (ra->n > 0 && (e == ERR_OK || e == ERR_NOSPACE || done == NULL)) {
        if (done != NULL) {
            log_warn("node.epochs_wait", "partitions=%zu reason='%s' effect='served to readers only, until the metadata log can be written'", ra->n, err_text(e));
        }
        raise_later(ra);
        e = ERR_OK;
    } else if (e == ERR_OK && done == NULL) {
        log_info("node.epochs_raised", "effect='producers are served again'");
    }
    ra->done = NULL;
    if (done != NULL) {
        done(ra->node, e);
    }
}

static void raise_try(struct raise *ra) {
    struct str frame;
    str_init(&frame, SIZE_MAX);
    err e = raise_frame(ra, &frame);
    if (e != ERR_OK || frame.n == 0) {
        raise_settled(ra, e);
    } else {
        metad_propose(ra->node->metad, str_span(&frame), raise_settled, ra);
    }
    str_done(&frame);
}

static void raise_on_time(struct timer *t, ms now) {
    (void)now;
    struct raise *ra = list_entry(t, struct raise, again);
    if (!ra->stopped) {
        raise_try(ra);
    }
}

void raise_start(struct raise *ra, struct node *n, void (*done)(struct node *n, err e)) {
    ra->node = n;
    ra->done = done;
    timer_init(&ra->again, raise_on_time);
    raise_try(ra);
}

void raise_stop(struct raise *ra) { ra->stopped = true; }

void raise_free(struct raise *ra) { mem_free(ra->v); }
