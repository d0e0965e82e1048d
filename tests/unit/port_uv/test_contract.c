/* The contract of the port (tests/unit/port) on the real one: libuv loops on threads, a temporary directory,
 * clients on real sockets.
 *
 * Method: port 0 runs on the main thread, the others on threads of their own; all clients run on one more thread,
 * by poll(). The test program brings its own fdatasync, which stops at a gate while syncs are held. */
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/must.h"
#include "port/contract.h"
#include "port_uv/port_uv.h"

#define PORTS_MAX 4
#define CLIENTS_MAX 16

/* --- the gate ---------------------------------------------------------------------------------- */

static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_moved = PTHREAD_COND_INITIALIZER;
static bool gate_is_shut;

int fdatasync(int fd) {
    static int (*real)(int);
    pthread_mutex_lock(&gate_lock);
    if (!real) {
        *(void **)&real = dlsym(RTLD_NEXT, "fdatasync");
    }
    while (gate_is_shut) {
        pthread_cond_wait(&gate_moved, &gate_lock);
    }
    pthread_mutex_unlock(&gate_lock);
    return real(fd);
}

static void hold_syncs(bool hold) {
    pthread_mutex_lock(&gate_lock);
    gate_is_shut = hold;
    pthread_cond_broadcast(&gate_moved);
    pthread_mutex_unlock(&gate_lock);
}

/* --- the clients ------------------------------------------------------------------------------- */

struct contract_client {
    const struct contract_client_events *ev;
    void *u;
    int fd;
    bool is_up, is_paused, is_closed;
    uint8_t *out;
    size_t out_n, out_cap;
};

static struct {
    pthread_t thread;
    pthread_mutex_t lock;              /* guards fresh and quit */
    struct contract_client *fresh[CLIENTS_MAX];
    size_t fresh_n;
    bool quit;
    int wake;
    struct contract_client *all[CLIENTS_MAX];      /* the client thread's */
    size_t all_n;
} cls = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void wake_clients(void) {
    uint64_t one = 1;
    must(write(cls.wake, &one, sizeof one) == (ssize_t)sizeof one);
}

static void client_connect(uint16_t port, const struct contract_client_events *ev, void *u, struct contract_client **ret_c) {
    struct contract_client *c = calloc(1, sizeof *c);
    must(c != NULL);
    c->ev = ev;
    c->u = u;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    must(c->fd >= 0);
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int r = connect(c->fd, (struct sockaddr *)&sa, sizeof sa);
    must(r == 0 || errno == EINPROGRESS || errno == ECONNREFUSED);
    *ret_c = c;
    pthread_mutex_lock(&cls.lock);
    must(cls.fresh_n < CLIENTS_MAX);
    cls.fresh[cls.fresh_n++] = c;
    pthread_mutex_unlock(&cls.lock);
    wake_clients();
}

static void client_send(struct contract_client *c, const void *p, size_t n) {
    if (c->out_n + n > c->out_cap) {
        c->out_cap = (c->out_n + n) * 2;
        c->out = realloc(c->out, c->out_cap);
        must(c->out != NULL);
    }
    memcpy(c->out + c->out_n, p, n);
    c->out_n += n;
}

static void client_pause(struct contract_client *c, bool pause) {
    c->is_paused = pause;
}

static void client_close(struct contract_client *c) {
    c->is_closed = true;
}

static void client_free(struct contract_client *c) {
    close(c->fd);
    free(c->out);
    free(c);
}

static void client_down(struct contract_client *c) {
    c->is_closed = true;
    c->ev->down(c->u);
}

static void client_write(struct contract_client *c) {
    ssize_t n = send(c->fd, c->out, c->out_n, MSG_NOSIGNAL);
    if (n > 0) {
        c->out_n -= (size_t)n;
        memmove(c->out, c->out + n, c->out_n);
    } else if (errno != EAGAIN) {
        c->out_n = 0;                  /* reading tells the end */
    }
}

static void client_read(struct contract_client *c) {
    static uint8_t buf[1 << 16];
    ssize_t n = recv(c->fd, buf, sizeof buf, 0);
    if (n > 0 && c->ev->data) {
        c->ev->data(c->u, buf, (size_t)n);
    } else if (n == 0 || (n < 0 && errno != EAGAIN)) {
        client_down(c);
    }
}

static void client_step(struct contract_client *c, short revents) {
    if (!c->is_up && revents != 0) {
        int e = 0;
        socklen_t len = sizeof e;
        must(getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &e, &len) == 0);
        if (e != 0) {
            client_down(c);
            return;
        }
        c->is_up = true;
        c->ev->up(c->u);
    } else if (revents & (POLLIN | POLLHUP | POLLERR) && !c->is_paused) {
        client_read(c);
    }
    if (!c->is_closed && c->is_up && c->out_n > 0) {
        client_write(c);
    }
}

static short client_wants(const struct contract_client *c) {
    if (!c->is_up) {
        return POLLOUT;
    }
    return (short)((c->is_paused ? 0 : POLLIN) | (c->out_n > 0 ? POLLOUT : 0));
}

/* False: the run is over. */
static bool take_fresh(void) {
    pthread_mutex_lock(&cls.lock);
    for (size_t i = 0; i < cls.fresh_n; i++) {
        must(cls.all_n < CLIENTS_MAX);
        cls.all[cls.all_n++] = cls.fresh[i];
    }
    cls.fresh_n = 0;
    bool quit = cls.quit;
    pthread_mutex_unlock(&cls.lock);
    return !quit;
}

static void sweep(bool all) {
    size_t kept = 0;
    for (size_t i = 0; i < cls.all_n; i++) {
        if (all || cls.all[i]->is_closed) {
            client_free(cls.all[i]);
        } else {
            cls.all[kept++] = cls.all[i];
        }
    }
    cls.all_n = kept;
}

static void *run_clients(void *u) {
    (void)u;
    while (take_fresh()) {
        struct pollfd fds[CLIENTS_MAX + 1] = {{.fd = cls.wake, .events = POLLIN}};
        size_t n = cls.all_n;
        for (size_t i = 0; i < n; i++) {
            short events = client_wants(cls.all[i]);
            fds[i + 1] = (struct pollfd){.fd = events ? cls.all[i]->fd : -1, .events = events};
        }
        must(poll(fds, n + 1, -1) > 0);
        uint64_t drop;
        must(!(fds[0].revents & POLLIN) || read(cls.wake, &drop, sizeof drop) == (ssize_t)sizeof drop);
        for (size_t i = 0; i < n; i++) {
            if (!cls.all[i]->is_closed) {
                client_step(cls.all[i], fds[i + 1].revents);
            }
        }
        sweep(false);
    }
    sweep(true);
    return NULL;
}

/* --- the run ----------------------------------------------------------------------------------- */

static void run_port(void *u) {
    port_uv_run(u);
}

static void run_ports(struct port_uv **ports, uint32_t shards) {
    struct port_uv_thread *threads[PORTS_MAX];
    for (uint32_t i = 1; i < shards; i++) {
        must(port_uv_thread_start("contract-shard", run_port, ports[i], &threads[i]) == ERR_OK);
    }
    port_uv_run(ports[0]);
    for (uint32_t i = 1; i < shards; i++) {
        port_uv_thread_join(threads[i]);
    }
}

static bool run(uint32_t shards, void (*boot)(void *u, struct port **ports, uint32_t shards), void *u) {
    char root[] = "/tmp/port_uv_XXXXXX", rm[64];
    must(mkdtemp(root) != NULL);
    cls.wake = eventfd(0, EFD_CLOEXEC);
    must(cls.wake >= 0);
    struct port_uv *ports[PORTS_MAX];
    struct port *faces[PORTS_MAX];
    for (uint32_t i = 0; i < shards; i++) {
        must(port_uv_new(i, root, &ports[i]) == ERR_OK);
        faces[i] = port_uv_port(ports[i]);
    }
    must(pthread_create(&cls.thread, NULL, run_clients, NULL) == 0);
    boot(u, faces, shards);
    run_ports(ports, shards);
    pthread_mutex_lock(&cls.lock);
    cls.quit = true;
    pthread_mutex_unlock(&cls.lock);
    wake_clients();
    pthread_join(cls.thread, NULL);
    for (uint32_t i = 0; i < shards; i++) {
        port_uv_free(ports[i]);
    }
    close(cls.wake);
    (void)snprintf(rm, sizeof rm, "rm -rf %s", root);
    return system(rm) == 0;
}

int main(void) {
    static const struct contract_rig rig = {.name = "port_uv", .run = run, .connect = client_connect, .send = client_send,
                                            .pause = client_pause, .close = client_close, .hold_syncs = hold_syncs};
    return contract_main(&rig);
}
