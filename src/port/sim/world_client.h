/* What the simulated network tells a script's client. */
#pragma once

#include "pipe_sim.h"

void world_client_arrived(struct world_client *c);
void world_client_room(struct world_client *c);
void world_client_free_all(struct world *w);
