/* What fsession.c (one session) and fsessions.c (all of them) tell each other. */
#pragma once

#include "state/fsessions.h"

size_t fsession_part_bytes(const struct fsessions *fs);        /* charged for one part */
void fsession_part_drop(struct fsession_part *p);              /* out of its session; freed unless it is watched */
