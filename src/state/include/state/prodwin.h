/* Idempotent producers of one partition (S6.1–6.9): per producer id the epoch and the last batches. A pure machine: check decides (const), note is the
 * only writer, replay after a crash is note in a loop. Quiet. Runs on: owner shard.
 *
 * A window remembers the last 5 batches and every later one that is not yet stable (at most PRODWIN_BATCHES). When an append fails the newest ones
 * are taken back (prodwin_undo), so that the window always tells what the log holds. */
#pragma once

#include "base/map.h"
#include "base/str.h"
#include "wire/batch.h"

#define PRODWIN_BATCHES 16
#define PRODWIN_DUPLICATES 5

struct prodwin;                                /* all producers of one partition; NULL pointer = none yet */

enum prodwin_verdict { PRODWIN_APPEND, PRODWIN_DUPLICATE };
struct prodwin_answer {
    enum prodwin_verdict verdict;
    off64 base_offset, last_offset;            /* of the batch remembered, for DUPLICATE */
    ms append_ts;                              /* its timestamp */
};
/* Judge a batch with producer_id >= 0: SEQUENCE_GAP (45), PRODUCER_FENCED (47), BAD_RECORD (87: a data batch with a negative sequence, S5.5). Among
 * the last five batches of the current epoch it is a DUPLICATE (S6.2). w may be NULL: S6.6, any first sequence. */
err prodwin_check(const struct prodwin *w, const struct batch_head *h, struct prodwin_answer *ret);
/* Make room for one more batch of h's producer: the only step that may fail (NOMEM; LIMIT when LIMIT_PRODUCERS_PER_PARTITION producers all have
 * unstable batches, else the one silent longest makes room); creates *w at need. Without a note that follows, the batch is due as after an undo. */
err prodwin_reserve(struct prodwin **w, const struct batch_head *h, uint64_t seed);
/* The same where all partitions together have too many: above `ceiling` producers a new one takes the place of the one silent longest, as far as
 * that is stable. */
err prodwin_reserve_within(struct prodwin **w, const struct batch_head *h, uint64_t seed, size_t ceiling);
/* The batch (stamped) was queued at h->base_offset; prodwin_reserve for it came before. Also used for replay. `now` only has to be the clock that
 * prodwin_expire is asked with. A control batch counts for its epoch only. */
void prodwin_note(struct prodwin *w, const struct batch_head *h, ms now);
/* Everything at and above `from` was not appended: forget it, so that each producer stands where it stood before. Of a producer of which nothing is
 * left (it was new) only the sequence that is due is kept, until prodwin_expire: what was in flight behind the refused batch is a gap, not a first
 * batch. One that had more than PRODWIN_BATCHES batches unstable is forgotten whole. w may be NULL. */
void prodwin_undo(struct prodwin *w, off64 from);
/* Batches below need not be kept beyond five. O(1). w may be NULL. */
void prodwin_stable(struct prodwin *w, off64 stable);
/* Drop producers whose last append is `expiry` or longer ago and stable (S6.9); returns how many. Those loaded from a file start their time at the
 * first call. w may be NULL. */
size_t prodwin_expire(struct prodwin *w, ms now, ms expiry);
size_t prodwin_count(const struct prodwin *w);
size_t prodwin_entries(const struct prodwin *w);       /* in memory: those of which only the sequence that is due is kept, too */
void prodwin_free(struct prodwin *w);

/* Kafka's producer snapshot file: version i16 = 1, crc u32 (of what follows), array of entries {producer id i64, epoch i16, last sequence i32, last offset i64,
 * offset delta i32, timestamp i64, coordinator epoch i32, current txn first offset i64}. Only the last batch is stored (as Kafka), ordered by producer id; replay of the
 * log after it restores the others. Nothing is added to ret_file when there are no producers. NOMEM. */
err prodwin_snapshot(const struct prodwin *w, struct str *ret_file);
/* Replaces *w (untouched on failure). DAMAGED: rebuild by replaying the log; NOMEM, LIMIT. */
err prodwin_load(struct prodwin **w, span file, uint64_t seed);
