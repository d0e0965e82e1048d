/* produce.c: sending as fast as one core can, or exactly on schedule.
 *
 * Purpose: Produce 7 requests whose record bytes are sent straight from shared templates: a request in flight owns only
 * its headers (frame, partition, the batch's first bytes) and a list of pieces for one gathered send.
 * Happy path: produce_turn fills free slots (closed loop: all of them; open loop: those that are due), one send per
 * connection; a reply frees the oldest slot of its connection and is counted per partition.
 * Failure modes: a reply out of order or short dies; error codes are counted and fail the run's verdict.
 * Runs on: the main thread. */
#include "produce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "../common/die.h"
#include "../common/kbuf.h"
#include "clock.h"
#include "conn.h"
#include "rpc.h"

enum {
    PRODUCE_IOV_MAX = 256, /* pieces of one send */
    PRODUCE_TEMPLATES_MAX = 8,
    PRODUCE_TEMPLATE_BYTES = 2 << 20, /* templates together stay inside the cache */
    PRODUCE_HEAD_MAX = 320,           /* frame and topic header */
    PRODUCE_SLOTS_BYTES_MAX = 1 << 30,
};

struct produce_piece {
    uint32_t part, crc;
};

/* One request in flight. */
struct produce_slot {
    uint64_t at_ns; /* scheduled instant; closed loop: when it was issued */
    int32_t correlation;
    unsigned iov_n;
    struct produce_piece *pieces; /* parts_per_request of them */
    uint8_t *head;
    struct iovec *iov; /* 2 per piece: private head, shared body */
};

struct produce_conn {
    struct conn c;              /* first: the loop knows only this */
    struct produce_slot *slots; /* ring of `depth`: [oldest, unsent) wait, [unsent, next) are to be sent */
    uint64_t oldest, unsent, next;
    unsigned iov_at; /* inside slot `unsent`: piece, and bytes of it already sent */
    size_t iov_done;
    unsigned first_part, part_n, cursor; /* its partitions: first_part + i * stride */
    struct rpc_producer who;
    int32_t *sequence; /* per own partition; idempotent only */
};

struct produce {
    const struct conf *cf;
    struct tally *tl;
    struct produce_conn *conns;
    unsigned stride;
    struct batch_template templates[PRODUCE_TEMPLATES_MAX];
    unsigned template_n, template_at;
    uint8_t head[PRODUCE_HEAD_MAX];
    size_t head_n;
    uint64_t start_ns, issued, late_max, bytes_issued, outstanding;
    unsigned turn_conn; /* open loop: who gets the next request */
    bool running;
};

static void produce_templates(struct produce *pr) {
    const struct conf *cf = pr->cf;
    size_t record = cf->record_bytes + 12;
    uint32_t records = cf->batch_bytes > BATCH_HEAD + record ? (uint32_t)((cf->batch_bytes - BATCH_HEAD) / record) : 1;
    batch_template_init(&pr->templates[0], records, cf->record_bytes, 1);
    size_t n = PRODUCE_TEMPLATE_BYTES / pr->templates[0].size;
    pr->template_n = n < 1 ? 1 : n > PRODUCE_TEMPLATES_MAX ? PRODUCE_TEMPLATES_MAX : (unsigned)n;
    for (unsigned i = 1; i < pr->template_n; i++) {
        batch_template_init(&pr->templates[i], records, cf->record_bytes, i + 1);
    }
}

/* Everything before the first partition; length and correlation id are patched per request. */
static void produce_head(struct produce *pr) {
    struct kbuf b = {0};
    kbuf_begin(&b, 0, 7, 0);
    kbuf_str(&b, NULL);
    kbuf_i16(&b, (int16_t)pr->cf->acks);
    kbuf_i32(&b, 60000);
    kbuf_i32(&b, 1);
    kbuf_str(&b, pr->cf->topic);
    kbuf_i32(&b, (int32_t)pr->cf->parts_per_request);
    if (b.len > PRODUCE_HEAD_MAX) {
        die("topic name too long");
    }
    memcpy(pr->head, b.p, b.len);
    pr->head_n = b.len;
    kbuf_done(&b);
}

static void produce_on_frame(struct conn *c, const uint8_t *p, size_t n);
static void produce_on_writable(struct conn *c);

static void produce_conn_open(struct produce *pr, unsigned i, int ep) {
    const struct conf *cf = pr->cf;
    struct produce_conn *pc = &pr->conns[i];
    unsigned k = cf->parts_per_request;
    pc->first_part = i % cf->partitions;
    pc->part_n = (cf->partitions - pc->first_part + pr->stride - 1) / pr->stride;
    if (pc->part_n < k) {
        die("%u connections share %u partitions: fewer than %u for one request", cf->connections, cf->partitions, k);
    }
    pc->slots = die_alloc(cf->depth, sizeof pc->slots[0]);
    for (unsigned s = 0; s < cf->depth; s++) {
        pc->slots[s].pieces = die_alloc(k, sizeof pc->slots[s].pieces[0]);
        pc->slots[s].head = die_alloc(pr->head_n + (size_t)k * (8 + BATCH_PREFIX_MAX), 1);
        pc->slots[s].iov = die_alloc((size_t)k * 2, sizeof pc->slots[s].iov[0]);
    }
    pc->who = (struct rpc_producer){-1, -1};
    if (cf->idempotent) {
        int fd = rpc_connect(cf, 30);
        pc->who = rpc_producer_init(fd);
        shutdown(fd, SHUT_RDWR);
        pc->sequence = die_alloc(pc->part_n, sizeof pc->sequence[0]);
    }
    pc->c.owner = pr;
    pc->c.on_frame = produce_on_frame;
    pc->c.on_writable = produce_on_writable;
    conn_open(&pc->c, cf, ep);
}

struct produce *produce_new(const struct conf *cf, struct tally *tl, int ep) {
    size_t slot = (size_t)cf->parts_per_request * (8 + BATCH_PREFIX_MAX + 2 * sizeof(struct iovec) + 8) +
                  PRODUCE_HEAD_MAX;
    if (slot * cf->connections * cf->depth > PRODUCE_SLOTS_BYTES_MAX) {
        die("connections x depth x parts per request is too much");
    }
    struct produce *pr = die_alloc(1, sizeof *pr);
    pr->cf = cf;
    pr->tl = tl;
    pr->stride = cf->connections < cf->partitions ? cf->connections : cf->partitions;
    produce_templates(pr);
    produce_head(pr);
    pr->conns = die_alloc(cf->connections, sizeof pr->conns[0]);
    for (unsigned i = 0; i < cf->connections; i++) {
        produce_conn_open(pr, i, ep);
    }
    return pr;
}

void produce_free(struct produce *pr) {
    for (unsigned i = 0; i < pr->cf->connections; i++) {
        struct produce_conn *pc = &pr->conns[i];
        conn_close(&pc->c);
        for (unsigned s = 0; s < pr->cf->depth; s++) {
            free(pc->slots[s].pieces);
            free(pc->slots[s].head);
            free(pc->slots[s].iov);
        }
        free(pc->slots);
        free(pc->sequence);
    }
    for (unsigned i = 0; i < pr->template_n; i++) {
        batch_template_done(&pr->templates[i]);
    }
    free(pr->conns);
    free(pr);
}

/* One partition's part of a request, written at `p`; returns the bytes written. */
static size_t produce_piece(struct produce *pr, struct produce_conn *pc, struct produce_slot *sl, unsigned k,
                            uint8_t *p) {
    const struct batch_template *t = &pr->templates[pr->template_at];
    pr->template_at = pr->template_at + 1 == pr->template_n ? 0 : pr->template_at + 1;
    unsigned own = pc->cursor;
    pc->cursor = own + 1 == pc->part_n ? 0 : own + 1;
    uint32_t part = pc->first_part + own * pr->stride;
    struct batch_producer who = {pc->who.id, pc->who.epoch, -1};
    if (pc->sequence) {
        who.sequence = pc->sequence[own];
        pc->sequence[own] = (int32_t)(((uint32_t)who.sequence + t->records) & 0x7fffffff);
    }
    kbuf_put32(p, part);
    kbuf_put32(p + 4, (uint32_t)t->size);
    sl->pieces[k].part = part;
    sl->pieces[k].crc = batch_stamp(t, &who, sl->at_ns, p + 8);
    sl->iov[2 * k + 1] = (struct iovec){t->bytes + t->prefix, t->size - t->prefix};
    struct tally_part *tp = &pr->tl->parts[part];
    tp->sent_records += t->records;
    tp->sent_crc += sl->pieces[k].crc;
    return 8 + t->prefix;
}

static void produce_issue(struct produce *pr, struct produce_conn *pc, uint64_t at_ns) {
    struct produce_slot *sl = &pc->slots[pc->next % pr->cf->depth];
    unsigned n = pr->cf->parts_per_request;
    sl->at_ns = at_ns;
    sl->correlation = (int32_t)(pc->next & 0x7fffffff);
    memcpy(sl->head, pr->head, pr->head_n);
    size_t at = pr->head_n, from = 0;
    for (unsigned k = 0; k < n; k++) {
        at += produce_piece(pr, pc, sl, k, sl->head + at);
        sl->iov[2 * k] = (struct iovec){sl->head + from, at - from};
        from = at;
    }
    size_t body = n * pr->templates[0].size;
    kbuf_put32(sl->head, (uint32_t)(pr->head_n + 8u * n + body - 4));
    kbuf_put32(sl->head + 8, (uint32_t)sl->correlation);
    sl->iov_n = 2 * n;
    pc->next++;
    pr->issued++;
    pr->outstanding++;
    pr->bytes_issued += body;
}

static void produce_count(struct produce *pr, const struct produce_slot *sl, uint64_t now) {
    struct tally *tl = pr->tl;
    pr->outstanding--;
    uint64_t took = now - sl->at_ns;
    if (pr->cf->mode != CONF_E2E) {
        hist_add(&tl->interval, took);
    }
    if (tally_in_window(tl, sl->at_ns)) {
        hist_add(&tl->ack, took);
    }
    if (tally_in_window(tl, now)) {
        tl->requests++;
        tl->records += (uint64_t)pr->cf->parts_per_request * pr->templates[0].records;
        tl->bytes += pr->cf->parts_per_request * pr->templates[0].size;
    }
}

/* acks=0: a request is over when its last byte went to the socket. */
static void produce_sent(struct produce *pr, struct produce_conn *pc) {
    uint64_t now = clock_ns();
    for (; pc->oldest < pc->unsent; pc->oldest++) {
        const struct produce_slot *sl = &pc->slots[pc->oldest % pr->cf->depth];
        for (unsigned k = 0; k < pr->cf->parts_per_request; k++) {
            struct tally_part *tp = &pr->tl->parts[sl->pieces[k].part];
            tp->acked_records += pr->templates[0].records;
            tp->acked_crc += sl->pieces[k].crc;
        }
        produce_count(pr, sl, now);
    }
}

/* Moves the send position on by `n` bytes. */
static void produce_advance(struct produce *pr, struct produce_conn *pc, size_t n) {
    while (n > 0) {
        const struct produce_slot *sl = &pc->slots[pc->unsent % pr->cf->depth];
        size_t left = sl->iov[pc->iov_at].iov_len - pc->iov_done;
        if (n < left) {
            pc->iov_done += n;
            return;
        }
        n -= left;
        pc->iov_done = 0;
        if (++pc->iov_at == sl->iov_n) {
            pc->iov_at = 0;
            pc->unsent++;
        }
    }
}

/* One gathered send of what is waiting. False when the socket is full or nothing waits. */
static bool produce_send_once(struct produce *pr, struct produce_conn *pc) {
    struct iovec iov[PRODUCE_IOV_MAX];
    size_t n = 0, want = 0;
    for (uint64_t s = pc->unsent; s < pc->next && n < PRODUCE_IOV_MAX; s++) {
        const struct produce_slot *sl = &pc->slots[s % pr->cf->depth];
        for (unsigned i = s == pc->unsent ? pc->iov_at : 0; i < sl->iov_n && n < PRODUCE_IOV_MAX; i++) {
            iov[n] = sl->iov[i];
            want += iov[n++].iov_len;
        }
    }
    if (n == 0) {
        return false;
    }
    iov[0].iov_base = (uint8_t *)iov[0].iov_base + pc->iov_done;
    iov[0].iov_len -= pc->iov_done;
    want -= pc->iov_done;
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = n};
    ssize_t w = sendmsg(pc->c.fd, &m, MSG_NOSIGNAL);
    if (w < 0 && errno != EAGAIN && errno != EINTR) {
        die("send");
    }
    if (w > 0) {
        produce_advance(pr, pc, (size_t)w);
    }
    conn_want_write(&pc->c, w < (ssize_t)want);
    return w == (ssize_t)want;
}

static void produce_send(struct produce *pr, struct produce_conn *pc) {
    while (produce_send_once(pr, pc)) {
    }
    if (pr->cf->acks == 0) {
        produce_sent(pr, pc);
    }
}

static void produce_on_writable(struct conn *c) {
    produce_send(c->owner, (struct produce_conn *)c);
}

/* The piece for `part`: at the same place as in the request, or wherever the broker moved it to. */
static const struct produce_piece *produce_find(const struct produce *pr, const struct produce_slot *sl, unsigned at,
                                                int32_t part) {
    for (unsigned i = 0; i < pr->cf->parts_per_request; i++) {
        const struct produce_piece *p = &sl->pieces[(at + i) % pr->cf->parts_per_request];
        if (p->part == (uint32_t)part) {
            return p;
        }
    }
    die("reply for partition %d that was not asked", part);
}

static void produce_on_frame(struct conn *c, const uint8_t *p, size_t n) {
    struct produce *pr = c->owner;
    struct produce_conn *pc = (struct produce_conn *)c;
    uint64_t now = clock_ns();
    struct produce_slot *sl = &pc->slots[pc->oldest % pr->cf->depth];
    struct kread r = kread_of(p, n);
    if (pc->oldest == pc->unsent || kread_i32(&r) != sl->correlation) {
        die("produce: reply out of order");
    }
    int32_t topics = kread_i32(&r);
    (void)kread_str(&r);
    int32_t parts = kread_i32(&r);
    if (r.bad || topics != 1 || parts != (int32_t)pr->cf->parts_per_request) {
        die("produce: strange reply");
    }
    for (unsigned k = 0; k < (unsigned)parts; k++) {
        const struct produce_piece *pp = produce_find(pr, sl, k, kread_i32(&r));
        int16_t error = kread_i16(&r);
        kread_skip(&r, 24);
        if (error) {
            pr->tl->errors++;
            continue;
        }
        struct tally_part *tp = &pr->tl->parts[pp->part];
        tp->acked_records += pr->templates[0].records;
        tp->acked_crc += pp->crc;
    }
    if (r.bad) {
        die("produce: short reply");
    }
    pc->oldest++;
    produce_count(pr, sl, now);
}

void produce_start(struct produce *pr, uint64_t now_ns) {
    pr->start_ns = now_ns;
    pr->running = true;
}

static bool produce_conn_free(const struct produce *pr, const struct produce_conn *pc) {
    return pc->next - pc->oldest < pr->cf->depth;
}

/* Closed loop: every free place is filled at once. */
static void produce_closed(struct produce *pr) {
    for (unsigned i = 0; i < pr->cf->connections; i++) {
        struct produce_conn *pc = &pr->conns[i];
        if (!produce_conn_free(pr, pc)) {
            continue;
        }
        uint64_t now = clock_ns();
        while (produce_conn_free(pr, pc) && !produce_spent(pr)) {
            produce_issue(pr, pc, now);
        }
        if (!pc->c.want_write) {
            produce_send(pr, pc);
        }
    }
}

/* Open loop: request k is due at start + k / rate; the next connection with a free place takes it. */
static void produce_open(struct produce *pr) {
    uint64_t now = clock_ns(), places = (uint64_t)pr->cf->connections * pr->cf->depth;
    while (!produce_spent(pr) && pr->outstanding < places) {
        uint64_t due = pr->start_ns + (uint64_t)((double)pr->issued * 1e9 / pr->cf->rate);
        if (due > now) {
            return;
        }
        struct produce_conn *pc;
        do {
            pc = &pr->conns[pr->turn_conn];
            pr->turn_conn = pr->turn_conn + 1 == pr->cf->connections ? 0 : pr->turn_conn + 1;
        } while (!produce_conn_free(pr, pc));
        pr->late_max = now - due > pr->late_max ? now - due : pr->late_max;
        produce_issue(pr, pc, due);
        if (!pc->c.want_write) {
            produce_send(pr, pc);
        }
    }
}

void produce_turn(struct produce *pr) {
    if (!pr->running) {
        return;
    }
    if (pr->cf->rate > 0) {
        produce_open(pr);
    } else {
        produce_closed(pr);
    }
}

void produce_stop(struct produce *pr) {
    pr->running = false;
}

uint64_t produce_outstanding(const struct produce *pr) {
    return pr->outstanding;
}

size_t produce_batch_size(const struct produce *pr) {
    return pr->templates[0].size;
}

uint64_t produce_late_max(const struct produce *pr) {
    return pr->late_max;
}

bool produce_spent(const struct produce *pr) {
    return pr->cf->bytes_max && pr->bytes_issued >= pr->cf->bytes_max;
}
