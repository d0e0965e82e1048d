/* gen.c: the load generator's main: set the stage, run one load, judge it, print one line of JSON.
 *
 * Purpose: one core that can outrun any broker here, speaking Kafka's protocol without a library.
 * Happy path: connect, create the topic, note the end offsets, warm up, measure, stop, wait for the last replies, read
 * everything back if asked, print.
 * Failure modes: exit 1 when the run could not be made (die), when a reply carried an error, when verify disagrees.
 * Runs on: the main thread; there is no other. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../common/die.h"
#include "../common/kbuf.h"
#include "clock.h"
#include "conf.h"
#include "conn.h"
#include "fetch.h"
#include "procstat.h"
#include "produce.h"
#include "report.h"
#include "rpc.h"
#include "tally.h"
#include "verify.h"

enum { GEN_DRAIN_S = 60 };

struct gen {
    const struct conf *cf;
    struct tally *tl;
    struct produce *pr; /* NULL when only reading */
    struct fetch *ft;   /* NULL when only writing */
    int ep;
    struct report rp;
};

static void gen_stage(const struct conf *cf, struct tally *tl) {
    int fd = rpc_connect(cf, 120);
    rpc_api_versions(fd);
    if (cf->create) {
        rpc_topic_create(fd, cf);
    } else if (rpc_topic_partitions(fd, cf) != cf->partitions) {
        die("topic '%s' does not have %u partitions", cf->topic, cf->partitions);
    }
    bool fresh = cf->mode == CONF_PRODUCE || cf->mode == CONF_E2E;
    int64_t *at = die_alloc(cf->partitions, sizeof *at);
    rpc_offsets(fd, cf, fresh ? -1 : -2, at);
    for (unsigned i = 0; i < cf->partitions; i++) {
        tl->parts[i].start = at[i];
    }
    free(at);
    close(fd);
}

static struct fetch *gen_fetch(struct gen *g) {
    const struct conf *cf = g->cf;
    int64_t *start = die_alloc(cf->partitions, sizeof *start), *end = die_alloc(cf->partitions, sizeof *end);
    for (unsigned i = 0; i < cf->partitions; i++) {
        start[i] = g->tl->parts[i].start;
    }
    int fd = rpc_connect(cf, 120);
    rpc_offsets(fd, cf, -1, end);
    close(fd);
    struct fetch *ft = fetch_new(cf, g->tl, g->ep, cf->mode == CONF_E2E ? FETCH_FOLLOW : FETCH_AGAIN, (struct fetch_span){start, end});
    free(start);
    free(end);
    return ft;
}

static void gen_turn(struct gen *g, bool spin) {
    if (g->pr) {
        produce_turn(g->pr);
    }
    if (g->ft) {
        fetch_turn(g->ft);
    }
    conn_poll(g->ep, spin ? 0 : 50);
    report_progress(&g->rp, g->cf, g->tl);
}

/* Everything acknowledged must also reach the consumers before they stop. */
static bool gen_consumed(const struct gen *g) {
    uint64_t acked = 0;
    for (unsigned i = 0; i < g->cf->partitions; i++) {
        acked += g->tl->parts[i].acked_records;
    }
    return !g->ft || !g->pr || fetch_records(g->ft) >= acked;
}

static void gen_drain(struct gen *g) {
    uint64_t limit = clock_ns() + GEN_DRAIN_S * 1000000000ull;
    if (g->pr) {
        produce_stop(g->pr);
    }
    while ((g->pr && produce_outstanding(g->pr) > 0) || !gen_consumed(g)) {
        gen_turn(g, false);
        if (clock_ns() > limit) {
            die("replies or records still missing %d s after the load", GEN_DRAIN_S);
        }
    }
    if (!g->ft) {
        return;
    }
    for (fetch_stop(g->ft); !fetch_done(g->ft);) {
        gen_turn(g, false);
    }
}

static void gen_load(struct gen *g) {
    const struct conf *cf = g->cf;
    bool spin = cf->rate > 0 || cf->acks == 0;
    uint64_t t0 = clock_ns();
    uint64_t from = t0 + (uint64_t)(cf->warmup_s * 1e9), to = from + (uint64_t)(cf->duration_s * 1e9);
    g->tl->window_from = from;
    g->tl->window_to = UINT64_MAX;
    if (g->pr) {
        produce_start(g->pr, t0);
    }
    bool started = false;
    uint64_t now = t0;
    while (now < to && !(g->pr && produce_spent(g->pr) && produce_outstanding(g->pr) == 0)) {
        if (!started && now >= from) {
            report_window_open(&g->rp, cf);
            started = true;
        }
        gen_turn(g, spin);
        now = clock_ns();
    }
    g->tl->window_to = now;
    report_window_close(&g->rp, cf, started && now > from ? (double)(now - from) * 1e-9 : 0);
    gen_drain(g);
}

/* Many connections that said hello and then do nothing, for `duration` seconds. */
static void gen_idle(const struct conf *cf) {
    int *fds = die_alloc(cf->connections, sizeof *fds);
    for (unsigned i = 0; i < cf->connections; i++) {
        fds[i] = rpc_connect(cf, 30);
        rpc_api_versions(fds[i]);
    }
    struct procstat before = procstat_read(cf->broker_pid);
    uint64_t t = clock_ns();
    struct timespec hold = {.tv_sec = (time_t)cf->duration_s};
    nanosleep(&hold, NULL);
    struct procstat after = procstat_read(cf->broker_pid);
    printf(
        "{\"mode\":\"idle\",\"connections\":%u,\"seconds\":%.2f,\"broker_cpu_percent\":%.3f,"
        "\"broker_rss_bytes\":%llu}\n",
        cf->connections, (double)(clock_ns() - t) * 1e-9,
        100 * (after.cpu_s - before.cpu_s) / ((double)(clock_ns() - t) * 1e-9), (unsigned long long)after.rss_bytes);
    free(fds);
}

static int gen_run(const struct conf *cf, struct tally *tl) {
    struct gen g = {.cf = cf, .tl = tl, .ep = epoll_create1(EPOLL_CLOEXEC)};
    gen_stage(cf, tl);
    if (cf->mode == CONF_PRODUCE || cf->mode == CONF_E2E) {
        g.pr = produce_new(cf, tl, g.ep);
        g.rp.batch_size = produce_batch_size(g.pr);
    }
    if (cf->mode == CONF_FETCH || cf->mode == CONF_E2E) {
        g.ft = gen_fetch(&g);
    }
    if (g.pr || g.ft) {
        gen_load(&g);
        report_take(&g.rp, cf, tl);
        g.rp.late_max_ns = g.pr ? produce_late_max(g.pr) : 0;
    }
    if (cf->mode == CONF_VERIFY || (cf->verify && g.pr)) {
        g.rp.verify = verify_run(cf, tl, cf->mode != CONF_VERIFY);
        g.rp.verified = true;
    }
    if (cf->mode != CONF_NOTHING) {
        report_print(&g.rp, cf);
    }
    if (g.pr) {
        produce_free(g.pr);
    }
    if (g.ft) {
        fetch_free(g.ft);
    }
    close(g.ep);
    return report_good(&g.rp) ? 0 : 1;
}

static void gen_remove(const struct conf *cf) {
    int fd = rpc_connect(cf, 120);
    rpc_topic_delete(fd, cf);
    close(fd);
}

int main(int argc, char **argv) {
    struct conf cf;
    conf_parse(&cf, argc, argv);
    signal(SIGPIPE, SIG_IGN);
    struct rlimit rl;
    if (getrlimit(RLIMIT_NOFILE, &rl) == 0) {
        rl.rlim_cur = rl.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &rl);
    }
    if (cf.mode == CONF_IDLE) {
        gen_idle(&cf);
        return 0;
    }
    struct tally *tl = die_alloc(1, sizeof *tl);
    tl->parts = die_alloc(cf.partitions, sizeof tl->parts[0]);
    int status = gen_run(&cf, tl);
    if (cf.remove) {
        gen_remove(&cf);
    }
    free(tl->parts);
    free(tl);
    return status;
}
