/* What happened, as a hash and, when somebody listens, as text. */
#pragma once

#include "base/types.h"

enum trace_kind {
    TRACE_NOTE, TRACE_LOG, TRACE_START, TRACE_END, TRACE_CRASH, TRACE_TURN, TRACE_STALL, TRACE_POST, TRACE_INBOX,
    TRACE_DISK_OPEN, TRACE_DISK_CLOSE, TRACE_DISK_WRITE, TRACE_DISK_READ, TRACE_DISK_SYNC, TRACE_DISK_SYNCFS, TRACE_DISK_TRUNCATE,
    TRACE_DISK_RENAME, TRACE_DISK_UNLINK, TRACE_DISK_MKDIR, TRACE_DISK_RMTREE, TRACE_DISK_LIST, TRACE_DISK_STAT, TRACE_DISK_SPACE,
    TRACE_DISK_FORGET, TRACE_DISK_LOCK, TRACE_DISK_PUT, TRACE_DISK_AHEAD, TRACE_DISK_ROOM, TRACE_DISK_SUBMIT, TRACE_DISK_FAULT, TRACE_DISK_HALF,
    TRACE_LISTEN, TRACE_CONNECT, TRACE_ACCEPT, TRACE_ADOPT, TRACE_ARRIVE, TRACE_DATA, TRACE_SENT, TRACE_GONE, TRACE_CLOSED,
    TRACE_CUT, TRACE_CLIENT_UP, TRACE_CLIENT_DATA, TRACE_CLIENT_DOWN, TRACE_CLIENT_SEND, TRACE_CLIENT_END, TRACE_TIMER, TRACE_KINDS
};

struct trace_ev {
    enum trace_kind kind;
    uint32_t node, shard;        /* node 0: none; shard counts from 1, 0: none */
    const char *name;            /* path, event or text; may be NULL */
    int64_t a, b, c;
};

struct trace_sim {
    uint64_t hash, events;
    void (*on_line)(void *u, const char *line);
    void *u;
};

void trace_sim_put(struct trace_sim *t, int64_t now, const struct trace_ev *ev);
