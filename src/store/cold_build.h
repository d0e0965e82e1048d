/* Building a segment's indexes again from the segment itself. */
#pragma once

#include "port/disk.h"

struct plog;
struct seg;
struct cold_build;

/* sg's file is open and pinned by the caller until done(u, err) ran: OK: sg's indexes and timestamps are in memory,
 * to be written by the next heavy checkpoint; DAMAGED: the segment itself is bad; IO, NOMEM. */
void cold_build_start(struct plog *lg, struct seg *sg, void (*done)(void *u, err e), void *u);
