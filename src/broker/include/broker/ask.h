/* How shards talk: a home sends an ask to an owner, which runs it and gives it back. The ask is embedded in the request; sending gives up its memory
 * until `done` runs on the home's thread. Asks and returns from one shard to another share one FIFO; a shard's asks to itself go through the same
 * path (a local queue), so nothing runs inside ask_send. */
#pragma once

#include "base/err.h"
#include "port/inbox.h"

struct shard;

struct ask {
    struct inbox_item item;
    struct shard *home, *owner;
    void (*run)(struct ask *a);        /* on the owner's thread; answers now or later with ask_return */
    void (*done)(struct ask *a);       /* on the home's thread; the memory is home's again */
    err err;
    bool returning;
};

void ask_init(struct ask *a, void (*run)(struct ask *a), void (*done)(struct ask *a));
void ask_send(struct shard *home, struct shard *owner, struct ask *a);
void ask_return(struct ask *a, err e);             /* owner's thread, exactly once per send */
