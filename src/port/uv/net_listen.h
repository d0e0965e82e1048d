/* Listening sockets. Private to port_uv. */
#pragma once

#include "net_uv.h"

err net_listen_open(struct net *net, const char *host, uint16_t port,
                    void (*on_accept)(void *u, struct net_accepted *a), void *u, struct net_listener **ret_l);
void net_listen_addr(struct net_listener *l, struct net_addr *ret);
void net_listen_close(struct net_listener *l);
/* A descriptor of ours was closed: accept again if that was what we waited for. */
void net_listen_freed(struct net_uv *n);
