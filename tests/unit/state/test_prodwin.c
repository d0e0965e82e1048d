/* Goal: the idempotent producer window obeys S6.1-6.9 and T23-T26, takes back what was not appended, and keeps Kafka's file format.
 * Method: small stories, then random operations against a naive twin that remembers every batch ever appended. */
#include "state/prodwin.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "base/be.h"
#include "base/crc.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/prng.h"

static struct batch_head head(int64_t id, int16_t epoch, int32_t seq, int32_t count) {
    return (struct batch_head){
        .producer_id = id, .producer_epoch = epoch, .base_sequence = seq, .last_offset_delta = count - 1, .count = count, .max_ts_ms = 1000};
}

static err judge(const struct prodwin *w, struct batch_head h, struct prodwin_answer *a) { return prodwin_check(w, &h, a); }

static void put(struct prodwin **w, struct batch_head h, off64 base, ms now) {
    struct prodwin_answer a;
    ck_assert_int_eq(prodwin_check(*w, &h, &a), ERR_OK);
    ck_assert_int_eq(a.verdict, PRODWIN_APPEND);
    ck_assert_int_eq(prodwin_reserve(w, &h, 7), ERR_OK);
    h.base_offset = base;
    prodwin_note(*w, &h, now);
}

static void expect_append(const struct prodwin *w, struct batch_head h) {
    struct prodwin_answer a;
    ck_assert_int_eq(judge(w, h, &a), ERR_OK);
    ck_assert_int_eq(a.verdict, PRODWIN_APPEND);
}

static void expect_err(const struct prodwin *w, struct batch_head h, err want) {
    struct prodwin_answer a = {.base_offset = 77};
    ck_assert_int_eq(judge(w, h, &a), want);
    ck_assert_int_eq(a.base_offset, 77);           /* outputs are untouched on failure */
}

static void expect_duplicate(const struct prodwin *w, struct batch_head h, off64 base) {
    struct prodwin_answer a;
    ck_assert_int_eq(judge(w, h, &a), ERR_OK);
    ck_assert_int_eq(a.verdict, PRODWIN_DUPLICATE);
    ck_assert_int_eq(a.base_offset, base);
    ck_assert_int_eq(a.last_offset, base + h.last_offset_delta);
}

/* S6.1, S6.2, T23: each of the last five is a duplicate with its own offset; the sixth is out of order (45). */
START_TEST(five_batch_window) {
    struct prodwin *w = NULL;
    for (int i = 0; i < 8; i++) {
        put(&w, head(5, 0, i * 10, 10), 100 + i * 10, 0);
        prodwin_stable(w, 100 + (i + 1) * 10);
    }
    for (int i = 3; i < 8; i++) {
        expect_duplicate(w, head(5, 0, i * 10, 10), 100 + i * 10);
    }
    expect_err(w, head(5, 0, 20, 10), ERR_SEQUENCE_GAP);
    expect_err(w, head(5, 0, 70, 9), ERR_SEQUENCE_GAP);         /* same first, other last: not that batch */
    expect_append(w, head(5, 0, 80, 1));
    prodwin_free(w);
}
END_TEST

/* T25: five in flight, the client replays 2 to 5: each is known, in order, and the sixth follows. */
START_TEST(replay_of_five_in_flight) {
    struct prodwin *w = NULL;
    for (int i = 0; i < 5; i++) {
        put(&w, head(5, 0, i * 3, 3), i * 3, 0);
    }
    prodwin_stable(w, 6);
    for (int i = 1; i < 5; i++) {
        expect_duplicate(w, head(5, 0, i * 3, 3), i * 3);
    }
    put(&w, head(5, 0, 15, 3), 15, 0);
    expect_duplicate(w, head(5, 0, 3, 3), 3);
    expect_err(w, head(5, 0, 0, 3), ERR_SEQUENCE_GAP);
    prodwin_free(w);
}
END_TEST

/* T23 with nothing synced: unstable batches are remembered, but only the last five answer as duplicates. */
START_TEST(window_while_unstable) {
    struct prodwin *w = NULL;
    for (int i = 0; i < 12; i++) {
        put(&w, head(5, 0, i, 1), i, 0);
    }
    expect_err(w, head(5, 0, 6, 1), ERR_SEQUENCE_GAP);
    expect_duplicate(w, head(5, 0, 7, 1), 7);
    expect_duplicate(w, head(5, 0, 11, 1), 11);
    prodwin_free(w);
}
END_TEST

/* S6.3 */
START_TEST(same_epoch_must_follow) {
    struct prodwin *w = NULL;
    put(&w, head(1, 3, 0, 5), 0, 0);
    expect_append(w, head(1, 3, 5, 2));
    expect_err(w, head(1, 3, 6, 2), ERR_SEQUENCE_GAP);
    expect_err(w, head(1, 3, 4, 2), ERR_SEQUENCE_GAP);
    prodwin_free(w);
}
END_TEST

/* S6.3, S6.4, T26: after 2147483647 comes 0, inside a batch and between batches. */
START_TEST(sequence_wraps) {
    struct prodwin *w = NULL;
    put(&w, head(1, 0, INT32_MAX - 4, 5), 0, 0);               /* ends exactly at the top */
    expect_err(w, head(1, 0, 1, 1), ERR_SEQUENCE_GAP);
    put(&w, head(1, 0, 0, 3), 5, 0);
    expect_append(w, head(1, 0, 3, 1));
    put(&w, head(2, 0, INT32_MAX - 1, 4), 8, 0);               /* max-1, max, 0, 1 */
    expect_err(w, head(2, 0, 1, 1), ERR_SEQUENCE_GAP);
    expect_append(w, head(2, 0, 2, 1));
    expect_duplicate(w, head(2, 0, INT32_MAX - 1, 4), 8);
    prodwin_free(w);
}
END_TEST

/* S6.5, T26: a higher epoch starts at 0, a lower one is fenced, 32767 is an epoch like any other. */
START_TEST(epoch_rules) {
    struct prodwin *w = NULL;
    put(&w, head(1, 3, 0, 5), 0, 0);
    expect_err(w, head(1, 2, 5, 1), ERR_PRODUCER_FENCED);
    expect_err(w, head(1, 2, 0, 5), ERR_PRODUCER_FENCED);
    expect_err(w, head(1, 4, 5, 1), ERR_SEQUENCE_GAP);
    put(&w, head(1, 4, 0, 5), 5, 0);
    expect_duplicate(w, head(1, 4, 0, 5), 5);                  /* the same sequences of epoch 3 are another batch */
    put(&w, head(1, INT16_MAX, 0, 1), 10, 0);
    expect_append(w, head(1, INT16_MAX, 1, 1));
    expect_err(w, head(1, INT16_MAX - 1, 1, 1), ERR_PRODUCER_FENCED);
    prodwin_free(w);
}
END_TEST

/* S5.5, T26: a producer id with base sequence -1 is no idempotent batch. */
START_TEST(negative_sequence) {
    struct prodwin *w = NULL;
    expect_err(w, head(1, 0, -1, 1), ERR_BAD_RECORD);
    put(&w, head(1, 0, 0, 1), 0, 0);
    expect_err(w, head(1, 0, -1, 1), ERR_BAD_RECORD);
    expect_err(w, head(1, 0, INT32_MIN, 1), ERR_BAD_RECORD);
    prodwin_free(w);
}
END_TEST

/* S6.6: no state, any first sequence (never error 59). */
START_TEST(unknown_producer) {
    struct prodwin *w = NULL;
    expect_append(NULL, head(1, 9, 12345, 3));
    put(&w, head(1, 9, 12345, 3), 0, 0);
    expect_append(w, head(1, 9, 12348, 3));
    expect_append(w, head(2, 0, INT32_MAX, 1));
    ck_assert_uint_eq(prodwin_count(w), 1);
    prodwin_free(w);
}
END_TEST

/* A control batch raises the epoch and carries no sequence; the next data batch of that epoch starts at 0. */
START_TEST(control_batch) {
    struct prodwin *w = NULL;
    put(&w, head(1, 0, 0, 5), 0, 0);
    struct batch_head c = head(1, 1, -1, 1);
    c.attributes = BATCH_ATTR_CONTROL;
    put(&w, c, 5, 0);
    expect_err(w, head(1, 0, 5, 1), ERR_PRODUCER_FENCED);
    expect_err(w, head(1, 1, 5, 1), ERR_SEQUENCE_GAP);
    expect_append(w, head(1, 1, 0, 1));
    put(&w, head(1, 1, 0, 2), 6, 0);
    put(&w, c, 8, 0);
    expect_append(w, head(1, 1, 2, 1));                        /* same epoch: sequences go on */
    prodwin_free(w);
}
END_TEST

/* D6 and DESIGN 3: an append that fails is taken back, and the window tells again what the log holds. */
START_TEST(undo_newest) {
    struct prodwin *w = NULL;
    for (int i = 0; i < 5; i++) {
        put(&w, head(1, 0, i, 1), i, 0);
    }
    prodwin_undo(w, 2);                                        /* five in flight, the 3rd failed: 2, 3 and 4 are gone */
    expect_duplicate(w, head(1, 0, 1, 1), 1);
    expect_append(w, head(1, 0, 2, 1));
    expect_err(w, head(1, 0, 3, 1), ERR_SEQUENCE_GAP);
    prodwin_free(w);
}
END_TEST

START_TEST(undo_whole_window) {
    struct prodwin *w = NULL;
    put(&w, head(1, 0, 0, 3), 0, 0);
    prodwin_stable(w, 3);
    for (int i = 0; i < 7; i++) {
        put(&w, head(1, 0, 3 + i, 1), 3 + i, 0);
    }
    put(&w, head(2, 0, 40, 1), 10, 0);
    prodwin_undo(w, 3);                                        /* all five that answer duplicates are gone; the stable one is back */
    expect_duplicate(w, head(1, 0, 0, 3), 0);
    expect_append(w, head(1, 0, 3, 1));
    expect_err(w, head(2, 0, 41, 1), ERR_SEQUENCE_GAP);        /* the producer was new: what was in flight behind its first batch is no first one */
    expect_append(w, head(2, 0, 40, 1));
    expect_append(w, head(2, 1, 0, 1));                        /* or it gave up and raised its epoch */
    expect_err(w, head(2, 1, 40, 1), ERR_SEQUENCE_GAP);
    ck_assert_uint_eq(prodwin_count(w), 1);
    put(&w, head(2, 0, 40, 1), 3, 0);
    expect_append(w, head(2, 0, 41, 1));
    expect_err(w, head(2, 0, 43, 1), ERR_SEQUENCE_GAP);
    prodwin_free(w);
}
END_TEST

/* The first batch found no room in the log: the second, in flight behind it, must not become the first (S6.3); expiry forgets it. */
START_TEST(reserved_and_refused) {
    struct prodwin *w = NULL;
    struct batch_head h = head(3, 0, 5, 2);
    ck_assert_int_eq(prodwin_reserve(&w, &h, 7), ERR_OK);
    expect_err(w, head(3, 0, 7, 2), ERR_SEQUENCE_GAP);
    expect_append(w, h);
    ck_assert_uint_eq(prodwin_count(w), 0);
    ck_assert_uint_eq(prodwin_expire(w, 1, 1000), 0);
    expect_append(w, head(3, 0, 7, 2));
    prodwin_free(w);
}
END_TEST

START_TEST(undo_epoch) {
    struct prodwin *w = NULL;
    put(&w, head(1, 0, 0, 3), 0, 0);
    put(&w, head(1, 1, 0, 1), 3, 0);
    prodwin_undo(w, 3);
    expect_append(w, head(1, 0, 3, 1));                        /* epoch 0 is the producer's epoch again */
    expect_duplicate(w, head(1, 0, 0, 3), 0);
    prodwin_free(w);
}
END_TEST

/* More than PRODWIN_BATCHES unstable batches of one producer: what cannot be restored is forgotten, never remembered wrongly. */
START_TEST(undo_beyond_memory) {
    struct prodwin *w = NULL;
    for (int i = 0; i < PRODWIN_BATCHES + 4; i++) {
        put(&w, head(1, 0, i, 1), i, 0);
    }
    struct prodwin *v = NULL;
    for (int i = 0; i < PRODWIN_BATCHES + 4; i++) {
        put(&v, head(1, 0, i, 1), i, 0);
    }
    prodwin_undo(w, 10);                                       /* inside what is remembered */
    expect_append(w, head(1, 0, 10, 1));
    expect_err(w, head(1, 0, 11, 1), ERR_SEQUENCE_GAP);
    prodwin_undo(v, 2);                                        /* before it */
    ck_assert_uint_eq(prodwin_count(v), 0);
    expect_append(v, head(1, 0, 2, 1));
    prodwin_free(w);
    prodwin_free(v);
}
END_TEST

/* S6.9: gone expiry after the last append, not before, and never while it could still be taken back. */
START_TEST(expiry) {
    struct prodwin *w = NULL;
    put(&w, head(1, 0, 0, 1), 0, 1000);
    put(&w, head(2, 0, 0, 1), 1, 2000);
    put(&w, head(3, 0, 0, 1), 2, 2000);
    put(&w, head(1, 0, 1, 1), 3, 3000);
    prodwin_stable(w, 2);
    ck_assert_uint_eq(prodwin_expire(w, 2999, 1000), 0);
    ck_assert_uint_eq(prodwin_expire(w, 3000, 1000), 1);       /* 2; 3 is as old but not stable */
    expect_append(w, head(2, 0, 99, 1));
    expect_duplicate(w, head(3, 0, 0, 1), 2);
    prodwin_stable(w, 4);
    ck_assert_uint_eq(prodwin_expire(w, 3000, 1000), 1);
    ck_assert_uint_eq(prodwin_expire(w, 4000, 1000), 1);
    ck_assert_uint_eq(prodwin_count(w), 0);
    prodwin_free(w);
}
END_TEST

/* D12: at the ceiling the producer silent longest makes room; when all are unstable it is LIMIT. */
START_TEST(ceiling) {
    struct prodwin *w = NULL;
    for (int i = 0; i < LIMIT_PRODUCERS_PER_PARTITION; i++) {
        put(&w, head(i, 0, 0, 1), i, 0);
    }
    struct batch_head h = head(LIMIT_PRODUCERS_PER_PARTITION, 0, 0, 1);
    ck_assert_int_eq(prodwin_reserve(&w, &h, 7), ERR_LIMIT);
    prodwin_stable(w, 1);
    put(&w, h, LIMIT_PRODUCERS_PER_PARTITION, 0);
    ck_assert_uint_eq(prodwin_count(w), LIMIT_PRODUCERS_PER_PARTITION);
    expect_append(w, head(0, 0, 55, 1));
    expect_duplicate(w, head(1, 0, 0, 1), 1);
    prodwin_free(w);
}
END_TEST

/* A reserve whose append never came leaves no producer behind. */
START_TEST(reserve_without_note) {
    struct prodwin *w = NULL;
    struct batch_head h = head(1, 0, 5, 1);
    ck_assert_int_eq(prodwin_reserve(&w, &h, 7), ERR_OK);
    ck_assert_uint_eq(prodwin_count(w), 0);
    expect_append(w, head(1, 0, 5, 1));                        /* the refused one is due */
    struct str s;
    str_init(&s, 1000);
    ck_assert_int_eq(prodwin_snapshot(w, &s), ERR_OK);
    ck_assert_uint_eq(s.n, 0);
    ck_assert_uint_eq(prodwin_expire(w, 0, 1000), 0);
    prodwin_free(w);
}
END_TEST

/* The snapshot file byte for byte as Kafka lays it out. */
START_TEST(snapshot_bytes) {
    struct prodwin *w = NULL;
    struct batch_head h = head(0x0102030405060708, 0x1112, 0, 1);
    h.base_sequence = 0x21222324;
    h.last_offset_delta = 3;
    h.max_ts_ms = 0x4142434445464748;
    put(&w, h, 0x3132333435363730, 0);
    struct str s;
    str_init(&s, 1000);
    ck_assert_int_eq(prodwin_snapshot(w, &s), ERR_OK);
    static const uint8_t want[] = {
        0x00, 0x01, 0, 0, 0, 0, 0, 0, 0, 1,
        0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08,         /* producer id */
        0x11, 0x12,                                             /* epoch */
        0x21, 0x22, 0x23, 0x27,                                 /* last sequence */
        0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x33,         /* last offset */
        0x00, 0x00, 0x00, 0x03,                                 /* offset delta */
        0x41, 0x42, 0x43, 0x44, 0x45, 0x46, 0x47, 0x48,         /* timestamp */
        0xff, 0xff, 0xff, 0xff,                                 /* coordinator epoch */
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,         /* open transaction */
    };
    ck_assert_uint_eq(s.n, sizeof want);
    uint8_t got[sizeof want];
    memcpy(got, s.p, sizeof got);
    ck_assert_uint_eq(be32_get(got + 2), crc32c(got + 6, sizeof got - 6));
    memset(got + 2, 0, 4);
    ck_assert_mem_eq(got, want, sizeof want);
    str_done(&s);
    prodwin_free(w);
}
END_TEST

/* S6.8, T24: snapshot, load, and a retry of the last batch is still a duplicate; the file written again is the same file. */
START_TEST(snapshot_round_trip) {
    struct prodwin *w = NULL, *v = NULL;
    for (int i = 0; i < 300; i++) {
        put(&w, head(i * 7 % 300, (int16_t)(i % 5), i, i % 9 + 1), i * 20, 0);
    }
    struct batch_head c = head(1000, 4, -1, 1);
    c.attributes = BATCH_ATTR_CONTROL;
    put(&w, c, 7000, 0);
    struct str a, b;
    str_init(&a, 100000);
    str_init(&b, 100000);
    ck_assert_int_eq(prodwin_snapshot(w, &a), ERR_OK);
    ck_assert_int_eq(prodwin_load(&v, str_span(&a), 99), ERR_OK);
    ck_assert_uint_eq(prodwin_count(v), 301);
    ck_assert_int_eq(prodwin_snapshot(v, &b), ERR_OK);
    ck_assert(span_eq(str_span(&a), str_span(&b)));
    expect_duplicate(v, head(7, 1, 1, 2), 20);
    expect_append(v, head(7, 1, 3, 2));
    expect_err(v, head(7, 0, 3, 2), ERR_PRODUCER_FENCED);
    expect_append(v, head(1000, 4, 0, 1));
    expect_err(v, head(1000, 4, 1, 1), ERR_SEQUENCE_GAP);
    /* loaded producers start their time at the first call, whatever clock that is */
    ck_assert_uint_eq(prodwin_expire(v, 5, 1000), 0);
    ck_assert_uint_eq(prodwin_expire(v, 1004, 1000), 0);
    ck_assert_uint_eq(prodwin_expire(v, 1005, 1000), 301);
    str_done(&a);
    str_done(&b);
    prodwin_free(w);
    prodwin_free(v);
}
END_TEST

/* T10: the file cut at every length, and every byte of it changed, is DAMAGED and leaves the old window alone. */
/* S6.8, BR-027: after a clean restart each of the last five batches is still recognised, the sixth is not, and the sequence goes on. */
START_TEST(snapshot_keeps_five) {
    struct prodwin *w = NULL, *v = NULL;
    for (int i = 0; i < 9; i++) {
        put(&w, head(5, 2, i * 2, 2), i * 10, 0);
        prodwin_stable(w, i * 10 + 2);
    }
    put(&w, head(6, 0, 0, 1), 100, 0);
    prodwin_stable(w, 101);
    struct str s;
    str_init(&s, 10000);
    ck_assert_int_eq(prodwin_snapshot(w, &s), ERR_OK);
    ck_assert_int_eq(prodwin_load(&v, str_span(&s), 1), ERR_OK);
    for (int i = 4; i < 9; i++) {
        expect_duplicate(v, head(5, 2, i * 2, 2), i * 10);
    }
    expect_err(v, head(5, 2, 6, 2), ERR_SEQUENCE_GAP);
    expect_append(v, head(5, 2, 18, 1));
    for (size_t n = 0; n < s.n; n++) {
        ck_assert_int_eq(prodwin_load(&v, span_of(s.p, n), 0), ERR_DAMAGED);
    }
    str_done(&s);
    prodwin_free(w);
    prodwin_free(v);
}
END_TEST

/* S6.8: a producer whose epoch was raised by a control batch, behind batches of the old one: its file loads. Found by fuzz_prodwin. */
START_TEST(snapshot_of_a_raised_epoch) {
    struct prodwin *w = NULL, *v = NULL;
    struct batch_head c = head(5, 1, -1, 1);
    struct str s;
    c.attributes = BATCH_ATTR_CONTROL;
    put(&w, head(5, 0, 0, 10), 100, 0);
    put(&w, head(5, 0, 10, 10), 110, 0);
    put(&w, c, 120, 0);
    str_init(&s, 1 << 20);
    ck_assert_int_eq(prodwin_snapshot(w, &s), ERR_OK);
    ck_assert_int_eq(prodwin_load(&v, str_span(&s), 7), ERR_OK);
    expect_err(v, head(5, 0, 10, 10), ERR_PRODUCER_FENCED);
    expect_append(v, head(5, 1, 0, 1));
    str_done(&s);
    prodwin_free(v);
    prodwin_free(w);
}
END_TEST

START_TEST(snapshot_damage) {
    struct prodwin *w = NULL, *v = NULL;
    put(&w, head(1, 0, 0, 1), 0, 0);
    put(&w, head(2, 0, 0, 1), 1, 0);
    put(&v, head(9, 0, 0, 1), 0, 0);
    struct str s;
    str_init(&s, 1000);
    ck_assert_int_eq(prodwin_snapshot(w, &s), ERR_OK);
    for (size_t n = 0; n < s.n; n++) {
        ck_assert_int_eq(prodwin_load(&v, span_of(s.p, n), 0), ERR_DAMAGED);
    }
    for (size_t i = 0; i < s.n; i++) {
        s.p[i] ^= 0x40;
        ck_assert_int_eq(prodwin_load(&v, str_span(&s), 0), ERR_DAMAGED);
        s.p[i] ^= 0x40;
    }
    /* a good CRC over nonsense: twice the same producer, a negative id, a negative delta */
    static const struct { size_t at; uint8_t to; } lies[] = {{10 + 46 + 7, 1}, {10, 0x80}, {10 + 22, 0x80}, {10 + 8, 0x80}};
    for (size_t i = 0; i < 4; i++) {
        char old = s.p[lies[i].at];
        s.p[lies[i].at] = (char)lies[i].to;
        be32_put(s.p + 2, crc32c(s.p + 6, s.n - 6));
        ck_assert_int_eq(prodwin_load(&v, str_span(&s), 0), ERR_DAMAGED);
        s.p[lies[i].at] = old;
    }
    expect_duplicate(v, head(9, 0, 0, 1), 0);
    str_done(&s);
    prodwin_free(w);
    prodwin_free(v);
}
END_TEST

/* Every allocation fails in turn: NOMEM, and the window still tells the truth. */
START_TEST(torture) {
    for (uint64_t nth = 1; nth < 12; nth++) {
        struct prodwin *w = NULL;
        struct str s;
        str_init(&s, 10000);
        size_t noted = 0;
        for (int i = 0; i < 10; i++) {
            struct batch_head h = head(i % 2, 0, i / 2, 1);
            h.base_offset = i;
            mem_fail_nth(i == 0 ? nth : 0);
            err e = prodwin_reserve(&w, &h, 7);
            mem_fail_nth(0);
            if (e == ERR_OK) {
                prodwin_note(w, &h, 0);
                noted++;
            } else {
                ck_assert_int_eq(e, ERR_NOMEM);
            }
        }
        ck_assert_uint_ge(noted, 9);
        ck_assert_uint_eq(prodwin_count(w), 2);
        mem_fail_nth(nth);
        err e = prodwin_snapshot(w, &s);
        mem_fail_nth(0);
        ck_assert(e == ERR_OK || e == ERR_NOMEM);
        if (e == ERR_OK) {
            struct prodwin *v = NULL;
            mem_fail_nth(nth);
            e = prodwin_load(&v, str_span(&s), 1);
            mem_fail_nth(0);
            ck_assert(e == ERR_OK ? prodwin_count(v) == 2 : v == NULL);
            prodwin_free(v);
        }
        str_done(&s);
        prodwin_free(w);
    }
    ck_assert_uint_eq(mem_live(MEM_PROD), 0);
}
END_TEST

/* ---- model ---- */

struct twin_batch {
    int64_t id;
    int16_t epoch;
    int32_t seq, count;
    off64 base;
};
static struct twin_batch twin[100000];
static int twin_n;
static struct twin_batch due[6];       /* by id: the oldest batch taken back of a producer that has none left; count 0: nothing is due */

static void twin_cut(int keep) {
    for (int i = twin_n - 1; i >= keep; i--) {
        due[twin[i].id] = twin[i];
    }
    for (int i = 0; i < keep; i++) {
        due[twin[i].id].count = 0;
    }
    twin_n = keep;
}

static int64_t seq_end(const struct twin_batch *b) { return ((int64_t)b->seq + b->count) % ((int64_t)INT32_MAX + 1); }

/* The rules written the plain way: err, or the base offset of the duplicate, or -1 to append. */
static err twin_check(const struct batch_head *h, off64 *ret_base) {
    int seen = 0;
    *ret_base = -1;
    const struct twin_batch *last = NULL;
    for (int i = twin_n - 1; i >= 0; i--) {
        const struct twin_batch *b = &twin[i];
        if (b->id != h->producer_id) {
            continue;
        }
        if (last == NULL) {
            last = b;
            if (h->producer_epoch < b->epoch) {
                return ERR_PRODUCER_FENCED;
            }
            if (h->producer_epoch > b->epoch) {
                return h->base_sequence == 0 ? ERR_OK : ERR_SEQUENCE_GAP;
            }
        }
        if (b->epoch != last->epoch || seen++ == 5) {
            break;
        }
        if (b->seq == h->base_sequence && b->count == h->last_offset_delta + 1) {
            *ret_base = b->base;
            return ERR_OK;
        }
    }
    const struct twin_batch *owed = &due[h->producer_id];
    if (last == NULL && owed->count > 0 && h->producer_epoch >= owed->epoch) {
        return h->base_sequence == (h->producer_epoch > owed->epoch ? 0 : owed->seq) ? ERR_OK : ERR_SEQUENCE_GAP;
    }
    return last == NULL || h->base_sequence == seq_end(last) ? ERR_OK : ERR_SEQUENCE_GAP;
}

static struct batch_head twin_random(struct prng *r) {
    int64_t id = (int64_t)prng_below(r, 6);
    const struct twin_batch *last = NULL, *some = NULL;
    for (int i = twin_n - 1; i >= 0 && i > twin_n - 60; i--) {
        if (twin[i].id == id) {
            last = last == NULL ? &twin[i] : last;
            some = prng_chance(r, 1, 3) ? &twin[i] : some;
        }
    }
    struct batch_head h = head(id, 0, (int32_t)(prng_chance(r, 1, 2) ? INT32_MAX - prng_below(r, 30) : prng_below(r, 30)), (int32_t)prng_below(r, 5) + 1);
    if (last != NULL) {
        h.producer_epoch = last->epoch;
        switch (prng_below(r, 8)) {
        case 0:
            h.producer_epoch = (int16_t)(last->epoch + (int16_t)prng_below(r, 3) - 1);
            h.base_sequence = prng_chance(r, 1, 2) ? 0 : h.base_sequence;
            break;
        case 1:
            break;
        case 2:
        case 3:
            if (some != NULL) {
                h = head(id, some->epoch, some->seq, some->count);
            }
            break;
        default:
            h.base_sequence = (int32_t)seq_end(last);
        }
    }
    h.producer_epoch = h.producer_epoch < 0 ? 0 : h.producer_epoch;
    return h;
}

START_TEST(prodwin_model) {
    struct prng r;
    prng_seed(&r, (uint64_t)_i);
    struct prodwin *w = NULL;
    off64 next = 0, stable = 0;
    twin_cut(0);
    memset(due, 0, sizeof due);
    uint64_t duplicates = 0, gaps = 0, fenced = 0, undone = 0;
    for (int step = 0; step < 20000; step++) {
        struct batch_head h = twin_random(&r);
        struct prodwin_answer a;
        off64 base;
        err want = twin_check(&h, &base), got = prodwin_check(w, &h, &a);
        ck_assert_msg(want == got, "seed %d step %d: want %s got %s", _i, step, err_name(want), err_name(got));
        gaps += got == ERR_SEQUENCE_GAP;
        fenced += got == ERR_PRODUCER_FENCED;
        if (got == ERR_OK && base >= 0) {
            duplicates++;
            ck_assert_int_eq(a.verdict, PRODWIN_DUPLICATE);
            ck_assert_int_eq(a.base_offset, base);
        } else if (got == ERR_OK) {
            ck_assert_int_eq(a.verdict, PRODWIN_APPEND);
            ck_assert_int_eq(prodwin_reserve(&w, &h, 3), ERR_OK);
            h.base_offset = next;
            prodwin_note(w, &h, step);
            due[h.producer_id].count = 0;
            twin[twin_n++] = (struct twin_batch){h.producer_id, h.producer_epoch, h.base_sequence, h.count, next};
            next += h.count;
        }
        if (twin_n > 0 && twin[twin_n - 1].base >= stable && prng_chance(&r, 1, 20)) {
            int keep = twin_n;                                 /* cut at a batch boundary above stable */
            while (keep > 0 && twin[keep - 1].base >= stable && prng_chance(&r, 3, 4)) {
                keep--;
            }
            off64 from = keep == twin_n ? next : twin[keep].base;
            prodwin_undo(w, from);
            undone += (uint64_t)(twin_n - keep);
            twin_cut(keep);
            next = from;
        }
        if (prng_chance(&r, 1, 6) || (twin_n > PRODWIN_BATCHES - 2 && twin[twin_n - PRODWIN_BATCHES + 2].base >= stable)) {
            stable = prng_chance(&r, 1, 3) || twin_n < 8 ? next : twin[twin_n - 4].base > stable ? twin[twin_n - 4].base : stable;
            prodwin_stable(w, stable);
        }
    }
    ck_assert_uint_gt(duplicates, 500);
    ck_assert_uint_gt(gaps, 500);
    ck_assert_uint_gt(fenced, 50);
    ck_assert_uint_gt(undone, 100);
    prodwin_free(w);
    ck_assert_uint_eq(mem_live(MEM_PROD), 0);
}
END_TEST

int main(void) {
    Suite *s = suite_create("prodwin");
    TCase *t = tcase_create("prodwin");
    tcase_add_test(t, five_batch_window);
    tcase_add_test(t, replay_of_five_in_flight);
    tcase_add_test(t, window_while_unstable);
    tcase_add_test(t, same_epoch_must_follow);
    tcase_add_test(t, sequence_wraps);
    tcase_add_test(t, epoch_rules);
    tcase_add_test(t, negative_sequence);
    tcase_add_test(t, unknown_producer);
    tcase_add_test(t, control_batch);
    tcase_add_test(t, undo_newest);
    tcase_add_test(t, undo_whole_window);
    tcase_add_test(t, reserved_and_refused);
    tcase_add_test(t, undo_epoch);
    tcase_add_test(t, undo_beyond_memory);
    tcase_add_test(t, expiry);
    tcase_add_test(t, ceiling);
    tcase_add_test(t, reserve_without_note);
    tcase_add_test(t, snapshot_bytes);
    tcase_add_test(t, snapshot_round_trip);
    tcase_add_test(t, snapshot_keeps_five);
    tcase_add_test(t, snapshot_of_a_raised_epoch);
    tcase_add_test(t, snapshot_damage);
    tcase_add_test(t, torture);
    tcase_add_loop_test(t, prodwin_model, 0, 8);
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
