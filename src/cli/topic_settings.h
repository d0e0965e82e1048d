/* A topic's settings on the command line: changed by `topic alter`, shown by `topic describe --settings`. */
#pragma once

#include "topic_ask.h"

/* --set KEY=VALUE and --unset KEY are well formed; *ret_any: there is one. False: wrong use, said on err. */
bool topic_settings_wanted(const struct cli_args *a, bool *ret_any);
/* Change them for every topic named; rows (when `rows`) of those that were changed. Returns the exit code. */
int topic_settings_alter(struct topic_ask *t, bool rows);
/* A row per topic and setting: its value and where that comes from. Returns the exit code. */
int topic_settings_show(struct topic_ask *t);
