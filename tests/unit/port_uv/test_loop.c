/* Loops on real threads: a million messages in order, disk completions across threads, and that an idle loop costs
 * nothing.
 *
 * Method: ports on threads of their own that exchange messages at full speed; run under TSan this is the proof of
 * the hand-off of inbox and disk lanes. */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/must.h"
#include "port_uv/door.h"
#include "port_uv/port_uv.h"

static char root[] = "/tmp/loop_XXXXXX";

static void setup(void) {
    must(mkdtemp(root) != NULL);
}

static void teardown(void) {
    char rm[64];
    (void)snprintf(rm, sizeof rm, "rm -rf %s", root);
    must(system(rm) == 0);
}

static struct port_uv *port_new(uint32_t shard) {
    struct port_uv *p = NULL;
    must(port_uv_new(shard, root, &p) == ERR_OK);
    return p;
}

static void run(void *u) {
    port_uv_run(u);
}

/* --- a million messages from two senders to one receiver --------------------------------------- */

#define MESSAGES 1000000
#define SENDERS 2
#define BURST 500

struct message {
    struct inbox_item item;
    uint32_t sender, number;
};

static struct {
    struct port_uv *to, *from[SENDERS];
    struct message *messages[SENDERS];
    uint32_t sent[SENDERS];            /* each its sender's */
    uint32_t next[SENDERS];            /* the receiver's */
    bool is_wrong;
} mil;

static void send_turn(void *u) {
    uint32_t *sent = u;
    uint32_t me = (uint32_t)(sent - mil.sent);
    struct port *p = port_uv_port(mil.from[me]);
    struct inbox *to = port_uv_port(mil.to)->inbox;
    for (int i = 0; i < BURST && *sent < MESSAGES; i++, (*sent)++) {
        struct message *m = &mil.messages[me][*sent];
        m->sender = me;
        m->number = *sent;
        to->post(to, &m->item);
    }
    if (*sent < MESSAGES) {
        p->again(p);
    } else {
        p->stop(p);
    }
}

static void receive_turn(void *u) {
    struct port *p = u;
    struct list got;
    list_init(&got);
    (void)p->inbox->drain(p->inbox, &got, 4096);       /* what is left brings another turn */
    for (struct list *it; (it = list_pop_front(&got));) {
        const struct message *m = list_entry(it, struct message, item.link);
        mil.is_wrong = mil.is_wrong || m->number != mil.next[m->sender];
        mil.next[m->sender]++;
    }
    if (mil.next[0] == MESSAGES && mil.next[1] == MESSAGES) {
        p->stop(p);
    }
}

START_TEST(inbox_keeps_the_order_of_a_million) {
    struct port_uv_thread *threads[SENDERS];
    mil.to = port_new(0);
    port_uv_port(mil.to)->on_turn(port_uv_port(mil.to), receive_turn, port_uv_port(mil.to));
    for (uint32_t i = 0; i < SENDERS; i++) {
        mil.messages[i] = mem_zalloc(MEM_TEST, MESSAGES * sizeof(struct message));
        must(mil.messages[i] != NULL);
        mil.from[i] = port_new(i + 1);
        struct port *p = port_uv_port(mil.from[i]);
        p->on_turn(p, send_turn, &mil.sent[i]);
        p->again(p);
        must(port_uv_thread_start("a-name-that-is-too-long", run, mil.from[i], &threads[i]) == ERR_OK);
    }
    port_uv_run(mil.to);
    for (uint32_t i = 0; i < SENDERS; i++) {
        port_uv_thread_join(threads[i]);
        port_uv_free(mil.from[i]);
        mem_free(mil.messages[i]);
        ck_assert_uint_eq(mil.next[i], MESSAGES);
    }
    port_uv_free(mil.to);
    ck_assert(!mil.is_wrong);
}
END_TEST

/* --- two loops that serve each other, each with its disk --------------------------------------- */

#define PAIRS 32
#define ROUNDS 300

/* One that travels: at each stop the shard writes its number into its own file, syncs, reads it back, and sends it
 * on. */
struct traveller {
    struct inbox_item item;
    uint32_t slot, round;
    struct node *at;
    struct disk_req rq;
    struct iovec iov;
    uint32_t value, back;
};

struct node {
    struct port_uv *p;
    struct port *port;
    struct node *other;
    struct disk_file *file;
    int finished;
    bool is_wrong;
};

static struct node nodes[2];
static struct traveller travellers[PAIRS];

static void move_on(struct traveller *t) {
    struct inbox *to = t->at->other->port->inbox;
    t->at = t->at->other;
    to->post(to, &t->item);
}

static void read_done(struct disk_req *rq) {
    struct traveller *t = rq->u;
    t->at->is_wrong = t->at->is_wrong || rq->err != ERR_OK || t->back != t->value;
    move_on(t);
}

static void sync_done(struct disk_req *rq) {
    struct traveller *t = rq->u;
    t->at->is_wrong = t->at->is_wrong || rq->err != ERR_OK;
    *rq = (struct disk_req){.op = DISK_READ, .lane = DISK_LANE_READ, .file = t->at->file, .at = t->slot * 4, .buf = &t->back,
                            .len = 4, .done = read_done, .u = t};
    disk_submit(t->at->port->disk, rq);
}

static void write_done(struct disk_req *rq) {
    struct traveller *t = rq->u;
    t->at->is_wrong = t->at->is_wrong || rq->err != ERR_OK || rq->did != 4;
    /* Few real syncs, else this is a test of the disk. */
    *rq = (struct disk_req){.op = DISK_SYNC, .lane = DISK_LANE_SYNC, .files = &t->at->file,
                            .files_n = t->slot == 0 && t->round % 100 == 0, .done = sync_done, .u = t};
    disk_submit(t->at->port->disk, rq);
}

static void arrive(struct node *nd, struct traveller *t) {
    if (t->round == ROUNDS) {
        nd->finished++;
        return;
    }
    t->round++;
    t->value = t->slot * 1000003 + t->round;
    t->iov = (struct iovec){.iov_base = &t->value, .iov_len = 4};
    t->rq = (struct disk_req){.op = DISK_WRITE, .lane = DISK_LANE_WRITE, .file = nd->file, .at = t->slot * 4, .iov = &t->iov,
                              .iov_n = 1, .done = write_done, .u = t};
    disk_submit(nd->port->disk, &t->rq);
}

static struct inbox_item bye;

/* All travellers end on node 0 (ROUNDS is even); it says goodbye to node 1. */
static void node_turn(void *u) {
    struct node *nd = u;
    struct list got;
    list_init(&got);
    (void)nd->port->inbox->drain(nd->port->inbox, &got, 4096);
    for (struct list *it; (it = list_pop_front(&got));) {
        if (it == &bye.link) {
            nd->port->stop(nd->port);
            return;
        }
        arrive(nd, list_entry(it, struct traveller, item.link));
    }
    if (nd->finished == PAIRS) {
        nd->other->port->inbox->post(nd->other->port->inbox, &bye);
        nd->port->stop(nd->port);
    }
}

static void node_open(struct node *nd, uint32_t shard, const char *path) {
    nd->p = port_new(shard);
    nd->port = port_uv_port(nd->p);
    nd->other = &nodes[1 - shard];
    struct disk_req rq = {.op = DISK_OPEN, .path = path, .flags = DISK_RDWR | DISK_CREATE};
    must(disk_call(nd->port->disk, &rq) == ERR_OK);
    nd->file = rq.file;
    nd->port->on_turn(nd->port, node_turn, nd);
}

static void node_close(struct node *nd) {
    struct disk_req rq = {.op = DISK_CLOSE, .file = nd->file};
    must(disk_call(nd->port->disk, &rq) == ERR_OK);
    port_uv_free(nd->p);
    ck_assert(!nd->is_wrong);
}

START_TEST(two_loops_and_their_lanes_exchange_work) {
    struct port_uv_thread *thread;
    node_open(&nodes[0], 0, "zero");
    node_open(&nodes[1], 1, "one");
    for (uint32_t i = 0; i < PAIRS; i++) {
        travellers[i].slot = i;
        travellers[i].at = &nodes[0];
        nodes[0].port->inbox->post(nodes[0].port->inbox, &travellers[i].item);
    }
    must(port_uv_thread_start("one", run, nodes[1].p, &thread) == ERR_OK);
    port_uv_run(nodes[0].p);
    port_uv_thread_join(thread);
    ck_assert_int_eq(nodes[0].finished, PAIRS);
    node_close(&nodes[0]);
    node_close(&nodes[1]);
}
END_TEST

/* --- idle is idle ------------------------------------------------------------------------------ */

static int64_t cpu_us(void) {
    struct timespec t;
    must(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t switches(void) {
    struct rusage r;
    must(getrusage(RUSAGE_SELF, &r) == 0);
    return r.ru_nvcsw;
}

#define IDLE_CLIENTS 100
#ifdef __SANITIZE_THREAD__
#define IDLE_WAKES_MAX 50              /* its own thread wakes up all the time */
#else
#define IDLE_WAKES_MAX 2               /* our own poll, and none of the loop's */
#endif

START_TEST(idle_loop_does_not_wake_up) {               /* P14 */
    struct door *d = door_new("127.0.0.1", 0);
    struct pollfd fds[IDLE_CLIENTS];
    for (int i = 0; i < IDLE_CLIENTS; i++) {
        fds[i] = (struct pollfd){.fd = door_connect(door_number(d)), .events = POLLIN};
        door_ping(fds[i].fd);
    }
    ck_assert_int_eq(poll(fds, IDLE_CLIENTS, 50), 0);
    int64_t cpu = cpu_us();
    int64_t slept = switches();
    ck_assert_int_eq(poll(fds, IDLE_CLIENTS, 500), 0); /* nobody says anything for so long */
    ck_assert_int_le(switches() - slept, IDLE_WAKES_MAX);
    ck_assert_int_lt(cpu_us() - cpu, 10000);
    for (int i = 0; i < IDLE_CLIENTS; i++) {
        door_ping(fds[i].fd);
        close(fds[i].fd);
    }
    (void)door_free(d);
}
END_TEST

/* --- a disk without a loop, and ports that cannot be made -------------------------------------- */

START_TEST(missing_directory_is_not_found) {
    struct port_uv *p = NULL;
    struct disk *disk = NULL;
    ck_assert(port_uv_new(0, "/tmp/none/such", &p) == ERR_NOT_FOUND);
    ck_assert(port_uv_disk_new("/tmp/none/such", &disk) == ERR_NOT_FOUND);
    ck_assert(!p && !disk);
    port_uv_free(NULL);
    port_uv_disk_free(NULL);
}
END_TEST

/* A port needs a handful of descriptors: with fewer free it is refused in plain words. (libuv 1.44 may lose one
 * then: each in its own process.) */
START_TEST(port_without_descriptors_is_refused) {      /* _i free ones; 4 stands for enough */
    port_uv_free(port_new(0));         /* what libuv opens once per process is open now */
    int lowest = dup(0);
    close(lowest);
    struct rlimit former, lim;
    must(getrlimit(RLIMIT_NOFILE, &former) == 0);
    lim = former;
    lim.rlim_cur = (rlim_t)(lowest + (_i < 4 ? _i : 12));
    must(setrlimit(RLIMIT_NOFILE, &lim) == 0);
    struct port_uv *p = NULL;
    err e = port_uv_new(0, root, &p);
    must(setrlimit(RLIMIT_NOFILE, &former) == 0);
    ck_assert_msg(e == (_i < 4 ? ERR_LIMIT : ERR_OK), "%d free: %s", _i, err_name(e));
    ck_assert((e == ERR_OK) == (p != NULL));
    port_uv_free(p);
}
END_TEST

int main(void) {
    Suite *s = suite_create("port_uv.loop");
    TCase *tc = tcase_create("loop");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, inbox_keeps_the_order_of_a_million);
    tcase_add_test(tc, two_loops_and_their_lanes_exchange_work);
    tcase_add_test(tc, idle_loop_does_not_wake_up);
    tcase_add_test(tc, missing_directory_is_not_found);
    tcase_add_loop_test(tc, port_without_descriptors_is_refused, 0, 5);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
