/* fetch.c: reading back what was produced, checking every batch on the way.
 *
 * Purpose: catch-up and tail reading (P7), end-to-end latency (P5), and the verdict of --verify.
 * Happy path: fetch_turn sends a Fetch 11 for the connection's partitions (without session); the reply is walked batch
 * by batch: CRC-32C, offsets without gap, the stamp against the clock; positions move; the next request goes out.
 * Failure modes: error codes and short replies die; a bad CRC, a gap or a batch that is not ours is counted.
 * Runs on: the main thread. */
#include "fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../common/batch.h"
#include "../common/die.h"
#include "../common/kbuf.h"
#include "clock.h"
#include "conn.h"

struct fetch_conn {
    struct conn c;               /* first: the loop knows only this */
    unsigned first_part, part_n; /* its partitions: first_part + i * connections */
    unsigned turn;               /* where the next request starts, so that no partition starves */
    bool waiting, idle;          /* a request is in flight; nothing left to ask for */
    struct kbuf out;
    size_t out_done;
    int32_t correlation;
};

struct fetch {
    const struct conf *cf;
    struct tally *tl;
    enum fetch_mode mode;
    struct fetch_conn *conns;
    int64_t *start, *end, *next;
    uint64_t records;
    bool stopped;
};

static void fetch_on_frame(struct conn *c, const uint8_t *p, size_t n);
static void fetch_on_writable(struct conn *c);

static int64_t *fetch_copy(const int64_t *from, unsigned n) {
    int64_t *p = die_alloc(n, sizeof *p);
    if (from) {
        memcpy(p, from, n * sizeof *p);
    }
    return p;
}

struct fetch *fetch_new(const struct conf *cf, struct tally *tl, int ep, enum fetch_mode mode, struct fetch_span of) {
    struct fetch *ft = die_alloc(1, sizeof *ft);
    ft->cf = cf;
    ft->tl = tl;
    ft->mode = mode;
    ft->start = fetch_copy(of.start, cf->partitions);
    ft->next = fetch_copy(of.start, cf->partitions);
    ft->end = fetch_copy(of.end, cf->partitions);
    ft->conns = die_alloc(cf->fetch_connections, sizeof ft->conns[0]);
    for (unsigned i = 0; i < cf->fetch_connections; i++) {
        struct fetch_conn *fc = &ft->conns[i];
        fc->first_part = i;
        fc->part_n = (cf->partitions - i + cf->fetch_connections - 1) / cf->fetch_connections;
        fc->c.owner = ft;
        fc->c.on_frame = fetch_on_frame;
        fc->c.on_writable = fetch_on_writable;
        conn_open(&fc->c, cf, ep);
    }
    return ft;
}

void fetch_free(struct fetch *ft) {
    for (unsigned i = 0; i < ft->cf->fetch_connections; i++) {
        conn_close(&ft->conns[i].c);
        kbuf_done(&ft->conns[i].out);
    }
    free(ft->conns);
    free(ft->start);
    free(ft->end);
    free(ft->next);
    free(ft);
}

static bool fetch_wants(const struct fetch *ft, unsigned part) {
    return ft->mode == FETCH_FOLLOW || ft->next[part] < ft->end[part];
}

/* FETCH_AGAIN: a connection that has read all of its partitions starts over. */
static void fetch_rewind(struct fetch *ft, struct fetch_conn *fc) {
    for (unsigned i = 0; i < fc->part_n; i++) {
        unsigned part = fc->first_part + i * ft->cf->fetch_connections;
        ft->next[part] = ft->start[part];
    }
}

static void fetch_begin(const struct fetch *ft, struct fetch_conn *fc) {
    kbuf_begin(&fc->out, 1, 11, ++fc->correlation);
    kbuf_i32(&fc->out, -1);
    kbuf_i32(&fc->out, ft->cf->fetch_wait_ms);
    kbuf_i32(&fc->out, 1);
    kbuf_i32(&fc->out, ft->cf->fetch_bytes);
    kbuf_i8(&fc->out, 0);
    kbuf_i32(&fc->out, 0);
    kbuf_i32(&fc->out, -1);
    kbuf_i32(&fc->out, 1);
    kbuf_str(&fc->out, ft->cf->topic);
}

/* Builds a request; false when no partition of this connection has anything left to read. */
static bool fetch_build(struct fetch *ft, struct fetch_conn *fc) {
    fetch_begin(ft, fc);
    size_t count_at = fc->out.len;
    uint32_t n = 0;
    kbuf_i32(&fc->out, 0);
    for (unsigned i = 0; i < fc->part_n; i++) {
        unsigned own = (fc->turn + i) % fc->part_n;
        unsigned part = fc->first_part + own * ft->cf->fetch_connections;
        if (!fetch_wants(ft, part)) {
            continue;
        }
        kbuf_i32(&fc->out, (int32_t)part);
        kbuf_i32(&fc->out, -1);
        kbuf_i64(&fc->out, ft->next[part]);
        kbuf_i64(&fc->out, -1);
        kbuf_i32(&fc->out, ft->cf->fetch_part_bytes);
        n++;
    }
    kbuf_put32(fc->out.p + count_at, n);
    kbuf_i32(&fc->out, 0);
    kbuf_str(&fc->out, "");
    kbuf_end(&fc->out, 0);
    fc->out_done = 0;
    return n > 0;
}

static void fetch_send(struct fetch_conn *fc) {
    size_t left = fc->out.len - fc->out_done;
    ssize_t w = send(fc->c.fd, fc->out.p + fc->out_done, left, MSG_NOSIGNAL);
    if (w < 0 && errno != EAGAIN && errno != EINTR) {
        die("send");
    }
    fc->out_done += w > 0 ? (size_t)w : 0;
    conn_want_write(&fc->c, fc->out_done < fc->out.len);
}

static void fetch_on_writable(struct conn *c) {
    fetch_send((struct fetch_conn *)c);
}

static void fetch_batch(struct fetch *ft, unsigned part, const struct batch_view *b, uint64_t now) {
    struct tally *tl = ft->tl;
    struct tally_part *tp = &tl->parts[part];
    tl->bad_crc += !b->crc_ok;
    tl->gaps += b->base_offset != ft->next[part] || b->records != b->last_delta + 1;
    tp->read_records += (uint64_t)b->records;
    tp->read_crc += b->crc;
    ft->records += (uint64_t)b->records;
    ft->next[part] = b->base_offset + b->last_delta + 1;
    if (tally_in_window(tl, now)) {
        tl->read_records += (uint64_t)b->records;
        tl->read_bytes += b->size;
    }
    if (ft->mode != FETCH_FOLLOW) {
        return;
    }
    uint64_t stamp = batch_stamp_of(b);
    if (stamp == 0 || stamp > now) {
        tl->unstamped++;
        return;
    }
    hist_add(&tl->interval, now - stamp);
    if (tally_in_window(tl, stamp)) {
        hist_add(&tl->e2e, now - stamp);
    }
}

static void fetch_records_walk(struct fetch *ft, unsigned part, struct kspan records) {
    struct batch_view b;
    bool bad = false;
    uint64_t now = clock_ns();
    while (batch_next(records.p, records.n, &b, &bad)) {
        records.p += b.size;
        records.n -= b.size;
        if (b.base_offset + b.last_delta >= ft->next[part]) {
            fetch_batch(ft, part, &b, now);
        }
    }
    if (bad) {
        die("partition %u: what follows offset %lld is not a batch", part, (long long)ft->next[part]);
    }
}

static void fetch_part(struct fetch *ft, struct kread *r) {
    int32_t part = kread_i32(r);
    int16_t error = kread_i16(r);
    kread_skip(r, 24);
    int32_t aborted = kread_i32(r);
    kread_skip(r, aborted > 0 ? (size_t)aborted * 16 : 0);
    (void)kread_i32(r);
    struct kspan records = kread_bytes(r);
    if (r->bad || error || part < 0 || (unsigned)part >= ft->cf->partitions) {
        die("fetch: partition %d, error code %d", part, error);
    }
    fetch_records_walk(ft, (unsigned)part, records);
}

static void fetch_on_frame(struct conn *c, const uint8_t *p, size_t n) {
    struct fetch *ft = c->owner;
    struct fetch_conn *fc = (struct fetch_conn *)c;
    struct kread r = kread_of(p, n);
    if (kread_i32(&r) != fc->correlation) {
        die("fetch: reply with a foreign correlation id");
    }
    (void)kread_i32(&r);
    int16_t error = kread_i16(&r);
    (void)kread_i32(&r);
    if (error) {
        die("fetch: error code %d", error);
    }
    for (int32_t topics = kread_i32(&r); topics > 0 && !r.bad; topics--) {
        (void)kread_str(&r);
        for (int32_t parts = kread_i32(&r); parts > 0 && !r.bad; parts--) {
            fetch_part(ft, &r);
        }
    }
    fc->waiting = false;
    fc->turn = (fc->turn + 1) % fc->part_n;
    if (tally_in_window(ft->tl, clock_ns())) {
        ft->tl->fetches++;
    }
}

void fetch_turn(struct fetch *ft) {
    for (unsigned i = 0; i < ft->cf->fetch_connections && !ft->stopped; i++) {
        struct fetch_conn *fc = &ft->conns[i];
        if (fc->waiting || fc->idle) {
            continue;
        }
        if (!fetch_build(ft, fc)) {
            if (ft->mode == FETCH_ONCE) {
                fc->idle = true;
                continue;
            }
            fetch_rewind(ft, fc);
            if (!fetch_build(ft, fc)) {
                fc->idle = true;
                continue;
            }
        }
        fc->waiting = true;
        fetch_send(fc);
    }
}

void fetch_stop(struct fetch *ft) {
    ft->stopped = true;
}

bool fetch_done(const struct fetch *ft) {
    for (unsigned i = 0; i < ft->cf->fetch_connections; i++) {
        if (ft->conns[i].waiting || (!ft->stopped && !ft->conns[i].idle)) {
            return false;
        }
    }
    return true;
}

uint64_t fetch_records(const struct fetch *ft) {
    return ft->records;
}

int64_t fetch_position(const struct fetch *ft, unsigned i) {
    return ft->next[i];
}
