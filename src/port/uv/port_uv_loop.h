/* One shard's loop, from the inside. Private to port_uv. */
#pragma once

#include <uv.h>

#include "disk_uv.h"
#include "inbox_uv.h"
#include "net_uv.h"
#include "port/port.h"
#include "work_uv.h"

struct port_uv {
    struct port port;                  /* first */
    struct clock clock;
    struct prng rng;
    uv_loop_t loop;
    uv_check_t check;                  /* after the poll: the turn */
    uv_idle_t idle;                    /* active while the next poll must not block */
    uv_timer_t timer;                  /* ends the poll when wake_at has come */
    uv_async_t async;                  /* another thread, or a signal, has something for us */
    struct disk_uv disk;
    struct work_uv work;
    struct inbox_uv inbox;
    struct net_uv net;
    void (*turn)(void *u);
    void *turn_u;
    ms wake;                           /* INT64_MAX: no need */
    bool delivered;                    /* a callback ran since the last turn, or again() was asked */
    _Atomic uintptr_t runner;          /* the thread inside port_uv_run; 0: none */
};

/* Something was delivered (or will be, at once): the next poll does not block and a turn follows it. Loop's thread. */
void port_uv_kick(struct port_uv *p);
/* Loop's thread, from the async callback: hand out signals that came since. */
void port_uv_signals_take(struct port_uv *p);
/* Before p is freed: its signals get their default action again. */
void port_uv_signals_forget(struct port_uv *p);
