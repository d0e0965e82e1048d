/* Goal: one seed, one run; a crash leaves nothing behind; a clean end is judged; clocks behave. Method: a busy little cluster (two shards
 * passing messages, writing and syncing, an echo server, faults, crashes, restarts) run twice and compared by its trace; negative tests
 * that must abort. */
#include <stdio.h>

#include "base/log.h"
#include "echo.h"
#include "run.h"

/* ---- a scenario with a bit of everything ---- */

struct busy_shard {
    struct port *port;
    struct inbox_item item;      /* travels between the shards for ever */
    struct disk_file *f;
    struct disk_req wr, sync;
    struct iovec iov;
    uint64_t number;
    bool writing, syncing;
};

struct busy {
    struct busy_shard s[2];
};

static struct {
    struct world *w;
    struct world_node *n;
    struct world_client *c;
    struct echo_seen echo;
    struct prng *rng;
    int crashes, turns, messages, writes, syncs;
    size_t got;
} b;

static void busy_sync_done(struct disk_req *rq) {
    struct busy_shard *s = rq->u;
    s->syncing = false;
    b.syncs++;
}

static void busy_write_done(struct disk_req *rq) {
    struct busy_shard *s = rq->u;
    s->writing = false;
    b.writes++;
    if (!s->syncing && rq->err == ERR_OK) {
        s->syncing = true;
        s->sync = (struct disk_req){.op = DISK_SYNC, .lane = DISK_LANE_SYNC, .files = &s->f, .files_n = 1, .done = busy_sync_done, .u = s};
        disk_submit(s->port->disk, &s->sync);
    }
}

static void busy_turn(void *u) {
    struct busy *all = u;
    for (int i = 0; i < 2; i++) {
        struct busy_shard *s = &all->s[i];
        struct list got;
        list_init(&got);
        if (s->port->inbox->drain(s->port->inbox, &got, 10) > 0) {
            b.messages++;
            log_info("busy.message", "shard=%d at=%lld wall=%lld", i, (long long)clock_now(s->port->clock),
                     (long long)clock_wall(s->port->clock));
            struct inbox *to = all->s[1 - i].port->inbox;
            to->post(to, list_entry(list_pop_front(&got), struct inbox_item, link));
        }
    }
}

static void busy_shard_turn(void *u) {
    struct busy_shard *s = u;
    struct busy *all = s->port->shard == 0 ? list_entry(s, struct busy, s[0]) : list_entry(s, struct busy, s[1]);
    b.turns++;
    if (s->port->shard == 0) {
        busy_turn(all);
    } else {
        struct list got;
        list_init(&got);
        if (s->port->inbox->drain(s->port->inbox, &got, 10) > 0) {
            b.messages++;
            all->s[0].port->inbox->post(all->s[0].port->inbox, list_entry(list_pop_front(&got), struct inbox_item, link));
        }
    }
    if (!s->writing) {
        s->writing = true;
        s->number = prng_next(s->port->rng);
        s->iov = (struct iovec){&s->number, sizeof s->number};
        s->wr = (struct disk_req){.op = DISK_WRITE, .lane = DISK_LANE_WRITE, .file = s->f, .at = (int64_t)(s->number % 20000),
                                  .iov = &s->iov, .iov_n = 1, .done = busy_write_done, .u = s};
        disk_submit(s->port->disk, &s->wr);
    }
    s->port->wake_at(s->port, clock_now(s->port->clock) + 1);
}

static void busy_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u;
    struct busy *all = mem_zalloc(MEM_TEST, sizeof *all);
    for (uint32_t i = 0; i < 2; i++) {
        struct busy_shard *s = &all->s[i];
        s->port = ports[i];
        char name[16];
        (void)snprintf(name, sizeof name, "f%u", i);
        struct disk_req op = {.op = DISK_OPEN, .path = name, .flags = DISK_RDWR | DISK_CREATE};
        (void)disk_call(s->port->disk, &op);
        s->f = op.file;
        s->port->on_turn(s->port, busy_shard_turn, s);
        s->port->again(s->port);
    }
    ports[0]->inbox->post(ports[0]->inbox, &all->s[0].item);
    echo_boot(&b.echo, ports + 1, shards - 1);
    ports[1]->on_turn(ports[1], busy_shard_turn, &all->s[1]);
}

static void client_up(void *u) {
    (void)u;
    world_client_send(b.c, "0123456789", 10);
}

static void client_data(void *u, const uint8_t *p, size_t n) {
    (void)u;
    b.got += n;
    world_client_send(b.c, p, n);
}

static void client_connect(void *u);

static void client_down(void *u, err why) {
    (void)why;
    world_client_close(b.c);
    b.c = NULL;
    world_after(b.w, 5, client_connect, u);
}

static void client_connect(void *u) {
    static const struct world_client_events ev = {client_up, client_data, client_down};
    b.c = world_connect(b.w, b.n, ECHO_PORT, &ev, u);
}

static void nemesis(void *u) {
    if (world_node_is_up(b.n)) {
        world_node_crash(b.n, prng_chance(b.rng, 1, 2));
        b.crashes++;
    } else {
        world_node_crash_at(b.n, prng_chance(b.rng, 1, 4) ? 1 + prng_below(b.rng, 30) : 0, true);
        (void)world_node_start(b.n, 2, busy_boot, NULL);       /* it may crash in boot; then it is started again */
    }
    world_after(b.w, 1 + (ms)prng_below(b.rng, 40), nemesis, u);
}

static void count_line(void *u, const char *line) {
    (void)line;
    (*(uint64_t *)u)++;
}

static uint64_t scenario(uint64_t seed, uint64_t *ret_lines) {
    size_t live = mem_live_all();
    memset(&b, 0, sizeof b);
    b.w = world_new(seed);
    if (ret_lines) {
        world_trace(b.w, count_line, ret_lines);
    }
    b.rng = world_rng(b.w);
    b.n = world_node_new(b.w, "busy");
    world_faults_set(b.w, &(struct world_faults){.write_eio = 500, .net_cut = 1000, .sync_slow = 1000, .loop_us_max = 300});
    nemesis(NULL);
    client_connect(NULL);
    (void)world_run(b.w, NULL, NULL, 500);
    uint64_t hash = world_trace_hash(b.w);
    if (ret_lines) {
        ck_assert_uint_eq(*ret_lines, world_events(b.w));
    }
    world_client_close(b.c);
    world_free(b.w);
    ck_assert_uint_eq(mem_live_all(), live);
    return hash;
}

START_TEST(same_seed_same_run) {
    uint64_t before = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t lines = 0, hash = scenario(seed, NULL);
        ck_assert_int_gt(b.crashes, 3);
        ck_assert(b.turns > 100 && b.messages > 100 && b.writes > 50 && b.syncs > 10 && b.got > 100);
        void *shift = mem_alloc(MEM_TEST, 12345);      /* other addresses */
        ck_assert_uint_eq(scenario(seed + 1000, NULL), scenario(seed + 1000, &lines));
        ck_assert_uint_gt(lines, 1000);
        mem_free(shift);
        ck_assert_uint_eq(scenario(seed, NULL), hash);
        ck_assert_uint_ne(hash, before);
        before = hash;
    }
}
END_TEST

/* ---- small things ---- */

static struct world *w;
static struct world_node *n;

static void begin(void) {
    w = world_new(1);
    n = world_node_new(w, "node");
}

static void end(void) {
    world_free(w);
    ck_assert_uint_eq(mem_live_all(), 0);
}

static void stop_turn(void *u) {
    struct port *p = u;
    p->stop(p);
}

static void *ended_block;

static void on_ended(void *u) {
    (*(int *)u)++;
    mem_free(ended_block);
}

static void stop_boot(void *u, struct port **ports, uint32_t shards) {
    ended_block = mem_alloc(MEM_TEST, 100);
    for (uint32_t i = 0; i < shards; i++) {
        ports[i]->on_turn(ports[i], stop_turn, ports[i]);
        ports[i]->again(ports[i]);
    }
    if (u) {
        (void)mem_alloc(MEM_TEST, 100);
    }
}

START_TEST(clean_end_runs_the_last_callback_and_can_start_again) {
    int ended = 0;
    begin();
    world_node_on_ended(n, on_ended, &ended);
    for (int i = 1; i <= 3; i++) {
        ck_assert(world_node_start(n, 4, stop_boot, NULL) == ERR_OK);
        ck_assert(world_node_is_up(n));
        (void)world_run(w, NULL, NULL, 100);
        ck_assert(!world_node_is_up(n));
        ck_assert_int_eq(ended, i);
        ck_assert_uint_eq(world_node_starts(n), (uint64_t)i);
    }
    end();
}
END_TEST

START_TEST(memory_left_at_a_clean_end_fails_the_run) {
    int ended = 0;
    begin();
    world_node_on_ended(n, on_ended, &ended);
    (void)world_node_start(n, 1, stop_boot, n);
    (void)world_run(w, NULL, NULL, 100);
}
END_TEST

static void open_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    struct disk_req op = {.op = DISK_OPEN, .path = "f", .flags = DISK_RDWR | DISK_CREATE};
    (void)disk_call(ports[0]->disk, &op);
    ports[0]->on_turn(ports[0], stop_turn, ports[0]);
    ports[0]->again(ports[0]);
}

START_TEST(file_left_open_at_a_clean_end_fails_the_run) {
    begin();
    (void)world_node_start(n, 1, open_boot, NULL);
    (void)world_run(w, NULL, NULL, 100);
}
END_TEST

static void listen_boot(void *u, struct port **ports, uint32_t shards) {
    echo_boot(u, ports, shards);
    ports[0]->on_turn(ports[0], stop_turn, ports[0]);
    ports[0]->again(ports[0]);
}

START_TEST(listener_left_at_a_clean_end_fails_the_run) {
    struct echo_seen seen = {0};
    begin();
    (void)world_node_start(n, 1, listen_boot, &seen);
    (void)world_run(w, NULL, NULL, 100);
}
END_TEST

static void error_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)ports, (void)shards;
    log_error("test.broken", "path='%s'", "x");
}

static bool expect_broken(void *u, struct world_node *of, const char *event, const char *text) {
    (*(int *)u)++;
    ck_assert_ptr_eq(of, n);
    ck_assert_str_eq(text, "path='x'");
    return strcmp(event, "test.broken") == 0;
}

START_TEST(error_line_passes_when_expected) {
    int seen = 0;
    begin();
    world_on_error_line(w, expect_broken, &seen);
    ck_assert(world_node_start(n, 1, error_boot, NULL) == ERR_OK);
    ck_assert_int_eq(seen, 1);
    end();
}
END_TEST

START_TEST(error_line_fails_the_run) {
    begin();
    (void)world_node_start(n, 1, error_boot, NULL);
}
END_TEST

static void die_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)ports, (void)shards;
    (void)mem_alloc(MEM_TEST, 1 << 20);
    world_node_crash(n, false);
    ck_abort_msg("a crash does not return to the node's code");
}

START_TEST(crash_from_inside_drops_the_heap) {
    begin();
    ck_assert(world_node_start(n, 1, die_boot, NULL) == ERR_CANCELLED);
    ck_assert(!world_node_is_up(n));
    end();
}
END_TEST

static struct clock *the_clock;

static void clock_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    the_clock = ports[0]->clock;
}

START_TEST(wall_clock_jumps_and_monotonic_does_not) {  /* T21 */
    begin();
    ck_assert(world_node_start(n, 1, clock_boot, NULL) == ERR_OK);
    ms mono = clock_now(the_clock), wall = clock_wall(the_clock);
    world_node_wall_jump(n, -3600000);
    (void)world_run(w, NULL, NULL, 1000);
    ck_assert_int_eq(clock_now(the_clock), mono + 1000);
    ck_assert_int_eq(clock_wall(the_clock), wall + 1000 - 3600000);
    ck_assert_int_eq(clock_now_us(the_clock) / 1000, mono + 1000);
    end();
}
END_TEST

static void note_order(void *u) {
    world_note(w, "timer %d", *(int *)u);
    static int last;
    ck_assert_int_gt(*(int *)u, last);
    last = *(int *)u;
}

START_TEST(scripts_events_come_in_order) {
    static int one = 1, two = 2, three = 3, never = 0;
    begin();
    world_after(w, 20, note_order, &three);
    world_after(w, 10, note_order, &one);
    world_after(w, 10, note_order, &two);
    world_after(w, 5000, note_order, &never);
    (void)world_run(w, NULL, NULL, 100);
    ck_assert_int_eq(world_now_us(w), 100000);
    end();
}
END_TEST

/* Allocation is forbidden on the hot path of a node: the world must not allocate there either. */
static void frugal_turn(void *u) {
    struct busy_shard *s = u;
    mem_forbid();
    s->iov = (struct iovec){&s->number, sizeof s->number};
    s->wr = (struct disk_req){.op = DISK_WRITE, .file = s->f, .iov = &s->iov, .iov_n = 1, .done = busy_write_done, .u = s};
    disk_submit(s->port->disk, &s->wr);
    s->port->inbox->post(s->port->inbox, &s->item);
    s->port->wake_at(s->port, clock_now(s->port->clock) + 1000);
    s->port->on_turn(s->port, NULL, NULL);
    mem_permit();
}

static void frugal_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    struct busy_shard *s = mem_zalloc(MEM_TEST, sizeof *s);
    s->port = ports[0];
    struct disk_req op = {.op = DISK_OPEN, .path = "f", .flags = DISK_RDWR | DISK_CREATE};
    ck_assert(disk_call(s->port->disk, &op) == ERR_OK);
    s->f = op.file;
    ports[0]->on_turn(ports[0], frugal_turn, s);
    ports[0]->again(ports[0]);
}

START_TEST(node_may_forbid_allocation_in_its_turn) {
    memset(&b, 0, sizeof b);
    begin();
    ck_assert(world_node_start(n, 1, frugal_boot, NULL) == ERR_OK);
    (void)world_run(w, NULL, NULL, 100);
    ck_assert_int_eq(b.syncs, 1);
    end();
}
END_TEST

int main(void) {
    return run("world", TESTS(same_seed_same_run, clean_end_runs_the_last_callback_and_can_start_again, error_line_passes_when_expected,
                              crash_from_inside_drops_the_heap, wall_clock_jumps_and_monotonic_does_not, scripts_events_come_in_order,
                              node_may_forbid_allocation_in_its_turn),
               TESTS(memory_left_at_a_clean_end_fails_the_run, file_left_open_at_a_clean_end_fails_the_run,
                     listener_left_at_a_clean_end_fails_the_run, error_line_fails_the_run));
}
