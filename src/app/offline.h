/* `perigee log dump` and `perigee log verify`: the offline look at a directory. Handlers for cli_main. */
#pragma once

#include "cli/cli.h"

int offline_dump(const struct cli_args *a);
int offline_verify(const struct cli_args *a);
