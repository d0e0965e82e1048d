#pragma once
/* skafka.h: the requests the stub answers: ApiVersions 0, Metadata 5, CreateTopics 4, DeleteTopics 1, Produce 7,
 * Fetch 11, ListOffsets 2, InitProducerId 1; one topic. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sconn.h"
#include "slog.h"

struct skafka {
    struct slog *lg;
    char topic[256]; /* empty: none yet */
    uint16_t port;
    int64_t producer_next;
    uint64_t batches; /* appended so far; counts towards the next lie */
    uint64_t now_ns;  /* of this turn; decides whether a waiting fetch is due */
};

enum skafka_verdict {
    SKAFKA_ANSWERED, /* the answer, if any, is in c->out and may leave at once */
    SKAFKA_WRITTEN,  /* the answer waits for this turn's commit */
    SKAFKA_PARKED,   /* a fetch with too little to say: ask again when something moved or at parked_until */
    SKAFKA_REFUSED,  /* nonsense: close the connection */
};

/* Handles one frame. `p` is written to (base offsets) and borrowed until slog_flush. */
enum skafka_verdict skafka_handle(struct skafka *sk, struct sconn *c, uint8_t *p, size_t n);
