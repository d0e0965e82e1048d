/* Goal: a power loss keeps exactly what a sync covered, may keep or lose the rest in every way that disks do, and invents nothing.
 * Method: random writes, cuts, syncs in flight and crashes on one file against a naive twin that remembers every content since the last
 * completed sync: each 512 B sector must be one of them, the size must lie between them. Marks count the losses of each kind, so that a
 * simulated disk which is too kind fails as well. (RELIABILITY 6, rules 1 and 2; T2, T7.) */
#include "fs_sim.h"

#include <string.h>

#include "crash_sim.h"
#include "dir_sim.h"
#include "run.h"
#include "snap_sim.h"

enum { BYTES = 6 * FS_PAGE, STATES = 64, FLIGHTS = 3 };

struct state {
    uint8_t bytes[BYTES];
    int64_t size;
};

static struct {
    struct prng r;
    struct fs_sim fs;
    struct fs_inode *ino;
    struct state past[STATES];   /* past[0] is covered by the last completed sync, past[n - 1] is now */
    size_t n;
    uint64_t dropped;            /* states that were forgotten in front of past[0] */
    struct {
        struct snap_sim *snap;
        uint64_t covers;         /* number of the state, counted from the beginning */
    } flight[FLIGHTS];
    int64_t cuts[STATES];        /* sizes that the file was cut to since the last crash */
    size_t cuts_n;
    bool cut;                    /* since past[0] */
    uint64_t lost, kept, torn, zeros;
} m;

static struct state *now(void) {
    return &m.past[m.n - 1];
}

static void begin(uint64_t seed) {
    prng_seed(&m.r, seed);
    fs_sim_init(&m.fs, &m.r);
    ck_assert(dir_sim_create(&m.fs, "f", false, &m.ino) == ERR_OK);
    dir_sim_commit(m.fs.root, m.fs.ver);
    memset(&m.past[0], 0, sizeof m.past[0]);
    m.n = 1;
    m.dropped = 0;
    m.cut = false;
    m.cuts_n = 0;
}

static void drop_flights(void) {
    for (int i = 0; i < FLIGHTS; i++) {
        if (m.flight[i].snap) {
            snap_sim_free(m.flight[i].snap);
            m.flight[i].snap = NULL;
        }
    }
}

static void end(void) {
    drop_flights();
    fs_sim_done(&m.fs);
}

static void remember(void) {
    ck_assert_uint_lt(m.n, STATES);
    m.past[m.n] = m.past[m.n - 1];
    m.n++;
}

static void write_some(void) {
    uint8_t bytes[3 * FS_PAGE];
    size_t n = 1 + prng_below(&m.r, prng_chance(&m.r, 1, 2) ? sizeof bytes : 600);
    int64_t at = prng_chance(&m.r, 1, 2) ? now()->size : (int64_t)prng_below(&m.r, BYTES);
    n = at + (int64_t)n > BYTES ? (size_t)(BYTES - at) : n;
    prng_bytes(&m.r, bytes, n);
    struct iovec iov[2] = {{bytes, n / 3}, {bytes + n / 3, n - n / 3}};
    remember();
    memcpy(now()->bytes + at, bytes, n);
    now()->size = n > 0 && at + (int64_t)n > now()->size ? at + (int64_t)n : now()->size;
    ck_assert_uint_eq(fs_sim_write(m.ino, at, iov, 2, INT64_MAX / 2), n);
}

static void cut(void) {
    int64_t size = (int64_t)prng_below(&m.r, BYTES);
    remember();
    if (size < now()->size) {
        memset(now()->bytes + size, 0, (size_t)(BYTES - size));
        m.cut = true;
        ck_assert_uint_lt(m.cuts_n, STATES);
        m.cuts[m.cuts_n++] = size;
    }
    now()->size = size;
    fs_sim_truncate(m.ino, size);
}

static void sync_begin(void) {
    for (int i = 0; i < FLIGHTS; i++) {
        if (!m.flight[i].snap) {
            m.flight[i].snap = snap_sim_new(&m.fs);
            snap_sim_add(m.flight[i].snap, m.ino);
            m.flight[i].covers = m.dropped + m.n - 1;
            return;
        }
    }
}

static void forget_before(uint64_t state) {
    if (state > m.dropped) {
        size_t k = (size_t)(state - m.dropped);
        memmove(m.past, m.past + k, (m.n - k) * sizeof m.past[0]);
        m.n -= k;
        m.dropped = state;
    }
}

static void sync_end(void) {
    int i = (int)prng_below(&m.r, FLIGHTS);
    if (m.flight[i].snap) {
        snap_sim_commit(m.flight[i].snap);
        snap_sim_free(m.flight[i].snap);
        m.flight[i].snap = NULL;
        forget_before(m.flight[i].covers);
    }
}

static void read_and_compare(const struct state *want) {
    uint8_t got[BYTES + 10];
    ck_assert_int_eq(m.ino->size, want->size);
    ck_assert_uint_eq(fs_sim_read(m.ino, 0, got, sizeof got), (size_t)want->size);
    ck_assert_int_eq(memcmp(got, want->bytes, (size_t)want->size), 0);
}

/* How often each kind of outcome was seen, judged by whole pages between the first and the last state. */
static void note_page(const uint8_t *got, size_t page) {
    const uint8_t *before = m.past[0].bytes + page * FS_PAGE, *after = now()->bytes + page * FS_PAGE;
    bool old = memcmp(got, before, FS_PAGE) == 0, new = memcmp(got, after, FS_PAGE) == 0;
    if (memcmp(before, after, FS_PAGE) != 0) {
        m.lost += old;
        m.kept += new;
        m.torn += !old && !new;
    }
}

static bool was_there(const uint8_t *got, size_t at, size_t n) {
    for (size_t i = 0; i < m.n; i++) {
        if (memcmp(got + at, m.past[i].bytes + at, n) == 0) {
            return true;
        }
    }
    return false;
}

/* A cut may have happened to bytes older than those it found: they, then zeros. */
static bool was_cut(const uint8_t *got, size_t at, size_t n) {
    static const uint8_t zeros[FS_SECTOR];
    for (size_t i = 0; i < m.cuts_n; i++) {
        size_t to = (size_t)m.cuts[i];
        if (to >= at && to < at + n && memcmp(got + to, zeros, at + n - to) == 0 && was_there(got, at, to - at)) {
            return true;
        }
    }
    return false;
}

static void sector_is_known(const uint8_t *got, size_t at, size_t n) {
    if (was_there(got, at, n) || was_cut(got, at, n)) {
        return;
    }
    ck_abort_msg("bytes at %zu were never written since the last sync", at);
}

static void power_loss(void) {
    drop_flights();
    crash_sim_power(&m.fs);
    ck_assert(list_empty(&m.fs.dirty));
    struct fs_inode *there;
    ck_assert(dir_sim_find(&m.fs, "f", &there) == ERR_OK && there == m.ino);
    struct state left = {.size = m.ino->size};
    int64_t least = m.past[0].size, most = 0;
    for (size_t i = 0; i < m.n; i++) {
        least = m.past[i].size < least ? m.past[i].size : least;
        most = m.past[i].size > most ? m.past[i].size : most;
    }
    ck_assert_int_ge(left.size, m.cut ? least : m.past[0].size);
    ck_assert_int_le(left.size, most);
    ck_assert_uint_eq(fs_sim_read(m.ino, 0, left.bytes, BYTES), (size_t)left.size);
    for (size_t at = 0; at < (size_t)left.size; at += FS_SECTOR) {
        size_t n = (size_t)left.size - at;
        sector_is_known(left.bytes, at, n < FS_SECTOR ? n : FS_SECTOR);
    }
    for (size_t page = 0; (int64_t)(page + 1) * FS_PAGE <= left.size; page++) {
        note_page(left.bytes + page * FS_PAGE, page);
        static const uint8_t nothing[FS_PAGE];
        m.zeros += memcmp(left.bytes + page * FS_PAGE, nothing, FS_PAGE) == 0 && (int64_t)page * FS_PAGE >= m.past[0].size;
    }
    m.past[0] = left;
    m.n = 1;
    m.dropped += STATES;
    m.cut = false;
    m.cuts_n = 0;
}

static void step(bool cuts) {
    switch (m.n >= STATES - 2 ? 9 : prng_below(&m.r, 10)) {
    case 0:
    case 1:
    case 2:
        write_some();
        break;
    case 3:
        if (cuts) {
            cut();
        }
        break;
    case 4:
        fs_sim_write_back(m.ino);
        break;
    case 5:
    case 6:
        sync_begin();
        break;
    case 7:
        sync_end();
        break;
    case 8:
        fs_sim_forget(m.ino, (int64_t)prng_below(&m.r, BYTES), prng_below(&m.r, BYTES));
        break;
    default:
        if (m.n >= STATES - 2 || prng_chance(&m.r, 1, 4)) {
            power_loss();
        }
        break;
    }
    read_and_compare(now());
}

static void campaign(bool cuts) {
    for (uint64_t seed = 1; seed <= 150; seed++) {
        begin(seed);
        for (int k = 0; k < 200; k++) {
            step(cuts);
        }
        end();
    }
    ck_assert_uint_gt(m.lost, 100);
    ck_assert_uint_gt(m.kept, 100);
    ck_assert_uint_gt(m.torn, 100);
    ck_assert_uint_gt(m.zeros, 50);
}

START_TEST(power_loss_keeps_what_a_sync_covered_and_any_part_of_the_rest) {
    campaign(false);
}
END_TEST

START_TEST(power_loss_with_cuts_invents_nothing) {
    campaign(true);
}
END_TEST

static void fill(char c, size_t n) {
    uint8_t bytes[4 * FS_PAGE];
    memset(bytes, c, sizeof bytes);
    struct iovec iov = {bytes, n};
    ck_assert_uint_eq(fs_sim_write(m.ino, 0, &iov, 1, INT64_MAX / 2), n);
}

static void sync_now(void) {
    struct snap_sim *s = snap_sim_new(&m.fs);
    snap_sim_add(s, m.ino);
    snap_sim_commit(s);
    snap_sim_free(s);
}

/* Three synced pages of 'a', cut to nothing, one unsynced page of 'b': what was written after the cut is never seen without the cut. */
START_TEST(what_follows_a_cut_is_lost_with_it) {
    int whole = 0, gone = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        begin(seed);
        fill('a', 3 * FS_PAGE);
        sync_now();
        fs_sim_truncate(m.ino, 0);
        fill('b', FS_PAGE);
        crash_sim_power(&m.fs);
        uint8_t got[4 * FS_PAGE];
        size_t n = fs_sim_read(m.ino, 0, got, sizeof got);
        bool undone = n == 3 * FS_PAGE && !memchr(got, 'b', n) && !memchr(got, 0, n);
        bool done = n <= FS_PAGE && !memchr(got, 'a', n);
        ck_assert_msg(undone != done, "seed %d: %zu bytes", (int)seed, n);
        whole += undone;
        gone += done;
        end();
    }
    ck_assert_int_gt(whole, 20);
    ck_assert_int_gt(gone, 20);
}
END_TEST

/* RELIABILITY 6, rule 4: after a failed sync the pages count as clean; a later sync that succeeds has not brought them. */
START_TEST(failed_sync_leaves_clean_pages_that_a_power_loss_takes) {
    int lost = 0, kept = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        begin(seed);
        fill('a', FS_PAGE);
        struct snap_sim *s = snap_sim_new(&m.fs);
        snap_sim_add(s, m.ino);
        snap_sim_fail(s, &m.r);
        snap_sim_free(s);
        ck_assert(list_empty(&m.ino->dirty));
        sync_now();
        uint8_t got[FS_PAGE];
        ck_assert_uint_eq(fs_sim_read(m.ino, 0, got, sizeof got), sizeof got);     /* the cache still shows it */
        ck_assert(!memchr(got, 0, sizeof got));
        crash_sim_power(&m.fs);
        size_t n = fs_sim_read(m.ino, 0, got, sizeof got);
        bool there = n == FS_PAGE && !memchr(got, 0, n);
        kept += there;
        lost += !there;
        end();
    }
    ck_assert_int_gt(lost, 20);
    ck_assert_int_gt(kept, 5);
}
END_TEST

/* What the flusher wrote before is on the platter; a sync that fails for another page does not take it away again. */
START_TEST(failed_sync_keeps_what_was_written_back) {
    for (uint64_t seed = 1; seed <= 100; seed++) {
        begin(seed);
        fill('a', 100);
        fs_sim_write_back(m.ino);
        struct snap_sim *s = snap_sim_new(&m.fs);
        snap_sim_add(s, m.ino);
        snap_sim_fail(s, &m.r);
        snap_sim_free(s);
        crash_sim_power(&m.fs);
        uint8_t got[FS_PAGE];
        ck_assert_uint_eq(fs_sim_read(m.ino, 0, got, sizeof got), 100);
        ck_assert(!memchr(got, 0, 100));
        end();
    }
}
END_TEST

/* A cut is metadata: when a sync of it fails, the next one that succeeds covers it. */
START_TEST(failed_sync_does_not_bring_back_what_was_cut) {
    int before = 0, after = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        begin(seed);
        fill('a', 2 * FS_PAGE);
        sync_now();
        fs_sim_truncate(m.ino, 100);
        struct snap_sim *s = snap_sim_new(&m.fs);
        snap_sim_add(s, m.ino);
        snap_sim_fail(s, &m.r);
        snap_sim_free(s);
        if (seed % 2 == 0) {
            sync_now();
        }
        crash_sim_power(&m.fs);
        uint8_t got[2 * FS_PAGE];
        size_t n = fs_sim_read(m.ino, 0, got, sizeof got);
        ck_assert(n == 100 || (n == 2 * FS_PAGE && seed % 2 == 1));
        ck_assert(!memchr(got, 0, n));
        before += n > 100;
        after += n == 100;
        end();
    }
    ck_assert_int_gt(before, 10);
    ck_assert_int_gt(after, 120);
}
END_TEST

/* T18, lost write: the sync says OK; the cache hides the truth until it is dropped. */
START_TEST(lost_write_shows_when_the_cache_is_dropped) {
    begin(1);
    fill('a', FS_PAGE);
    struct snap_sim *s = snap_sim_new(&m.fs);
    snap_sim_add(s, m.ino);
    snap_sim_lie(s, &m.r);
    snap_sim_free(s);
    uint8_t got[FS_PAGE];
    ck_assert_uint_eq(fs_sim_read(m.ino, 0, got, sizeof got), sizeof got);
    ck_assert(!memchr(got, 0, sizeof got));
    fs_sim_forget(m.ino, 0, FS_PAGE);
    ck_assert_uint_eq(fs_sim_read(m.ino, 0, got, sizeof got), sizeof got);
    ck_assert(!memchr(got, 'a', sizeof got));
    end();
}
END_TEST

/* Where the cache hides that a sync failed, FORGET shows it, but only in pages that its range covers whole, or up to the file's end. */
START_TEST(forget_spares_pages_covered_in_part) {
    for (int64_t at = 0; at <= 2 * FS_PAGE; at += FS_PAGE / 2) {
        begin(1);
        fill('a', 2 * FS_PAGE + 100);
        for (size_t i = 0; i < m.ino->pages_n; i++) {
            m.ino->pages[i].dur_ver = m.ino->pages[i].cur_ver;     /* clean, and nowhere */
        }
        fs_sim_forget(m.ino, at, (size_t)(2 * FS_PAGE + 100 - at));
        for (int64_t page = 0; page < 3; page++) {
            uint8_t byte;
            ck_assert_uint_eq(fs_sim_read(m.ino, page * FS_PAGE, &byte, 1), 1);
            ck_assert_int_eq(byte, page * FS_PAGE >= at ? 0 : 'a');
        }
        end();
    }
}
END_TEST

START_TEST(space_counts_pages_and_comes_back) {
    begin(1);
    uint8_t bytes[3 * FS_PAGE] = {1};
    struct iovec iov = {bytes, sizeof bytes};
    ck_assert_uint_eq(fs_sim_write(m.ino, 100, &iov, 1, 2 * FS_PAGE), 2 * FS_PAGE - 100);
    ck_assert_int_eq(m.fs.pages_used, 2);
    ck_assert_uint_eq(fs_sim_write(m.ino, 0, &iov, 1, 2 * FS_PAGE), 2 * FS_PAGE);      /* overwriting needs none */
    fs_sim_truncate(m.ino, FS_PAGE);
    ck_assert_int_eq(m.fs.pages_used, 1);
    fs_sim_count(m.ino, 0, 1);
    ck_assert(dir_sim_unlink(&m.fs, "f") == ERR_OK);
    ck_assert_int_eq(m.fs.pages_used, 1);              /* still open */
    fs_sim_count(m.ino, 0, -1);
    ck_assert_int_eq(m.fs.pages_used, 0);
    end();
}
END_TEST

int main(void) {
    return run("fs_sim", TESTS(power_loss_keeps_what_a_sync_covered_and_any_part_of_the_rest, power_loss_with_cuts_invents_nothing,
                               what_follows_a_cut_is_lost_with_it, failed_sync_leaves_clean_pages_that_a_power_loss_takes,
                               failed_sync_keeps_what_was_written_back,
                               failed_sync_does_not_bring_back_what_was_cut,
                               lost_write_shows_when_the_cache_is_dropped, forget_spares_pages_covered_in_part,
                               space_counts_pages_and_comes_back), NULL);
}
