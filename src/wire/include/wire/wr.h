/* Writing a Kafka message into a chain: small fields to ink, big spans lent (with their chunk). Sticky error in the chain. Quiet. */
#pragma once

#include "base/be.h"
#include "base/chain.h"
#include "base/uuid.h"

#define WR_LEND_MIN 129                /* spans up to 128 bytes are copied, longer ones lent */

struct wr {
    struct chain *out;
};

/* Record bytes in a message: one or more lent pieces. A response's `records` field is a chain built by the store (moved, not copied). */
