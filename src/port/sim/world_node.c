/* A simulated machine with one broker process on it: start, run, crash, end.
 *
 * Happy path: start makes a heap and the shards' ports and runs boot inside the guard; from then on every callback and turn of the node goes
 * through world_node_run: its heap, its log sink, and a place to jump to when it crashes in the middle.
 * Crash: what was in flight on the disk may have happened; a power loss then decides what is left on it; sockets, lanes, inboxes and timers
 * die; the heap is dropped with all blocks, which is why a node's code may be left at any point.
 * Failure modes: an error-level log line that the test does not expect, and anything left over after a clean end, fail the run.
 * Runs on: the world's thread. */
#include <string.h>

#include "base/log.h"
#include "base/must.h"
#include "crash_sim.h"
#include "dir_sim.h"
#include "diskop_sim.h"
#include "loop_sim.h"
#include "net_sim.h"

#define WALL_START_US 1700000000000000
#define UPTIME_US_MAX 3600000000

static void trace(const struct world_node *n, enum trace_kind kind, int64_t a, int64_t b) {
    world_sim_trace(n->w, &(struct trace_ev){.kind = kind, .node = n->id, .name = n->name, .a = a, .b = b});
}

static void on_log(void *u, enum log_level level, const char *event, const char *text) {
    struct world_node *n = u;
    const struct loop_sim *lp = n->w->running_loop;
    char line[1024];
    size_t k = strlen(event), m = strlen(text);
    k = k < 200 ? k : 200;
    m = m < sizeof line - k - 2 ? m : sizeof line - k - 2;
    memcpy(line, event, k);
    line[k] = ' ';
    memcpy(line + k + 1, text, m);
    line[k + 1 + m] = 0;
    world_sim_trace(n->w, &(struct trace_ev){
        .kind = TRACE_LOG, .node = n->id, .shard = lp ? lp->port.shard + 1 : 0, .name = line, .a = level});
    if (level == LOG_ERROR && !(n->w->expected && n->w->expected(n->w->expected_u, n, event, text))) {
        world_fail(n->w, "%s: error line: %s", n->name, line);
    }
}

struct world_node *world_node_new(struct world *w, const char *name) {
    struct world_node *n = world_mem_new(sizeof *n);
    n->w = w;
    n->id = ++w->nodes_n;
    n->name = world_mem_str(name);
    fs_sim_init(&n->fs, &w->rng);
    list_init(&n->files);
    list_init(&n->locks);
    list_init(&n->wires);
    n->wall_base = WALL_START_US + (int64_t)prng_below(&w->rng, 1000000) * 1000;
    n->outside = world_mem_new(sizeof *n->outside);
    disk_sim_init(n->outside, n, NULL);
    list_push_back(&w->nodes, &n->link);
    return n;
}

static void node_free(struct world_node *n) {
    n->on_down = NULL;
    if (n->up) {
        world_node_crash(n, false);
    }
    list_each_safe(it, &n->files) {
        struct disk_req rq = {.op = DISK_CLOSE, .file = list_entry(it, struct disk_file, link)};
        (void)disk_call(&n->outside->disk, &rq);   /* opened by the test, from outside */
    }
    disk_sim_done(n->outside);
    mem_free(n->outside);
    fs_sim_done(&n->fs);
    list_remove(&n->link);
    mem_free(n->name);
    mem_free(n);
}

void world_node_free_all(struct world *w) {
    while (!list_empty(&w->nodes)) {
        node_free(list_entry(w->nodes.next, struct world_node, link));
    }
}

static void settle(struct world_node *n, struct loop_sim *lp) {
    if (lp) {
        loop_sim_settle(lp);
        return;
    }
    for (uint32_t i = 0; i < n->loops_n; i++) {
        loop_sim_settle(n->loops[i]);
    }
}

/* The process is gone; its loops are buried, its memory dropped. */
static void clear(struct world_node *n) {
    n->up = false;
    for (uint32_t i = 0; i < n->loops_n; i++) {
        loop_sim_free(n->loops[i]);
    }
    mem_free(n->loops);
    n->loops = NULL;
    n->loops_n = 0;
    mem_heap_drop(n->heap);
    n->heap = NULL;
}

static void fall(struct world_node *n, bool power) {
    trace(n, TRACE_CRASH, power, (int64_t)n->ops);
    n->crash_in = 0;
    for (uint32_t i = 0; i < n->loops_n; i++) {
        disk_sim_crash(&n->loops[i]->disk);
    }
    net_sim_crash(n, power);
    clear(n);
    (void)diskop_sim_process_ended(n);             /* a crash leaves descriptors open */
    if (power) {
        crash_sim_power(&n->fs);
    }
    if (n->on_down) {
        n->on_down(n->on_down_u, n, power);
    }
}

bool world_node_run(struct world_node *n, struct loop_sim *lp, void (*fn)(void *arg), void *arg) {
    struct world *w = n->w;
    must(!w->running && n->up);
    w->running = n;
    w->running_loop = lp;
    struct mem_heap *former = mem_use(n->heap);
    must(former == NULL);
    log_use(on_log, n, LOG_INFO);
    n->end = (struct node_end){false, false};
    if (_setjmp(w->guard) == 0) {
        fn(arg);
    }
    log_use(NULL, NULL, LOG_ERROR);
    (void)mem_use(NULL);
    w->running = NULL;
    w->running_loop = NULL;
    if (n->end.wanted) {
        fall(n, n->end.power);
    } else {
        settle(n, lp);
    }
    return n->up;
}

void world_node_crash(struct world_node *n, bool lose_unsynced) {
    struct world *w = n->w;
    if (!n->up) {
        return;
    }
    if (w->running == n) {
        n->end = (struct node_end){true, lose_unsynced};
        _longjmp(w->guard, 1);
    }
    must(!w->running);
    fall(n, lose_unsynced);
}

struct boot {
    void (*fn)(void *u, struct port **ports, uint32_t shards);
    void *u;
    struct port **ports;
    uint32_t shards;
};

static void boot(void *arg) {
    struct boot *b = arg;
    b->fn(b->u, b->ports, b->shards);
}

err world_node_start(struct world_node *n, uint32_t shards, void (*fn)(void *u, struct port **ports, uint32_t shards), void *u) {
    struct world *w = n->w;
    must(!n->up && !w->running && shards > 0);
    trace(n, TRACE_START, shards, 0);
    n->up = true;
    n->starts++;
    n->ended = 0;
    n->paused_until = 0;
    n->mono_base = (int64_t)prng_below(&w->rng, UPTIME_US_MAX);
    n->heap = mem_heap_new();
    must(n->heap);
    n->loops_n = shards;
    n->loops = world_mem_new(shards * sizeof(struct loop_sim *));
    struct port **ports = world_mem_new(shards * sizeof *ports);
    for (uint32_t i = 0; i < shards; i++) {
        n->loops[i] = loop_sim_new(n, i);
        ports[i] = &n->loops[i]->port;
    }
    struct boot b = {fn, u, ports, shards};
    bool up = world_node_run(n, NULL, boot, &b);
    mem_free(ports);
    return up ? ERR_OK : ERR_CANCELLED;
}

static void call_ended(void *arg) {
    struct world_node *n = arg;
    n->on_ended(n->on_ended_u);
}

/* A heap with a budget of one byte gives one byte only when nothing else is alive on it. */
static bool heap_empty(struct world_node *n) {
    struct mem_heap *former = mem_use(n->heap);
    mem_budget(1);
    void *probe = mem_alloc(MEM_SIM, 1);
    probe = probe ? probe : mem_alloc(MEM_SIM, 1);         /* a test may let one fail */
    mem_free(probe);
    (void)mem_use(former);
    return probe != NULL;
}

void world_node_loop_ended(struct world_node *n) {
    if (++n->ended < n->loops_n) {
        return;
    }
    if (n->on_ended && !world_node_run(n, NULL, call_ended, n)) {
        return;
    }
    if (!heap_empty(n)) {
        world_fail(n->w, "%s: ended with memory still allocated", n->name);
    }
    net_sim_crash(n, false);
    clear(n);
    if (diskop_sim_process_ended(n) > 0) {
        world_fail(n->w, "%s: ended with files still open", n->name);
    }
    trace(n, TRACE_END, 0, 0);
}

void world_node_on_ended(struct world_node *n, void (*on_ended)(void *u), void *u) {
    n->on_ended = on_ended;
    n->on_ended_u = u;
}

void world_node_on_down(struct world_node *n, void (*on_down)(void *u, struct world_node *of, bool lost_unsynced), void *u) {
    n->on_down = on_down;
    n->on_down_u = u;
}

bool world_node_is_up(const struct world_node *n) {
    return n->up;
}

bool world_node_call(struct world_node *n, uint32_t shard, void (*fn)(void *u), void *u) {
    must(n->up && shard < n->loops_n);
    struct loop_sim *lp = n->loops[shard];
    if (lp->stopped || !world_node_run(n, lp, fn, u)) {
        return n->up;
    }
    loop_sim_kick(lp);
    return true;
}

uint64_t world_node_starts(const struct world_node *n) {
    return n->starts;
}

void world_node_crash_at(struct world_node *n, uint64_t k, bool lose_unsynced) {
    n->crash_in = k;
    n->crash_power = lose_unsynced;
}

uint64_t world_node_disk_ops(const struct world_node *n) {
    return n->ops;
}

void world_node_on_op(struct world_node *n, bool (*on_op)(void *u, const struct disk_req *rq, const char *path), void *u,
                      bool lose_unsynced) {
    n->on_op = on_op;
    n->on_op_u = u;
    n->hook_power = lose_unsynced;
}

void world_node_fail_op(struct world_node *n, enum disk_op op, uint64_t k, err e) {
    n->fail[op] = (struct node_fail){k, e};
}

void world_node_hold_syncs(struct world_node *n, bool hold) {
    n->hold_syncs = hold;
    for (uint32_t i = 0; !hold && i < n->loops_n; i++) {
        disk_sim_release_held(&n->loops[i]->disk);
    }
}

void world_node_pause(struct world_node *n, ms how_long) {
    n->paused_until = n->w->now + how_long * 1000;
}

void world_node_wall_jump(struct world_node *n, ms by) {
    n->wall_base += by * 1000;
}

struct disk *world_node_disk(struct world_node *n) {
    return &n->outside->disk;
}

err world_node_corrupt(struct world_node *n, const char *path, int64_t at, uint8_t xor_mask) {
    struct fs_inode *ino;
    err e = dir_sim_find(&n->fs, path, &ino);
    if (e != ERR_OK || ino->is_dir) {
        return ERR_NOT_FOUND;
    }
    if (xor_mask == 0) {
        fs_sim_chop(ino, at);
    } else if (at < ino->size) {
        fs_sim_flip(ino, at, xor_mask);
    }
    return ERR_OK;
}

int64_t world_node_unsynced(const struct world_node *n) {
    return fs_sim_unsynced(&n->fs);
}
