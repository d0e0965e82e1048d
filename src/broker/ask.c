/* Asks between shards.
 *
 * Happy path: home sends, the owner's inbox wakes it, run answers with ask_return, the home's inbox wakes it, done. A shard's asks to itself go through sh->local,
 * emptied in step 1 and after step 4, so callers never see a callback inside ask_send.
 * Failure modes: none here; an inbox never refuses.
 * Runs on: home shard (send, done), owner shard (run, return). */
#include "broker/ask.h"

#include "base/must.h"
#include "broker/shard.h"
#include "inside.h"

void ask_init(struct ask *a, void (*run)(struct ask *a), void (*done)(struct ask *a)) {
    list_init(&a->item.link);
    a->home = a->owner = NULL;
    a->run = run;
    a->done = done;
    a->err = ERR_OK;
    a->returning = false;
}

static void ask_post(struct shard *from, struct shard *to, struct ask *a) {
    if (from == to) {
        list_push_back(&to->local, &a->item.link);
        shard_again(to);
    } else {
        to->port->inbox->post(to->port->inbox, &a->item);
    }
}

void ask_send(struct shard *home, struct shard *owner, struct ask *a) {
    a->home = home;
    a->owner = owner;
    a->returning = false;
    a->err = ERR_OK;
    ask_post(home, owner, a);
}

void ask_return(struct ask *a, err e) {
    must(!a->returning);
    a->err = e;
    a->returning = true;
    ask_post(a->owner, a->home, a);
}

void ask_deliver(struct shard *sh, struct list *link) {
    struct ask *a = list_entry(link, struct ask, item.link);
    if (a->returning) {
        must(a->home == sh);
        a->done(a);
    } else {
        must(a->owner == sh);
        sh->stats.asks++;
        a->run(a);
    }
}
