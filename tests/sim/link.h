/* A client's connection that is made again whenever it ends. */
#pragma once

#include "sim.h"

struct link {
    struct sim *s;
    struct kclient *kc;                /* NULL between two attempts */
    int16_t versions[KCLIENT_APIS];
    void (*on_up)(void *u);
    void (*on_down)(void *u);          /* answers are cancelled already; may be NULL */
    void *u;
};

/* Draws versions (link_at_least narrows them) and connects at the world's next step. */
void link_open(struct link *l, struct sim *s, void (*on_up)(void *u), void (*on_down)(void *u), void *u);
void link_at_least(struct link *l, int key, int16_t version);  /* before the first connection, that is, right after link_open */
void link_close(struct link *l);       /* no callback afterwards, pending answers included */
bool link_is_up(const struct link *l);
/* The client itself breaks the connection: answers are lost. Not from within a callback of this connection. */
void link_break(struct link *l);
