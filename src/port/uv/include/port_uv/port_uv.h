/* The real port: libuv loops, POSIX files. Composition-root only (app, tests, cli). */
#pragma once

#include "port/port.h"

struct port_uv;

/* One port per shard. root: the data directory (created by the caller). The disk lanes' threads start with the
 * first submit of each lane. secret() is the operating system's random source. SIGPIPE becomes ignored. NOT_FOUND,
 * IO, LIMIT, NOMEM. */
err port_uv_new(uint32_t shard, const char *root, struct port_uv **ret_p);
struct port *port_uv_port(struct port_uv *p);
/* A private disk without a loop, for offline tools and boot: only disk_call works. */
err port_uv_disk_new(const char *root, struct disk **ret_d);
void port_uv_disk_free(struct disk *d);
/* Run the loop on the calling thread until port->stop. */
void port_uv_run(struct port_uv *p);
/* Run body(u) on a new thread named `name` (at most 15 characters); join later. */
struct port_uv_thread;
err port_uv_thread_start(const char *name, void (*body)(void *u), void *u, struct port_uv_thread **ret_t);
void port_uv_thread_join(struct port_uv_thread *t);
/* After run returned, or without a run. Connections, listeners and disk requests must be gone. */
void port_uv_free(struct port_uv *p);

/* SIGTERM/SIGINT/SIGHUP of the process, delivered on p's loop. A second TERM or INT within the stop exits at once
 * with 1. */
void port_uv_signals(struct port_uv *p, void (*on_signal)(void *u, int signo), void *u);

uint32_t port_uv_cpus(void);                   /* usable CPUs: affinity and cgroup quota, at least 1 */
/* Raise the soft descriptor limit to the hard one; returns it. */
uint64_t port_uv_fd_limit(void);
