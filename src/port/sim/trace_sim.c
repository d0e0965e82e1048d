/* The trace of a run: each event is folded into one number, which two runs of one seed must agree on.
 *
 * Happy path: a few multiplications per event; names by their CRC. With a listener the same event is also printed as one line.
 * Failure modes: none; a long line is cut.
 * Runs on: the world's thread. */
#include "trace_sim.h"

#include <stdio.h>
#include <string.h>

#include "base/crc.h"

struct label {
    const char *name, *a, *b, *c;    /* a to c: what the numbers mean; NULL: not used */
};

static const struct label labels[TRACE_KINDS] = {
    [TRACE_NOTE] = {"note", NULL, NULL, NULL},
    [TRACE_LOG] = {"log", "level", NULL, NULL},
    [TRACE_START] = {"start", "shards", NULL, NULL},
    [TRACE_END] = {"end", NULL, NULL, NULL},
    [TRACE_CRASH] = {"crash", "power", "ops", NULL},
    [TRACE_TURN] = {"turn", "delivered", NULL, NULL},
    [TRACE_STALL] = {"stall", "until", NULL, NULL},
    [TRACE_POST] = {"post", "to", "due", NULL},
    [TRACE_INBOX] = {"inbox", "from", "n", NULL},
    [TRACE_DISK_OPEN] = {"disk.open", "flags", "size", "err"},
    [TRACE_DISK_CLOSE] = {"disk.close", NULL, NULL, "err"},
    [TRACE_DISK_WRITE] = {"disk.write", "at", "did", "crc"},
    [TRACE_DISK_READ] = {"disk.read", "at", "did", "crc"},
    [TRACE_DISK_SYNC] = {"disk.sync", "files", "dirs", "err"},
    [TRACE_DISK_SYNCFS] = {"disk.syncfs", NULL, NULL, "err"},
    [TRACE_DISK_TRUNCATE] = {"disk.truncate", "size", NULL, "err"},
    [TRACE_DISK_RENAME] = {"disk.rename", NULL, NULL, "err"},
    [TRACE_DISK_UNLINK] = {"disk.unlink", NULL, NULL, "err"},
    [TRACE_DISK_MKDIR] = {"disk.mkdir", NULL, NULL, "err"},
    [TRACE_DISK_RMTREE] = {"disk.rmtree", NULL, NULL, "err"},
    [TRACE_DISK_LIST] = {"disk.list", "n", NULL, "err"},
    [TRACE_DISK_STAT] = {"disk.stat", "size", NULL, "err"},
    [TRACE_DISK_SPACE] = {"disk.space", "free", NULL, "err"},
    [TRACE_DISK_FORGET] = {"disk.forget", "at", "len", "err"},
    [TRACE_DISK_LOCK] = {"disk.lock", NULL, NULL, "err"},
    [TRACE_DISK_PUT] = {"disk.put", "flags", "did", "crc"},
    [TRACE_DISK_AHEAD] = {"disk.ahead", "at", "len", "err"},
    [TRACE_DISK_ROOM] = {"disk.room", "at", "len", "err"},
    [TRACE_DISK_SUBMIT] = {"disk.submit", "op", "lane", "crc"},
    [TRACE_DISK_FAULT] = {"disk.fault", "op", "kind", "err"},
    [TRACE_DISK_HALF] = {"disk.half", "op", "did", NULL},
    [TRACE_LISTEN] = {"listen", "port", NULL, "err"},
    [TRACE_CONNECT] = {"connect", "conn", "port", NULL},
    [TRACE_ACCEPT] = {"accept", "conn", NULL, NULL},
    [TRACE_ADOPT] = {"adopt", "conn", NULL, NULL},
    [TRACE_ARRIVE] = {"arrive", "conn", "n", "to_client"},
    [TRACE_DATA] = {"data", "conn", "n", "crc"},
    [TRACE_SENT] = {"sent", "conn", "n", "err"},
    [TRACE_GONE] = {"gone", "conn", "err", NULL},
    [TRACE_CLOSED] = {"closed", "conn", NULL, NULL},
    [TRACE_CUT] = {"cut", "conn", NULL, NULL},
    [TRACE_CLIENT_UP] = {"client.up", "conn", NULL, NULL},
    [TRACE_CLIENT_DATA] = {"client.data", "conn", "n", "crc"},
    [TRACE_CLIENT_DOWN] = {"client.down", "conn", "err", NULL},
    [TRACE_CLIENT_SEND] = {"client.send", "conn", "n", "crc"},
    [TRACE_CLIENT_END] = {"client.end", "conn", "how", NULL},
    [TRACE_TIMER] = {"timer", NULL, NULL, NULL},
};

static uint64_t fold(uint64_t h, uint64_t v) {
    h ^= v;
    h *= 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static size_t add_number(char *line, size_t n, size_t cap, const char *what, int64_t v) {
    if (!what || n >= cap) {
        return n;
    }
    int more = snprintf(line + n, cap - n, " %s=%lld", what, (long long)v);
    return more > 0 ? n + (size_t)more : n;
}

static void print(const struct trace_sim *t, int64_t now, const struct trace_ev *ev) {
    char line[1024], who[32] = "-";
    const struct label *l = &labels[ev->kind];
    if (ev->node > 0 && ev->shard > 0) {
        (void)snprintf(who, sizeof who, "n%u.%u", ev->node, ev->shard - 1);
    } else if (ev->node > 0) {
        (void)snprintf(who, sizeof who, "n%u", ev->node);
    }
    int head = snprintf(line, sizeof line, "%6lld.%06lld %-5s %-12s %s", (long long)(now / 1000000), (long long)(now % 1000000), who,
                        l->name, ev->name ? ev->name : "");
    size_t n = head > 0 ? (size_t)head : 0;
    n = add_number(line, n, sizeof line, l->a, ev->a);
    n = add_number(line, n, sizeof line, l->b, ev->b);
    (void)add_number(line, n, sizeof line, l->c, ev->c);
    t->on_line(t->u, line);
}

void trace_sim_put(struct trace_sim *t, int64_t now, const struct trace_ev *ev) {
    uint64_t h = fold(t->hash, (uint64_t)now);
    h = fold(h, (uint64_t)ev->kind << 48 ^ (uint64_t)ev->node << 24 ^ ev->shard);
    if (ev->name) {
        h = fold(h, crc32c(ev->name, strlen(ev->name)));
    }
    h = fold(h, (uint64_t)ev->a);
    h = fold(h, (uint64_t)ev->b);
    t->hash = fold(h, (uint64_t)ev->c);
    t->events++;
    if (t->on_line) {
        print(t, now, ev);
    }
}
