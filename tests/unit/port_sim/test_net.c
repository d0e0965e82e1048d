/* Goal: what the shared contract cannot ask of a real network: resets, clients that vanish, cuts in the middle, nodes that die, and that
 * socket buffers are bounded. Method: an echo server on one node, scripted clients, many seeds where chance decides. */
#include "base/mem.h"
#include "echo.h"
#include "run.h"

struct peer {
    struct world_client *c;
    int up, down;
    err why;
    size_t got;
};

static struct world *w;
static struct world_node *n;
static struct echo_seen seen;
static struct peer peer;

static void on_up(void *u) {
    ((struct peer *)u)->up++;
}

static void on_data(void *u, const uint8_t *p, size_t bytes) {
    (void)p;
    ((struct peer *)u)->got += bytes;
}

static void on_down(void *u, err why) {
    struct peer *p = u;
    p->down++;
    p->why = why;
}

static const struct world_client_events events = {on_up, on_data, on_down};

static void begin(uint64_t seed) {
    w = world_new(seed);
    n = world_node_new(w, "node");
    memset(&peer, 0, sizeof peer);
}

static void start(struct echo_seen s) {
    seen = s;
    ck_assert(world_node_start(n, 1, echo_boot, &seen) == ERR_OK);
    peer.c = world_connect(w, n, ECHO_PORT, &events, &peer);
}

static void pass(ms how_long) {
    (void)world_run(w, NULL, NULL, how_long);
}

static void end(void) {
    world_client_close(peer.c);
    world_free(w);
    ck_assert_uint_eq(mem_live_all(), 0);
}

START_TEST(nobody_listens) {
    begin(1);
    peer.c = world_connect(w, n, ECHO_PORT, &events, &peer);
    pass(100);
    ck_assert(peer.up == 0 && peer.down == 1 && peer.why == ERR_UNREACHABLE);
    end();
    begin(2);
    start((struct echo_seen){0});
    world_node_crash(n, false);
    pass(100);
    ck_assert(peer.up == 0 && peer.down == 1 && peer.why == ERR_UNREACHABLE);
    end();
}
END_TEST

START_TEST(refused_connection_ends_in_order) {
    begin(1);
    start((struct echo_seen){.refuse = true});
    pass(100);
    ck_assert(peer.up == 1 && peer.down == 1 && peer.why == ERR_OK);
    end();
}
END_TEST

START_TEST(peer_address_is_the_clients) {
    begin(1);
    world_peer_host(w, "10.1.2.3");
    start((struct echo_seen){0});
    pass(100);
    ck_assert_str_eq(seen.peer.host, "10.1.2.3");
    ck_assert(!seen.peer.loopback);
    end();
}
END_TEST

START_TEST(reset_fails_what_is_unsent_and_is_told_once) {
    begin(1);
    start((struct echo_seen){.greet = 1 << 20});
    world_client_pause(peer.c, true);
    pass(100);
    ck_assert_uint_gt(seen.unsent, 0);
    world_client_reset(peer.c);
    peer.c = NULL;
    pass(100);
    ck_assert(seen.gone == 1 && seen.why == ERR_IO && seen.closed == 1 && seen.failed == 1);
    end();
}
END_TEST

/* A socket buffer takes 64 to 256 KiB; the rest stays with the sender. */
START_TEST(paused_reader_bounds_what_is_taken) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        begin(seed);
        start((struct echo_seen){.greet = 1 << 20});
        world_client_pause(peer.c, true);
        pass(100);
        size_t taken = (1 << 20) - seen.unsent;
        ck_assert_uint_ge(taken, 64 << 10);
        ck_assert_uint_le(taken, 256 << 10);
        ck_assert_int_eq(seen.sent, 0);
        world_client_pause(peer.c, false);
        pass(1000);
        ck_assert_int_eq(seen.sent, 1);
        ck_assert_uint_eq(peer.got, 1 << 20);
        end();
    }
}
END_TEST

START_TEST(vanished_client_is_never_heard_of) {
    begin(1);
    start((struct echo_seen){.greet = 1 << 20});
    world_client_pause(peer.c, true);
    pass(100);
    world_client_vanish(peer.c);
    peer.c = NULL;
    pass(3600000);
    ck_assert(seen.gone == 0 && seen.closed == 0 && seen.sent == 0);
    ck_assert_uint_gt(seen.unsent, 0);
    end();
}
END_TEST

START_TEST(linger_ends_for_a_vanished_client) {
    begin(1);
    start((struct echo_seen){.greet = 1 << 20, .linger = 500});
    world_client_pause(peer.c, true);
    pass(100);
    world_client_vanish(peer.c);
    peer.c = NULL;
    pass(1000);
    ck_assert(seen.gone == 0 && seen.closed == 1 && seen.failed == 1);
    end();
}
END_TEST

/* A client that has sent its last byte still gets the replies. */
START_TEST(shut_client_reads_on) {
    begin(1);
    start((struct echo_seen){.keep = true});
    world_client_send(peer.c, "hello", 5);
    world_client_shut(peer.c);
    pass(100);
    ck_assert(seen.gone == 1 && seen.why == ERR_OK && seen.got == 5);
    ck_assert_uint_eq(peer.got, 5);
    ck_assert_int_eq(peer.down, 0);
    end();
}
END_TEST

/* An orderly close of a client that has read everything is told behind its bytes. */
START_TEST(bytes_come_before_the_end) {
    for (uint64_t seed = 1; seed <= 20; seed++) {
        begin(seed);
        start((struct echo_seen){0});
        static const uint8_t bytes[100000];
        pass(10);
        world_client_send(peer.c, bytes, 60000);
        world_client_close(peer.c);
        peer.c = NULL;
        pass(1000);
        ck_assert(seen.gone == 1 && seen.closed == 1);
        ck_assert(seen.why == ERR_OK ? seen.got == 60000 : seen.got <= 60000);      /* the echo may meet a reset */
        end();
    }
}
END_TEST

START_TEST(cut_strikes_in_the_middle) {
    int cut = 0, middle = 0;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        begin(seed);
        world_faults_set(w, &(struct world_faults){.net_cut = 10000});
        start((struct echo_seen){0});
        static const uint8_t bytes[50000];
        world_client_send(peer.c, bytes, sizeof bytes);
        pass(1000);
        cut += seen.gone == 1 && seen.why == ERR_IO && seen.closed == 1 && peer.down == 1 && peer.why == ERR_IO;
        middle += seen.got > 0 && seen.got < sizeof bytes;
        ck_assert(seen.gone == 1 || peer.got == sizeof bytes);
        end();
    }
    ck_assert_int_gt(cut, 20);
    ck_assert_int_gt(middle, 5);
}
END_TEST

START_TEST(dead_node_takes_its_connections_along) {
    int orderly = 0, reset = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        begin(seed);
        start((struct echo_seen){0});
        world_client_send(peer.c, "hello", 5);
        pass(100);
        ck_assert_uint_eq(peer.got, 5);
        world_node_crash(n, seed % 2 == 0);
        pass(1000);
        ck_assert(peer.down == 1 && seen.closed == 0 && seen.gone == 0);
        orderly += peer.why == ERR_OK;
        reset += peer.why == ERR_IO;
        end();
    }
    ck_assert_int_gt(orderly, 5);
    ck_assert_int_gt(reset, 5);
}
END_TEST

START_TEST(pause_of_the_node_delays_everything) {      /* T22: SIGSTOP */
    begin(1);
    start((struct echo_seen){0});
    pass(100);
    world_node_pause(n, 20000);
    world_client_send(peer.c, "hello", 5);
    pass(19000);
    ck_assert(seen.got == 0 && peer.got == 0);
    pass(3000);
    ck_assert(seen.got == 5 && peer.got == 5);
    end();
}
END_TEST

int main(void) {
    return run("net_sim", TESTS(nobody_listens, refused_connection_ends_in_order, peer_address_is_the_clients,
                                reset_fails_what_is_unsent_and_is_told_once, paused_reader_bounds_what_is_taken,
                                vanished_client_is_never_heard_of, linger_ends_for_a_vanished_client, shut_client_reads_on,
                                bytes_come_before_the_end, cut_strikes_in_the_middle, dead_node_takes_its_connections_along,
                                pause_of_the_node_delays_everything), NULL);
}
