/* What recovery needs beyond a log's own files: reading batch headers without their bodies. Boot, synchronous. */
#pragma once

#include "wire/batch.h"

struct plog;
struct seg;

/* Calls on_head for the header of each batch of sg in [pos, end), in order, skipping bodies and their CRC. DAMAGED when the chain breaks (*ret_bad is where), IO,
 * NOMEM. base is the offset at pos. */
err recover_heads(struct plog *lg, struct seg *sg, int64_t pos, off64 base, void (*on_head)(void *u, const struct batch_head *h), void *u, int64_t *ret_bad);
/* Producer states as of offset `upto`: the snapshot taken there, or an older one and the headers after it, or all headers. */
err recover_producers(struct plog *lg, off64 upto);
/* Leader epochs below `upto`: from leader-epoch-checkpoint, or when that is missing or damaged from all headers. The mark's own epoch is added. */
err recover_epochs(struct plog *lg, off64 upto);
