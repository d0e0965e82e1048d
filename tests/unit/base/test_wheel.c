/* Goal: a timer fires in the first run at or after its due time, never before, in order of due time and then of setting; wheel_next never
 * oversleeps. Method: random set, cancel and run against an unsorted array; callbacks that set and cancel; far and late times. */
#include "base/wheel.h"

#include "base/must.h"
#include "base/prng.h"
#include "run.h"

enum { N = 64 };

struct twin {
    struct timer t;
    ms due;
    uint64_t set_at;             /* sequence of the last wheel_set */
    uint64_t late_at;            /* sequence when it became late; the rest of a run that was cut short counts from that run's start */
    bool set, late;
};

static struct wheel w;
static struct twin twins[N];
static uint64_t sequence;
static struct prng r;

static size_t set_count(void) {
    size_t n = 0;
    for (int i = 0; i < N; i++) {
        n += twins[i].set;
    }
    return n;
}

static void set(struct twin *tw, ms due) {
    sequence++;
    tw->due = due;
    tw->set_at = tw->late_at = sequence;
    tw->set = true;
    tw->late = due <= w.now;
    wheel_set(&w, &tw->t, due);
}

static void cancel(struct twin *tw) {
    wheel_cancel(&w, &tw->t);
    tw->set = false;
}

/* Whether a must fire before b when both are due. */
static bool before(const struct twin *a, const struct twin *b) {
    if (a->late != b->late) {
        return a->late;
    }
    if (!a->late && a->due != b->due) {
        return a->due < b->due;
    }
    if (a->late && a->late_at != b->late_at) {
        return a->late_at < b->late_at;
    }
    return a->set_at < b->set_at;
}

static uint64_t run_started_at;  /* sequence when wheel_run was called: what became late since must wait */
static ms run_now;

static struct twin *first_due(void) {
    struct twin *best = NULL;
    for (int i = 0; i < N; i++) {
        struct twin *tw = &twins[i];
        bool waits = tw->late && tw->late_at > run_started_at;
        if (tw->set && tw->due <= run_now && !waits && (!best || before(tw, best))) {
            best = tw;
        }
    }
    return best;
}

static ms some_due(void) {
    static const int widths[] = {3, 6, 8, 12, 18, 26, 31, 40};
    ms away = (ms)prng_below(&r, (uint64_t)1 << widths[prng_below(&r, 8)]);
    return prng_chance(&r, 1, 10) ? w.now - away % 100 : w.now + away;
}

static void on_fire(struct timer *t, ms now) {
    struct twin *tw = (struct twin *)(void *)t;
    ck_assert_int_eq(now, run_now);
    ck_assert_ptr_eq(tw, first_due());
    ck_assert(!timer_is_set(t));
    tw->set = false;
    if (prng_chance(&r, 1, 4)) {
        set(tw, some_due());
    }
    if (prng_chance(&r, 1, 8)) {
        set(&twins[prng_below(&r, N)], some_due());
    }
    if (prng_chance(&r, 1, 8)) {
        cancel(&twins[prng_below(&r, N)]);
    }
    if (prng_chance(&r, 1, 16)) {
        set(&twins[prng_below(&r, N)], INT64_MAX);
    }
}

static void run_some(ms now) {
    size_t most = prng_chance(&r, 1, 3) ? prng_below(&r, 5) : SIZE_MAX;
    run_now = now;
    run_started_at = sequence;
    size_t fired = wheel_run(&w, now, most);
    ck_assert_uint_le(fired, most);
    if (fired == most) {                          /* cut short: whatever is left at that instant is late now, but keeps its order */
        for (int i = 0; i < N; i++) {
            if (twins[i].set && !twins[i].late && twins[i].due <= w.now) {
                twins[i].late = true;
                twins[i].late_at = run_started_at;
            }
        }
    } else {
        ck_assert_ptr_null(first_due());
        ck_assert_int_eq(w.now, now);
    }
}

static void check_next(void) {
    ms next = wheel_next(&w);
    ms soonest = INT64_MAX;
    for (int i = 0; i < N; i++) {
        must(timer_is_set(&twins[i].t) == twins[i].set);
        if (twins[i].set) {
            ms due = twins[i].due > w.now ? twins[i].due : w.now;
            soonest = due < soonest ? due : soonest;
        }
    }
    ck_assert_uint_eq(w.n, set_count());
    ck_assert_int_le(next, soonest);
    ck_assert_int_ge(next, w.now);
    ck_assert((next == INT64_MAX) == (w.n == 0));
}

START_TEST(wheel_model) {
    prng_seed(&r, (uint64_t)_i);
    sequence = 0;
    wheel_init(&w, _i == 0 ? 0 : (ms)prng_below(&r, (uint64_t)1 << 42));
    for (int i = 0; i < N; i++) {
        twins[i] = (struct twin){0};
        timer_init(&twins[i].t, on_fire);
    }
    ms clock = w.now;
    for (int step = 0; step < 2000; step++) {
        uint64_t pick = prng_below(&r, 10);
        struct twin *tw = &twins[prng_below(&r, N)];
        if (pick < 4) {
            set(tw, some_due());
        } else if (pick < 5) {
            cancel(tw);
        } else if (pick < 8) {
            clock += (ms)prng_below(&r, (uint64_t)1 << prng_below(&r, 12));
            run_some(clock);
        } else {
            ms next = wheel_next(&w);
            if (next != INT64_MAX && next > clock && next - clock < (ms)1 << 41) {
                clock = next;
            }
            run_some(clock);
        }
        check_next();
    }
}
END_TEST

static ms fired_at[8];
static size_t fired_n;
static void note(struct timer *t, ms now) {
    must(fired_n < 8);
    (void)now;
    fired_at[fired_n++] = t->due;
}

/* Sleeping exactly until wheel_next each time fires every timer at its very due time, from any level. */
START_TEST(waking_when_told_never_oversleeps) {
    static const ms dues[] = {1, 63, 64, 65, 4095, 4096, 300000, (ms)5 << 30};
    struct timer t[8];
    wheel_init(&w, 0);
    for (int i = 7; i >= 0; i--) {
        timer_init(&t[i], note);
        wheel_set(&w, &t[i], dues[i]);
    }
    unsigned wakes = 0;
    fired_n = 0;
    for (ms next; (next = wheel_next(&w)) != INT64_MAX; wakes++) {
        size_t before_n = fired_n;
        size_t n = wheel_run(&w, next, SIZE_MAX);
        if (n > 0) {
            ck_assert_int_eq(fired_at[before_n], next);
        }
    }
    ck_assert_uint_eq(fired_n, 8);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(fired_at[i], dues[i]);
    }
    ck_assert_uint_le(wakes, 8 * WHEEL_LEVELS + 5);      /* a wake per level at most, plus the turns of the top level */
}
END_TEST

static void again(struct timer *t, ms now) {
    fired_n++;
    wheel_set(&w, t, now);
}

START_TEST(rearming_for_now_waits_for_the_next_run) {
    struct timer t;
    wheel_init(&w, 10);
    timer_init(&t, again);
    wheel_set(&w, &t, 10);
    fired_n = 0;
    for (size_t i = 1; i <= 3; i++) {
        ck_assert_int_eq(wheel_next(&w), 10);
        ck_assert_uint_eq(wheel_run(&w, 10, SIZE_MAX), 1);
        ck_assert_uint_eq(fired_n, i);
    }
    wheel_cancel(&w, &t);
    wheel_cancel(&w, &t);
    ck_assert_int_eq(wheel_next(&w), INT64_MAX);
    ck_assert_uint_eq(wheel_run(&w, 5, SIZE_MAX), 0);    /* a clock that stepped back changes nothing */
    ck_assert_int_eq(w.now, 10);
}
END_TEST

/* A timer per connection, renewed at every request: the run's work must not grow with time passed or timers renewed. */
START_TEST(many_renewed_timers) {
    enum { MANY = 20000 };
    static struct timer t[MANY];
    wheel_init(&w, 0);
    for (int i = 0; i < MANY; i++) {
        timer_init(&t[i], note);
    }
    for (ms now = 0; now < 100; now++) {
        for (int i = 0; i < MANY; i += 7) {
            wheel_set(&w, &t[i], now + 60000 + i);
        }
        ck_assert_uint_eq(wheel_run(&w, now, SIZE_MAX), 0);
    }
    ck_assert_uint_eq(w.n, (MANY + 6) / 7);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("wheel");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, wheel_model, 0, 40);
    tcase_add_test(tc, waking_when_told_never_oversleeps);
    tcase_add_test(tc, rearming_for_now_waits_for_the_next_run);
    tcase_add_test(tc, many_renewed_timers);
    return run_suite("wheel", tc);
}
