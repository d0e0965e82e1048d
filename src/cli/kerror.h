/* Error codes of the Kafka protocol, by name. */
#pragma once

#include "cli/cli.h"

const char *kerror_name(int code);         /* "UNKNOWN_TOPIC_OR_PARTITION"; a code nobody knows: "UNKNOWN_ERROR_CODE" */
int kerror_exit(int code);                 /* enum cli_exit: what the command's exit code is for it */
