/* The server and the clients of the net cases (serve.h).
 *
 * Happy path: accept, adopt, hooks, gone, close, closed; the last expected `closed` ends the case.
 * Failure modes: a callback that comes when none may (after close, after gone, twice, a `done` out of order) fails
 * the case at `closed`.
 * Runs on: the server's part on the port's shard, the clients' where the rig runs clients. */
#include "port/serve.h"

#include "base/mem.h"

uint8_t serve_pattern[PATTERN_BYTES];
struct serve srv;

static void fill(void) {
    for (size_t i = 0; i < PATTERN_BYTES; i++) {
        serve_pattern[i] = (uint8_t)(i % MIB * 7 + i % MIB / 253);     /* each MiB is the same */
    }
}

/* --- the server -------------------------------------------------------------------------------- */

static size_t sess_room(void *u, uint8_t **ret_p) {
    struct sess *s = u;
    s->out_of_order = s->out_of_order || s->is_closing || s->was_gone;
    if (s->on->room) {
        return s->on->room(s, ret_p);
    }
    *ret_p = s->buf;
    return sizeof s->buf;
}

static void sess_data(void *u, size_t n) {
    struct sess *s = u;
    s->out_of_order = s->out_of_order || s->is_closing || s->was_gone || n == 0;
    s->got += n;
    if (s->on->data) {
        s->on->data(s, n);
    }
}

void serve_close(struct sess *s) {
    s->is_closing = true;
    srv.net->close(s->conn);
}

static void sess_gone(void *u, err why) {
    struct sess *s = u;
    s->out_of_order = s->out_of_order || s->is_closing || s->was_gone;
    s->was_gone = true;
    s->why = why;
    serve_close(s);
}

static void sess_closed(void *u) {
    struct sess *s = u;
    ck_assert(!s->was_closed);
    ck_assert(s->is_closing);
    ck_assert_uint_eq(s->dones, s->outs_n);
    ck_assert(!s->out_of_order);
    s->was_closed = true;
    srv.closed++;
    if (s->on->closed) {
        s->on->closed(s);
    }
    mem_free(s);
}

static const struct net_events sess_events = {.room = sess_room, .data = sess_data, .gone = sess_gone, .closed = sess_closed};

static void sess_done(struct net_send *snd) {
    struct sess *s = snd->u;
    s->out_of_order = s->out_of_order || snd != &s->outs[s->dones].send || s->was_closed;
    s->done_err[s->dones] = snd->err;
    chain_done(snd->chain);
    arena_done(&s->outs[s->dones].arena);
    s->dones++;
    if (s->on->done) {
        s->on->done(s, snd);
    }
}

void serve_send(struct sess *s, size_t from, size_t n, size_t piece) {
    ck_assert_uint_lt(s->outs_n, SENDS_MAX);
    struct out *o = &s->outs[s->outs_n++];
    arena_init(&o->arena, NULL, 16 * MIB);
    chain_init(&o->chain, &o->arena);
    for (size_t at = 0; at < n; at += piece) {
        size_t len = n - at < piece ? n - at : piece;
        chain_lend(&o->chain, (span){.p = serve_pattern + from + at, .n = len}, NULL);
    }
    ck_assert(chain_ok(&o->chain));
    o->send = (struct net_send){.chain = &o->chain, .done = sess_done, .u = s};
    srv.net->send(s->conn, &o->send);
}

void serve_accept(void *u, struct net_accepted *a) {
    (void)u;
    struct sess *s = mem_zalloc(MEM_TEST, sizeof *s);
    ck_assert_ptr_nonnull(s);
    s->on = srv.on;
    ck_assert(srv.net->adopt(srv.net, a, &sess_events, s, &s->conn) == ERR_OK);
    srv.last = s;
    if (s->on->adopted) {
        s->on->adopted(s);
    }
}

static void srv_turn(void *u) {
    struct port *p = u;
    if (srv.turn) {
        srv.turn();
    }
    if (srv.listener && srv.closed == srv.expected) {
        srv.net->listener_close(srv.listener);
        srv.listener = NULL;
        p->stop(p);
    }
}

void serve_listen(struct port *p, const struct hooks *on, int expected) {
    fill();
    srv.port = p;
    srv.net = p->net;
    srv.on = on;
    srv.expected = expected;
    p->on_turn(p, srv_turn, p);
    ck_assert(srv.net->listen(srv.net, "127.0.0.1", 0, serve_accept, NULL, &srv.listener) == ERR_OK);
    struct net_addr at;
    srv.net->listener_addr(srv.listener, &at);
    ck_assert_str_eq(at.host, "127.0.0.1");
    ck_assert(at.loopback);
    ck_assert_uint_ne(at.port, 0);
    srv.number = at.port;
}

/* --- the client -------------------------------------------------------------------------------- */

static void cl_up(void *u) {
    struct cl *c = u;
    if (c->up) {
        c->up(c);
    }
}

/* Everything a server of these cases sends repeats the first MiB of the pattern. */
static void cl_data(void *u, const uint8_t *p, size_t n) {
    struct cl *c = u;
    for (size_t i = 0; i < n; i++) {
        c->is_bad = c->is_bad || p[i] != serve_pattern[(c->got + i) % MIB];
    }
    c->got += n;
    if (c->more) {
        c->more(c);
    }
}

static void cl_down(void *u) {
    (void)u;                           /* the server's side of it is judged */
}

static const struct contract_client_events cl_events = {.up = cl_up, .data = cl_data, .down = cl_down};

void serve_connect(struct cl *c) {
    srv.rig->connect(srv.number, &cl_events, c, &c->c);
}

