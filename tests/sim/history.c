/* The history checker of the simulation.
 *
 * Happy path: producers tell what they send and what was acknowledged, consumers tell each batch they read; every rule that can be judged at
 * once is; the rest is judged when the final reader has read everything.
 * What may be lost: nothing of acks=-1 and nothing that anybody has read; what acks=1 acknowledged, up to the next power loss; in topics with
 * write.caching also what acks=-1 acknowledged or somebody read, up to the next power loss; on a disk that lies, anything. What is there must be
 * right in all cases.
 * Failure modes: a broken rule fails the run with its name.
 * Runs on: the test. */
#include "history.h"

#include <string.h>

#include "base/be.h"
#include "base/mem.h"
#include "base/must.h"
#include "wire/record.h"
#include "wire/zip.h"

#define UNZIP_BYTES (16 << 20)

void history_init(struct history *h, struct world *w, const struct plan *p) {
    *h = (struct history){.w = w, .plan = p};
}

void history_done(struct history *h) {
    for (size_t i = 0; i < h->batches_n; i++) {
        mem_free(h->batches[i].bytes);
    }
    mem_free(h->batches);
    for (size_t t = 0; t < PLAN_TOPICS; t++) {
        for (size_t i = 0; i < PLAN_PARTS; i++) {
            mem_free(h->parts[t][i].at);
            mem_free(h->parts[t][i].seen);
        }
    }
}

void history_power_loss(struct history *h) {
    h->losses++;
    for (size_t t = 0; t < h->plan->topics_n; t++) {
        for (size_t i = 0; h->plan->topics[t].caching && i < PLAN_PARTS; i++) {
            struct history_part *p = &h->parts[t][i];
            p->at_n = 0;
            p->read_end = 0;
            p->epoch = 0;
        }
    }
}

uint32_t history_sent(struct history *h, const struct history_batch *b) {
    if (h->batches_n == h->batches_cap) {
        h->batches_cap = h->batches_cap ? h->batches_cap * 2 : 256;
        h->batches = mem_realloc(MEM_TEST, h->batches, h->batches_cap * sizeof *h->batches);
        must(h->batches);
    }
    struct history_batch *copy = &h->batches[h->batches_n];
    *copy = *b;
    copy->bytes = mem_alloc(MEM_TEST, b->n);
    must(copy->bytes);
    memcpy(copy->bytes, b->bytes, b->n);
    copy->outcome = HISTORY_UNKNOWN;
    copy->base = copy->seen = -1;
    return (uint32_t)h->batches_n++;
}

void history_value(uint8_t ret[8], uint32_t number, uint32_t index) {
    be32_put(ret, number);
    be32_put(ret + 4, index);
}

bool history_is_weak(const struct history *h, uint32_t topic) {
    return h->plan->lies || (h->plan->topics[topic].caching && (h->losses > 0 || h->plan->disk_errors));
}

static void same_place(struct history *h, const struct history_batch *b, uint32_t number) {
    if (b->base >= 0 && b->seen >= 0 && b->base != b->seen && !history_is_weak(h, b->topic)) {
        world_fail(h->w, "I11: batch %u of %s-%u was acknowledged at %lld and read at %lld", number, h->plan->topics[b->topic].name, b->part,
                   (long long)b->base, (long long)b->seen);
    }
}

void history_on_its_way(struct history *h, uint32_t number) {
    h->batches[number].losses = h->losses;
}

void history_acked(struct history *h, uint32_t number, off64 base) {
    struct history_batch *b = &h->batches[number];
    must(b->outcome == HISTORY_UNKNOWN);
    b->outcome = HISTORY_ACKED;
    b->base = base;
    h->acked += b->records;
    if (h->plan->producers[b->producer].idempotent) {
        same_place(h, b, number);
    }
}

void history_producer_id(struct history *h, int64_t id) {
    for (size_t i = 0; i < h->ids_given; i++) {
        if (h->producer_ids[i] == id) {
            world_fail(h->w, "producer id %lld was given twice", (long long)id);
        }
    }
    must(h->ids_given < sizeof h->producer_ids / sizeof h->producer_ids[0]);
    h->producer_ids[h->ids_given++] = id;
}

void history_refused(struct history *h, uint32_t number) {
    h->batches[number].outcome = HISTORY_REFUSED;
    h->refused++;
}

/* The number carried by the first record of a batch, or HISTORY_NONE when there is none that makes sense. */
static uint32_t number_of(struct history *h, span batch) {
    struct arena a;
    struct record_walk walk;
    struct record r;
    uint32_t number = HISTORY_NONE;
    arena_init(&a, NULL, UNZIP_BYTES);
    if (record_walk_init(&walk, batch, &a, UNZIP_BYTES) == ERR_OK && record_walk_next(&walk, &r) && r.value.n >= 8) {
        number = be32_get(r.value.p);
    }
    arena_done(&a);
    return number < h->batches_n ? number : HISTORY_NONE;
}

/* I16: all that the broker may change is the base offset, the leader epoch and, with LogAppendTime, the timestamps (and so the CRC). */
static bool same_bytes(const struct history_batch *b, span got, bool append_time) {
    if (got.n != b->n) {
        return false;
    }
    const uint8_t *x = b->bytes, *y = got.p;
    bool same = memcmp(x + 8, y + 8, 4) == 0 && x[16] == y[16] && memcmp(x + 23, y + 23, 12) == 0 && memcmp(x + 43, y + 43, got.n - 43) == 0;
    if (append_time) {
        return same && (be16_get(x + 21) | BATCH_ATTR_LOG_APPEND_TIME) == be16_get(y + 21);
    }
    return same && memcmp(x + 17, y + 17, 6) == 0 && memcmp(x + 35, y + 35, 8) == 0;
}

/* S5.16: packed anew, the records are the same, and all of the head but the codec, the length and the CRC. */
static bool same_records(const struct history_batch *b, span got, bool append_time) {
    struct batch_head x, y;
    struct arena a;
    span unpacked[2];
    arena_init(&a, NULL, 2 * UNZIP_BYTES);
    bool same = batch_head_get(span_of(b->bytes, b->n), &x) == ERR_OK && batch_head_get(got, &y) == ERR_OK && got.n == y.bytes &&
                zip_unpack(batch_codec(&x), span_of(b->bytes + BATCH_HEAD_BYTES, b->n - BATCH_HEAD_BYTES), UNZIP_BYTES, &a, &unpacked[0]) == ERR_OK &&
                zip_unpack(batch_codec(&y), span_of(got.p + BATCH_HEAD_BYTES, got.n - BATCH_HEAD_BYTES), UNZIP_BYTES, &a, &unpacked[1]) == ERR_OK &&
                span_eq(unpacked[0], unpacked[1]) && memcmp(b->bytes + 23, got.p + 23, 12) == 0 && memcmp(b->bytes + 43, got.p + 43, BATCH_HEAD_BYTES - 43) == 0;
    int16_t marks = (int16_t)~(BATCH_ATTR_CODEC | (append_time ? BATCH_ATTR_LOG_APPEND_TIME : 0));
    same = same && (x.attributes & marks) == (y.attributes & marks) && (append_time || x.max_ts_ms == y.max_ts_ms);
    arena_done(&a);
    return same;
}

static bool is_as_sent(const struct plan_topic *t, const struct history_batch *b, span got) {
    struct batch_head x, y;
    if (t->codec < 0 || batch_head_get(span_of(b->bytes, b->n), &x) != ERR_OK || (int)batch_codec(&x) == t->codec) {
        return same_bytes(b, got, t->append_time);
    }
    return batch_head_get(got, &y) == ERR_OK && (int)batch_codec(&y) == t->codec && same_records(b, got, t->append_time);
}

static void remember(struct history_part *p, off64 base, uint32_t records, uint32_t number) {
    size_t end = (size_t)base + records;
    if (end > p->at_cap) {
        p->at_cap = end * 2;
        p->at = mem_realloc(MEM_TEST, p->at, p->at_cap * sizeof *p->at);
        must(p->at);
    }
    for (; p->at_n < end; p->at_n++) {
        p->at[p->at_n] = HISTORY_NONE;
    }
    for (uint32_t i = 0; i < records; i++) {
        p->at[(size_t)base + i] = number;
    }
}

/* I4: nobody ever saw something else at these offsets. */
static void same_as_others(struct history *h, const struct history_where *at, off64 base, uint32_t number) {
    const struct history_part *p = &h->parts[at->topic][at->part];
    for (uint32_t i = 0; i < h->batches[number].records; i++) {
        size_t o = (size_t)base + i;
        if (o < p->at_n && p->at[o] != HISTORY_NONE && p->at[o] != number && !history_is_weak(h, at->topic)) {
            world_fail(h->w, "I4: %s-%u offset %zu held batch %u and now holds %u", h->plan->topics[at->topic].name, at->part, o, p->at[o], number);
        }
    }
}

/* S19.5: who read another batch at this offset can tell by the epoch that it was taken back. */
static void same_in_epoch(struct history *h, const struct history_where *at, const struct batch_head *head, uint32_t number) {
    struct history_part *p = &h->parts[at->topic][at->part];
    size_t base = (size_t)head->base_offset, end = base + h->batches[number].records;
    if (end > p->seen_cap) {
        p->seen_cap = end * 2;
        p->seen = mem_realloc(MEM_TEST, p->seen, p->seen_cap * sizeof *p->seen);
        must(p->seen);
    }
    for (; p->seen_n < end; p->seen_n++) {
        p->seen[p->seen_n].number = HISTORY_NONE;
    }
    for (size_t o = base; o < end; o++) {
        const struct history_seen *was = &p->seen[o];
        if (was->number != HISTORY_NONE && was->number != number && was->epoch >= head->leader_epoch && !h->plan->lies) {
            world_fail(h->w, "S19.5: %s-%u offset %zu held batch %u in epoch %d and now holds %u in epoch %d", h->plan->topics[at->topic].name, at->part,
                       o, was->number, was->epoch, number, head->leader_epoch);
        }
        p->seen[o] = (struct history_seen){number, head->leader_epoch};
    }
}

static void epoch_order(struct history *h, const struct history_where *at, const struct batch_head *head) {
    struct history_part *p = &h->parts[at->topic][at->part];
    off64 end = batch_last_offset(head) + 1;
    if (end > p->read_end) {
        if (head->leader_epoch < p->epoch && !history_is_weak(h, at->topic)) {
            world_fail(h->w, "I12: leader epoch of %s-%u went from %d back to %d", h->plan->topics[at->topic].name, at->part, p->epoch,
                       head->leader_epoch);
        }
        p->read_end = end;
        p->epoch = head->leader_epoch;
    }
}

off64 history_read(struct history *h, const struct history_where *at, span batch) {
    const struct plan_topic *topic = &h->plan->topics[at->topic];
    struct batch_head head;
    if (batch_head_get(batch, &head) != ERR_OK || !batch_crc_ok(batch)) {
        world_fail(h->w, "I16: %s-%u: a batch that is none", topic->name, at->part);
    }
    bool around = plan_goes(topic) && head.base_offset < at->expected && at->expected <= batch_last_offset(&head);     /* the log start lies in it */
    if (at->expected >= 0 && head.base_offset != at->expected && !around && !history_is_weak(h, at->topic)) {
        world_fail(h->w, "I8: %s-%u: offset %lld where %lld was expected", topic->name, at->part, (long long)head.base_offset,
                   (long long)at->expected);
    }
    uint32_t number = number_of(h, batch);
    struct history_batch *b = number != HISTORY_NONE ? &h->batches[number] : NULL;
    if (!b || b->topic != at->topic || b->part != at->part || !is_as_sent(topic, b, batch)) {
        world_fail(h->w, "I16: %s-%u offset %lld: bytes that nobody sent there", topic->name, at->part, (long long)head.base_offset);
    }
    if (b->outcome == HISTORY_REFUSED) {
        world_fail(h->w, "I5: %s-%u offset %lld: batch %u was refused", topic->name, at->part, (long long)head.base_offset, number);
    }
    same_as_others(h, at, head.base_offset, number);
    same_in_epoch(h, at, &head, number);
    remember(&h->parts[at->topic][at->part], head.base_offset, b->records, number);
    epoch_order(h, at, &head);
    b->seen = b->seen < 0 || topic->caching ? head.base_offset : b->seen;
    if (h->plan->producers[b->producer].idempotent) {
        same_place(h, b, number);
    }
    b->copies += at->final;
    h->read += b->records;
    return head.base_offset + head.last_offset_delta + 1;
}

void history_marks_seen(struct history *h, struct history_marks *m, const struct history_where *at, off64 high, off64 start) {
    const struct plan_topic *topic = &h->plan->topics[at->topic];
    if ((high < m->high || start < m->start) && !history_is_weak(h, at->topic)) {
        world_fail(h->w, "I12: %s-%u: high watermark %lld after %lld, log start %lld after %lld", topic->name, at->part, (long long)high,
                   (long long)m->high, (long long)start, (long long)m->start);
    }
    struct history_part *p = &h->parts[at->topic][at->part];
    if (start > high || start < 0) {
        world_fail(h->w, "%s-%u: log start %lld, high watermark %lld", topic->name, at->part, (long long)start, (long long)high);
    }
    if (topic->retention_bytes < 0 && topic->retention_age < 0 && start > p->start_asked) {
        world_fail(h->w, "S4.17: %s-%u starts at %lld, DeleteRecords was asked up to %lld", topic->name, at->part, (long long)start,
                   (long long)p->start_asked);
    }
    if (at->final) {
        if (start < p->start_acked && !h->plan->lies) {
            world_fail(h->w, "S18.1: %s-%u starts at %lld, %lld was acknowledged", topic->name, at->part, (long long)start, (long long)p->start_acked);
        }
        p->start_final = start;
    }
    m->high = high;
    m->start = start;
}

void history_delete_asked(struct history *h, uint32_t topic, uint32_t part, off64 to) {
    struct history_part *p = &h->parts[topic][part];
    off64 most = to < 0 ? INT64_MAX : to;
    p->start_asked = most > p->start_asked ? most : p->start_asked;
}

void history_delete_acked(struct history *h, uint32_t topic, uint32_t part, off64 start) {
    struct history_part *p = &h->parts[topic][part];
    p->start_acked = start > p->start_acked ? start : p->start_acked;
}

/* Whether the log start passed it, so that it may be gone. */
static bool may_be_gone(const struct history *h, const struct history_batch *b) {
    off64 base = b->base >= 0 ? b->base : b->seen;
    return plan_goes(&h->plan->topics[b->topic]) && (base < 0 || base < h->parts[b->topic][b->part].start_final);
}

/* Whether the promise made for this batch still stands. */
static bool must_be_there(const struct history *h, const struct history_batch *b) {
    bool strong = b->acks == -1 && !h->plan->topics[b->topic].caching;
    bool kept = b->losses == h->losses && !h->plan->disk_errors;
    return b->outcome == HISTORY_ACKED && !h->plan->lies && (strong || kept) && !may_be_gone(h, b);
}

void history_final_end(struct history *h, const struct history_where *at, off64 end) {
    const struct history_part *p = &h->parts[at->topic][at->part];
    if (p->read_end > end && !history_is_weak(h, at->topic)) {
        world_fail(h->w, "I1: %s-%u was read up to %lld and now ends at %lld", h->plan->topics[at->topic].name, at->part,
                   (long long)p->read_end, (long long)end);
    }
}

static void judge_batch(struct history *h, uint32_t number) {
    const struct history_batch *b = &h->batches[number];
    const struct history_part *p = &h->parts[b->topic][b->part];
    const char *name = h->plan->topics[b->topic].name;
    bool once = h->plan->producers[b->producer].idempotent;
    if (must_be_there(h, b) && b->copies == 0) {
        world_fail(h->w, "I2: batch %u of producer %u, acknowledged (acks=%d) at %lld of %s-%u, is lost", number, b->producer, b->acks,
                   (long long)b->base, name, b->part);
    }
    if (must_be_there(h, b) && b->base >= 0 && ((size_t)b->base >= p->at_n || p->at[b->base] != number)) {
        world_fail(h->w, "I11: batch %u, acknowledged at %lld of %s-%u, is elsewhere", number, (long long)b->base, name, b->part);
    }
    if (once && b->copies > 1 && !history_is_weak(h, b->topic)) {
        world_fail(h->w, "I3: batch %u of idempotent producer %u is %u times in %s-%u", number, b->producer, b->copies, name, b->part);
    }
}

/* I7: batches of one producer in the order in which they were first sent; with repeats, for those that are not idempotent. */
static void judge_order(struct history *h, uint32_t topic, uint32_t part) {
    int64_t last[PLAN_PRODUCERS];
    const struct history_part *p = &h->parts[topic][part];
    memset(last, -1, sizeof last);
    for (size_t o = 0; o < p->at_n; o++) {
        if (p->at[o] == HISTORY_NONE || (o > 0 && p->at[o] == p->at[o - 1])) {
            continue;
        }
        const struct history_batch *b = &h->batches[p->at[o]];
        const struct plan_producer *pr = &h->plan->producers[b->producer];
        if ((int64_t)b->number < last[b->producer] && pr->idempotent && !history_is_weak(h, topic)) {
            world_fail(h->w, "I7: %s-%u offset %zu: batch %u of producer %u behind a later one", h->plan->topics[topic].name, part, o, b->number,
                       b->producer);
        }
        last[b->producer] = b->number;
    }
}

void history_judge(struct history *h) {
    for (uint32_t i = 0; i < h->batches_n; i++) {
        judge_batch(h, i);
    }
    for (uint32_t t = 0; t < h->plan->topics_n; t++) {
        for (uint32_t i = 0; i < (uint32_t)h->plan->topics[t].parts; i++) {
            judge_order(h, t, i);
        }
    }
}
