/* Goal: what clients may rely on about the log of a partition: broker time (S5.12), time-outs (S5.19), unknown ones (S5.23, S5.24), durability
 * classes (D6), held producers (D6 d), offsets over restarts (S18.1, S18.2, S18.16), leader epochs (S19.1-19.3, S19.5), limits and order of
 * Fetch (S7.2-7.4, S7.7, S7.20, S7.21, BR-017, T46). Method: a whole broker on the simulated machine. */
#include <stdio.h>
#include <string.h>

#include "base/be.h"
#include "base/mark.h"
#include "base/run.h"
#include "say.h"

static const uint32_t shard_counts[] = {1, 2, 4};
#define T0 ((struct say_to){"t", 0})

static struct rig r;

static void begin(uint32_t shards) {
    rig_init(&r, 300 + shards, shards);
    rig_start(&r);
}

static void end(void) {
    rig_stop(&r);
    rig_done(&r);
}

#define UNCONST(type, p) ((type *)(uintptr_t)(p))

/* ---- time ---- */

struct first {
    struct batch_head h;
    int n;
};

static void keep_first(void *u, const struct batch_head *h, span batch) {
    struct first *f = u;
    (void)batch;
    f->h = f->n++ == 0 ? *h : f->h;
}

START_TEST(S5_12_log_append_time_is_the_brokers_and_a_duplicate_tells_the_same) {
    begin(shard_counts[_i]);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create_with(s, "t", "message.timestamp.type", "LogAppendTime"), 0);
    int64_t pid = say_producer_id(s);
    struct say_batch b = {.records = 3, .ts = 5, .pid = pid + 1};
    say_produce(s, T0, -1, say_batch(s, &b));
    const struct k_produce_resp_topic_part *p = say_produced(s);
    ck_assert_int_eq(p->error_code, 0);
    ck_assert_int_gt(p->log_append_ms, 1600000000000);
    int64_t at = p->log_append_ms;
    rig_run(&r, 5000);
    say_produce(s, T0, -1, say_batch(s, &b));      /* a retry */
    p = say_produced(s);
    ck_assert_int_eq(p->base_offset, 0);
    ck_assert_int_eq(p->log_append_ms, at);        /* S6.2: the original append time */
    struct first f = {0};
    ck_assert_int_eq(say_read_all(s, T0, 0, keep_first, &f), 3);
    ck_assert_int_eq(f.h.attributes & BATCH_ATTR_LOG_APPEND_TIME, BATCH_ATTR_LOG_APPEND_TIME);
    ck_assert_int_eq(f.h.max_ts_ms, at);
    ck_assert_int_eq(f.h.base_ts_ms, 5);           /* base and deltas stay */
    say_list(s, T0, at);
    ck_assert_int_eq(say_listed(s)->offset, 0);    /* readers take it for every record */
    say_list(s, T0, at + 1);
    ck_assert_int_eq(say_listed(s)->offset, -1);
    ck_assert_int_eq(say_create(s, "c", 1), 0);
    say_produce(s, (struct say_to){"c", 0}, -1, say_batch(s, &(struct say_batch){.ts = 5}));
    ck_assert_int_eq(say_produced(s)->log_append_ms, -1);
    say_close(s);
    end();
}
END_TEST

static void produce_within(struct say *s, struct say_to to, int32_t timeout, span batch) {
    struct k_produce_req *q = UNCONST(struct k_produce_req, say_produce_req(s, to, -1, batch));
    q->timeout_ms = timeout;
    say_send(s, K_PRODUCE, 9, q);
}

START_TEST(S5_19_time_over_is_error_7_and_the_data_may_stay) {
    begin(shard_counts[_i]);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    world_node_hold_syncs(r.n, true);
    ms from = rig_now(&r);
    produce_within(s, T0, 1300, say_batch(s, &(struct say_batch){0}));
    const struct k_produce_resp_topic_part *p = say_produced(s);
    ck_assert_int_eq(p->error_code, 7);
    ck_assert_int_eq(p->base_offset, -1);          /* S5.18 */
    ck_assert_int_ge(rig_now(&r) - from, 1299);
    ck_assert_int_le(rig_now(&r) - from, 1320);
    ck_assert_uint_eq(mark_count("append.timeout"), 1);
    say_produce(s, T0, 1, say_batch(s, &(struct say_batch){0}));       /* acks=1 does not wait for the sync */
    ck_assert_int_eq(say_produced(s)->base_offset, 1);
    world_node_hold_syncs(r.n, false);
    ck_assert_int_eq(say_latest(s, T0), 2);
    produce_within(s, T0, 0, say_batch(s, &(struct say_batch){0}));
    ck_assert_int_eq(say_produced(s)->error_code, 0);                  /* what is being synced is waited for, a second at least */
    ck_assert_int_eq(say_latest(s, T0), 3);
    say_close(s);
    end();
}
END_TEST

/* ---- who is unknown ---- */

START_TEST(S5_23_unknown_topics_and_partitions_get_3_and_unknown_ids_100) {
    begin(shard_counts[_i]);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 2), 0);
    span b = say_batch(s, &(struct say_batch){0});
    const struct say_to none[] = {{"nope", 0}, {"t", 2}, {"t", -1}, {"t", INT32_MAX}, {"", 0}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        say_produce(s, none[i], i % 2 == 0 ? -1 : 1, b);
        const struct k_produce_resp_topic_part *p = say_produced(s);
        ck_assert_int_eq(p->error_code, 3);
        ck_assert_int_eq(p->base_offset, -1);
    }
    struct k_produce_req *q = UNCONST(struct k_produce_req, say_produce_req(s, T0, -1, b));
    q->topics[0].topic_id = (uuid){{1, 2, 3}};
    const struct k_produce_resp *a = say_ask(s, K_PRODUCE, 13, q);
    ck_assert_int_eq(a->topics[0].partitions[0].error_code, 100);      /* S5.24 */
    q->topics[0].topic_id = say_describe(s, "t")->topic_id;
    a = say_ask(s, K_PRODUCE, 13, q);
    ck_assert_int_eq(a->topics[0].partitions[0].error_code, 0);
    say_close(s);
    end();
}
END_TEST

/* ---- classes of durability ---- */

START_TEST(D6_write_caching_answers_and_shows_what_is_written) {
    begin(shard_counts[_i]);
    struct say *s = say_open(&r), *cons = say_open(&r);
    ck_assert_int_eq(say_create_with(s, "t", "write.caching", "true"), 0);
    ck_assert_int_eq(say_create(s, "safe", 1), 0);
    world_node_hold_syncs(r.n, true);
    say_fetch(cons, T0, 0, 5000, 1);
    rig_run(&r, 10);
    say_produce(s, T0, -1, say_batch(s, &(struct say_batch){0}));
    ck_assert_int_eq(say_produced(s)->error_code, 0);
    ck_assert_uint_gt(say_fetched(cons)->records.n, 0);
    ck_assert_int_eq(say_latest(s, T0), 1);
    say_produce(s, (struct say_to){"safe", 0}, 1, say_batch(s, &(struct say_batch){0}));
    ck_assert_int_eq(say_produced(s)->error_code, 0);
    say_fetch(cons, (struct say_to){"safe", 0}, 0, 500, 1);
    ck_assert_uint_eq(say_fetched(cons)->records.n, 0);                /* consumers never see what a crash could take back */
    world_node_hold_syncs(r.n, false);
    say_close(s);
    say_close(cons);
    end();
}
END_TEST

/* D6 d: too much unsynced: producers are held, in order, and go on by themselves; who waits with a time-out hears of it in time (T50). */
START_TEST(D6_producers_are_held_while_too_much_is_unsynced) {
    rig_init(&r, 5, shard_counts[_i]);
    rig_set(&r, "store.unsynced.max", "1048576");
    rig_start(&r);
    struct say *s = say_open(&r), *other = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    int64_t pid = say_producer_id(s);
    world_node_hold_syncs(r.n, true);
    for (int i = 0; i < 10; i++) {
        say_produce(s, T0, 1, say_batch(s, &(struct say_batch){.value_n = 500000, .pid = pid + 1, .seq = i}));
    }
    rig_run(&r, 200);
    int answered = 0;
    for (; say_has(s); answered++) {
        ck_assert_int_eq(say_produced(s)->base_offset, answered);
    }
    ck_assert_int_ge(answered, 2);
    ck_assert_int_lt(answered, 10);
    ck_assert_uint_gt(mark_count("append.held"), 0);
    ms from = rig_now(&r);
    produce_within(other, T0, 1400, say_batch(other, &(struct say_batch){.fill = 'x'}));
    ck_assert_int_eq(say_produced(other)->error_code, 7);
    ck_assert_int_le(rig_now(&r) - from, 1450);
    world_node_hold_syncs(r.n, false);
    for (; answered < 10; answered++) {
        const struct k_produce_resp_topic_part *p = say_produced(s);
        ck_assert_int_eq(p->error_code, 0);
        ck_assert_int_eq(p->base_offset, answered);
    }
    ck_assert_int_eq(say_latest(s, T0), 10);       /* T50: what was told to be late and was never appended does not come later */
    say_close(s);
    say_close(other);
    end();
}
END_TEST

/* ---- over restarts ---- */

/* S18.1, S19.5: never back, and the epoch rises only when a crash left bytes above the mark. */
START_TEST(S18_1_offsets_never_go_back_over_restarts) {
    begin(shard_counts[_i]);
    int64_t pid = 0, acked = 0, high = 0;
    int32_t epoch = 0;
    for (int life = 0; life < 12; life++) {
        struct say *s = say_open(&r);
        if (life == 0) {
            ck_assert_int_eq(say_create(s, "t", 1), 0);
            pid = say_producer_id(s);
        }
        int64_t fresh = say_producer_id(s);
        ck_assert(life == 0 || fresh > pid);       /* S6.10: never again, restarts included */
        int64_t now = say_latest(s, T0);
        ck_assert_int_ge(now, acked);
        ck_assert_int_ge(now, high);               /* what was visible stays */
        int32_t e = say_describe(s, "t")->partitions[0].leader_epoch;
        ck_assert_int_ge(e, epoch);                /* S3.9 */
        ck_assert(life % 3 != 1 || e == epoch);    /* the stop before was clean */
        epoch = e;
        for (int i = 0; i < 3; i++) {
            say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.pid = pid + 1, .seq = (int32_t)now + i}));
            const struct k_produce_resp_topic_part *p = say_produced(s);
            ck_assert_int_eq(p->error_code, 0);
            ck_assert_int_eq(p->base_offset, now + i);
        }
        acked = now + 3;
        say_produce(s, T0, 1, say_batch(s, &(struct say_batch){.pid = pid + 1, .seq = (int32_t)now + 3}));
        ck_assert_int_eq(say_produced(s)->error_code, 0);              /* may be lost by a power cut, kept by kill -9 */
        if (life % 2 == 1) {
            high = say_latest(s, T0);
        }
        if (life % 3 == 1) {
            acked = now + 4;
        }
        say_close(s);
        if (life % 3 == 0) {
            rig_stop(&r);
        } else {
            rig_crash(&r, life % 3 == 2);
        }
        rig_start(&r);
    }
    end();
}
END_TEST

static int64_t file_size(const char *path) {
    struct disk_req rq = {.op = DISK_STAT, .path = path};
    return disk_call(world_node_disk(r.n), &rq) == ERR_OK ? rq.size : -1;
}

static void file_append(const char *path, const void *p, size_t n) {
    struct disk *d = world_node_disk(r.n);
    struct disk_req rq = {.op = DISK_OPEN, .path = path, .flags = DISK_RDWR};
    ck_assert_int_eq(disk_call(d, &rq), ERR_OK);
    struct disk_file *f = rq.file;
    struct iovec iov = {.iov_base = UNCONST(void, p), .iov_len = n};
    struct disk_req wr = {.op = DISK_WRITE, .file = f, .at = rq.size, .iov = &iov, .iov_n = 1};
    ck_assert_int_eq(disk_call(d, &wr), ERR_OK);
    struct disk_req sy = {.op = DISK_SYNC, .files = &f, .files_n = 1};
    ck_assert_int_eq(disk_call(d, &sy), ERR_OK);
    struct disk_req cl = {.op = DISK_CLOSE, .file = f};
    ck_assert_int_eq(disk_call(d, &cl), ERR_OK);
}

/* S18.16: a torn tail is cut at the first bad batch, producer state is rebuilt, the epoch rises; S18.2: segments roll by size. */
START_TEST(S18_16_a_torn_tail_is_cut_and_duplicates_are_still_known) {
    begin(shard_counts[_i]);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create_with(s, "t", "segment.bytes", "1048576"), 0);
    int64_t pid = say_producer_id(s);
    span last = SPAN_NULL;
    for (int i = 0; i < 9; i++) {                  /* the third 400 KB batch does not fit: three segments of two, S18.2 */
        last = say_batch(s, &(struct say_batch){.value_n = 400000, .pid = pid + 1, .seq = i});
        say_produce(s, T0, -1, last);
        ck_assert_int_eq(say_produced(s)->base_offset, i);
    }
    ck_assert_int_gt(file_size("t-0/00000000000000000000.log"), 800000);
    ck_assert_int_lt(file_size("t-0/00000000000000000000.log"), 1048576);
    ck_assert_int_gt(file_size("t-0/00000000000000000002.log"), 800000);
    ck_assert_int_eq(file_size("t-0/00000000000000000001.log"), -1);
    rig_crash(&r, false);
    file_append("t-0/00000000000000000008.log", last.p, last.n / 2);   /* half a batch behind the end */
    say_close(s);
    rig_start(&r);
    s = say_open(&r);
    ck_assert_int_eq(say_latest(s, T0), 9);
    ck_assert_int_eq(say_describe(s, "t")->partitions[0].leader_epoch, 1);
    say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.value_n = 400000, .pid = pid + 1, .seq = 8}));
    ck_assert_int_eq(say_produced(s)->base_offset, 8);                 /* S6.8, T24 */
    say_produce(s, T0, -1, say_batch(s, &(struct say_batch){.pid = pid + 1, .seq = 9}));
    ck_assert_int_eq(say_produced(s)->base_offset, 9);
    ck_assert_int_eq(say_read_all(s, T0, 0, NULL, NULL), 10);
    say_close(s);
    end();
}
END_TEST

/* ---- epochs ---- */

static int16_t fetch_epoch(struct say *s, int32_t epoch) {
    struct k_fetch_req *q = UNCONST(struct k_fetch_req, say_fetch_req(s, T0, 0, 0, 1));
    q->topics[0].partitions[0].current_leader_epoch = epoch;
    say_send(s, K_FETCH, 12, q);
    return say_fetched(s)->error_code;
}

static int16_t list_epoch(struct say *s, int32_t epoch) {
    struct k_list_offsets_req_topic_part p = {.index = 0, .current_leader_epoch = epoch, .timestamp = -1};
    struct k_list_offsets_req_topic t = {.name = SPAN_LIT("t"), .partitions = &p, .partitions_n = 1};
    struct k_list_offsets_req q = {.replica_id = -1, .topics = &t, .topics_n = 1};
    const struct k_list_offsets_resp *a = say_ask(s, K_LIST_OFFSETS, 4, &q);
    return a->topics[0].partitions[0].error_code;
}

static struct k_offset_for_leader_epoch_resp_topic_part *epoch_end(struct say *s, int32_t current, int32_t asked) {
    struct k_offset_for_leader_epoch_req_topic_part p = {.partition = 0, .current_leader_epoch = current, .leader_epoch = asked};
    struct k_offset_for_leader_epoch_req_topic t = {.topic = SPAN_LIT("t"), .partitions = &p, .partitions_n = 1};
    struct k_offset_for_leader_epoch_req q = {.replica_id = -1, .topics = &t, .topics_n = 1};
    const struct k_offset_for_leader_epoch_resp *a = say_ask(s, K_OFFSET_FOR_LEADER_EPOCH, 4, &q);
    return a->topics[0].partitions;
}

static void keep_epochs(void *u, const struct batch_head *h, span batch) {
    int32_t *at = u;
    (void)batch;
    at[h->base_offset] = h->leader_epoch;
}

START_TEST(S19_1_epochs_are_stored_fenced_and_raised_after_a_crash) {
    begin(shard_counts[_i]);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    span b = say_batch(s, &(struct say_batch){0});
    be32_put(UNCONST(uint8_t, b.p) + 12, 77);      /* the client's idea of an epoch: outside the CRC, overwritten (S19.1) */
    say_produce(s, T0, -1, b);
    ck_assert_int_eq(say_produced(s)->error_code, 0);
    ck_assert_int_eq(fetch_epoch(s, -1), 0);       /* S19.2, S7.13: -1 is not checked */
    ck_assert_int_eq(fetch_epoch(s, 0), 0);
    ck_assert_int_eq(fetch_epoch(s, 1), 75);
    ck_assert_int_eq(list_epoch(s, 1), 75);
    ck_assert_int_eq(epoch_end(s, 1, 0)->error_code, 75);
    ck_assert_int_eq(epoch_end(s, -1, 0)->end_offset, 1);              /* S19.3: the current epoch ends at the log end */
    say_close(s);
    rig_crash(&r, false);
    rig_start(&r);
    s = say_open(&r);
    ck_assert_int_eq(say_describe(s, "t")->partitions[0].leader_epoch, 1);     /* bytes lay above the mark (S19.5) */
    say_produce(s, T0, -1, say_batch(s, &(struct say_batch){0}));
    ck_assert_int_eq(say_produced(s)->base_offset, 1);
    ck_assert_int_eq(fetch_epoch(s, 0), 74);
    ck_assert_int_eq(fetch_epoch(s, 1), 0);
    ck_assert_int_eq(fetch_epoch(s, 2), 75);
    ck_assert_int_eq(list_epoch(s, 0), 74);
    ck_assert_int_eq(list_epoch(s, 1), 0);
    ck_assert_int_eq(epoch_end(s, 0, 0)->error_code, 74);
    const struct k_offset_for_leader_epoch_resp_topic_part *p = epoch_end(s, 1, 0);
    ck_assert_int_eq(p->error_code, 0);
    ck_assert_int_eq(p->leader_epoch, 0);
    ck_assert_int_eq(p->end_offset, 1);            /* S4.20: an older epoch ends where the next began */
    ck_assert_int_eq(epoch_end(s, 1, 1)->end_offset, 2);
    p = epoch_end(s, 1, 9);
    ck_assert_int_eq(p->leader_epoch, -1);         /* unknown */
    ck_assert_int_eq(p->end_offset, -1);
    int32_t at[2] = {-1, -1};
    ck_assert_int_eq(say_read_all(s, T0, 0, keep_epochs, at), 2);
    ck_assert_int_eq(at[0], 0);
    ck_assert_int_eq(at[1], 1);
    say_close(s);
    rig_stop(&r);
    rig_start(&r);
    s = say_open(&r);
    ck_assert_int_eq(say_describe(s, "t")->partitions[0].leader_epoch, 1);     /* a clean stop raises nothing */
    say_close(s);
    end();
}
END_TEST

/* ---- limits of Fetch ---- */

static struct k_fetch_req *fetch_parts(struct say *s, int32_t n, int32_t part_max, int32_t max_bytes) {
    struct k_fetch_req *q = UNCONST(struct k_fetch_req, say_fetch_req(s, T0, 0, 0, 1));
    struct k_fetch_req_topic_part *parts = arena_zalloc(&s->arena, (size_t)n * sizeof *parts);
    for (int32_t i = 0; i < n; i++) {
        parts[i] = q->topics[0].partitions[0];
        parts[i].partition = i;
        parts[i].partition_max_bytes = part_max;
    }
    q->topics[0].partitions = parts;
    q->topics[0].partitions_n = n;
    q->max_bytes = max_bytes;
    return q;
}

struct sum {
    size_t bytes;
    int32_t first;                     /* a partition with records, -1: none */
    int n;                             /* how many have records */
};

static struct sum sum_up(struct say *s) {
    const struct k_fetch_resp *f = say_take(s);
    struct sum sum = {.first = -1};
    for (int32_t t = 0; t < f->topics_n; t++) {
        for (int32_t i = 0; i < f->topics[t].partitions_n; i++) {
            const struct k_fetch_resp_topic_part *p = &f->topics[t].partitions[i];
            ck_assert_int_eq(p->error_code, 0);
            ck_assert_int_ge(p->high_watermark, 0);            /* S7.9: also without records */
            sum.bytes += p->records.n;
            sum.n += p->records.n > 0;
            sum.first = p->records.n > 0 && sum.first < 0 ? p->partition : sum.first;
        }
    }
    return sum;
}

static void fill(struct say *s, int32_t parts, int each, size_t bytes) {
    for (int k = 0; k < each; k++) {
        for (int32_t i = 0; i < parts; i++) {
            say_produce(s, (struct say_to){"t", i}, -1, say_batch(s, &(struct say_batch){.value_n = bytes}));
            ck_assert_int_eq(say_produced(s)->error_code, 0);
            say_forget(s);
        }
    }
}

START_TEST(BR_017_the_first_batch_comes_whole_and_the_total_is_bounded) {
    rig_init(&r, 8, shard_counts[_i]);
    rig_set(&r, "message.max.bytes", "8000000");
    rig_set(&r, "queued.max.request.bytes", "33554432");
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "big", 1), 0);
    say_produce(s, (struct say_to){"big", 0}, -1, say_batch(s, &(struct say_batch){.value_n = 5000000}));
    ck_assert_int_eq(say_produced(s)->error_code, 0);
    struct k_fetch_req *q = UNCONST(struct k_fetch_req, say_fetch_req(s, (struct say_to){"big", 0}, 0, 0, 1));
    q->max_bytes = 1000;
    q->topics[0].partitions[0].partition_max_bytes = 1000;
    say_send(s, K_FETCH, 12, q);
    ck_assert_uint_gt(say_fetched(s)->records.n, 5000000);     /* S7.2 */
    ck_assert_int_eq(say_create(s, "t", 6), 0);
    fill(s, 6, 3, 900000);
    say_send(s, K_FETCH, 12, fetch_parts(s, 6, 1 << 20, 1500000));
    struct sum sum = sum_up(s);
    ck_assert_int_eq(sum.n, 1);                    /* later ones respect what is left */
    ck_assert_uint_lt(sum.bytes, 1500000);
    say_send(s, K_FETCH, 12, fetch_parts(s, 6, 100, 40 << 20));
    sum = sum_up(s);
    ck_assert_int_eq(sum.n, 1);                    /* the first non-empty one whole, the others within 100 bytes: nothing */
    say_send(s, K_FETCH, 12, fetch_parts(s, 6, 10 << 20, 1));
    ck_assert_int_eq(sum_up(s).n, 1);
    say_close(s);
    end();
}
END_TEST

/* S7.3: the broker's own limit caps the request's, and min_bytes with it; the memory of an answer is bounded by it (BR-017). */
START_TEST(S7_3_fetch_max_bytes_caps_the_answer_and_min_bytes) {
    rig_init(&r, 9, shard_counts[_i]);
    rig_set(&r, "fetch.max.bytes", "2000000");
    rig_set(&r, "queued.max.request.bytes", "33554432");
    rig_set(&r, "store.tail.bytes", "1048576");
    rig_start(&r);
    struct say *s = say_open(&r), *cons = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 20), 0);
    fill(s, 20, 2, 600000);
    rig_run(&r, 2000);
    size_t idle = rig_live(&r);
    struct k_fetch_req *q = fetch_parts(cons, 20, 50 << 20, 50 << 20);
    q->min_bytes = 40 << 20;
    q->max_wait_ms = 20000;
    ms from = rig_now(&r);
    say_send(cons, K_FETCH, 12, q);
    struct sum sum = sum_up(cons);
    ck_assert_int_lt(rig_now(&r) - from, 2000);    /* 2 MB are there: the capped min_bytes is reached */
    ck_assert_uint_le(sum.bytes, 2000000);
    ck_assert_int_ge(sum.n, 1);
    ck_assert_uint_lt(rig_live(&r), idle + (8 << 20));
    say_close(s);
    say_close(cons);
    end();
}
END_TEST

START_TEST(S7_4_an_error_or_no_wait_answers_at_once) {
    begin(shard_counts[_i]);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 2), 0);
    ms from = rig_now(&r);
    say_fetch(s, T0, 0, 0, 1);                     /* max_wait 0 */
    ck_assert_uint_eq(say_fetched(s)->records.n, 0);
    say_fetch(s, T0, 0, 10000, 0);                 /* S7.6: min_bytes 0 */
    ck_assert_uint_eq(say_fetched(s)->records.n, 0);
    struct k_fetch_req *q = fetch_parts(s, 3, 1 << 20, 1 << 20);       /* the third does not exist */
    q->max_wait_ms = 10000;
    say_send(s, K_FETCH, 12, q);
    const struct k_fetch_resp *f = say_take(s);
    ck_assert_int_eq(f->topics[0].partitions_n, 3);
    for (int32_t i = 0; i < 3; i++) {
        const struct k_fetch_resp_topic_part *p = &f->topics[0].partitions[i];
        ck_assert_int_eq(p->error_code, p->partition == 2 ? 3 : 0);
        ck_assert_int_eq(p->high_watermark, p->partition == 2 ? -1 : 0);       /* S7.9 */
    }
    say_fetch(s, T0, 7, 10000, 1);                 /* S7.7: out of range */
    ck_assert_int_eq(say_fetched(s)->error_code, 1);
    struct k_fetch_req none = *say_fetch_req(s, T0, 0, 10000, 1);      /* nothing asked */
    none.topics_n = 0;
    const struct k_fetch_resp *empty = say_ask(s, K_FETCH, 12, &none);
    ck_assert_int_eq(empty->topics_n, 0);
    ck_assert_int_lt(rig_now(&r) - from, 100);
    say_fetch(s, T0, 0, 700, 1);                   /* and a wait is a wait */
    ck_assert_uint_eq(say_fetched(s)->records.n, 0);
    ck_assert_int_ge(rig_now(&r) - from, 700);
    say_close(s);
    end();
}
END_TEST

/* T46, S7.5, S7.7: between high watermark and log end: empty, error 0; a crash in between changes nothing about that. */
START_TEST(T46_above_the_high_watermark_is_empty_not_out_of_range) {
    begin(shard_counts[_i]);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    world_node_hold_syncs(r.n, true);
    say_produce(s, T0, 1, say_batch(s, &(struct say_batch){.records = 2}));
    ck_assert_int_eq(say_produced(s)->error_code, 0);
    for (int64_t at = 0; at <= 3; at++) {
        say_fetch(s, T0, at, 50, 1);
        const struct k_fetch_resp_topic_part *p = say_fetched(s);
        ck_assert_int_eq(p->error_code, at <= 2 ? 0 : 1);
        ck_assert_uint_eq(p->records.n, 0);
        ck_assert_int_eq(p->high_watermark, at <= 2 ? 0 : -1);
    }
    world_node_hold_syncs(r.n, false);
    ck_assert_int_eq(say_latest(s, T0), 2);
    say_close(s);
    rig_crash(&r, false);
    rig_start(&r);
    s = say_open(&r);
    say_fetch(s, T0, 2, 50, 1);
    ck_assert_int_eq(say_fetched(s)->error_code, 0);
    say_fetch(s, T0, 1, 50, 1);                    /* S7.1: from the batch that holds it */
    ck_assert_uint_gt(say_fetched(s)->records.n, 0);
    say_close(s);
    end();
}
END_TEST

START_TEST(S7_20_a_partition_listed_twice_is_answered_once_with_the_last_entry) {
    begin(shard_counts[_i]);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    fill(s, 1, 3, 10);
    for (int unknown = 0; unknown < 2; unknown++) {
        struct k_fetch_req *q = fetch_parts(s, 3, 1 << 20, 1 << 20);
        for (int32_t i = 0; i < 3; i++) {
            q->topics[0].partitions[i].partition = 0;
            q->topics[0].partitions[i].fetch_offset = i;       /* the last entry asks from offset 2 */
        }
        struct k_fetch_req_topic *two = arena_zalloc(&s->arena, 2 * sizeof *two);
        two[0] = q->topics[0];
        two[1] = q->topics[0];                     /* and the topic is there twice */
        two[0].topic = two[1].topic = unknown ? SPAN_LIT("nope") : SPAN_LIT("t");
        q->topics = two;
        q->topics_n = 2;
        const struct k_fetch_resp *f = say_ask(s, K_FETCH, 12, q);
        int n = 0;
        for (int32_t t = 0; t < f->topics_n; t++) {
            for (int32_t i = 0; i < f->topics[t].partitions_n; i++) {
                const struct k_fetch_resp_topic_part *p = &f->topics[t].partitions[i];
                ck_assert_int_eq(p->error_code, unknown ? 3 : 0);
                ck_assert(unknown || (int64_t)be64_get(p->records.p) == 2);
                n++;
            }
        }
        ck_assert_int_eq(n, 1);
    }
    say_close(s);
    end();
}
END_TEST

START_TEST(S7_21_no_partition_starves_behind_a_small_max_bytes) {
    begin(shard_counts[_i]);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 5), 0);
    fill(s, 5, 1, 300000);
    bool seen[5] = {0};
    for (int i = 0; i < 10; i++) {
        say_send(s, K_FETCH, 12, fetch_parts(s, 5, 1 << 20, 300100));
        struct sum sum = sum_up(s);
        ck_assert_int_eq(sum.n, 1);
        seen[sum.first] = true;
    }
    for (int i = 0; i < 5; i++) {
        ck_assert_msg(seen[i], "partition %d never came first", i);
    }
    say_close(s);
    end();
}
END_TEST

/* S1.7, S1.8: no answer at all; a failure closes the connection, behind the answers of what came before. */
START_TEST(S1_8_a_failed_acks_0_produce_closes_the_connection) {
    begin(shard_counts[_i]);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    say_produce(s, T0, 0, say_batch(s, &(struct say_batch){0}));
    say_metadata_send(s, "t");
    ck_assert_int_eq(say_described(s)->error_code, 0);         /* the first answer is that of the Metadata */
    say_metadata_send(s, "t");
    say_produce(s, (struct say_to){"nope", 0}, 0, say_batch(s, &(struct say_batch){0}));
    ck_assert_int_eq(say_described(s)->error_code, 0);
    ck_assert(say_await_down(s, 1000));
    ck_assert(!say_has(s));
    say_close(s);
    s = say_open(&r);
    ck_assert_int_eq(say_latest(s, T0), 1);
    say_close(s);
    end();
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("log");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, S5_12_log_append_time_is_the_brokers_and_a_duplicate_tells_the_same, 0, 3);
    tcase_add_loop_test(tc, S5_19_time_over_is_error_7_and_the_data_may_stay, 0, 3);
    tcase_add_loop_test(tc, S5_23_unknown_topics_and_partitions_get_3_and_unknown_ids_100, 0, 3);
    tcase_add_loop_test(tc, D6_write_caching_answers_and_shows_what_is_written, 0, 3);
    tcase_add_loop_test(tc, D6_producers_are_held_while_too_much_is_unsynced, 0, 3);
    tcase_add_loop_test(tc, S18_1_offsets_never_go_back_over_restarts, 0, 3);
    tcase_add_loop_test(tc, S18_16_a_torn_tail_is_cut_and_duplicates_are_still_known, 0, 3);
    tcase_add_loop_test(tc, S19_1_epochs_are_stored_fenced_and_raised_after_a_crash, 0, 3);
    tcase_add_loop_test(tc, BR_017_the_first_batch_comes_whole_and_the_total_is_bounded, 0, 3);
    tcase_add_loop_test(tc, S7_3_fetch_max_bytes_caps_the_answer_and_min_bytes, 0, 3);
    tcase_add_loop_test(tc, S7_4_an_error_or_no_wait_answers_at_once, 0, 3);
    tcase_add_loop_test(tc, T46_above_the_high_watermark_is_empty_not_out_of_range, 0, 3);
    tcase_add_loop_test(tc, S7_20_a_partition_listed_twice_is_answered_once_with_the_last_entry, 0, 3);
    tcase_add_loop_test(tc, S7_21_no_partition_starves_behind_a_small_max_bytes, 0, 3);
    tcase_add_loop_test(tc, S1_8_a_failed_acks_0_produce_closes_the_connection, 0, 3);
    return run_suite("log", tc);
}
