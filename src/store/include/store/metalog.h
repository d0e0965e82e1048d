/* The metadata log (D11): CRC-framed records, appended and synced by shard 0, with snapshots. What the records mean is state/meta's business.
 * boot: metalog_open replays synchronously. Turn: appends through the write and sync lanes, in order, many under one sync. */
#pragma once

#include "base/list.h"
#include "base/span.h"
#include "base/why.h"
#include "port/port.h"

struct metalog;

/* Replays the snapshot, then the log: on_record for each, in order. A torn tail is cut; anything else wrong is DAMAGED with one line in why
 * (file and position), and no file is touched (T12). */
err metalog_open(struct disk *disk, err (*on_record)(void *u, span record), void *u, struct metalog **ret_ml, struct why ret_why);
/* Bind to shard 0's port before the first append. */
void metalog_bind(struct metalog *ml, struct port *port, void (*fatal)(void *u, const char *why), void *u);

struct metalog_append {
    struct list link;
    span records;                  /* borrowed until done; one frame, applied whole or not at all after a crash */
    err err;
    void (*done)(struct metalog_append *a);    /* durable (OK), or refused: NOSPACE (log cut back, goes on), with all that were appended since */
    void *u;
};
void metalog_append(struct metalog *ml, struct metalog_append *a);
/* Bytes since the last snapshot, to decide when to write one. */
int64_t metalog_grown(const struct metalog *ml);
/* Replace snapshot and log by these records (frames of one batch each, mem_alloc'd bytes taken over). Appends wait meanwhile. */
void metalog_snapshot(struct metalog *ml, void *records, size_t n, void (*done)(void *u, err e), void *u);
void metalog_stop(struct metalog *ml, void (*done)(void *u), void *u);
void metalog_free(struct metalog *ml);
