/* Goal: fetch sessions keep S7.30-7.39: what a poll has to look at, in which order, what an answer must tell, epochs, and who gives way when the cache is full; and what does not move
 * is never touched.
 * Method: small stories, then random operations against a naive twin that looks at every partition at every poll. */
#include "state/fsessions.h"

#include <check.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/must.h"
#include "base/prng.h"

struct tpart {
    struct fsession_part p;
    int tag;
};

static struct fsession_part *dropped[4096];
static size_t dropped_n;

static void on_drop(void *u, struct fsession_part *p) {
    (void)u;
    must(dropped_n < 4096);
    dropped[dropped_n++] = p;
}

static struct fsessions fs;

static void begin_of(size_t sessions, size_t bytes) {
    dropped_n = 0;
    fsessions_init(&fs, &(struct fsessions_conf){.sessions_max = sessions, .bytes_max = bytes, .parts_max = 1000, .part_bytes = sizeof(struct tpart), .index = 1, .of = 3,
                                                 .seed = 7, .drop = on_drop});
}

static void begin(void) { begin_of(10, 1 << 20); }

static void watches_home(void) {
    for (size_t i = 0; i < dropped_n; i++) {
        ck_assert(dropped[i]->watched && dropped[i]->s == NULL);
        dropped[i]->watched = false;
        fsession_part_free(&fs, dropped[i]);
    }
    dropped_n = 0;
}

static void end(void) {
    fsessions_close_all(&fs);
    watches_home();
    ck_assert(fsessions_is_empty(&fs));
    ck_assert_uint_eq(fs.dropped_bytes, 0);
    fsessions_done(&fs);
    ck_assert_uint_eq(mem_live(MEM_SESSION), 0);
}

static struct fsession *open_of(ms now, size_t parts, bool privileged) {
    struct fsession *s = NULL;
    static uint64_t random = 12345;
    struct fsession_open in = {.now = now, .random = random += 77, .parts_n = parts, .privileged = privileged};
    return fsessions_open(&fs, &in, &s) == ERR_OK ? s : NULL;
}

static struct fsession_key key(const char *topic, int32_t partition) { return (struct fsession_key){.name = span_str(topic), .partition = partition}; }

static struct fsession_part *put(struct fsession *s, const char *topic, int32_t partition, off64 from) {
    struct fsession_key k = key(topic, partition);
    struct fsession_part *p = NULL;
    bool fresh;
    ck_assert_int_eq(fsession_put(s, &k, &(struct fsession_want){.from = from, .bytes_max = 100}, &p, &fresh), ERR_OK);
    if (fresh) {
        ((struct tpart *)(void *)p)->tag = 0x7a67;
    }
    ck_assert_int_eq(((struct tpart *)(void *)p)->tag, 0x7a67);
    return p;
}

static struct fsession *open_with(ms now, int32_t parts, bool privileged) {
    struct fsession *s = open_of(now, (size_t)parts, privileged);
    for (int32_t i = 0; s != NULL && i < parts; i++) {
        put(s, "t", i, 0);
    }
    return s;
}

static void rest(struct fsession *s) {             /* everything due is looked at, nothing found, watched */
    fsession_take(s, true);
    list_each(it, &s->out) {
        fsession_verdict(list_entry(it, struct fsession_part, link), FSESSION_NOTHING, 0);
    }
    list_each(it, &s->out) {
        list_entry(it, struct fsession_part, link)->watched = true;
    }
    fsession_settle(s);
}

/* The partitions out, in order, as digits. */
static const char *out(struct fsession *s) {
    static char text[64];
    size_t n = 0;
    list_each(it, &s->out) {
        text[n++] = (char)('0' + list_entry(it, struct fsession_part, link)->partition);
    }
    text[n] = '\0';
    return text;
}

/* Verdicts for the parts out, one letter each: n(othing) e(nough not) l(eft) s(erved). */
static void judge(struct fsession *s, const char *verdicts) {
    list_each(it, &s->out) {
        struct fsession_part *p = list_entry(it, struct fsession_part, link);
        char v = *verdicts++;
        fsession_verdict(p, v == 'n' ? FSESSION_NOTHING : v == 'e' ? FSESSION_NOT_ENOUGH : v == 'l' ? FSESSION_LEFT : FSESSION_SERVED, v == 'e' ? 10 : 0);
    }
    ck_assert_int_eq(*verdicts, '\0');
    fsession_settle(s);
}

START_TEST(S7_33_epochs_count_from_1_and_wrap_to_1) {
    begin();
    struct fsession *s = open_of(0, 0, false), *found;
    ck_assert_int_gt(s->id, 0);
    ck_assert_int_eq(s->next_epoch, 1);
    for (int32_t e = 1; e < 50; e++) {
        ck_assert_int_eq(fsessions_find(&fs, s->id, e, false, &found), ERR_OK);
        ck_assert_ptr_eq(found, s);
        ck_assert_int_eq(fsessions_find(&fs, s->id, e + 1, false, &found), ERR_BAD_SESSION_EPOCH);
        ck_assert_int_eq(fsessions_find(&fs, s->id, e - 1, false, &found), ERR_BAD_SESSION_EPOCH);
        fsessions_begin(s, 0);
        fsessions_end(s, 0);
    }
    s->next_epoch = INT32_MAX;
    fsessions_begin(s, 0);
    fsessions_end(s, 0);
    ck_assert_int_eq(s->next_epoch, 1);
    end();
}
END_TEST

START_TEST(S7_32_S7_36_unknown_ids_wrong_epochs_and_mixed_versions) {
    begin();
    struct fsession *s = open_of(0, 0, false), *found;
    ck_assert_int_eq(fsessions_find(&fs, s->id + 1, 1, false, &found), ERR_NO_SESSION);
    ck_assert_int_eq(fsessions_find(&fs, 0, 1, false, &found), ERR_NO_SESSION);
    ck_assert_int_eq(fsessions_find(&fs, s->id, 1, true, &found), ERR_SESSION_BY_ID);
    ck_assert_int_eq(fsessions_find(&fs, s->id, 2, true, &found), ERR_BAD_SESSION_EPOCH);      /* the epoch comes first */
    fsessions_begin(s, 0);
    ck_assert_int_eq(fsessions_find(&fs, s->id, 2, false, &found), ERR_BAD_SESSION_EPOCH);     /* a poll is under way */
    fsessions_end(s, 0);
    ck_assert_int_eq(fsessions_find(&fs, s->id, 2, false, &found), ERR_OK);
    int32_t id = s->id;
    fsessions_close(s);
    ck_assert_int_eq(fsessions_find(&fs, id, 2, false, &found), ERR_NO_SESSION);
    end();
}
END_TEST

START_TEST(ids_differ_and_name_their_cache) {
    begin();
    int32_t seen[10];
    for (int i = 0; i < 10; i++) {
        struct fsession *s = open_of(0, 0, false);
        seen[i] = s->id;
        ck_assert_int_eq(s->id % 3, 2);                /* cache 1 of 3 */
        for (int k = 0; k < i; k++) {
            ck_assert_int_ne(seen[k], s->id);
        }
    }
    fsessions_close_all(&fs);
    struct fsession *s = NULL;
    ck_assert_int_eq(fsessions_open(&fs, &(struct fsession_open){.random = UINT64_MAX}, &s), ERR_OK);
    ck_assert_int_gt(s->id, 0);
    end();
}
END_TEST

START_TEST(S7_34_parts_come_are_updated_and_go) {
    begin();
    struct fsession *s = open_with(0, 3, false);
    ck_assert_uint_eq(fsession_take(s, true), 3);
    ck_assert_str_eq(out(s), "012");
    judge(s, "nnn");
    ck_assert_uint_eq(fsession_take(s, true), 0);
    struct fsession_part *p = put(s, "t", 1, 77);
    ck_assert_int_eq(p->want.from, 77);
    put(s, "u", 1, 5);
    struct fsession_key k = key("t", 0);
    fsession_forget(s, &k);
    fsession_forget(s, &k);
    k = key("never", 0);
    fsession_forget(s, &k);
    ck_assert_uint_eq(s->parts.n, 3);
    ck_assert_uint_eq(s->topics.n, 2);
    ck_assert_uint_eq(fsession_take(s, true), 2);
    ck_assert_str_eq(out(s), "11");
    judge(s, "nn");
    k = key("u", 1);
    fsession_forget(s, &k);
    ck_assert_uint_eq(s->topics.n, 1);
    end();
}
END_TEST

START_TEST(topics_by_id_and_by_name_are_apart) {
    begin();
    struct fsession *s = NULL;
    struct fsession_part *a, *b;
    bool fresh;
    ck_assert_int_eq(fsessions_open(&fs, &(struct fsession_open){.by_id = true, .parts_n = 2}, &s), ERR_OK);
    struct fsession_key x = {.id = {{1}}, .name = SPAN_NULL}, y = {.id = {{2}}, .name = SPAN_NULL};
    struct fsession_want w = {.from = 1};
    ck_assert_int_eq(fsession_put(s, &x, &w, &a, &fresh), ERR_OK);
    ck_assert(fresh);
    ck_assert_int_eq(fsession_put(s, &y, &w, &b, &fresh), ERR_OK);
    ck_assert(fresh && a != b && a->topic != b->topic);
    ck_assert_int_eq(fsession_put(s, &x, &w, &b, &fresh), ERR_OK);
    ck_assert(!fresh && a == b && uuid_eq(a->topic->id, x.id));
    end();
}
END_TEST

START_TEST(S7_37_served_parts_go_to_the_end_and_those_left_stay_in_front) {
    begin();
    struct fsession *s = open_with(0, 4, false);
    fsession_take(s, true);
    judge(s, "slls");
    fsession_take(s, true);
    ck_assert_str_eq(out(s), "1203");
    judge(s, "lsnl");
    fsession_take(s, true);
    ck_assert_str_eq(out(s), "132");
    judge(s, "sss");
    put(s, "t", 3, 5);                             /* an update does not change its turn */
    fsession_take(s, true);
    ck_assert_str_eq(out(s), "132");
    judge(s, "nnn");
    end();
}
END_TEST

START_TEST(parts_that_arrive_during_a_look_stand_between_those_left_and_those_served) {
    begin();
    struct fsession *s = open_with(0, 6, false);
    rest(s);
    for (int32_t i = 0; i < 3; i++) {
        put(s, "t", i, 1);
    }
    ck_assert_uint_eq(fsession_take(s, true), 3);
    ck_assert_str_eq(out(s), "012");
    struct fsession_part *p4 = NULL;
    for (struct map_node *nd = map_next(&s->parts, NULL); nd != NULL; nd = map_next(&s->parts, nd)) {
        struct fsession_part *p = list_entry(nd, struct fsession_part, node);
        p4 = p->partition == 4 ? p : p4;
    }
    fsession_moved(p4);
    judge(s, "sln");
    fsession_take(s, true);
    ck_assert_str_eq(out(s), "140");
    judge(s, "nnn");
    end();
}
END_TEST

START_TEST(a_part_that_moves_while_it_is_looked_at_is_looked_at_again) {
    begin();
    struct fsession *s = open_with(0, 2, false);
    rest(s);
    struct fsession_part *p = put(s, "t", 1, 1);       /* due, and its watch is still out */
    ck_assert(p->watched);
    fsession_take(s, true);
    fsession_moved(p);
    judge(s, "n");
    ck_assert_int_eq(p->at, FSESSION_DUE);
    ck_assert_uint_eq(fsession_take(s, true), 1);
    judge(s, "n");
    ck_assert_int_eq(p->at, FSESSION_IDLE);
    ck_assert(!p->watched);                            /* the caller has to watch it again */
    end();
}
END_TEST

START_TEST(S7_4_what_is_found_adds_up_and_only_what_moved_is_looked_at_again) {
    begin();
    struct fsession *s = open_with(0, 3, false);
    fsession_take(s, false);
    list_each(it, &s->out) {
        list_entry(it, struct fsession_part, link)->watched = true;
    }
    judge(s, "ene");
    ck_assert_uint_eq(s->found, 20);
    ck_assert_uint_eq(fsession_take(s, false), 0);
    struct fsession_part *p = list_entry(s->some.next, struct fsession_part, link);
    ck_assert_int_eq(p->partition, 0);
    fsession_moved(p);
    ck_assert_uint_eq(s->found, 10);
    ck_assert_uint_eq(fsession_take(s, false), 1);
    p->watched = true;
    judge(s, "e");
    ck_assert_uint_eq(s->found, 20);
    ck_assert_uint_eq(fsession_take(s, true), 2);
    ck_assert_str_eq(out(s), "20");
    ck_assert_uint_eq(s->found, 0);
    judge(s, "nn");
    end();
}
END_TEST

START_TEST(S7_35_news_are_changed_ends_and_whatever_follows_an_error) {
    begin();
    struct fsession *s = open_with(0, 1, false);
    struct fsession_part *p = put(s, "t", 0, 0);
    struct fsession_ends ends = {5, 5, 0}, none = {-1, -1, -1};
    ck_assert(fsession_is_news(p, &ends));             /* never told */
    fsession_tell(p, &ends, false);
    ck_assert(!fsession_is_news(p, &ends));
    ck_assert(fsession_is_news(p, &(struct fsession_ends){6, 5, 0}));
    ck_assert(fsession_is_news(p, &(struct fsession_ends){5, 4, 0}));
    ck_assert(fsession_is_news(p, &(struct fsession_ends){5, 5, 1}));
    fsession_tell(p, &none, true);
    ck_assert(fsession_is_news(p, &ends));
    fsession_tell(p, &ends, true);                     /* diverging: ends without an error code */
    ck_assert(fsession_is_news(p, &ends));
    end();
}
END_TEST

START_TEST(a_watched_part_that_leaves_stays_until_its_watch_is_home) {
    begin();
    struct fsession *s = open_with(0, 3, false);
    rest(s);
    size_t bytes = fs.bytes;
    struct fsession_key k = key("t", 1);
    fsession_forget(s, &k);
    ck_assert_uint_eq(dropped_n, 1);
    ck_assert_uint_eq(fs.bytes, bytes);
    struct fsession_part *again = put(s, "t", 1, 3);   /* back before the watch is: another one */
    ck_assert_ptr_ne(again, dropped[0]);
    watches_home();
    ck_assert_uint_eq(fs.bytes, bytes);
    ck_assert_int_eq(again->want.from, 3);
    end();
}
END_TEST

START_TEST(a_busy_session_closes_when_its_poll_ends) {
    begin();
    struct fsession *s = open_with(0, 2, false), *found;
    int32_t id = s->id;
    fsessions_begin(s, 0);
    fsession_take(s, true);
    fsessions_close(s);
    fsessions_close(s);
    ck_assert_int_eq(fsessions_find(&fs, id, 2, false, &found), ERR_NO_SESSION);
    ck_assert_uint_eq(s->parts.n, 2);
    judge(s, "ss");
    fsessions_end(s, 0);
    ck_assert_uint_eq(fs.n, 0);
    ck_assert_uint_eq(fs.bytes, 0);
    end();
}
END_TEST

/* ---- room ---- */

START_TEST(S7_38_without_room_and_without_a_stale_or_smaller_old_one_there_is_no_session) {
    begin_of(2, 1 << 20);
    ck_assert_ptr_nonnull(open_with(0, 5, false));
    ck_assert_ptr_nonnull(open_with(0, 5, false));
    ck_assert_ptr_null(open_of(0, 100, false));
    ck_assert_ptr_null(open_of(FSESSIONS_IDLE_MS, 100, false));        /* to the last millisecond */
    ck_assert_uint_eq(fs.n, 2);
    end();
}
END_TEST

START_TEST(S7_38_the_session_that_nobody_polled_for_two_minutes_goes_first) {
    begin_of(3, 1 << 20);
    struct fsession *a = open_with(0, 9, false), *b = open_with(1, 1, false), *c = open_with(2, 9, false);
    int32_t ids[] = {a->id, b->id, c->id};
    fsessions_begin(a, 50000);
    fsessions_end(a, 50000);
    struct fsession *d = open_of(2 + FSESSIONS_IDLE_MS, 0, false);     /* b is 1 ms over */
    ck_assert_ptr_nonnull(d);
    ck_assert_ptr_null(fsessions_by_id(&fs, ids[1]));
    ck_assert_ptr_nonnull(open_of(3 + FSESSIONS_IDLE_MS, 0, false));
    ck_assert_ptr_null(fsessions_by_id(&fs, ids[2]));
    ck_assert_ptr_nonnull(fsessions_by_id(&fs, ids[0]));
    end();
}
END_TEST

START_TEST(S7_38_an_old_session_gives_way_to_a_larger_one_the_smallest_first) {
    begin_of(3, 1 << 20);
    struct fsession *a = open_with(0, 4, false), *b = open_with(0, 2, false), *c = open_with(0, 3, false);
    int32_t ids[] = {a->id, b->id, c->id};
    ms later = FSESSIONS_IDLE_MS + 1;
    struct fsession *all[] = {a, b, c};
    for (int i = 0; i < 3; i++) {                  /* all in use */
        fsessions_begin(all[i], later);
        fsessions_end(all[i], later);
    }
    ck_assert_ptr_null(open_of(later, 1, false));
    ck_assert_ptr_null(open_of(later, 2, false));      /* as large as the smallest: no */
    ck_assert_ptr_nonnull(open_of(later, 3, false));
    ck_assert_ptr_null(fsessions_by_id(&fs, ids[1]));
    ck_assert_ptr_null(open_of(later, 3, false));      /* the young one is safe, the 3 and 4 are not smaller */
    ck_assert_ptr_nonnull(open_of(later, 100, false));
    ck_assert_ptr_null(fsessions_by_id(&fs, ids[2]));
    ck_assert_uint_eq(fs.evicted, 2);
    end();
}
END_TEST

START_TEST(S7_38_followers_rank_above_consumers) {
    begin_of(2, 1 << 20);
    struct fsession *a = open_with(0, 50, false), *b = open_with(0, 3, true);
    int32_t consumer = a->id, follower = b->id;
    ck_assert_ptr_nonnull(open_of(1, 0, true));        /* a young consumer gives way to a follower, however small */
    ck_assert_ptr_null(fsessions_by_id(&fs, consumer));
    ck_assert_ptr_nonnull(fsessions_by_id(&fs, follower));
    ck_assert_ptr_null(open_of(2, 900, true));         /* a young follower does not */
    ms later = FSESSIONS_IDLE_MS + 1;
    fsessions_begin(b, later);
    fsessions_end(b, later);
    struct fsession *c = list_entry(fs.used.next, struct fsession, used_link);
    fsessions_begin(c, later);
    fsessions_end(c, later);
    ck_assert_ptr_null(open_of(later + 1, 900, false));        /* no follower gives way to a consumer */
    ck_assert_ptr_nonnull(open_of(later + 1, 900, true));
    end();
}
END_TEST

START_TEST(S7_38_a_session_whose_poll_waits_is_never_evicted) {
    begin_of(1, 1 << 20);
    struct fsession *a = open_with(0, 1, false);
    int32_t id = a->id;
    fsessions_begin(a, 0);
    ck_assert_ptr_null(open_of(10 * FSESSIONS_IDLE_MS, 900, true));
    fsessions_end(a, 0);
    ck_assert_ptr_nonnull(open_of(10 * FSESSIONS_IDLE_MS, 1, false));
    ck_assert_ptr_null(fsessions_by_id(&fs, id));
    end();
}
END_TEST

START_TEST(memory_is_bounded_new_sessions_evict_for_it_and_growing_ones_are_told) {
    begin_of(100, 40000);
    struct fsession *s = open_with(0, 10, false);
    ck_assert_ptr_nonnull(s);
    ck_assert_ptr_null(open_of(1, 900, false));        /* would never fit */
    ck_assert_uint_eq(fs.n, 1);
    err e = ERR_OK;
    int32_t n = 10;
    for (; e == ERR_OK && n < 2000; n++) {
        struct fsession_key k = key("t", n);
        struct fsession_part *p;
        bool fresh;
        e = fsession_put(s, &k, &(struct fsession_want){.from = 0}, &p, &fresh);
    }
    ck_assert_int_eq(e, ERR_LIMIT);
    ck_assert_uint_le(fs.bytes, 40000);
    ck_assert_uint_eq(s->parts.n, (size_t)n - 1);
    ck_assert_ptr_null(open_of(2, 1, false));
    size_t held = fs.bytes;
    rest(s);
    ck_assert_ptr_nonnull(open_of(FSESSIONS_IDLE_MS + 1, 1, false));   /* the stale one goes; what waits for watches counts no more */
    ck_assert_uint_eq(fs.n, 1);
    ck_assert_uint_gt(fs.bytes, held / 2);
    watches_home();
    ck_assert_uint_lt(fs.bytes, 4000);
    end();
}
END_TEST

START_TEST(a_session_has_at_most_so_many_parts) {
    begin_of(10, 10 << 20);
    ck_assert_ptr_null(open_of(0, 1001, false));
    struct fsession *s = open_with(0, 1000, false);
    ck_assert_ptr_nonnull(s);
    struct fsession_key k = key("more", 0);
    struct fsession_part *p;
    bool fresh;
    ck_assert_int_eq(fsession_put(s, &k, &(struct fsession_want){.from = 0}, &p, &fresh), ERR_LIMIT);
    ck_assert_uint_eq(s->topics.n, 1);
    put(s, "t", 999, 5);                               /* an update is none more */
    end();
}
END_TEST

START_TEST(without_memory_nothing_changes) {
    begin();
    struct fsession *s = open_with(0, 1, false);
    for (uint64_t nth = 1; nth < 10; nth++) {
        size_t bytes = fs.bytes, parts = s->parts.n, topics = s->topics.n;
        struct fsession_key k = key("new", (int32_t)nth);
        struct fsession_part *p;
        bool fresh;
        mem_fail_nth(nth);
        err e = fsession_put(s, &k, &(struct fsession_want){.from = 0}, &p, &fresh);
        mem_fail_nth(0);
        if (e != ERR_OK) {
            ck_assert_uint_eq(fs.bytes, bytes);
            ck_assert_uint_eq(s->parts.n, parts);
            ck_assert_uint_eq(s->topics.n, topics);
        }
    }
    for (uint64_t nth = 1; nth < 4; nth++) {
        mem_fail_nth(nth);
        struct fsession *t = open_of(0, 1, false);
        mem_fail_nth(0);
        if (t != NULL) {
            fsessions_close(t);
        }
        ck_assert_uint_eq(fs.n, 1);
    }
    end();
}
END_TEST

/* ---- the twin ---- */

enum { PARTS = 24 };

/* A partition's log, and what a naive session of Kafka's kind knows of it. */
struct twin {
    bool there;
    off64 from, told;
    off64 end;                         /* of the log */
    bool failing;
    int waited;                        /* polls that it had data and got none */
};

struct model {
    struct prng rng;
    struct twin t[PARTS];
    struct fsession *s;
    struct fsession_part *part[PARTS];
    uint64_t looked;                   /* parts looked at */
};

static void model_move(struct model *m, int32_t i, off64 by) {
    m->t[i].end += by;
    if (m->part[i] != NULL && m->part[i]->watched) {
        fsession_moved(m->part[i]);
    }
}

static void model_watch(struct model *m) {
    for (int32_t i = 0; i < PARTS; i++) {
        struct fsession_part *p = m->part[i];
        if (p != NULL && !p->watched && (p->at == FSESSION_IDLE || p->at == FSESSION_SOME)) {
            p->watched = true;
        }
    }
}

/* One poll that does not wait; at most `room` partitions are served. What the session tells must be what the twin, which looks at all of them, would tell. */
static void model_poll(struct model *m, int room) {
    bool told[PARTS] = {false}, served[PARTS] = {false};
    fsessions_begin(m->s, 0);
    m->looked += fsession_take(m->s, true);
    list_each(it, &m->s->out) {
        struct fsession_part *p = list_entry(it, struct fsession_part, link);
        struct twin *t = &m->t[p->partition];
        struct fsession_ends ends = {t->failing ? -1 : t->end, t->failing ? -1 : t->end, t->failing ? -1 : 0};
        bool data = !t->failing && p->want.from < t->end;
        served[p->partition] = data && room > 0;
        room -= served[p->partition];
        told[p->partition] = served[p->partition] || t->failing || fsession_is_news(p, &ends);
        fsession_verdict(p, served[p->partition] ? FSESSION_SERVED : data || t->failing ? FSESSION_LEFT : FSESSION_NOTHING, 0);
        if (told[p->partition]) {
            fsession_tell(p, &ends, t->failing);
        }
    }
    fsession_settle(m->s);
    model_watch(m);
    fsessions_end(m->s, 0);
    for (int32_t i = 0; i < PARTS; i++) {
        struct twin *t = &m->t[i];
        bool data = t->there && !t->failing && t->from < t->end;
        bool news = t->there && (t->failing || t->told != t->end);
        ck_assert(!served[i] || data);
        ck_assert_int_eq(told[i], served[i] || news);              /* S7.35: exactly what is news, or records */
        ck_assert(served[i] || room <= 0 || !data);                /* nothing that fits is left out */
        t->told = !told[i] ? t->told : t->failing ? -1 : t->end;
        t->waited = data && !served[i] ? t->waited + 1 : 0;
        ck_assert_int_le(t->waited, PARTS);                        /* S7.37: nobody starves */
        if (served[i]) {
            t->from += prng_below(&m->rng, 2) == 0 ? 1 : t->end - t->from;
        }
    }
}

static void model_update(struct model *m, int32_t i) {
    m->t[i].told = m->t[i].there ? m->t[i].told : -1;
    m->t[i].there = true;
    m->part[i] = put(m->s, "t", i, m->t[i].from);
}

static void model_forget(struct model *m, int32_t i) {
    struct fsession_key k = key("t", i);
    fsession_forget(m->s, &k);
    m->part[i] = NULL;
    m->t[i].there = false;
    m->t[i].waited = 0;
}

static void model_step(struct model *m) {
    int32_t i = (int32_t)prng_below(&m->rng, PARTS);
    switch (prng_below(&m->rng, 10)) {
    case 0:
        model_forget(m, i);
        break;
    case 1:
        m->t[i].failing = !m->t[i].failing;        /* as when a topic goes and comes */
        model_move(m, i, 0);
        break;
    case 2:
        watches_home();
        break;
    case 3: case 4: case 5:
        model_move(m, i, 1 + (off64)prng_below(&m->rng, 3));
        break;
    default:
        for (int32_t k = 0; k < PARTS; k++) {      /* a client tells how far it came before it polls */
            if (m->part[k] != NULL && m->part[k]->want.from != m->t[k].from) {
                model_update(m, k);
            }
        }
        if (m->part[i] == NULL || prng_below(&m->rng, 4) == 0) {
            model_update(m, i);
        }
        model_poll(m, (int)prng_below(&m->rng, 4));
    }
}

START_TEST(a_session_tells_what_one_that_looks_at_everything_would_tell) {
    for (uint64_t seed = 1; seed <= 300; seed++) {
        begin();
        struct model m = {.s = open_of(0, PARTS, false)};
        prng_seed(&m.rng, seed);
        for (int step = 0; step < 400; step++) {
            model_step(&m);
        }
        end();
    }
}
END_TEST

START_TEST(a_poll_costs_what_moved_not_what_is_there) {
    begin_of(10, 10 << 20);
    struct fsession *s = open_with(0, 1000, false);
    rest(s);
    for (int i = 0; i < 1000; i++) {
        fsessions_begin(s, i);
        ck_assert_uint_eq(fsession_take(s, true), 0);
        fsession_settle(s);
        fsessions_end(s, 0);
    }
    put(s, "t", 500, 1);
    ck_assert_uint_eq(fsession_take(s, true), 1);
    judge(s, "n");
    end();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("fsession");
    TCase *c = tcase_create("all");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, S7_33_epochs_count_from_1_and_wrap_to_1);
    tcase_add_test(c, S7_32_S7_36_unknown_ids_wrong_epochs_and_mixed_versions);
    tcase_add_test(c, ids_differ_and_name_their_cache);
    tcase_add_test(c, S7_34_parts_come_are_updated_and_go);
    tcase_add_test(c, topics_by_id_and_by_name_are_apart);
    tcase_add_test(c, S7_37_served_parts_go_to_the_end_and_those_left_stay_in_front);
    tcase_add_test(c, parts_that_arrive_during_a_look_stand_between_those_left_and_those_served);
    tcase_add_test(c, a_part_that_moves_while_it_is_looked_at_is_looked_at_again);
    tcase_add_test(c, S7_4_what_is_found_adds_up_and_only_what_moved_is_looked_at_again);
    tcase_add_test(c, S7_35_news_are_changed_ends_and_whatever_follows_an_error);
    tcase_add_test(c, a_watched_part_that_leaves_stays_until_its_watch_is_home);
    tcase_add_test(c, a_busy_session_closes_when_its_poll_ends);
    tcase_add_test(c, S7_38_without_room_and_without_a_stale_or_smaller_old_one_there_is_no_session);
    tcase_add_test(c, S7_38_the_session_that_nobody_polled_for_two_minutes_goes_first);
    tcase_add_test(c, S7_38_an_old_session_gives_way_to_a_larger_one_the_smallest_first);
    tcase_add_test(c, S7_38_followers_rank_above_consumers);
    tcase_add_test(c, S7_38_a_session_whose_poll_waits_is_never_evicted);
    tcase_add_test(c, memory_is_bounded_new_sessions_evict_for_it_and_growing_ones_are_told);
    tcase_add_test(c, a_session_has_at_most_so_many_parts);
    tcase_add_test(c, without_memory_nothing_changes);
    tcase_add_test(c, a_session_tells_what_one_that_looks_at_everything_would_tell);
    tcase_add_test(c, a_poll_costs_what_moved_not_what_is_there);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
