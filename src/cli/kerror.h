/* Error codes of the Kafka protocol, by name. */
#pragma once

#include "cli/cli.h"

const char *kerror_name(int code);         /* "UNKNOWN_TOPIC_OR_PARTITION"; a code nobody knows: "UNKNOWN_ERROR_CODE" */
enum cli_exit kerror_exit(int code);       /* what the command's exit code is for it */
