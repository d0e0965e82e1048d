/* Cases about sockets: where bytes go, in which order things are told, and that every end is safe.
 *
 * Method: the server of serve.h with hooks, and scripted clients of the rig. */
#include <string.h>

#include "port/contract.h"
#include "port/serve.h"

static const struct contract_rig *rig;

/* --- frames of 1 MiB land in one buffer and come back ------------------------------------------ */

#define FRAMES 3

static struct {
    struct cl cl;
    uint8_t head[4], body[MIB];
    size_t have;                       /* of head and body */
    int frames;
    bool is_bad;
} fr;

static size_t frame_room(struct sess *s, uint8_t **ret_p) {
    (void)s;
    bool in_head = fr.have < 4;
    *ret_p = in_head ? fr.head + fr.have : fr.body + (fr.have - 4);
    return in_head ? 4 - fr.have : 4 + MIB - fr.have;
}

static void frame_data(struct sess *s, size_t n) {
    fr.have += n;
    ck_assert_uint_le(fr.have, 4 + MIB);
    if (fr.have == 4 + MIB) {
        fr.is_bad = fr.is_bad || memcmp(fr.body, serve_pattern, MIB) != 0 || memcmp(fr.head, "\0\x10\0\0", 4) != 0;
        fr.frames++;
        fr.have = 0;
        serve_send(s, 0, MIB, 1000);
    }
}

static void frame_up(struct cl *c) {
    for (int i = 0; i < FRAMES; i++) {
        rig->send(c->c, "\0\x10", 2);                          /* cut where no cut is */
        rig->send(c->c, "\0\0", 2);
        rig->send(c->c, serve_pattern, 3);
        rig->send(c->c, serve_pattern + 3, MIB - 3);
    }
}

static void frame_more(struct cl *c) {
    if (c->got == FRAMES * MIB) {
        rig->close(c->c);
    }
}

static void frame_closed(struct sess *s) {
    ck_assert(s->was_gone);
    ck_assert(s->why == ERR_OK);       /* an orderly end */
}

static void frame_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    static const struct hooks on = {.room = frame_room, .data = frame_data, .closed = frame_closed};
    serve_listen(ports[0], &on, 1);
    fr.cl.up = frame_up;
    fr.cl.more = frame_more;
    serve_connect(&fr.cl);
}

START_TEST(frames_land_whole_in_the_doors_buffer) {
    ck_assert(rig->run(1, frame_boot, NULL));
    ck_assert_int_eq(fr.frames, FRAMES);
    ck_assert(!fr.is_bad);
    ck_assert(!fr.cl.is_bad);
}
END_TEST

/* --- room 0 pauses ----------------------------------------------------------------------------- */

static struct {
    struct cl cl;
    int asked, asked_at_wake;
    bool is_open;
    ms open_at;
} ps;

static size_t pause_room(struct sess *s, uint8_t **ret_p) {
    ps.asked++;
    if (!ps.is_open) {
        if (ps.open_at == 0) {
            ps.open_at = clock_now(srv.port->clock) + 30;
            srv.port->wake_at(srv.port, ps.open_at);
        }
        return 0;
    }
    *ret_p = s->buf;
    return sizeof s->buf;
}

static void pause_data(struct sess *s, size_t n) {
    (void)n;
    ck_assert(ps.is_open);
    if (s->got == 10) {
        serve_close(s);
    }
}

static void pause_turn(void) {
    if (ps.open_at != 0 && !ps.is_open && clock_now(srv.port->clock) >= ps.open_at) {
        ps.asked_at_wake = ps.asked;
        ps.is_open = true;
        srv.net->read_more(srv.last->conn);
        srv.net->read_more(srv.last->conn);              /* once more does no harm */
    }
}

static void pause_up(struct cl *c) {
    rig->send(c->c, "0123456789", 10);
}

static void pause_adopted(struct sess *s) {
    srv.net->read_more(s->conn);                         /* not paused: nothing to do */
}

static void pause_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    static const struct hooks on = {.adopted = pause_adopted, .room = pause_room, .data = pause_data};
    serve_listen(ports[0], &on, 1);
    srv.turn = pause_turn;
    ps.cl.up = pause_up;
    serve_connect(&ps.cl);
}

START_TEST(room_of_zero_pauses_reading_until_read_more) {
    ck_assert(rig->run(1, pause_boot, NULL));
    ck_assert_int_eq(ps.asked_at_wake, 1);             /* nobody asks a paused door again and again */
}
END_TEST

/* --- order of sends, and closing after them ---------------------------------------------------- */

static struct {
    struct cl cl;
    size_t total;
} od;

static void order_up(struct cl *c) {
    rig->send(c->c, "never read", 10);                 /* must not cost the replies */
}

static void order_adopted(struct sess *s) {
    static const size_t sizes[] = {0, 1, 100, MIB, 0, 0, 70000, 3 * MIB, 5};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        serve_send(s, od.total % MIB, sizes[i], 4096);
        od.total += sizes[i];
    }
    ck_assert_uint_eq(srv.net->unsent(s->conn), od.total);
    ck_assert_uint_eq(s->dones, 0);                    /* never from inside send */
    s->is_closing = true;
    srv.net->close_after_send(s->conn, 20000);
    srv.net->close_after_send(s->conn, 1);               /* the first counts */
    serve_send(s, 0, 10, 10);                           /* too late */
}

static void order_closed(struct sess *s) {
    for (size_t i = 0; i < s->outs_n; i++) {
        ck_assert_msg(s->done_err[i] == (i + 1 < s->outs_n ? ERR_OK : ERR_CANCELLED), "send %zu: %s", i, err_name(s->done_err[i]));
    }
    ck_assert_uint_eq(s->got, 0);
}

static void order_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    static const struct hooks on = {.adopted = order_adopted, .closed = order_closed};
    serve_listen(ports[0], &on, 1);
    od.cl.up = order_up;
    serve_connect(&od.cl);
}

START_TEST(sends_complete_in_order_and_all_arrive_before_the_close) {
    ck_assert(rig->run(1, order_boot, NULL));
    ck_assert_uint_eq(od.cl.got, od.total);
    ck_assert(!od.cl.is_bad);
}
END_TEST

/* --- a reader that does not read --------------------------------------------------------------- */

#define HEAP_SENDS 40

static struct {
    struct cl slow, second;
    struct sess *slow_sess, *second_sess;
    ms look_at;
    size_t unsent, dones;
} sl;

static void slow_up(struct cl *c) {
    rig->pause(c->c, true);
    rig->send(c->c, "g", 1);
}

static void slow_more(struct cl *c) {
    if (c->got == HEAP_SENDS * (size_t)MIB) {
        rig->close(c->c);
    }
}

static void second_up(struct cl *c) {
    rig->send(c->c, "s", 1);
}

static void second_more(struct cl *c) {
    rig->pause(sl.slow.c, false);
    rig->close(c->c);
}

static void slow_data(struct sess *s, size_t n) {
    (void)n;
    if (s->buf[0] == 's') {
        sl.second_sess = s;
    } else {
        sl.slow_sess = s;
        for (int i = 0; i < HEAP_SENDS; i++) {
            serve_send(s, 0, MIB, MIB);
        }
    }
    if (sl.slow_sess && sl.second_sess) {
        sl.look_at = clock_now(srv.port->clock) + 50;
        srv.port->wake_at(srv.port, sl.look_at);
    }
}

static void slow_turn(void) {
    if (sl.look_at != 0 && clock_now(srv.port->clock) >= sl.look_at) {
        sl.look_at = 0;
        sl.unsent = srv.net->unsent(sl.slow_sess->conn);
        sl.dones = sl.slow_sess->dones;
        serve_send(sl.second_sess, 0, 1, 1);
    }
}

static void slow_closed(struct sess *s) {
    for (size_t i = 0; i < s->outs_n; i++) {
        ck_assert(s->done_err[i] == ERR_OK);
    }
}

static void slow_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    static const struct hooks on = {.data = slow_data, .closed = slow_closed};
    serve_listen(ports[0], &on, 2);
    srv.turn = slow_turn;
    sl.slow.up = slow_up;
    sl.slow.more = slow_more;
    sl.second.up = second_up;
    sl.second.more = second_more;
    serve_connect(&sl.slow);
    serve_connect(&sl.second);
}

START_TEST(slow_reader_leaves_bytes_unsent_and_loses_none) {
    ck_assert(rig->run(1, slow_boot, NULL));
    ck_assert_uint_gt(sl.unsent, 0);
    ck_assert_uint_lt(sl.dones, HEAP_SENDS);
    ck_assert_uint_ge(sl.unsent, (HEAP_SENDS - 1 - sl.dones) * (size_t)MIB);
    ck_assert_uint_eq(sl.slow.got, HEAP_SENDS * (size_t)MIB);
    ck_assert(!sl.slow.is_bad);
}
END_TEST

/* --- closing on what is not sent --------------------------------------------------------------- */

static struct {
    struct cl cl;
    ms close_at, linger, asked_at, closed_at;
} cu;

static void cut_data(struct sess *s, size_t n) {
    (void)n;
    for (int i = 0; i < HEAP_SENDS; i++) {
        serve_send(s, 0, MIB, MIB);
    }
    cu.asked_at = clock_now(srv.port->clock);
    if (cu.linger > 0) {
        s->is_closing = true;
        srv.net->close_after_send(s->conn, cu.linger);
    } else {
        cu.close_at = cu.asked_at + 20;
        srv.port->wake_at(srv.port, cu.close_at);
    }
}

static void cut_turn(void) {
    if (cu.close_at != 0 && clock_now(srv.port->clock) >= cu.close_at) {
        cu.close_at = 0;
        serve_close(srv.last);
        ck_assert_uint_lt(srv.last->dones, HEAP_SENDS);        /* never from inside close */
    }
}

static void cut_closed(struct sess *s) {
    size_t i = 0;
    while (i < s->outs_n && s->done_err[i] == ERR_OK) {
        i++;
    }
    ck_assert_uint_lt(i, s->outs_n);
    for (; i < s->outs_n; i++) {
        ck_assert(s->done_err[i] == ERR_CANCELLED);
    }
    cu.closed_at = clock_now(srv.port->clock);
}

static void cut_boot(void *u, struct port **ports, uint32_t shards) {
    (void)shards;
    static const struct hooks on = {.data = cut_data, .closed = cut_closed};
    serve_listen(ports[0], &on, 1);
    srv.turn = cut_turn;
    cu.linger = u ? 40 : 0;
    cu.cl.up = slow_up;
    serve_connect(&cu.cl);
}

START_TEST(close_cancels_what_is_not_sent) {
    ck_assert(rig->run(1, cut_boot, NULL));
}
END_TEST

START_TEST(close_after_send_gives_up_after_the_linger_time) {
    ck_assert(rig->run(1, cut_boot, &cu));
    ck_assert_int_ge(cu.closed_at, cu.asked_at + 40);
}
END_TEST

/* --- closing from every callback --------------------------------------------------------------- */

enum stage { AT_ACCEPT, AT_ADOPT, AT_ROOM, AT_DATA, AT_DONE, AT_GONE, AT_TURN, STAGES };

static struct {
    struct cl cl[STAGES];
    enum stage at;
    bool turn_due;
} cs;

static void stage_next(void) {
    if (++cs.at < STAGES) {
        serve_connect(&cs.cl[cs.at]);
    }
}

static void stage_accept(void *u, struct net_accepted *a) {
    if (cs.at != AT_ACCEPT) {
        serve_accept(u, a);
        return;
    }
    struct net_addr peer;
    srv.net->peer(a, &peer);
    ck_assert_str_eq(peer.host, "127.0.0.1");
    ck_assert(peer.loopback);
    srv.net->refuse(srv.net, a);
    stage_next();
}

static void stage_adopted(struct sess *s) {
    if (cs.at == AT_ADOPT) {
        serve_close(s);
    } else if (cs.at == AT_DONE) {
        serve_send(s, 0, 10, 3);
        serve_send(s, 10, 10, 3);
    }
}

static size_t stage_room(struct sess *s, uint8_t **ret_p) {
    if (cs.at == AT_ROOM) {
        serve_close(s);
    }
    *ret_p = s->buf;
    return sizeof s->buf;
}

static void stage_data(struct sess *s, size_t n) {
    (void)n;
    if (cs.at == AT_DATA) {
        serve_send(s, 0, 10, 3);
        serve_close(s);
        serve_close(s);                 /* twice is once */
    } else if (cs.at == AT_GONE && s->outs_n == 0) {
        serve_send(s, 0, 10, 3);
    } else if (cs.at == AT_TURN) {
        cs.turn_due = true;
    }
}

static void stage_done(struct sess *s, struct net_send *snd) {
    (void)snd;
    if (cs.at == AT_DONE && !s->is_closing) {
        serve_close(s);
    }
}

static void stage_closed(struct sess *s) {
    (void)s;
    stage_next();
}

static void stage_turn(void) {
    if (cs.turn_due) {
        cs.turn_due = false;
        serve_send(srv.last, 0, 10, 3);
        serve_close(srv.last);
    }
}

static void stage_up(struct cl *c) {
    rig->send(c->c, "0123456789", 10);
}

static void stage_more(struct cl *c) {
    if (c == &cs.cl[AT_GONE]) {
        rig->close(c->c);
    }
}

static void stage_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    static const struct hooks on = {.adopted = stage_adopted, .room = stage_room, .data = stage_data, .done = stage_done,
                                    .closed = stage_closed};
    serve_listen(ports[0], &on, STAGES - 1);
    srv.net->listener_close(srv.listener);
    ck_assert(srv.net->listen(srv.net, "127.0.0.1", srv.number, stage_accept, NULL, &srv.listener) == ERR_OK);
    srv.turn = stage_turn;
    for (int i = 0; i < STAGES; i++) {
        cs.cl[i].up = stage_up;
        cs.cl[i].more = stage_more;
    }
    serve_connect(&cs.cl[AT_ACCEPT]);
}

START_TEST(closing_is_safe_in_every_callback) {
    ck_assert(rig->run(1, stage_boot, NULL));
    ck_assert_int_eq(cs.at, STAGES);
}
END_TEST

/* --- listeners --------------------------------------------------------------------------------- */

static struct {
    struct cl refused, last;
    uint16_t dead_number;
} ls;

static void listen_refused(void *u) {
    (void)u;
    serve_connect(&ls.last);              /* tells the server that the other one was refused */
}

static void listen_up(void *u) {
    (void)u;
    ck_abort_msg("a closed listener accepted");
}

static void listen_accept(void *u, struct net_accepted *a) {
    (void)u;
    srv.net->refuse(srv.net, a);
    srv.closed = 1;
}

static void listen_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    static const struct hooks on = {0};
    static const struct contract_client_events refused_events = {.up = listen_up, .down = listen_refused};
    serve_listen(ports[0], &on, 1);
    struct net_listener *second = NULL;
    ck_assert(srv.net->listen(srv.net, "127.0.0.1", srv.number, listen_accept, NULL, &second) == ERR_LOCKED);
    ck_assert_ptr_null(second);
    srv.net->listener_close(srv.listener);
    ls.dead_number = srv.number;
    ck_assert(srv.net->listen(srv.net, "127.0.0.1", 0, listen_accept, NULL, &srv.listener) == ERR_OK);
    struct net_addr at;
    srv.net->listener_addr(srv.listener, &at);
    srv.number = at.port;
    ck_assert_uint_ne(srv.number, ls.dead_number);
    rig->connect(ls.dead_number, &refused_events, NULL, &ls.refused.c);
}

START_TEST(listening_is_exclusive_and_ends_at_once) {
    ck_assert(rig->run(1, listen_boot, NULL));
}
END_TEST

/* --- accepted here, served there --------------------------------------------------------------- */

struct travel {
    struct inbox_item item;
    struct net_accepted *accepted;
};

static struct {
    struct port *home;
    struct travel there, back;
    struct net_conn *conn;
    struct cl cl;
    uint8_t buf[33];                   /* one more than the client sends: room for its end to be told */
    size_t have;                       /* bytes in buf: they may come in pieces */
    struct out out;
    struct net_addr peer;
} tr;

static size_t travel_room(void *u, uint8_t **ret_p) {
    (void)u;
    *ret_p = tr.buf + tr.have;
    return sizeof tr.buf - tr.have;
}

static void travel_done(struct net_send *s) {
    (void)s;
    arena_done(&tr.out.arena);
}

static void travel_data(void *u, size_t n) {
    (void)u;
    struct net_addr local, peer;
    tr.home->net->addr(tr.conn, &local, &peer);
    ck_assert_str_eq(local.host, "127.0.0.1");
    ck_assert_uint_eq(local.port, srv.number);
    ck_assert_uint_eq(peer.port, tr.peer.port);
    tr.have += n;
    ck_assert_uint_lt(tr.have, sizeof tr.buf);
    if (tr.have < sizeof tr.buf - 1) {
        return;
    }
    arena_init(&tr.out.arena, NULL, MIB);
    chain_init(&tr.out.chain, &tr.out.arena);
    chain_copy(&tr.out.chain, span_of(tr.buf, tr.have));
    tr.out.send = (struct net_send){.chain = &tr.out.chain, .done = travel_done};
    tr.home->net->send(tr.conn, &tr.out.send);
}

static void travel_gone(void *u, err why) {
    (void)u;
    ck_assert(why == ERR_OK);
    tr.home->net->close(tr.conn);
}

static void travel_closed(void *u) {
    (void)u;
    srv.port->inbox->post(srv.port->inbox, &tr.back.item);
    tr.home->stop(tr.home);
}

static void travel_turn(void *u) {
    static const struct net_events ev = {.room = travel_room, .data = travel_data, .gone = travel_gone, .closed = travel_closed};
    struct port *p = u;
    struct list got;
    list_init(&got);
    if (p->inbox->drain(p->inbox, &got, 1) > 0) {
        ck_assert(p->net->adopt(p->net, tr.there.accepted, &ev, NULL, &tr.conn) == ERR_OK);
    }
}

static void travel_accept(void *u, struct net_accepted *a) {
    (void)u;
    srv.net->peer(a, &tr.peer);
    tr.there.accepted = a;
    tr.home->inbox->post(tr.home->inbox, &tr.there.item);
}

static void travel_back(void) {
    struct list got;
    list_init(&got);
    srv.closed += (int)srv.port->inbox->drain(srv.port->inbox, &got, 1);
}

static void travel_up(struct cl *c) {
    rig->send(c->c, serve_pattern, 32);
}

static void travel_more(struct cl *c) {
    if (c->got == 32) {
        rig->close(c->c);
    }
}

static void travel_boot(void *u, struct port **ports, uint32_t shards) {
    (void)u, (void)shards;
    static const struct hooks on = {0};
    serve_listen(ports[0], &on, 1);
    srv.net->listener_close(srv.listener);
    ck_assert(srv.net->listen(srv.net, "127.0.0.1", srv.number, travel_accept, NULL, &srv.listener) == ERR_OK);
    srv.turn = travel_back;
    tr.home = ports[1];
    ports[1]->on_turn(ports[1], travel_turn, ports[1]);
    tr.cl.up = travel_up;
    tr.cl.more = travel_more;
    serve_connect(&tr.cl);
}

START_TEST(connection_is_served_by_the_shard_that_adopts_it) {
    ck_assert(rig->run(2, travel_boot, NULL));
    ck_assert_uint_eq(tr.cl.got, 32);
    ck_assert(!tr.cl.is_bad);
}
END_TEST

TCase *contract_net(const struct contract_rig *r) {
    rig = srv.rig = r;
    TCase *tc = tcase_create("net");
    tcase_add_test(tc, frames_land_whole_in_the_doors_buffer);
    tcase_add_test(tc, room_of_zero_pauses_reading_until_read_more);
    tcase_add_test(tc, sends_complete_in_order_and_all_arrive_before_the_close);
    tcase_add_test(tc, slow_reader_leaves_bytes_unsent_and_loses_none);
    tcase_add_test(tc, close_cancels_what_is_not_sent);
    tcase_add_test(tc, close_after_send_gives_up_after_the_linger_time);
    tcase_add_test(tc, closing_is_safe_in_every_callback);
    tcase_add_test(tc, listening_is_exclusive_and_ends_at_once);
    tcase_add_test(tc, connection_is_served_by_the_shard_that_adopts_it);
    return tc;
}
