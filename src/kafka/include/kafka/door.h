/* The Kafka door: listeners on shard 0, connections on every shard. Wired by app (or a simulation) into node_boot. */
#pragma once

#include "broker/node.h"

/* The door for node_boot. `u` stays NULL. Listeners come from node->conf.listeners; their bound_port is set when start returns OK. */
struct node_door door_kafka(void);
