/* Goal: the small files of this room, each by itself: names, segidx, seg, epochs, frames, scan, marks_file. Method:
 * tables. */
#include "frames.h"
#include "marks_file.h"
#include "rig.h"
#include "scan.h"

/* ---- names ---- */

START_TEST(names_as_kafka) {
    char buf[NAMES_PATH_CAP], dir[NAMES_DIR_CAP];
    struct plog_id id = {.topic = "a.b_c-d", .topic_id = {.b = {0x12, 0xff}}, .partition = 7};
    off64 base;
    size_t n;
    int32_t p;
    names_dir(&id, dir);
    ck_assert_str_eq(dir, "a.b_c-d-7");
    names_segment(&id, 42, ".log", buf);
    ck_assert_str_eq(buf, "a.b_c-d-7/00000000000000000042.log");
    names_in_dir(&id, "partition.metadata", buf);
    ck_assert_str_eq(buf, "a.b_c-d-7/partition.metadata");
    names_aside(&id, "-delete", dir);
    ck_assert_str_eq(dir, "a.b_c-d-7.12ff0000000000000000000000000000-delete");
    names_metadata_text(&id, buf, sizeof buf);
    ck_assert_str_eq(buf, "version: 0\ntopic_id: Ev8AAAAAAAAAAAAAAAAAAA\n");
    ck_assert(names_is_segment("00000000000000000042.log", ".log", &base) && base == 42);
    ck_assert(!names_is_segment("0000000000000000042.log", ".log", &base));
    ck_assert(!names_is_segment("00000000000000000042.log.tmp", ".log", &base));
    ck_assert(!names_is_segment("99999999999999999999.log", ".log", &base));
    ck_assert(names_split_dir("a-b-12", &n, &p) && n == 3 && p == 12);
    ck_assert(!names_split_dir("a-", &n, &p) && !names_split_dir("-1", &n, &p) && !names_split_dir("a-1x", &n, &p) &&
              !names_split_dir("plain", &n, &p));
}
END_TEST

/* BR-050: the longest legal name still gives a directory that a file system takes, also on its way out. */
START_TEST(names_longest_topic) {
    char topic[250], dir[NAMES_DIR_CAP], path[NAMES_PATH_CAP];
    memset(topic, 'x', 249);
    topic[249] = 0;
    struct plog_id id = {.topic = topic, .partition = 99999};
    names_dir(&id, dir);
    ck_assert_uint_eq(strlen(dir), 255);
    names_aside(&id, "-delete", dir);
    ck_assert_uint_le(strlen(dir), 255);
    names_segment(&id, INT64_MAX, ".timeindex", path);
    ck_assert(strstr(path, "/09223372036854775807.timeindex"));
}
END_TEST

/* ---- segidx ---- */

START_TEST(segidx_finds_the_entry_before) {
    struct segidx ix = {0};
    struct segidx_at at;
    bool cold;
    ck_assert(!segidx_find(&ix, 5, &at, &cold) && !cold);
    for (uint32_t i = 1; i <= 10; i++) {
        segidx_add_offset(&ix, i * 10, i * 100);
    }
    ck_assert(!segidx_find(&ix, 9, &at, &cold) && !cold);
    ck_assert(segidx_find(&ix, 10, &at, &cold) && at.rel == 10 && at.position == 100);
    ck_assert(segidx_find(&ix, 57, &at, &cold) && at.rel == 50);
    ck_assert(segidx_find(&ix, 4000, &at, &cold) && at.rel == 100);
    segidx_cut_offset(&ix, 800);
    ck_assert_uint_eq(segidx_count(&ix), 7);
    segidx_wrote(&ix, 4, SEGIDX_OFFSET_BYTES);
    ck_assert_uint_eq(ix.file_n, 4);
    ck_assert(segidx_find(&ix, 55, &at, &cold) && at.rel == 50);       /* still waiting */
    ck_assert(!segidx_find(&ix, 45, &at, &cold) && cold);              /* in the file, which is not loaded */
    segidx_wrote(&ix, 3, SEGIDX_OFFSET_BYTES);
    ck_assert(ix.pend == NULL && ix.file_n == 7);
    segidx_done(&ix);
}
END_TEST

START_TEST(segidx_times) {
    struct segidx ix = {0};
    uint32_t rel;
    bool cold;
    segidx_add_time(&ix, 100, 5);
    segidx_add_time(&ix, 200, 9);
    ck_assert(!segidx_find_time(&ix, 100, &rel, &cold));               /* nothing is older than 100 for sure */
    ck_assert(segidx_find_time(&ix, 101, &rel, &cold) && rel == 5);
    ck_assert(segidx_find_time(&ix, 1000, &rel, &cold) && rel == 9);
    ck_assert_int_eq(segidx_last_time(&ix, -1), 200);
    segidx_cut_time(&ix, 9);
    ck_assert_int_eq(segidx_last_time(&ix, -1), 100);
    segidx_done(&ix);
}
END_TEST

START_TEST(segidx_sanity) {
    struct segidx ix = {0};
    segidx_add_offset(&ix, 3, 10);
    segidx_add_offset(&ix, 5, 20);
    ck_assert(segidx_offsets_ok(ix.pend, 2, 6, 21));
    ck_assert(!segidx_offsets_ok(ix.pend, 2, 5, 21) && !segidx_offsets_ok(ix.pend, 2, 6, 20));
    segidx_add_offset(&ix, 5, 30);
    ck_assert(!segidx_offsets_ok(ix.pend, 3, 100, 100));               /* not increasing */
    uint8_t zeros[24] = {0};
    ck_assert(!segidx_offsets_ok(zeros, 2, 100, 100) && !segidx_times_ok(zeros, 2, 100));
    segidx_done(&ix);
}
END_TEST

/* ---- seg: S18.2 ---- */

static struct batch_head head(off64 base, int32_t last_delta, size_t bytes, ms ts) {
    return (struct batch_head){.base_offset = base,
                               .last_offset_delta = last_delta,
                               .bytes = bytes,
                               .length = (int32_t)bytes - 12,
                               .max_ts_ms = ts};
}

START_TEST(s18_2_when_a_segment_is_full) {
    struct log_conf c = {
        .segment_bytes = 1000, .segment_age = 500, .index_interval_bytes = 10, .index_bytes_max = 1 << 20};
    struct seg *sg = seg_new(100);
    sg->born = 10;
    struct batch_head h = head(100, 0, 400, 5000), with_ts = h;
    ck_assert(!seg_is_full(sg, &h, &c, 100000));                       /* an empty one takes anything, however old */
    seg_note(sg, &h, c.index_interval_bytes);
    h = head(101, 0, 600, 5000);
    ck_assert(!seg_is_full(sg, &h, &c, 0));                            /* exactly segment.bytes */
    h = head(101, 0, 601, 5000);
    ck_assert(seg_is_full(sg, &h, &c, 0));
    with_ts = head(101, 0, 100, 5500);
    ck_assert(!seg_is_full(sg, &with_ts, &c, 1 << 30));                /* timestamps decide, not the clock */
    with_ts = head(101, 0, 100, 5501);
    ck_assert(seg_is_full(sg, &with_ts, &c, 0));
    sg->jitter = 100;
    with_ts = head(101, 0, 100, 5401);
    ck_assert(seg_is_full(sg, &with_ts, &c, 0));
    sg->jitter = 0;
    h = head(100 + (off64)INT32_MAX, 0, 10, 5000);
    ck_assert(!seg_is_full(sg, &h, &c, 0));
    h = head(101 + (off64)INT32_MAX, 0, 10, 5000);
    ck_assert(seg_is_full(sg, &h, &c, 0));                             /* no int32 relative offset */
    c.index_bytes_max = 16;
    seg_free(sg);
    sg = seg_new(0);
    for (off64 i = 0; i < 4; i++) {
        h = head(i, 0, 20, 1);
        seg_note(sg, &h, 10);
    }
    h = head(4, 0, 20, 1);
    ck_assert(seg_is_full(sg, &h, &c, 0));                             /* two entries of eight bytes */
    seg_free(sg);
}
END_TEST

START_TEST(s18_2_age_without_timestamps) {
    struct log_conf c = {
        .segment_bytes = 1000, .segment_age = 500, .index_interval_bytes = 10, .index_bytes_max = 1 << 20};
    struct seg *sg = seg_new(0);
    struct batch_head h = head(0, 0, 100, -1);
    sg->born = 10;
    seg_note(sg, &h, c.index_interval_bytes);
    h = head(1, 0, 100, -1);
    ck_assert(!seg_is_full(sg, &h, &c, 510) && seg_is_full(sg, &h, &c, 511));
    seg_free(sg);
}
END_TEST

/* ---- epochs: S4.20, 19.4 ---- */

START_TEST(s4_20_epochs) {
    struct epochs es;
    static const struct {
        int32_t asked, epoch;
        off64 end;
    } v[] = {{-1, -1, -1}, {1, 1, 10}, {2, 2, 20}, {3, 2, 20}, {5, 5, 30}, {6, 5, 30}, {7, 7, 99}, {8, -1, -1}};
    struct epochs_entry e;
    epochs_init(&es);
    epochs_end_for(&es, 0, 5, &e);
    ck_assert(e.epoch == -1 && e.start == -1);
    static const struct epochs_entry add[] = {{10, 2}, {20, 5}, {30, 7}};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(epochs_reserve(&es), ERR_OK);
        epochs_add(&es, add[i].epoch, add[i].start);
        epochs_add(&es, add[i].epoch, add[i].start + 5);               /* again: nothing */
    }
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) {
        epochs_end_for(&es, v[i].asked, 99, &e);
        ck_assert_msg(e.epoch == v[i].epoch && e.start == v[i].end, "asked %d: %d %lld", v[i].asked, e.epoch,
                      (long long)e.start);
    }
    ck_assert(epochs_at(&es, 9) == -1 && epochs_at(&es, 10) == 2 && epochs_at(&es, 29) == 5 &&
              epochs_at(&es, 1000) == 7);
    ck_assert(epochs_last_before(&es, 30).epoch == 5 && epochs_last_before(&es, 31).epoch == 7);
    struct str text;
    str_init(&text, 1000);
    epochs_print(&es, &text);
    ck_assert_str_eq(text.p, "0\n3\n2 10\n5 20\n7 30\n");
    struct epochs back;
    epochs_init(&back);
    ck_assert_int_eq(epochs_parse(&back, str_span(&text)), ERR_OK);
    ck_assert(back.n == 3 && epochs_at(&back, 25) == 5);
    for (size_t n = 0; n < text.n; n++) {
        ck_assert_int_eq(epochs_parse(&back, span_of(text.p, n)), ERR_DAMAGED);
    }
    epochs_cut(&es, 15);           /* 19.4; the current epoch stays the current one */
    ck_assert(es.n == 2 && epochs_at(&es, 14) == 2 && epochs_at(&es, 15) == 7);
    epochs_drop(&es, 15);
    ck_assert(es.n == 1);
    epochs_done(&es);
    epochs_done(&back);
    str_done(&text);
}
END_TEST

START_TEST(epochs_malformed) {
    static const char *const bad[] = {"",
                                      "1\n0\n",
                                      "0\n-1\n",
                                      "0\n1\n1 5\n2 6\n",
                                      "0\n2\n1 5\n1 6\n",
                                      "0\n2\n2 5\n1 6\n",
                                      "0\n2\n1 6\n2 6\n",
                                      "0\n1\n1  5\n",
                                      "0\n1\n99999999999 5\n",
                                      "0\n1\n1 5",
                                      "0\n99999999\n"};
    struct epochs es;
    epochs_init(&es);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_msg(epochs_parse(&es, span_str(bad[i])) == ERR_DAMAGED, "%zu", i);
        ck_assert_uint_eq(es.n, 0);
    }
}
END_TEST

/* ---- frames ---- */

static struct {
    uint32_t kinds[16];
    size_t n;
} seen;

static err on_frame(void *u, const struct frames_head *h, span payload) {
    (void)u;
    ck_assert(payload.n == h->bytes && (payload.n == 0 || payload.p[0] == (uint8_t)h->kind));
    seen.kinds[seen.n++] = h->kind;
    return ERR_OK;
}

/* Frames 1..n; proven[i] is what frame i says. Returns the bytes; ends[i] is where frame i ends. */
static size_t chain(uint8_t *p, const uint64_t *proven, size_t n, size_t *ends) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        struct frames_head h = {.kind = (uint32_t)i + 1,
                                .bytes = (uint32_t)i * 13,
                                .generation = 3,
                                .sequence = 70 + i,
                                .proven = proven[i]};
        memset(p + at + FRAMES_HEAD_BYTES, (int)i + 1, h.bytes);
        frames_seal(p + at, &h);
        at += frames_size(h.bytes);
        ends[i] = at;
    }
    return at;
}

START_TEST(frames_tell_torn_from_damaged) {
    static uint8_t p[4096], q[4096];
    size_t ends[4], good, n;
    chain(p, (uint64_t[4]){0}, 4, ends);
    const uint64_t proven[4] = {0, 0, ends[0], ends[1]};               /* frame 4 proves frames 1 and 2 */
    n = chain(p, proven, 4, ends);
    seen.n = 0;
    ck_assert_int_eq(frames_walk(span_of(p, n), on_frame, NULL, &good), ERR_OK);
    ck_assert(seen.n == 4 && good == n);
    for (size_t at = 0; at < n; at++) {
        memcpy(q, p, n);
        q[at] ^= 0x10;
        seen.n = 0;
        err e = frames_walk(span_of(q, n), on_frame, NULL, &good);
        size_t frame = 0;
        while (ends[frame] <= at) {
            frame++;
        }
        ck_assert_uint_eq(seen.n, frame);
        ck_assert_int_eq(e, frame < 2 ? ERR_DAMAGED : ERR_TORN);
        ck_assert_uint_eq(good, frame == 0 ? 0 : ends[frame - 1]);
    }
    for (size_t cut = 0; cut < n; cut++) {         /* cut short: nothing behind it proves anything */
        err e = frames_walk(span_of(p, cut), on_frame, NULL, &good);
        bool whole = cut == 0 || cut == ends[0] || cut == ends[1] || cut == ends[2];
        ck_assert_int_eq(e, whole ? ERR_OK : ERR_TORN);
        seen.n = 0;
    }
    memcpy(q, p, n);
    memmove(q + ends[0], q + ends[1], n - ends[1]);                    /* a frame in the middle is missing */
    ck_assert_int_eq(frames_walk(span_of(q, n - (ends[1] - ends[0])), on_frame, NULL, &good), ERR_DAMAGED);
}
END_TEST

/* ---- scan: T8, T54 ---- */

START_TEST(scan_judges_a_batch) {
    struct arena a;
    struct batch_head h;
    struct rig_ask q = {.records = 3, .value = 10, .ts = 7};
    uint8_t p[600];
    arena_init(&a, NULL, 1 << 20);
    span b = rig_build(&a, &q, 50);
    memcpy(p, b.p, b.n);
    batch_stamp(p, 50, 2);
    ck_assert_int_eq(scan_batch(span_of(p, b.n), 50, true, &h), ERR_OK);
    ck_assert_int_eq(scan_batch(span_of(p, b.n), 49, true, &h), ERR_CORRUPT);
    ck_assert_int_eq(scan_batch(span_of(p, b.n - 1), 50, true, &h), ERR_TORN);
    ck_assert_uint_eq(h.bytes, b.n);
    ck_assert_int_eq(scan_batch(span_of(p, 60), 50, true, &h), ERR_TORN);
    ck_assert_uint_eq(h.bytes, 0);
    p[b.n - 1] ^= 1;
    ck_assert_int_eq(scan_batch(span_of(p, b.n), 50, true, &h), ERR_CORRUPT);
    ck_assert_int_eq(scan_batch(span_of(p, b.n), 50, false, &h), ERR_OK);
    memset(p, 0, sizeof p);
    ck_assert_int_eq(scan_batch(span_of(p, sizeof p), 0, true, &h), ERR_CORRUPT);
    arena_done(&a);
}
END_TEST

/* ---- marks_file ---- */

START_TEST(marks_file_round_trip) {
    struct datadir_mark m = {.topic_id = {.b = {1, 2, 3}},
                             .partition = 5,
                             .leader_epoch = 6,
                             .epoch_start = 7,
                             .start = 8,
                             .end = 90,
                             .segment = 50,
                             .position = 100,
                             .bytes = 1000,
                             .first_ts = 11,
                             .max_ts = 12,
                             .max_ts_offset = 13,
                             .heavy = 60,
                             .heavy_segment = 50,
                             .heavy_position = 40,
                             .index_entries = 14,
                             .timeindex_entries = 15,
                             .timeindex_ts = 16,
                             .heavy_max_ts = 17,
                             .heavy_max_ts_offset = 18,
                             .has_producers = true,
                             .unsettled = true,
                             .segments = 3},
                        back;
    uint8_t p[MARKS_ENTRY_BYTES], q[MARKS_ENTRY_BYTES];
    bool gone;
    marks_file_put(p, &m, false);
    ck_assert_int_eq(marks_file_get(p, &back, &gone), ERR_OK);
    ck_assert(!gone && back.has_producers && back.unsettled && back.end == 90 && back.timeindex_ts == 16 &&
              back.heavy_max_ts_offset == 18);
    marks_file_put(q, &back, false);
    ck_assert_mem_eq(p, q, sizeof p);
    m.heavy = 91;
    marks_file_put(p, &m, false);
    ck_assert_int_eq(marks_file_get(p, &back, &gone), ERR_DAMAGED);    /* it contradicts itself */
    marks_file_put(p, &m, true);
    ck_assert(marks_file_get(p, &back, &gone) == ERR_OK && gone);
}
END_TEST

int main(void) {
    return RIG_RUN("parts", names_as_kafka, names_longest_topic, segidx_finds_the_entry_before, segidx_times,
                   segidx_sanity, s18_2_when_a_segment_is_full, s18_2_age_without_timestamps, s4_20_epochs,
                   epochs_malformed, frames_tell_torn_from_damaged, scan_judges_a_batch, marks_file_round_trip);
}
