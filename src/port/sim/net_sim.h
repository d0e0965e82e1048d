/* The node's end of the simulated network: listeners and connections of a shard. */
#pragma once

#include "loop_sim.h"
#include "pipe_sim.h"

void net_sim_init(struct loop_sim *lp);
void net_sim_settle(struct loop_sim *lp);        /* take what the node's code has sent and closed */
void net_sim_crash(struct world_node *n, bool power);      /* all sockets of the node die, without callbacks */
bool net_sim_knock(struct wire_sim *wr, uint16_t port);    /* a client connects; false: nobody listens there */
void net_sim_arrived(struct net_conn *c);        /* bytes, or the end, of the client */
void net_sim_reset(struct net_conn *c);          /* the client resets after its orderly end. NULL-safe */
void net_sim_room(struct net_conn *c);           /* the client's socket has room again */
