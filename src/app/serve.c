/* The broker in the foreground: ports, threads, node, signals.
 *
 * Happy path: one port and thread per shard (shard 0 on the main thread) -> node_boot -> loops run -> ready file and banner -> a signal -> node_stop -> loops end -> 0.
 * Failure modes: boot says one line and what to do; a fatal storage error ends the process with 74 at once, since nothing may be acknowledged any more; a second signal ends it at once.
 * Runs on: the main thread; callbacks on shard 0. */
#include "serve.h"

#include <limits.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "kafka/door.h"
#include "port_uv/port_uv.h"
#include "ready.h"
#include "version.h"

enum { SERVE_OK = 0, SERVE_CANNOT = 1, SERVE_STORAGE = 74, SERVE_CONFIG = 78 };

struct serve {
    const struct serve_opts *o;
    struct node_conf conf;
    struct port_uv *ports[LIMIT_SHARDS];
    struct port_uv_thread *threads[LIMIT_SHARDS];
    uint32_t shards;
    struct node *node;
    char path[PATH_MAX];               /* of the data directory, absolute */
    int code;
};

static int serve_code(err e) {
    switch (e) {
    case ERR_LOCKED:
    case ERR_FOREIGN:
    case ERR_NEWER:
    case ERR_BAD_SETTING: return SERVE_CONFIG;
    case ERR_IO:
    case ERR_DAMAGED:
    case ERR_NOSPACE:
    case ERR_FENCED: return SERVE_STORAGE;
    default: return SERVE_CANNOT;
    }
}

/* ---- callbacks of the node ---- */

static void serve_on_fatal(void *u, const char *why) {
    (void)u;
    log_error("perigee.fatal", "reason='%s' action='exit 74: nothing may be acknowledged any more' remedy='look at the disk, then start again: the log is recovered'", why);
    _exit(SERVE_STORAGE);
}

static void serve_banner(const struct serve *s) {
    printf("perigee %s serves %s\n", PERIGEE_VERSION, s->o->data_dir);
    for (size_t i = 0; i < s->node->conf.listeners_n; i++) {
        const struct node_listener *l = &s->node->conf.listeners[i];
        const char *told = l->advertised_host[0] != '\0' ? l->advertised_host : "the address they used";
        printf("  Kafka clients: bootstrap.servers=%s:%u   (clients will be told %s)\n", l->host[0] == '\0' ? "<this host>" : l->host, (unsigned)l->bound_port, told);
    }
    if (s->node->conf.protected_mode) {
        printf("  who may connect: this machine only (--set protected.mode=no lets others in)\n");
    }
    printf("  durability: synced (acks=all answers after the bytes are on disk)\n");
    printf("  stop with Ctrl-C\n");
    fflush(stdout);
}

static void serve_say_doors(const struct serve *s) {
    for (size_t i = 0; i < s->node->conf.listeners_n; i++) {
        const struct node_listener *l = &s->node->conf.listeners[i];
        log_info("listener.open", "name=%s host='%s' port=%u advertised='%s:%u' protected=%s", l->name, l->host, (unsigned)l->bound_port,
                 l->advertised_host[0] != '\0' ? l->advertised_host : "(the address a client used)", (unsigned)(l->advertised_port != 0 ? l->advertised_port : l->bound_port),
                 s->node->conf.protected_mode ? "yes" : "no");
    }
    log_info("perigee.ready", "version=%s node.id=%d shards=%u data='%s' durability='acks=all: synced; acks=1: written; topics may relax it with write.caching=true'",
             PERIGEE_VERSION, s->node->conf.node_id, s->shards, s->o->data_dir);
}

static void serve_on_ready(void *u, err e, const char *why) {
    struct serve *s = u;
    if (e == ERR_OK && s->o->ready_file != NULL && !ready_write(s->o->ready_file, s->node)) {
        fprintf(stderr, "perigee: cannot write the ready file %s: %s\n", s->o->ready_file, strerror(errno));
        s->code = SERVE_CANNOT;
        node_stop(s->node);
        return;
    }
    if (e != ERR_OK) {
        fprintf(stderr, "perigee: %s\n", why[0] == '\0' ? err_text(e) : why);
        s->code = serve_code(e) == SERVE_STORAGE ? SERVE_STORAGE : SERVE_CANNOT;
        node_stop(s->node);
        return;
    }
    serve_say_doors(s);
    if (s->o->dev) {
        serve_banner(s);
    }
}

static void serve_on_stopped(void *u) {
    struct serve *s = u;
    ready_remove(s->o->ready_file);
    if (s->node->stop_err == ERR_OK) {
        log_info("perigee.stopped", "clean=yes");
    } else {
        log_warn("perigee.stopped", "clean=no reason='%s' effect='the next start recovers'", err_text(s->node->stop_err));
    }
}

static void serve_on_signal(void *u, int signo) {
    struct serve *s = u;
    if (signo == SIGHUP) {
        log_info("perigee.hangup", "effect='nothing to reload yet'");
        return;
    }
    log_info("perigee.stopping", "signal=%d", signo);
    ready_remove(s->o->ready_file);
    node_stop(s->node);
}

/* ---- set-up ---- */

/* The store would find out, too, but knows neither the directory's path nor the system's word for the reason. */
static bool serve_data_dir(const char *dir) {
    struct stat st;
    if (mkdir(dir, 0755) != 0 && errno != EEXIST) {
        fprintf(stderr, "perigee: cannot create the data directory %s: %s\n", dir, strerror(errno));
        return false;
    }
    if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode)) {
        fprintf(stderr, "perigee: the data directory %s is no directory: choose another with --data-dir\n", dir);
        return false;
    }
    if (access(dir, R_OK | W_OK | X_OK) != 0) {
        fprintf(stderr, "perigee: cannot read and write the data directory %s: %s\n", dir, strerror(errno));
        return false;
    }
    return true;
}

/* Open segments take at most an eighth of the descriptors that the process may have: connections, rolls and directories need theirs (T57). */
static void serve_files(struct node_conf *c, uint64_t limit) {
    uint64_t most = limit / 8 > 16 ? limit / 8 : 16;
    c->files_max = c->files_max < most ? c->files_max : (uint32_t)most;
}

static uint32_t serve_shards(const struct conf *c) {
    int64_t n = conf_int(c, "shards");
    uint32_t want = n > 0 ? (uint32_t)n : port_uv_cpus();
    return want < LIMIT_SHARDS ? want : LIMIT_SHARDS;
}

static err serve_ports(struct serve *s) {
    for (uint32_t i = 0; i < s->shards; i++) {
        err e = port_uv_new(i, s->o->data_dir, &s->ports[i]);
        if (e != ERR_OK) {
            fprintf(stderr, "perigee: cannot open the data directory %s: %s\n", s->o->data_dir, err_text(e));
            return e;
        }
    }
    return ERR_OK;
}

static err serve_boot(struct serve *s) {
    struct port *ports[LIMIT_SHARDS];
    char why[512];
    for (uint32_t i = 0; i < s->shards; i++) {
        ports[i] = port_uv_port(s->ports[i]);
    }
    struct node_boot b = {
        .conf = &s->conf,
        .ports = ports,
        .ports_n = s->shards,
        .door = door_kafka(),
        .on_ready = serve_on_ready,
        .on_stopped = serve_on_stopped,
        .on_fatal = serve_on_fatal,
        .u = s,
    };
    err e = node_boot(&b, &s->node, why, sizeof(why));
    if (e != ERR_OK) {
        fprintf(stderr, "perigee: data directory %s: %s\n", s->o->data_dir, why);
    }
    return e;
}

static void serve_body(void *u) { port_uv_run(u); }

static void serve_loops(struct serve *s) {
    for (uint32_t i = 1; i < s->shards; i++) {
        char name[24];
        snprintf(name, sizeof(name), "shard-%u", i);
        if (port_uv_thread_start(name, serve_body, s->ports[i], &s->threads[i]) != ERR_OK) {
            serve_on_fatal(s, "cannot start a shard's thread");
        }
    }
    port_uv_signals(s->ports[0], serve_on_signal, s);
    port_uv_run(s->ports[0]);
    for (uint32_t i = 1; i < s->shards; i++) {
        port_uv_thread_join(s->threads[i]);
    }
}

static int serve_unlink(const char *path, const struct stat *st, int flag, struct FTW *ftw) {
    (void)st, (void)flag, (void)ftw;
    return remove(path);
}

static void serve_done(struct serve *s) {
    node_free(s->node);
    for (uint32_t i = 0; i < s->shards; i++) {
        port_uv_free(s->ports[i]);
    }
    if (s->o->temp) {
        (void)nftw(s->o->data_dir, serve_unlink, 16, FTW_DEPTH | FTW_PHYS);       /* a leftover of a throw-away directory harms nobody */
    }
}

int serve_run(const struct serve_opts *o) {
    struct serve s = {.o = o};
    char why[512];
    err e = node_conf_from(o->conf, &s.conf, why, sizeof(why));
    if (e != ERR_OK) {
        fprintf(stderr, "perigee: %s\n", why);
        return SERVE_CONFIG;
    }
    if (!serve_data_dir(o->data_dir)) {
        return SERVE_CONFIG;
    }
    s.shards = serve_shards(o->conf);
    s.conf.admit_bytes /= s.shards;
    s.conf.tail_bytes_max /= s.shards;
    serve_files(&s.conf, port_uv_fd_limit());
    signal(SIGPIPE, SIG_IGN);
    e = serve_ports(&s);
    s.conf.data_path = realpath(o->data_dir, s.path) != NULL ? s.path : o->data_dir;
    e = e == ERR_OK ? serve_boot(&s) : e;
    if (e == ERR_OK) {
        serve_loops(&s);
    } else {
        s.code = serve_code(e);
    }
    serve_done(&s);
    return s.code;
}
