/* Goal: many quiet logs cost little (P10; 10,000 partitions with one batch of 200 bytes each within 32 MB, an idle
 * one within 1 KB), and the append path allocates nothing in steady state. Method: a disk that says yes to
 * everything, so that only the store's own memory counts. */
#include "rig.h"

#define LOGS 10000

struct yes_disk {
    struct disk disk;
    struct list queue;
};

static struct yes_disk yes;
static struct clock yes_clock;
static ms yes_now;
static struct prng yes_rng;
static struct port yes_port;

struct yes_file {
    int64_t size;
};

static err yes_run(struct disk_req *rq) {
    switch (rq->op) {
    case DISK_OPEN:
        rq->file = (struct disk_file *)mem_zalloc(MEM_DISK, sizeof(struct yes_file));
        rq->size = 0;
        break;
    case DISK_CLOSE:
        mem_free(rq->file);
        break;
    case DISK_WRITE:
        rq->did = 0;
        for (size_t i = 0; i < rq->iov_n; i++) {
            rq->did += rq->iov[i].iov_len;
        }
        break;
    case DISK_LIST:
        rq->entries = NULL;
        rq->entries_n = 0;
        break;
    case DISK_SPACE:
        rq->size = 1LL << 40;
        break;
    default:
        break;
    }
    return rq->err = ERR_OK;
}

static void yes_submit(struct disk *d, struct disk_req *rq) {
    (void)d;
    list_push_back(&yes.queue, &rq->link);
}

static err yes_call(struct disk *d, struct disk_req *rq) {
    (void)d;
    if (rq->op == DISK_OPEN && !(rq->flags & DISK_CREATE)) {
        return rq->err = strstr(rq->path, "marks.0") ? yes_run(rq) : ERR_NOT_FOUND;
    }
    return yes_run(rq);
}

static ms yes_clock_now(struct clock *c) {
    (void)c;
    return yes_now;
}

static struct store *st;

static void pump(void) {
    for (;;) {
        store_pass(st, yes_now);
        struct list *it = list_pop_front(&yes.queue);
        if (!it) {
            return;
        }
        struct disk_req *rq = list_entry(it, struct disk_req, link);
        (void)yes_run(rq);
        rq->done(rq);
    }
}

static void on_moved(void *u, struct plog *lg) {
    (void)u;
    (void)lg;
}
static void on_failed(void *u, struct plog *lg, off64 from, err why) {
    (void)u;
    (void)lg;
    (void)from;
    (void)why;
    ck_abort();
}
static err on_snapshot(void *u, struct plog *lg, struct str *ret) {
    (void)u;
    (void)lg;
    (void)ret;
    return ERR_OK;
}

static const struct log_conf LOG_CONF = {
    .segment_bytes = 1 << 30, .segment_age = 1LL << 40, .index_interval_bytes = 4096, .index_bytes_max = 10 << 20};
static struct plog *lgs[LOGS];
static struct datadir *dd;

static void begin(int64_t tail_bytes) {
    const struct store_conf conf = {.sync_age_max = 100,
                                    .unsynced_bytes_max = 64 << 20,
                                    .tail_bytes_max = tail_bytes,
                                    .checkpoint_bytes = 64 << 20,
                                    .checkpoint_age = 1000,
                                    .heavy_bytes = 4 << 20,
                                    .files_max = 500};
    const struct store_hooks hooks = {.moved = on_moved, .failed = on_failed, .snapshot = on_snapshot};
    char why[100];
    uuid fresh = {.b = {1}};
    list_init(&yes.queue);
    yes.disk = (struct disk){.submit = yes_submit, .call = yes_call};
    yes_clock = (struct clock){.now = yes_clock_now, .wall = yes_clock_now};
    prng_seed(&yes_rng, 1);
    yes_port = (struct port){.clock = &yes_clock, .disk = &yes.disk, .rng = &yes_rng};
    ck_assert_msg(datadir_open(&yes.disk, 1, fresh, &dd, WHY_IN(why)) == ERR_OK, "%s", why);
    ck_assert_int_eq(store_new(&st, &yes_port, dd, &conf, &hooks), ERR_OK);
}

static void end(struct chunk_pool *pool) {
    store_free(st);
    datadir_free(dd);
    chunk_pool_free(pool);
    ck_assert_uint_eq(mem_live_all(), 0);
}

static void append(struct plog *lg, struct chunk_pool *pool, const uint8_t *batch, size_t n) {
    struct plog_ends e;
    struct batch_head h;
    plog_ends(lg, &e);
    struct chunk *ck = chunk_new(pool, 4096);
    memcpy(ck->data, batch, n);
    batch_stamp(ck->data, e.next, 0);
    ck_assert_int_eq(batch_head_get(span_of(ck->data, n), &h), ERR_OK);
    ck_assert_int_eq(plog_reserve(lg, n), ERR_OK);
    plog_append(lg, ck, span_of(ck->data, n), &h, yes_now);
    plog_sync_wanted(lg);
    chunk_unref(ck);
}

static size_t make_batch(uint8_t *ret, size_t value) {
    struct arena a;
    struct rig_ask q = {.records = 1, .value = value, .ts = 1000};
    arena_init(&a, NULL, 1 << 20);
    span b = rig_build(&a, &q, 0);
    memcpy(ret, b.p, b.n);
    size_t n = b.n;
    arena_done(&a);
    return n;
}

START_TEST(p10_ten_thousand_logs) {
    uint8_t batch[1000];
    size_t n = make_batch(batch, 200 - 76);
    struct chunk_pool *pool = chunk_pool_new(1 << 20);
    begin(16 << 20);
    size_t before = mem_live_all();
    for (int i = 0; i < LOGS; i++) {
        struct plog_id id = {.topic = "topic", .topic_id = {.b = {1}}, .partition = i};
        ck_assert_int_eq(plog_open(st, &id, &LOG_CONF, NULL, &lgs[i]), ERR_OK);
    }
    ck_assert_int_eq(store_begin(st), ERR_OK);
    size_t idle = (mem_live_all() - before) / LOGS;
    ck_assert_msg(idle <= 640, "an idle log costs %zu bytes", idle);
    ck_assert_uint_le(sizeof(struct plog), 520);
    for (int i = 0; i < LOGS; i++) {
        append(lgs[i], pool, batch, n);
        if (i % 100 == 99) {
            pump();
        }
    }
    pump();
    yes_now += 5000;
    pump();
    chunk_pool_trim(pool);
    size_t used = mem_live_all() - before;
    ck_assert_msg(used <= 24 << 20, "%d logs with one batch cost %zu bytes", LOGS, used);
    struct store_stats s;
    store_stats_get(st, &s);
    ck_assert_uint_le(s.files_open, 500);
    ck_assert_uint_eq(s.unsynced_bytes, 0);
    end(pool);
}
END_TEST

START_TEST(appending_allocates_nothing_in_steady_state) {
    uint8_t small[1000], large[40000];
    size_t small_n = make_batch(small, 100), large_n = make_batch(large, 3900);
    struct chunk_pool *pool = chunk_pool_new(8 << 20);
    begin(1 << 20);
    for (int i = 0; i < 4; i++) {
        struct plog_id id = {.topic = "topic", .topic_id = {.b = {1}}, .partition = i};
        ck_assert_int_eq(plog_open(st, &id, &LOG_CONF, NULL, &lgs[i]), ERR_OK);
    }
    ck_assert_int_eq(store_begin(st), ERR_OK);
    uint64_t calls = 0;
    const uint64_t rounds = 4000;
    for (uint64_t round = 0; round < 2 * rounds; round++) {
        if (round == rounds) {
            calls = mem_calls();
        }
        append(lgs[round % 4], pool, round % 2 ? small : large, round % 2 ? small_n : large_n);
        pump();
    }
    uint64_t per_round = (mem_calls() - calls) * 100 /
                         rounds; /* per cent of an allocation an append; index growth and checkpoints are in it */
    ck_assert_msg(per_round <= 5, "%llu allocations per 100 appends", (unsigned long long)per_round);
    end(pool);
}
END_TEST

int main(void) {
    return RIG_RUN("memory", p10_ten_thousand_logs, appending_allocates_nothing_in_steady_state);
}
