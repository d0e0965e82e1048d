/* Settings from where a person keeps them: file, environment, command line. Boot; prints mistakes as a person wants to read them: where, what, why. */
#pragma once

#include "cli/cli.h"
#include "state/conf.h"

/* Collect by the options of a: --config FILE < PERIGEE_* < --set KEY=VALUE and --data-dir DIR; then check. Unknown settings are a warning on a->err, malformed
 * or contradictory ones an error there. CLI_OK, CLI_USAGE (unreadable file, --set without '='), CLI_CONFIG. The data directory is conf_str(c, "log.dirs"). */
int config_load(const struct cli_args *a, struct conf **ret_c);

/* `perigee config check FILE` and `perigee config show`: handlers for cli_main. */
int config_check(const struct cli_args *a);
int config_show(const struct cli_args *a);
