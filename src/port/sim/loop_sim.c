/* The loop of a simulated shard: poll, turn, poll …, on the world's events; its clock and its inbox.
 *
 * Happy path: whatever becomes ready for a shard is queued and its poll is scheduled a little later, so deliveries fall together in batches
 * as they do under load. The poll delivers all of them, then runs the turn. wake_at schedules a poll as well.
 * The node's code never makes the world allocate on the paths of the turn: submit, send, post, wake_at and again only link what is embedded
 * in the caller's structs; loop_sim_settle does the rest when the code has returned.
 * Failure modes: the node may crash in any delivery; after each the loop looks whether it is still alive.
 * Runs on: the world's thread. */
#include "loop_sim.h"

#include "base/must.h"
#include "net_sim.h"

#define POST_US_MAX 20

static struct world *world_of(const struct loop_sim *lp) {
    return lp->node->w;
}

static void trace(const struct loop_sim *lp, enum trace_kind kind, int64_t a, int64_t b) {
    world_sim_trace(world_of(lp), &(struct trace_ev){.kind = kind, .node = lp->node->id, .shard = lp->port.shard + 1, .a = a, .b = b});
}

static struct loop_sim *loop_of_clock(struct clock *c) {
    return list_entry(c, struct loop_sim, clock);
}

static int64_t mono_us(struct clock *c) {
    const struct loop_sim *lp = loop_of_clock(c);
    return world_of(lp)->now + lp->node->mono_base;
}

static ms mono_ms(struct clock *c) {
    return mono_us(c) / 1000;
}

static ms wall_ms(struct clock *c) {
    const struct loop_sim *lp = loop_of_clock(c);
    return (world_of(lp)->now + lp->node->wall_base) / 1000;
}

static struct loop_sim *loop_of(struct port *p) {
    return list_entry(p, struct loop_sim, port);
}

static void secret(struct port *p, uint8_t *buf, size_t n) {
    prng_bytes(&loop_of(p)->secrets, buf, n);
}

static void on_turn(struct port *p, void (*turn)(void *u), void *u) {
    loop_of(p)->turn = turn;
    loop_of(p)->turn_u = u;
}

static void wake_at(struct port *p, ms due) {
    struct loop_sim *lp = loop_of(p);
    struct world *w = world_of(lp);
    if (due == lp->wake_due || lp->stopped) {
        return;
    }
    lp->wake_due = due;
    if (due == INT64_MAX) {
        event_sim_cancel(&w->heap, &lp->wake);
        return;
    }
    int64_t at = due > 0 ? due * 1000 - lp->node->mono_base : 0;
    event_sim_at(&w->heap, &lp->wake, (at > w->now ? at : w->now) + world_sim_delay(w, w->faults.loop_us_max));
}

void loop_sim_kick(struct loop_sim *lp) {
    struct world *w = world_of(lp);
    if (!lp->dead && !lp->stopped && !event_sim_is_set(&lp->poll)) {
        event_sim_at(&w->heap, &lp->poll, w->now + world_sim_delay(w, w->faults.loop_us_max));
    }
}

static void again(struct port *p) {
    loop_sim_kick(loop_of(p));
}

static void stop(struct port *p) {
    loop_of(p)->stopping = true;
    loop_sim_kick(loop_of(p));
}

void loop_sim_ready(struct loop_sim *lp, struct ready_sim *r) {
    if (list_empty(&r->link)) {
        list_push_back(&lp->ready, &r->link);
    }
    loop_sim_kick(lp);
}

static void post(struct inbox *to_inbox, struct inbox_item *it) {
    struct loop_sim *to = list_entry(to_inbox, struct loop_sim, inbox);
    struct world *w = world_of(to);
    uint32_t from = w->running_loop ? w->running_loop->port.shard : to->port.shard;
    struct loop_channel *ch = &to->channels[from];
    list_push_back(&ch->flying, &it->link);
    if (!event_sim_is_set(&ch->ev)) {
        event_sim_at(&w->heap, &ch->ev, w->now + world_sim_delay(w, POST_US_MAX));
    }
}

static void channel_fire(struct event_sim *e) {
    struct loop_channel *ch = list_entry(e, struct loop_channel, ev);
    trace(ch->to, TRACE_INBOX, ch->from, 0);
    list_splice_back(&ch->to->arrived, &ch->flying);
    loop_sim_kick(ch->to);
}

static size_t drain(struct inbox *own, struct list *ret, size_t n_max) {
    struct loop_sim *lp = list_entry(own, struct loop_sim, inbox);
    size_t n = 0;
    for (struct list *it; n < n_max && (it = list_pop_front(&lp->arrived)); n++) {
        list_push_back(ret, it);
    }
    if (!list_empty(&lp->arrived)) {
        loop_sim_kick(lp);
    }
    return n;
}

static void turn(void *arg) {
    struct loop_sim *lp = arg;
    lp->turn(lp->turn_u);
}

static void end(struct loop_sim *lp) {
    struct world *w = world_of(lp);
    if (!list_empty(&lp->conns) || !list_empty(&lp->listeners) || !disk_sim_idle(&lp->disk) || !work_sim_idle(&lp->work)) {
        world_fail(w, "%s: shard %u stopped with connections, listeners, disk or work requests", lp->node->name, lp->port.shard);
    }
    lp->stopped = true;
    event_sim_cancel(&w->heap, &lp->poll);
    event_sim_cancel(&w->heap, &lp->wake);
    trace(lp, TRACE_END, 0, 0);
    world_node_loop_ended(lp->node);
}

static void run(struct loop_sim *lp) {
    struct world *w = world_of(lp);
    if (lp->node->paused_until > w->now) {
        trace(lp, TRACE_STALL, lp->node->paused_until, 0);
        event_sim_at(&w->heap, &lp->poll, lp->node->paused_until);
        return;
    }
    event_sim_cancel(&w->heap, &lp->poll);
    struct list batch;
    list_init(&batch);
    list_splice_back(&batch, &lp->ready);
    int64_t delivered = 0;
    for (struct list *it; (it = list_pop_front(&batch)); delivered++) {
        struct ready_sim *r = list_entry(it, struct ready_sim, link);
        r->deliver(r);
        if (lp->dead) {
            return;
        }
    }
    if (lp->wake_due != INT64_MAX && lp->wake_due <= mono_ms(&lp->clock)) {
        lp->wake_due = INT64_MAX;
        event_sim_cancel(&w->heap, &lp->wake);
    }
    trace(lp, TRACE_TURN, delivered, 0);
    if (lp->turn && !world_node_run(lp->node, lp, turn, lp)) {
        return;
    }
    if (lp->stopping) {
        end(lp);
    }
}

static void poll_fire(struct event_sim *e) {
    run(list_entry(e, struct loop_sim, poll));
}

static void wake_fire(struct event_sim *e) {
    run(list_entry(e, struct loop_sim, wake));
}

void loop_sim_settle(struct loop_sim *lp) {
    disk_sim_settle(&lp->disk);
    net_sim_settle(lp);
}

static void init_channels(struct loop_sim *lp) {
    struct world_node *n = lp->node;
    lp->channels = world_mem_new(n->loops_n * sizeof *lp->channels);
    for (uint32_t i = 0; i < n->loops_n; i++) {
        struct loop_channel *ch = &lp->channels[i];
        ch->to = lp;
        ch->from = i;
        list_init(&ch->flying);
        event_sim_init(&n->w->heap, &ch->ev, channel_fire);
    }
}

struct loop_sim *loop_sim_new(struct world_node *n, uint32_t shard) {
    struct loop_sim *lp = world_mem_new(sizeof *lp);
    lp->node = n;
    lp->wake_due = INT64_MAX;
    lp->clock = (struct clock){.now = mono_ms, .now_us = mono_us, .wall = wall_ms};
    lp->inbox = (struct inbox){.post = post, .drain = drain};
    list_init(&lp->ready);
    list_init(&lp->touched);
    list_init(&lp->conns);
    list_init(&lp->listeners);
    list_init(&lp->arrived);
    prng_seed(&lp->rng, prng_next(&n->w->rng));
    prng_seed(&lp->secrets, prng_next(&n->w->rng));
    event_sim_init(&n->w->heap, &lp->poll, poll_fire);
    event_sim_init(&n->w->heap, &lp->wake, wake_fire);
    init_channels(lp);
    disk_sim_init(&lp->disk, n, lp);
    work_sim_init(&lp->work, lp);
    net_sim_init(lp);
    lp->port = (struct port){.clock = &lp->clock, .disk = &lp->disk.disk, .net = &lp->net, .inbox = &lp->inbox, .work = &lp->work.work, .rng = &lp->rng,
                             .secret = secret, .on_turn = on_turn, .wake_at = wake_at, .again = again, .stop = stop, .shard = shard};
    return lp;
}

void loop_sim_free(struct loop_sim *lp) {
    struct event_heap *h = &world_of(lp)->heap;
    lp->dead = true;
    disk_sim_done(&lp->disk);
    work_sim_done(&lp->work);
    for (uint32_t i = 0; i < lp->node->loops_n; i++) {
        event_sim_done(h, &lp->channels[i].ev);
    }
    mem_free(lp->channels);
    event_sim_done(h, &lp->poll);
    event_sim_done(h, &lp->wake);
    world_sim_bury(world_of(lp), &lp->grave);
}
