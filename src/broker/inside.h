/* What the files of this room tell each other. */
#pragma once

#include "base/mem.h"
#include "broker/node.h"
#include "part.h"

/* ask.c */
void ask_deliver(struct shard *sh, struct list *link);

/* shard.c */
err shard_new(struct node *n, struct port *port, uint32_t index, struct shard **ret_sh);
void shard_free(struct shard *sh);
/* sh->live anew, from the node's settings and the dynamic ones. */
void shard_conf(struct shard *sh);

/* append.c: marks of pt moved, or what was queued from `from` on failed. */
void append_settle(struct part *pt, off64 written);
void append_fail(struct part *pt, off64 from, err why);
/* Take up asks that were held back, as far as there is room again. */
void append_resume(struct shard *sh);
/* prod.c: the producer window of pt; producer_id of h is >= 0. See state/prodwin.h. */
#define PROD_EXPIRY_EVERY_MS 60000
void prod_shard_init(struct shard *sh);
err prod_reserve(struct part *pt, const struct batch_head *h);
void prod_note(struct part *pt, const struct batch_head *h);
void prod_undo(struct part *pt, off64 from);
err prod_load(struct part *pt, span file);
void prod_free(struct part *pt);
/* watch.c: wake every watch of pt, fetches' and sessions'. */
void watch_wake(struct part *pt);
/* offsets.c */
void offsets_settle(struct part *pt);
void offsets_fail(struct part *pt, err why);
void offsets_shard_init(struct shard *sh);
/* retain.c */
void retain_shard_init(struct shard *sh);

/* marks.c: the store's hooks, and step 4. */
struct store_hooks;
void marks_hooks(struct shard *sh, struct store_hooks *ret);
void marks_settle(struct shard *sh);
void marks_touch(struct part *pt);

/* graves.c, boot. */
struct datadir;
struct graves {
    struct grave *v;
    size_t n, cap;
};
void graves_note(struct graves *g, const char *name, uuid id);
err graves_bury(struct graves *g, struct datadir *dd);
void graves_done(struct graves *g);

/* raise.c: leader epochs that are to rise. Part of struct node_phase; zeroed at first. */
struct raise {
    struct node *node;
    struct raise_owed {
        uuid topic_id;
        int32_t partition;
        bool asked;                    /* in the frame under way */
    } *v;
    size_t n, cap;
    struct timer again;
    bool stopped;
    void (*done)(struct node *n, err e);           /* until it was called */
};
err raise_owe(struct raise *ra, struct part *pt);              /* boot: pt takes no appends until its epoch rose */
void raise_start(struct raise *ra, struct node *n, void (*done)(struct node *n, err e));       /* done: durable and applied, or (BR-061) no space: they wait */
void raise_stop(struct raise *ra);
void raise_free(struct raise *ra);

/* topics.c: open or close the parts of a topic that this shard owns; the hooks of struct meta. */
void topics_hook(struct shard *sh);
/* The next LIMIT_PARTS_PER_TURN parts of topics that are being opened or removed. */
void topics_pass(struct shard *sh);
/* An ask that carried a frame: is it to be returned by topics_pass, when all that its frame began is done? */
bool topics_hold(struct shard *sh, struct ask *ask);
void topics_shard_done(struct shard *sh);

/* metad.c, shard 0. */
struct topics_change;
struct metalog;
err metad_new(struct node *n, struct meta *ahead, struct metad **ret_md);       /* takes ahead */
void metad_bind(struct metad *md, struct metalog *ml);                          /* boot: takes ml */
void metad_start(struct metad *md, struct port *port);                          /* appends may come from here on */
void metad_change(struct metad *md, struct topics_change *c);
/* Propose a ready frame (start: format, raised epochs); the bytes are copied. done(u, OK) after every shard has applied it. */
void metad_propose(struct metad *md, span frame, void (*done)(void *u, err e), void *u);
void metad_stop(struct metad *md, void (*done)(void *u), void *u);
struct meta *metad_ahead(struct metad *md);
void metad_free(struct metad *md);
