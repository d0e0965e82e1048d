/* Leader epochs of one log and where each began (leader-epoch-checkpoint). Most logs have one, which needs no memory
 * of its own. */
#pragma once

#include "base/err.h"
#include "base/span.h"
#include "base/str.h"

struct epochs_entry {
    off64 start;
    int32_t epoch;
};

struct epochs {
    struct epochs_entry one;       /* while cap is 0 */
    struct epochs_entry *v;
    uint32_t n, cap;
};

void epochs_init(struct epochs *es);
void epochs_done(struct epochs *es);
err epochs_reserve(struct epochs *es);                 /* room for one more; NOMEM */
/* `epoch` begins at `start`; entries that it contradicts (epoch or start not below) go. False, and nothing, when it
 * is the last one already. After epochs_reserve. */
bool epochs_add(struct epochs *es, int32_t epoch, off64 start);
void epochs_drop(struct epochs *es, off64 from);       /* entries that begin at or after `from` */
/* The log starts at `start` now: entries that ended at or below it go. */
void epochs_trim(struct epochs *es, off64 start);
/* The log ends at `end` now; the last epoch stays the current one. */
void epochs_cut(struct epochs *es, off64 end);
/* S4.20. log_end answers for the last epoch. */
void epochs_end_for(const struct epochs *es, int32_t asked, off64 log_end, struct epochs_entry *ret);
/* May a stored batch at `at` carry this epoch? Also true when the history is incomplete. */
bool epochs_agree(const struct epochs *es, off64 at, int32_t epoch);
int32_t epochs_at(const struct epochs *es, off64 at);                          /* -1: unknown */
struct epochs_entry epochs_last_before(const struct epochs *es,
                                       off64 end); /* epoch of the last batch below end; {0, -1} when none */
void epochs_print(const struct epochs *es, struct str *ret);                   /* the file's text */
/* Replaces es. DAMAGED (then es is empty) when the text is not exactly a checkpoint; NOMEM. */
err epochs_parse(struct epochs *es, span text);
