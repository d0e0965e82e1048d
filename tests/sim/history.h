/* What clients saw: the history of one run and its verdicts (RELIABILITY 3, I1 to I16). */
#pragma once

#include "plan.h"
#include "base/uuid.h"

#define HISTORY_NONE UINT32_MAX

enum history_outcome {
    HISTORY_UNKNOWN,                   /* sent; no answer yet, or the connection ended */
    HISTORY_ACKED,
    HISTORY_REFUSED                    /* will never be in the log */
};

struct history_batch {                 /* one batch as it was sent */
    uint32_t topic, part;              /* of the plan */
    uint32_t producer;
    uint32_t number;                   /* counts the producer's batches in this partition */
    uint8_t *bytes;
    size_t n;
    uint32_t records;
    enum history_outcome outcome;
    int16_t acks;
    off64 base;                        /* of the acknowledgement; -1: not told */
    uint64_t losses;                   /* power losses when it was sent last: an acknowledgement may be older than it arrives */
    off64 seen;                        /* base offset where it was read first; -1 */
    uint32_t copies;                   /* in the final reading */
};

struct history_seen {
    uint32_t number;                   /* of the batch that was read at this offset last; HISTORY_NONE */
    int32_t epoch;                     /* and its leader epoch */
};

struct history_part {
    uint32_t *at;                      /* batch number at each offset, as first read; HISTORY_NONE */
    size_t at_n, at_cap;
    struct history_seen *seen;         /* the same for ever: nothing that a crash may take back is forgotten here */
    size_t seen_n, seen_cap;
    off64 read_end;                    /* highest offset ever read + 1 */
    off64 start_asked;                 /* highest offset that DeleteRecords was asked to delete up to; INT64_MAX: all */
    off64 start_acked;                 /* log start that was acknowledged */
    off64 start_final;                 /* log start that the final reader was told last */
    int32_t epoch;                     /* of the last batch read at the highest offset */
};

struct history {
    struct world *w;
    const struct plan *plan;
    struct history_batch *batches;
    size_t batches_n, batches_cap;
    struct history_part parts[PLAN_TOPICS][PLAN_PARTS];
    uuid ids[PLAN_TOPICS];
    int64_t producer_ids[64];
    size_t ids_given;
    uint64_t losses;                   /* power losses so far */
    uint64_t acked, read, refused;     /* counts, for the summary */
};

/* What an observer may see move forward only (I12). */
struct history_marks {
    off64 high, start;
};

void history_init(struct history *h, struct world *w, const struct plan *p);
void history_done(struct history *h);
void history_power_loss(struct history *h);

/* A batch of `records` records is about to be sent; returns its number, which its records must carry (history_value). bytes are copied. */
uint32_t history_sent(struct history *h, const struct history_batch *b);
/* The first 8 bytes of each value: number of the batch and index in it. */
void history_value(uint8_t ret[8], uint32_t number, uint32_t index);
void history_on_its_way(struct history *h, uint32_t number);   /* at each sending */
void history_acked(struct history *h, uint32_t number, off64 base);
void history_producer_id(struct history *h, int64_t id);       /* given out: never twice, crashes or not */
void history_refused(struct history *h, uint32_t number);

struct history_where {
    uint32_t topic, part;
    off64 expected;                    /* the offset that must come next; -1: any */
    bool final;
};
/* Whether what was read or acknowledged in this topic may have been taken back. */
bool history_is_weak(const struct history *h, uint32_t topic);
/* One batch was read: its bytes are those that were sent (I16), at the offset it was acknowledged with (I11), where others saw it (I4), behind its
 * predecessor without a gap (I8); another one than was read here before only in a higher leader epoch (S19.5). Returns the offset after it. */
off64 history_read(struct history *h, const struct history_where *at, span batch);
void history_marks_seen(struct history *h, struct history_marks *m, const struct history_where *at, off64 high, off64 start);
/* DeleteRecords up to `to` (-1: all) is sent; was answered. */
void history_delete_asked(struct history *h, uint32_t topic, uint32_t part, off64 to);
void history_delete_acked(struct history *h, uint32_t topic, uint32_t part, off64 start);
/* The final reader has come to the end of a partition: nobody read further before. */
void history_final_end(struct history *h, const struct history_where *at, off64 end);
/* The final reading is complete up to `end`: everything that was acknowledged or read is there (I1, I2), once where that is promised (I3), in
 * the order of its producer (I7). */
void history_judge(struct history *h);
