/* The write pass: one gathered write in flight per log. */
#pragma once

#include "base/list.h"
#include "base/types.h"

struct store;
struct plog;
struct write_job;

struct write {
    struct write_job *spare;
    uint32_t inflight;
};

void write_init(struct store *st);
void write_free(struct store *st);
/* lg has queued bytes: the next pass takes it. */
void write_wanted(struct plog *lg);
void write_pass(struct store *st);
