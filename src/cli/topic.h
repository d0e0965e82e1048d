/* `perigee topic ...`: each asks the broker over the Kafka protocol and returns the exit code. */
#pragma once

#include "cli/cli.h"

int topic_create(const struct cli_args *a);
int topic_list(const struct cli_args *a);
int topic_describe(const struct cli_args *a);
int topic_alter(const struct cli_args *a);
int topic_delete(const struct cli_args *a);
