/* Cases about the loop itself: turns, wake_at, again, and the inbox (STYLE 2.10, 2.12).
 *
 * Method: one or two ports whose turns are small state machines; each notes what it saw, the case judges after the run.
 * Two ports share only `posted` items, which is what is tested, and counters that are atomics. */
#include <stdatomic.h>
#include <string.h>

#include "port/contract.h"

static const struct contract_rig *rig;

#define ITEMS 20000
#define DRAIN_MAX 64

static struct port *port_a, *port_b;

/* --- wake_at ----------------------------------------------------------------------------------- */

static struct {
    int turns;
    ms due[4], came[4];
} wk;

static void wake_turn(void *u) {
    struct port *p = u;
    ms now = clock_now(p->clock);
    wk.came[wk.turns] = now;
    switch (wk.turns++) {
    case 0:
        p->wake_at(p, now + 2);
        wk.due[1] = now + 40;
        p->wake_at(p, wk.due[1]);          /* replaces the former: no turn at + 2 */
        break;
    case 1:
        p->wake_at(p, now + 1000000);
        wk.due[2] = now + 3;
        p->wake_at(p, wk.due[2]);          /* an earlier one replaces, too */
        break;
    case 2:
        wk.due[3] = now;
        p->wake_at(p, now - 1000);         /* long over: at once, but not inside this turn */
        break;
    default:
        p->stop(p);
    }
}

static void wake_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    ports[0]->on_turn(ports[0], wake_turn, ports[0]);
    wk.due[0] = clock_now(ports[0]->clock) + 5;
    ports[0]->wake_at(ports[0], wk.due[0]);
}

START_TEST(wake_at_gives_a_turn_when_due_and_replaces_the_former) {
    ck_assert(rig->run(1, wake_boot, NULL));
    ck_assert_int_eq(wk.turns, 4);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_ge(wk.came[i], wk.due[i]);
    }
    ck_assert_int_lt(wk.came[2], wk.came[1] + 1000000);
}
END_TEST

/* Port a sets a time and takes it back; port b comes later with a message. Between the two, a must not have had a
 * turn. */
static struct {
    struct inbox_item late;
    int turns_a;
    bool has_waited;
} off;

static void off_turn_a(void *u) {
    struct port *p = u;
    struct list got;
    list_init(&got);
    off.turns_a++;
    if (p->inbox->drain(p->inbox, &got, 1) > 0) {
        p->stop(p);
    }
}

static void off_turn_b(void *u) {
    struct port *p = u;
    if (!off.has_waited) {
        off.has_waited = true;
        p->wake_at(p, clock_now(p->clock) + 60);
        return;
    }
    port_a->inbox->post(port_a->inbox, &off.late);
    p->stop(p);
}

static void off_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    port_a = ports[0];
    ports[0]->on_turn(ports[0], off_turn_a, ports[0]);
    ports[1]->on_turn(ports[1], off_turn_b, ports[1]);
    ports[0]->wake_at(ports[0], clock_now(ports[0]->clock) + 20);
    ports[0]->wake_at(ports[0], INT64_MAX);
    ports[1]->again(ports[1]);
}

START_TEST(wake_at_never_means_never) {
    ck_assert(rig->run(2, off_boot, NULL));
    ck_assert_int_eq(off.turns_a, 1);
}
END_TEST

/* --- again ------------------------------------------------------------------------------------- */

static struct {
    int turns;
    bool inside;
} ag;

static void again_turn(void *u) {
    struct port *p = u;
    ck_assert(!ag.inside);
    ag.inside = true;
    if (++ag.turns < 1000) {
        p->again(p);
    } else {
        p->stop(p);
    }
    ag.inside = false;
}

static void again_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    ports[0]->on_turn(ports[0], again_turn, ports[0]);
    ports[0]->again(ports[0]);
}

START_TEST(again_gives_exactly_one_more_turn_each) {
    ck_assert(rig->run(1, again_boot, NULL));
    ck_assert_int_eq(ag.turns, 1000);
}
END_TEST

/* --- inbox ------------------------------------------------------------------------------------- */

struct numbered {
    struct inbox_item item;
    uint32_t value;
};

static struct {
    struct numbered items[ITEMS];
    uint32_t sent, back, next_a, next_b;   /* of a, of a, of a, of b */
    bool is_wrong_a, is_wrong_b;
} box;

static void box_post_some(void) {
    for (int i = 0; i < 1000 && box.sent < ITEMS; i++) {
        box.items[box.sent].value = box.sent;
        port_b->inbox->post(port_b->inbox, &box.items[box.sent].item);
        box.sent++;
    }
}

/* Port a sends all numbers and gets them back. */
static void box_turn_a(void *u) {
    struct port *p = u;
    struct list got;
    list_init(&got);
    size_t n = p->inbox->drain(p->inbox, &got, DRAIN_MAX);
    ck_assert_uint_le(n, DRAIN_MAX);
    for (struct list *it; (it = list_pop_front(&got)); n--) {
        bool is_next = list_entry(it, struct numbered, item.link)->value == box.next_a++;
        box.is_wrong_a = box.is_wrong_a || !is_next;
        box.back++;
    }
    ck_assert_uint_eq(n, 0);               /* it returns how many it gave */
    box_post_some();
    if (box.back == ITEMS) {
        p->stop(p);
    } else {
        p->again(p);
    }
}

/* Port b gives each back; it has no timer and asks for no turn: only posts wake it. */
static void box_turn_b(void *u) {
    struct port *p = u;
    struct list got;
    list_init(&got);
    while (p->inbox->drain(p->inbox, &got, DRAIN_MAX) > 0) {
        for (struct list *it; (it = list_pop_front(&got));) {
            struct numbered *x = list_entry(it, struct numbered, item.link);
            bool is_next = x->value == box.next_b++;
            box.is_wrong_b = box.is_wrong_b || !is_next;
            port_a->inbox->post(port_a->inbox, &x->item);
        }
    }
    if (box.next_b == ITEMS) {
        p->stop(p);
    }
}

static void box_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    port_a = ports[0];
    port_b = ports[1];
    ck_assert_uint_eq(port_a->shard, 0);
    ck_assert_uint_eq(port_b->shard, 1);
    ports[0]->on_turn(ports[0], box_turn_a, ports[0]);
    ports[1]->on_turn(ports[1], box_turn_b, ports[1]);
    ports[0]->again(ports[0]);
}

START_TEST(inbox_keeps_order_and_wakes_there_and_back) {
    ck_assert(rig->run(2, box_boot, NULL));
    ck_assert_uint_eq(box.next_a, ITEMS);
    ck_assert_uint_eq(box.next_b, ITEMS);
    ck_assert(!box.is_wrong_a);
    ck_assert(!box.is_wrong_b);
}
END_TEST

static struct {
    struct inbox_item item;
    int turns, got;
    bool inside;
} self;

static void self_turn(void *u) {
    struct port *p = u;
    ck_assert(!self.inside);
    self.inside = true;
    struct list got;
    list_init(&got);
    self.got += (int)p->inbox->drain(p->inbox, &got, 1);
    if (++self.turns == 1) {
        p->inbox->post(p->inbox, &self.item);      /* a turn must follow without anybody asking for it */
    } else {
        p->stop(p);
    }
    self.inside = false;
}

static void self_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    ports[0]->on_turn(ports[0], self_turn, ports[0]);
    ports[0]->again(ports[0]);
}

START_TEST(inbox_takes_a_shards_message_to_itself) {
    ck_assert(rig->run(1, self_boot, NULL));
    ck_assert_int_eq(self.turns, 2);
    ck_assert_int_eq(self.got, 1);
}
END_TEST

/* What a drain leaves behind because of n_max brings another turn by itself. */
static struct {
    struct numbered items[5];
    int turns, got;
} rest;

static void rest_turn(void *u) {
    struct port *p = u;
    struct list got;
    list_init(&got);
    if (rest.turns++ == 0) {
        for (int i = 0; i < 5; i++) {
            p->inbox->post(p->inbox, &rest.items[i].item);
        }
        return;
    }
    rest.got += (int)p->inbox->drain(p->inbox, &got, 2);
    if (rest.got == 5) {
        p->stop(p);
    }
}

static void rest_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    ports[0]->on_turn(ports[0], rest_turn, ports[0]);
    ports[0]->again(ports[0]);
}

START_TEST(inbox_rest_of_a_bounded_drain_brings_a_turn) {
    ck_assert(rig->run(1, rest_boot, NULL));
    ck_assert_int_eq(rest.turns, 4);
}
END_TEST

/* --- clock and randomness ---------------------------------------------------------------------- */

static void facts_turn(void *u) {
    struct port *p = u;
    p->stop(p);
}

static void facts_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    struct port *p = ports[0];
    int64_t us = clock_now_us(p->clock);
    ms now = clock_now(p->clock);
    ck_assert_int_ge(now, us / 1000);
    ck_assert_int_le(us, clock_now_us(p->clock));
    ck_assert_int_gt(clock_wall(p->clock), 0);
    uint8_t one[600] = {0}, two[600] = {0};
    p->secret(p, one, sizeof one);
    p->secret(p, two, sizeof two);
    ck_assert_int_ne(memcmp(one, two, sizeof one), 0);
    ck_assert_int_ne(memcmp(one, one + 300, 300), 0);
    ck_assert(prng_next(p->rng) != prng_next(p->rng));
    p->on_turn(p, facts_turn, p);
    p->again(p);
}

START_TEST(clocks_agree_and_secrets_differ) {
    ck_assert(rig->run(1, facts_boot, NULL));
}
END_TEST

TCase *contract_loop(const struct contract_rig *r) {
    rig = r;
    TCase *tc = tcase_create("loop");
    tcase_add_test(tc, wake_at_gives_a_turn_when_due_and_replaces_the_former);
    tcase_add_test(tc, wake_at_never_means_never);
    tcase_add_test(tc, again_gives_exactly_one_more_turn_each);
    tcase_add_test(tc, inbox_keeps_order_and_wakes_there_and_back);
    tcase_add_test(tc, inbox_takes_a_shards_message_to_itself);
    tcase_add_test(tc, inbox_rest_of_a_bounded_drain_brings_a_turn);
    tcase_add_test(tc, clocks_agree_and_secrets_differ);
    return tc;
}
