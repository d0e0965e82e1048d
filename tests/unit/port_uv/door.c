/* The echo server of door.h: one port, one listener, one struct per connection that costs little while it is idle.
 *
 * Happy path: all connections read into the door's one buffer, and what came is copied into a chain and sent. An
 * inbox item from the test's thread asks it to end: it closes the listener and each connection and stops the port
 * after the last `closed`.
 * Failure modes: any err where none is expected aborts; the tests fork.
 * Runs on: its own thread, but for the functions of door.h. */
#include "door.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/must.h"

#define DOOR_BUF_BYTES 65536
#define DOOR_WAIT_S 20

struct visitor {
    struct list link;
    struct door *door;
    struct net_conn *conn;
    bool is_closing;
};

struct reply {
    struct arena arena;
    struct chain chain;
    struct net_send send;
    struct door *door;
};

struct door {
    struct port_uv *p;
    struct port *port;
    struct port_uv_thread *thread;
    char root[32];
    struct net_listener *listener;
    uint16_t number;
    struct inbox_item bye;
    bool is_ending;
    struct list visitors;
    pthread_mutex_t lock;              /* guards counts */
    pthread_cond_t moved;
    struct door_counts counts;
    uint8_t buf[DOOR_BUF_BYTES];
};

static uint8_t big[DOOR_BIG_BYTES];

static void bump(struct door *d, int *count, int by) {
    must(pthread_mutex_lock(&d->lock) == 0);
    *count += by;
    must(pthread_cond_broadcast(&d->moved) == 0);
    must(pthread_mutex_unlock(&d->lock) == 0);
}

static size_t on_room(void *u, uint8_t **ret_p) {
    struct visitor *v = u;
    *ret_p = v->door->buf;
    return DOOR_BUF_BYTES;
}

static void on_done(struct net_send *s) {
    struct reply *r = s->u;
    bump(r->door, s->err == ERR_OK ? &r->door->counts.sends_ok : &r->door->counts.sends_bad, 1);
    arena_done(&r->arena);
    mem_free(r);
}

static void answer(struct visitor *v, const uint8_t *p, size_t n, bool lend) {
    struct reply *r = mem_zalloc(MEM_TEST, sizeof *r);
    must(r != NULL);
    r->door = v->door;
    arena_init(&r->arena, NULL, 1 << 20);
    chain_init(&r->chain, &r->arena);
    if (lend) {
        chain_lend(&r->chain, span_of(p, n), NULL);
    } else {
        chain_copy(&r->chain, span_of(p, n));
    }
    r->send = (struct net_send){.chain = &r->chain, .done = on_done, .u = r};
    v->door->port->net->send(v->conn, &r->send);
}

static void close_now(struct visitor *v) {
    v->is_closing = true;
    v->door->port->net->close(v->conn);
}

static void close_later(struct visitor *v) {
    v->is_closing = true;
    v->door->port->net->close_after_send(v->conn, 5000);
}

static void on_data(void *u, size_t n) {
    struct visitor *v = u;
    switch (v->door->buf[0]) {
    case 'B':
        answer(v, big, sizeof big, true);
        return;
    case 'A':
        answer(v, big, sizeof big, true);
        close_later(v);
        return;
    case 'X':
        close_now(v);
        return;
    default:
        answer(v, v->door->buf, n, false);
    }
}

static void on_gone(void *u, err why) {
    struct visitor *v = u;
    bump(v->door, why == ERR_OK ? &v->door->counts.gone_ok : &v->door->counts.gone_bad, 1);
    if (why == ERR_OK) {
        close_later(v);
    } else {
        close_now(v);
    }
}

static void maybe_stop(struct door *d) {
    if (d->is_ending && list_empty(&d->visitors)) {
        d->port->stop(d->port);
    }
}

static void on_closed(void *u) {
    struct visitor *v = u;
    struct door *d = v->door;
    list_remove(&v->link);
    mem_free(v);
    bump(d, &d->counts.open, -1);
    bump(d, &d->counts.closed, 1);
    maybe_stop(d);
}

/* What a log does when it rolls: it must find a descriptor however many clients there are (T57). */
static void open_a_file(struct door *d) {
    struct disk_req op = {.op = DISK_OPEN, .path = "roll", .flags = DISK_RDWR | DISK_CREATE};
    if (disk_call(d->port->disk, &op) != ERR_OK) {
        bump(d, &d->counts.opens_failed, 1);
        return;
    }
    struct disk_req cl = {.op = DISK_CLOSE, .file = op.file};
    must(disk_call(d->port->disk, &cl) == ERR_OK);
}

static void on_accept(void *u, struct net_accepted *a) {
    static const struct net_events ev = {.room = on_room, .data = on_data, .gone = on_gone, .closed = on_closed};
    struct door *d = u;
    open_a_file(d);
    struct visitor *v = mem_zalloc(MEM_TEST, sizeof *v);
    must(v != NULL);
    v->door = d;
    must(d->port->net->adopt(d->port->net, a, &ev, v, &v->conn) == ERR_OK);
    list_push_back(&d->visitors, &v->link);
    bump(d, &d->counts.open, 1);
    bump(d, &d->counts.accepted, 1);
}

static void turn(void *u) {
    struct door *d = u;
    struct list got;
    list_init(&got);
    if (d->port->inbox->drain(d->port->inbox, &got, 1) == 0) {
        return;
    }
    d->is_ending = true;
    d->port->net->listener_close(d->listener);
    list_each(it, &d->visitors) {
        close_now(list_entry(it, struct visitor, link));
    }
    maybe_stop(d);
}

static void body(void *u) {
    struct door *d = u;
    port_uv_run(d->p);
}

static struct door *open_door(void) {
    struct door *d = mem_zalloc(MEM_TEST, sizeof *d);
    must(d != NULL);
    (void)snprintf(d->root, sizeof d->root, "/tmp/door_XXXXXX");
    must(mkdtemp(d->root) != NULL);
    must(port_uv_new(0, d->root, &d->p) == ERR_OK);
    d->port = port_uv_port(d->p);
    must(pthread_mutex_init(&d->lock, NULL) == 0);
    must(pthread_cond_init(&d->moved, NULL) == 0);
    list_init(&d->visitors);
    return d;
}

static void shut_door(struct door *d) {
    struct disk_req rm = {.op = DISK_UNLINK, .path = "roll"};
    (void)disk_call(d->port->disk, &rm);               /* may never have been made */
    port_uv_free(d->p);
    must(rmdir(d->root) == 0);
    must(pthread_cond_destroy(&d->moved) == 0);
    must(pthread_mutex_destroy(&d->lock) == 0);
    mem_free(d);
}

struct door *door_new(const char *host, uint16_t port) {
    struct door *d = open_door();
    d->port->on_turn(d->port, turn, d);
    must(d->port->net->listen(d->port->net, host, port, on_accept, d, &d->listener) == ERR_OK);
    struct net_addr at;
    d->port->net->listener_addr(d->listener, &at);
    d->number = at.port;
    must(port_uv_thread_start("door", body, d, &d->thread) == ERR_OK);
    return d;
}

err door_try(const char *host, uint16_t port) {
    struct door *d = open_door();
    struct net_listener *l;
    err e = d->port->net->listen(d->port->net, host, port, on_accept, d, &l);
    if (e == ERR_OK) {
        d->port->net->listener_close(l);
    }
    shut_door(d);
    return e;
}

uint16_t door_number(const struct door *d) {
    return d->number;
}

void door_wait(struct door *d, bool (*pred)(const struct door_counts *c, int n), int n) {
    struct timespec until;
    must(clock_gettime(CLOCK_REALTIME, &until) == 0);
    until.tv_sec += DOOR_WAIT_S;
    must(pthread_mutex_lock(&d->lock) == 0);
    while (!pred(&d->counts, n)) {
        must(pthread_cond_timedwait(&d->moved, &d->lock, &until) == 0);
    }
    must(pthread_mutex_unlock(&d->lock) == 0);
}

struct door_counts door_now(struct door *d) {
    must(pthread_mutex_lock(&d->lock) == 0);
    struct door_counts c = d->counts;
    must(pthread_mutex_unlock(&d->lock) == 0);
    return c;
}

struct door_counts door_free(struct door *d) {
    d->port->inbox->post(d->port->inbox, &d->bye);
    port_uv_thread_join(d->thread);
    struct door_counts c = d->counts;
    must(c.open == 0);
    shut_door(d);
    return c;
}

int door_connect(uint16_t number) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(fd >= 0);
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(number), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    must(connect(fd, (struct sockaddr *)&sa, sizeof sa) == 0);
    return fd;
}

void door_ping(int fd) {
    char c = 'p';
    must(send(fd, &c, 1, MSG_NOSIGNAL) == 1);
    c = 0;
    must(recv(fd, &c, 1, 0) == 1);
    must(c == 'p');
}
