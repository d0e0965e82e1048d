/* The loop of one shard: poll, then turn, then what the turn wrote, then poll again.
 *
 * Happy path: whatever a poll delivers (bytes, an accepted socket, disk completions, asks, signals) kicks: the
 * check handle, which runs right after the poll, then runs the turn once, and after it one gathered write per
 * connection that the turn wrote to. What a write has finished is told from the idle handle, which is the beginning
 * of the next poll; so nothing ever calls back from inside a call.
 * A loop without anything to do blocks in epoll without a deadline: it costs no CPU (P14).
 * wake_at arms one timer with an absolute time; the check compares with the clock itself, so a timer's callback is
 * needed only when the time came after the check had looked.
 * Failure modes: no descriptor or memory for a loop: an err of port_uv_new. Freeing a port with connections,
 * listeners or disk requests is a broken invariant: their owners' memory would be called back later.
 * Runs on: port_uv_new and _free anywhere while no loop runs; wake (of inbox and lanes) on any thread; the rest on
 * the loop's thread. */
#include "port_uv/port_uv.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/random.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "base/must.h"
#include "port_uv_loop.h"

static void on_idle(uv_idle_t *h) {
    struct port_uv *p = h->data;
    net_uv_deliver(&p->net);
}

void port_uv_kick(struct port_uv *p) {
    p->delivered = true;
    must(uv_idle_start(&p->idle, on_idle) == 0);
}

static void on_timer(uv_timer_t *h) {
    port_uv_kick(h->data);
}

static void on_check(uv_check_t *h) {
    struct port_uv *p = h->data;
    bool due = p->wake != INT64_MAX && p->wake <= clock_now(&p->clock);
    if (!p->delivered && !due) {
        return;
    }
    p->delivered = false;
    must(uv_idle_stop(&p->idle) == 0);
    if (due) {
        p->wake = INT64_MAX;
        must(uv_timer_stop(&p->timer) == 0);
    }
    if (p->turn) {
        p->turn(p->turn_u);
    }
    net_uv_flush(&p->net);
}

static void on_async(uv_async_t *h) {
    struct port_uv *p = h->data;
    p->delivered = true;               /* this is the poll: the check comes next */
    port_uv_signals_take(p);
    (void)disk_uv_deliver(&p->disk);   /* how many does not matter: a turn follows anyway */
    work_uv_deliver(&p->work);
}

/* Any thread; also from a signal handler. */
static void wake(void *u) {
    struct port_uv *p = u;
    if (atomic_load_explicit(&p->runner, memory_order_relaxed) == (uintptr_t)pthread_self()) {
        port_uv_kick(p);
    } else {
        must(uv_async_send(&p->async) == 0);
    }
}

static void wake_loop(void *u) {
    struct port_uv *p = u;
    must(uv_async_send(&p->async) == 0);
}

static void kick(void *u) {
    port_uv_kick(u);
}

static ms mono_ms(struct clock *c) {
    (void)c;
    return (ms)(uv_hrtime() / 1000000);
}

static int64_t mono_us(struct clock *c) {
    (void)c;
    return (int64_t)(uv_hrtime() / 1000);
}

static ms wall_ms(struct clock *c) {
    (void)c;
    uv_timeval64_t t;
    must(uv_gettimeofday(&t) == 0);
    return t.tv_sec * 1000 + t.tv_usec / 1000;
}

/* The kernel's own source: no library state to seed, to fork or to forget. */
static void secret(struct port *port, uint8_t *buf, size_t n) {
    (void)port;
    for (size_t did = 0; did < n;) {
        ssize_t got = getrandom(buf + did, n - did, 0);
        must(got > 0 || errno == EINTR);
        did += got > 0 ? (size_t)got : 0;
    }
}

static void on_turn(struct port *port, void (*turn)(void *u), void *u) {
    struct port_uv *p = (struct port_uv *)port;
    p->turn = turn;
    p->turn_u = u;
}

static void wake_at(struct port *port, ms due) {
    struct port_uv *p = (struct port_uv *)port;
    if (due == p->wake) {
        return;
    }
    p->wake = due;
    if (due == INT64_MAX) {
        must(uv_timer_stop(&p->timer) == 0);
        return;
    }
    /* uv_now is the same clock, cached: what counts is the absolute time that results. */
    ms now = (ms)uv_now(&p->loop);
    must(uv_timer_start(&p->timer, on_timer, due > now ? (uint64_t)(due - now) : 0, 0) == 0);
}

static void again(struct port *port) {
    port_uv_kick((struct port_uv *)port);
}

static void stop(struct port *port) {
    uv_stop(&((struct port_uv *)port)->loop);
}

/* A peer that went away must be an EPIPE, not the end of the process. */
static void ignore_sigpipe(void) {
    struct sigaction sa;
    must(sigaction(SIGPIPE, NULL, &sa) == 0);
    if (sa.sa_handler == SIG_DFL) {
        sa.sa_handler = SIG_IGN;
        must(sigaction(SIGPIPE, &sa, NULL) == 0);
    }
}

static void init_handles(struct port_uv *p) {
    must(uv_check_init(&p->loop, &p->check) == 0);
    must(uv_idle_init(&p->loop, &p->idle) == 0);
    must(uv_timer_init(&p->loop, &p->timer) == 0);
    p->check.data = p->idle.data = p->timer.data = p->async.data = p;
    must(uv_check_start(&p->check, on_check) == 0);
}

static void init_port(struct port_uv *p, uint32_t shard) {
    p->clock = (struct clock){.now = mono_ms, .now_us = mono_us, .wall = wall_ms};
    p->wake = INT64_MAX;
    p->port = (struct port){.clock = &p->clock, .disk = &p->disk.disk, .net = &p->net.net, .inbox = &p->inbox.inbox, .work = &p->work.work,
                            .rng = &p->rng, .secret = secret, .on_turn = on_turn, .wake_at = wake_at, .again = again,
                            .stop = stop, .shard = shard};
    uint64_t seed;
    secret(&p->port, (uint8_t *)&seed, sizeof seed);
    prng_seed(&p->rng, seed);
}

static err loop_err(int uv_status) {
    return uv_status == UV_EMFILE || uv_status == UV_ENFILE ? ERR_LIMIT : uv_status == UV_ENOMEM ? ERR_NOMEM : ERR_IO;
}

static err init_loop(struct port_uv *p) {
    int r = uv_loop_init(&p->loop);
    if (r != 0) {
        return loop_err(r);
    }
    r = uv_async_init(&p->loop, &p->async, on_async);
    if (r != 0) {
        must(uv_loop_close(&p->loop) == 0);
        return loop_err(r);
    }
    return ERR_OK;
}

err port_uv_new(uint32_t shard, const char *root, struct port_uv **ret_p) {
    struct port_uv *p = mem_zalloc(MEM_MISC, sizeof *p);
    if (!p) {
        return ERR_NOMEM;
    }
    err e = disk_uv_init(&p->disk, root, wake_loop, p);
    if (e != ERR_OK) {
        mem_free(p);
        return e;
    }
    e = init_loop(p);
    if (e != ERR_OK) {
        disk_uv_done(&p->disk);
        mem_free(p);
        return e;
    }
    p->disk.shard = shard;
    work_uv_init(&p->work, shard, wake_loop, p);
    ignore_sigpipe();
    init_handles(p);
    inbox_uv_init(&p->inbox, wake, kick, p);
    net_uv_init(&p->net, p);
    init_port(p, shard);
    *ret_p = p;
    return ERR_OK;
}

struct port *port_uv_port(struct port_uv *p) {
    return &p->port;
}

void port_uv_run(struct port_uv *p) {
    atomic_store_explicit(&p->runner, (uintptr_t)pthread_self(), memory_order_relaxed);
    (void)uv_run(&p->loop, UV_RUN_DEFAULT);        /* says only whether handles are left, and they are: ours */
    atomic_store_explicit(&p->runner, 0, memory_order_relaxed);
}

void port_uv_free(struct port_uv *p) {
    if (!p) {
        return;
    }
    port_uv_signals_forget(p);
    disk_uv_done(&p->disk);
    work_uv_done(&p->work);
    net_uv_done(&p->net);
    uv_close((uv_handle_t *)&p->check, NULL);
    uv_close((uv_handle_t *)&p->idle, NULL);
    uv_close((uv_handle_t *)&p->timer, NULL);
    uv_close((uv_handle_t *)&p->async, NULL);
    p->turn = NULL;
    while (uv_run(&p->loop, UV_RUN_DEFAULT) != 0) {
        /* runs the closing of the handles; a stop that was asked for before ends the first one early */
    }
    must(uv_loop_close(&p->loop) == 0);
    inbox_uv_done(&p->inbox);
    mem_free(p);
}

uint64_t port_uv_fd_limit(void) {
    struct rlimit lim;
    must(getrlimit(RLIMIT_NOFILE, &lim) == 0);
    rlim_t soft = lim.rlim_cur;
    lim.rlim_cur = lim.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &lim) == 0 ? lim.rlim_cur : soft;
}
