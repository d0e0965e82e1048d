/* What side files hold, from them or rebuilt from the log. Boot, synchronous. */
#pragma once

#include "base/err.h"
#include "base/types.h"

struct plog;

/* Producer states as of offset `upto`: the snapshot taken there, or an older one and the headers after it, or all
 * headers. */
err recover_producers(struct plog *lg, off64 upto);
/* Leader epochs below `upto`: from leader-epoch-checkpoint, or when that is missing or damaged from all headers. The
 * mark's own epoch is added. */
err recover_epochs(struct plog *lg, off64 upto);
