/* A scripted Kafka client: one connection to a simulated broker, requests pipelined, answers matched in order.
 *
 * Every answer must come in the order of its request, carry its correlation id, decode completely at the version asked and leave nothing
 * over; else the run fails. What an answer means is the caller's business. */
#pragma once

#include "port_sim/world.h"
#include "wire/k_api.h"

#define KCLIENT_APIS 128               /* above any API key */

struct kclient;

struct kclient_events {
    void (*up)(void *u);
    void (*down)(void *u);             /* behind all answers and cancellations; the client is still to be closed */
};

/* resp is the decoded k_x_resp, borrowed for the call; NULL when the connection ended first. */
typedef void kclient_done(void *u, const void *resp, int v);

/* versions[key] is the version to speak. Memory: closed by kclient_close only. */
struct kclient *kclient_open(struct world *w, struct world_node *n, uint16_t port, const int16_t versions[KCLIENT_APIS]);
void kclient_listen(struct kclient *kc, const struct kclient_events *ev, void *u);         /* right after opening */
void kclient_close(struct kclient *kc);                        /* no callback afterwards; pending ones are dropped. NULL-safe */
void kclient_break(struct kclient *kc);                        /* reset the connection; ends like one that the broker reset. Not in its callbacks */
bool kclient_is_up(const struct kclient *kc);
size_t kclient_pending(const struct kclient *kc);
int16_t kclient_version(const struct kclient *kc, int key);
/* req is a k_x_req. done NULL: no answer is expected (acks=0). */
void kclient_call(struct kclient *kc, int key, const void *req, kclient_done *done, void *u);
void kclient_raw(struct kclient *kc, const void *p, size_t n); /* bytes as they are, for bad behaviour */
/* Every served version of each API at random. */
void kclient_draw_versions(struct prng *r, int16_t ret_versions[KCLIENT_APIS]);
